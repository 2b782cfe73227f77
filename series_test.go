package attn

import "testing"

// Blocks in series give the bits of one block after the other, with every option, and few rows
// go in series.
func TestSeriesDoNotMatter(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r, inSeries, onlyKernels := random("series"), 0, 0
		for range budget(400) {
			s := shape{1 + r.IntN(2), 1 + r.IntN(2), 1 + r.IntN(2), 1 + r.IntN(3), 2*Block + length(r, 6*Block), length(r, 40), length(r, 40)}
			if r.IntN(8) == 0 {
				s.lk += Segment
			}
			plain := r.IntN(2) == 0
			if plain {
				s.dv = roundUp(s.dv, 8)
			}
			p := problemOf(r, randomKind(r), s)
			if plain {
				p.opt.Mask, p.opt.Bias, p.opt.Softcap, p.opt.Slopes = nil, nil, 0, nil
			}
			if r.IntN(6) == 0 { // only scores of −Inf: all rows count as empty
				fillWith(p.q.Data, 1e30)
				fillWith(p.k.Data[:len(p.k.Data)/(1+r.IntN(2))], -1e30)
			}
			for range r.IntN(4) { // a mask or bias may hide some of them
				p.v.Data[r.IntN(len(p.v.Data))] = nan32()
			}
			readingAs(t, queuedReads)
			want := p.solve(t, Attend)
			readingAs(t, sequentialReads)
			for _, way := range ways {
				p.same(t, way.name+" in series", p.solve(t, way.attend), want)
			}
			if p.firstSeries(t) > 1 {
				inSeries++
				if plan, _ := p.firstChunk(t); plan.fullInPlace() {
					onlyKernels++
				}
			}
		}
		if inSeries < budget(400)/8 || onlyKernels < budget(400)/20 {
			t.Errorf("only %d calls went in series, %d of kernels", inSeries, onlyKernels)
		}
	})
}

// firstSeries is the number of blocks that the call's first chunk takes first as a series.
func (p *problem) firstSeries(t *testing.T) int {
	plan, c := p.firstChunk(t)
	if c.rows == 0 { // padding
		return 0
	}
	lo, hi := plan.chunkKeys(&c)
	return plan.blocksInSeries(&c, lo, hi)
}

// firstChunk is what a call begins with.
func (p *problem) firstChunk(t *testing.T) (plan, chunk) {
	dst := BHLD(make([]float32, p.q.B*p.q.H*p.q.L*p.v.D), p.q.B, p.q.H, p.q.L, p.v.D)
	plan := newPlan(dst, p.q, p.k, p.v, &p.opt)
	must(t, plan.init(&p.opt))
	plan.fitRows()
	var c chunk
	plan.chunk(0, &c)
	return plan, c
}

// A series has whole blocks of one segment that all rows see.
func TestBlocksInSeries(t *testing.T) {
	for _, c := range []struct {
		sequential     bool
		shape          shape
		causal         Causal
		lo, hi, blocks int
	}{
		{true, shape{1, 1, 1, 1, 2000, 8, 8}, Full, 0, Segment, Segment / Block},
		{true, shape{1, 1, 1, 1, 2000, 8, 8}, Full, Segment, 2000, 15},
		{true, shape{1, 1, 1, 1, 2000, 8, 8}, Full, 64, 64 + 130, 2},
		{true, shape{1, 1, 1, 1, 2000, 8, 8}, Full, 70, Segment, 0},
		{true, shape{1, 1, 4, 1, 2000, 8, 8}, Full, 0, Segment, 16},
		{true, shape{1, 1, 5, 1, 2000, 8, 8}, Full, 0, Segment, 0},
		{true, shape{1, 1, 1, 4, 258, 8, 8}, BottomRight, 0, 258, 3},
		{true, shape{1, 1, 1, 3, 258, 8, 8}, BottomRight, 0, 258, 4},
		{false, shape{1, 1, 1, 1, 2000, 8, 8}, Full, 0, Segment, 0},
		{true, shape{1, 1, 1, 1, 1999, 8, 8}, Full, 0, Segment, 0}, // all of it may be in the cache
	} {
		setSequential(t, c.sequential, 0)
		if c.shape.lk == 1999 {
			tuned.l2 = 4 * 1999 * 16
		}
		p := newProblem(random("blocks in series"), normal, c.shape)
		p.opt.Causal = c.causal
		plan, chunk := p.firstChunk(t)
		if got := plan.blocksInSeries(&chunk, c.lo, c.hi); got != c.blocks {
			t.Errorf("%+v: %d blocks, want %d", c, got, c.blocks)
		}
		plan.cache = &Cache{}
		if got := plan.blocksInSeries(&chunk, c.lo, c.hi); got != 0 {
			t.Errorf("%+v: %d blocks of a cache", c, got)
		}
	}
}

// Few queries read panels in order where these come from memory: those of a cache, if all of it is not near.
func TestPanelsInOrder(t *testing.T) {
	const tokens, group, d = 2 * Block, 2, 8
	for _, c := range []struct {
		sequential bool
		lq, bytes  int
		want       bool
	}{
		{true, 1, 0, true},
		{true, inPlaceRows / group, 0, true},
		{true, inPlaceRows/group + 1, 0, false},
		{false, 1, 0, false},
		{true, 1, 4 * tokens * 2 * d, false},
	} {
		setSequential(t, c.sequential, c.bytes)
		for _, softcap := range []float32{0, 1} { // straight and not
			x := newProblem(random("panels in order"), normal, shape{1, 1, group, c.lq, tokens, d, d})
			cache, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: d, ValueDim: d, Capacity: tokens})
			must(t, err)
			must(t, cache.Append(x.k, x.v))
			opt := Options{Softcap: softcap}
			p := newPlan(BHLD(make([]float32, group*c.lq*d), 1, group, c.lq, d), x.q, Tensor{}, Tensor{}, &opt)
			must(t, p.initCache(cache, &opt))
			p.fitRows()
			var w scratch
			w.fit(&p)
			w.item(&p, 0, p.items())
			var rows chunk
			p.chunk(0, &rows)
			var layout panelLayout
			p.packedValues(&rows, &layout)
			if w.queue.sequential != c.want || layout.sequential != c.want {
				t.Errorf("%+v, softcap %g: keys %t, values %t", c, softcap, w.queue.sequential, layout.sequential)
			}
		}
	}
}

// So do few rows with those of a large matrix.
func TestMatrixPanelsInOrder(t *testing.T) {
	m, err := PackMatrix(BHLD(make([]float32, 32*panel), 1, 1, 32, panel))
	must(t, err)
	for _, c := range []struct {
		sequential  bool
		rows, bytes int
		want        bool
	}{
		{true, 1, 0, true},
		{true, inPlaceRows, 0, true},
		{true, inPlaceRows + 1, 0, false},
		{false, 1, 0, false},
		{true, 1, 4 * len(m.data), false},
	} {
		setSequential(t, c.sequential, c.bytes)
		p := projection{dst: BHLD(make([]float32, c.rows*panel), 1, 1, c.rows, panel), m: m}
		if got := p.panelsSequential(); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// A row whose scores are all −Inf so far is empty, whatever the values, where blocks go from kernel to kernel, too.
func TestDeadRowOfOnlyKernels(t *testing.T) {
	forEach(t, func(t *testing.T) {
		p := newProblem(random("masked"), normal, shape{1, 1, 1, 1, 3*Block + 5, 8, 8})
		fillWith(p.q.Data, 1e30)
		fillWith(p.k.Data, 0)
		fillWith(p.k.Data[:2*Block*8], -1e30)
		p.v.Data[(Block+7)*8] = nan32()
		for _, way := range ways {
			for x, o := range p.solve(t, way.attend).o {
				if o != o {
					t.Errorf("%s: element %d is NaN", way.name, x)
				}
			}
		}
	})
}

// setSequential says whether more than some bytes are read in order, until the test ends.
func setSequential(t *testing.T, sequential bool, bytes int) {
	readingAs(t, queuedReads)
	if sequential {
		readingAs(t, sequentialReads)
	}
	tuned.l2 = bytes
}
