package attn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/f32"
)

// tokens is the model of a cache: the same keys and values as tensors.
type tokens struct {
	config CacheConfig
	k, v   Tensor // [Batch, KVHeads, tokens there is room for, …]; L is the number of tokens
}

func newTokens(config CacheConfig) *tokens {
	c := config
	t := &tokens{config: c}
	t.k = BHLD(nans(c.Batch*c.KVHeads*c.Capacity*c.HeadDim), c.Batch, c.KVHeads, c.Capacity, c.HeadDim)
	t.v = BHLD(nans(c.Batch*c.KVHeads*c.Capacity*c.ValueDim), c.Batch, c.KVHeads, c.Capacity,
		c.ValueDim)
	t.k.L, t.v.L = 0, 0
	return t
}

// append adds n tokens to the model and to a cache.
func (m *tokens) append(t *testing.T, r *rand.Rand, c *Cache, n int) {
	t.Helper()
	g := m.config
	k := tokenMajor(tensor(r, normal, g.Batch, g.KVHeads, n, g.HeadDim))
	v := tensor(r, normal, g.Batch, g.KVHeads, n, g.ValueDim)
	must(t, c.Append(k, v))
	m.add(k, v)
}

// add adds tokens to the model.
func (m *tokens) add(k, v Tensor) {
	m.reserve(m.k.L + k.L)
	for b := range k.B {
		for h := range k.H {
			for i := range k.L {
				copy(m.k.row(b, h, m.k.L+i), k.row(b, h, i))
				copy(m.v.row(b, h, m.k.L+i), v.row(b, h, i))
			}
		}
	}
	m.truncate(m.k.L + k.L)
}

// reserve makes room for a number of tokens, those that were dropped among them.
func (m *tokens) reserve(n int) {
	if n*m.config.HeadDim <= m.k.SH {
		return
	}
	larger := m.config
	larger.Capacity = 2 * n
	to := newTokens(larger)
	to.config = m.config
	to.add(m.k, m.v)
	*m = *to
}

// keep moves some tokens together, from the first of them on.
func (m *tokens) keep(indices []int) {
	for i, j := range indices {
		for b := range m.k.B {
			for h := range m.k.H {
				copy(m.k.row(b, h, indices[0]+i), m.k.row(b, h, j))
				if m.v.D > 0 {
					copy(m.v.row(b, h, indices[0]+i), m.v.row(b, h, j))
				}
			}
		}
	}
	if len(indices) > 0 {
		m.truncate(indices[0] + len(indices))
	}
}

// truncate makes the number of tokens n.
func (m *tokens) truncate(n int) { m.k.L, m.v.L = n, n }

// check compares attention over the cache and over the tensors.
func (m *tokens) check(t *testing.T, r *rand.Rand, c *Cache, heads, lq int, opt *Options) {
	t.Helper()
	if c.Len() != m.k.L {
		t.Fatalf("Len is %d, want %d", c.Len(), m.k.L)
	}
	g := m.config
	q := tensor(r, normal, g.Batch, heads, lq, g.HeadDim)
	want := nans(g.Batch * heads * lq * g.ValueDim)
	got := nans(len(want))
	wantLSE, gotLSE := nans(g.Batch*heads*lq), nans(g.Batch*heads*lq)
	wantOpt, gotOpt := *opt, *opt
	wantOpt.LSE, gotOpt.LSE = wantLSE, gotLSE
	must(t, Attend(BHLD(want, g.Batch, heads, lq, g.ValueDim), q, m.k, m.v, &wantOpt))
	must(t, c.Attend(BHLD(got, g.Batch, heads, lq, g.ValueDim), q, &gotOpt))
	mustEqualBits(t, "output", got, want)
	mustEqualBits(t, "LSE", gotLSE, wantLSE)
	for i, e := range got {
		if e != e {
			t.Fatalf("output[%d] is NaN: stale memory", i)
		}
	}
}

// A random sequence of Append and Truncate leaves the cache with the same
// tokens as the model, whatever was in its memory before.
func TestCacheModel(t *testing.T) { forEach(t, testCacheModel) }

func testCacheModel(t *testing.T) {
	for i, config := range []CacheConfig{
		{Batch: 1, KVHeads: 1, HeadDim: 8, ValueDim: 8, Capacity: 200},
		{Batch: 2, KVHeads: 2, HeadDim: 5, ValueDim: 20, Capacity: 130},
		{Batch: 1, KVHeads: 3, HeadDim: 16, ValueDim: 7, Capacity: 64},
		{Batch: 1, KVHeads: 1, HeadDim: 1, ValueDim: 1, Capacity: 1},
		{Batch: 1, KVHeads: 1, HeadDim: 4, ValueDim: 4, Capacity: 2*Segment + 100},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r := random(t.Name())
			c, err := NewCache(config)
			must(t, err)
			fillWith(elements[float32](c.packed.Data), nan32())
			m := newTokens(config)
			for range 60 {
				switch free := config.Capacity - m.k.L; r.IntN(6) {
				case 0:
					n := r.IntN(m.k.L + 1)
					must(t, c.Truncate(n))
					m.truncate(n)
				case 1:
					if r.IntN(4) == 0 {
						c.Reset()
						m.truncate(0)
					}
				case 2:
					m.append(t, r, c, min(free, 1))
				case 3:
					m.append(t, r, c, r.IntN(free+1))
				default:
					m.append(t, r, c, min(free, r.IntN(40)))
				}
				group, lq := 1+r.IntN(3), 1+r.IntN(5)
				heads := group * config.KVHeads
				m.check(t, r, c, heads, lq, randomOptions(r, config.Batch, heads, lq, m.k.L))
			}
		})
	}
}

// Decoding token by token gives the bits of one causal call over all tokens.
func TestCacheDecodesLikePrefill(t *testing.T) {
	const heads, kvHeads, n, d = 4, 2, 150, 24
	r := random(t.Name())
	q := tokenMajor(tensor(r, normal, 1, heads, n, d))
	k := tokenMajor(tensor(r, normal, 1, kvHeads, n, d))
	v := tokenMajor(tensor(r, normal, 1, kvHeads, n, d))
	want, got := nans(n*heads*d), nans(n*heads*d)
	must(t, Attend(BLHD(want, 1, n, heads, d), q, k, v, &Options{Causal: TopLeft}))
	c, err := NewCache(CacheConfig{Batch: 1, KVHeads: kvHeads, HeadDim: d, ValueDim: d, Capacity: n})
	must(t, err)
	for i := range n {
		token := func(x Tensor) Tensor { return x.Slice(i, i+1) }
		must(t, c.Append(token(k), token(v)))
		must(t, c.Attend(token(BLHD(got, 1, n, heads, d)), token(q), &Options{Causal: BottomRight}))
	}
	mustEqualBits(t, "output", got, want)
}

// Weights are the same as well, and tokens after Len have none.
func TestCacheWeights(t *testing.T) {
	config := CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 8, ValueDim: 8, Capacity: 100}
	r := random(t.Name())
	c, err := NewCache(config)
	must(t, err)
	m := newTokens(config)
	m.append(t, r, c, 90)
	must(t, c.Truncate(70))
	m.truncate(70)
	weights := [2]Tensor{}
	for i := range weights {
		weights[i] = BHLD(nans(2*3*70), 1, 2, 3, 70)
	}
	q := tensor(r, normal, 1, 2, 3, 8)
	dst := BHLD(nans(2*3*8), 1, 2, 3, 8)
	must(t, c.Attend(dst, q, &Options{Causal: BottomRight, Weights: weights[0]}))
	must(t, Attend(dst, q, m.k, m.v, &Options{Causal: BottomRight, Weights: weights[1]}))
	mustEqualBits(t, "weights", weights[0].Data, weights[1].Data)
}

func TestCacheErrors(t *testing.T) {
	good := CacheConfig{Batch: 2, KVHeads: 1, HeadDim: 4, ValueDim: 3, Capacity: 10}
	for name, f := range map[string]func(*CacheConfig) *int{
		"Batch":    func(c *CacheConfig) *int { return &c.Batch },
		"KVHeads":  func(c *CacheConfig) *int { return &c.KVHeads },
		"HeadDim":  func(c *CacheConfig) *int { return &c.HeadDim },
		"ValueDim": func(c *CacheConfig) *int { return &c.ValueDim },
		"Capacity": func(c *CacheConfig) *int { return &c.Capacity },
	} {
		for _, n := range []int{0, -1, math.MinInt, maxLength + 1, math.MaxInt} {
			bad := good
			*f(&bad) = n
			_, err := NewCache(bad)
			mustFail(t, name, err, ErrShape, fmt.Sprintf("CacheConfig.%s is %d, want 1 to 268435456", name,
				n))
		}
	}
	huge := CacheConfig{Batch: maxLength, KVHeads: maxLength, HeadDim: maxLength, ValueDim: maxLength,
		Capacity: maxLength}
	_, err := NewCache(huge)
	mustFail(t, "overflow", err, ErrShape)
	for _, kind := range []Format{-1, 9} {
		bad := good
		bad.Format = kind
		_, err := NewCache(bad)
		mustFail(t, kind.String(), err, ErrOption, "CacheConfig.Format is "+kind.String()+", want "+
			"F32, F16, BF16, I8 or I4")
	}

	c, err := NewCache(good)
	must(t, err)
	must(t, c.Append(zeros(2, 1, 7, 4), zeros(2, 1, 7, 3)))
	closed, err := NewCache(good)
	must(t, err)
	must(t, closed.Close())
	short := zeros(2, 1, 3, 4)
	short.Data = short.Data[1:]
	sameKeys, sameValues := zeros(2, 1, 3, 4), zeros(2, 1, 3, 3)
	sameKeys.SL, sameValues.SL = Broadcast, Broadcast
	negative := zeros(2, 1, 3, 4)
	negative.SL = -2
	for _, e := range []struct {
		name string
		err  error
		kind error
		text string
	}{
		{"capacity", c.Append(zeros(2, 1, 4, 4), zeros(2, 1, 4, 3)), ErrCapacity,
			"k.L is 4, want at most 3: 7 of 10 tokens are in the cache"},
		{"k.B", c.Append(zeros(1, 1, 1, 4), zeros(2, 1, 1, 3)), ErrShape,
			"k is [1 1 … 4], want [2 1 … 4]"},
		{"k.H", c.Append(zeros(2, 2, 1, 4), zeros(2, 1, 1, 3)), ErrShape,
			"k is [2 2 … 4], want [2 1 … 4]"},
		{"k.D", c.Append(zeros(2, 1, 1, 3), zeros(2, 1, 1, 3)), ErrShape,
			"k is [2 1 … 3], want [2 1 … 4]"},
		{"v.B", c.Append(zeros(2, 1, 1, 4), zeros(1, 1, 1, 3)), ErrShape,
			"v is [1 1 1 3], want [2 1 1 3]"},
		{"v.H", c.Append(zeros(2, 1, 1, 4), zeros(2, 2, 1, 3)), ErrShape,
			"v is [2 2 1 3], want [2 1 1 3]"},
		{"v.L", c.Append(zeros(2, 1, 1, 4), zeros(2, 1, 2, 3)), ErrShape,
			"v is [2 1 2 3], want [2 1 1 3]"},
		{"v.D", c.Append(zeros(2, 1, 1, 4), zeros(2, 1, 1, 4)), ErrShape,
			"v is [2 1 1 4], want [2 1 1 3]"},
		{"short", c.Append(short, zeros(2, 1, 3, 3)), ErrLength,
			"len(k.Data) is 23, want at least 24 for [2 1 3 4] with strides [12 12 4]"},
		{"stride", c.Append(negative, zeros(2, 1, 3, 3)), ErrStride,
			"k.SL is -2, want at least 1, or Broadcast"},
		{"v stride", c.Append(zeros(2, 1, 3, 4), negative), ErrStride,
			"v.SL is -2, want at least 1, or Broadcast"},
		{"truncate", c.Truncate(8), ErrLength, "n is 8, want 0 to 7, the positions of the tokens"},
		{"truncate", c.Truncate(-1), ErrLength, "n is -1, want 0 to 7, the positions of the tokens"},
		{"q.B", c.Attend(zeros(1, 1, 1, 3), zeros(1, 1, 1, 4), nil), ErrShape,
			"q.B is 1, want 2 as in the keys"},
		{"q.D", c.Attend(zeros(2, 1, 1, 3), zeros(2, 1, 1, 3), nil), ErrShape,
			"q.D is 3, want the keys' 4"},
		{"dst.D", c.Attend(zeros(2, 1, 1, 4), zeros(2, 1, 1, 4), nil), ErrShape,
			"dst is [2 1 1 4], want [2 1 1 3]"},
		{"KeyLens", c.Attend(zeros(2, 1, 1, 3), zeros(2, 1, 1, 4), &Options{KeyLens: []int{7, 8}}),
			ErrLength, "KeyLens[1] is 8, want 0 to 7"},
		{"read k", c.Read(zeros(2, 1, 1, 3), zeros(2, 1, 1, 3), 0), ErrShape,
			"k is [2 1 … 3], want [2 1 … 4]"},
		{"read from", c.Read(zeros(2, 1, 1, 4), zeros(2, 1, 1, 3), -1), ErrLength,
			"from is -1 and k.L 1, want positions 0 to 7, those of the tokens"},
		{"read too many", c.Read(zeros(2, 1, 3, 4), zeros(2, 1, 3, 3), 5), ErrLength,
			"from is 5 and k.L 3, want positions 0 to 7, those of the tokens"},
		{"read k stride", c.Read(sameKeys, zeros(2, 1, 3, 3), 0), ErrStride, ""},
		{"read v stride", c.Read(zeros(2, 1, 3, 4), sameValues, 0), ErrStride, ""},
		{"closed", closed.Read(zeros(2, 1, 1, 4), zeros(2, 1, 1, 3), 0), ErrClosed, ""},
		{"closed", closed.Append(zeros(2, 1, 1, 4), zeros(2, 1, 1, 3)), ErrClosed, ""},
		{"closed", closed.Attend(zeros(2, 1, 1, 3), zeros(2, 1, 1, 4), nil), ErrClosed, ""},
		{"closed", closed.Truncate(0), ErrClosed, ""},
		{"closed", closed.Close(), ErrClosed, ""},
	} {
		mustFail(t, e.name, e.err, e.kind, e.text)
	}
	if c.Len() != 7 {
		t.Errorf("Len is %d after failed calls, want 7", c.Len())
	}
}

func TestCacheIsAligned(t *testing.T) {
	for d := 1; d < 6; d++ {
		c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: d, ValueDim: d, Capacity: 3})
		must(t, err)
		if at := uintptr(unsafe.Pointer(&c.packed.Data[0])); at%64 != 0 {
			t.Errorf("memory starts at %x, want a multiple of 64", at)
		}
	}
}

// cachePlay does the same to a cache and to its model, step by step. The model holds tokens as the
// cache should: decoded, and keys rotated; those of I8 as they came, for integers makes integers of
// them.
type cachePlay struct {
	*testing.T
	*trial
	cache *Cache
	model *tokens
	first int // tokens before this position were dropped
}

// FuzzCache: after any operations, attending over a cache of any type gives the bits of its
// definition: of tensors that hold the same tokens decoded, or of integers and scales. Reading
// gives these tokens, and operations that fail change nothing.
func FuzzCache(f *testing.F) {
	fuzzPlays(f, func(t *testing.T, c *trial) {
		c.Kind = randomKind(c.Rand)
		p := newCachePlay(t, c)
		for range 1 + c.IntN(9) {
			p.step()
		}
		p.attend()
	})
}

func newCachePlay(t *testing.T, c *trial) *cachePlay {
	capacity := 1 + c.IntN(24)
	switch draw := c.IntN(64); {
	case draw == 0:
		capacity += Segment
	case draw < 4:
		capacity += 3*Block - 5 // spans of several blocks
	case draw < 16:
		capacity += Block - 5
	}
	config := CacheConfig{Batch: 1 + c.IntN(2), KVHeads: 1 + c.IntN(2), HeadDim: 1 + c.IntN(9),
		ValueDim: 1 + c.IntN(18), Capacity: capacity}
	config.Format = Format(c.IntN(int(I8) + 1))
	if config.ValuesInKeys = c.IntN(3) == 0; config.ValuesInKeys {
		config.HeadDim += config.ValueDim - 1
	}
	cache, err := NewCache(config)
	if err != nil {
		t.Fatal(err)
	}
	// as if it had been used; in other types, too, these bytes are NaN or −1
	fillWith(elements[float32](cache.packed.Data), nan32())
	return &cachePlay{T: t, trial: c, cache: cache, model: newTokens(config)}
}

// rotation is the size of the largest matrix that keys and queries are multiplied by.
func (p *cachePlay) rotation() int {
	g := &p.model.config
	switch rest := g.HeadDim - g.ValueDim; {
	case g.Format != I8:
		return 1
	case g.ValuesInKeys:
		return max(g.ValueDim&-g.ValueDim, rest&-rest)
	}
	return g.HeadDim & -g.HeadDim
}

// rotated is x with its rows rotated as the cache's keys are.
func (p *cachePlay) rotated(x Tensor) Tensor {
	switch g := &p.model.config; {
	case p.rotation() == 1:
		return contiguous(x)
	case g.ValuesInKeys:
		return latentRows(x, g.ValueDim)
	}
	return rotatedRows(x)
}

// zeroValues is a tensor for values of some tokens: the zero Tensor if they are part of keys.
func (p *cachePlay) zeroValues(n int) Tensor {
	g := &p.model.config
	if g.ValuesInKeys {
		return Tensor{}
	}
	return zeros(g.Batch, g.KVHeads, n, g.ValueDim)
}

// addRounded adds tokens to the model as the cache keeps them, but for integers.
func (p *cachePlay) addRounded(k, v Tensor, add func(k, v Tensor)) {
	if k = p.rounded(p.rotated(k)); p.model.config.ValuesInKeys {
		v = firstOf(k, p.model.config.ValueDim)
	}
	add(k, p.rounded(v))
}

// rounded is x in numbers of the cache's type.
func (p *cachePlay) rounded(x Tensor) Tensor {
	y := contiguous(x)
	for i, e := range y.Data {
		switch p.model.config.Format {
		case F16:
			y.Data[i] = f32.FromF16(f32.ToF16(e))
		case BF16:
			y.Data[i] = f32.FromBF16(f32.ToBF16(e))
		}
	}
	return y
}

func (p *cachePlay) step() {
	tokens := p.model.k.L
	switch n := p.IntN(tokens + 1); p.IntN(18) {
	case 8:
		p.grow()
	case 9:
		p.file()
	case 10, 11:
		p.dropBefore(n)
	case 12:
		p.roll()
	case 13:
		kept := someOf(p.Rand, p.first, tokens)
		p.want(p.cache.Keep(kept), nil)
		p.model.keep(kept)
		poisonUnused(p.cache)
	case 14:
		p.want(p.cache.Keep([]int{p.first + n, tokens - p.IntN(2)*(tokens-p.first+1)}), ErrLength)
	case 0:
		n = max(n, p.first)
		p.want(p.cache.Truncate(n), nil)
		p.model.truncate(n)
	case 1:
		p.want(p.cache.Truncate([]int{p.first - 1 - n, tokens + 1 + n}[p.IntN(2)]), ErrLength)
		p.want(p.cache.DropBefore([]int{-1 - n, tokens + 1 + n}[p.IntN(2)]), ErrLength)
	case 2:
		if p.IntN(3) == 0 {
			p.cache.Reset()
			p.first = 0
			p.model.truncate(0)
		}
	case 3:
		p.appendWrong()
	case 4:
		p.attendWrong()
	case 5:
		p.attend()
	case 6:
		p.append(p.free())
	case 7:
		p.read()
	default:
		p.append(min(p.free(), p.IntN(20)))
	}
	if p.cache.Len() != p.model.k.L || p.cache.First() != p.first {
		p.Fatalf("positions are %d to %d, want %d to %d", p.cache.First(), p.cache.Len(), p.first,
			p.model.k.L)
	}
}

// dropBefore drops tokens, and poisons what the cache keeps of them.
func (p *cachePlay) dropBefore(n int) {
	p.want(p.cache.DropBefore(n), nil)
	p.first = max(p.first, n)
	poisonUnused(p.cache)
}

// poisonUnused makes memory of no token NaN, or integers of −1 with such scales.
func poisonUnused(c *Cache) {
	s := &c.packed
	blocks := map[int][2]int{} // that have tokens
	for j := c.First(); j < c.Len(); j++ {
		i := j / Block % s.Count
		if _, in := blocks[i]; !in {
			blocks[i] = [2]int{j % Block, 0}
		}
		blocks[i] = [2]int{blocks[i][0], j%Block + 1}
	}
	of, all := make([]byte, s.Size), make([]byte, s.Size) // of which tokens are there, and of any
	for i := range s.Count {
		for k := range of {
			of[k], all[k] = 0xff, 0xff
		}
		s.Blank(of, blocks[i][0], blocks[i][1])
		s.Blank(all, 0, Block)
		for h := range c.heads() {
			for k, x := range s.At(h, i) {
				s.At(h, i)[k] = x | all[k]&^of[k]
			}
		}
	}
}

// roll does what a sliding window does: most tokens are dropped, and others come.
func (p *cachePlay) roll() {
	for range 1 + p.IntN(4) {
		p.append(p.free())
		p.dropBefore(p.model.k.L - p.IntN(min(p.model.k.L, 70)+1))
	}
}

// grow makes room for more tokens, or for fewer than there is room for.
func (p *cachePlay) grow() {
	g := &p.model.config
	capacity := g.Capacity + p.IntN(2*Block) - 10
	p.want(p.cache.Grow(capacity), nil)
	g.Capacity = max(g.Capacity, capacity)
	if p.cache.Config() != *g {
		p.Fatalf("Config is %v, want %v", p.cache.Config(), *g)
	}
}

// file writes the cache, and reads it, or as much as there is of it.
func (p *cachePlay) file() {
	var file bytes.Buffer
	_, err := p.cache.Save(&file)
	p.want(err, nil)
	if p.IntN(3) == 0 {
		file.Truncate(p.IntN(file.Len()))
		_, err := p.cache.Load(&file)
		p.want(err, ErrFormat)
		return
	}
	if p.IntN(2) == 0 {
		p.cache.Reset()
	}
	_, err = p.cache.Load(&file)
	p.want(err, nil)
}

// free is the number of tokens for which there is room: as many as are there with them are at most
// Capacity, and have blocks in which no others are.
func (p *cachePlay) free() int {
	ring, owners := blocksOf(p.model.config.Capacity), map[int]int{}
	for j := p.first; j < p.first+p.model.config.Capacity; j++ {
		block := j / Block
		if owner, in := owners[block%ring]; in && owner != block {
			return j - p.model.k.L
		}
		owners[block%ring] = block
	}
	return p.first + p.model.config.Capacity - p.model.k.L
}

func (p *cachePlay) want(err, kind error) {
	if !errors.Is(err, kind) {
		p.Fatalf("error is %v, want %v", err, kind)
	}
}

// draw returns a tensor with its heads side by side in a row, or apart.
func (p *cachePlay) draw(b, h, l, d int) Tensor {
	x := make([]float32, b*h*l*d)
	p.Fill(p.Kind, x)
	if p.IntN(2) == 0 {
		return BLHD(x, b, l, h, d)
	}
	return BHLD(x, b, h, l, d)
}

func (p *cachePlay) tokens(batch, n int) (k, v Tensor) {
	g := &p.model.config
	k = p.draw(batch, g.KVHeads, n, g.HeadDim)
	if !g.ValuesInKeys {
		v = p.draw(batch, g.KVHeads, n, g.ValueDim)
	}
	return k, v
}

// append adds n tokens.
func (p *cachePlay) append(n int) {
	k, v := p.tokens(p.model.config.Batch, n)
	if p.model.config.Format == I8 && !(p.scales(k, p.rotation()) && p.scales(v, 1)) {
		p.want(p.cache.Append(k, v), ErrOption)
		return
	}
	p.want(p.cache.Append(k, v), nil)
	p.addRounded(k, v, p.model.add)
}

// scales reports whether sums of some elements of x are finite, as a cache of I8 wants them.
func (p *cachePlay) scales(x Tensor, terms int) bool {
	for _, e := range contiguous(x).Data {
		if !(math.Abs(float64(e)) <= math.MaxFloat32/float64(terms)) {
			return false
		}
	}
	return true
}

// read compares some tokens with the model's, and asks for some that there are not.
func (p *cachePlay) read() {
	tokens := p.model.k.L
	from := p.first + p.IntN(tokens-p.first+1)
	n, g := p.IntN(tokens-from+1), &p.model.config
	k, v := zeros(g.Batch, g.KVHeads, n, g.HeadDim), p.zeroValues(n)
	p.want(p.cache.Read(k, v, tokens-n+1), ErrLength)
	p.want(p.cache.Read(k, v, p.first-1), ErrLength)
	p.want(p.cache.Read(k, v, from), nil)
	wantK, wantV := contiguous(rowsOf(p.model.k, from, n)), contiguous(rowsOf(p.model.v, from, n))
	if g.Format == I8 {
		wantK, wantV = decoded(integersOfAll(wantK)), decoded(integersOfAll(wantV))
	}
	mustEqualBits(p, "keys", k.Data, p.rotated(wantK).Data)
	if !g.ValuesInKeys {
		mustEqualBits(p, "values", v.Data, wantV.Data)
	}
}

// decoded is integers times their scales.
func decoded(x Tensor, scales []float32) Tensor {
	for i := range x.Data {
		x.Data[i] *= scales[i/x.D]
	}
	return x
}

// appendWrong appends more than there is room for, or what has a wrong form.
func (p *cachePlay) appendWrong() {
	kind := p.IntN(4)
	n := 1 + p.IntN(5)
	if kind == 0 {
		n += p.free()
	} else if n = min(n, p.free()); n == 0 {
		return
	}
	k, v := p.tokens(p.model.config.Batch, n)
	spoiled := []*Tensor{&k, &v}[p.IntN(2)]
	wanted := ErrCapacity
	if p.model.config.ValuesInKeys {
		if spoiled = &k; p.IntN(4) == 0 {
			kind, spoiled, wanted = 4, nil, ErrShape
			if v = p.draw(k.B, k.H, k.L, p.model.config.ValueDim); p.IntN(2) == 0 {
				v = Tensor{D: 1} // without elements, but not the zero Tensor
			}
		}
	}
	switch kind {
	case 1:
		spoiled.Data, wanted = spoiled.Data[1:], ErrLength
	case 2:
		if spoiled.L == 1 {
			return // takes any stride
		}
		spoiled.SL, wanted = -2, ErrStride
	case 3:
		sizes := []*int{&spoiled.B, &spoiled.H, &spoiled.D, &spoiled.L}
		if p.model.config.ValuesInKeys {
			sizes = sizes[:3] // nothing says how many keys there are
		}
		n := sizes[p.IntN(len(sizes))]
		*n, wanted = *n-1, ErrShape
	}
	p.want(p.cache.Append(k, v), wanted)
}

// call draws the arguments of a call over the cache.
func (p *cachePlay) call() (dst, q Tensor, opt *Options) {
	g := &p.model.config
	heads, lq := g.KVHeads*(1+p.IntN(2)), 1+p.IntN(4)
	q = p.draw(g.Batch, heads, lq, g.HeadDim)
	dst = BHLD(nans(g.Batch*heads*lq*g.ValueDim), g.Batch, heads, lq, g.ValueDim)
	opt = randomOptions(p.Rand, g.Batch, heads, lq, p.model.k.L)
	if p.IntN(4) == 0 {
		opt.Scale = []float32{-1, 0.3}[p.IntN(2)]
	}
	if p.IntN(4) == 0 && opt.growTree(p.Rand, lq, p.model.k.L) {
		opt.Slopes = nil // which a mask does not say
	}
	opt.Integers = p.integers()
	opt.BFloat16 = p.model.config.Format < I8 && p.IntN(3) == 0
	return dst, q, opt
}

// integers draws whether a call over finite numbers is in integers.
func (p *cachePlay) integers() bool {
	return p.model.config.Format == I8 && (p.Kind == normal || p.Kind == coarse) && p.IntN(3) == 0
}

func (p *cachePlay) attend() {
	dst, q, opt := p.call()
	want := dst
	want.Data = nans(len(dst.Data))
	defined := opt.withoutTree(q.B, p.model.k.L)
	defined.Mask = p.visible(&defined.Mask, q.L)
	defined.LSE = nans(q.B * q.H * q.L)
	p.define(want, q, &defined)
	for name, attend := range map[string]func() error{
		"Attend": func() error { return p.cache.Attend(dst, q, opt) },
		"Pool": func() error {
			return pooled(dst, func(j *attention) error {
				j.plan = newPlan(dst, q, Tensor{}, Tensor{}, opt)
				return p.cache.plan(&j.plan, opt)
			})
		},
	} {
		fillWith(dst.Data, nan32())
		opt.LSE = nans(len(defined.LSE))
		p.want(attend(), nil)
		mustEqualBits(p, name, dst.Data, want.Data)
		mustEqualBits(p, name+", LSE", opt.LSE, defined.LSE)
	}
}

// visible is a mask that hides dropped tokens, too.
func (p *cachePlay) visible(mask *Mask, lq int) Mask {
	if p.first == 0 {
		return *mask
	}
	g, n := &p.model.config, p.model.k.L
	all := BHLD(make([]bool, g.Batch*lq*n), g.Batch, 1, lq, n)
	for b := range g.Batch {
		for i := range lq {
			for j := p.first; j < n; j++ {
				all.row(b, 0, i)[j] = mask.none() || mask.row(b, 0, i)[j]
			}
		}
	}
	return all
}

// define is what attending over the cache should give.
func (p *cachePlay) define(dst, q Tensor, opt *Options) {
	g := &p.model.config
	switch q = p.rotated(q); {
	case g.Format == I8 && g.ValuesInKeys:
		newLatentIntegers(contiguous(p.model.k), g.ValueDim).attend(dst, q, opt)
		return
	case g.Format == I8:
		newIntegers(contiguous(p.model.k), contiguous(p.model.v)).attend(dst, q, opt)
		return
	}
	p.want(Attend(dst, q, p.model.k, p.model.v, opt), nil)
}

// attendWrong makes calls that must not write to dst.
func (p *cachePlay) attendWrong() {
	dst, q, opt := p.call()
	wanted := ErrShape
	switch p.IntN(4) {
	case 0:
		q.D--
	case 1:
		dst.D--
	case 2:
		opt.KeyLens, wanted = slices.Repeat([]int{p.model.k.L}, q.B), ErrLength
		opt.KeyLens[p.IntN(q.B)]++
	case 3:
		q.Data, wanted = q.Data[1:], ErrLength
	}
	p.want(p.cache.Attend(dst, q, opt), wanted)
	for i, e := range dst.Data {
		if e == e {
			p.Fatalf("dst[%d] was written by a call that failed", i)
		}
	}
}

// BenchmarkCacheAppend appends n tokens of eight heads: to F32, and one token also to the other
// types.
func BenchmarkCacheAppend(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) { benchmarkAppend(b, n, CacheConfig{}) })
	}
	for _, kind := range allFormats[1:] {
		name := "n=1" + typeName(kind)
		b.Run(name, func(b *testing.B) { benchmarkAppend(b, 1, CacheConfig{Format: kind}) })
	}
}

func benchmarkAppend(b *testing.B, n int, config CacheConfig) {
	config.Batch, config.KVHeads, config.HeadDim, config.ValueDim, config.Capacity = 1, 8, 128, 128,
		4096
	c, err := NewCache(config)
	must(b, err)
	x := BLHD(tensor(random("append"), normal, 1, 8, n, 128).Data, 1, n, 8, 128)
	b.SetBytes(int64(2 * 4 * len(x.Data)))
	for b.Loop() {
		if c.Len()+n > config.Capacity {
			c.Reset()
		}
		if err := c.Append(x, x); err != nil {
			b.Fatal(err)
		}
	}
}

// rollCache drops all but some tokens and appends as many as there is room for, again and again.
func rollCache(t testing.TB, c *Cache, times int) {
	g := c.Config()
	r := goldenRandom("rolling")
	for range times {
		must(t, c.DropBefore(max(c.First(), c.Len()-20)))
		n := min(c.config.Capacity-(c.length-c.first), (c.first/Block+c.packed.Count)*Block-c.length)
		k := goldenTensor(r, 4, g.Batch, g.KVHeads, n, g.HeadDim)
		v := goldenTensor(r, 2, g.Batch, g.KVHeads, n, g.ValueDim)
		must(t, c.Append(k, g.kept(v)))
		must(t, c.DropBefore(max(c.First(), c.Len()-100)))
	}
}

// The file of a cache that has rolled is the same wherever it is read, and so is what follows.
func TestCacheFileOfRing(t *testing.T) {
	everyCache(t, func(t *testing.T, g CacheConfig, n int) {
		c := newCacheOf(t, g, n)
		rollCache(t, c, 3)
		file := cacheFileOf(t, c)
		for _, before := range []int{0, 3, 170} {
			g.Capacity = 170
			to := newCacheOf(t, g, before)
			must(t, to.DropBefore(before/2))
			_, err := to.Load(bytes.NewReader(file))
			must(t, err)
			mustEqualCaches(t, to, c)
			mustEqualFiles(t, "that was read", cacheFileOf(t, to), file)
			must(t, to.Grow(400))
			mustEqualCaches(t, to, c)
			rollCache(t, to, 1)
			must(t, to.Close())
		}
		for capacity, blocks := range map[int]bool{c.Len() - c.First() - 1: false, 65: true} {
			if capacity < 1 || capacity < c.Len()-c.First() == blocks {
				continue
			}
			g.Capacity = capacity
			small := newCacheOf(t, g, 1)
			before := cacheFileOf(t, small)
			_, err := small.Load(bytes.NewReader(file))
			mustFail(t, "no room", err, ErrCapacity)
			mustEqualFiles(t, "after an error", cacheFileOf(t, small), before)
			must(t, small.Close())
		}
		must(t, c.Close())
	})
}

// Few tokens may need more blocks than there are.
func TestCacheFileNeedsBlocks(t *testing.T) {
	g := smallestCache(F32)
	from := newCacheOf(t, g, Block+1)
	must(t, from.DropBefore(Block-1))
	g.Capacity = Block
	to := newCacheOf(t, g, 2)
	_, err := to.Load(bytes.NewReader(cacheFileOf(t, from)))
	mustFail(t, "blocks", err, ErrCapacity,
		"the file's positions 63 to 65 take 2 blocks of 64, want at most 1, the cache's")
	if to.Len() != 2 {
		t.Errorf("Len is %d, want 2", to.Len())
	}
}

// A window of w and appends of n need a Capacity of w + n + 62: less is too little for some
// position, and more is never needed.
func TestCacheWindowCapacity(t *testing.T) {
	r := random(t.Name())
	for _, e := range [][2]int{{1, 1}, {1, 2}, {1, 66}, {5, 61}, {60, 7}, {64, 2}, {64, 64}, {64, 65},
		{100, 30}, {128, 1}} {
		w, most := e[0], e[1]
		for _, missing := range []int{0, (w+most+61)%Block + 1} { // one block less
			g := CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 1, ValueDim: 1,
				Capacity: w + most + 62 - missing}
			if g.Capacity == 0 {
				continue
			}
			c, err := NewCache(g)
			must(t, err)
			failed := g.Capacity < w+most-1
			for i := 0; i < 300 && !failed; i++ {
				n := most
				if i%7 == 0 {
					n = 1 + r.IntN(most)
				}
				must(t, c.DropBefore(max(0, c.Len()-w+1)))
				if err = c.Append(zeros(1, 1, n, 1), zeros(1, 1, n, 1)); err != nil {
					mustFail(t, "append", err, ErrCapacity)
					failed = true
				}
			}
			if failed != (missing > 0) {
				t.Errorf("a window of %d with appends of %d fails: %t in a Capacity of %d", w, most, failed,
					g.Capacity)
			}
		}
	}
}

// Tokens that were dropped have weights of 0; positions go on counting.
func TestCacheRingWeights(t *testing.T) {
	g := CacheConfig{Batch: 2, KVHeads: 1, HeadDim: 8, ValueDim: 8, Capacity: 130}
	r := random(t.Name())
	c, err := NewCache(g)
	must(t, err)
	m := newTokens(g)
	for _, n := range []int{100, 60, 70} {
		m.append(t, r, c, n)
		must(t, c.DropBefore(c.Len()-20))
	}
	first, n := c.First(), c.Len()
	mask := BHLD(make([]bool, n), 1, 1, 1, n)
	for j := first; j < n; j++ {
		mask.Data[j] = true
	}
	mask.L, mask.SL = 3, Broadcast
	mask.SB, mask.SH, mask.B, mask.H = Broadcast, Broadcast, 2, 2
	q := tensor(r, normal, 2, 2, 3, 8)
	dst := BHLD(nans(2*2*3*8), 2, 2, 3, 8)
	weights := [2]Tensor{BHLD(nans(2*2*3*n), 2, 2, 3, n), BHLD(nans(2*2*3*n), 2, 2, 3, n)}
	poisonUnused(c)
	must(t, c.Attend(dst, q, &Options{Causal: BottomRight, Weights: weights[0]}))
	must(t, Attend(dst, q, m.k, m.v, &Options{Causal: BottomRight, Weights: weights[1], Mask: mask}))
	mustEqualBits(t, "weights", weights[0].Data, weights[1].Data)
}

// A cache and a sequence of the same tokens and drops are the same, whatever is done to them.
func TestCacheRingIsASequences(t *testing.T) {
	r := random(t.Name())
	for _, format := range allFormats {
		for i := range budget(12) {
			g := CacheConfig{Batch: 1, KVHeads: 2, HeadDim: 20, ValueDim: 18, Capacity: 64 * (1 + r.IntN(4)),
				Format: format, ValuesInKeys: i%3 == 0}
			playRing(t, r, g)
		}
	}
}

func playRing(t *testing.T, r *rand.Rand, g CacheConfig) {
	c, err := NewCache(g)
	must(t, err)
	s := sequenceOf(t, StoreConfig{KVHeads: 2, HeadDim: 20, ValueDim: 18, Pages: 9, Format: g.Format,
		ValuesInKeys: g.ValuesInKeys})
	both := func(name string, a, b error) {
		if must(t, b); a != nil {
			t.Fatalf("%s: %v", name, a)
		}
	}
	for range 20 {
		switch n := c.Len(); r.IntN(4) {
		case 0:
			to := c.First() + r.IntN(n-c.First()+1)
			both("Truncate", c.Truncate(to), s.Truncate(to))
		case 1:
			if kept := someOf(r, c.First(), n); len(kept) > 0 {
				both("Keep", c.Keep(kept), s.Keep(kept))
			}
		case 2:
			to := max(0, n-r.IntN(70))
			both("DropBefore", c.DropBefore(to), s.DropBefore(to))
		default:
			k, v := tensor(r, normal, 1, 2, 1+r.IntN(60), 20), Tensor{}
			if !g.ValuesInKeys {
				v = tensor(r, normal, 1, 2, k.L, 18)
			}
			if err := c.Append(k, v); err != nil {
				mustFail(t, "append", err, ErrCapacity)
				continue
			}
			must(t, s.Append(k, v))
		}
		poisonUnused(c)
		mustEqualFiles(t, "of the cache", cacheFileOf(t, c), fileOf(t, s))
		q, opt := tensor(r, normal, 1, 4, 3, 20), &Options{Causal: BottomRight, QueryLens: []int{3}}
		got, want := BHLD(nans(4*3*18), 1, 4, 3, 18), BHLD(nans(4*3*18), 1, 4, 3, 18)
		must(t, c.Attend(got, q, opt))
		must(t, AttendSequences(want, q, []*Sequence{s}, opt))
		mustEqualBits(t, "attention", got.Data, want.Data)
	}
	must(t, c.Close())
	must(t, s.store.Close())
}

// someOf is some ascending positions from first to length−1, often in runs.
func someOf(r *rand.Rand, first, length int) (list []int) {
	skip := 1 + r.IntN(20)
	for j := length - r.IntN(length-first+1); j < length; j++ {
		if list = append(list, j); r.IntN(3) == 0 {
			j += r.IntN(skip)
		}
	}
	return list
}

func TestCacheRingErrors(t *testing.T) {
	g := CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 1, ValueDim: 1, Capacity: 2 * Block}
	c := newCacheOf(t, g, 2*Block)
	x := func(n int) Tensor { return zeros(1, 1, n, 1) }
	must(t, c.DropBefore(Block+6))
	must(t, c.Append(x(60), x(60)))
	must(t, c.DropBefore(Block+6)) // again, or earlier
	must(t, c.DropBefore(5))
	for _, e := range []struct {
		name string
		err  error
		kind error
		text string
	}{
		{"drop", c.DropBefore(-1), ErrLength,
			"position is -1, want 0 to 188, the positions of the cache"},
		{"drop", c.DropBefore(189), ErrLength,
			"position is 189, want 0 to 188, the positions of the cache"},
		{"truncate", c.Truncate(69), ErrLength, "n is 69, want 70 to 188, the positions of the tokens"},
		{"read", c.Read(x(1), x(1), 69), ErrLength,
			"from is 69 and k.L 1, want positions 70 to 188, those of the tokens"},
		{"ring", c.Append(x(5), x(5)), ErrCapacity,
			"k.L is 5, want at most 4: tokens from position 70 on are in the cache's ring of 2 " +
				"blocks of 64"},
		{"capacity", c.Append(x(11), x(11)), ErrCapacity,
			"k.L is 11, want at most 10: 118 of 128 tokens are in the cache"},
		{"keep", c.Keep([]int{69}), ErrLength,
			"indices[0] is 69, want 70 to 187, the positions of the tokens"},
		{"keep", c.Keep([]int{70, 188}), ErrLength,
			"indices[1] is 188, want 70 to 187, the positions of the tokens"},
		{"keep", c.Keep([]int{80, 90, 90}), ErrLength,
			"indices[2] is 90 after 90, want ascending positions"},
		{"closed", new(Cache).DropBefore(0), ErrClosed, ""},
		{"closed", new(Cache).Keep(nil), ErrClosed, ""},
		{"closed", new(Sequence).Keep(nil), ErrClosed, ""},
		{"nothing", errors.Join(c.Keep(nil), c.Keep([]int{})), nil, ""},
	} {
		if e.kind == nil {
			must(t, e.err)
			continue
		}
		mustFail(t, e.name, e.err, e.kind, e.text)
	}
	if c.First() != Block+6 || c.Len() != 188 {
		t.Errorf("positions are %d to %d after failed calls, want 70 to 188", c.First(), c.Len())
	}
	c.Reset()
	if must(t, c.Append(x(2*Block), x(2*Block))); c.First() != 0 || c.Len() != 2*Block {
		t.Errorf("positions are %d to %d after Reset, want 0 to 128", c.First(), c.Len())
	}
}

// Positions end at 2²⁸, and before that a window costs what it costs at the beginning.
func TestCacheRingEnds(t *testing.T) {
	g := CacheConfig{Batch: 1, KVHeads: 2, HeadDim: 8, ValueDim: 8, Capacity: 2 * Block}
	const from = maxLength - Block
	c := newCacheOf(t, g, 10)
	file := cacheFileOf(t, c)
	binary.LittleEndian.PutUint32(file[36:], from)
	binary.LittleEndian.PutUint32(file[40:], from+10)
	repair(file, 2*c.packed.Size)
	far := newCacheOf(t, g, 0)
	_, err := far.Load(bytes.NewReader(file))
	must(t, err)
	if far.First() != from || far.Len() != from+10 {
		t.Fatalf("positions are %d to %d, want %d to %d", far.First(), far.Len(), from, from+10)
	}
	q := tensor(random("queries"), normal, 1, 4, 3, 8)
	want, got := BHLD(nans(4*3*8), 1, 4, 3, 8), BHLD(nans(4*3*8), 1, 4, 3, 8)
	opt := &Options{Causal: BottomRight, Window: Window{Left: 5}}
	must(t, c.Attend(want, q, opt))
	must(t, far.Attend(got, q, opt))
	mustEqualBits(t, "far attention", got.Data, want.Data)
	fillWith(got.Data, nan32())
	must(t, pooled(got, func(j *attention) error {
		j.plan = newPlan(got, q, Tensor{}, Tensor{}, opt)
		err := far.plan(&j.plan, opt)
		j.plan.decide(&tuned, 3)
		if j.plan.segments != 1 {
			t.Errorf("a call over one segment is divided into %d", j.plan.segments)
		}
		return err
	}))
	mustEqualBits(t, "far attention of a pool", got.Data, want.Data)
	x := func(n int) Tensor { return zeros(1, 2, n, 8) }
	mustFail(t, "the end", far.Append(x(55), x(55)), ErrLength,
		fmt.Sprintf("k.L is 55 after %d tokens, want at most %d in all", from+10, maxLength))
	must(t, far.Append(x(54), x(54)))
	must(t, far.Attend(got, q, opt))
}

// Keep is what truncating and appending again gives, in every format and all sequences of a batch.
func TestCacheKeep(t *testing.T) {
	r := random(t.Name())
	everyCache(t, func(t *testing.T, g CacheConfig, n int) {
		c := newCacheOf(t, g, n)
		k := zeros(g.Batch, g.KVHeads, n, g.HeadDim)
		v := zeros(g.Batch, g.KVHeads, n, g.ValueDim)
		source := goldenRandom("cache file")
		k = goldenTensor(source, 4, k.B, k.H, n, k.D)
		v = goldenTensor(source, 2, v.B, v.H, n, v.D)
		kept := someOf(r, 0, n)
		must(t, c.Keep(kept))
		want := newCacheOf(t, g, n)
		if len(kept) > 0 {
			must(t, want.Truncate(kept[0]))
			for _, j := range kept {
				must(t, want.Append(rowsOf(k, j, 1), g.kept(rowsOf(v, j, 1))))
			}
		}
		poisonUnused(c)
		mustEqualCaches(t, c, want)
		mustEqualFiles(t, "after Keep", cacheFileOf(t, c), cacheFileOf(t, want))
	})
}

// Keep copies the shared pages to which it moves tokens, and needs free ones for that.
func TestSequenceKeepCopiesSharedPages(t *testing.T) {
	g := StoreConfig{KVHeads: 2, HeadDim: 3, ValueDim: 2, Pages: 5}
	s := newSequenceIn(t, g, 0, 3*Block-4)
	fork := s.Fork()
	before := fileOf(t, fork)
	last := s.store.NewSequence()
	must(t, last.Append(zeros(1, 2, Block+1, 3), zeros(1, 2, Block+1, 2)))
	kept := slices.Concat([]int{10, 13}, []int{Block, Block + 1, 2*Block + 3})
	mustFail(t, "free pages", s.Keep(kept), ErrCapacity,
		"len(indices) is 5, which takes 1 pages: 1 are missing, as 0 of 5 are free")
	mustEqualFiles(t, "after an error", fileOf(t, s), before)
	must(t, s.Keep([]int{10, 11, 12})) // nothing moves, so nothing is copied
	if s.Len() != 13 || s.store.FreePages() != 0 {
		t.Errorf("Len is %d and %d pages are free, want 13 and 0", s.Len(), s.store.FreePages())
	}
	s.Release()
	s = fork.Fork()
	last.Release()
	must(t, s.Keep(kept))
	mustEqualFiles(t, "of the fork", fileOf(t, fork), before)
	want := newSequenceIn(t, g, 0, 3*Block-4)
	must(t, want.Keep(kept))
	mustEqualFiles(t, "after Keep", fileOf(t, s), fileOf(t, want))
	if got := s.store.FreePages(); got != 1 {
		t.Errorf("%d pages are free, want 1: one was copied", got)
	}
}

// Workers share the segments that have tokens, from the first one on.
func TestPoolOverSegmentsOfRing(t *testing.T) {
	r := random(t.Name())
	g := CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 8, ValueDim: 8, Capacity: 2*Segment + 100}
	c, err := NewCache(g)
	must(t, err)
	m := newTokens(g)
	m.append(t, r, c, 2*Segment+50)
	must(t, c.DropBefore(2*Segment-10))
	m.append(t, r, c, 2*Segment-10)
	poisonUnused(c)
	mask := BHLD(make([]bool, c.Len()), 1, 1, 1, c.Len())
	for j := c.First(); j < c.Len(); j++ {
		mask.Data[j] = true
	}
	q, want, got := tensor(r, normal, 1, 2, 1, 8), zeros(1, 2, 1, 8), zeros(1, 2, 1, 8)
	must(t, Attend(want, q, m.k, m.v, &Options{Mask: mask}))
	must(t, pooled(got, func(j *attention) error {
		j.plan = newPlan(got, q, Tensor{}, Tensor{}, nil)
		err := c.plan(&j.plan, nil)
		if j.plan.decide(&tuned, 3); j.plan.segments != 4 {
			t.Errorf("the keys are divided into %d segments, want 4", j.plan.segments)
		}
		return err
	}))
	mustEqualBits(t, "output", got.Data, want.Data)
}
