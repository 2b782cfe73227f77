package attn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// int8Problem is a random problem in integers.
func int8Problem(r *rand.Rand, s shape) *problem {
	p := finiteProblem(r, s)
	p.opt.Integers = true
	return p
}

// Every way to compute attention in integers has the bits of the definition, with every option.
func TestInt8IsItsDefinition(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("int8")
		for range budget(200) {
			anyTuning(t, r)
			p := int8Problem(r, anyTypedShape(r))
			want := p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
				newIntegers(rotatedRows(p.k), p.v).attend(dst, rotatedRows(q), opt)
				return nil
			})
			for i, way := range ways {
				got := p.solve(t, way.attend)
				if i == 0 {
					want.weights = got.weights // the definition has none; ways are compared
				}
				p.same(t, way.name, got, want)
			}
		}
	})
}

// Values of 1 give 1, wherever small weights are: eight bits would round them to nothing.
func TestInt8KeepsSmallWeights(t *testing.T) {
	const keys, d = 2048, 64
	for name, key := range map[string]int{"one score of 0 beside 2047 of −7": 0,
		"a last one": keys - 1} {
		q, k, v := zeros(1, 1, 1, d), zeros(1, 1, keys, d), zeros(1, 1, keys, d)
		q.Data[0] = 8
		fillWith(v.Data, 1)
		for j := range keys {
			if j != key {
				k.row(0, 0, j)[0] = -7
			}
		}
		dst := zeros(1, 1, 1, d)
		must(t, Attend(dst, q, k, v, &Options{Integers: true}))
		for _, e := range dst.Data {
			if math.Abs(float64(e)-1) > 1e-3 {
				t.Fatalf("%s: values of 1 give %v", name, e)
			}
		}
	}
}

// A NaN or an infinity reaches the rows that see it, all of each, and no others.
func TestInt8NotFinite(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, bad := range []float32{nan32(), float32(math.Inf(1)), negInf} {
			for _, into := range []string{"q", "k", "v"} {
				p := newProblem(random("not finite"), normal, shape{1, 1, 2, 90, 90, 12, 20})
				p.opt = Options{Integers: true, Causal: TopLeft}
				want := p.solve(t, Attend)
				row := map[string][]float32{"q": p.q.row(0, 1, 70),
					"k": p.k.row(0, 0, 70), "v": p.v.row(0, 0, 70)}[into]
				row[5] = bad
				got := p.solve(t, Attend)
				for at := range 2 * 90 {
					h, i := at/90, at%90
					sees := i >= 70
					if into == "q" {
						sees = i == 70 && h == 1
					}
					for x := range 20 {
						g, w := got.o[at*20+x], want.o[at*20+x]
						if sees != (g != g) || !sees && g != w {
							t.Fatalf("%v in %s: output %d of query %d, head %d is %v, was %v", bad, into, x, i, h, g, w)
						}
					}
				}
			}
		}
	})
}

func TestInt8Errors(t *testing.T) {
	x := zeros(1, 1, 2, 8)
	opt := &Options{Integers: true}
	for _, f := range []Format{F32, F16, BF16} {
		c, err := filledIn(f, x, x)
		must(t, err)
		dst := BHLD(nans(16), 1, 1, 2, 8)
		text := fmt.Sprintf("Integers is true over keys in %v, want I8", f)
		mustFail(t, "cache", c.Attend(dst, x, opt), ErrOption, text)
		mustBeUntouched(t, dst)
	}
	s := sequenceOf(t, StoreConfig{KVHeads: 1, HeadDim: 8, ValueDim: 8, Pages: 2, Format: F16})
	must(t, s.Append(x, x))
	text := "Integers is true over keys in F16, want I8"
	o := Options{Integers: true, QueryLens: []int{2}}
	mustFail(t, "store", AttendSequences(zeros(1, 1, 2, 8), x, []*Sequence{s}, &o), ErrOption, text)
	st, err := NewState(StateConfig{1, 1, 2, 8})
	must(t, err)
	mustFail(t, "state", st.UpdateSequence(x, s, opt), ErrOption, text)
	wide := zeros(1, 1, 1, maxInt8Dim)
	mustFail(t, "wide", Attend(zeros(1, 1, 1, 8), wide, wide, zeros(1, 1, 1, 8), opt), ErrUnsupported,
		"k.D is 65536 with Integers, want less than 65536: sums would overflow")
}

// relativeErrorOfInt8 is the error of outputs against float32.
func relativeErrorOfInt8(t *testing.T, p *problem) float64 {
	q := *p
	q.opt.Integers = true
	return relativeError(q.solve(t, Attend).o, p.solve(t, Attend).o)
}

// Integers cost little more than the rounding of queries, keys and values.
func TestInt8Accuracy(t *testing.T) {
	for _, d := range []int{64, 128} {
		p := newProblem(random("int8 accuracy"), normal, shape{1, 2, 1, 48, 512, d, d})
		if e := relativeErrorOfInt8(t, p); !(e > 0.005 && e < 0.013) {
			t.Errorf("D = %d: the error is %.4f, want about 0.01", d, e)
		}
	}
}

// States in parts, travelled and merged, have the bits of one call; states of other queries meet in
// natural units.
func TestInt8States(t *testing.T) {
	p := newProblem(random("int8 states"), normal, shape{2, 2, 2, 5, 3*Segment + 77, 24, 16})
	p.opt.Integers = true
	want := p.solve(t, Attend)
	first, err := stateOver(p.q, p.k, p.v, p.opt, 0, 2*Segment)
	must(t, err)
	second, err := stateOver(p.q, p.k, p.v, p.opt, 2*Segment, p.k.L)
	must(t, err)
	data, err := second.MarshalBinary()
	must(t, err)
	var travelled State
	must(t, travelled.UnmarshalBinary(data))
	must(t, first.Merge(&travelled))
	dst, _, lse := p.results()
	must(t, first.Finish(dst, lse))
	mustEqualBits(t, "outputs", dst.Data, want.o)
	mustEqualBits(t, "log-sum-exps", lse, want.lse)
	for n := range len(data) {
		if err := new(State).UnmarshalBinary(data[:n]); err == nil {
			t.Fatalf("%d of %d bytes are a state", n, len(data))
		}
	}
	// beside an Update in float32 both are natural, which moves results by some rounding
	mixed, err := stateOver(p.q, p.k, p.v, p.opt, 0, Segment)
	must(t, err)
	rest := rowsOf(p.k, Segment, p.k.L-Segment)
	must(t, mixed.Update(p.q, rest, rowsOf(p.v, Segment, p.k.L-Segment), nil))
	must(t, mixed.Finish(dst, nil))
	if e := relativeError(dst.Data, want.o); e > 0.02 {
		t.Errorf("the error of a state of both arithmetics is %v", e)
	}
}
