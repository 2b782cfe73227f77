package attn

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/seed-1415985d/attn/internal/tuning"
)

// matrixConfigs are all ways to keep a matrix.
var matrixConfigs = func() (all []MatrixConfig) {
	for _, kind := range matrixTypes {
		all = append(all, MatrixConfig{Format: kind})
	}
	return append(all, MatrixConfig{Format: I8, Integers: true})
}()

// everyMatrix calls f for matrices of every configuration and of ragged shapes, in views of both
// kinds.
func everyMatrix(t *testing.T, f func(t *testing.T, w Tensor, c MatrixConfig)) {
	for _, s := range [][4]int{{1, 1, 1, 1}, {1, 1, 70, 21}, {2, 3, 12, 19},
		{1, 2, productInner + 3, 40}, {1, 1, 2*productInner + 6, packCols + 17},
		{1, 1, 3, 2*packCols + 1}, {2, 1, 2 * productInner, 32}} {
		if few() && tuned.ISA == tuning.Generic && s[2]*s[3] > 20000 {
			continue
		}
		w := tensor(random("matrix"), normal, s[0], s[1], s[2], s[3])
		for _, c := range matrixConfigs {
			t.Run(fmt.Sprint(s, c), func(t *testing.T) { f(t, w, c) })
			c.Transposed = true
			t.Run(fmt.Sprint(s, c), func(t *testing.T) { f(t, transposedView(w), c) })
		}
	}
}

// mustEqualMatrices compares all that two matrices keep.
func mustEqualMatrices(t testing.TB, what string, got, want *Matrix) {
	t.Helper()
	if !bytes.Equal(got.data, want.data) || !bytes.Equal(rawBytes(got.scales), rawBytes(want.scales)) {
		t.Fatalf("%s: %d and %d bytes are not the %d and %d of the other matrix, or not as many", what,
			len(got.data), 4*len(got.scales), len(want.data), 4*len(want.scales))
	}
	if got.format != want.format || got.int8 != want.int8 || got.rotation != want.rotation ||
		got.MemoryUse() != want.MemoryUse() {
		t.Fatalf("%s: %v, Int8 %t, rotation %d, MemoryUse %d, want %v, %t, %d, %d", what, got.format,
			got.int8, got.rotation, got.MemoryUse(), want.format, want.int8, want.rotation, want.MemoryUse())
	}
	for i, n := range dimsOf(got) {
		if n != dimsOf(want)[i] {
			t.Fatalf("%s: Dims are %v, want %v", what, dimsOf(got), dimsOf(want))
		}
	}
}

func dimsOf(m *Matrix) [4]int {
	batch, heads, inputs, outputs := m.Dims()
	return [...]int{batch, heads, inputs, outputs}
}

// However many workers pack, and in whatever order, the bits are the same, and nothing is left from
// other matrices.
func TestPoolPackMatrix(t *testing.T) {
	shareSmallCalls(t)
	pools := map[string]*Pool{"nil": nil}
	for _, n := range []int{1, 2, 5} {
		pools[fmt.Sprint(n)] = NewPool(n)
		defer pools[fmt.Sprint(n)].Close()
	}
	everyMatrix(t, func(t *testing.T, w Tensor, c MatrixConfig) {
		want, err := PackMatrix(w, c)
		must(t, err)
		if fault := want.faultOfElements(want.data) + want.faultOfScales(want.scales); fault != "" {
			t.Error(fault)
		}
		dims := [4]int{w.B, w.H, w.L, w.D}
		if c.Transposed {
			dims[2], dims[3] = dims[3], dims[2]
		}
		if got := dimsOf(want); got != dims {
			t.Errorf("Dims are %v, want %v", got, dims)
		}
		for name, p := range pools {
			m, err := p.PackMatrix(w, c)
			must(t, err)
			mustEqualMatrices(t, name, m, want)
			must(t, m.Close())
		}
		for _, workers := range []int{1, 3, 1000} {
			x, err := newPacking(w, c)
			must(t, err)
			x.divide(workers)
			s := new(scratch)
			s.k = nans(productInner * packCols)
			for i := range x.units() {
				x.unit(s, x.units()-1-i)
			}
			m, err := x.finish()
			must(t, err)
			mustEqualMatrices(t, fmt.Sprint(workers, " workers"), m, want)
		}
	})
}

// A pool has the errors of the function, also where several units have elements without a scale.
func TestPoolPackMatrixErrors(t *testing.T) {
	shareSmallCalls(t)
	spoiled := zeros(1, 2, 300, 600)
	for _, at := range [][3]int{{1, 2, 599}, {0, 299, 5}, {0, 280, 599}, {0, 290, 0}} {
		spoiled.row(0, at[0], at[1])[at[2]] = nan32()
	}
	for _, e := range []struct {
		w    Tensor
		c    MatrixConfig
		kind error
		text string
	}{
		{zeros(1, 1, 2, 3), MatrixConfig{Format: 7}, ErrOption,
			"MatrixConfig.Format is Format(7), want F32, F16, BF16 or I8"},
		{zeros(1, 1, 2, 3), MatrixConfig{Integers: true}, ErrOption,
			"MatrixConfig.Format is F32 with Integers, want I8"},
		{Tensor{B: 1, H: 1, D: 1}, MatrixConfig{}, ErrShape, fmt.Sprintf("w is [1 1 0 1], "+
			"want at least one row and at most %d elements", maxElements)},
		{spoiled, MatrixConfig{Format: I8}, ErrOption, "w is NaN in row 280, " +
			"column 599 of head 0, batch entry 0, want at most 8.5070587e+37 for I8"},
		{spoiled, MatrixConfig{Format: I8, Transposed: true}, ErrOption, "w is NaN in row 280, " +
			"column 599 of head 0, batch entry 0, want at most 4.2535293e+37 for I8"},
	} {
		want, err := PackMatrix(e.w, e.c)
		mustFail(t, "PackMatrix", err, e.kind, e.text)
		for range 3 {
			m, err := threeWorkers().PackMatrix(e.w, e.c)
			mustFail(t, "Pool.PackMatrix", err, e.kind, e.text)
			if m != nil || want != nil {
				t.Error("there is a matrix beside the error")
			}
		}
	}
	p := NewPool(2)
	must(t, p.Close())
	_, err := p.PackMatrix(zeros(1, 1, 2, 3), MatrixConfig{})
	mustFail(t, "closed", err, ErrClosed, "the pool was closed")
	if limit := (&packing{m: &Matrix{rotation: 128}}).limit(); limit != math.MaxFloat32/128 {
		t.Errorf("the limit is %v", limit)
	}
}
