package attn

import (
	"testing"
	"unsafe"
)

// Between them, the blocks of a call ask once for each row that is to come: keys, values
// and queries but for those that the call begins with, and outputs.
func TestAskedOnce(t *testing.T) { forEach(t, testAskedOnce) }

// next moves on by a row, as score does.
func (r *prefetchRun) next() {
	r.n--
	r.at += uintptr(r.step)
	if r.n%4 == 0 {
		r.at += uintptr(r.back)
	}
}

func testAskedOnce(t *testing.T) {
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
		{3, 30, 200, Options{Offset: 150, Causal: TopLeft, Window: &Window{100, -1}}, nil, false, true},
		{pairRuns, 5, 100, Options{}, nil, true, true},
		{1, 40, 200, Options{}, func(p *plan) { p.cache = new(Cache) }, false, true},
		{1, 40, 200, Options{}, func(p *plan) { p.dst = Tensor{} }, true, false},
	} {
		view := func(h, l, d int) Tensor { return BHLD(make([]float32, batch*h*l*d), batch, h, l, d) }
		q, k, v := view(kvHeads*c.group, c.lq, d), view(kvHeads, c.lk, d), view(kvHeads, c.lk, dv)
		dst := view(kvHeads*c.group, c.lq, dv)
		p := newPlan(dst, q, k, v, &c.opt)
		must(t, p.init(&c.opt))
		p.fitRows()
		if c.change != nil {
			c.change(&p)
		}
		asked := allAsked(&p)
		rows := func(x Tensor) (once int) {
			for at := 0; at < len(x.Data); at += x.D {
				if asked[uintptr(unsafe.Pointer(&x.Data[at]))] == 1 {
					once++
				}
				delete(asked, uintptr(unsafe.Pointer(&x.Data[at])))
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
		if p.chunk(0, &first); p.follows(&p.k, &first) {
			want = 0 // they come along a stream
		}
		if c.tokens && (keys != want || values != want) {
			t.Errorf("%+v: %d keys and %d values, want %d", c, keys, values, want)
		}
		if p.cache != nil && keys+values > 0 {
			t.Errorf("%+v: %d keys and %d values, want none", c, keys, values)
		}
		if len(asked) > 0 {
			t.Errorf("%+v: %d requests for nothing", c, len(asked))
		}
	}
}

// allAsked counts the requests for each row of memory in one call.
func allAsked(p *plan) map[uintptr]int {
	asked := map[uintptr]int{}
	var w scratch
	for i := range p.items() {
		var c chunk
		p.chunk(i, &c)
		w.next.rows = 0
		w.prefetchNext(p, i+1)
		lo, hi := p.chunkKeys(&c)
		for first := lo / Block * Block; first < hi; first += Block {
			w.prefetchTokens(p, &c, first)
			for i := pairRuns; w.queue.place(i) < w.queue.end; i++ {
				for r := w.queue.runs[i]; r.n > 0; r.next() {
					asked[r.at]++
				}
			}
		}
	}
	return asked
}

// However long rows are, no run is more than score may ask for between two rows of queries.
func TestAskedBytes(t *testing.T) {
	const keys = 2 * Block
	for _, dv := range []int{8, 512, 4096, 1 << 16} {
		view := func(l, d int) Tensor { // with gaps: else it may be a stream
			return Tensor{Data: make([]float32, l*(d+8)), B: 1, H: 1, L: l, D: d, SL: d + 8}
		}
		p := newPlan(view(48, dv), view(48, 8), view(keys, 8), view(keys, dv), nil)
		must(t, p.init(nil))
		p.fitRows()
		var c chunk
		p.chunk(0, &c)
		var w scratch
		w.prefetchTokens(&p, &c, 0)
		for i := pairRuns; w.queue.place(i) < w.queue.end; i++ {
			if r := w.queue.runs[i]; r.n*(r.lines-1)*cacheLine > tuned.prefetchBytes() {
				t.Errorf("Dv=%d: run %d is %d rows of %d lines, want at most %d bytes", dv, i, r.n, r.lines, tuned.prefetchBytes())
			}
		}
	}
}
