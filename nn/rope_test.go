package nn

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn"
)

// bigSinCos is by their series after reduction by π/2, with 500 bits.
func bigSinCos(x float64) (sine, cosine *big.Float) {
	const prec = 500
	pi := piOf500
	r := new(big.Float).SetPrec(prec).SetFloat64(x)
	half := new(big.Float).SetPrec(prec).Quo(pi, big.NewFloat(2))
	q := new(big.Float).SetPrec(prec).Quo(r, half)
	n, _ := q.Add(q, big.NewFloat(0.5)).Int(nil)
	r.Sub(r, new(big.Float).SetPrec(prec).Mul(half, new(big.Float).SetPrec(prec).SetInt(n)))
	series := func(term *big.Float, k int) *big.Float {
		sum := new(big.Float).SetPrec(prec)
		square := new(big.Float).SetPrec(prec).Mul(r, r)
		for ; k < 80; k += 2 {
			sum.Add(sum, term)
			term.Mul(term, square)
			term.Quo(term, big.NewFloat(float64((k+1)*(k+2))))
			term.Neg(term)
		}
		return sum
	}
	s := series(new(big.Float).SetPrec(prec).Set(r), 1)
	c := series(new(big.Float).SetPrec(prec).SetInt64(1), 0)
	switch new(big.Int).And(n, big.NewInt(3)).Int64() {
	case 0:
		return s, c
	case 1:
		return c, s.Neg(s)
	case 2:
		return s.Neg(s), c.Neg(c)
	}
	return c.Neg(c), s
}

var piOf500 = bigPi(500)

// bigPi by Machin: 16·atan(1/5) − 4·atan(1/239).
func bigPi(prec uint) *big.Float {
	atan := func(n int64) *big.Float {
		x := new(big.Float).SetPrec(prec).Quo(big.NewFloat(1), new(big.Float).SetPrec(prec).SetInt64(n))
		square := new(big.Float).SetPrec(prec).Mul(x, x)
		sum := new(big.Float).SetPrec(prec)
		for k := int64(1); k < 2*int64(prec); k += 2 {
			t := new(big.Float).SetPrec(prec).Quo(x, new(big.Float).SetInt64(k))
			if k%4 == 3 {
				t.Neg(t)
			}
			sum.Add(sum, t)
			x.Mul(x, square)
		}
		return sum
	}
	a, b := atan(5), atan(239)
	a.Mul(a, big.NewFloat(16))
	return a.Sub(a, b.Mul(b, big.NewFloat(4)))
}

// ulps is how far got is from want, in units of the last place of float64 at want.
func ulps(got float64, want *big.Float) float64 {
	w, _ := want.Float64()
	_, e := math.Frexp(w)
	d := new(big.Float).SetPrec(500).SetFloat64(got)
	f, _ := d.Sub(d, want).Float64()
	return math.Abs(math.Ldexp(f, 53-e))
}

// Sines and cosines are within 1 ULP, up to the largest angle, and where an angle is close to a
// multiple of π/2.
func TestSinCos(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	angles := []float64{0, 1, math.Pi / 2, math.Pi / 4, 1e-300, 1 << 28, maxAngle,
		0x1.921fb54442d18p+20, 6381956970095103 * 0x1p-13} // the last is close to a multiple of π/2
	for n := range 200 {
		angles = append(angles, float64(n)*math.Pi/2, math.Nextafter(float64(n)*math.Pi/4, 1e9),
			float64(r.IntN(1<<28))*math.Pi/2)
	}
	count := 1000
	if testing.Short() {
		count = 200
	}
	for range count {
		angles = append(angles, math.Exp(r.Float64()*80-52), r.Float64()*(1<<28),
			float64(r.IntN(1<<28+1)))
	}
	worst := 0.0
	for _, a := range angles {
		if a > maxAngle {
			continue
		}
		sine, cosine := sincos(a)
		wantSine, wantCosine := bigSinCos(a)
		for _, e := range []float64{ulps(sine, wantSine), ulps(cosine, wantCosine)} {
			if worst = max(worst, e); e > 1 {
				t.Fatalf("angle %v: %v, %v, %.2f ULP from %v, %v", a, sine, cosine, e, wantSine, wantCosine)
			}
		}
	}
	t.Logf("at most %.3f ULP", worst)
}

// Powers are correctly rounded: 300 bits more do not change them.
func TestPower(t *testing.T) {
	for _, base := range []float64{1, 2, 10, 1e4, 5e5, 1e6, 1.5, 1 + 0x1p-52, 1e300} {
		for _, dim := range []int{2, 4, 6, 64, 80, 128, 256} {
			for p := -dim + 2; p <= dim; p += max(2, dim/16) {
				y := power(base, p, dim)
				// y^dim·base^−p = 1 + dim·(y's relative error)
				x := bigPower(newBig(y), dim)
				if p > 0 {
					x.Quo(x, bigPower(newBig(base), p))
				} else {
					x.Mul(x, bigPower(newBig(base), -p))
				}
				e, _ := x.Sub(x, newBig(1)).Float64()
				_, exponent := math.Frexp(y)
				if half := math.Ldexp(0.5, exponent-53) / y; math.Abs(e)/float64(dim) > half*(1+1e-9) {
					t.Errorf("%v^(%d/%d) is %v, off by %.3f ULP", base, p, dim, y,
						math.Abs(e)/float64(dim)/half/2)
				}
			}
		}
	}
	for _, x := range []float64{1, 2, 1.5, 10, 1e4, 3e-3, 1e9} {
		if got := Log(x); math.Abs(got-math.Log(x)) > 0x1p-51*math.Abs(got) {
			t.Errorf("ln %v is %v, want %v", x, got, math.Log(x))
		}
	}
	for _, c := range [][2]float64{{2, 0x1.62e42fefa39efp-1}, {10, 0x1.26bb1bbb55516p+1}, {1, 0},
		{0, math.Inf(-1)}, {math.Inf(1), math.Inf(1)}, {0x1p-1074, -0x1.74385446d71c3p+9}} {
		if got := Log(c[0]); got != c[1] {
			t.Errorf("ln %v is %x, want %x", c[0], got, c[1])
		}
	}
	if got := Log(-1); got == got {
		t.Errorf("ln −1 is %v", got)
	}
}

// Scaled frequencies equal Transformers' formulas.
func TestRopeScaling(t *testing.T) {
	const dim = 64
	plain := make([]float64, dim/2)
	for i := range plain {
		plain[i] = math.Pow(1e4, -2*float64(i)/dim)
	}
	factors := make([]float64, dim/2)
	for i := range factors {
		factors[i] = 1 + float64(i)/3
	}
	yarn := func(i int) float64 {
		at := func(turns float64) float64 {
			return dim * math.Log(4096/(turns*2*math.Pi)) / (2 * math.Log(1e4))
		}
		low, high := math.Floor(at(32)), math.Ceil(at(1))
		ramp := math.Min(math.Max((float64(i)-low)/(high-low), 0), 1)
		return plain[i]/4*ramp + plain[i]*(1-ramp)
	}
	llama := func(i int) float64 {
		wave := 2 * math.Pi / plain[i]
		switch {
		case wave < 8192/4.:
			return plain[i]
		case wave > 8192/1.:
			return plain[i] / 8
		}
		smooth := (8192/wave - 1) / (4 - 1)
		return (1-smooth)*plain[i]/8 + smooth*plain[i]
	}
	ntk := 1e4 * math.Pow(2*8192/4096.-1, dim/(dim-2.))
	for _, c := range []struct {
		s         RopeScaling
		want      func(i int) float64
		attention float64
	}{
		{RopeScaling{}, func(i int) float64 { return plain[i] }, 1},
		{RopeScaling{Type: LinearScaling, Factor: 4}, func(i int) float64 { return plain[i] / 4 }, 1},
		{RopeScaling{Type: NTK, Factor: 2, Original: 4096, Length: 8192}, func(i int) float64 {
			return math.Pow(ntk, -2*float64(i)/dim)
		}, 1},
		{RopeScaling{Type: NTK, Factor: 2, Original: 4096, Length: 100}, func(i int) float64 {
			return plain[i]
		}, 1},
		{RopeScaling{Type: YaRN, Factor: 4, Original: 4096}, yarn, 0.1*math.Log(4) + 1},
		{RopeScaling{Type: YaRN, Factor: 4, Original: 4096, BetaFast: 32, BetaSlow: 1,
			AttentionFactor: 2}, yarn, 2},
		{RopeScaling{Type: Llama3, Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, Original: 8192}, llama,
			1},
		{RopeScaling{Type: LongRope, Factors: factors, AttentionFactor: 1.25}, func(i int) float64 {
			return plain[i] / factors[i]
		}, 1.25},
	} {
		config := RopeConfig{Dim: dim, Base: 1e4, Scaling: c.s}
		list, attention, err := config.frequencies([]int{0, dim / 2})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(attention-c.attention) > 1e-15 {
			t.Errorf("%v: the attention factor is %v, want %v", c.s.Type, attention, c.attention)
		}
		for i, f := range list {
			if want := c.want(i); math.Abs(f-want) > 1e-14*want {
				t.Errorf("%v: frequency %d is %v, want %v", c.s.Type, i, f, want)
			}
		}
	}
}

// A factor of +Inf leaves a pair as it is, at any position.
func TestStillPairs(t *testing.T) {
	r, err := NewRope(RopeConfig{Dim: 4, Base: 1e4, Scaling: RopeScaling{Type: LongRope,
		Factors: []float64{1, math.Inf(1)}}})
	if err != nil {
		t.Fatal(err)
	}
	x := []float32{1, -3e38, 2, 1e-45}
	view := attn.BHLD(x, 1, 1, 1, 4)
	if err := r.Rotate(nil, view, view, []int32{1 << 28}); err != nil {
		t.Fatal(err)
	}
	if x[0] == 1 || x[1] != -3e38 || x[3] != 1e-45 {
		t.Errorf("rotated it is %v, want other numbers than 1 and 2, and -3e38 and 1e-45", x)
	}
}

// With Restart each section has the frequencies of a row of its own; what scales frequencies one by
// one scales them as it does others, LongRope by the factors of the whole row.
func TestRestart(t *testing.T) {
	const base = 1e4
	sections, factors := []int{5, 0, 3}, []float64{1, 2, 3, 4, 5, 6, 7, 8}
	for _, s := range []RopeScaling{{}, {Type: LinearScaling, Factor: 4},
		{Type: Llama3, Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4, Original: 64},
		{Type: LongRope, Factors: factors, AttentionFactor: 2}} {
		var want []float64
		for _, n := range sections {
			if n == 0 {
				continue
			}
			single := RopeConfig{Dim: 2 * n, Base: base, Scaling: s}
			if s.Factors != nil {
				single.Scaling.Factors = factors[len(want):][:n]
			}
			list, _, err := single.frequencies([]int{0, n})
			must(t, err)
			if s.Type == NoScaling && list[1] != power(base, -1, n) {
				t.Errorf("frequency 1 of %d is %v", n, list[1])
			}
			want = append(want, list...)
		}
		s.Sections, s.Restart = sections, true
		rope, err := NewRope(RopeConfig{Dim: 16, Base: base, Scaling: s})
		must(t, err)
		if !slices.Equal(rope.frequency, want) {
			t.Errorf("%v: the frequencies are %v, want %v", s.Type, rope.frequency, want)
		}
	}
}

// Rotated rows equal the formula in float64, for both kinds of pairs, in place, of any
// positions, with channels that pass through; and Inverse undoes them.
func TestRotate(t *testing.T) {
	forEachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, interleaved := range []bool{false, true} {
			for _, c := range []struct {
				dim int
				RopeScaling
			}{
				{40, RopeScaling{}},
				{40, RopeScaling{Sections: []int{3, 0, 5, 12}}},
				{40, RopeScaling{Sections: []int{8, 4, 5, 3}, Interleave: true}},
				{200, RopeScaling{Sections: []int{40, 30, 30}, Interleave: true}},
				{40, RopeScaling{Sections: []int{20}, Interleave: true}},
				{40, RopeScaling{Sections: []int{0, 9, 11}, Restart: true}},
			} {
				const b, h, l = 2, 3, 4
				dim, d, sections := c.dim, c.dim+5, c.Sections
				rope, err := NewRope(RopeConfig{Dim: dim, Base: 1e4, Interleaved: interleaved,
					Scaling: c.RopeScaling})
				must(t, err)
				x, dst := randomTensor(r, b, h, l, d), zeros(b, h, l, d)
				kinds := max(1, len(sections))
				lists := [][]int32{nil, make([]int32, kinds*b*l)}
				if sections == nil {
					lists = append(lists, make([]int32, l))
				}
				for _, positions := range lists {
					for i := range positions {
						positions[i] = int32(r.IntN(1<<28 + 1))
						if i%3 > 0 {
							positions[i] = int32(r.IntN(1000))
						}
					}
					must(t, rope.Rotate(nil, dst, x, positions))
					checkRotated(t, rope, dst, x, positions, c.RopeScaling, interleaved)
					back := zeros(b, h, l, d)
					must(t, rope.Inverse(nil, back, dst, positions))
					for i, e := range back.Data {
						if math.Abs(float64(e-x.Data[i])) > 1e-6 {
							t.Fatalf("undone, element %d is %v, want %v", i, e, x.Data[i])
						}
					}
				}
			}
		}
	})
}

// At positions up to 2²⁸ rotation is by the sine and cosine of the product of position and
// frequency, rounded once, as 500 bits have them: within half a unit of the last place.
func TestRotateFarPositions(t *testing.T) {
	const dim = 64
	r := rand.New(rand.NewPCG(5, 6))
	for _, base := range []float64{1e4, 1e6} {
		rope, err := NewRope(RopeConfig{Dim: dim, Base: base})
		must(t, err)
		positions := []int32{1 << 28, 1<<28 - 1, 1<<27 + 1}
		for range 5 {
			positions = append(positions, int32(r.IntN(1<<28)))
		}
		x := zeros(1, 1, len(positions), dim)
		for l := range positions {
			for i := range dim / 2 {
				x.Row(0, 0, l)[i] = 1
			}
		}
		must(t, rope.Rotate(nil, x, x, positions))
		for l, at := range positions {
			for i := range dim / 2 {
				sine, cosine := bigSinCos(float64(at) * rope.frequency[i])
				for j, want := range []*big.Float{cosine, sine} {
					got := x.Row(0, 0, l)[i+j*dim/2]
					if e := math.Ldexp(ulps(float64(got), want), 24-53); e > 0.5+1e-6 {
						t.Errorf("position %d, pair %d: %v, %.7f units of the last place from %v", at, i, got, e,
							want)
					}
				}
			}
		}
	}
}

func checkRotated(t *testing.T, rope *Rope, dst, x attn.Tensor, positions []int32, c RopeScaling,
	interleaved bool) {
	t.Helper()
	dim := rope.config.Dim
	kindOf := func(pair int) (kind int) {
		if n := len(c.Sections); c.Interleave {
			if kind = pair % n; pair/n >= c.Sections[kind] {
				kind = 0
			}
			return kind
		}
		for _, n := range c.Sections {
			if pair < n {
				return kind
			}
			pair, kind = pair-n, kind+1
		}
		return 0
	}
	for b := range x.B {
		for h := range x.H {
			for l := range x.L {
				from, to := x.Row(b, h, l), dst.Row(b, h, l)
				for i := range dim / 2 {
					at := int32(l)
					switch {
					case positions != nil && c.Sections == nil && len(positions) == x.L:
						at = positions[l]
					case positions != nil:
						at = positions[(kindOf(i)*x.B+b)*x.L+l]
					}
					angle := float64(at) * rope.frequency[i]
					i0, i1 := i, i+dim/2
					if interleaved {
						i0, i1 = 2*i, 2*i+1
					}
					x0, x1 := float64(from[i0]), float64(from[i1])
					want0 := x0*math.Cos(angle) - x1*math.Sin(angle)
					want1 := x1*math.Cos(angle) + x0*math.Sin(angle)
					if math.Abs(float64(to[i0])-want0) > 1e-6 || math.Abs(float64(to[i1])-want1) > 1e-6 {
						t.Fatalf("pair %d at %d is %v, %v, want %v, %v", i, at, to[i0], to[i1], want0, want1)
					}
				}
				for i := dim; i < x.D; i++ {
					if to[i] != from[i] {
						t.Fatalf("channel %d is %v, want %v", i, to[i], from[i])
					}
				}
			}
		}
	}
}

// Tables of the caller rotate as the angles do that they were made of.
func TestRopeTables(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const dim, positions = 16, 9
	rope, err := NewRope(RopeConfig{Dim: dim, Base: 100})
	must(t, err)
	cos, sin := make([]float32, positions*dim/2), make([]float32, positions*dim/2)
	for at := range positions {
		rope.computeAngles(cos[at*dim/2:][:dim/2], sin[at*dim/2:][:dim/2], 0, at)
	}
	tables, err := NewRopeTables(RopeConfig{Dim: dim}, cos, sin)
	must(t, err)
	scaling := RopeScaling{Sections: []int{4, 3, 1}, Interleave: true}
	kinds, err := NewRopeTables(RopeConfig{Dim: dim, Scaling: scaling}, cos, sin)
	must(t, err)
	y, turned := randomTensor(r, 1, 2, 2, dim), zeros(1, 2, 2, dim)
	at := []int32{0, 8, 4, 2, 5, 1}
	must(t, kinds.Rotate(nil, turned, y, at))
	checkRotated(t, &Rope{config: RopeConfig{Dim: dim}, frequency: rope.frequency}, turned, y, at,
		scaling, false)
	x, got, want := randomTensor(r, 1, 2, positions, dim), zeros(1, 2, positions, dim),
		zeros(1, 2, positions, dim)
	must(t, rope.Rotate(nil, want, x, nil))
	must(t, tables.Rotate(nil, got, x, nil))
	sameBits(t, "by tables", got.Data, want.Data)
	mustFail(t, tables.Rotate(nil, got, x, []int32{0, 1, 2, 3, 4, 5, 6, 7, positions}), attn.ErrOption,
		"positions[8] is 9, want 0 to 8")
	more := randomTensor(r, 1, 1, positions+1, dim)
	mustFail(t, tables.Rotate(nil, zeros(1, 1, positions+1, dim), more, nil), attn.ErrOption,
		"x.L is 10 without positions, want at most 9")
}
