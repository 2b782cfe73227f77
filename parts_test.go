package attn

import "testing"

// tokenMajor copies x so that the heads of a token follow each other.
func tokenMajor(x Tensor) Tensor {
	y := BLHD(make([]float32, len(x.Data)), x.B, x.L, x.H, x.D)
	for b := range x.B {
		for h := range x.H {
			for l := range x.L {
				copy(y.row(b, h, l), x.row(b, h, l))
			}
		}
	}
	return y
}

// Heads that go through blocks in parts give the bits of one head after the other, with every option.
func TestPartsDoNotMatter(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r, inParts := random("parts"), 0
		for range budget(400) {
			s := shape{1 + r.IntN(2), 2 + r.IntN(4), 1 + r.IntN(3), 1 + r.IntN(4), Block + length(r, 4*Block), length(r, 40), length(r, 40)}
			if r.IntN(12) == 0 {
				s.lk += Segment
			}
			p := problemOf(r, randomKind(r), s)
			if r.IntN(6) == 0 { // only scores of −Inf: all rows count as empty
				fillWith(p.q.Data, 1e30)
				fillWith(p.k.Data, -1e30)
				fillWith(p.v.Data, nan32())
			}
			for range r.IntN(4) { // a mask or bias may hide some of them
				p.v.Data[r.IntN(len(p.v.Data))] = nan32()
			}
			k, v := tokenMajor(p.k), tokenMajor(p.v)
			readingAs(t, queuedReads)
			want := p.solve(t, Attend)
			readingAs(t, pagedReads)
			for _, way := range ways {
				got := p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error { return way.attend(dst, q, k, v, opt) })
				p.same(t, way.name+" in parts", got, want)
			}
			if p.firstInParts(t, k, v) {
				inParts++
			}
		}
		if inParts < budget(400)/8 {
			t.Errorf("only %d calls went in parts", inParts)
		}
	})
}

// Scores of more rows than a tile has are kept, and those of too many are not. Of all heads, only
// the last one does not see all keys: the first one's value is NaN.
func TestPartsOfManyRows(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for s, want := range map[shape]bool{{1, 10, 8, 3, 2 * Block, 8, 8}: true, {1, 10, 8, 4, 2 * Block, 8, 8}: false, {1, 2, 8, 5, 2 * Block, 8, 8}: false} {
			p := newProblem(random("many rows"), normal, s)
			mask := BHLD(make([]bool, p.q.H*s.lq*s.lk), 1, p.q.H, s.lq, s.lk)
			fillWith(mask.Data, true)
			for i := range s.lq {
				mask.row(0, p.q.H-1, i)[0] = false
			}
			p.opt.Mask = &mask
			p.v.row(0, s.kvh-1, 0)[0] = nan32()
			k, v := tokenMajor(p.k), tokenMajor(p.v)
			readingAs(t, queuedReads)
			one := p.solve(t, Attend)
			readingAs(t, pagedReads)
			p.same(t, "in parts", p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error { return Attend(dst, q, k, v, opt) }), one)
			if got := p.firstInParts(t, k, v); got != want {
				t.Errorf("%d heads of %d rows in parts: %v, want %v", s.kvh, s.group*s.lq, got, want)
			}
		}
	})
}

// firstInParts reports whether the call's first block goes in parts.
func (p *problem) firstInParts(t *testing.T, k, v Tensor) bool {
	tokens := *p
	tokens.k, tokens.v = k, v
	plan, c := tokens.firstChunk(t)
	lo, hi := plan.chunkKeys(&c)
	return lo < hi && plan.inParts(&c, lo/Block*Block, lo, min(hi, lo/Block*Block+Block))
}

// Each key and value behind the first part is asked for once.
func TestPartsMeetAllTokens(t *testing.T) {
	readingAs(t, pagedReads)
	const heads, keys, d = 4, 5 * Block, 16
	for _, rows := range []int{1, inPlaceRows + 1} {
		view := func(h, l, d int) Tensor { return BLHD(make([]float32, h*l*d), 1, l, h, d) }
		q, k, v, dst := view(heads*rows, 1, d), view(heads, keys, d), view(heads, keys, d), view(heads*rows, 1, d)
		p := newPlan(dst, q, k, v, nil)
		must(t, p.init(nil))
		p.fitRows()
		var c chunk
		p.chunk(0, &c)
		if !p.inParts(&c, 0, 0, Block) {
			t.Fatalf("%d rows do not go in parts", rows)
		}
		asked := map[*Tensor][]int{&p.k: make([]int, len(k.Data)), &p.v: make([]int, len(v.Data))}
		for first := 0; first < keys; first += Block {
			for end := c.partKeys(); end <= Block; end += c.partKeys() {
				for g := range heads {
					h := *c.head(g, new(chunk))
					p.countAsked(asked, &h, p.behindKeys(&h, first, end))
					p.countAsked(asked, &h, p.behindValues(&h, first, end))
				}
			}
		}
		for x, counts := range asked {
			for at, n := range counts {
				want := 1
				if x == &p.k && at/x.SL < c.partKeys() {
					want = 0
				}
				if n != want {
					t.Fatalf("%d rows: element %d of token %d is asked for %d times, want %d", rows, at%x.SL, at/x.SL, n, want)
				}
			}
		}
	}
}

// countAsked counts what a head asks for along a stream while it reads a part.
func (p *plan) countAsked(asked map[*Tensor][]int, c *chunk, stream uintptr) {
	for x, counts := range asked {
		from := stream + prefetchWindow
		if lo, hi := address(x.Data, 0), address(x.Data, len(x.Data)); from >= lo && from < hi {
			for j := range c.partKeys() * x.D {
				counts[int(from-lo)/4+j]++
			}
		}
	}
}
