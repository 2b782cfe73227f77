package matmul

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
)

// In whatever order a matrix is packed, the bits are the same, and nothing is left from others.
func TestPackInAnyOrder(t *testing.T) {
	w := anyView(kerneltest.Random(t.Name()), 1, 2, Inner+9, PackCols+17)
	for _, c := range []Config{{}, {Format: kernel.F16}, {Format: kernel.BF16},
		{Format: kernel.I8}, {Format: kernel.I8, Integers: true}} {
		for _, c.Transposed = range []bool{false, true} {
			want, err := PackMatrix(&tuned, w, c)
			kerneltest.Must(t, err)
			for _, workers := range []int{1, 3, 1000} {
				x, err := newPacking(&tuned, *w, c)
				kerneltest.Must(t, err)
				x.divide(workers)
				s := &Memory{k: kerneltest.Nans(Inner * PackCols)}
				for i := range x.tasks() {
					x.Task(s, x.tasks()-1-i)
				}
				m, err := x.matrix()
				kerneltest.Must(t, err)
				if !bytes.Equal(m.data, want.data) || !slices.Equal(m.scales, want.scales) {
					t.Errorf("%+v, %d workers: another matrix", c, workers)
				}
				kerneltest.Must(t, m.Close())
			}
		}
	}
	if limit := (&packing{m: &Matrix{rotation: 128}}).limit(); limit != math.MaxFloat32/128 {
		t.Errorf("the limit is %v", limit)
	}
}
