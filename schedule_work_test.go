package attn

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/measure"
	"github.com/seed-1415985d/attn/internal/pool"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// How long a Pool of many workers would need, without having the cores: a call is divided as for so
// many workers, its tasks are computed one after another on one core, and their times are assigned
// to simulated workers.

// workCase is a call as attn bench has it, whose inputs are made when a test wants them.
type workCase struct {
	name string
	make func(tb testing.TB) workCall
}

// workCall is a call, and how a test makes it.
type workCall struct {
	call func(p *Pool) error
	make func(w *worker) // of attention, without its division

	product func(on *oneByOne) // of products
}

// divided is the call for some workers.
func (c *workCall) divided(workers int) *dividedCall {
	d := &dividedCall{new(worker), workers, c.product}
	if c.make != nil {
		c.make(d.worker)
	}
	return d
}

// dividedCall is the tasks of a call, divided for some workers.
type dividedCall struct {
	worker  *worker
	workers int
	product func(on *oneByOne)
}

// phases computes all tasks of a call, one after another, and brings times, of phases that follow
// each other, to what each task has taken at least.
func (c *dividedCall) phases(times [][]time.Duration) [][]time.Duration {
	w, at := c.worker, 0
	timed := func(tasks int, task func(i int)) {
		if tasks == 0 {
			return
		}
		if at == len(times) {
			times = append(times, slices.Repeat([]time.Duration{1 << 62}, tasks))
		}
		for i := range tasks {
			if c.workers > 1 { // the task before was another worker's
				w.scratch.ints.blocks.Forget()
			}
			start := time.Now()
			task(i)
			times[at][i] = min(times[at][i], time.Since(start))
		}
		at++
	}
	if c.product != nil {
		one := &oneByOne{workers: c.workers, memory: &w.products, timed: timed}
		c.product(one)
		return times
	}
	phase := func(x pool.Work[*worker], tasks int) {
		x.Begin(w)
		timed(tasks, func(i int) { x.Task(w, i) })
	}
	a := &w.attention
	a.schedule(c.workers)
	if a.plan.packed == &a.once {
		phase(keyPacking{&a.plan}, a.plan.packingTasks())
	}
	phase(a, a.tasks)
	return times
}

// played returns how long workers need for tasks of some times, phase by phase, if each worker
// starts the next task when it has finished one.
func played(phases [][]time.Duration, workers int) (all time.Duration) {
	for _, tasks := range phases {
		free := make([]time.Duration, workers)
		for _, t := range tasks {
			i := 0
			for k := range free {
				if free[k] < free[i] {
					i = k
				}
			}
			free[i] += t
		}
		all += slices.Max(free)
	}
	return all
}

func sumOf(phases [][]time.Duration) (all time.Duration) {
	for _, tasks := range phases {
		for _, t := range tasks {
			all += t
		}
	}
	return all
}

// workCases returns the cases of attn bench, and matrices of floats.
func workCases() (all []workCase) {
	attend := func(name string, s shape, opt Options, keys, values Format, cached bool) {
		all = append(all, workCase{name, func(tb testing.TB) workCall {
			return attendCall(tb, s, &opt, keys, values, cached)
		}})
	}
	for _, integers := range []bool{false, true} {
		opt, causal := Options{Integers: integers}, Options{Integers: integers, Causal: TopLeft}
		suffix := ""
		if integers {
			suffix = ", integers"
		}
		small, large := shape{1, 8, 1, 1024, 1024, 64, 64}, shape{1, 8, 1, 2048, 2048, 128, 128}
		attend("prefill_d64"+suffix, small, opt, 0, 0, false)
		attend("prefill_d64_causal"+suffix, small, causal, 0, 0, false)
		attend("prefill_d128"+suffix, large, opt, 0, 0, false)
		attend("prefill_d128_causal"+suffix, large, causal, 0, 0, false)
		attend("bert"+suffix, shape{8, 12, 1, 128, 128, 64, 64}, opt, 0, 0, false)
		all32, grouped := shape{1, 32, 1, 1, 4096, 128, 128}, shape{1, 8, 4, 1, 4096, 128, 128}
		if !integers {
			attend("decode", all32, opt, 0, 0, false)
			attend("decode_gqa", grouped, opt, 0, 0, false)
		}
		for _, f := range [][2]Format{{F32, F32}, {F16, F16}, {BF16, BF16}, {I8, I8}, {I4, I4},
			{I8, I4}} {
			if integers && f[0] < I8 {
				continue
			}
			format := f[0].String()
			if f[0] != f[1] {
				format += "+" + f[1].String()
			}
			attend(fmt.Sprintf("decode, %s%s", format, suffix), all32, opt, f[0], f[1], true)
			attend(fmt.Sprintf("decode_gqa, %s%s", format, suffix), grouped, opt, f[0], f[1], true)
			if f[0] == f[1] && f[0] != F16 && f[0] != I4 {
				attend(fmt.Sprintf("mla, %s%s", format, suffix), shape{1, 1, 128, 1, 8192, 576, 512}, opt,
					f[0], f[1], true)
			}
		}
	}
	for _, rows := range []int{1, 4, 128} {
		for _, f := range []Format{F32, BF16, I8} {
			all = append(all, matrixCase(f.String(), rows, func(tb testing.TB) (*Matrix, error) {
				return PackMatrix(tensor(random("work"), normal, 1, 1, workOutputs, workOutputs),
					MatrixConfig{Format: f, Integers: f == I8})
			}))
		}
		for _, typ := range []BlockType{Q8_0, Q4_0, Q4_K, Q5_K, Q6_K} {
			all = append(all, matrixCase(typ.String(), rows, func(tb testing.TB) (*Matrix, error) {
				return PackBlocks(ordinaryBlocks(random("work"), typ, workOutputs, workOutputs), typ,
					workOutputs, workOutputs, MatrixConfig{Integers: true})
			}))
		}
	}
	all = append(all, workCase{"MatMul, 512 rows", func(tb testing.TB) workCall {
		r := random("work")
		dst, a := zeros(1, 1, 512, workOutputs), tensor(r, normal, 1, 1, 512, workOutputs)
		w := tensor(r, normal, 1, 1, workOutputs, workOutputs)
		return workCall{call: func(p *Pool) error { return p.MatMul(dst, a, w) },
			product: func(on *oneByOne) {
				must(tb, on.memory.MatMul(on, &tuned, viewed(&dst), viewed(&a), viewed(&w), false))
			}}
	}})
	return all
}

// workOutputs is inputs and outputs of the matrices.
const workOutputs = 4096

// attendCall is a call of Attend or AttendCache.
func attendCall(tb testing.TB, s shape, o *Options, keys, values Format, cached bool) workCall {
	r := random("work")
	h := s.kvh * s.group
	q, dst := tensor(r, normal, s.b, h, s.lq, s.d), zeros(s.b, h, s.lq, s.dv)
	k, v := tensor(r, normal, s.b, s.kvh, s.lk, s.d), tensor(r, normal, s.b, s.kvh, s.lk, s.dv)
	if !cached {
		return workCall{call: func(p *Pool) error { return p.Attend(dst, q, k, v, o) },
			make: func(on *worker) {
				on.attention.plan = newPlan(dst, q, k, v, o)
				must(tb, on.attention.plan.init(o))
			}}
	}
	c, err := NewCache(CacheConfig{Batch: s.b, KVHeads: s.kvh, HeadDim: s.d, ValueDim: s.dv,
		Capacity: s.lk, Format: keys, ValueFormat: values, ValuesInKeys: s.dv < s.d})
	must(tb, err)
	if s.dv < s.d {
		v = Tensor{}
	}
	must(tb, c.Append(k, v))
	return workCall{call: func(p *Pool) error { return p.AttendCache(dst, q, c, o) },
		make: func(on *worker) {
			on.attention.plan = newPlan(dst, q, Tensor{}, Tensor{}, o)
			must(tb, c.plan(&on.attention.plan, o))
		}}
}

// matrixCase is a product of some rows by a square matrix.
func matrixCase(name string, rows int, pack func(tb testing.TB) (*Matrix, error)) workCase {
	return workCase{fmt.Sprintf("matrix %s, %d rows", name, rows), func(tb testing.TB) workCall {
		m, err := pack(tb)
		must(tb, err)
		dst, a := zeros(1, 1, rows, workOutputs), tensor(random("rows"), normal, 1, 1, rows, workOutputs)
		call := func(p *Pool) error { return p.MulMatrix(dst, a, m, nil) }
		return workCall{call: call, product: func(on *oneByOne) {
			must(tb, on.memory.MulMatrix(on, &tuned, viewed(&dst), viewed(&a), bodyOf(m), nil))
		}}
	}}
}

// taskWork estimates the operations of the tasks of an Attend call, in rows of all keys, including
// what each chunk repeats.
func taskWork(j *attention) (tasks []time.Duration) {
	p := &j.plan
	for i := range j.tasks {
		var c chunk
		at, segment, segments := j.chunkOf(i)
		p.chunk(at, &c)
		flops, _ := p.work(&c, 0)
		flops *= float64(c.rows+p.againRows()) / float64(c.rows)
		if segments > 1 {
			seen := min(c.hi, (segment+1)*Segment) - max(c.lo, segment*Segment)
			flops *= float64(max(0, seen)) / float64(c.hi-c.lo)
		}
		tasks = append(tasks, time.Duration(flops/1000))
	}
	return tasks
}

// By the estimate of operations many workers need little more time than their share of a long call:
// prefill, causal or not, few long heads, and one latent vector for all heads.
func TestSharesOfManyWorkers(t *testing.T) {
	for _, c := range []struct {
		h, kvh, lq, lk, d int
		causal            Causal
		most              int // workers
	}{
		{8, 8, 1024, 1024, 64, Full, 32}, {8, 8, 1024, 1024, 64, TopLeft, 16},
		{8, 8, 2048, 2048, 128, Full, 128}, {8, 8, 2048, 2048, 128, TopLeft, 64},
		{32, 8, 512, 4096, 128, BottomRight, 64}, {3, 3, 1000, 1000, 64, Full, 16},
		{12, 12, 384, 384, 64, Full, 16}, {7, 1, 1100, 5000, 64, BottomRight, 32},
	} {
		q, dst := zeros(1, c.h, c.lq, c.d), zeros(1, c.h, c.lq, c.d)
		k, v := zeros(1, c.kvh, c.lk, c.d), zeros(1, c.kvh, c.lk, c.d)
		call := func(workers int) [][]time.Duration {
			opt, j := &Options{Causal: c.causal}, new(attention)
			j.plan = newPlan(dst, q, k, v, opt)
			must(t, j.plan.init(opt))
			j.schedule(workers)
			return [][]time.Duration{taskWork(j)}
		}
		for _, workers := range []int{2, 3, 4, 6, 8, 12, 15, 16, 24, 31, 32, 48, 64, 96, 128} {
			if workers > c.most {
				break
			}
			r := float64(workers) * float64(played(call(workers), workers)) / float64(sumOf(call(1)))
			if r > 1.25 {
				t.Errorf("%+v: %d workers take %.2f times their share", c, workers, r)
			}
		}
	}
}

// workBounds are the cases whose work for 16 workers is more than most of one worker's by design:
// chunks of fewer rows pack keys again and meet a diagonal, latent values are transposed for each
// chunk, what the next chunk reads is prefetched as if others had taken those between, narrow parts
// of rows are packed, and runs of a matrix of floats are short.
var workBounds = map[string]float64{
	"prefill_d64": 1.06, "prefill_d64_causal": 1.13, "prefill_d128_causal": 1.13,
	"bert": 1.06, "bert, integers": 1.06, "prefill_d64, integers": 1.07,
	"prefill_d64_causal, integers": 1.11,
	"mla, F32":                     1.15, "mla, BF16": 1.2, "mla, I8": 1.2, "mla, I8, integers": 1.22,
	"matrix F32, 1 rows": 1.17, "matrix F32, 4 rows": 1.17, "matrix BF16, 4 rows": 1.19,
	"matrix I8, 4 rows": 1.09, "matrix Q4_0, 4 rows": 1.07, "MatMul, 512 rows": 1.37,
}

// A call that is divided for 16 workers needs hardly more processor time than with one worker. They
// have one core, so that a busy machine changes both alike: the difference is the division.
func TestWorkOfManyWorkers(t *testing.T) {
	const (
		most  = 1.04
		noise = 0.04                 // of a median on a busy machine
		calls = 5 * time.Millisecond // at least, of a repetition
		least = 5                    // repetitions
		limit = 5 * time.Second      // for more of them, on a busy machine
	)
	_, told := kerneltest.ProcessorTime()
	if os.Getenv("ATTN_TEST_FULL") != "work" || tuned.ISA == tuning.Generic || !told {
		t.Skip("ATTN_TEST_FULL=work takes a minute for it, where the system tells processor time:" +
			" bounds are those of one CPU with vectors")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	one, many := NewPool(1), NewPool(16)
	defer one.Close()
	defer many.Close()
	for _, of := range workCases() {
		c := of.make(t)
		used := func(p *Pool, n int) time.Duration {
			must(t, c.call(p)) // for the caches
			start, _ := kerneltest.ProcessorTime()
			for range n {
				must(t, c.call(p))
			}
			end, _ := kerneltest.ProcessorTime()
			return end - start
		}
		n := 1 + int(calls/max(used(one, 1), 10*time.Microsecond))
		bound, ratio := most, math.Inf(1)
		if known, ok := workBounds[of.name]; ok {
			bound = known
		}
		var ratios []float64
		begin := time.Now()
		for len(ratios) < least || ratio > bound+noise && time.Since(begin) < limit {
			alone := used(one, n)
			ratios = append(ratios, float64(used(many, n))/float64(alone))
			if len(ratios) >= least {
				ratio = min(ratio, measure.Median(ratios))
			}
		}
		if t.Logf("%-30s %.3f", of.name, ratio); ratio > bound+noise {
			t.Errorf("%s: 16 workers use %.3f of one worker's processor time, want at most %g", of.name,
				ratio, bound)
		}
	}
}

// BenchmarkDivision is for calls of so many workers that each has 300 µs of work: the time of all
// tasks on one core divided by the time of the call with one worker (work), and the time of so many
// workers divided by their share of it (span).
func BenchmarkDivision(b *testing.B) {
	for _, of := range workCases() {
		var c *workCall
		for workers := 2; workers <= 128; workers *= 2 {
			b.Run(fmt.Sprintf("%s/workers=%d", strings.ReplaceAll(of.name, ", ", "-"), workers),
				func(b *testing.B) {
					if c == nil {
						made := of.make(b)
						c = &made
					}
					one, many := c.divided(1), c.divided(workers)
					var base, times [][]time.Duration
					for b.Loop() {
						if base = one.phases(base); sumOf(base) < time.Duration(workers)*300*time.Microsecond {
							b.Skip("less than 300 µs a worker")
						}
						times = many.phases(times)
					}
					all := float64(sumOf(base))
					b.ReportMetric(float64(sumOf(times))/all, "work")
					b.ReportMetric(float64(workers)*float64(played(times, workers))/all, "span")
				})
		}
	}
}
