package matmul

import (
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/tuning"
	"github.com/seed-1415985d/attn/internal/views"
)

// tuned is the row of this machine, which tests change.
var tuned = tuning.Host()

func init() { kerneltest.Tuned = &tuned }

func zeroView(b, h, l, d int) *views.Tensor {
	v := views.Contiguous(make([]float32, b*h*l*d), b, h, l, d)
	return &v
}

// anyView is normally distributed numbers.
func anyView(r *rand.Rand, b, h, l, d int) *views.Tensor {
	v := zeroView(b, h, l, d)
	kerneltest.Normal.Fill(r, v.Data)
	return v
}

// someBodies are matrices of 21 outputs, of floats, of integers and of blocks.
func someBodies(t *testing.T, inputs int) (ms []*Matrix) {
	w := anyView(kerneltest.Random("bodies"), 1, 1, inputs, 21)
	for _, c := range []Config{{}, {Format: kernel.BF16}, {BFloat16: true}, {Format: kernel.I8},
		{Format: kernel.I8, Integers: true}} {
		m, err := PackMatrix(&tuned, w, c)
		kerneltest.Must(t, err)
		ms = append(ms, m)
	}
	for _, c := range []Config{{}, {Integers: true}, {BFloat16: true}} {
		data := make([]byte, 21*inputs/32*blocks.Q8_0.Traits().Bytes)
		for i := range data {
			data[i] = byte(i * i % 32) // scales are small numbers
		}
		m, err := PackBlocks(data, blocks.Q8_0, 21, inputs, c)
		kerneltest.Must(t, err)
		ms = append(ms, m)
	}
	return ms
}

// setReads says whether memory is read in order, and how much of it the cache holds.
func setReads(t *testing.T, inOrder bool, l2 int) {
	kerneltest.ReadingAs(t, tuning.QueuedReads)
	if inOrder {
		kerneltest.ReadingAs(t, tuning.SequentialReads)
	}
	tuned.L2, tuned.OnePanel = l2, false
}
