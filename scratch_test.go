package attn

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/packed"
	// The scratch of a worker fits the L2 cache, whatever the lengths.
	"github.com/seed-1415985d/attn/internal/tuning"
)

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
				for _, s := range [][]float32{w.q, w.total.m, w.total.l, w.total.o, w.part.m, w.part.l,
					w.part.o, w.alpha, w.beta, w.s, w.k, w.v} {
					got += 4 * cap(s)
				}
				if got > row.ScratchBytes() || got < row.ScratchBytes()*3/4 && l > 1<<10 {
					t.Errorf("cache %d, dimension %d, length %d: scratch of %d bytes", cache, d, l, got)
				}
			}
		}
	}
}

// The tree of segments takes memory for those that rows see, and not for all that a view that
// repeats its keys pretends to have.
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
		for _, x := range append(w.tree.rows, w.tree.spare...) {
			if x.o != nil {
				got++
			}
		}
		if got != want {
			t.Errorf("%d segments: %d nodes of the tree have memory, want %d", segments, got, want)
		}
	}
}

// States of the tree change places with each other, and with those of calls of other sizes.
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

// randomCall returns a call of one of four functions, of random size, which takes its scratch from
// newScratch.
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
				j := job{plan: newPlan(dst, q, k, v, opt)}
				must(t, j.plan.init(opt))
				j.schedule(8)
				if j.segments == 1 {
					return Attend(dst, q, k, v, opt)
				}
				divided = true
				for _, i := range r.Perm(j.units) {
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
	row.PrefetchTyped, row.PrefetchScaled, row.MinTypedRows16, row.FourPanels = 4096, 8192, 2, false
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
		{tuning.AVX2, F16, 3, 2, 4096 + 4096},
		{tuning.AVX2, F16, 4, 1, 4096 + 4096},
		{tuning.AVX2, I8, 1, 4, 8192 + 3*2048},
	} {
		row.ISA, row.DotProduct, row.AMX = c.isa, false, false
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
	var far kernel.PrefetchHint
	if far.SetTyped(&tuned, kernel.F16, 4, 1<<20, false); far.PrefetchFew != tuning.MostAhead {
		t.Errorf("panels of 1 MiB: %d bytes ahead, want %d", far.PrefetchFew, tuning.MostAhead)
	}
}
