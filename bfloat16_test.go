package attn

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
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

// errorOf is the root mean square of differences over that of what is exact.
func errorOf(got []float32, exact []float64) float64 {
	var difference, size float64
	for i, e := range exact {
		difference, size = difference+squared(float64(got[i])-e), size+squared(e)
	}
	return math.Sqrt(difference / size)
}
