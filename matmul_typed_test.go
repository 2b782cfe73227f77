package attn

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/matmul"
)

var matrixTypes = []Format{F32, F16, BF16, I8}

// typedShapes are products in which parts of the inner index, groups of four steps, panels, few
// rows and widened parts end anywhere.
var typedShapes = append([]productShape{
	{1, 1, 1, 2*matmul.Inner + 3, matmul.Cols + 9, 1, 1},
	{1, 1, narrow.MaxRows, matmul.Inner + 6, 2*matmul.Cols + 17, 1, 1},
	{1, 1, narrow.MaxRows + 1, matmul.Inner + 5, 2*matmul.Cols + 33, 1, 1},
	{1, 1, 3, 2 * matmul.Inner, 2 * panel, 1, 1},
	{1, 1, matmul.WidenedRows + 1, 7, 2*matmul.Cols + 3, 1, 1},
	{1, 2, matmul.WidenedRows + matmul.Rows + narrow.MaxRows + 2, 5, 19, 1, 2},
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
	on := &oneByOne{workers: 64, memory: new(matmul.Memory)}
	must(t, on.memory.MulMatrix(on, &tuned, viewed(&dst), viewed(&a), bodyOf(m), nil))
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

// A matrix uses the memory of its type: whole panels, groups of four integers, and scales.
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
		fails(with(0), I8+1, ErrOption, "MatrixConfig.Format is I4, want F32, F16, BF16 or I8: "+
			"weights of 4 bits are blocks, see PackBlocks")
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
			"a.D is 6, want 5 as the matrix has inputs")
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

// BenchmarkMatrix reports the rate at which one row reads a matrix, the rate of only reading as
// much memory, and how fast many rows multiply.
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
				data := make([]float32, len(m.body.Elements())/4) // none is NaN, which would end the loop
				fillWith(data, 1)
				for b.Loop() {
					maxOf(data)
				}
				perSecond(b, float64(len(m.body.Elements())), "GB/s")
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

// weightsOf is the weights [batch, heads, outputs, inputs] of w, a row for each input, as a matrix
// of a format has them by definition.
func weightsOf(typ Format, w Tensor) Tensor {
	want := zeros(w.B, w.H, w.D, w.L)
	for b := range w.B {
		for h := range w.H {
			for c := range w.D {
				column, scale := storedColumn(typ, &w, b, h, c)
				if typ == I8 {
					for k, e := range column {
						column[k] = float32(e * scale)
					}
					rotateGeneric(column, 1, len(column), len(column), matrixRotation(len(column)))
				}
				copy(want.Row(b, h, c), column)
			}
		}
	}
	return want
}

// weightsOfBlocks is weightsOf for blocks of a file.
func weightsOfBlocks(typ BlockType, data []byte, outputs, inputs int) Tensor {
	want := zeros(1, 1, outputs, inputs)
	for i, e := range weightsIn(typ, data) {
		want.Data[i] = float32(e.Value())
	}
	return want
}

// someOutputs draws outputs, some of them several times and in neighbourhoods.
func someOutputs(r *rand.Rand, most, cols int) (outputs []int32) {
	for range r.IntN(most + 1) {
		at := r.IntN(cols)
		if n := len(outputs); n > 0 && r.IntN(2) == 0 {
			at = (int(outputs[n-1]) + r.IntN(3)) % cols
		}
		outputs = append(outputs, int32(at))
	}
	return outputs
}

// allOutputs is every output of a matrix in order.
func allOutputs(m *Matrix) (outputs []int32) {
	for c := range outputsOf(m) {
		outputs = append(outputs, int32(c))
	}
	return outputs
}

// checkRowsOf compares rows of a matrix with its weights.
func checkRowsOf(t testing.TB, what string, m *Matrix, weights Tensor, outputs []int32) {
	t.Helper()
	batch, heads, inputs, _ := m.Dims()
	dst := BHLD(nans(batch*heads*len(outputs)*inputs), batch, heads, len(outputs), inputs)
	must(t, m.Rows(dst, outputs))
	mustEqualBits(t, what, dst.Data, rowsAt(weights, outputs).Data)
}

// rowsAt is some rows of each head.
func rowsAt(x Tensor, rows []int32) Tensor {
	y := zeros(x.B, x.H, len(rows), x.D)
	for b := range x.B {
		for h := range x.H {
			for i, row := range rows {
				copy(y.Row(b, h, i), x.Row(b, h, int(row)))
			}
		}
	}
	return y
}

// Rows are the weights of a format by definition, of a matrix of any shape.
func TestRowsAreTheirDefinition(t *testing.T) {
	everyMatrix(t, func(t *testing.T, w Tensor, c MatrixConfig) {
		inputs := w
		if c.Transposed {
			inputs = transposedOf(w)
		}
		want := weightsOf(c.Format, inputs)
		forEach(t, func(t *testing.T) {
			m, err := PackMatrix(w, c)
			must(t, err)
			checkRowsOf(t, "all rows", m, want, allOutputs(m))
			checkRowsOf(t, "some rows", m, want, someOutputs(random(t.Name()), 20, outputsOf(m)))
			checkRowsOf(t, "no row", m, want, nil)
			must(t, m.Close())
		})
	})
}

// transposedOf has a row for each column of x.
func transposedOf(x Tensor) Tensor {
	y := zeros(x.B, x.H, x.D, x.L)
	for b := range x.B {
		for h := range x.H {
			for i := range x.L {
				for c, e := range x.Row(b, h, i) {
					y.Row(b, h, c)[i] = e
				}
			}
		}
	}
	return y
}

// allBlockTypes is every type.
func allBlockTypes() (all []BlockType) {
	for t := Q8_0; blocks.Type(t).Valid(); t++ {
		all = append(all, t)
	}
	return all
}

// Rows of blocks are what the blocks decode to, with Integers or not.
func TestRowsOfBlocks(t *testing.T) {
	for _, typ := range allBlockTypes() {
		for _, s := range [][2]int{{1, 1}, {16, 2}, {35, 5}} {
			outputs, inputs := s[0], s[1]*256
			r := random(fmt.Sprint(typ, s))
			data := fileOfBlocks(r, typ, outputs, inputs)
			want := zeros(1, 1, outputs, inputs)
			if blocks.Type(typ).Halves() {
				w := tensor(r, normal, 1, 1, inputs, outputs)
				want = weightsOf(formatOfHalf(typ), w)
				for i, x := range want.Data {
					e := f32.ToF16(x)
					if typ == BlockBF16 {
						e = f32.ToBF16(x)
					}
					data[2*i], data[2*i+1] = byte(e), byte(e>>8)
				}
			} else {
				want = weightsOfBlocks(typ, data, outputs, inputs)
			}
			forEach(t, func(t *testing.T) {
				for _, integers := range []bool{false, true} {
					if integers && blocks.Type(typ).Halves() {
						continue
					}
					m, err := PackBlocks(data, typ, outputs, inputs, MatrixConfig{Integers: integers})
					must(t, err)
					checkRowsOf(t, "all rows", m, want, allOutputs(m))
					checkRowsOf(t, "some rows", m, want, someOutputs(r, 20, outputs))
					must(t, m.Close())
				}
			})
		}
	}
}

// A product by unit vectors is the same weights, where products are sums of floats that are not
// rotated.
func TestRowsAreWhatProductsUse(t *testing.T) {
	const inputs, outputs = 512, 35
	unit := zeros(1, 1, inputs, inputs)
	for i := range inputs {
		unit.Row(0, 0, i)[i] = 1
	}
	r := random(t.Name())
	check := func(m *Matrix, err error) {
		t.Helper()
		must(t, err)
		products, rows := zeros(1, 1, inputs, outputs), zeros(1, 1, outputs, inputs)
		must(t, m.MatMul(products, unit, nil))
		must(t, m.Rows(rows, allOutputs(m)))
		for i, e := range transposedOf(products).Data {
			if e != rows.Data[i] { // zeros of either sign are equal
				t.Fatalf("%v: weight %d is %v in products, %v in rows", m.Format(), i, e, rows.Data[i])
			}
		}
		must(t, m.Close())
	}
	for _, f := range []Format{F32, F16, BF16} {
		check(PackMatrix(tensor(r, normal, 1, 1, inputs, outputs), MatrixConfig{Format: f}))
	}
	for _, typ := range integerBlockTypes {
		check(PackBlocks(fileOfBlocks(r, typ, outputs, inputs), typ, outputs, inputs, MatrixConfig{}))
	}
}

// FuzzRows: rows of any matrix are its weights by definition, in any strides, and touch nothing
// around dst; outputs that do not exist are refused.
func FuzzRows(f *testing.F) {
	seedInputs(f)
	operands := new(kerneltest.Arena)
	f.Cleanup(operands.Free)
	f.Fuzz(func(t *testing.T, data []byte) {
		r := randomFrom(data)
		anyTuning(t, r)
		m, weights := drawMatrix(t, r)
		defer m.Close()
		outputs := someOutputs(r, 20, outputsOf(m))
		want := rowsAt(weights, outputs)
		const canary = 12345
		operands.Used = [3]int{}
		out, _ := scatter(r, &operands.Floats, &operands.Used[0], want, [3]bool{}, canary)
		got := zeros(want.B, want.H, want.L, want.D)
		for i := range got.Data {
			got.Data[i] = canary
		}
		if len(outputs) > 0 && r.IntN(4) == 0 {
			spoiled := append([]int32(nil), outputs...)
			at := r.IntN(len(spoiled))
			spoiled[at] = []int32{-1, int32(outputsOf(m)), -1 << 31, 1<<31 - 1}[r.IntN(4)]
			mustFail(t, "Rows", m.Rows(out, spoiled), ErrOption,
				fmt.Sprintf("outputs[%d] is %d, want 0 to %d", at, spoiled[at], outputsOf(m)-1))
		}
		must(t, m.Rows(out, outputs))
		gather(t, got, out, canary)
		mustEqualBits(t, "Rows", got.Data, want.Data)
	})
}

// drawMatrix draws a matrix, and its weights by definition.
func drawMatrix(t testing.TB, r *rand.Rand) (*Matrix, Tensor) {
	if r.IntN(2) == 0 {
		typ := integerBlockTypes[r.IntN(len(integerBlockTypes))]
		outputs, inputs := 1+r.IntN(40), (1+r.IntN(3))*traitsOf(typ).Inputs
		file := fileOfBlocks(r, typ, outputs, inputs)
		m, err := PackBlocks(file, typ, outputs, inputs, MatrixConfig{Integers: r.IntN(2) == 0})
		must(t, err)
		return m, weightsOfBlocks(typ, file, outputs, inputs)
	}
	w := drawProduct(r, normal).b
	c := matrixConfigs[r.IntN(len(matrixConfigs))]
	m, err := PackMatrix(w, c)
	must(t, err)
	return m, weightsOf(c.Format, w)
}

func TestRowsErrors(t *testing.T) {
	const inputs, outputs = 8, 20
	m, err := PackMatrix(zeros(2, 1, inputs, outputs), MatrixConfig{Format: BF16})
	must(t, err)
	closed, err := PackMatrix(zeros(1, 1, inputs, outputs), MatrixConfig{})
	must(t, err)
	must(t, closed.Close())
	memory := nans(2 * 3 * inputs)
	x := BHLD(memory, 2, 1, 3, inputs)
	shared := unsafe.Slice((*int32)(unsafe.Pointer(&memory[7])), 3)
	copy(shared, []int32{0, 1, 2})
	short := x
	short.Data = memory[:5]
	for _, c := range []struct {
		m       *Matrix
		dst     Tensor
		outputs []int32
		kind    error
		text    string
	}{
		{m, x, []int32{0, -1, 2}, ErrOption, "outputs[1] is -1, want 0 to 19"},
		{m, x, []int32{0, 1, 20}, ErrOption, "outputs[2] is 20, want 0 to 19"},
		{m, x, []int32{0, 1}, ErrShape, "dst is [2 1 3 8], want [2 1 2 8]"},
		{m, x, nil, ErrShape, "dst is [2 1 3 8], want [2 1 0 8]"},
		{m, BHLD(memory, 1, 1, 3, 8), []int32{0, 1, 2}, ErrShape, "dst is [1 1 3 8], want [2 1 3 8]"},
		{m, BHLD(memory, 2, 1, 3, 4), []int32{0, 1, 2}, ErrShape, "dst is [2 1 3 4], want [2 1 3 8]"},
		{m, short, []int32{0, 1, 2}, ErrLength,
			"len(dst.Data) is 5, want at least 48 for [2 1 3 8] with strides [24 24 8]"},
		{m, Tensor{Data: memory, B: 2, H: 1, L: 3, D: 8, SB: 8, SH: 8, SL: 8}, []int32{0, 1, 2},
			ErrStride, "dst has a stride of 8 over 3 elements, want at least 16 so that no two " +
				"outputs coincide"},
		{m, x, shared, ErrOverlap, "dst overlaps outputs, want separate memory"},
		{closed, BHLD(memory, 1, 1, 3, 8), []int32{0, 1, 2}, ErrClosed,
			"the matrix was closed, or is not from PackMatrix"},
		{new(Matrix), Tensor{}, nil, ErrClosed,
			"the matrix was closed, or is not from PackMatrix"},
	} {
		before := append([]byte(nil), rawBytes(memory)...)
		mustFail(t, c.text, c.m.Rows(c.dst, c.outputs), c.kind, c.text)
		if !bytes.Equal(before, rawBytes(memory)) {
			t.Fatalf("%s: dst was written by a failed call", c.text)
		}
	}
	must(t, m.Rows(Tensor{B: 2, H: 1, D: inputs}, nil))
	must(t, m.Rows(x, []int32{0, 19, 0}))
	must(t, m.Close())
}

// A matrix says what it is made of, in a file and closed, too.
func TestMatrixSaysItsFormat(t *testing.T) {
	check := func(m *Matrix, f Format, typ BlockType) {
		t.Helper()
		var file bytes.Buffer
		_, err := m.Save(&file)
		must(t, err)
		loaded, err := LoadMatrix(&file)
		must(t, err)
		must(t, m.Close())
		for _, x := range []*Matrix{m, loaded} {
			got, ok := x.BlockType()
			if x.Format() != f || got != typ || ok != (typ != 0) {
				t.Errorf("a matrix is of %v, %v, %t, want %v, %v", x.Format(), got, ok, f, typ)
			}
		}
		must(t, loaded.Close())
	}
	for _, c := range matrixConfigs {
		m, err := PackMatrix(zeros(1, 1, 8, 3), c)
		must(t, err)
		check(m, c.Format, 0)
	}
	for _, typ := range allBlockTypes() {
		of := traitsOf(typ)
		m, err := PackBlocks(make([]byte, of.Bytes), typ, 1, of.Inputs, MatrixConfig{})
		must(t, err)
		if blocks.Type(typ).Halves() {
			check(m, formatOfHalf(typ), 0)
		} else {
			check(m, Blocks, typ)
		}
	}
}

// Blocks is the format of nothing that is packed or kept.
func TestNothingIsKeptInBlocks(t *testing.T) {
	if got := fmt.Sprint(Blocks); got != "Blocks" {
		t.Errorf("Blocks is called %q", got)
	}
	_, err := PackMatrix(zeros(1, 1, 2, 2), MatrixConfig{Format: Blocks})
	mustFail(t, "PackMatrix", err, ErrOption,
		"MatrixConfig.Format is Blocks, want F32, F16, BF16 or I8")
	_, err = PackMatrix(zeros(1, 1, 2, 2), MatrixConfig{Format: Blocks, Integers: true})
	mustFail(t, "PackMatrix", err, ErrOption,
		"MatrixConfig.Format is Blocks, want F32, F16, BF16 or I8")
	_, err = PackBlocks(nil, Q8_0, 1, 32, MatrixConfig{Format: Blocks})
	mustFail(t, "PackBlocks", err, ErrOption,
		"MatrixConfig.Format is Blocks, want it unset: t says it")
	for _, f := range [][2]Format{{Blocks, 0}, {F16, Blocks}, {Blocks, Blocks}} {
		want := "Config.ValueFormat is Blocks, want F16, BF16, I8, I4, or 0 for Format"
		if f[0] == Blocks {
			want = "Config.Format is Blocks, want F32, F16, BF16, I8 or I4"
		}
		for _, latent := range []bool{false, true} {
			_, err = NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 8, ValueDim: 8, Capacity: 8,
				Format: f[0], ValueFormat: f[1], ValuesInKeys: latent})
			mustFail(t, "NewCache", err, ErrOption, "Cache"+want)
			_, err = NewStore(StoreConfig{KVHeads: 1, HeadDim: 8, ValueDim: 8, Pages: 1,
				Format: f[0], ValueFormat: f[1], ValuesInKeys: latent})
			mustFail(t, "NewStore", err, ErrOption, "Store"+want)
		}
	}
}
