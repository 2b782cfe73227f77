package attn

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
)

var matrixTypes = []Format{F32, F16, BF16, I8}

// typedShapes are products in which parts of the inner index, groups of four steps, panels, few
// rows and widened parts end anywhere.
var typedShapes = append([]productShape{
	{1, 1, 1, 2*productInner + 3, productCols + 9, 1, 1},
	{1, 1, narrow.MaxRows, productInner + 6, 2*productCols + 17, 1, 1},
	{1, 1, narrow.MaxRows + 1, productInner + 5, 2*productCols + 33, 1, 1},
	{1, 1, 3, 2 * productInner, 2 * panel, 1, 1},
	{1, 1, widenedRows + 1, 7, 2*productCols + 3, 1, 1},
	{1, 2, widenedRows + productRows + narrow.MaxRows + 2, 5, 19, 1, 2},
}, productShapes...)

// transposedView is the same numbers with rows and columns exchanged, in rows that are apart.
func transposedView(b Tensor) Tensor {
	const gap = 5
	w := Tensor{B: b.B, H: b.H, L: b.D, D: b.L, SL: b.L + gap, SH: b.D * (b.L + gap),
		SB: b.H * b.D * (b.L + gap)}
	w.Data = nans(w.B * w.SB)
	for i := range b.B {
		for h := range b.H {
			for k := range b.L {
				for c, e := range b.Row(i, h, k) {
					w.Row(i, h, c)[k] = e
				}
			}
		}
	}
	return w
}

// matrixRotation is how many inputs of a matrix of I8 are rotated together.
func matrixRotation(inner int) int { return min(inner&-inner, 128) }

// storedColumn is a column as a matrix of a type keeps it, and its scale.
func storedColumn(typ Format, b *Tensor, i, h, c int) (column []float32, scale float32) {
	for k := range b.L {
		column = append(column, b.Row(min(i, b.B-1), min(h, b.H-1), k)[c])
	}
	switch typ {
	case F16:
		for k, e := range column {
			column[k] = f32.FromF16(f32.ToF16(e))
		}
	case BF16:
		for k, e := range column {
			column[k] = f32.FromBF16(f32.ToBF16(e))
		}
	case I8:
		rotateGeneric(column, 1, len(column), len(column), matrixRotation(len(column)))
		return integersOf(column)
	}
	return column, 1
}

// definedProduct is a·b by the definition of the type, bias left out.
func definedProduct(typ Format, a, b Tensor) []float32 {
	want := make([]float32, a.B*a.H*a.L*b.D)
	if typ == I8 {
		a = contiguous(a)
		rotateGeneric(a.Data, a.B*a.H*a.L, a.D, a.D, matrixRotation(a.D))
	}
	for i := range a.B {
		for h := range a.H {
			for c := range b.D {
				column, scale := storedColumn(typ, &b, i, h, c)
				for l := range a.L {
					var sum float32
					for k, e := range a.Row(i, h, l) {
						sum = f32.FMA(e, column[k], sum)
					}
					want[((i*a.H+h)*a.L+l)*b.D+c] = sum * scale
				}
			}
		}
	}
	return want
}

func packRows(w Tensor, typ Format) (*Matrix, error) {
	return PackMatrix(w, MatrixConfig{Format: typ})
}

func packTransposed(w Tensor, typ Format) (*Matrix, error) {
	return PackMatrix(w, MatrixConfig{Format: typ, Transposed: true})
}

// packers make a matrix of a type in every way.
var packers = []struct {
	name string
	pack func(b Tensor, typ Format) (*Matrix, error)
}{
	{"rows", packRows},
	{"transposed", func(b Tensor, typ Format) (*Matrix, error) {
		return packTransposed(transposedView(b), typ)
	}},
	{"by a pool", func(b Tensor, typ Format) (*Matrix, error) {
		return threeWorkers().PackMatrix(b, MatrixConfig{Format: typ})
	}},
}

// Products by matrices of every type are what the type's definition says, however they are packed
// and divided.
func TestMatrixTypesAreTheirDefinition(t *testing.T) {
	shareSmallCalls(t)
	hosts := random(t.Name())
	type operands struct { // the same for all implementations
		dst, a, b  Tensor
		bias, want []float32
	}
	defined := map[string]operands{}
	for _, s := range typedShapes {
		dst, a, b, bias, _ := productOperands(s)
		for _, typ := range matrixTypes {
			defined[fmt.Sprint(typ, s)] = operands{dst, a, b, bias, definedProduct(typ, a, b)}
		}
	}
	forEach(t, func(t *testing.T) {
		for f, typ := range matrixTypes {
			for i, s := range typedShapes {
				if testing.Short() && (i+f)%3 != 0 {
					continue
				}
				o := defined[fmt.Sprint(typ, s)]
				dst, a, b, bias, want := o.dst, o.a, o.b, o.bias, o.want
				for _, way := range packers {
					what := fmt.Sprint(typ, s, way.name)
					anyTuning(t, hosts)
					m, err := way.pack(b, typ)
					must(t, err)
					must(t, m.MatMul(dst, a, nil))
					checkProductResult(t, what, dst, nil, want)
					must(t, m.MatMul(dst, a, bias))
					checkProductResult(t, what+" with bias", dst, bias, want)
					must(t, threeWorkers().MulMatrix(dst, a, m, bias))
					checkProductResult(t, what+" by a pool", dst, bias, want)
					must(t, (*Pool)(nil).MulMatrix(dst, a, m, bias))
					checkProductResult(t, what+" by a nil pool", dst, bias, want)
					inSmallUnits(t, dst, a, m)
					checkProductResult(t, what+" in many units", dst, nil, want)
					must(t, m.Close())
				}
			}
		}
	})
}

// inSmallUnits computes a product in units as for many workers, whatever its size.
func inSmallUnits(t *testing.T, dst, a Tensor, m *Matrix) {
	t.Helper()
	must(t, m.checkMatMul(&dst, &a, nil))
	q := targets{[]Tensor{dst}, []*Matrix{m}, nil}
	inputs, _ := inputsOf(a, q.ms).next(new(scratch), a.L)
	inputs.run()
	p := q.product(&inputs, share{rows: inputs.rows()})
	p.partition(64)
	for i := range p.units() {
		p.unit(i)
	}
}

// int8Product is a·b by the definition of products in integers, bias left out.
func int8Product(a, b Tensor) []float32 {
	rotation := matrixRotation(a.D)
	a = contiguous(a)
	rotateGeneric(a.Data, a.B*a.H*a.L, a.D, a.D, rotation)
	var want []float32
	for i := range a.B {
		for h := range a.H {
			for l := range a.L {
				for c := range b.D {
					column, columnScale := storedColumn(I8, &b, i, h, c)
					var sum float32
					for g := 0; g < a.D; g += 128 {
						row, scale := integersOf(a.Row(i, h, l)[g:min(a.D, g+128)])
						var n int64
						for k, e := range row {
							n += int64(e) * int64(column[g+k])
						}
						sum = f32.FMA(float32(n), scale, sum)
					}
					want = append(want, float32(sum*columnScale))
				}
			}
		}
	}
	return want
}

// Products in integers are what their definition says, however they are packed and divided.
func TestInt8ProductsAreTheirDefinition(t *testing.T) {
	shareSmallCalls(t)
	hosts := random(t.Name())
	type operands struct {
		dst, a, b  Tensor
		bias, want []float32
	}
	var all []operands
	for i, s := range typedShapes {
		if few() && i%2 == 1 {
			continue
		}
		dst, a, b, bias, _ := productOperands(s)
		all = append(all, operands{dst, a, b, bias, int8Product(a, b)})
	}
	forEach(t, func(t *testing.T) {
		for _, o := range all {
			dst, a, b, bias, want := o.dst, o.a, o.b, o.bias, o.want
			what := fmt.Sprint(a.B, a.H, a.L, a.D, b.D)
			anyTuning(t, hosts)
			x, config := b, MatrixConfig{Format: I8, Integers: true, Transposed: hosts.IntN(2) == 0}
			if config.Transposed {
				x = transposedView(b)
			}
			m, err := PackMatrix(x, config)
			must(t, err)
			must(t, m.MatMul(dst, a, nil))
			checkProductResult(t, what, dst, nil, want)
			must(t, threeWorkers().MulMatrix(dst, a, m, bias))
			checkProductResult(t, what+" by a pool", dst, bias, want)
			inSmallUnits(t, dst, a, m)
			checkProductResult(t, what+" in many units", dst, nil, want)
			must(t, m.Close())
		}
	})
}

// A row of inputs that is not finite is NaN, and no other is.
func TestInt8ProductsNotFinite(t *testing.T) {
	m, err := PackMatrix(tensor(random("weights"), normal, 1, 1, 300, 20), MatrixConfig{Format: I8,
		Integers: true})
	must(t, err)
	for _, bad := range []float32{nan32(), float32(math.Inf(1)), negInf} {
		a, dst := tensor(random("inputs"), normal, 1, 1, 5, 300), zeros(1, 1, 5, 20)
		a.Row(0, 0, 3)[290] = bad
		must(t, m.MatMul(dst, a, nil))
		for i, e := range dst.Data {
			if (e != e) != (i/20 == 3) {
				t.Fatalf("%v in row 3: element %d of row %d is %v", bad, i%20, i/20, e)
			}
		}
	}
}

// Columns of I8 that are zero, subnormal or as large as can be have products, too.
func TestMatrixOfExtremeColumns(t *testing.T) {
	const inner = 9
	b, a := zeros(1, 1, inner, 5), zeros(1, 1, 2, inner)
	for k := range inner {
		sign := float32(1 - k%2*2)
		copy(b.Row(0, 0, k), []float32{0, sign * math.SmallestNonzeroFloat32,
			sign * 100 * math.SmallestNonzeroFloat32, sign * math.MaxFloat32 / float32(k+1),
			sign * float32(k)})
		a.Row(0, 0, 0)[k], a.Row(0, 0, 1)[k] = sign*(1+float32(k)/8), float32(k)
	}
	for _, typ := range matrixTypes {
		for _, way := range packers {
			m, err := way.pack(b, typ)
			must(t, err)
			dst := zeros(1, 1, 2, 5)
			must(t, m.MatMul(dst, a, nil))
			mustEqualBits(t, fmt.Sprint(typ, way.name), dst.Data, definedProduct(typ, a, b))
		}
	}
}

// Broadcast repeats a row, or a matrix, of what is packed.
func TestPackTransposedBroadcast(t *testing.T) {
	r := random(t.Name())
	a, row := tensor(r, normal, 2, 3, 5, 20), tensor(r, normal, 1, 1, 1, 20)
	w := repeated(row.Data, 2, 3, 18, 20)
	for _, typ := range matrixTypes {
		m, err := PackMatrix(w, MatrixConfig{Format: typ, Transposed: true})
		must(t, err)
		dst := zeros(2, 3, 5, 18)
		must(t, m.MatMul(dst, a, nil))
		mustEqualBits(t, typ.String(), dst.Data, definedProduct(typ, a, transposedView(w)))
	}
}

// A matrix takes the memory of its type: whole panels, groups of four integers, and scales.
func TestMatrixMemoryUse(t *testing.T) {
	for typ, want := range map[Format]int{F32: 4 * 6 * 9 * 32, F16: 2 * 6 * 9 * 32,
		BF16: 2 * 6 * 9 * 32, I8: 6*12*32 + 4*6*32} {
		m, err := PackMatrix(zeros(2, 3, 9, 17), MatrixConfig{Format: typ})
		must(t, err)
		if got := m.MemoryUse(); got != want {
			t.Errorf("%v: MemoryUse is %d, want %d", typ, got, want)
		}
		must(t, m.Close())
		if got := m.MemoryUse(); got != 0 {
			t.Errorf("%v: MemoryUse is %d after Close, want 0", typ, got)
		}
	}
	if got := new(Matrix).MemoryUse(); got != 0 {
		t.Errorf("MemoryUse is %d without a matrix, want 0", got)
	}
}

func TestPackErrors(t *testing.T) {
	with := func(e float64) Tensor {
		x := zeros(2, 3, 4, 5)
		x.Row(1, 2, 3)[2] = float32(e)
		return x
	}
	short := zeros(1, 3, 5, 6)
	short.Data = short.Data[1:]
	rows := fmt.Sprintf("want at least one row and at most %d elements", maxElements)
	huge := repeated(make([]float32, 1), maxLength, maxLength, 1, 1)
	for _, e := range []struct {
		name, most string
		pack       func(x Tensor, typ Format) (*Matrix, error)
	}{{"rows", "8.5070587e+37", packRows}, {"transposed", "3.4028235e+38", packTransposed}} {
		fails := func(x Tensor, typ Format, kind error, text string) {
			t.Helper()
			m, err := e.pack(x, typ)
			mustFail(t, e.name, err, kind, text)
			if m != nil {
				t.Errorf("%s: there is a matrix beside the error", e.name)
			}
		}
		end := " in row 3, column 2 of head 2, batch entry 1, want a magnitude of at " +
			"most " + e.most + " for I8"
		fails(with(math.NaN()), I8, ErrOption, "w is NaN"+end)
		fails(with(math.Inf(1)), I8, ErrOption, "w is +Inf"+end)
		fails(with(math.Inf(-1)), I8, ErrOption, "w is -Inf"+end)
		fails(with(0), -2, ErrOption, "MatrixConfig.Format is Format(-2), want F32, F16, BF16 or I8")
		fails(with(0), I8+1, ErrOption, "MatrixConfig.Format is I4, want F32, F16, BF16 or I8")
		for _, typ := range matrixTypes {
			fails(Tensor{B: 1, H: 1, D: 1}, typ, ErrShape, "w is [1 1 0 1], "+rows)
			fails(Tensor{B: 1, H: 1, L: 1}, typ, ErrShape, fmt.Sprintf("w.D is 0, want 1 to %d", maxLength))
			fails(huge, typ, ErrShape, "w is [268435456 268435456 1 1], "+rows)
			fails(short, typ, ErrLength, "len("+"w.Data) is 89, want at least 90 for [1 3 5 6] with "+
				"strides [90 30 6]")
			fails(Tensor{Data: short.Data, B: 1, H: 1, L: 2, D: 1, SL: -2}, typ, ErrStride,
				"w.SL is -2, want at least 1, or Broadcast")
		}
	}
	for _, typ := range matrixTypes[:3] {
		_, err := PackMatrix(zeros(1, 1, 4, 5), MatrixConfig{Format: typ, Integers: true})
		text := fmt.Sprintf("MatrixConfig.Format is %v with Integers, want I8", typ)
		mustFail(t, "Integers", err, ErrOption, text)
	}
	// NaN and infinities are numbers for the other types, and stay in their column.
	for _, typ := range matrixTypes[:3] {
		x := zeros(1, 1, 4, 20)
		x.Row(0, 0, 3)[17] = nan32()
		m, err := PackMatrix(x, MatrixConfig{Format: typ})
		must(t, err)
		dst := zeros(1, 1, 1, 20)
		must(t, m.MatMul(dst, zeros(1, 1, 1, 4), nil))
		for c, e := range dst.Data {
			if (e != e) != (c == 17) {
				t.Errorf("%v: column %d is %v", typ, c, e)
			}
		}
	}
}

// Calls by a matrix of any type check their arguments, and write nothing if they are wrong.
func TestMatrixTypesCheckArguments(t *testing.T) {
	for _, typ := range matrixTypes {
		m, err := PackMatrix(zeros(1, 1, 6, 5), MatrixConfig{Format: typ, Transposed: true})
		must(t, err)
		dst := BHLD(nans(4*6), 1, 1, 4, 6)
		mustFail(t, "a.D", m.MatMul(dst, zeros(1, 1, 4, 6), nil), ErrShape,
			"a.D is 6, want 5 as the matrix has rows")
		mustFail(t, "dst", threeWorkers().MulMatrix(dst, zeros(1, 1, 3, 5), m, nil), ErrShape,
			"dst is [1 1 4 6], want [1 1 3 6]")
		mustFail(t, "bias", m.MatMul(dst, zeros(1, 1, 4, 5), make([]float32, 5)), ErrLength,
			"len(bias) is 5, want 6")
		must(t, m.Close())
		mustFail(t, "closed", m.MatMul(dst, zeros(1, 1, 4, 5), nil), ErrClosed,
			"the matrix was closed, or is not from PackMatrix")
		if err := m.Close(); !errors.Is(err, ErrClosed) {
			t.Errorf("Close again: %v, want ErrClosed", err)
		}
		mustBeUntouched(t, dst)
	}
}

// benchmarkedMatrices are projections of a small encoder and of a large language model.
var benchmarkedMatrices = []struct{ inner, cols int }{{768, 3072}, {4096, 4096}}

// BenchmarkMatrix says at which rate one row reads a matrix, beside the rate of reading as much
// memory and doing nothing with it, and how fast many rows multiply.
func BenchmarkMatrix(b *testing.B) {
	for _, s := range benchmarkedMatrices {
		r := random(b.Name())
		w := tensor(r, normal, 1, 1, s.cols, s.inner)
		for _, typ := range matrixTypes {
			m, err := PackMatrix(w, MatrixConfig{Format: typ, Transposed: true})
			must(b, err)
			at := fmt.Sprintf("%dx%d/%v", s.inner, s.cols, typ)
			for _, rows := range []int{1, 4, 128} {
				dst, a := zeros(1, 1, rows, s.cols), tensor(r, normal, 1, 1, rows, s.inner)
				b.Run(fmt.Sprintf("%s/rows=%d", at, rows), func(b *testing.B) {
					for b.Loop() {
						must(b, m.MatMul(dst, a, nil))
					}
					perSecond(b, float64(m.MemoryUse()), "GB/s")
					perSecond(b, 2*float64(rows)*float64(s.inner)*float64(s.cols), "GFLOP/s")
				})
			}
			b.Run(at+"/read", func(b *testing.B) {
				data := make([]float32, len(m.data)/4) // none is NaN, which would end the loop
				fillWith(data, 1)
				for b.Loop() {
					maxOf(data)
				}
				perSecond(b, float64(len(m.data)), "GB/s")
			})
			b.Run(at+"/pack", func(b *testing.B) {
				for b.Loop() {
					p, err := PackMatrix(w, MatrixConfig{Format: typ, Transposed: true})
					must(b, err)
					must(b, p.Close())
				}
				perSecond(b, 4*float64(len(w.Data)), "GB/s")
			})
			must(b, m.Close())
		}
	}
}
