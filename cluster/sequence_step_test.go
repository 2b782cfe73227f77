package cluster

import (
	"context"
	"fmt"
	"testing"

	"github.com/seed-1415985d/attn"
)

// step adds n tokens to a layer of both, and compares what they see.
func (t *twin) step(layer, n int, opt attn.Options) {
	t.Helper()
	k, v := t.tensor(t.config.KVHeads, n, t.config.HeadDim), t.tensor(t.config.KVHeads, n,
		t.config.ValueDim)
	if t.config.ValuesInKeys {
		v = attn.Tensor{}
	}
	q := t.tensor(t.heads, n, t.config.HeadDim)
	got, want := t.out(n), t.out(n)
	must(t, t.near[layer].Append(k, v))
	near, far := opt, opt
	near.LSE, near.QueryLens = make([]float32, t.heads*n), []int{n}
	far.LSE = make([]float32, t.heads*n)
	must(t, attn.AttendSequences(want, q, t.near[layer:layer+1], &near))
	must(t, t.far.Step(context.Background(), layer, got, q, k, v, &far))
	sameBits(t, "outputs of a step", got.Data, want.Data)
	sameBits(t, "LSE of a step", far.LSE, near.LSE)
	if got, want := t.far.Len(layer), t.near[layer].Len(); got != want {
		t.Fatalf("layer %d has %d tokens after a step, want %d", layer, got, want)
	}
}

// out is room for outputs of some rows.
func (t *twin) out(rows int) attn.Tensor {
	return attn.BHLD(make([]float32, t.heads*rows*t.config.ValueDim), 1, t.heads, rows,
		t.config.ValueDim)
}

// Steps have the bits of one machine, for any number of workers and format: tokens that begin a
// part, end one, go to several, or to several messages.
func TestStepSameBits(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		for _, format := range []formatPair{{attn.F32, 0}, {attn.BF16, 0}, {attn.I8, attn.I4}} {
			t.Run(fmt.Sprint(workers, format), func(t *testing.T) {
				t.Parallel()
				c := quick
				c.Chunk = 1 << 18
				b := newBench(t, workers, c)
				x := b.twin(SequenceConfig{Layers: 2, KVHeads: 2, HeadDim: 32, ValueDim: 24,
					Format: format.keys, ValueFormat: format.values}, 4)
				opt := bottomRight
				opt.Integers = format.keys >= attn.I8
				for _, n := range []int{1, 1, 62, 959, 1, 1, 1100, 1, 900, 1, 1} {
					x.step(0, n, opt)
					x.step(1, n, opt)
				}
				x.attendBoth()
			})
		}
	}
}
