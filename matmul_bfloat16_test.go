package attn

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/matmul"
	"github.com/seed-1415985d/attn/internal/packed"
)

// bfloat16 is a number that was rounded to bfloat16, as inputs and weights of F32 are.
func bfloat16(x float32) float32 { return f32.FromBF16(f32.FlushedBF16(x)) }

// bfloat16Weight is what products in bfloat16 multiply by, of a weight that is packed with a
// format.
func bfloat16Weight(typ Format, x float32) float32 {
	switch typ {
	case F16:
		return bfloat16(f32.FromF16(f32.ToF16(x)))
	case BF16:
		return f32.FromBF16(f32.ToBF16(x))
	}
	return bfloat16(x)
}

// bfloat16Sum is the sum over pairs by its definition.
func bfloat16Sum(x, y []float32) (c float32) {
	for k := 0; k < len(x); k += 32 {
		var chains [2]float32 // of even and of odd inputs
		for i := k; i < min(k+32, len(x)); i++ {
			chains[i%2] = f32.FlushedFMA(x[i], y[i], chains[i%2])
		}
		c = f32.FlushedAdd(c, f32.FlushedAdd(chains[0], chains[1]))
	}
	return c + 0
}

// bfloat16Product is a·b by the definition of products in bfloat16, bias left out.
func bfloat16Product(typ Format, a, b Tensor) (want []float32) {
	row, column := make([]float32, a.D), make([]float32, a.D)
	want = make([]float32, a.B*a.H*a.L*b.D)
	for i := range a.B {
		for h := range a.H {
			for c := range b.D {
				for k := range column {
					column[k] = bfloat16Weight(typ, b.Row(min(i, b.B-1), min(h, b.H-1), k)[c])
				}
				for l := range a.L {
					for k, e := range a.Row(i, h, l) {
						row[k] = bfloat16(e)
					}
					want[((i*a.H+h)*a.L+l)*b.D+c] = bfloat16Sum(row, column)
				}
			}
		}
	}
	return want
}

var bfloat16Formats = []Format{F32, F16, BF16}

// Products in bfloat16 are what their definition says, however they are packed and divided.
func TestBFloat16ProductsAreTheirDefinition(t *testing.T) {
	shareSmallCalls(t)
	hosts := random(t.Name())
	type operands struct {
		dst, a, b  Tensor
		bias, want []float32
		format     Format
	}
	var all []operands
	for i, s := range typedShapes {
		if few() && i%2 == 1 {
			continue
		}
		dst, a, b, bias, _ := productOperands(s)
		format := bfloat16Formats[i%3]
		all = append(all, operands{dst, a, b, bias, bfloat16Product(format, a, b), format})
	}
	forEach(t, func(t *testing.T) {
		for _, o := range all {
			dst, a, b, bias, want := o.dst, o.a, o.b, o.bias, o.want
			what := fmt.Sprint(o.format, a.B, a.H, a.L, a.D, b.D)
			anyTuning(t, hosts)
			x, config := b, MatrixConfig{Format: o.format, BFloat16: true, Transposed: hosts.IntN(2) == 0}
			if config.Transposed {
				x = transposedView(b)
			}
			m, err := threeWorkers().PackMatrix(x, config)
			must(t, err)
			must(t, m.MatMul(dst, a, nil))
			checkProductResult(t, what, dst, nil, want)
			must(t, m.MatMul(dst, a, bias))
			checkProductResult(t, what+" with bias", dst, bias, want)
			must(t, threeWorkers().MulMatrix(dst, a, m, bias))
			checkProductResult(t, what+" by a pool", dst, bias, want)
			inSmallUnits(t, dst, a, m)
			checkProductResult(t, what+" in many units", dst, nil, want)
			must(t, m.Close())
		}
	})
}

// aboutTheLeast is numbers whose products and sums lie about 2⁻¹²⁶, some that are not finite, and
// zeros of both signs.
func aboutTheLeast(r *rand.Rand, x []float32, finite bool) {
	for i := range x {
		exponent := 54 + r.Uint32N(20)
		switch r.IntN(24) {
		case 0:
			exponent = r.Uint32N(3)
		case 1:
			exponent = 100 + r.Uint32N(28)
		case 2:
			if !finite {
				exponent = 255
			}
		}
		mantissa := r.Uint32() >> 9
		if r.IntN(2) == 0 {
			mantissa &= 0x7f0000
		}
		x[i] = math.Float32frombits(r.Uint32()&(1<<31) | exponent<<23 | mantissa)
	}
}

// Sums near the least normal number, infinities and NaN are those of the definition, too.
func TestBFloat16Extremes(t *testing.T) {
	const rows, inputs, outputs = 19, 100, 35
	for trial := range 12 {
		r := random(fmt.Sprint(t.Name(), trial))
		a, b := zeros(1, 1, rows, inputs), zeros(1, 1, inputs, outputs)
		aboutTheLeast(r, a.Data, trial%2 == 0)
		aboutTheLeast(r, b.Data, trial%3 == 0)
		format := bfloat16Formats[trial%3]
		m, err := PackMatrix(b, MatrixConfig{Format: format, BFloat16: true})
		must(t, err)
		want := bfloat16Product(format, a, b)
		forEach(t, func(t *testing.T) {
			for _, n := range []int{rows, 1, 5} {
				dst := zeros(1, 1, n, outputs)
				must(t, m.MatMul(dst, BHLD(a.Data[:n*inputs], 1, 1, n, inputs), nil))
				mustEqualBits(t, fmt.Sprint(trial, " ", n, " rows"), dst.Data, want[:n*outputs])
			}
		})
		must(t, m.Close())
	}
}

// Rows are what products multiply by, and files have the same matrices.
func TestBFloat16RowsAndFiles(t *testing.T) {
	const inputs, outputs = matmul.Inner + 45, 37
	r := random(t.Name())
	b, a := tensor(r, normal, 2, 1, inputs, outputs), tensor(r, normal, 2, 1, 3, inputs)
	b.Row(1, 0, 2)[3], b.Row(1, 0, 5)[3] = 0x1p-130, -0x1.ffp-127
	for _, format := range bfloat16Formats {
		m, err := PackMatrix(b, MatrixConfig{Format: format, BFloat16: true})
		must(t, err)
		if m.Format() != BF16 {
			t.Errorf("of %v: Format is %v, want BF16", format, m.Format())
		}
		if got, want := m.MemoryUse(), 2*2*320*48; got != want {
			t.Errorf("of %v: MemoryUse is %d, want %d", format, got, want)
		}
		dst, want := zeros(2, 1, 2, inputs), zeros(2, 1, 2, inputs)
		must(t, m.Rows(dst, []int32{36, 3}))
		for i := range 2 {
			for n, c := range []int{36, 3} {
				for k := range inputs {
					want.Row(i, 0, n)[k] = bfloat16Weight(format, b.Row(i, 0, k)[c])
				}
			}
		}
		mustEqualBits(t, "rows of "+format.String(), dst.Data, want.Data)

		file := savedMatrix(t, m)
		loaded, err := LoadMatrix(bytes.NewReader(file))
		must(t, err)
		mapped, err := MapMatrix(fileIn(t, t.TempDir(), file))
		must(t, err)
		product := bfloat16Product(format, a, b)
		for name, x := range map[string]*Matrix{"packed": m, "loaded": loaded, "mapped": mapped} {
			dst := zeros(2, 1, 3, outputs)
			must(t, x.MatMul(dst, a, nil))
			mustEqualBits(t, name+" of "+format.String(), dst.Data, product)
			if again := savedMatrix(t, x); !bytes.Equal(again, file) {
				t.Errorf("%s of %v has another file", name, format)
			}
			must(t, x.Close())
		}
		layout := packed.Matrix{Format: kernel.Pairs, Batch: 2, Heads: 1, Inputs: inputs,
			Outputs: outputs}
		file[len(file)-5] = 1 // of an output that there is not
		repair(file, partsOfFile(layout)...)
		_, err = LoadMatrix(bytes.NewReader(file))
		mustFail(t, "stray", err, ErrFormat, "elements: a byte of no input or output is 1, want 0")
	}
}

// savedMatrix is the file of a matrix.
func savedMatrix(t *testing.T, m *Matrix) []byte {
	t.Helper()
	var b bytes.Buffer
	_, err := m.Save(&b)
	must(t, err)
	return b.Bytes()
}

// Blocks of one number are what PackMatrix makes of the numbers.
func TestBFloat16OfHalves(t *testing.T) {
	const inputs, outputs, rows = 69, 18, 3
	r := random(t.Name())
	a := tensor(r, normal, 1, 1, rows, inputs)
	for typ, format := range map[BlockType]Format{BlockF16: F16, BlockBF16: BF16} {
		w := tensor(r, normal, 1, 1, outputs, inputs)
		data := make([]byte, 0, 2*outputs*inputs)
		for _, e := range w.Data {
			bits := f32.ToF16(e)
			if format == BF16 {
				bits = f32.ToBF16(e)
			}
			data = append(data, byte(bits), byte(bits>>8))
		}
		m, err := PackBlocks(data, typ, outputs, inputs, MatrixConfig{BFloat16: true})
		must(t, err)
		dst := zeros(1, 1, rows, outputs)
		must(t, m.MatMul(dst, a, nil))
		mustEqualBits(t, typ.String(), dst.Data, bfloat16Product(format, a, transposedView(w)))
		must(t, m.Close())
	}
}

func TestBFloat16Errors(t *testing.T) {
	w := zeros(1, 1, 32, 16)
	for _, c := range []struct {
		config MatrixConfig
		text   string
	}{
		{MatrixConfig{Format: I8, BFloat16: true},
			"MatrixConfig.Format is I8 with BFloat16, want F32, F16 or BF16"},
		{MatrixConfig{Format: I8, BFloat16: true, Integers: true},
			"MatrixConfig.BFloat16 is true with Integers, want one of them"},
		{MatrixConfig{Format: 5, BFloat16: true},
			"MatrixConfig.Format is Format(5), want F32, F16, BF16 or I8"},
	} {
		_, err := PackMatrix(w, c.config)
		mustFail(t, c.text, err, ErrOption, c.text)
	}
	for typ, config := range map[BlockType]MatrixConfig{
		Q8_0: {BFloat16: true, Integers: true}, BlockBF16: {BFloat16: true, Format: BF16}} {
		_, err := PackBlocks(make([]byte, 34*16), typ, 16, 32, config)
		mustFail(t, typ.String(), err, ErrOption)
	}
}

// BenchmarkBFloat16 is products in bfloat16, over those in float32 by the same weights in F32, and
// in BF16. Matrices take turns, so that they come out of memory.
func BenchmarkBFloat16(b *testing.B) {
	const n, copies = 4096, 3
	pool := NewPool(2)
	defer pool.Close()
	w := tensor(random(b.Name()), normal, 1, 1, n, n)
	packed := func(c MatrixConfig) (next func() *Matrix) {
		var ms [copies]*Matrix
		for i := range ms {
			m, err := pool.PackMatrix(w, c)
			must(b, err)
			b.Cleanup(func() { must(b, m.Close()) })
			ms[i] = m
		}
		turn := 0
		return func() *Matrix { turn++; return ms[turn%copies] }
	}
	ours := packed(MatrixConfig{BFloat16: true})
	for _, format := range []Format{F32, BF16} {
		others := packed(MatrixConfig{Format: format})
		for _, rows := range []int{1, 2, 4, 8, 16, 32, 128, 512} {
			dst, a := zeros(1, 1, rows, n), tensor(random("a"), normal, 1, 1, rows, n)
			b.Run(fmt.Sprintf("%v/rows=%d", format, rows), func(b *testing.B) {
				ratio(b, func() error { return ours().MatMul(dst, a, nil) },
					func() error { return others().MatMul(dst, a, nil) })
			})
		}
	}
}

// BenchmarkBFloat16Blocks is products by blocks in bfloat16, over those in integers and in float32.
func BenchmarkBFloat16Blocks(b *testing.B) {
	const n, copies = 4096, 3
	for _, typ := range []BlockType{Q4_K, Q6_K, Q8_0} {
		data := ordinaryBlocks(random(b.Name()), typ, n, n)
		next := map[MatrixConfig]func() *Matrix{}
		for _, c := range blockConfigs {
			var ms [copies]*Matrix
			for i := range ms {
				m, err := PackBlocks(data, typ, n, n, c)
				must(b, err)
				b.Cleanup(func() { must(b, m.Close()) })
				ms[i] = m
			}
			turn := 0
			next[c] = func() *Matrix { turn++; return ms[turn%copies] }
		}
		for _, isa := range implementations()[:len(implementations())-1] {
			for _, rows := range []int{1, 32, 128, 512} {
				dst, a := zeros(1, 1, rows, n), tensor(random("a"), normal, 1, 1, rows, n)
				for _, c := range blockConfigs[:2] {
					b.Run(fmt.Sprintf("%v/%v/integers=%v/rows=%d", typ, isa, c.Integers, rows),
						func(b *testing.B) {
							use(b, isa)
							ratio(b, func() error { return next[MatrixConfig{BFloat16: true}]().MatMul(dst, a, nil) },
								func() error { return next[c]().MatMul(dst, a, nil) })
						})
				}
			}
		}
	}
}
