package attn

import (
	"errors"
	"testing"
)

// cachePlay is a sequence of operations on a cache and on its model.
type cachePlay struct {
	*testing.T
	*trial
	cache *Cache
	model *tokens
}

// FuzzCache: whatever is done to a cache, attending over it gives the bits of
// plain tensors with the same tokens, and what fails changes nothing.
func FuzzCache(f *testing.F) {
	fuzzTrials(f, func(t *testing.T, c *trial) {
		c.kind = randomKind(c.Rand)
		p := newCachePlay(t, c)
		for range 1 + c.IntN(6) {
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
	case draw < 16:
		capacity += Block - 5
	}
	config := CacheConfig{Batch: 1 + c.IntN(2), KVHeads: 1 + c.IntN(2), HeadDim: 1 + c.IntN(9), ValueDim: 1 + c.IntN(18), Capacity: capacity}
	cache, err := NewCache(config)
	if err != nil {
		t.Fatal(err)
	}
	fillWith(cache.store.data, nan32()) // as if it had been used
	return &cachePlay{t, c, cache, newTokens(config)}
}

func (p *cachePlay) step() {
	n := p.IntN(p.model.k.L + 1)
	switch p.IntN(10) {
	case 0:
		p.want(p.cache.Truncate(n), nil)
		p.model.k.L, p.model.v.L = n, n
	case 1:
		p.want(p.cache.Truncate([]int{-1 - n, p.model.k.L + 1 + n}[p.IntN(2)]), ErrLength)
	case 2:
		if p.IntN(3) == 0 {
			p.cache.Reset()
			p.model.k.L, p.model.v.L = 0, 0
		}
	case 3:
		p.appendWrong()
	case 4:
		p.attendWrong()
	case 5:
		p.attend()
	case 6:
		p.append(p.free())
	default:
		p.append(min(p.free(), p.IntN(20)))
	}
	if p.cache.Len() != p.model.k.L {
		p.Fatalf("Len is %d, want %d", p.cache.Len(), p.model.k.L)
	}
}

// free is the number of tokens for which there is room.
func (p *cachePlay) free() int { return p.model.config.Capacity - p.model.k.L }

func (p *cachePlay) want(err, kind error) {
	if !errors.Is(err, kind) {
		p.Fatalf("error is %v, want %v", err, kind)
	}
}

// draw returns a tensor with its heads side by side in a row, or apart.
func (p *cachePlay) draw(b, h, l, d int) Tensor {
	x := make([]float32, b*h*l*d)
	p.fill(p.kind, x)
	if p.IntN(2) == 0 {
		return BLHD(x, b, l, h, d)
	}
	return BHLD(x, b, h, l, d)
}

func (p *cachePlay) tokens(n int) (k, v Tensor) {
	g := &p.model.config
	return p.draw(g.Batch, g.KVHeads, n, g.HeadDim), p.draw(g.Batch, g.KVHeads, n, g.ValueDim)
}

func (p *cachePlay) append(n int) {
	k, v := p.tokens(n)
	p.want(p.cache.Append(k, v), nil)
	p.model.add(k, v)
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
	k, v := p.tokens(n)
	spoiled := []*Tensor{&k, &v}[p.IntN(2)]
	wanted := ErrCapacity
	switch kind {
	case 1:
		spoiled.Data, wanted = spoiled.Data[1:], ErrLength
	case 2:
		spoiled.SL, wanted = -1, ErrStride
	case 3:
		n := []*int{&spoiled.B, &spoiled.H, &spoiled.L, &spoiled.D}[p.IntN(4)]
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
	return dst, q, randomOptions(p.Rand, g.Batch, heads, lq, p.model.k.L)
}

func (p *cachePlay) attend() {
	dst, q, opt := p.call()
	want := dst
	want.Data = nans(len(dst.Data))
	opt.LSE = nans(q.B * q.H * q.L)
	p.want(Attend(want, q, p.model.k, p.model.v, opt), nil)
	lse := opt.LSE
	opt.LSE = nans(len(lse))
	p.want(p.cache.Attend(dst, q, opt), nil)
	mustEqualBits(p, "output", dst.Data, want.Data)
	mustEqualBits(p, "LSE", opt.LSE, lse)
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
		opt.KeyLens, wanted = []int{p.model.k.L + 1, p.model.k.L}[:q.B], ErrLength
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
