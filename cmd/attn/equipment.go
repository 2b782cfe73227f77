package main

import (
	"math/rand/v2"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/limits"
	"github.com/seed-1415985d/attn/internal/measure"
)

// equipment is shared by cases: inputs of the same shape, which are large, and the workers.
type equipment struct {
	pool     *attn.Pool // nil for one thread
	inputs   map[sizes]*inputs
	matrices map[matrix]*attn.Matrix
}

// inputs of one shape.
type inputs struct {
	q, k, v attn.Tensor
	caches  map[formats]*attn.Cache // caches that cases asked for
}

func newEquipment(threads int) *equipment {
	e := &equipment{inputs: map[sizes]*inputs{}, matrices: map[matrix]*attn.Matrix{}}
	if threads > 1 {
		e.pool = attn.NewPool(threads)
	}
	return e
}

func (e *equipment) release() {
	if e.pool != nil {
		e.pool.Close()
	}
}

// trial prepares a case and calls it once.
func (e *equipment) trial(c benchCase, threads int) (*measure.Trial, error) {
	call, _, err := e.prepare(&c, threads)
	if err != nil {
		return nil, err
	}
	if err := call(); err != nil {
		return nil, err
	}
	t := measure.NewTrial(c.result(threads), c.bound(), c.work(), call)
	t.Huge = c.huge()
	if threads > 1 {
		t.Wake = func() { e.wake(threads) }
	}
	return t, nil
}

// pause is work that lasts as long as waking a worker.
type pause struct{}

func (pause) Work(int) {
	for start := limits.Now(); limits.Now()-start < 50*time.Microsecond; {
	}
}

// wake wakes the workers of the pool, which then spin for some microseconds. In a model, too, a
// product by a matrix, or attention, follows the work before it without a pause.
func (e *equipment) wake(threads int) {
	for range 4 { // two quick calls wake them
		if err := e.pool.Run(threads, pause{}); err != nil {
			panic(err) // the pool is open
		}
	}
}

// prepare returns the call to measure and its output.
func (e *equipment) prepare(c *benchCase, threads int) (call func() error, dst attn.Tensor,
	err error) {
	if c.matrix != 0 {
		return e.prepareMatrix(c, threads)
	}
	in := e.inputsOf(c.sizes)
	dst = attn.BHLD(make([]float32, c.b*c.h*c.lq*c.valueDim()), c.b, c.h, c.lq, c.valueDim())
	opt := &attn.Options{Integers: c.integers}
	if c.causal {
		opt.Causal = attn.TopLeft
	}
	if c.cached {
		if err := in.fill(c.sizes, c.kind); err != nil {
			return nil, dst, err
		}
	}
	switch {
	case c.cached && threads > 1:
		call = func() error { return e.pool.AttendCache(dst, in.q, in.caches[c.kind], opt) }
	case c.cached:
		call = func() error { return in.caches[c.kind].Attend(dst, in.q, opt) }
	case threads > 1:
		call = func() error { return e.pool.Attend(dst, in.q, in.k, in.v, opt) }
	default:
		call = func() error { return attn.Attend(dst, in.q, in.k, in.v, opt) }
	}
	return call, dst, nil
}

func (e *equipment) inputsOf(s sizes) *inputs {
	if e.inputs[s] == nil {
		random := rand.New(rand.NewPCG(1, 2))
		input := func(h, l int) attn.Tensor {
			return attn.BHLD(normals(random, s.b*h*l*s.d), s.b, h, l, s.d)
		}
		e.inputs[s] = &inputs{q: input(s.h, s.lq), k: input(s.kvh, s.lk), v: input(s.kvh, s.lk),
			caches: map[formats]*attn.Cache{}}
	}
	return e.inputs[s]
}

// normals returns n normal numbers.
func normals(random *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(random.NormFloat64())
	}
	return x
}

// fill appends the keys and values to a cache of a type.
func (in *inputs) fill(s sizes, kind formats) error {
	if in.caches[kind] != nil {
		return nil
	}
	cache, err := attn.NewCache(attn.CacheConfig{Batch: s.b, KVHeads: s.kvh, HeadDim: s.d,
		ValueDim: s.valueDim(), Capacity: s.lk, Format: kind.keys, ValueFormat: kind.values,
		ValuesInKeys: s.dv > 0})
	v := in.v
	if s.dv > 0 {
		v = attn.Tensor{}
	}
	if err == nil {
		err = cache.Append(in.k, v)
	}
	in.caches[kind] = cache
	return err
}
