package attn

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/matmul"
	"github.com/seed-1415985d/attn/internal/packed"
)

// The definition of attention in bfloat16, written out.

// pairSum is the sum over pairs of numbers in bfloat16: for each 32 of them the chains of
// multiply-adds over even and over odd ones, whose sum is added.
func pairSum(x, y []float32) (c float32) {
	for first := 0; first < len(x); first += 32 {
		var e, o float32
		for k := first; k < min(first+32, len(x)); k++ {
			if k%2 == 0 {
				e = f32.FlushedFMA(x[k], y[k], e)
			} else {
				o = f32.FlushedFMA(x[k], y[k], o)
			}
		}
		c = f32.FlushedAdd(c, f32.FlushedAdd(e, o))
	}
	return c + 0
}

// inBFloat16 is numbers rounded to bfloat16.
func inBFloat16(x []float32) []float32 {
	y := make([]float32, len(x))
	for i, e := range x {
		y[i] = f32.FromBF16(f32.FlushedBF16(e))
	}
	return y
}

// allInBFloat16 is tokens rounded to bfloat16.
func allInBFloat16(x Tensor) Tensor {
	y := contiguous(x)
	copy(y.Data, inBFloat16(y.Data))
	return y
}

// newBFloat16 is tokens of a call in bfloat16.
func newBFloat16(k, v Tensor) *integerTokens {
	return &integerTokens{k: allInBFloat16(k), v: allInBFloat16(v), unrotate: 1}
}

// addBFloat16 adds the values of a block: the sum over its keys of weights in bfloat16 and values.
func (r *integerRow) addBFloat16(st *rowState, block int, p []float32, visible uint64, alpha,
	before float32) {
	var w, v [Block]float32
	var sums [16]float32
	for j := range p {
		if visible>>j&1 != 0 {
			if w[j] = f32.FromBF16(f32.FlushedBF16(p[j])); w[j] < 0x1p-60 {
				w[j] = 0
			}
		}
		sums[j%16] += w[j]
	}
	for half := 8; half > 0; half /= 2 {
		for i := range half {
			sums[i] += sums[i+half]
		}
	}
	st.l[0] = f32.FMA(before, alpha, sums[0])
	for x := range st.o {
		for j := range v {
			if v[j] = 0; visible>>j&1 != 0 {
				v[j] = r.v.row(r.b, r.kv, block+j)[x]
			}
		}
		st.o[x] = f32.FMA(st.o[x], alpha, pairSum(w[:], v[:]))
	}
}

// weights are those of the row with its final state.
func (r *integerRow) weights(dst []float32, st *rowState, c float32) {
	for j := range dst {
		dst[j] = 0
		if j >= r.keys || !r.sees(j) || st.l[0] == 0 {
			continue
		}
		s := r.score(j)
		if c != r.c { // a sink has made the state natural
			s = float32(s * r.unit)
		}
		dst[j] = float32(inBFloat16([]float32{f32.Exp2(s-st.m[0], c)})[0] * float32(1/st.l[0]))
	}
}

func bfloat16Problem(r *rand.Rand, s shape) *problem {
	p := problemOf(r, []distribution{normal, coarse, zeroes, special, tiny, huge}[r.IntN(6)], s)
	p.k, p.v = contiguous(p.k), contiguous(p.v)
	p.opt.BFloat16 = true
	switch r.IntN(8) {
	case 0:
		scaleBy(p.v.Data, anyPower(r, 105))
	case 1: // sums about the least normal number
		scaleBy(p.q.Data, 0x1p-64)
		scaleBy(p.k.Data, 0x1p-62)
		p.opt.Scale = 0x1p125
	case 2: // weights about the cut
		p.opt.Scale = float32(r.Float64() * 20)
	}
	return p
}

// mustBeBFloat16ByDefinition: every way to compute attention in bfloat16 has the bits of the
// definition.
func (p *problem) mustBeBFloat16ByDefinition(t *testing.T) {
	t.Helper()
	want := p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
		newBFloat16(p.k, p.v).attend(dst, allInBFloat16(q), opt)
		return nil
	})
	for _, way := range ways {
		p.same(t, way.name, p.solve(t, way.attend), want)
	}
}

func TestBFloat16IsItsDefinition(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("bfloat16")
		for range budget(200) {
			anyTuning(t, r)
			bfloat16Problem(r, anyTypedShape(r)).mustBeBFloat16ByDefinition(t)
		}
	})
}

// halfPairs are formats of keys and of values that BFloat16 takes.
var halfPairs = []formatPair{{F16, F16}, {BF16, BF16}, {F32, F16}, {F32, BF16}, {F16, BF16}}

// Over a cache or store of halves the bits are those over the numbers to which it decodes.
func TestBFloat16OverHalves(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, f := range halfPairs {
			r := random("bfloat16 over " + f.String())
			for range budget(40) {
				anyTuning(t, r)
				p := bfloat16Problem(r, anyTypedShape(r))
				k, _ := keptIn(f.keys, p.k)
				v, _ := keptIn(f.values, p.v)
				want := (&problem{q: p.q, k: k, v: v, opt: p.opt}).solve(t, Attend)
				for name, attend := range waysIn(f) {
					if p.opt.Offset != 0 && strings.Contains(strings.ToLower(name), "sequences") {
						continue
					}
					p.same(t, fmt.Sprint(f, " ", name), p.solve(t, attend), want)
				}
			}
		}
	})
}

// So does a cache with ValuesInKeys have the bits over views of the same tokens.
func TestBFloat16OfLatentTokens(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, f := range []Format{F32, F16, BF16} {
			r := random("bfloat16 latent " + f.String())
			for range budget(40) {
				anyTuning(t, r)
				s := anyTypedShape(r)
				if r.IntN(2) == 0 { // few rows over keys of whole groups
					s.lq, s.d = 1+r.IntN(2), 32*(1+r.IntN(3))
				}
				s.dv = 1 + r.IntN(s.d)
				p := bfloat16Problem(r, s)
				p.v = firstOf(p.k, s.dv)
				k, _ := keptIn(f, p.k)
				want := (&problem{q: p.q, k: k, v: contiguous(firstOf(k, s.dv)), opt: p.opt}).solve(t, Attend)
				for name, attend := range waysIn(formatPair{f, f}) {
					if p.opt.Offset != 0 && strings.Contains(strings.ToLower(name), "sequences") {
						continue
					}
					p.same(t, fmt.Sprint(f, " ", name), p.solve(t, attend), want)
				}
			}
		}
	})
}

func TestBFloat16AttendErrors(t *testing.T) {
	x := zeros(1, 1, 2, 8)
	opt := &Options{BFloat16: true}
	dst := BHLD(nans(16), 1, 1, 2, 8)
	for _, f := range formatPairs {
		if max(f.keys, f.values) < I8 {
			continue
		}
		text := fmt.Sprintf("BFloat16 is true over keys in %v, want F32, F16 or BF16", f.keys)
		if f.keys < I8 {
			text = fmt.Sprintf("BFloat16 is true over values in %v, want F32, F16 or BF16", f.values)
		}
		for name, attend := range waysIn(f) {
			mustFail(t, f.String()+" "+name, attend(zeros(1, 1, 2, 8), x, x, contiguous(x), opt), ErrOption,
				text)
		}
		c, err := f.filled(x, contiguous(x))
		must(t, err)
		mustFail(t, f.String(), c.Attend(dst, x, opt), ErrOption, text)
		mustBeUntouched(t, dst)
	}
	s := sequenceOf(t, StoreConfig{KVHeads: 1, HeadDim: 8, ValueDim: 8, Pages: 2, Format: I4})
	must(t, s.Append(x, x))
	st, err := NewState(StateConfig{1, 1, 2, 8})
	must(t, err)
	mustFail(t, "state", st.UpdateSequence(x, s, opt), ErrOption,
		"BFloat16 is true over keys in I4, want F32, F16 or BF16")
	mustFail(t, "both", Attend(dst, x, x, contiguous(x), &Options{BFloat16: true, Integers: true}),
		ErrOption, "BFloat16 and Integers are true, want one of them")
	mustBeUntouched(t, dst)
}

// A NaN or an infinity reaches the rows that see it and no others: in a query or a key a whole row,
// in a value its channel, also where the weight is 0.
func TestBFloat16NotFinite(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, bad := range []float32{nan32(), float32(math.Inf(1)), negInf, math.MaxFloat32} {
			p := newProblem(random("not finite"), normal, shape{1, 1, 2, 90, 90, 12, 20})
			p.opt = Options{BFloat16: true, Causal: TopLeft}
			for i := 70; i < 90; i++ { // a key of no weight
				fillWith(p.q.row(0, 0, i), 9)
				fillWith(p.q.row(0, 1, i), 9)
			}
			fillWith(p.k.row(0, 0, 3), 9)
			want := p.solve(t, Attend)
			p.v.row(0, 0, 70)[5] = bad
			got := p.solve(t, Attend)
			for at := range 2 * 90 * 20 {
				i, x := at/20%90, at%20
				g, w := got.o[at], want.o[at]
				if sees := i >= 70 && x == 5; sees != (g != g) || !sees && g != w {
					t.Fatalf("v[70][5] = %v: query %d, channel %d: %v, before it was %v", bad, i, x, g, w)
				}
			}
		}
	})
}

// Each Update of a State chooses its arithmetic: the bits are those of the parts' own.
func TestBFloat16OfSomeUpdates(t *testing.T) {
	p := newProblem(random("some updates"), normal, shape{1, 1, 2, 9, 3 * Segment, 16, 24})
	part := func(opt *Options, lo, hi int) *State {
		s, err := NewState(StateConfig{1, 2, 9, 24})
		must(t, err)
		must(t, s.Update(p.q, p.k.Slice(lo, hi), p.v.Slice(lo, hi), opt))
		return s
	}
	floats, bfloat16 := &Options{}, &Options{BFloat16: true}
	got := part(floats, 0, Segment)
	must(t, got.Update(p.q, p.k.Slice(Segment, 2*Segment), p.v.Slice(Segment, 2*Segment), bfloat16))
	must(t, threeWorkers().Update(got, p.q, p.k.Slice(2*Segment, 3*Segment),
		p.v.Slice(2*Segment, 3*Segment), floats))
	want := part(floats, 0, Segment)
	must(t, want.Merge(part(bfloat16, Segment, 2*Segment)))
	must(t, want.Merge(part(floats, 2*Segment, 3*Segment)))
	x, err := got.MarshalBinary()
	must(t, err)
	y, err := want.MarshalBinary()
	must(t, err)
	if !bytes.Equal(x, y) {
		t.Error("one State with three Updates differs from three that were merged")
	}
}

// BenchmarkBFloat16Attention is attention in bfloat16 over that in float32, in turns: over views,
// and over caches of BF16.
func BenchmarkBFloat16Attention(b *testing.B) {
	r := random(b.Name())
	for _, s := range []struct {
		name   string
		shape  shape
		causal Causal
	}{
		{"d=128", shape{1, 8, 1, 2048, 2048, 128, 128}, Full},
		{"d=128/causal", shape{1, 8, 1, 2048, 2048, 128, 128}, BottomRight},
		{"d=64", shape{1, 8, 1, 1024, 1024, 64, 64}, Full},
		{"d=64/causal", shape{1, 8, 1, 1024, 1024, 64, 64}, BottomRight},
		{"bert", shape{8, 12, 1, 128, 128, 64, 64}, Full},
		{"decode", shape{1, 32, 1, 1, 4096, 128, 128}, Full},
		{"decode/group=4", shape{1, 8, 4, 1, 4096, 128, 128}, Full},
	} {
		p := newProblem(r, normal, s.shape)
		dst, _, _ := p.results()
		c, err := filledIn(BF16, p.k, p.v)
		must(b, err)
		floats, bfloat16 := &Options{Causal: s.causal}, &Options{Causal: s.causal, BFloat16: true}
		b.Run(s.name+"/views", func(b *testing.B) {
			ratio(b, func() error { return Attend(dst, p.q, p.k, p.v, bfloat16) },
				func() error { return Attend(dst, p.q, p.k, p.v, floats) })
		})
		b.Run(s.name+"/cache", func(b *testing.B) {
			ratio(b, func() error { return c.Attend(dst, p.q, bfloat16) },
				func() error { return c.Attend(dst, p.q, floats) })
		})
		must(b, c.Close())
	}
}

// The errors against float64 are at most what a model of the definition gives: of normal data, of
// keys and values that are bfloat16 already, and with scores four times as large.
func TestBFloat16Accuracy(t *testing.T) {
	for _, c := range []struct {
		spread, output, stored float64
	}{{1, 0.0033, 0.0024}, {4, 0.0065, 0.0054}} {
		for _, d := range []int{64, 128} {
			p := newProblem(random(fmt.Sprint("accuracy in bfloat16 ", d)), normal,
				shape{1, 4, 1, 96, 512, d, d})
			scaleBy(p.q.Data, float32(c.spread))
			p.opt.BFloat16 = true
			stored := *p
			stored.k, stored.v = allInBFloat16(p.k), allInBFloat16(p.v)
			for _, e := range []struct {
				name string
				of   *problem
				want float64
			}{{"views", p, c.output}, {"a cache of BF16", &stored, c.stored}} {
				got, exact := e.of.solve(t, Attend), e.of.reference().Float64()
				output, lse := errorOf(got.o, exact.O), errorOf(got.lse, exact.LSE)
				t.Logf("%s, D = %d, scores × %v: outputs %.5f, LSE %.5f", e.name, d, c.spread, output, lse)
				if output > 1.1*e.want || c.spread == 1 && lse > 4e-4 {
					t.Errorf("want at most %.4f and 0.0004", e.want)
				}
			}
		}
	}
}

// errorOf returns the root mean square of differences, divided by that of the exact numbers.
func errorOf(got []float32, exact []float64) float64 {
	var difference, size float64
	for i, e := range exact {
		difference, size = difference+squared(float64(got[i])-e), size+squared(e)
	}
	return math.Sqrt(difference / size)
}

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

// Sums near the least normal number, infinities and NaN follow the definition, too.
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
			for _, rows := range []int{1, 2, 4, 8, 32, 128, 512} {
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
