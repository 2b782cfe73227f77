package attn

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/matmul"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// productShape is a product of [b, h, l, k] by [bb, bh, k, n].
type productShape struct{ b, h, l, k, n, bb, bh int }

// productShapes cover all that products are divided into: whole and partial tiles, panels, halves
// of panels, single columns, chunks of the inner index, few rows, shared matrices.
var productShapes = []productShape{
	{1, 1, 1, 1, 1, 1, 1},
	{1, 1, 3, 4, 3, 1, 1},
	{1, 1, 2, 70, 21, 1, 1},
	{1, 1, inPlaceRows, matmul.Inner + 3, 40, 1, 1},
	{1, 1, inPlaceRows + 1, 2*matmul.Inner + Block + 1, matmul.Cols + 25, 1, 1},
	{1, 1, matmul.Rows + 7, 33, 16, 1, 1},
	{1, 1, 2*matmul.Rows + 1, 5, 2*matmul.Cols + 9, 1, 1},
	{2, 3, 7, 12, 19, 1, 1},
	{2, 3, 7, 12, 19, 2, 1},
	{2, 3, 7, 12, 19, 1, 3},
	{2, 3, 2, 12, 19, 2, 3},
	{2, 2, 5, matmul.Inner + 1, 8, 2, 2},
	{0, 2, 5, 3, 4, 1, 2},
	{1, 1, 0, 3, 4, 1, 1},
}

// gatheredShape has more rows, steps and columns than one part. Only products by float32 compute it
// in another way, see projection.gathers.
var gatheredShape = productShape{1, 1, matmul.Rows + 1, matmul.Inner + 9, 2*matmul.Cols + 57, 1,
	1}

// productOperands are strided views with NaN around the elements, and the
// product by definition.
func productOperands(s productShape) (dst, a, b Tensor, bias, want []float32) {
	r := random("products")
	strided := func(b, h, l, d int) Tensor {
		const gap = 3
		v := View[float32]{B: b, H: h, L: l, D: d, SL: h*(d+gap) + 1, SH: d + gap,
			SB: l * (h*(d+gap) + 1)}
		v.Data = nans(b*v.SB + 1)
		for i := range b {
			for j := range h {
				for k := range l {
					normal.Fill(r, v.row(i, j, k))
				}
			}
		}
		return v
	}
	dst, a, b = strided(s.b, s.h, s.l, s.n), strided(s.b, s.h, s.l, s.k), strided(s.bb, s.bh, s.k, s.n)
	bias = tensor(r, normal, 1, 1, 1, s.n).Data
	for i := range s.b {
		for h := range s.h {
			for l := range s.l {
				for c := range s.n {
					var sum float32
					for k, e := range a.row(i, h, l) {
						sum = f32.FMA(e, b.row(min(i, s.bb-1), min(h, s.bh-1), k)[c], sum)
					}
					want = append(want, sum)
				}
			}
		}
	}
	return dst, a, b, bias, want
}

// checkProductResult compares dst with want + bias and makes sure that nothing
// around it was written.
func checkProductResult(t *testing.T, what string, dst Tensor, bias, want []float32) {
	t.Helper()
	var got, sum []float32
	for i := range dst.B {
		for h := range dst.H {
			for l := range dst.L {
				row := dst.row(i, h, l)
				got = append(got, row...)
				for c := range row {
					e := want[len(sum)]
					if bias != nil {
						e += bias[c]
					}
					sum = append(sum, e)
					row[c] = nan32()
				}
			}
		}
	}
	mustEqualBits(t, what, got, sum)
	for i, e := range dst.Data {
		if e == e {
			t.Fatalf("%s: Data[%d], which is no element of dst, was written", what, i)
		}
	}
}

// transposedApart is transposedOf with NaN between the rows.
func transposedApart(x Tensor) Tensor {
	const gap = 5
	from := transposedOf(x)
	to := Tensor{B: x.B, H: x.H, L: x.D, D: x.L, SL: x.L + gap, SH: x.D * (x.L + gap)}
	to.SB = x.H * to.SH
	to.Data = nans(x.B * to.SB)
	for b := range x.B {
		for h := range x.H {
			for i := range x.D {
				copy(to.row(b, h, i), from.row(b, h, i))
			}
		}
	}
	return to
}

// Products have the bits of one chain of FMAs for each element.
func TestMatMul(t *testing.T) {
	shareSmallCalls(t)
	hosts := random("hosts of products")
	forEach(t, func(t *testing.T) {
		pool := NewPool(3)
		defer pool.Close()
		for _, s := range append(productShapes, gatheredShape) {
			dst, a, b, bias, want := productOperands(s)
			what := fmt.Sprint(s)
			anyTuning(t, hosts)
			must(t, MatMul(dst, a, b))
			checkProductResult(t, what+": MatMul", dst, nil, want)
			must(t, pool.MatMul(dst, a, b))
			checkProductResult(t, what+": Pool.MatMul", dst, nil, want)
			must(t, (*Pool)(nil).MatMul(dst, a, b))
			checkProductResult(t, what+": MatMul of a nil Pool", dst, nil, want)
			turned := transposedApart(b)
			must(t, MatMulTransposed(dst, a, turned))
			checkProductResult(t, what+": MatMulTransposed", dst, nil, want)
			must(t, pool.MatMulTransposed(dst, a, turned))
			checkProductResult(t, what+": Pool.MatMulTransposed", dst, nil, want)
			must(t, (*Pool)(nil).MatMulTransposed(dst, a, turned))
			checkProductResult(t, what+": MatMulTransposed of a nil Pool", dst, nil, want)
			m, err := PackMatrix(b, MatrixConfig{})
			must(t, err)
			must(t, m.MatMul(dst, a, nil))
			checkProductResult(t, what+": Matrix", dst, nil, want)
			must(t, m.MatMul(dst, a, bias))
			checkProductResult(t, what+": Matrix with bias", dst, bias, want)
			must(t, pool.MulMatrix(dst, a, m, bias))
			checkProductResult(t, what+": Pool.MulMatrix", dst, bias, want)
			inSmallUnits(t, dst, a, m)
			checkProductResult(t, what+": many units", dst, nil, want)
		}
	})
}

// Strides of 0 repeat a matrix, a row of it, or a row of a.
func TestMatMulBroadcast(t *testing.T) {
	r := random(t.Name())
	for _, l := range []int{2, 9} {
		a := tensor(r, normal, 2, 3, l, 20)
		b := tensor(r, normal, 1, 1, 20, 24)
		want, got := BHLD(nans(2*3*l*24), 2, 3, l, 24), BHLD(nans(2*3*l*24), 2, 3, l, 24)
		must(t, MatMul(want, a, b))
		b.B, b.H, b.SB, b.SH = 2, 3, Broadcast, Broadcast
		must(t, MatMul(got, a, b))
		mustEqualBits(t, "one matrix", got.Data, want.Data)
		m, err := PackMatrix(b, MatrixConfig{})
		must(t, err)
		must(t, m.MatMul(got, a, nil))
		mustEqualBits(t, "one packed matrix", got.Data, want.Data)

		row := repeated(b.Data, 1, 1, 20, 24)
		rows := zeros(1, 1, 20, 24)
		for i := range 20 {
			copy(rows.row(0, 0, i), row.Data)
		}
		must(t, MatMul(want, a, rows))
		must(t, MatMul(got, a, row))
		mustEqualBits(t, "one row of b", got.Data, want.Data)

		same := a
		same.SL = Broadcast
		must(t, MatMul(got, same, b))
		for i := range l {
			mustEqualBits(t, "one row of a", got.row(1, 2, i), got.row(1, 2, 0))
		}

		turned, rows := repeated(b.Data, 1, 1, 24, 20), zeros(1, 1, 24, 20)
		for i := range 24 {
			copy(rows.row(0, 0, i), b.Data)
		}
		must(t, MatMulTransposed(want, a, rows))
		must(t, MatMulTransposed(got, a, turned))
		mustEqualBits(t, "one row of a transposed b", got.Data, want.Data)
	}
}

// A NaN or infinity reaches its own row or column and no other.
func TestMatMulKeepsNaN(t *testing.T) {
	const l, k, n = 13, 9, 21
	r := random(t.Name())
	a, b := tensor(r, normal, 1, 1, l, k), tensor(r, normal, 1, 1, k, n)
	want, got := BHLD(nans(l*n), 1, 1, l, n), BHLD(nans(l*n), 1, 1, l, n)
	must(t, MatMul(want, a, b))
	a.row(0, 0, 4)[3] = nan32()
	b.row(0, 0, 5)[20] = float32(math.Inf(1))
	b.row(0, 0, 6)[20] = nan32()
	must(t, MatMul(got, a, b))
	for i := range l {
		for c := range n {
			e, is := got.row(0, 0, i)[c], i == 4 || c == 20
			if is != (e != e) || !is && e != want.row(0, 0, i)[c] {
				t.Errorf("element %d, %d is %v", i, c, e)
			}
		}
	}
}

func TestMatMulErrors(t *testing.T) {
	x := zeros
	a, b, dst := x(2, 3, 4, 5), x(1, 3, 5, 6), BHLD(nans(2*3*4*6), 2, 3, 4, 6)
	short, flat := b, dst
	short.Data = short.Data[1:]
	flat.SL = 5
	m, err := PackMatrix(b, MatrixConfig{})
	must(t, err)
	_, noRows := PackMatrix(Tensor{B: 1, H: 1, D: 1}, MatrixConfig{})
	_, shortErr := PackMatrix(short, MatrixConfig{})
	_, huge := PackMatrix(repeated(make([]float32, 1), maxLength, maxLength, 1, 1), MatrixConfig{})
	pool := NewPool(1)
	both := make([]float32, 2*3*4*6)
	for _, e := range []struct {
		name string
		err  error
		kind error
		text string
	}{
		{"a.D", MatMul(dst, x(2, 3, 4, 6), b), ErrShape, "a.D is 6, want 5 as b has rows"},
		{"a.B", MatMul(dst, x(1, 3, 4, 5), b), ErrShape, "dst is [2 3 4 6], want [1 3 4 6]"},
		{"b.B", MatMul(dst, a, x(3, 3, 5, 6)), ErrShape, "b is [3 3 …], want [2 or 1, 3 or 1, …] as a"},
		{"b.H", MatMul(dst, a, x(1, 2, 5, 6)), ErrShape, "b is [1 2 …], want [2 or 1, 3 or 1, …] as a"},
		{"b.L", MatMul(dst, a, x(1, 3, 4, 6)), ErrShape, "a.D is 5, want 4 as b has rows"},
		{"b.D", MatMul(dst, a, x(1, 3, 5, 7)), ErrShape, "dst is [2 3 4 6], want [2 3 4 7]"},
		{"dst.L", MatMul(x(2, 3, 3, 6), a, b), ErrShape, "dst is [2 3 3 6], want [2 3 4 6]"},
		{"transposed", MatMulTransposed(dst, a, b), ErrShape, "a.D is 5, want 6 as b has columns"},
		{"transposed dst", MatMulTransposed(dst, a, x(1, 3, 7, 5)), ErrShape,
			"dst is [2 3 4 6], want [2 3 4 7]"},
		{"transposed dst is b", pool.MatMulTransposed(BHLD(both, 2, 3, 4, 6), a, BHLD(both, 1, 3, 6, 5)),
			ErrOverlap, "dst overlaps b, want separate memory"},
		{"negative", MatMul(dst, View[float32]{B: -1, H: 3, L: 4, D: 5}, b), ErrShape,
			"a.B is -1, want 0 to 268435456"},
		{"short b", MatMul(dst, a, short), ErrLength,
			"len(b.Data) is 89, want at least 90 for [1 3 5 6] with strides [90 30 6]"},
		{"flat dst", MatMul(flat, a, b), ErrStride,
			"dst has a stride of 5 over 4 elements, want at least 6 so that no two outputs coincide"},
		{"dst is a", MatMul(BHLD(both, 2, 3, 4, 6), BHLD(both, 2, 3, 4, 5), b), ErrOverlap,
			"dst overlaps a, want separate memory"},
		{"dst is b", MatMul(BHLD(both, 2, 3, 4, 6), a, BHLD(both, 1, 3, 5, 6)), ErrOverlap,
			"dst overlaps b, want separate memory"},
		{"no rows", noRows, ErrShape, fmt.Sprintf("w is [1 1 0 1], want at least one row and at most "+
			"%d elements", maxElements)},
		{"short matrix", shortErr, ErrLength, "len(w.Data) is 89, want at least 90 for [1 3 5 6] with " +
			"strides [90 30 6]"},
		{"huge matrix", huge, ErrShape, fmt.Sprintf("w is [268435456 268435456 1 1], want at least "+
			"one row and at most %d elements", maxElements)},
		{"bias", m.MatMul(dst, a, make([]float32, 5)), ErrLength, "len(bias) is 5, want 6"},
		{"empty bias", m.MatMul(dst, a, []float32{}), ErrLength, "len(bias) is 0, want 6"},
		{"dst is bias", m.MatMul(BHLD(both, 2, 3, 4, 6), a, both[7:13]), ErrOverlap,
			"dst overlaps bias, want separate memory"},
		{"matrix rows", m.MatMul(dst, x(2, 3, 4, 6), nil), ErrShape,
			"a.D is 6, want 5 as the matrix has inputs"},
		{"pool", pool.MulMatrix(dst, x(2, 3, 4, 6), m, nil), ErrShape,
			"a.D is 6, want 5 as the matrix has inputs"},
		{"closed", func() error {
			must(t, pool.Close())
			return pool.MulMatrix(dst, a, m, nil)
		}(), ErrClosed, "the pool was closed"},
	} {
		mustFail(t, e.name, e.err, e.kind, e.text)
	}
	for i, e := range dst.Data {
		if e == e {
			t.Fatalf("dst[%d] was written by a failed call", i)
		}
	}
}

// Products without elements have nothing to write, whatever strides their views have.
func TestMatMulOfNothing(t *testing.T) {
	none := BHLD([]float32{}, 1, 1, 0, 4)
	b := zeros(1, 1, 4, 4)
	if err := MatMul(none, none, b); err != nil {
		t.Errorf("no rows: %v", err)
	}
	odd := none
	odd.SL = -7
	if err := MatMul(odd, odd, b); err != nil {
		t.Errorf("no rows, strides of -7: %v", err)
	}
}

// FuzzMatMul: every way to multiply gives one chain of FMAs for each element, of what the type of a
// matrix keeps, for any strides, and touches nothing around the operands.
func FuzzMatMul(f *testing.F) {
	seedInputs(f)
	operands := new(kerneltest.Arena)
	f.Cleanup(operands.Free)
	f.Fuzz(func(t *testing.T, data []byte) {
		r := randomFrom(data)
		anyTuning(t, r)
		p := drawProduct(r, distribution(r.IntN(int(distributions))))
		want := p.chains()
		m, err := PackMatrix(p.b, MatrixConfig{})
		must(t, err)
		operands.Used = [3]int{}
		_, a := scatter(r, &operands.Floats, &operands.Used[0], p.a, [3]bool{}, nan32())
		_, b := scatter(r, &operands.Floats, &operands.Used[0], p.b, [3]bool{p.b.B == 1, p.b.H == 1},
			nan32())
		const canary = 12345
		out, _ := scatter(r, &operands.Floats, &operands.Used[0], p.dst, [3]bool{}, canary)
		check := func(what string, err error) {
			must(t, err)
			gather(t, p.dst, out, canary)
			mustEqualBits(t, what, p.dst.Data, want)
		}
		check("MatMul", MatMul(out, a, b))
		check("MatMulTransposed", MatMulTransposed(out, a, transposedApart(b)))
		check("Matrix", m.MatMul(out, a, nil))
		check("Pool", threeWorkers().MulMatrix(out, a, m, nil))
		p.addBias(want)
		check("Matrix with bias", m.MatMul(out, a, p.bias))

		typ := matrixTypes[r.IntN(len(matrixTypes))]
		way := packers[r.IntN(len(packers))]
		m, err = way.pack(b, typ)
		// beyond that, sums of a rotation might overflow
		limit := math.MaxFloat32 / float32(matrixRotation(p.b.L))
		if typ == I8 && !(largestGeneric(p.b.Data) <= limit) {
			mustFail(t, way.name, err, ErrOption)
			return
		}
		must(t, err)
		want = definedProduct(typ, p.a, p.b)
		check(way.name, m.MatMul(out, a, nil))
		p.addBias(want)
		check(way.name+" by a pool", threeWorkers().MulMatrix(out, a, m, p.bias))
		must(t, m.Close())
		if typ != I8 || !(largestGeneric(p.a.Data) <= limit) {
			return
		}
		m, err = PackMatrix(b, MatrixConfig{Format: I8, Integers: true})
		must(t, err)
		want = int8Product(p.a, p.b)
		check("Int8", m.MatMul(out, a, nil))
		p.addBias(want)
		check("Int8 by a pool", threeWorkers().MulMatrix(out, a, m, p.bias))
		must(t, m.Close())
	})
}

// productCase is the operands of a matrix product, contiguous.
type productCase struct {
	dst, a, b Tensor
	bias      []float32
}

func drawProduct(r *rand.Rand, kind distribution) *productCase {
	batch, heads := 1+r.IntN(2), 1+r.IntN(2)
	rows, inner, cols := 1+r.IntN(6), 1+r.IntN(6), 1+r.IntN(20)
	switch draw := r.IntN(1024); {
	case draw == 0:
		rows, inner, cols = length(r, matmul.Rows+20), length(r, matmul.Inner+20), length(r,
			matmul.Cols+20)
	case draw < 25:
		rows = 1 + r.IntN(matmul.Rows+20)
	case draw < 50:
		inner = 1 + r.IntN(matmul.Inner+20)
	case draw < 75:
		cols = 1 + r.IntN(matmul.Cols+20)
	}
	return &productCase{
		dst:  zeros(batch, heads, rows, cols),
		a:    tensor(r, kind, batch, heads, rows, inner),
		b:    tensor(r, kind, oneOr(r, batch), oneOr(r, heads), inner, cols),
		bias: tensor(r, kind, 1, 1, 1, cols).Data,
	}
}

// chains is the product by definition.
func (p *productCase) chains() []float32 {
	want := make([]float32, 0, len(p.dst.Data))
	for at := range p.a.B * p.a.H * p.a.L {
		i, h, l := at/p.a.L/p.a.H, at/p.a.L%p.a.H, at%p.a.L
		for c := range p.b.D {
			var sum float32
			for k, e := range p.a.row(i, h, l) {
				sum = f32.FMA(e, p.b.row(min(i, p.b.B-1), min(h, p.b.H-1), k)[c], sum)
			}
			want = append(want, sum)
		}
	}
	return want
}

func (p *productCase) addBias(x []float32) {
	for i := range x {
		x[i] += p.bias[i%p.b.D]
	}
}

func BenchmarkMatMul(b *testing.B) {
	for _, s := range [][3]int{{512, 512, 512}, {1024, 1024, 1024}, {128, 768, 768}, {1, 4096, 4096}} {
		l, k, n := s[0], s[1], s[2]
		r := random(b.Name())
		dst, x, w := zeros(1, 1, l, n), tensor(r, normal, 1, 1, l, k), tensor(r, normal, 1, 1, k, n)
		m, err := PackMatrix(w, MatrixConfig{})
		must(b, err)
		bias := tensor(r, normal, 1, 1, 1, n).Data
		pool := NewPool(2)
		defer pool.Close()
		for _, f := range []struct {
			name string
			call func() error
		}{
			{"views", func() error { return MatMul(dst, x, w) }},
			{"matrix", func() error { return m.MatMul(dst, x, nil) }},
			{"matrix_bias", func() error { return m.MatMul(dst, x, bias) }},
			{"pool", func() error { return pool.MulMatrix(dst, x, m, nil) }},
		} {
			b.Run(fmt.Sprintf("%dx%dx%d/%s", l, k, n, f.name), func(b *testing.B) {
				for b.Loop() {
					must(b, f.call())
				}
				flops := 2 * float64(l) * float64(k) * float64(n) * float64(b.N)
				b.ReportMetric(flops/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
			})
		}
	}
}

// BenchmarkTransposed reports the time of MatMul, which reads b in place, as a fraction of the time
// of MatMulTransposed, for few rows.
func BenchmarkTransposed(b *testing.B) {
	for _, s := range [][3]int{{1, 4096, 4096}, {4, 4096, 4096}, {1, 14336, 1024}, {1, 1536, 1024}} {
		l, k, n := s[0], s[1], s[2]
		r := random(b.Name())
		dst, x, w := zeros(1, 1, l, n), tensor(r, normal, 1, 1, l, k), tensor(r, normal, 1, 1, k, n)
		turned := BHLD(w.Data, 1, 1, n, k)
		b.Run(fmt.Sprintf("%dx%dx%d", l, k, n), func(b *testing.B) {
			best := [2]time.Duration{time.Hour, time.Hour}
			for b.Loop() {
				for i, f := range []func() error{
					func() error { return MatMul(dst, x, w) },
					func() error { return MatMulTransposed(dst, x, turned) },
				} {
					start := time.Now()
					must(b, f())
					best[i] = min(best[i], time.Since(start))
				}
			}
			b.ReportMetric(float64(best[0])/float64(best[1]), "of-MatMul")
		})
	}
}

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
		{1, 2, matmul.Inner + 3, 40}, {1, 1, 2*matmul.Inner + 6, matmul.PackCols + 17},
		{1, 1, 3, 2*matmul.PackCols + 1}, {2, 1, 2 * matmul.Inner, 32}} {
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
	if !bytes.Equal(matrixFileOf(t, got), matrixFileOf(t, want)) {
		t.Fatalf("%s: the file is not that of the other matrix", what)
	}
	if got.Format() != want.Format() || got.MemoryUse() != want.MemoryUse() {
		t.Fatalf("%s: %v, MemoryUse %d, want %v, %d", what, got.Format(), got.MemoryUse(), want.Format(),
			want.MemoryUse())
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
		l, scales := layoutOf(want), want.body.Scales()
		fault := l.FaultOfElements(want.body.Elements(), scales) + l.FaultOfScales(scales)
		if fault != "" {
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
			"column 599 of head 0, batch entry 0, want a magnitude of at most 8.5070587e+37 for I8"},
		{spoiled, MatrixConfig{Format: I8, Transposed: true}, ErrOption, "w is NaN in row 280, " +
			"column 599 of head 0, batch entry 0, want a magnitude of at most 4.2535293e+37 for I8"},
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
}
