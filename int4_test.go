package attn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
)

// Caches and stores of I4, and of keys and values in two formats.

// keptIn is tokens as a cache keeps them in a format, in the words of its definition: numbers as
// float32, and a scale for each token, 1 where the format has none.
func keptIn(f Format, x Tensor) (Tensor, []float32) {
	y, scales := zeros(x.B, x.H, x.L, x.D), make([]float32, 0, x.B*x.H*x.L)
	for at := range x.B * x.H * x.L {
		b, h, i := at/x.L/x.H, at/x.L%x.H, at%x.L
		row, scale := x.row(b, h, i), float32(1)
		switch f {
		case I8:
			row, scale = integersOf(row)
		case I4:
			row, scale = levelsOf(row)
		}
		for c, e := range row {
			switch f {
			case F16:
				e = f32.FromF16(f32.ToF16(e))
			case BF16:
				e = f32.FromBF16(f32.ToBF16(e))
			}
			y.row(b, h, i)[c] = e
		}
		scales = append(scales, scale)
	}
	return y, scales
}

// levelsOf is a row as a cache of I4 keeps it.
func levelsOf(row []float32) (q []float32, scale float32) {
	scale, q = integers.ScaleOf(largestGeneric(row)), make([]float32, len(row))
	for i, e := range row {
		t := float64(float32(e / scale))
		if scale == 0 {
			t = 0
		}
		q[i] = float32(math.Copysign(nearestLevel(math.Abs(t)), t))
	}
	return q, scale
}

// nearestLevel is the magnitude of the level of a magnitude in scales.
func nearestLevel(t float64) float64 {
	switch {
	case t < 10.5:
		return 5
	case t < 22:
		return 16
	case t < 34:
		return 28
	case t < 47:
		return 40
	case t < 61.5:
		return 54
	case t < 79:
		return 69
	case t < 103:
		return 89
	}
	return 117
}

// definition is tokens in two formats: what their formats rotate is rotated.
func (f formatPair) definition(k, v Tensor) (c *integerTokens, queries func(q Tensor) Tensor) {
	c = &integerTokens{unrotate: 1}
	queries = func(q Tensor) Tensor { return q }
	if f.keys == I8 || f.keys == I4 {
		if queries = rotatedRows; latent(k, v) {
			queries = func(x Tensor) Tensor { return latentRows(x, v.D) }
		}
	}
	c.k, c.keyScales = keptIn(f.keys, queries(k))
	switch {
	case latent(k, v):
		c.v, c.valueScales = firstOf(c.k, v.D), c.keyScales
		if f.keys == I8 || f.keys == I4 {
			c.unrotate = v.D & -v.D
		}
	case f.values == I4:
		c.unrotate = v.D & -v.D
		c.v, c.valueScales = keptIn(I4, rotatedRows(v))
	default:
		c.v, c.valueScales = keptIn(f.values, v)
	}
	return c, queries
}

// mustBeDefined: every way over tokens in two formats has the bits of the definition.
func (p *problem) mustBeDefined(t *testing.T, f formatPair) {
	t.Helper()
	c, queries := f.definition(p.k, p.v)
	want := p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
		c.attend(dst, queries(q), opt)
		return nil
	})
	want.weights = nil // the definition has none; ways are compared
	for _, name := range []string{"Cache", "Pool over a cache", "AttendSequences",
		"Pool over sequences"} {
		if p.opt.Offset != 0 && strings.Contains(strings.ToLower(name), "sequences") {
			continue
		}
		got := p.solve(t, waysIn(f)[name])
		if want.weights == nil {
			want.weights = got.weights
		}
		p.same(t, fmt.Sprint(f, " ", name), got, want)
	}
}

// Keys and values in any two formats give what their definitions say, with every option.
func TestCacheOfTwoFormatsIsItsDefinition(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, f := range formatPairs {
			r := random("two formats " + f.String())
			for range budget(40) {
				anyTuning(t, r)
				finiteProblem(r, anyTypedShape(r)).mustBeDefined(t, f)
			}
		}
	})
}

// integerPairs are those that Integers takes.
var integerPairs = []formatPair{{I8, I8}, {I4, I4}, {I8, I4}, {I4, I8}}

// So do products of integers.
func TestInt8OfTwoFormatsIsItsDefinition(t *testing.T) {
	for name, draw := range map[string]func(r *rand.Rand, s shape) *problem{
		"usual": int8Problem, "extreme": extremeInt8Problem} {
		t.Run(name, func(t *testing.T) {
			forEach(t, func(t *testing.T) {
				for _, f := range integerPairs {
					r := random("int8 " + f.String() + name)
					for range budget(100) {
						anyTuning(t, r)
						draw(r, anyTypedShape(r)).mustBeDefined(t, f)
					}
				}
			})
		})
	}
}

// And values that are part of keys in I4, stored or computed with.
func TestLatentLevelsAreTheirDefinition(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("latent levels")
		for range budget(200) {
			anyTuning(t, r)
			p := finiteProblem(r, latentShape(r)).overKeys()
			p.opt.Integers = r.IntN(2) == 0
			p.mustBeDefined(t, formatPair{I4, I4})
		}
	})
}

// A token has the same codes wherever it is appended and in whatever company: alone, in groups, in
// whole panels, and after others were taken back or moved.
func TestCacheOfLevelsDoesNotMatter(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("levels")
		for range budget(100) {
			s := shape{1, 2, 1, 1, 1 + r.IntN(3*Block), 1 + r.IntN(40), 1 + r.IntN(40)}
			f := integerPairs[1+r.IntN(3)]
			p := finiteProblem(r, s)
			want, err := NewCache(CacheConfig{Batch: 1, KVHeads: 2, HeadDim: s.d, ValueDim: s.dv,
				Capacity: s.lk, Format: f.keys, ValueFormat: f.values})
			must(t, err)
			must(t, want.Append(p.k, p.v))
			got := p.typedCacheOf(t, r, f)
			mustEqualFiles(t, "appended in pieces", cacheFileOf(t, got), cacheFileOf(t, want))

			var kept []int
			for j := range s.lk {
				if r.IntN(3) > 0 {
					kept = append(kept, j)
				}
			}
			if len(kept) == 0 {
				continue
			}
			must(t, got.Keep(kept))
			must(t, want.Truncate(kept[0]))
			for _, j := range kept {
				must(t, want.Append(rowsOf(p.k, j, 1), rowsOf(p.v, j, 1)))
			}
			mustEqualFiles(t, "kept", cacheFileOf(t, got), cacheFileOf(t, want))
			must(t, got.Close())
			must(t, want.Close())
		}
	})
}

// What is read is levels times scales, rotated back.
func TestCacheOfLevelsReads(t *testing.T) {
	r := random("levels read")
	for range 20 {
		s := shape{2, 2, 1, 1, 1 + r.IntN(2*Block), 1 + r.IntN(40), 1 + r.IntN(40)}
		p := finiteProblem(r, s)
		f := integerPairs[1+r.IntN(3)]
		c := p.typedCacheOf(t, r, f)
		k, v := zeros(2, 2, s.lk, s.d), zeros(2, 2, s.lk, s.dv)
		must(t, c.Read(k, v, 0))
		d, _ := f.definition(p.k, p.v)
		mustEqualBits(t, "keys", k.Data, rotatedRows(decoded(d.k, d.keyScales)).Data)
		want := decoded(d.v, d.valueScales)
		rotateGeneric(want.Data, 2*2*s.lk, s.dv, s.dv, d.unrotate)
		mustEqualBits(t, "values", v.Data, want.Data)
		must(t, c.Close())
	}
}

// Values that would overflow when they are rotated are refused, as keys are; ValueFormat is one
// that there is, and with ValuesInKeys that of keys.
func TestTwoFormatsErrors(t *testing.T) {
	config := CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 8, ValueDim: 4, Capacity: 9, Format: I8,
		ValueFormat: I4}
	c, err := NewCache(config)
	must(t, err)
	k, v := zeros(1, 1, 1, 8), zeros(1, 1, 1, 4)
	v.Data[2] = math.MaxFloat32/4 + 1e32
	mustFail(t, "large values", c.Append(k, v), ErrOption, "v has an element of size 8.507068e+37 in "+
		"token 0 of head 0, batch entry 0, want at most 8.5070587e+37 for I4")
	if c.Len() != 0 {
		t.Errorf("%d tokens after an error", c.Len())
	}
	v.Data[2] = math.MaxFloat32 / 4
	must(t, c.Append(k, v))

	config.ValueFormat = 9
	_, err = NewCache(config)
	mustFail(t, "unknown", err, ErrOption, "CacheConfig.ValueFormat is Format(9), want F16, BF16, "+
		"I8, I4, or 0 for Format")
	config.ValueFormat, config.ValuesInKeys = I4, true
	_, err = NewCache(config)
	mustFail(t, "latent", err, ErrOption, "CacheConfig.ValueFormat is I4 with ValuesInKeys, want 0 "+
		"or Format, I8")
	store := StoreConfig{KVHeads: 1, HeadDim: 8, ValueDim: 4, Pages: 1, Format: I4, ValueFormat: -2}
	_, err = NewStore(store)
	mustFail(t, "store", err, ErrOption, "StoreConfig.ValueFormat is Format(-2), want F16, BF16, I8, "+
		"I4, or 0 for Format")

	mixed, err := formatPair{I8, F16}.filled(k, v)
	must(t, err)
	mustFail(t, "integers", mixed.Attend(zeros(1, 1, 1, 4), k, &Options{Integers: true}), ErrOption,
		"Integers is true over values in F16, want I8 or I4")

	_, err = PackMatrix(k, MatrixConfig{Format: I4})
	mustFail(t, "matrix", err, ErrOption, "MatrixConfig.Format is I4, want F32, F16, BF16 or I8")
}

// The file of a cache of two formats is refused by a reader of another ValueFormat.
func TestTwoFormatsFile(t *testing.T) {
	p := newProblem(random("file of two formats"), normal, shape{1, 2, 1, 1, 100, 12, 20})
	for _, f := range formatPairs {
		c, err := f.filled(p.k, p.v)
		must(t, err)
		file := cacheFileOf(t, c)
		config := c.Config()
		again, err := NewCache(config)
		must(t, err)
		_, err = again.Load(strings.NewReader(string(file)))
		must(t, err)
		mustEqualFiles(t, f.String(), cacheFileOf(t, again), file)
		if config.ValueFormat = BF16; f.values == BF16 {
			config.ValueFormat = F16
		}
		other, err := NewCache(config)
		must(t, err)
		_, err = other.Load(strings.NewReader(string(file)))
		mustFail(t, f.String(), err, ErrOption, fmt.Sprintf("the file's ValueFormat is %v, want the "+
			"cache's %v", f.values, config.ValueFormat))
	}
}

// States over sequences of rotated values merge as they are, and Finish rotates back once.
func TestTwoFormatsStates(t *testing.T) {
	const heads, lq, d, dv = 4, 3, 20, 24
	forEach(t, func(t *testing.T) {
		for _, f := range integerPairs {
			r := random("states of " + f.String())
			q := tensor(r, normal, 1, heads, lq, d)
			k, v := tensor(r, normal, 1, 2, Segment+100, d), tensor(r, normal, 1, 2, Segment+100, dv)
			all, err := f.filled(k, v)
			must(t, err)
			store, err := NewStore(StoreConfig{KVHeads: 2, HeadDim: d, ValueDim: dv, Pages: 40,
				Format: f.keys, ValueFormat: f.values})
			must(t, err)
			for _, opt := range []Options{{}, {Integers: true}, {Sinks: []float32{1, 2, 3, 4}}} {
				want := zeros(1, heads, lq, dv)
				must(t, all.Attend(want, q, &opt))
				whole, err := NewState(StateConfig{1, heads, lq, dv})
				must(t, err)
				for _, part := range [][2]int{{0, Segment}, {Segment, 100}} {
					s := store.NewSequence()
					must(t, s.Append(rowsOf(k, part[0], part[1]), rowsOf(v, part[0], part[1])))
					st, err := NewState(StateConfig{1, heads, lq, dv})
					must(t, err)
					must(t, st.UpdateSequence(q, s, &opt))
					must(t, whole.Merge(st))
					s.Release()
				}
				got := BHLD(nans(heads*lq*dv), 1, heads, lq, dv)
				must(t, whole.Finish(got, nil))
				mustEqualBits(t, fmt.Sprint(f, " output"), got.Data, want.Data)
			}
		}
	})
}

// A code says the level whose bounds a number is between, of its sign.
func TestCodes(t *testing.T) {
	for i := range 4 * 127 * 64 {
		x := float32(i-2*127*64) / 128
		want := math.Copysign(nearestLevel(math.Abs(float64(x))), float64(x))
		if got := kernel.Levels[kernel.CodeOf(x)]; float64(got) != want {
			t.Fatalf("the level of %v is %v, want %v", x, got, want)
		}
	}
	if code := kernel.CodeOf(float32(math.Copysign(0, -1))); kernel.Levels[code] != -5 {
		t.Errorf("the level of -0 is %v, want -5", kernel.Levels[code])
	}
}

// Groups of eight codes become four bytes, and one by one they are where they are looked up.
func TestCodesFold(t *testing.T) {
	r := random("codes")
	codes, folded := make([]byte, 48), make([]byte, 24)
	for i := range codes {
		codes[i] = byte(r.IntN(16))
	}
	kernel.FoldCodes(folded, codes)
	b := kernel.PanelLayout{Stride: 4}
	for i, want := range codes {
		at := kernel.PlaceOf(kernel.I4, &b, i, 0)
		if got := kernel.CodeAt(folded, at); got != want {
			t.Errorf("code %d is %d, want %d", i, got, want)
		}
		kernel.SetCode(folded, at, 0)
	}
	for i, e := range folded {
		if e != 0 {
			t.Errorf("byte %d is %d, want 0", i, e)
		}
	}
	kernel.PutCodes(folded, codes[:24], false)
	kernel.PutCodes(folded, codes[24:], true)
	for i := range folded {
		got, want := [2]byte{kernel.CodeAt(folded, 2*i), kernel.CodeAt(folded, 2*i+1)}, [2]byte{codes[i],
			codes[24+i]}
		if got != want {
			t.Errorf("byte %d has codes %d, want %d", i, got, want)
		}
	}
}
