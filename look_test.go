package attn

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/sanitize"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// randomBlocks draws which blocks of keys blocks of queries see: runs and singles, at times none
// or all.
func randomBlocks(r *rand.Rand, b, h, lq, lk int) Mask {
	rows, cols := partsOf(lq, Block), partsOf(lk, Block)
	x := BHLD(make([]bool, b*h*rows*cols), b, h, rows, cols)
	every := r.IntN(5)
	for i := range x.Data {
		x.Data[i] = every == 0 || every < 4 && r.IntN(every+1) == 0
	}
	return x
}

// expanded is a mask with an element for each pair that says what blocks and another mask say.
func expanded(blocks, mask Mask, b, h, lq, lk int) Mask {
	x := BHLD(make([]bool, b*h*lq*lk), b, h, lq, lk)
	for at := range b * h * lq {
		n, g, i := at/lq/h, at/lq%h, at%lq
		for j := range lk {
			x.row(n, g, i)[j] = blocks.Row(n%blocks.B, g%blocks.H, i/Block)[j/Block] &&
				(mask.none() || mask.Row(n%mask.B, g%mask.H, i)[j])
		}
	}
	return x
}

// Blocks have the bits of the mask that says the same, with every other option, for every way to
// attend, format and implementation.
func TestBlocksAreTheirMask(t *testing.T) {
	shareSmallCalls(t)
	hosts := random("hosts of blocks")
	forEach(t, func(t *testing.T) {
		pool := NewPool(3)
		defer pool.Close()
		r := random(t.Name())
		for range budget(120) {
			s := shape{1 + r.IntN(2), 1 + r.IntN(2), 1 + r.IntN(3),
				1 + r.IntN(3*Block), 1 + r.IntN(5*Block), 1 + r.IntN(20), 1 + r.IntN(20)}
			p := problemOf(r, randomKind(r), s)
			if r.IntN(3) == 0 {
				p = finiteProblem(r, s) // what a cache of I8 takes
				p.opt.Integers = true
			}
			p.opt.BFloat16 = !p.opt.Integers && r.IntN(3) == 0
			anyTuning(t, hosts)
			b, h, lq, lk := p.q.B, p.q.H, p.q.L, p.k.L
			blocks := randomBlocks(r, oneOr(r, b), oneOr(r, h), lq, lk)
			masked, blocked := *p, *p
			masked.opt.Mask = expanded(blocks, p.opt.Mask, b, h, lq, lk)
			blocked.opt.Blocks = blocks
			want := masked.solve(t, Attend)
			p.same(t, "Attend", blocked.solve(t, Attend), want)
			p.same(t, "Pool", blocked.solve(t, pool.Attend), want)
			c, err := filledIn(formatFor(&p.opt), p.k, p.v)
			must(t, err)
			p.same(t, "Cache", blocked.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
				return c.Attend(dst, q, opt)
			}), want)
			must(t, c.Close())
		}
	})
}

// Heads of a group whose blocks differ each see their own, wherever a chunk begins and however few
// rows of the group it has: the last head sees the second block of keys, and all others the first.
func TestBlocksOfEachHead(t *testing.T) {
	shareSmallCalls(t)
	for _, c := range []struct {
		name       string
		shape      shape
		most, step int // of queries
		workers    int
		l2         int // bytes of the cache, which decides how many rows a chunk has
	}{
		{"a Pool of 2", shape{1, 1, 14, 42, 2 * Block, 128, 1}, 42, 1, 2, 2 << 20},
		{"one goroutine", shape{1, 1, 128, 16, 2 * Block, 576, 1}, 55, 13, 1, 1 << 20},
		{"a small cache", shape{2, 2, 100, 1, 2 * Block, 8, 8}, 9, 4, 1, 0},
		{"chunks of any rows", shape{2, 1, 37, 1, 2 * Block, 8, 8}, 130, 43, 9, 2 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			forEach(t, func(t *testing.T) {
				tuned.L2, workers = c.l2, c.workers
				defer func() { workers = 3 }()
				taken, most := ways, c.most
				switch slow := c.shape.d > 128; {
				case slow && tuned.ISA == tuning.Generic:
					taken, most = ways[:1], c.shape.lq
				case testing.Short() && (slow || tuned.ISA == tuning.Generic):
					taken, most = []way{ways[0], ways[2]}, c.shape.lq
				case slow && sanitize.Enabled:
					most = c.shape.lq
				}
				for s := c.shape; s.lq <= most; s.lq += c.step {
					p := blocksOfEachHead(s)
					want := p.resultOfBlocks()
					for _, way := range taken {
						p.same(t, way.name, p.solve(t, way.attend), want)
					}
				}
			})
		})
	}
}

// blocksOfEachHead is a problem of two blocks of keys that score 0, the first with values of 1 and
// the second with values of 2, of which a group's last head sees the second.
func blocksOfEachHead(s shape) *problem {
	p := newProblem(random("blocks of each head"), normal, s)
	clear(p.q.Data)
	p.opt.Blocks = BHLD(make([]bool, p.q.H*partsOf(s.lq, Block)*2), 1, p.q.H, partsOf(s.lq, Block), 2)
	for at := range p.q.H * partsOf(s.lq, Block) {
		h := at / partsOf(s.lq, Block)
		p.opt.Blocks.Data[2*at+p.blockOf(h)] = true
	}
	for at := range p.v.Data {
		p.v.Data[at] = float32(1 + at/s.dv%s.lk/Block)
	}
	return p
}

// blockOf is the block that a head sees.
func (p *problem) blockOf(h int) int {
	if group := p.q.H / p.k.H; h%group == group-1 {
		return 1
	}
	return 0
}

// resultOfBlocks is the result of blocksOfEachHead, whose numbers are exact but for the logarithm.
func (p *problem) resultOfBlocks() *result {
	dst, weights, lse := p.results()
	fillWith(lse, f32.Log(Block))
	clear(weights.Data)
	for at := range dst.B * dst.H * dst.L {
		b, h, i := at/dst.L/dst.H, at/dst.L%dst.H, at%dst.L
		fillWith(dst.row(b, h, i), float32(1+p.blockOf(h)))
		fillWith(weights.row(b, h, i)[p.blockOf(h)*Block:][:Block], 1./Block)
	}
	return &result{dst.Data, lse, weights.Data}
}

// Blocks in sequences count from each sequence's first query, and in a State from its chunk.
func TestBlocksOfSequencesAndStates(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		for range budget(40) {
			const kv, d = 2, 8
			n := 1 + r.IntN(3)
			store, err := NewStore(StoreConfig{KVHeads: kv, HeadDim: d, ValueDim: d, Pages: 8 * n})
			must(t, err)
			var seqs []*Sequence
			var lens []int
			var all Mask
			total, longest := 0, 0
			var ofSequence []Mask
			tokens := make([][2]Tensor, n)
			for i := range n {
				lk, lq := 1+r.IntN(4*Block), r.IntN(2*Block)
				tokens[i] = [2]Tensor{tensor(r, normal, 1, kv, lk, d), tensor(r, normal, 1, kv, lk, d)}
				s := store.NewSequence()
				must(t, s.Append(tokens[i][0], tokens[i][1]))
				seqs, lens = append(seqs, s), append(lens, lq)
				total, longest = total+lq, max(longest, lk)
			}
			rows := 0
			for _, lq := range lens {
				rows += partsOf(lq, Block)
			}
			all = BHLD(make([]bool, rows*partsOf(longest, Block)), 1, 1, rows, partsOf(longest, Block))
			for i := range all.Data {
				all.Data[i] = r.IntN(2) == 0
			}
			q := tensor(r, normal, 1, 2*kv, total, d)
			dst := BHLD(nans(2*kv*total*d), 1, 2*kv, total, d)
			opt := Options{Causal: BottomRight, QueryLens: lens, Blocks: all}
			if total == 0 {
				continue
			}
			must(t, AttendSequences(dst, q, seqs, &opt))
			at, row := 0, 0
			for i, lq := range lens {
				lk := seqs[i].Len()
				mine := BHLD(make([]bool, partsOf(lq, Block)*partsOf(lk, Block)), 1, 1, partsOf(lq, Block),
					partsOf(lk, Block))
				for b := range mine.L {
					copy(mine.row(0, 0, b), all.row(0, 0, row+b))
				}
				ofSequence = append(ofSequence, mine)
				want := BHLD(nans(2*kv*lq*d), 1, 2*kv, lq, d)
				if lq > 0 {
					must(t, Attend(want, q.Slice(at, at+lq), tokens[i][0], tokens[i][1],
						&Options{Causal: BottomRight, Blocks: mine}))
				}
				for g := range 2 * kv {
					for j := range lq {
						mustEqualBits(t, fmt.Sprintf("sequence %d", i), dst.row(0, g, at+j), want.row(0, g, j))
					}
				}
				at, row = at+lq, row+partsOf(lq, Block)
			}
			// a State takes keys block by block
			i := r.IntN(n)
			if lens[i] == 0 {
				continue
			}
			queries := tensor(r, normal, 1, 2*kv, lens[i], d)
			k, v := tokens[i][0], tokens[i][1]
			state, err := NewState(StateConfig{1, 2 * kv, lens[i], d})
			must(t, err)
			for lo := 0; lo < k.L; {
				hi := min(k.L, lo+Block*(1+r.IntN(2)))
				rows, cols := ofSequence[i].L, partsOf(hi-lo, Block)
				chunk := BHLD(make([]bool, rows*cols), 1, 1, rows, cols)
				for b := range chunk.L {
					copy(chunk.row(0, 0, b), ofSequence[i].row(0, 0, b)[lo/Block:])
				}
				must(t, state.Update(queries, k.Slice(lo, hi), v.Slice(lo, hi), &Options{Blocks: chunk}))
				lo = hi
			}
			got, want := BHLD(nans(2*kv*lens[i]*d), 1, 2*kv, lens[i], d), BHLD(nans(2*kv*lens[i]*d), 1, 2*kv,
				lens[i], d)
			must(t, state.Finish(got, nil))
			must(t, Attend(want, queries, k, v, &Options{Blocks: ofSequence[i]}))
			mustEqualBits(t, "State", got.Data, want.Data)
			must(t, store.Close())
		}
	})
}

// What blocks or a mask hide is not touched: its keys, values and the mask's own other rows may be
// anything, and NaN there changes no bit.
func TestHiddenBlocksAreNotRead(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		for range budget(40) {
			p := newProblem(r, normal, shape{1, 2, 2, 1 + r.IntN(2*Block), 4 * Block, 16, 16})
			blocks := randomBlocks(r, 1, 1, p.q.L, p.k.L)
			p.opt.Blocks = blocks
			want := p.solve(t, Attend)
			poisoned := *p
			poisoned.k = pick(p.k, []int{0}, upTo(2), 0, p.k.L)
			poisoned.v = pick(p.v, []int{0}, upTo(2), 0, p.v.L)
			for j := range blocks.D {
				seen := false
				for i := range blocks.L {
					seen = seen || blocks.row(0, 0, i)[j]
				}
				for h := 0; h < 2 && !seen; h++ {
					for n := range Block {
						fillWith(poisoned.k.row(0, h, j*Block+n), nan32())
						fillWith(poisoned.v.row(0, h, j*Block+n), nan32())
					}
				}
			}
			p.same(t, "blocks", poisoned.solve(t, Attend), want)
			poisoned.opt.Blocks, poisoned.opt.Mask = Mask{}, expanded(blocks, Mask{}, 1, 1, p.q.L, p.k.L)
			p.same(t, "the mask", poisoned.solve(t, Attend), want)
		}
	})
}

// A bias that begins to hide keys after many rows for which it hid none has the bits of a mask that
// hides them, whose NaN is not seen.
func TestBiasHidesLate(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random(t.Name())
		for range budget(40) {
			s := shape{1, 1 + r.IntN(2), 1 + r.IntN(3), 2*Block + r.IntN(2*Block), 4 * Block, 16, 16}
			p := newProblem(r, normal, s)
			p.opt = Options{Bias: tensor(r, normal, 1, oneOr(r, p.q.H), p.q.L, p.k.L)}
			if r.IntN(3) == 0 {
				p.opt.Causal = TopLeft
			}
			masked := *p
			masked.opt.Mask = BHLD(make([]bool, len(p.opt.Bias.Data)), 1, p.opt.Bias.H, p.q.L, p.k.L)
			hidden, from := r.IntN(p.k.L), r.IntN(p.q.L)
			for h := range p.opt.Bias.H {
				for i := range p.q.L {
					bias, mask := p.opt.Bias.row(0, h, i), masked.opt.Mask.row(0, h, i)
					fillWith(mask, true)
					for j := 0; i >= from && j < hidden; j++ {
						mask[j], bias[j] = false, negInf
					}
				}
			}
			for h := range s.kvh {
				fillWith(p.v.row(0, h, 0), nan32())
			}
			unhidden := masked.opt.Bias
			unhidden.Data = append([]float32(nil), unhidden.Data...)
			for i, e := range unhidden.Data {
				if e == negInf {
					unhidden.Data[i] = nan32()
				}
			}
			masked.opt.Bias = unhidden
			p.same(t, "Attend", p.solve(t, Attend), masked.solve(t, Attend))
		}
	})
}

func TestBlocksErrors(t *testing.T) {
	x := func(l int) Tensor { return zeros(1, 2, l, 8) }
	dst := BHLD(nans(2*70*8), 1, 2, 70, 8)
	blocks := func(rows, cols int) Mask { return BHLD(make([]bool, rows*cols), 1, 1, rows, cols) }
	mustFail(t, "rows", Attend(dst, x(70), x(130), x(130), &Options{Blocks: blocks(1, 3)}), ErrShape,
		"Blocks is [1 1 1 3], want [1, 2 or 1, 2, 3]")
	err := Attend(dst, x(70), x(130), x(130), &Options{Blocks: blocks(2, 2)})
	mustFail(t, "columns", err, ErrShape,
		"Blocks is [1 1 2 2], want [1, 2 or 1, 2, 3]")
	s, err := NewState(StateConfig{1, 2, 70, 8})
	must(t, err)
	must(t, s.Update(x(70), x(64), x(64), &Options{Blocks: blocks(2, 1)}))
	must(t, s.Update(x(70), x(3), x(3), nil))
	mustFail(t, "State", s.Update(x(70), x(3), x(3), &Options{Blocks: blocks(2, 1)}), ErrOption,
		"Blocks are set after 67 keys, want a multiple of 64 keys before")
	mustBeUntouched(t, dst)
}
