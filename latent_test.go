package attn

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/tuning"
)

// Values that are part of keys: caches, stores and states with ValuesInKeys.

// latentShape draws a shape whose values have no more dimensions than keys: mostly small, sometimes
// that of models.
func latentShape(r *rand.Rand) shape {
	s := anyTypedShape(r)
	s.dv = 1 + r.IntN(s.d)
	if r.IntN(8) == 0 {
		s = shape{1, 1, 1 + r.IntN(40), 1, 1 + r.IntN(2*Block), 576, 512}
	}
	return s
}

// overKeys is the problem with the first channels of keys as values.
func (p *problem) overKeys() *problem {
	dv := p.v.D
	p.k = contiguous(p.k)
	p.v, p.repeat[2] = firstOf(p.k, dv), p.repeat[1]
	return p
}

// With float32 every way has the bits of Attend over a view of the first channels, whatever is in
// tokens, with every option.
func TestLatentWaysAreEqual(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("latent ways")
		for range budget(120) {
			anyTuning(t, r)
			p := problemOf(r, randomKind(r), latentShape(r)).overKeys()
			want := p.solve(t, Attend)
			for _, way := range ways[1:] {
				p.same(t, way.name, p.solve(t, way.attend), want)
			}
		}
	})
}

// In halves they have those of Attend over what is read.
func TestLatentHalvesAreWhatIsRead(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, kind := range []Format{F16, BF16} {
			r := random("latent " + kind.String())
			for range budget(100) {
				anyTuning(t, r)
				p := finiteProblem(r, latentShape(r)).overKeys()
				c := p.typedCache(t, r, kind)
				decoded := *p
				decoded.k = zeros(p.k.B, p.k.H, p.k.L, p.k.D)
				must(t, c.Read(decoded.k, Tensor{}, 0))
				decoded.v = firstOf(decoded.k, p.v.D)
				p.same(t, kind.String(), p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
					return c.Attend(dst, q, opt)
				}), decoded.solve(t, Attend))
				must(t, c.Close())
			}
		}
	})
}

// In integers, stored or computed with, they have those of the definition: keys and queries rotated
// in two parts, and outputs rotated back.
func TestLatentIntegersAreTheirDefinition(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("latent integers")
		for range budget(200) {
			anyTuning(t, r)
			p := finiteProblem(r, latentShape(r)).overKeys()
			p.opt.Integers = r.IntN(2) == 0
			c, dv := p.typedCache(t, r, I8), p.v.D
			want := p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
				newLatentIntegers(latentRows(p.k, dv), dv).attend(dst, latentRows(q, dv), opt)
				return nil
			})
			over := func(dst, q, _, _ Tensor, opt *Options) error { return c.Attend(dst, q, opt) }
			got := p.solve(t, over)
			want.weights = got.weights // the definition has none
			p.same(t, "definition", got, want)
			p.same(t, "by a pool", p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
				return threeWorkers().AttendCache(dst, q, c, opt)
			}), got)
			must(t, c.Close())
		}
	})
}

// A rotation in two parts leaves outputs what they are without one, but for rounding.
func TestLatentIntegersAreNearFloats(t *testing.T) {
	r := random(t.Name())
	p := newProblem(r, normal, shape{1, 1, 16, 1, 500, 96, 80}).overKeys()
	want := p.solve(t, Attend)
	for _, int8 := range []bool{false, true} {
		p.opt.Integers = int8
		c := p.typedCache(t, r, I8)
		got := p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error { return c.Attend(dst, q, opt) })
		var sum, scale float64
		for i, e := range want.o {
			sum += math.Pow(float64(got.o[i]-e), 2)
			scale += float64(e) * float64(e)
		}
		if rms := math.Sqrt(sum / scale); rms > 0.02 || rms == 0 {
			t.Errorf("Int8 %t: the error is %v of the outputs, want up to 0.02 and not 0", int8, rms)
		}
	}
}

// Prefill has the bits of token by token, at the size of models, where chunks are long.
func TestLatentDecodesLikePrefill(t *testing.T) {
	const heads, n, d, dv = 20, Block + 9, 576, 512
	for _, kind := range allFormats {
		r := random("latent prefill")
		k, q := tensor(r, normal, 1, 1, n, d), tensor(r, normal, 1, heads, n, d)
		config := CacheConfig{Batch: 1, KVHeads: 1, HeadDim: d, ValueDim: dv, Capacity: n, Format: kind,
			ValuesInKeys: true}
		c, err := NewCache(config)
		must(t, err)
		must(t, c.Append(k, Tensor{}))
		opt := &Options{Causal: BottomRight, Integers: kind >= I8}
		want := zeros(1, heads, n, dv)
		must(t, c.Attend(want, q, opt))
		c.Reset()
		for i := range n {
			must(t, c.Append(rowsOf(k, i, 1), Tensor{}))
			if i%7 != 0 && i < n-2 {
				continue
			}
			got := BHLD(nans(heads*dv), 1, heads, 1, dv)
			must(t, c.Attend(got, rowsOf(q, i, 1), opt))
			for h := range heads {
				mustEqualBits(t, fmt.Sprint(kind, " query ", i, " head ", h), got.row(0, h, 0),
					want.row(0, h, i))
			}
		}
		must(t, c.Close())
	}
}

// A cache takes no memory for values.
func TestLatentMemory(t *testing.T) {
	for kind, want := range map[Format]int{F32: 4 * 576, F16: 2 * 576, BF16: 2 * 576, I8: 576 + 4,
		I4: 288 + 4} {
		config := CacheConfig{Batch: 2, KVHeads: 1, HeadDim: 576, ValueDim: 512, Capacity: 100,
			Format: kind, ValuesInKeys: true}
		c, err := NewCache(config)
		must(t, err)
		if got := c.MemoryUse(); got != 2*2*Block*want {
			t.Errorf("%v: a cache of %d bytes, want %d", kind, got, 2*2*Block*want)
		}
		must(t, c.Close())
		s, err := NewStore(StoreConfig{KVHeads: 3, HeadDim: 576, ValueDim: 512, Pages: 5, Format: kind,
			ValuesInKeys: true})
		must(t, err)
		if got := s.MemoryUse(); got != 3*5*Block*want {
			t.Errorf("%v: a store of %d bytes, want %d", kind, got, 3*5*Block*want)
		}
		must(t, s.Close())
	}
}

// Values of any form but the zero Tensor are errors, and so are more of them than keys have
// channels.
func TestLatentErrors(t *testing.T) {
	_, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 4, ValueDim: 5, Capacity: 1,
		ValuesInKeys: true})
	mustFail(t, "cache", err, ErrShape,
		"CacheConfig.ValueDim is 5 with ValuesInKeys, want at most HeadDim, 4")
	config := StoreConfig{KVHeads: 1, HeadDim: 4, ValueDim: 5, Pages: 1, ValuesInKeys: true}
	_, err = NewStore(config)
	mustFail(t, "store", err, ErrShape,
		"StoreConfig.ValueDim is 5 with ValuesInKeys, want at most HeadDim, 4")

	c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 4, ValueDim: 4, Capacity: 9,
		Format: I8, ValuesInKeys: true})
	must(t, err)
	config.ValueDim, config.Format = 4, I8
	s := sequenceOf(t, config)
	k := zeros(1, 1, 2, 4)
	must(t, c.Append(k, Tensor{}))
	must(t, s.Append(k, Tensor{}))
	for name, v := range map[string]Tensor{
		"values": zeros(1, 1, 2, 4), "no tokens": zeros(1, 1, 0, 4), "a size": {D: 4},
		"a stride": {SL: 1}, "data": {Data: k.Data[:0]}} {
		const text = "want the zero Tensor: values are part of keys"
		for call, err := range map[string]error{
			"Cache.Append": c.Append(k, v), "Cache.Read": c.Read(k, v, 0),
			"Sequence.Append": s.Append(k, v), "Sequence.Read": s.Read(k, v, 0)} {
			mustFail(t, name+", "+call, err, ErrShape)
			if err != nil && !strings.Contains(err.Error(), text) {
				t.Errorf("%s, %s: %v does not say %q", name, call, err, text)
			}
		}
	}
	bad := zeros(1, 1, 2, 4)
	bad.Data[5] = nan32()
	mustFail(t, "k.D", c.Append(zeros(1, 1, 2, 3), Tensor{}), ErrShape,
		"k is [1 1 … 3], want [1 1 … 4]")
	mustFail(t, "NaN", c.Append(bad, Tensor{}), ErrOption)
	mustFail(t, "NaN", s.Append(bad, Tensor{}), ErrOption)
	if c.Len() != 2 || s.Len() != 2 {
		t.Errorf("%d and %d tokens after errors, want 2", c.Len(), s.Len())
	}
}

// A file is of a store with values in keys, or without.
func TestLatentFilesAreOfTheirKind(t *testing.T) {
	g := StoreConfig{KVHeads: 2, HeadDim: 22, ValueDim: 19, Pages: 7}
	latent := g
	latent.ValuesInKeys = true
	plain, keys := newReadCase(t, g), newReadCase(t, latent)
	file := fileOf(t, newSequenceIn(t, g, 3, 70))
	latentFile := fileOf(t, newSequenceIn(t, latent, 3, 70))
	if file[16] != 0 || latentFile[16] != 1 {
		t.Errorf("the headers say %d and %d, want 0 and 1", file[16], latentFile[16])
	}
	plain.mustFail(t, "keys", bytes.NewReader(latentFile), ErrOption,
		"the file's ValuesInKeys is true, want the store's false")
	keys.mustFail(t, "values", bytes.NewReader(file), ErrOption,
		"the file's ValuesInKeys is false, want the store's true")
}

// latentParts is a context in parts of one segment each: sequences of a store of I8, and a cache of
// all.
func latentParts(t *testing.T, d, dv int) (parts []*Sequence, all *Cache) {
	r := random("latent parts")
	config := StoreConfig{KVHeads: 1, HeadDim: d, ValueDim: dv, Pages: 40, Format: I8,
		ValuesInKeys: true}
	store, err := NewStore(config)
	must(t, err)
	all, err = NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: d, ValueDim: dv,
		Capacity: 2 * Segment, Format: I8, ValuesInKeys: true})
	must(t, err)
	for _, n := range []int{Segment, 100} {
		k := tensor(r, normal, 1, 1, n, d)
		s := store.NewSequence()
		must(t, s.Append(k, Tensor{}))
		must(t, all.Append(k, Tensor{}))
		parts = append(parts, s)
	}
	return parts, all
}

// States over parts merge as they are, rotated, and travel so; Finish rotates back once, with and
// without sinks.
func TestLatentStatesMergeRotated(t *testing.T) {
	const heads, lq, d, dv = 3, 2, 28, 24
	forEach(t, func(t *testing.T) {
		parts, all := latentParts(t, d, dv)
		q := tensor(random("latent queries"), normal, 1, heads, lq, d)
		for _, opt := range []Options{{}, {Integers: true}, {Sinks: []float32{1, 2, 3}}} {
			want := zeros(1, heads, lq, dv)
			must(t, all.Attend(want, q, &opt))
			whole, err := NewState(StateConfig{1, heads, lq, dv})
			must(t, err)
			for _, part := range parts {
				s, err := NewState(StateConfig{1, heads, lq, dv})
				must(t, err)
				must(t, s.UpdateSequence(q, part, &opt))
				data, err := s.MarshalBinary()
				must(t, err)
				if marks := data[len(stateMagic)+4*7]; marks&rotatedMark == 0 {
					t.Errorf("marks are %d, want that outputs are rotated", marks)
				}
				var travelled State
				must(t, travelled.UnmarshalBinary(data))
				must(t, whole.Merge(&travelled))
			}
			for range 2 { // it stays as it is
				got := BHLD(nans(heads*lq*dv), 1, heads, lq, dv)
				must(t, whole.Finish(got, nil))
				mustEqualBits(t, "output", got.Data, want.Data)
			}
			whole.Reset()
			if whole.rotated {
				t.Error("a state without keys is rotated")
			}
		}
	})
}

// A State over rotated values and others, in any order, has the sum of all but for rounding.
func TestLatentStatesMix(t *testing.T) {
	const heads, lq, d, dv = 2, 3, 28, 24
	parts, _ := latentParts(t, d, dv)
	r := random("latent mix")
	q, k, v := tensor(r, normal, 1, heads, lq, d), tensor(r, normal, 1, 1, 80, d),
		tensor(r, normal, 1, 1, 80, dv)
	rotated := func(s *State) { must(t, s.UpdateSequence(q, parts[1], nil)) }
	plain := func(s *State) { must(t, s.Update(q, k, v, nil)) }
	keys, values := zeros(1, 1, 180, d), zeros(1, 1, 180, dv)
	must(t, parts[1].Read(rowsOf(keys, 0, 100), Tensor{}, 0))
	for j := range 180 {
		if j >= 100 {
			copy(keys.row(0, 0, j), k.row(0, 0, j-100))
			copy(values.row(0, 0, j), v.row(0, 0, j-100))
			continue
		}
		copy(values.row(0, 0, j), keys.row(0, 0, j))
	}
	want := zeros(1, heads, lq, dv)
	must(t, Attend(want, q, keys, values, nil))
	for name, build := range map[string]func(s, part *State){
		"rotated, then not":         func(s, _ *State) { rotated(s); plain(s) },
		"not rotated, then rotated": func(s, _ *State) { plain(s); rotated(s) },
		"merged with rotated": func(s, part *State) {
			plain(s)
			rotated(part)
			must(t, s.Merge(part))
		},
		"rotated, merged": func(s, part *State) {
			rotated(s)
			plain(part)
			must(t, s.Merge(part))
		},
	} {
		s, err := NewState(StateConfig{1, heads, lq, dv})
		must(t, err)
		part, err := NewState(StateConfig{1, heads, lq, dv})
		must(t, err)
		build(s, part)
		got := zeros(1, heads, lq, dv)
		must(t, s.Finish(got, nil))
		for i, e := range want.Data {
			if !(math.Abs(float64(got.Data[i]-e)) < 1e-4) {
				t.Fatalf("%s: output %d is %v, want %v", name, i, got.Data[i], e)
			}
		}
	}
}

// What no state is: rotated outputs without keys, or of an odd number of dimensions.
func TestLatentStateHostileBytes(t *testing.T) {
	for name, update := range map[string]func(s *State){
		"no keys": func(*State) {},
		"odd": func(s *State) {
			x := zeros(1, 1, 1, 3)
			must(t, s.Update(x, x, x, nil))
		},
	} {
		s, err := NewState(StateConfig{1, 1, 1, 3})
		must(t, err)
		update(s)
		data, err := s.MarshalBinary()
		must(t, err)
		data[len(stateMagic)+4*7] |= rotatedMark
		mustFail(t, name, new(State).UnmarshalBinary(data), ErrFormat)
	}
}

// Keys that a row does not see are poison for none.
func TestLatentPoison(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("latent poison")
		for range budget(40) {
			anyTuning(t, r)
			p := newProblem(r, normal, latentShape(r)).overKeys()
			p.opt.Mask = p.randomMask(r)
			clean := p.solve(t, Attend)
			bad := *p
			bad.k = contiguous(p.k)
			bad.v = firstOf(bad.k, p.v.D)
			for b := range p.k.B {
				for h := range p.k.H {
					for j := range p.k.L {
						if !p.anySees(b, h, j) {
							special.Fill(r, bad.k.row(b, h, j))
							bad.k.row(b, h, j)[0] = nan32()
						}
					}
				}
			}
			for _, way := range ways {
				p.same(t, way.name, bad.solve(t, way.attend), clean)
			}
		}
	})
}

// anySees reports whether the mask lets some row see key j of a key/value head.
func (p *problem) anySees(b, h, j int) bool {
	m, group := p.opt.Mask, p.q.H/p.k.H
	for g := range group {
		for i := range p.q.L {
			if m.row(b%m.B, (h*group+g)%m.H, i)[j] {
				return true
			}
		}
	}
	return false
}

// One chunk has the rows of all 128 heads of models in an L2 cache of 1 MiB, and blocks are
// transposed once for them.
func TestLatentChunksAreLong(t *testing.T) {
	c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 576, ValueDim: 512, Capacity: 64,
		ValuesInKeys: true})
	must(t, err)
	must(t, c.Append(zeros(1, 1, 64, 576), Tensor{}))
	row := tuning.For(tuning.Zen5, tuning.AVX512, 48<<10, 1<<20)
	p := newPlan(zeros(1, 128, 1, 512), zeros(1, 128, 1, 576), Tensor{}, Tensor{}, nil)
	must(t, c.plan(&p, nil))
	if p.decide(&row, 1); p.chunks != 1 {
		t.Errorf("%d chunks of %d rows, want 1 of 128", p.chunks, p.chunkRows)
	}
}
