package attn

import (
	"testing"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// The blocks of a call together prefetch each row once: outputs, and keys, values
// and queries except those that the call begins with.
func TestPrefetchedOnce(t *testing.T) {
	for _, reads := range []tuning.Reads{tuning.QueuedReads, tuning.PagedReads} {
		for _, quarters := range []bool{false, true} {
			readingAs(t, reads)
			tuned.QuarterSteps = quarters
			forEach(t, testPrefetchedOnce)
		}
	}
}

// nextRow moves on by a row, as score does.
func nextRow(r *kernel.PrefetchRun) {
	r.N--
	r.At += uintptr(r.Step)
	if r.N%4 == 0 {
		r.At += uintptr(r.Back)
	}
}

func testPrefetchedOnce(t *testing.T) {
	const batch, kvHeads, d, dv = 2, 2, 24, 40
	for _, c := range []struct {
		group, lq, lk int
		opt           Options
		change        func(p *plan)
		tokens, outs  bool
	}{
		{1, 40, 40, Options{}, nil, true, true},
		{1, 64, 64, Options{}, nil, true, true},
		{1, 130, 130, Options{Causal: TopLeft}, nil, true, true},
		{4, 30, 700, Options{}, nil, true, true},
		{1, 170, 200, Options{}, nil, true, true},
		{4, 60, 700, Options{}, nil, true, true},
		{3, 30, 200, Options{Offset: 150, Causal: TopLeft, Window: Window{101, 0}}, nil, false, true},
		{kernel.PairRuns, 5, 100, Options{}, nil, true, true},
		{1, 40, 200, Options{}, func(p *plan) { p.packed = new(packed.Blocks) }, false, true},
		{1, 40, 200, Options{}, func(p *plan) { p.dst = Tensor{} }, true, false},
	} {
		view := func(h, l, d int) Tensor { return zeros(batch, h, l, d) }
		q, k, v := view(kvHeads*c.group, c.lq, d), view(kvHeads, c.lk, d), view(kvHeads, c.lk, dv)
		dst := view(kvHeads*c.group, c.lq, dv)
		p := newPlan(dst, q, k, v, &c.opt)
		must(t, p.init(&c.opt))
		p.decide(&tuned, 1)
		if c.change != nil {
			c.change(&p)
		}
		counts := countQueued(&p)
		rows := func(x Tensor) (once int) {
			for at := 0; at < len(x.Data); at += x.D {
				if counts[uintptr(unsafe.Pointer(&x.Data[at]))] == 1 {
					once++
				}
				delete(counts, uintptr(unsafe.Pointer(&x.Data[at])))
			}
			return once
		}
		outs, queries, keys, values := rows(dst), rows(q), rows(k), rows(v)
		if want := batch * kvHeads * c.group * c.lq; c.outs && outs != want || !c.outs && outs != 0 {
			t.Errorf("%+v: %d outputs, want %d or none", c, outs, want)
		}
		if want := (batch*kvHeads - 1) * c.group * c.lq; queries != want {
			t.Errorf("%+v: %d queries, want %d", c, queries, want)
		}
		want := batch*kvHeads*c.lk - min(Block, c.lk)
		var first chunk
		if p.chunk(0, &first); first.rows <= p.keys.pagedRows {
			want = 0 // kernels prefetch them page by page
		}
		if c.tokens && (keys != want || values != want) {
			t.Errorf("%+v: %d keys and %d values, want %d", c, keys, values, want)
		}
		if p.packed != nil && keys+values > 0 {
			t.Errorf("%+v: %d keys and %d values, want none", c, keys, values)
		}
		if len(counts) > 0 {
			t.Errorf("%+v: %d addresses of no row are prefetched", c, len(counts))
		}
	}
}

// countQueued counts how often the queue prefetches each address in one call.
func countQueued(p *plan) map[uintptr]int {
	counts := map[uintptr]int{}
	var w scratch
	for i := range p.chunks {
		var c chunk
		p.chunk(i, &c)
		w.next.rows = 0
		if i+1 < p.chunks {
			p.chunk(i+1, &w.next)
		}
		for first := c.lo / Block * Block; first < c.hi; first += Block {
			w.prefetchTokens(p, &c, first)
			for i := kernel.PairRuns; kernel.FirstRun+i*kernel.SizeOfRun < w.queue.End; i++ {
				for r := w.queue.Runs[i]; r.N > 0; nextRow(&r) {
					counts[r.At]++
				}
			}
		}
	}
	return counts
}

// However long rows are, no run is more than score may prefetch between two rows of queries.
func TestPrefetchedBytes(t *testing.T) {
	const keys = 2 * Block
	for _, dv := range []int{8, 512, 4096, 1 << 16} {
		view := func(l, d int) Tensor { // with gaps: otherwise kernels may prefetch page by page
			return Tensor{Data: make([]float32, l*(d+8)), B: 1, H: 1, L: l, D: d, SL: d + 8}
		}
		p := newPlan(view(48, dv), view(48, 8), view(keys, 8), view(keys, dv), nil)
		must(t, p.init(nil))
		p.decide(&tuned, 1)
		var c chunk
		p.chunk(0, &c)
		var w scratch
		w.prefetchTokens(&p, &c, 0)
		for i := kernel.PairRuns; kernel.FirstRun+i*kernel.SizeOfRun < w.queue.End; i++ {
			if r := w.queue.Runs[i]; r.N*(r.Lines-1)*kernel.CacheLine > tuned.PrefetchBytes() {
				t.Errorf("Dv=%d: run %d is %d rows of %d lines, want at most %d bytes", dv, i, r.N, r.Lines,
					tuned.PrefetchBytes())
			}
		}
	}
}

// A call with few rows prefetches each key and value after the first
// block once, page by page. The heads of a token share in that.
func TestPrefetchPagesMeetAllTokens(t *testing.T) {
	readingAs(t, tuning.PagedReads)
	const heads, keys, d, dv = 4, 5*Block + 9, 16, 24
	for _, rows := range []int{1, inPlaceRows + 1, 60} {
		view := func(h, l, d int) Tensor { return BLHD(make([]float32, h*l*d), 1, l, h, d) }
		q, k, v, dst := view(heads*rows, 1, d), view(heads, keys, d), view(heads, keys,
			dv), view(heads*rows, 1, dv)
		p := newPlan(dst, q, k, v, nil)
		must(t, p.init(nil))
		p.decide(&tuned, 1)
		if p.headsPerChunk != heads {
			t.Fatalf("%d heads go together, want %d", p.headsPerChunk, heads)
		}
		for _, x := range []*Tensor{&p.k, &p.v} {
			counts := p.countPaged(x)
			for at, n := range counts {
				want := 1
				if at/x.SL < Block {
					want = 0
				}
				if n != want {
					t.Fatalf("%d rows: element %d of token %d is prefetched %d times, want %d", rows, at%x.SL,
						at/x.SL, n, want)
				}
			}
		}
	}
}

// countPaged counts how often the call prefetches each element of x page by page.
func (p *plan) countPaged(x *Tensor) []int {
	counts := make([]int, len(x.Data))
	for i := range p.chunks {
		var c chunk
		p.chunk(i, &c)
		for first := 0; first < x.L; first += Block {
			for g := range c.heads {
				h := *new(scratch).head(&c, g, new(chunk))
				at := &p.keys
				if x == &p.v {
					at = &p.values
				}
				pointer := p.pointerOf(at, x, &h, &blockKeys{first: first, hi: Block})
				if pointer == 0 {
					continue
				}
				from := int(pointer+kernel.PrefetchWindow-operand.Address(x.Data, 0)) / 4
				for j := from; j < min(from+Block*x.D, len(counts)); j++ {
					counts[j]++
				}
			}
		}
	}
	return counts
}

// Each key and value after the first step is prefetched once, page by page or in order.
func TestPrefetchStepsMeetAllTokens(t *testing.T) {
	const heads, keys, d = 4, 5 * Block, 16
	for _, c := range []struct {
		reads tuning.Reads
		rows  int
	}{
		{tuning.PagedReads, 1}, {tuning.PagedReads, inPlaceRows + 1}, {tuning.SequentialReads, 1},
		{tuning.SequentialReads, inPlaceRows},
	} {
		readingAs(t, c.reads)
		tuned.L2 = 64 << 10 // room for steps, and not for all tokens
		view := func(h, l, d int) Tensor { return BLHD(make([]float32, h*l*d), 1, l, h, d) }
		rows := c.rows
		q, k, v, dst := view(heads*rows, 1, d), view(heads, keys, d), view(heads, keys,
			d), view(heads*rows, 1, d)
		p := newPlan(dst, q, k, v, nil)
		must(t, p.init(nil))
		p.decide(&tuned, 1)
		var c chunk
		p.chunk(0, &c)
		if p.step == Block {
			t.Fatalf("%v, %d rows do not go in steps", tuned.Reads, rows)
		}
		prefetched := map[*Tensor][]int{&p.k: make([]int, len(k.Data)), &p.v: make([]int, len(v.Data))}
		for first := 0; first < keys; first += Block {
			for end := p.step; end <= Block; end += p.step {
				for g := range heads {
					h := *new(scratch).head(&c, g, new(chunk))
					b := blockKeys{first: first, lo: end - p.step, hi: end}
					p.countStep(prefetched, p.pointerOf(&p.keys, &p.k, &h, &b))
					p.countStep(prefetched, p.pointerOf(&p.values, &p.v, &h, &b))
				}
			}
		}
		for x, counts := range prefetched {
			for at, n := range counts {
				want := 1
				if x == &p.k && at/x.SL < p.step {
					want = 0
				}
				if n != want {
					t.Fatalf("%v, %d rows: element %d of token %d is prefetched %d times, want %d", tuned.Reads,
						rows, at%x.SL, at/x.SL, n, want)
				}
			}
		}
	}
}

// countStep counts what a head prefetches from its pointer on while it reads a step.
func (p *plan) countStep(prefetched map[*Tensor][]int, pointer uintptr) {
	for x, counts := range prefetched {
		from := pointer + kernel.PrefetchWindow
		if lo, hi := operand.Address(x.Data, 0), operand.Address(x.Data, len(x.Data)); from >= lo &&
			from < hi {
			for j := range p.step * x.D {
				counts[int(from-lo)/4+j]++
			}
		}
	}
}
