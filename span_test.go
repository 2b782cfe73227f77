package attn

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/online"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/segment"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// The scratch of a worker fits the L2 cache for any lengths. Spans of several blocks give the same
// bits as one block after another, with every option. Few rows have such spans.
func TestSpanOfBlocks(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r, several, full := random("spans of blocks"), 0, 0
		for range budget(400) {
			s := shape{1 + r.IntN(2), 1 + r.IntN(2), 1 + r.IntN(2), 1 + r.IntN(3),
				2*Block + length(r, 6*Block), length(r, 40), length(r, 40)}
			if r.IntN(8) == 0 {
				s.lk += Segment
			}
			products := r.IntN(2) == 0 // scores are products and nothing more
			if products {
				s.dv = kernel.RoundUp(s.dv, 8)
			}
			p := problemOf(r, randomKind(r), s)
			if products {
				p.opt.Mask, p.opt.Bias, p.opt.Softcap, p.opt.Slopes = Mask{}, Tensor{}, 0, nil
			}
			if r.IntN(6) == 0 { // only scores of −Inf: all rows count as fully masked
				fillWith(p.q.Data, 1e30)
				fillWith(p.k.Data[:len(p.k.Data)/(1+r.IntN(2))], -1e30)
			}
			for range r.IntN(4) { // a mask or bias may hide some of them
				p.v.Data[r.IntN(len(p.v.Data))] = nan32()
			}
			readingAs(t, tuning.QueuedReads)
			want := p.solve(t, Attend)
			readingAs(t, tuning.SequentialReads)
			for _, way := range ways {
				p.same(t, way.name+" in spans of blocks", p.solve(t, way.attend), want)
			}
			if plan, s := p.firstSpan(t); s.blocks > 1 {
				several++
				if plan.plain {
					full++
				}
			}
		}
		if several < budget(400)/8 || full < budget(400)/20 {
			t.Errorf("only %d calls had spans of several blocks, %d of full ones", several, full)
		}
	})
}

// Heads that go through blocks in steps give the bits of one head after another, with every
// option.
func TestSpanOfSteps(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r, inSteps := random("spans of steps"), 0
		for range budget(400) {
			s := shape{1 + r.IntN(2), 2 + r.IntN(4), 1 + r.IntN(3), 1 + r.IntN(4),
				Block + length(r, 4*Block), length(r, 40), length(r, 40)}
			if r.IntN(12) == 0 {
				s.lk += Segment
			}
			p := problemOf(r, randomKind(r), s)
			if r.IntN(6) == 0 { // only scores of −Inf: all rows count as fully masked
				fillWith(p.q.Data, 1e30)
				fillWith(p.k.Data, -1e30)
				fillWith(p.v.Data, nan32())
			}
			for range r.IntN(4) { // a mask or bias may hide some of them
				p.v.Data[r.IntN(len(p.v.Data))] = nan32()
			}
			k, v := tokenMajor(p.k), tokenMajor(p.v)
			readingAs(t, tuning.QueuedReads)
			want := p.solve(t, Attend)
			readingAs(t, tuning.PagedReads)
			for _, way := range ways {
				got := p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
					return way.attend(dst, q, k, v, opt)
				})
				p.same(t, way.name+" in steps", got, want)
			}
			if p.hasStepsOver(t, k, v) {
				inSteps++
			}
		}
		if inSteps < budget(400)/8 {
			t.Errorf("only %d calls went in steps", inSteps)
		}
	})
}

// hasStepsOver reports whether the call's first span over other keys and values has steps.
func (p *problem) hasStepsOver(t *testing.T, k, v Tensor) bool {
	tokens := *p
	tokens.k, tokens.v = k, v
	_, s := tokens.firstSpan(t)
	return s.blocks > 0 && s.step < Block
}

// Scores of more rows than a tile are kept, and scores of too many rows are not. Of all heads, only
// the last one does not see all keys: the first one's value is NaN.
func TestSpanOfStepsOfManyRows(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for s, want := range map[shape]bool{{1, 10, 8, 3, 2 * Block, 8, 8}: true,
			{1, 10, 8, 4, 2 * Block, 8, 8}: false, {1, 2, 8, 5, 2 * Block, 8, 8}: false} {
			p := newProblem(random("many rows"), normal, s)
			bias := zeros(1, p.q.H, s.lq, s.lk)
			for i := range s.lq {
				bias.row(0, p.q.H-1, i)[0] = negInf
			}
			p.opt.Bias = bias
			p.v.row(0, s.kvh-1, 0)[0] = nan32()
			k, v := tokenMajor(p.k), tokenMajor(p.v)
			readingAs(t, tuning.QueuedReads)
			one := p.solve(t, Attend)
			readingAs(t, tuning.PagedReads)
			p.same(t, "in steps", p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
				return Attend(dst, q, k, v, opt)
			}), one)
			if got := p.hasStepsOver(t, k, v); got != want {
				t.Errorf("%d heads of %d rows in steps: %v, want %v", s.kvh, s.group*s.lq, got, want)
			}
		}
	})
}

// Where spans begin and end: whole blocks of one segment that all rows see, several only where
// reads are sequential.
func TestSpanBounds(t *testing.T) {
	one := shape{1, 1, 1, 1, 2000, 8, 8}
	for _, c := range []struct {
		name    string
		inOrder bool
		shape   shape
		opt     Options
		lo, hi  int
		want    span
		end     int
	}{
		{"a segment", true, one, Options{}, 0, Segment,
			span{0, 0, Block, 16, Block, true, false}, Segment},
		{"the last segment", true, one, Options{}, Segment, 2000,
			span{Segment, 0, Block, 15, Block, true, false}, Segment + 15*Block},
		{"its rest", true, one, Options{}, Segment + 15*Block, 2000,
			span{Segment + 15*Block, 0, 16, 1, Block, true, false}, 2000},
		{"two blocks", true, one, Options{}, 64, 64 + 130,
			span{64, 0, Block, 2, Block, true, false}, 192},
		{"not from a block's first key", true, one, Options{}, 70, Segment,
			span{64, 6, Block, 1, Block, false, false}, 128},
		{"a group of 4", true, shape{1, 1, 4, 1, 2000, 8, 8}, Options{}, 0, Segment,
			span{0, 0, Block, 16, Block, true, false}, Segment},
		{"too many rows", true, shape{1, 1, 5, 1, 2000, 8, 8}, Options{}, 0, Segment,
			span{0, 0, Block, 1, Block, true, false}, Block},
		{"causal", true, shape{1, 1, 1, 4, 258, 8, 8}, Options{Causal: BottomRight}, 0, 258,
			span{0, 0, Block, 3, Block, true, false}, 192},
		{"causal, one block more", true, shape{1, 1, 1, 3, 258, 8, 8}, Options{Causal: BottomRight}, 0,
			258, span{0, 0, Block, 4, Block, true, false}, 256},
		{"a window", true, shape{1, 1, 1, 4, 500, 8, 8},
			Options{Causal: TopLeft, Offset: 496, Window: Window{301, 1}}, 196, 500, span{192, 4, Block, 1,
				Block, false, false}, 256},
		{"in the window", true, shape{1, 1, 1, 4, 500, 8, 8},
			Options{Causal: TopLeft, Offset: 496, Window: Window{301, 1}}, 256, 500, span{256, 0, Block, 3,
				Block, true, false}, 448},
		{"key lengths", true, shape{1, 1, 1, 1, 500, 8, 8}, Options{KeyLens: []int{300}}, 0, 300,
			span{0, 0, Block, 4, Block, true, false}, 256},
		{"queued reads", false, one, Options{}, 0, Segment,
			span{0, 0, Block, 1, Block, true, false}, Block},
	} {
		readingAs(t, tuning.QueuedReads)
		if c.inOrder {
			readingAs(t, tuning.SequentialReads)
		}
		p := newProblem(random("bounds"), normal, c.shape)
		p.opt = c.opt
		plan, chunk := p.firstChunk(t)
		var s span
		if end := plan.nextSpan(&chunk, c.lo, c.hi, &s); s != c.want || end != c.end {
			t.Errorf("%s: %+v that ends at %d, want %+v and %d", c.name, s, end, c.want, c.end)
		}
		plan.packed, plan.natural = &packed.Blocks{}, true
		plan.decide(&tuned, 1)
		plan.chunk(0, &chunk)
		if plan.nextSpan(&chunk, c.lo, c.hi, &s); s.blocks != 1 {
			t.Errorf("%s: %d blocks of a store, want one where scores are not plain: its keys and values "+
				"take turns", c.name, s.blocks)
		}
	}
}

// A row whose scores are all −Inf so far is empty, whatever the values.
func TestSpanOfFullyMaskedRows(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, reads := range []tuning.Reads{tuning.QueuedReads, tuning.PagedReads,
			tuning.SequentialReads} {
			readingAs(t, reads)
			p := newProblem(random("masked"), normal, shape{1, 1, 1, 1, 3*Block + 5, 8, 8})
			fillWith(p.q.Data, 1e30)
			fillWith(p.k.Data, 0)
			fillWith(p.k.Data[:2*Block*8], -1e30)
			p.v.Data[(Block+7)*8] = nan32()
			for _, way := range ways {
				for x, o := range p.solve(t, way.attend).o {
					if o != o {
						t.Errorf("%v reads, %s: element %d is NaN", reads, way.name, x)
					}
				}
			}
		}
	})
}

// Rows that see less than the ones before are not in full tiles: in a call with many rows, those at
// the end of a window get what they get alone.
func TestFullBlockRowsOfWindowsAlone(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("windows of many rows")
		for range budget(60) {
			n := 2*Block + r.IntN(3*Block)
			p := newProblem(r, normal, shape{1, 1, 1, n, n, 1 + r.IntN(8), 1 + r.IntN(8)})
			p.opt.Causal = []Causal{Full, TopLeft}[r.IntN(2)]
			p.opt.Window = Window{Block + r.IntN(n) + 1, r.IntN(n)}
			whole := p.solve(t, Attend)
			for range 20 {
				s := selection{[]int{0}, []int{0}, r.IntN(n), 1}
				part := p.part(s)
				part.same(t, fmt.Sprintf("row %d of %s", s.first, p.describe()), part.solve(t, Attend),
					s.of(p, whole))
			}
		}
	})
}

// Which kernels full tiles go to is no question of bits: rows without a score above −Inf, values
// that are NaN, ragged tiles, columns that are no whole panel.
func TestFullBlockKernelsDoNotMatter(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("full blocks")
		for range budget(60) {
			anyTuning(t, r)
			s := shape{1, 1, 1 + r.IntN(2), floats.MaximaRows*(1+r.IntN(20)) + r.IntN(2),
				Block*(1+r.IntN(3)) + r.IntN(20), floats.MaximaDim - 4 + r.IntN(20), 8 * (1 + r.IntN(10))}
			p := newProblem(r, randomKind(r), s)
			if r.IntN(2) == 0 {
				p.opt.Causal = BottomRight
			}
			if r.IntN(3) == 0 { // a row whose first scores are −Inf
				fillWith(p.q.Data[:s.d], 1e30)
				fillWith(p.k.Data[:Block*s.d], -1e30)
			}
			if r.IntN(3) == 0 {
				p.v.Data[r.IntN(len(p.v.Data))] = nan32()
			}
			row := tuned
			switchTo(tuning.Generic)
			want := p.solve(t, Attend)
			tuned = row
			p.same(t, p.describe(), p.solve(t, Attend), want)
		}
	})
}

// Rows that end before a part are left out together, and no others with them.
func TestUnseenRows(t *testing.T) {
	r := random("unseen")
	for range budget(300) {
		s := shape{1, 1, 1 + r.IntN(3), 1 + r.IntN(200), 1 + r.IntN(300), 8, 8}
		x := newProblem(r, normal, s)
		opt := Options{Causal: []Causal{Full, TopLeft, BottomRight}[r.IntN(3)]}
		if opt.Causal == TopLeft {
			opt.Offset = r.IntN(200) - 100
		}
		if r.IntN(2) == 0 {
			opt.Window = Window{r.IntN(s.lk), r.IntN(s.lk)}
		}
		x.opt = opt
		p, c := x.firstChunk(t)
		for first := c.lo / Block * Block; first < c.hi && c.lo < c.hi; first += Block {
			b := blockKeys{first: first, lo: max(0, c.lo-first), hi: min(Block, c.hi-first)}
			want := 0
			for ; want < c.rows; want++ {
				if _, hi := p.keyRange(&c, want/p.group); hi > first+b.lo {
					break
				}
			}
			var got tile
			if b.tile(&p, &c, 0, &got); want > 0 && (got.rows != want || got.lo < got.hi) || want == 0 &&
				p.causal == Full && p.left < 0 && got.lo >= got.hi {
				t.Fatalf("%+v, %+v: %+v does not see keys from %d on, want %d rows", s, opt, got, first+b.lo,
					want)
			}
		}
	}
}

func TestScratchFitsTheCache(t *testing.T) {
	for _, cache := range []int{512 << 10, 1 << 20, 2 << 20} {
		row := tuned.WithCaches(0, cache)
		useTuning(t, row)
		for _, d := range []int{32, 64, 80, 128, 256} {
			for _, l := range []int{1 << 10, 1 << 16} {
				dst, x := zeros(1, 1, l, d), zeros(1, 1, l, d)
				p := newPlan(dst, x, x, x, nil)
				must(t, p.init(nil))
				p.decide(&tuned, 1)
				var w scratch
				w.fit(&p)
				got := 0
				for _, s := range [][]float32{w.q, w.total.M, w.total.L, w.total.O, w.partial.M, w.partial.L,
					w.partial.O, w.alpha, w.beta, w.s, w.k, w.v} {
					got += 4 * cap(s)
				}
				if got > row.ScratchBytes() || got < row.ScratchBytes()*3/4 && l > 1<<10 {
					t.Errorf("cache %d, dimension %d, length %d: scratch of %d bytes", cache, d, l, got)
				}
			}
		}
	}
}

// The tree of segments has memory for the segments that rows see, not for all keys that a view with
// repeated keys appears to have.
func TestScratchOfTheTreeIsForSegmentsSeen(t *testing.T) {
	q, dst := zeros(1, 1, 5, 8), zeros(1, 1, 5, 8)
	x := repeated(make([]float32, 8), 1, 1, maxLength, 8)
	for segments, want := range map[int]int{1: 0, 2: 2, 3: 2, 4: 3, 5: 3} {
		opt := &Options{KeyLens: []int{segments * Segment}}
		p := newPlan(dst, q, x, x, opt)
		must(t, p.init(opt))
		p.decide(&tuned, 1)
		var w scratch
		w.fit(&p)
		w.attendChunk(&p, 0, 1)
		got := 0
		for _, x := range append(w.tree.Rows, w.tree.Spare...) {
			if x.O != nil {
				got++
			}
		}
		if got != want {
			t.Errorf("%d segments: %d nodes of the tree have memory, want %d", segments, got, want)
		}
	}
}

// States of the tree change places with each other, and with states of calls of other sizes.
func TestScratchOfTheTreeServesAllCalls(t *testing.T) {
	defer func(f func() any) { scratches = sync.Pool{New: f} }(scratches.New)
	r := random("scratch of the tree")
	var one *scratch
	for i := range 60 {
		if i%4 == 0 { // or soon all of it is large enough for any call
			one = new(scratch)
		}
		// Often of the same size but for rows, and not all levels that there may be are used.
		p := newProblem(r, normal, shape{1, 1, 1, 1 + r.IntN(40), (1 + 3*r.IntN(2)) * Segment, 8,
			1 + 31*r.IntN(2)})
		p.opt.KeyLens = []int{1 + r.IntN(p.k.L)}
		scratches = sync.Pool{New: func() any { return new(scratch) }}
		want := p.solve(t, Attend)
		scratches = sync.Pool{New: func() any { return one }}
		p.same(t, fmt.Sprint("call ", i), p.solve(t, Attend), want)
	}
}

// Scratch memory outlives the call. Neither what earlier calls left in it matters, nor the sizes
// for which it was made.
func TestScratchOfOtherCallsDoesNotMatter(t *testing.T) {
	defer func(f func() any) { scratches = sync.Pool{New: f} }(scratches.New)
	forEach(t, func(t *testing.T) {
		r := random("scratch")
		var calls []func(w func() any) []float32
		count := 12
		if few() {
			count = 6
		}
		for i := range count {
			calls = append(calls, randomCall(t, r, i%4, i%3 == 0))
		}
		want := make([][]float32, len(calls))
		for i, call := range calls {
			want[i] = call(func() any { return new(scratch) })
		}
		for first := range calls {
			for second := range calls {
				one := new(scratch) // for all calls, which a sync.Pool does not promise
				for _, i := range []int{first, second, first} {
					if at := firstDifference(calls[i](func() any { return one }), want[i]); at >= 0 {
						t.Fatalf("call %d, of calls %d, %d and %[2]d with one scratch: element %[4]d differs", i,
							first, second, at)
					}
				}
			}
		}
	})
}

// randomCall returns a call of one of four functions, of random size, with scratch from newScratch.
func randomCall(t *testing.T, r *rand.Rand, function int,
	large bool) func(newScratch func() any) []float32 {
	s := shape{1, 1 + r.IntN(2), 1 + r.IntN(3), 1 + r.IntN(40), 1 + r.IntN(150), 1 + r.IntN(100),
		1 + r.IntN(100)}
	if large {
		s.lk, s.d, s.dv = Block+r.IntN(Block), 500+r.IntN(700), 1+r.IntN(700)
	}
	p := problemOf(r, normal, s)
	a := tensor(r, normal, 1, 1, 1+r.IntN(9), 1+r.IntN(300))
	b := tensor(r, normal, 1, 1, a.D, 1+r.IntN(200))
	return func(newScratch func() any) []float32 {
		scratches = sync.Pool{New: newScratch}
		switch function {
		case 0:
			dst := tensor(r, zeroes, 1, 1, a.L, b.D)
			must(t, MatMul(dst, a, b))
			return dst.Data
		case 1:
			return p.solve(t, attendCached).o
		case 2:
			return p.solve(t, attendState).o
		}
		return p.solve(t, Attend).o
	}
}

// A worker may finish a chunk of which others have computed all segments: then its scratch has seen
// no key.
func TestScratchWithoutKeys(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r, divided := random("new scratch"), false
		for range 30 {
			s := shape{2, 1, 1 + r.IntN(2), 5 + r.IntN(20), Segment + 1 + r.IntN(2*Segment), 8 + r.IntN(20),
				8 + r.IntN(20)}
			p := problemOf(r, normal, s)
			if r.IntN(2) == 0 {
				p.opt.KeyLens, p.opt.QueryLens = []int{1 + r.IntN(2*Block), s.lk}, nil
			}
			want := p.solve(t, Attend)
			p.same(t, "new scratches", p.solve(t, func(dst, q, k, v Tensor, opt *Options) error {
				j := attention{plan: newPlan(dst, q, k, v, opt)}
				must(t, j.plan.init(opt))
				j.schedule(8)
				if j.segments == 1 {
					return Attend(dst, q, k, v, opt)
				}
				divided = true
				for _, i := range r.Perm(j.tasks) {
					w := new(scratch)
					w.fit(&j.plan)
					j.segment(w, i/j.segments, i%j.segments)
				}
				return nil
			}), want)
		}
		if !divided {
			t.Error("no call is divided into segments")
		}
	})
}

// What rows over fewer bits read is prefetched so far ahead that the last of the panels side by
// side has been requested before it is read, and values as far ahead as keys.
func TestTypedAhead(t *testing.T) {
	row := tuned
	row.PrefetchTyped, row.PrefetchScaled, row.FourPanels = 4096, 8192, false
	row.MinTypedRows16, row.MinHalfRows16 = 2, 2
	for _, c := range []struct {
		isa              tuning.ISA
		format           Format
		rows, side, want int
	}{
		{tuning.AVX512, F16, 1, 2, 4096 + 4096},
		{tuning.AVX512, F16, 2, 4, 4096 + 3*4096},
		{tuning.AVX512, BF16, 5, 2, 4096 + 4096},
		{tuning.AVX512, I8, 1, 4, 8192 + 3*2048},
		{tuning.AVX512, I4, 1, 4, 8192 + 3*1024},
		{tuning.AVX512, F16, 8, 2, 4096 + 4096},
		{tuning.AVX2, F16, 3, 2, 4096 + 4096},
		{tuning.AVX2, F16, 4, 1, 4096 + 4096},
		{tuning.AVX2, I8, 1, 4, 8192 + 3*2048},
	} {
		row.ISA, row.DotProduct, row.AMX, row.AMXBFloat16 = c.isa, false, false, false
		useTuning(t, row)
		if _, got := kernel.TypedKernel(&tuned, kernel.Format(c.format), c.rows); got != c.side {
			t.Errorf("%+v: %d panels side by side", c, got)
		}
		s := packed.New(kernel.Format(c.format), kernel.Format(c.format), 1, 128, 128, false)
		var keys kernel.PrefetchHint
		keys.SetTyped(&tuned, kernel.Format(c.format), c.rows, s.D*panel*s.K.Bits/8,
			kernel.Format(c.format).Traits().Scaled)
		if keys.PrefetchOne != c.want {
			t.Errorf("%+v: %d bytes ahead", c, keys.PrefetchOne)
		}
		var w scratch
		w.layoutTyped(&plan{}, &s, c.rows)
		if got := w.layout.PrefetchOne; got != c.want {
			t.Errorf("%+v: values %d bytes ahead", c, got)
		}
	}
	row.ISA, row.MinHalfRows16 = tuning.AVX512, 5 // of halves, and of nothing else
	for _, f := range []kernel.Format{kernel.F16, kernel.BF16, kernel.I8} {
		want := f == kernel.I8
		if wide, _ := kernel.TypedKernel(&row, f, 4); wide != want {
			t.Errorf("four rows of %v have 16 lanes: %t", f, wide)
		}
		if wide, _ := kernel.TypedKernel(&row, f, 5); !wide {
			t.Errorf("five rows of %v have 8 lanes", f)
		}
	}
	var far kernel.PrefetchHint
	if far.SetTyped(&tuned, kernel.F16, 4, 1<<20, false); far.PrefetchFew != tuning.MostAhead {
		t.Errorf("panels of 1 MiB: %d bytes ahead, want %d", far.PrefetchFew, tuning.MostAhead)
	}
}

// nodeOf is the state of segments [first, first+n) by the recursive definition: the left half,
// merged with the right one.
func nodeOf(segments []online.State, first, n int, c float32) online.State {
	if first >= len(segments) {
		return emptyState(len(segments[0].M), len(segments[0].O)/len(segments[0].M))
	}
	if n == 1 {
		x := segments[first]
		return online.State{M: slices.Clone(x.M), L: slices.Clone(x.L), O: slices.Clone(x.O)}
	}
	left, right := nodeOf(segments, first, n/2, c), nodeOf(segments, first+n/2, n/2, c)
	rows := len(left.M)
	x, y := make([]float32, rows), make([]float32, rows)
	floats.MergeSums(tuning.Generic, left.M, left.L, right.M, right.L, x, y, c)
	d := len(left.O) / rows
	for r := range rows {
		floats.Merge(tuning.Generic, left.O[r*d:], right.O[r*d:][:d], x[r], y[r])
	}
	return left
}

func emptyState(rows, d int) online.State {
	x := online.State{M: make([]float32, rows), L: make([]float32, rows), O: make([]float32, rows*d)}
	fillWith(x.M, negInf)
	return x
}

// Segments merge as the tree of their indices, in which those that are not there are empty: from
// calls, states and pools.
func TestTreeIsTheRecursiveDefinition(t *testing.T) {
	shareSmallCalls(t)
	forEach(t, func(t *testing.T) {
		const rows, d, most = 3, 8, 13
		r := random("tree")
		q, k, v := tensor(r, normal, 1, 1, rows, d), tensor(r, normal, 1, 1, most*Segment, d), tensor(r,
			normal, 1, 1, most*Segment, d)
		var segments []online.State
		var unit float32
		for i := range most {
			s, err := NewState(StateConfig{1, 1, rows, d})
			must(t, err)
			must(t, s.Update(q, rowsOf(k, i*Segment, Segment), rowsOf(v, i*Segment, Segment), nil))
			segments, unit = append(segments, s.tree.Rows[0].State), s.units.All
		}
		pool := NewPool(3)
		defer pool.Close()
		for n := 1; n <= most; n++ {
			root := nodeOf(segments[:n], 0, 16, float32(float64(unit)*f32.Log2E))
			want, wantLSE := make([]float32, rows*d), make([]float32, rows)
			floats.Normalize(tuning.Generic, want, root.O, root.L, rows, d, d, d)
			for i := range wantLSE {
				wantLSE[i] = f32.FMA(root.M[i], unit, f32.Log(root.L[i]))
			}
			for name, attend := range map[string]attender{"Attend": Attend, "Pool": pool.Attend,
				"State": attendState} {
				dst, lse := nans(rows*d), nans(rows)
				must(t, attend(BHLD(dst, 1, 1, rows, d), q, rowsOf(k, 0, n*Segment), rowsOf(v, 0, n*Segment),
					&Options{LSE: lse}))
				mustEqualBits(t, fmt.Sprintf("%s of %d segments: output", name, n), dst, want)
				mustEqualBits(t, fmt.Sprintf("%s of %d segments: LSE", name, n), lse, wantLSE)
			}
		}
	})
}

// A row's bits do not depend on keys that it does not see, also where they are whole segments
// before, between and after those that it sees: rows of a causal call, of windows and of masks give
// what they give with those keys alone.
func TestTreeOfRowsAlone(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("tree of rows")
		for range max(2, budget(24)) {
			n := Segment*(3+r.IntN(9)) + r.IntN(Segment)
			p := newProblem(r, normal, shape{1, 1, 1, 1 + r.IntN(3), n, 4, 4})
			last := 1 + r.IntN(n) // the first row sees as many keys
			p.opt.Causal, p.opt.Offset = TopLeft, last-1
			if r.IntN(2) == 0 {
				p.opt.Window = Window{Left: r.IntN(n) + 1, Right: 1}
			}
			whole := p.solve(t, Attend)
			alone := *p
			alone.k, alone.v = rowsOf(p.k, 0, min(n, last+p.q.L-1)), rowsOf(p.v, 0, min(n, last+p.q.L-1))
			sameOutputs := func(what string, got *result) {
				mustEqualBits(t, fmt.Sprintf("%d of %d keys %s: output", last, n, what), got.o, whole.o)
				mustEqualBits(t, fmt.Sprintf("%d of %d keys %s: LSE", last, n, what), got.lse, whole.lse)
			}
			sameOutputs("alone", alone.solve(t, Attend))
			masked := *p
			mask := BHLD(make([]bool, p.q.L*n), 1, 1, p.q.L, n)
			for i := range p.q.L {
				for j := range n {
					mask.row(0, 0, i)[j] = j <= last-1+i && (p.opt.Window.Left == 0 ||
						j > last-1+i-p.opt.Window.Left)
				}
			}
			masked.opt = Options{Mask: mask}
			sameOutputs("by a mask", masked.solve(t, Attend))
		}
	})
}

// A State holds one state for each bit of the number of its segments, and as many more for parts
// that were cut otherwise as there is room for.
func TestTreeKeepsStatesSmall(t *testing.T) {
	update := func(s *State, keys int) {
		x := repeated(make([]float32, 1), 1, 1, keys, 1)
		must(t, s.Update(BHLD([]float32{1}, 1, 1, 1, 1), x, x, nil))
	}
	for segments, want := range map[int]int{1: 1, 2: 1, 3: 2, 16: 1, 21: 3, 31: 5, 64: 1} {
		s, err := NewState(StateConfig{1, 1, 1, 1})
		must(t, err)
		update(s, segments*Segment)
		if len(s.tree.Rows) != want {
			t.Errorf("%d segments: %d nodes, want %d", segments, len(s.tree.Rows), want)
		}
		update(s, 5)
		if len(s.tree.Rows) != want+1 {
			t.Errorf("%d segments and 5 keys: %d nodes, want %d", segments, len(s.tree.Rows), want+1)
		}
		if got, most := len(s.tree.Rows)+len(s.tree.Spare), bits.Len(uint(segments+1)); got > most {
			t.Errorf("%d segments and 5 keys: memory for %d nodes, want at most %d", segments, got, most)
		}
	}
	s, err := NewState(StateConfig{1, 1, 1, 1})
	must(t, err)
	for i := range 1000 {
		part, err := NewState(StateConfig{1, 1, 1, 1})
		must(t, err)
		update(part, 1+i*37%2000)
		must(t, s.Merge(part))
		if len(s.tree.Rows) > segment.Most {
			t.Fatalf("%d nodes after %d parts, want at most %d", len(s.tree.Rows), i+1, segment.Most)
		}
	}
	dst := make([]float32, 1)
	must(t, s.Finish(BHLD(dst, 1, 1, 1, 1), nil))
	if dst[0] != 0 {
		t.Errorf("the mean of zeros is %v", dst[0])
	}
}

// Updates in different units are right up to rounding, and bring the state to natural units once.
func TestStateChangesItsUnit(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("units")
		p := newProblem(r, normal, shape{1, 2, 1, 3, 3 * Segment, 8, 8})
		want := p.solve(t, Attend)
		bias := BHLD(make([]float32, 3*Segment), 1, 1, 3, Segment)
		for _, second := range []Options{{Bias: bias}, {Slopes: make([]float32, 2)}} {
			s, err := NewState(StateConfig{1, 2, 3, 8})
			must(t, err)
			for i, opt := range []Options{{}, second, {}} {
				must(t, s.Update(p.q, rowsOf(p.k, i*Segment, Segment), rowsOf(p.v, i*Segment, Segment), &opt))
			}
			if s.units.All != 1 {
				t.Errorf("the unit is %v, want 1", s.units.All)
			}
			dst := nans(len(want.o))
			must(t, s.Finish(BHLD(dst, 1, 2, 3, 8), nil))
			closeTo(t, "output", dst, want.o)
			// Merging does the same.
			a, b := p.stateOf(t, 0, Segment, nil), p.stateOf(t, Segment, 3*Segment,
				&Options{Slopes: make([]float32, 2)})
			must(t, a.Merge(b))
			must(t, a.Finish(BHLD(dst, 1, 2, 3, 8), nil))
			closeTo(t, "merged output", dst, want.o)
		}
	})
}

func (p *problem) stateOf(t *testing.T, lo, hi int, opt *Options) *State {
	s, err := NewState(StateConfig{p.q.B, p.q.H, p.q.L, p.v.D})
	must(t, err)
	must(t, s.Update(p.q, rowsOf(p.k, lo, hi-lo), rowsOf(p.v, lo, hi-lo), opt))
	return s
}

// Parts of 3 segments and of 1 in turn are nodes that never merge. There are as many as a binary
// form may have, and an Update after them makes no more.
func TestTreeOfOddPartsIsBounded(t *testing.T) {
	s, err := NewState(StateConfig{1, 1, 1, 1})
	must(t, err)
	update := func(s *State, keys int) {
		x := repeated([]float32{1}, 1, 1, keys, 1)
		must(t, s.Update(BHLD([]float32{1}, 1, 1, 1, 1), x, x, nil))
	}
	for i := 0; len(s.tree.Rows) < segment.Most; i++ {
		part, err := NewState(StateConfig{1, 1, 1, 1})
		must(t, err)
		update(part, [...]int{Segment - 24, 2*Segment + 24, Segment}[i%3])
		must(t, s.Merge(part))
	}
	for _, keys := range []int{1, Segment, 3 * Segment} {
		update(s, keys)
		data, err := s.MarshalBinary()
		must(t, err)
		var again State
		must(t, again.UnmarshalBinary(data))
		if again.Keys() != s.Keys() {
			t.Errorf("the state that travelled has %d keys, want %d", again.Keys(), s.Keys())
		}
	}
	dst := []float32{0}
	must(t, s.Finish(BHLD(dst, 1, 1, 1, 1), nil))
	if dst[0] != 1 {
		t.Errorf("the mean of ones is %v", dst[0])
	}
}
