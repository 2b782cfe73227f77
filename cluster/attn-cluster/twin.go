package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster"
)

// shape is the shape of a sequence and of its queries.
type shape struct {
	layers, heads, kvHeads, dim int
	format                      attn.Format
	integers                    bool
}

// String returns the name of the format.
func (s shape) String() string {
	if s.integers {
		return s.format.String() + " with Integers"
	}
	return s.format.String()
}

// bytes estimates the memory of some tokens.
func (s shape) bytes(tokens int) int64 {
	bits := map[attn.Format]int64{attn.F32: 32, attn.F16: 16, attn.BF16: 16, attn.I8: 9,
		attn.I4: 5}[s.format]
	return int64(s.layers) * int64(tokens) * int64(s.kvHeads) * int64(2*s.dim) * bits / 8
}

// twin is a sequence on a cluster and the same sequence in this process.
type twin struct {
	shape
	link   *cluster.NATS
	far    *cluster.Sequence
	pool   *attn.Pool
	stores []*attn.Store
	near   []*attn.Sequence
	random *rand.PCG
}

// newTwin creates both, for a number of tokens.
func newTwin(l *local, s shape, tokens int, seed uint64) (_ *twin, err error) {
	t := &twin{shape: s, link: l.link, pool: attn.NewPool(0), random: rand.NewPCG(seed, 0)}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	for range s.layers {
		store, err := attn.NewStore(attn.StoreConfig{KVHeads: s.kvHeads, HeadDim: s.dim, ValueDim: s.dim,
			Pages: tokens/attn.Block + 2, Format: s.format})
		if err != nil {
			return nil, err
		}
		t.stores, t.near = append(t.stores, store), append(t.near, store.NewSequence())
	}
	t.far, err = l.client.NewSequence(cluster.SequenceConfig{Layers: s.layers, KVHeads: s.kvHeads,
		HeadDim: s.dim, ValueDim: s.dim, Format: s.format})
	return t, err
}

func (t *twin) close() {
	if t.far != nil {
		t.far.Release()
	}
	for _, s := range t.stores {
		_ = s.Close() // it is open
	}
	_ = t.pool.Close() // nobody uses it
}

// tensor returns random rows of heads, approximately normal: sums of four uniform numbers.
func (t *twin) tensor(rows, heads int) attn.Tensor {
	x := make([]float32, rows*heads*t.dim)
	for i := range x {
		u := t.random.Uint64()
		sum := int(u&0xffff) + int(u>>16&0xffff) + int(u>>32&0xffff) + int(u>>48)
		x[i] = float32(sum-2*0xffff) / 0x9000
	}
	return attn.BLHD(x, 1, rows, heads, t.dim)
}

// append adds tokens to a layer of both.
func (t *twin) append(ctx context.Context, layer, n int) error {
	k, v := t.tensor(n, t.kvHeads), t.tensor(n, t.kvHeads)
	if err := t.near[layer].Append(k, v); err != nil {
		return err
	}
	return t.far.Append(ctx, layer, k, v)
}

// step is the cost of a call.
type step struct {
	far, near      time.Duration // near: in this process, without the append
	sent, received uint64        // bytes of the client
}

// attend compares the last rows of a layer: outputs and LSE have the same bits, or it is an error.
func (t *twin) attend(ctx context.Context, layer, rows int) (step, error) {
	return t.compare(layer, rows, t.far.Len(layer), func(dst, q attn.Tensor, o *attn.Options) error {
		return t.far.Attend(ctx, layer, dst, q, o)
	})
}

// step adds tokens to a layer of both, and compares their rows.
func (t *twin) step(ctx context.Context, layer, n int) (step, error) {
	k, v := t.tensor(n, t.kvHeads), t.tensor(n, t.kvHeads)
	if err := t.near[layer].Append(k, v); err != nil {
		return step{}, err
	}
	return t.compare(layer, n, t.near[layer].Len(), func(dst, q attn.Tensor, o *attn.Options) error {
		return t.far.Step(ctx, layer, dst, q, k, v, o)
	})
}

// compare compares a call with attention in this process.
func (t *twin) compare(layer, rows, length int,
	call func(dst, q attn.Tensor, o *attn.Options) error) (step, error) {
	q := t.tensor(rows, t.heads)
	out := func() (attn.Tensor, *attn.Options) {
		return attn.BLHD(make([]float32, len(q.Data)), 1, rows, t.heads, t.dim),
			&attn.Options{Causal: attn.BottomRight, Integers: t.integers,
				LSE: make([]float32, t.heads*rows)}
	}
	got, far := out()
	want, near := out()
	var s step
	before, start := t.link.Conn().Stats(), time.Now()
	err := call(got, q, far)
	s.far = time.Since(start)
	after := t.link.Conn().Stats()
	s.sent, s.received = after.OutBytes-before.OutBytes, after.InBytes-before.InBytes
	if err != nil {
		return s, err
	}
	if n := t.far.Len(layer); n != length {
		return s, fmt.Errorf("layer %d has %d tokens on the cluster, want %d", layer, n, length)
	}
	near.QueryLens = []int{rows}
	start = time.Now()
	err = t.pool.AttendSequences(want, q, t.near[layer:layer+1], near)
	s.near = time.Since(start)
	if err == nil {
		err = sameBits("output", got.Data, want.Data)
	}
	if err == nil {
		err = sameBits("LSE", far.LSE, near.LSE)
	}
	return s, err
}

// errWrong is the error of outputs with other bits than on one machine.
var errWrong = errors.New("wrong bits")

func sameBits(what string, got, want []float32) error {
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			return fmt.Errorf("%w: %s %d is %v on the cluster, want %v", errWrong, what, i, got[i], want[i])
		}
	}
	return nil
}
