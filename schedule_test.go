package attn

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-1415985d/attn/internal/inspect"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/ragged"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Every way to divide the work is taken. Without this, TestPoolEqualsAttend might compare the
// same path twice.
func TestSchedulePartition(t *testing.T) {
	for _, c := range []struct {
		name               string
		workers            int
		b, h, lq, lk       int
		chunkRows, segment int
	}{
		{"enough chunks", 2, 1, 16, 64, 64, 64, 1},
		{"smaller chunks", 2, 1, 1, 16 * minChunkRows, 512, 4 * minChunkRows, 1},
		{"smallest chunks", 64, 1, 1, 512, 512, minChunkRows, 1},
		{"segments", 2, 1, 1, 1, 3 * Segment, 1, 3},
		{"chunks, then segments", 8, 1, 1, 960, 3*Segment - 1, 120, 3},
		{"one worker", 1, 1, 1, 1, 3 * Segment, 1, 1},
	} {
		j := attention{plan: newPlan(zeros(c.b, c.h, c.lq, 8), zeros(c.b, c.h, c.lq, 8),
			zeros(c.b, c.h, c.lk, 8), zeros(c.b, c.h, c.lk, 8), nil)}
		must(t, j.plan.init(nil))
		j.schedule(c.workers)
		if j.plan.chunkRows != c.chunkRows || j.segments != c.segment {
			t.Errorf("%s: %d rows, %d segments, want %d and %d", c.name, j.plan.chunkRows, j.segments,
				c.chunkRows, c.segment)
		}
	}
}

// Rows that share a list stay together as long as the cache holds them and workers have enough to
// do: segments of a list come first, then equal parts of its rows.
func TestScheduleOfLists(t *testing.T) {
	for _, c := range []struct {
		name                    string
		group, lq, heads, SL    int
		rows, chunkRows, shared int
	}{
		{"a list for each query", 12, 5, 1, 1, 60, 12, 12},
		{"equal parts of its rows", 12, 5, 1, 1, 10, 6, 12},
		{"a number without parts", 13, 5, 1, 1, 10, 1, 13},
		{"a list for all queries", 12, 5, 1, 0, 50, 50, 60},
		{"a list for each head", 12, 5, 12, 1, 60, 1, 1},
		{"one query", 12, 1, 1, 1, 10, 10, 12},
	} {
		p := plan{group: c.group, lq: c.lq, heads: 12, kvHeads: 1,
			bufferOptions: bufferOptions{lists: View[int32]{L: c.lq, H: c.heads, SH: c.heads - 1, SL: c.SL}}}
		if got := p.alignRows(c.rows); got != c.chunkRows || p.rowsPerList() != c.shared {
			t.Errorf("%s: %d rows, %d with a list, want %d and %d", c.name, got, p.rowsPerList(),
				c.chunkRows, c.shared)
		}
	}
	use(t, tuning.Generic)
	tuned.L2 = 1 << 20
	for _, c := range []struct{ workers, keys, rows, segments int }{
		{1, 2048, 128, 1}, {2, 2048, 128, 2}, {8, 2048, 32, 2}, {64, 2048, 32, 2}, {2, 1024, 64, 1},
	} {
		opt := &Options{Keys: BHLD(slices.Repeat([]int32{-1}, c.keys), 1, 1, 1, c.keys)}
		j := attention{plan: newPlan(zeros(1, 128, 1, 8), zeros(1, 128, 1, 8), zeros(1, 1, 9, 8),
			zeros(1, 1, 9, 8), opt)}
		must(t, j.plan.init(opt))
		if j.schedule(c.workers); j.plan.chunkRows != c.rows || j.segments != c.segments {
			t.Errorf("%+v: %d rows, %d segments", c, j.plan.chunkRows, j.segments)
		}
	}
}

// Segments that nobody sees are no tasks: those before a window, after a causal end, and beyond the
// lengths of all entries.
func TestScheduleOfSeenSegments(t *testing.T) {
	for name, c := range map[string]struct {
		opt   Options
		first int
		tasks int
	}{
		"all":      {Options{}, 0, 2 * 9},
		"a window": {Options{Causal: BottomRight, Window: Window{Left: 1100}}, 7, 2 * 2},
		"causal":   {Options{Causal: TopLeft, Offset: 3*Segment - 1}, 0, 2 * 3},
		"both": {Options{Causal: TopLeft, Offset: 5*Segment + 900, Window: Window{Left: 1000}}, 4,
			2 * 2},
		"lengths": {Options{KeyLens: []int{10, 2*Segment + 1}}, 0, 2 * 3},
		"nothing": {Options{KeyLens: []int{0, 0}}, 0, 2},
		"in one":  {Options{Causal: BottomRight, Window: Window{Left: 10}}, 0, 2},
		"two there": {Options{KeyLens: []int{Segment + 5, 9 * Segment}, Causal: BottomRight,
			Window: Window{Left: 10}}, 0, 2 * 9},
	} {
		p := newProblem(random(name), normal, shape{2, 1, 1, 1, 9 * Segment, 8, 8})
		dst, _, _ := p.results()
		j := attention{plan: newPlan(dst, p.q, p.k, p.v, &c.opt)}
		must(t, j.plan.init(&c.opt))
		if j.schedule(3); j.tasks != c.tasks || j.plan.segments > 1 && j.plan.segment != c.first {
			t.Errorf("%s: %d tasks, segments from %d, want %d, %d", name, j.tasks, j.plan.segment, c.tasks,
				c.first)
		}
	}
}

// Heads that would go together are separated if the workers have too little to share otherwise.
func TestSchedulePartitionOfHeads(t *testing.T) {
	for _, c := range []struct {
		name                   string
		workers, lq, lk        int
		headsPerChunk, segment int
	}{
		{"one worker", 1, 1, 100, 8, 1},
		{"enough segments", 2, 1, 4 * Segment, 8, 4},
		{"few segments", 2, 1, Segment, 2, 1},
		{"many workers", 16, 1, 4 * Segment, 1, 4},
		{"states of all segments take too much", 2, 60, 1 << 21, 2, 1},
	} {
		x := Tensor{SH: 64, SL: 8 * 64}
		j := attention{plan: plan{batch: 1, heads: 8, kvHeads: 8, group: 1, lq: c.lq, lk: c.lk, d: 64,
			dv: 64, left: -1, right: -1, source: source{k: x, v: x}}}
		j.schedule(c.workers)
		if j.plan.headsPerChunk != c.headsPerChunk || j.segments != c.segment {
			t.Errorf("%s: %d heads together, %d segments, want %d and %d", c.name, j.plan.headsPerChunk,
				j.segments, c.headsPerChunk, c.segment)
		}
	}
}

// Full blocks have kernels of their own if scores are products and nothing more, and no call has to
// be split.
func TestScheduleOfFullBlocks(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *plan)
		want   bool
	}{
		"no options":      {func(p *plan) {}, true},
		"causal":          {func(p *plan) { p.causal = TopLeft }, true},
		"few columns":     {func(p *plan) { p.dv = 56 }, true},
		"few rows":        {func(p *plan) { p.lq = 5 }, true},
		"natural units":   {func(p *plan) { p.natural = true }, false},
		"mask":            {func(p *plan) { p.mask.Data = []bool{true} }, true},
		"bias":            {func(p *plan) { p.bias.Data, p.natural = []float32{1}, true }, false},
		"long dimensions": {func(p *plan) { p.d = kernel.CallProducts/Block/minTileRows + 1 }, false},
		"many columns":    {func(p *plan) { p.dv = kernel.CallProducts/Block/minTileRows + 1 }, false},
	} {
		forEach(t, func(t *testing.T) {
			p := plan{batch: 1, heads: 1, kvHeads: 1, group: 1, lq: 500, lk: 500, d: 64, dv: 64, left: -1,
				right: -1}
			c.change(&p)
			p.decide(&tuned, 1)
			want := c.want && tuned.ISA != tuning.Generic
			if p.full != want {
				t.Errorf("%s: %v, want %v", name, p.full, want)
			}
		})
	}
}

// Few queries read the panels of a cache sequentially if it is larger than the L2 cache.
func TestScheduleReadsStoresSequentially(t *testing.T) {
	const tokens, group, d = 2 * Block, 2, 8
	for _, c := range []struct {
		inOrder   bool
		lq, bytes int
		want      bool
	}{
		{true, 1, 0, true},
		{true, inPlaceRows / group, 0, true},
		{true, inPlaceRows/group + 1, 0, false},
		{false, 1, 0, false},
		{true, 1, 4 * tokens * 2 * d, false},
	} {
		setSequential(t, c.inOrder, c.bytes)
		for _, softcap := range []float32{0, 1} { // full blocks and others
			x := newProblem(random("sequential reads"), normal, shape{1, 1, group, c.lq, tokens, d, d})
			cache, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: d, ValueDim: d,
				Capacity: tokens})
			must(t, err)
			must(t, cache.Append(x.k, x.v))
			opt := Options{Softcap: softcap}
			p := newPlan(BHLD(make([]float32, group*c.lq*d), 1, group, c.lq, d), x.q, Tensor{}, Tensor{},
				&opt)
			must(t, cache.plan(&p, &opt))
			p.decide(&tuned, 1)
			var w scratch
			w.fit(&p)
			w.attendChunk(&p, 0, p.chunks)
			var rows chunk
			p.chunk(0, &rows)
			w.values(&p, &rows, &blockKeys{hi: Block, equal: true})
			if w.queue.InOrder != c.want || w.layout.InOrder != c.want {
				t.Errorf("%+v, softcap %g: keys %t, values %t", c, softcap, w.queue.InOrder,
					w.layout.InOrder)
			}
		}
	}
}

// Where few queries are to read in order, heads side by side go together, in longer steps if tokens
// are short, and heads by themselves stay so.
func TestScheduleReadsHeadsBesideInOrder(t *testing.T) {
	const megabyte = 1 << 20
	for _, c := range []struct {
		name               string
		layout             string
		kvh, group, lk, d  int
		heads, step, paged int
	}{
		{"short tokens", "blhd", 4, 4, 4096, 64, 4, 2 * panel, inPlaceRows},
		{"long tokens", "blhd", 32, 1, 2048, 128, 32, panel, inPlaceRows},
		{"tokens too long for the L2 cache", "blhd", 64, 1, 2048, 128, 8, Block, 0},
		{"in the L2 cache", "blhd", 4, 4, 256, 64, 4, Block, 0},
		{"many queries", "blhd", 4, 8, 4096, 64, 4, Block, 0},
		{"a head is one run", "bhld", 4, 4, 4096, 64, 1, Block, 0},
	} {
		setSequential(t, true, megabyte)
		p, err := planOf(inspect.Call{B: 1, H: c.kvh * c.group, KVH: c.kvh, Lq: 1, Lk: c.lk, D: c.d,
			Dv: c.d, Layout: c.layout, Workers: 1})
		must(t, err)
		p.decide(&tuned, 1)
		if p.headsPerChunk != c.heads || p.step != c.step || p.keys.pagedRows != c.paged ||
			p.values.pagedRows != c.paged {
			t.Errorf("%s: %v, want %d heads, steps of %d, paged up to %d rows", c.name, &p.schedule, c.heads,
				c.step, c.paged)
		}
	}
}

// Heads that go together in order have the bits of heads by themselves.
func TestHeadsBesideInOrderEqualOthers(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, s := range []shape{
			{1, 4, 1, 1, 5*Block + 7, 64, 64}, {2, 3, 2, 1, 3 * Block, 40, 24},
			{1, 2, 3, 1, Segment + 20, 128, 128}, {1, 2, 2, 2, 4 * Block, 24, 40},
		} {
			x := newProblem(random("heads beside"), normal, s)
			x.opt.Causal = BottomRight
			k, v := tokenMajor(x.k), tokenMajor(x.v)
			want, got := zeros(x.q.B, x.q.H, x.q.L, x.v.D), zeros(x.q.B, x.q.H, x.q.L, x.v.D)
			must(t, Attend(want, x.q, x.k, x.v, &x.opt))
			setSequential(t, true, 4*2*2*panel*s.kvh*max(s.d, s.dv))
			p := newPlan(got, x.q, k, v, &x.opt)
			must(t, p.init(&x.opt))
			if p.decide(&tuned, 1); p.step == Block || !p.keys.shared || !p.values.shared {
				t.Errorf("%+v: %v, want steps of all heads", s, &p.schedule)
			}
			must(t, Attend(got, x.q, k, v, &x.opt))
			for i := range want.Data {
				if math.Float32bits(got.Data[i]) != math.Float32bits(want.Data[i]) {
					t.Fatalf("%+v: element %d is %v, of heads by themselves %v", s, i, got.Data[i], want.Data[i])
				}
			}
		}
	})
}

// setSequential says whether few rows read more than some bytes sequentially, until the test ends.
func setSequential(t *testing.T, inOrder bool, bytes int) {
	readingAs(t, tuning.QueuedReads)
	if inOrder {
		readingAs(t, tuning.SequentialReads)
	}
	tuned.L2, tuned.OnePanel = bytes, false
}

// Where two and three rows read one packed panel after another, few rows read packed panels of much
// memory in order, and the caller's keys and values as before.
func TestScheduleReadsOnePanel(t *testing.T) {
	setSequential(t, false, 0)
	for _, one := range []bool{false, true} {
		tuned.OnePanel = one
		views, panels := viewsOfRows(t, 2), cacheOfRows(t, F32, 2)
		if views.inOrder || (panels.inOrderRows > 0) != one {
			t.Errorf("OnePanel %t: views in order %t, packed panels of up to %d rows", one,
				views.inOrder, panels.inOrderRows)
		}
	}
}

// Few rows of integers over more than the L2 cache holds read panels of keys in order, and prefetch
// whole blocks ahead where that is tuned; over less they do neither, as over views, whose integers
// have just been made.
func TestScheduleOfIntegersAhead(t *testing.T) {
	row := tuned
	row.L2, row.PrefetchInt8, row.WholeBlocks = 4<<10, 8192, true
	useTuning(t, row)
	const d = 64 // a block is 8704 bytes
	q, dst, k := zeros(1, 1, 1, d), zeros(1, 1, 1, d), zeros(1, 1, 2*Block, d)
	opt := &Options{Integers: true}
	cache, err := filledIn(I8, k, k)
	must(t, err)
	defer cache.Close()
	for _, c := range []struct {
		name     string
		packed   bool
		l2, want int
	}{
		{"a cache in memory", true, 4 << 10, 8704},
		{"a cache that fits", true, 1 << 20, 8192},
		{"views", false, 4 << 10, 8192},
	} {
		tuned.L2 = c.l2
		p := newPlan(dst, q, k, k, opt)
		if c.packed {
			p = newPlan(dst, q, Tensor{}, Tensor{}, opt)
			must(t, cache.plan(&p, opt))
		} else {
			must(t, p.init(opt))
		}
		p.decide(&tuned, 1)
		if p.ahead != c.want || p.integersInOrder != (c.want == 8704) {
			t.Errorf("%s: %d bytes ahead, in order %t", c.name, p.ahead, p.integersInOrder)
		}
	}
}

// Panels of a cache are read page by page from some rows on, if reads are queued: by rows that have
// 16 lanes anyway only if they are in memory.
func TestSchedulePagesPanels(t *testing.T) {
	const d = 64
	for _, c := range []struct {
		reads    tuning.Reads
		min      int // tuning.Row.MinPagedPanels
		rows, l2 int
		from, to int // the rows that are
	}{
		{tuning.QueuedReads, 0, 6, 1 << 20, 0, 0}, {tuning.QueuedReads, 6, 5, 1 << 20, 0, 0},
		{tuning.QueuedReads, 6, 6, 1 << 20, 6, pagedPanelRows},
		{tuning.QueuedReads, 6, 13, 1 << 20, 6, 0},
		{tuning.QueuedReads, 6, 13, 1 << 10, 6, pagedPanelRows},
		{tuning.PagedReads, 6, 6, 1 << 20, 0, 96},
	} {
		readingAs(t, c.reads)
		tuned.MinPagedPanels, tuned.MinRows16, tuned.FewRows, tuned.L2 = c.min, 13, 96, c.l2
		p := viewsOfRows(t, c.rows)
		blocks := packed.New(kernel.F32, kernel.F32, 1, d, d, false)
		p.packed, p.d, p.dv = &blocks, d, d
		p.decide(&tuned, 1)
		if p.panelRows != c.from || p.keys.pagedRows != c.to || p.values.pagedRows != c.to {
			t.Errorf("%+v: from %d rows on, keys up to %d, values up to %d", c, p.panelRows,
				p.keys.pagedRows, p.values.pagedRows)
		}
	}
}

// Three to five rows prefetch packed panels further ahead where blocks follow each other in memory,
// as in a cache or matrix, and exceed the L2 cache: not in pages of a store.
func TestSchedulePrefetchesFurtherInRuns(t *testing.T) {
	const d = 64 // a block is 32 KiB
	row := tuned
	row.PrefetchOne, row.PrefetchFew, row.PrefetchRun = 1000, 2000, 300
	useTuning(t, row)
	for _, c := range []struct {
		name     string
		kind     kind
		pages    bool
		l2, want int
	}{
		{"a cache in memory", kindPanels, false, 4 << 10, 300},
		{"a cache that fits", kindPanels, false, 1 << 20, 0},
		{"a store in memory", kindPanels, true, 4 << 10, 0},
		{"views", kindViews, false, 4 << 10, 0},
	} {
		tuned.L2 = c.l2
		p := viewsOfRows(t, 1)
		if c.kind == kindPanels {
			blocks := packed.New(kernel.F32, kernel.F32, 1, d, d, false)
			p.packed, p.d, p.dv = &blocks, d, d
		}
		if c.pages {
			p.sequences = &ragged.Call{Longest: 1}
		}
		p.decide(&tuned, 1)
		var w scratch
		w.fit(p)
		w.layoutPanels(p, false)
		for _, got := range []kernel.PrefetchHint{w.queue.PrefetchHint, w.layout.PrefetchHint} {
			if got.PrefetchOne != 1000 || got.PrefetchFew != 2000+c.want {
				t.Errorf("%s: %d and %d bytes ahead, want %d more than the row says", c.name,
					got.PrefetchOne, got.PrefetchFew, c.want)
			}
		}
	}
}

// Kernels are told where they find keys and values in the cache because the call has packed keys:
// over views for rows enough. Over a cache they are as if it did where rows are prefetched.
func TestKernelsAreToldOfPackedKeys(t *testing.T) {
	use(t, chosen.ISA)
	for rows, want := range map[int]bool{1: false, kernel.PackedRows - 1: false,
		kernel.PackedRows: true, 40: true} {
		p := viewsOfRows(t, rows)
		var w scratch
		w.fit(p)
		w.attendChunk(p, 0, p.chunks)
		if w.queue.Packed != want || w.layout.Packed != want {
			t.Errorf("%d rows: keys %t, values %t, want %t", rows, w.queue.Packed, w.layout.Packed, want)
		}
	}
	readingAs(t, tuning.QueuedReads)
	for _, c := range []struct {
		from, rows    int
		packed, paged bool
	}{{0, 12, false, false}, {6, 5, false, false}, {6, 6, true, true},
		{6, pagedPanelRows, true, true}, {6, pagedPanelRows + 1, true, false}} {
		tuned.MinPagedPanels, tuned.MinRows16 = c.from, math.MaxInt
		p := cacheOfRows(t, F32, c.rows)
		var w scratch
		w.fit(p)
		w.attendChunk(p, 0, p.chunks)
		if w.queue.Packed != c.packed || w.layout.Packed != c.packed {
			t.Errorf("%+v: keys %t, values %t as packed", c, w.queue.Packed, w.layout.Packed)
		}
		if (w.queue.Pointer != 0) != c.paged || (w.layout.Pointer != 0) != c.paged {
			t.Errorf("%+v: pointers %#x and %#x", c, w.queue.Pointer, w.layout.Pointer)
		}
	}
	if tuned.MinRows16 = 12; cacheOfRows(t, F32, 12).keys.pagedRows != 0 {
		t.Error("rows that have 16 lanes anyway read page by page what the L2 cache holds")
	}
	if tuned.L2 = 0; cacheOfRows(t, F32, 12).keys.pagedRows != pagedPanelRows {
		t.Error("rows that have 16 lanes anyway do not read page by page what it does not hold")
	}
	if p := cacheOfRows(t, F16, 12); p.panelRows != 0 || p.keys.pagedRows != 0 {
		t.Errorf("halves: page by page from %d to %d rows", p.panelRows, p.keys.pagedRows)
	}
}

// cacheOfRows is the plan of a call over a cache with a group of so many rows, and two blocks.
func cacheOfRows(t *testing.T, format Format, rows int) *plan {
	x := newProblem(random("cache of rows"), normal, shape{1, 1, rows, 1, 2 * Block, 8, 8})
	cache, err := filledIn(format, x.k, x.v)
	must(t, err)
	t.Cleanup(func() { cache.Close() })
	p := newPlan(zeros(1, rows, 1, 8), x.q, Tensor{}, Tensor{}, &Options{})
	must(t, cache.plan(&p, &Options{}))
	p.decide(&tuned, 1)
	return &p
}

// What is prefetched a window after a place of a block is in the block that is read then, wherever
// a store keeps it; after the last block it is what follows in memory.
func TestWindowAfter(t *testing.T) {
	const block = 3 * kernel.PrefetchWindow / 2
	p, memory := plan{}, make([]byte, 4*block)
	p.packed = &packed.Blocks{}
	p.packed.Size = block
	places := []int{2 * block, 0, block}
	for _, c := range []struct{ at, want int }{{0, 2*block + kernel.PrefetchWindow},
		{kernel.PrefetchWindow / 2, 0}, {kernel.PrefetchWindow, kernel.PrefetchWindow / 2}} {
		if got := p.windowAfter(memory, places, c.at) + kernel.PrefetchWindow; got !=
			operand.Address(memory, c.want) {
			t.Errorf("after byte %d: byte %d, want %d", c.at, got-operand.Address(memory, 0), c.want)
		}
	}
	last := p.windowAfter(memory, places[2:], kernel.PrefetchWindow)
	if want := operand.Address(memory, block+kernel.PrefetchWindow); last != want {
		t.Errorf("after the last block: byte %d", last-operand.Address(memory, 0))
	}
}

// viewsOfRows is the plan of a call over views with a group of so many rows, and two blocks.
func viewsOfRows(t *testing.T, rows int) *plan {
	const d = 8
	k := zeros(1, 1, 2*Block, d)
	p := newPlan(zeros(1, rows, 1, d), zeros(1, rows, 1, d), k, k, &Options{})
	must(t, p.init(&Options{}))
	p.decide(&tuned, 1)
	return &p
}

// With queued reads some numbers of rows may read views page by page.
func TestScheduleReadsViewsPageByPage(t *testing.T) {
	readingAs(t, tuning.QueuedReads)
	tuned.MinPagedRows, tuned.MaxPagedRows = 2, 3
	for rows := 1; rows <= 4; rows++ {
		p := viewsOfRows(t, rows)
		for _, at := range []placement{p.keys, p.values} {
			if got, want := rows <= at.pagedRows, rows == 2 || rows == 3; got != want {
				t.Errorf("%d rows page by page: %t, want %t", rows, got, want)
			}
		}
	}
}

// Few rows whose heads lie side by side go through these in steps, prefetched in one stream; what
// the L2 cache holds, one short row and more rows are read as before, and so are heads by
// themselves.
func TestScheduleStreamsHeadsSideBySide(t *testing.T) {
	const heads, keys = 32, 2 * Block
	beside := func(x []float32, b, h, l, d int) Tensor { return BLHD(x, b, l, h, d) }
	readingAs(t, tuning.QueuedReads)
	tuned.MinStreamRows = 2
	for _, c := range []struct {
		view         func(x []float32, b, h, l, d int) Tensor
		group, d, l2 int
		want         bool
	}{
		{beside, 1, 128, 1 << 20, true}, {beside, 4, 128, 1 << 20, true}, {beside, 2, 64, 1 << 20, true},
		{beside, 1, 64, 1 << 20, false}, {beside, 5, 128, 1 << 20, false},
		{beside, 1, 128, 1 << 30, false}, {BHLD[float32], 4, 64, 1 << 20, false},
	} {
		tuned.L2 = c.l2
		k := c.view(make([]float32, keys*heads*c.d), 1, heads, keys, c.d)
		q := zeros(1, heads*c.group, 1, c.d)
		p := newPlan(zeros(1, heads*c.group, 1, c.d), q, k, k, &Options{})
		must(t, p.init(&Options{}))
		p.decide(&tuned, 1)
		if p.oneStream != c.want || p.oneStream && (p.headsPerChunk != heads || p.step == Block) {
			t.Errorf("group %d, D %d, an L2 cache of %d bytes: %v, in one stream want %t", c.group, c.d,
				c.l2, &p.schedule, c.want)
		}
	}
}

// The cost of a call follows the keys that its queries see by their positions, whatever hides the
// others, and is the same for a cache and for a sequence with the same tokens.
func TestScheduleCost(t *testing.T) {
	r := random("cost")
	for _, format := range allFormats {
		for range budget(100) {
			s := shape{1, 1 + r.IntN(3), 1 + r.IntN(4), 1 + r.IntN(300), 1 + r.IntN(4096), 16, 32}
			x := newProblem(r, normal, s)
			seq := sequenceOf(t, StoreConfig{KVHeads: s.kvh, HeadDim: s.d, ValueDim: s.dv,
				Pages: s.lk/Block + 1, Format: format})
			must(t, seq.Append(x.k, x.v))
			opt := Options{Causal: []Causal{Full, BottomRight}[r.IntN(2)], QueryLens: []int{s.lq}}
			if r.IntN(2) == 0 {
				opt.Window = Window{r.IntN(s.lk), r.IntN(s.lk)}
			}
			dst, _, _ := x.results()
			var call ragged.Call
			p := newPlan(dst, x.q, Tensor{}, Tensor{}, &opt)
			must(t, p.initSequences(&call, []*Sequence{seq}, &opt))
			got := p.cost(&tuned)
			p.sequences, p.queryLens, p.table = nil, nil, &seq.table
			if cost := p.cost(&tuned); cost != got {
				t.Fatalf("%v, %+v: the cost of a sequence is %v, of its tokens %v", format, s, got, cost)
			}
			var c chunk
			c.rows = p.entry(0, &c)
			pairs, seen := 0, make([]bool, s.lk)
			for i := range s.lq {
				lo, hi := p.keyRange(&c, i)
				pairs += hi - lo
				for j := lo; j < hi; j++ {
					seen[j] = true
				}
			}
			keys := 0
			for _, is := range seen {
				if is {
					keys++
				}
			}
			flops := 2 * float64(pairs) * float64(s.kvh*s.group*(s.d+s.dv))
			bytes := float64(keys*s.kvh*(s.d+s.dv)) * float64(kernel.Format(format).Traits().Bits) / 8
			if want := tuned.Cost(flops, bytes); math.Abs(got-want) > 1e-9*want {
				t.Errorf("%v, %+v, %+v: the cost is %v, want %v", format, s, opt, got, want)
			}
		}
	}
}

// Strides of 0 make keys and values of more bytes than an int holds, and more heads, whose tokens
// are longer than a cache.
func TestSizesDoNotOverflow(t *testing.T) {
	p := plan{batch: 1 << 14, kvHeads: 1 << 13, lk: maxLength, d: 1 << 3, dv: 1 << 3}
	if p.beginSchedule(&tuned, 1); p.bytes != 1<<61 {
		t.Errorf("tokens are %g bytes, want 2⁶¹", p.bytes)
	}
	p.batch *= 1 << 10
	if p.beginSchedule(&tuned, 1); p.bytes != 1<<71 {
		t.Errorf("tokens are %g bytes, want 2⁷¹", p.bytes)
	}
	p.chunkRows = 32
	if p.hasSteps(1 << 27) {
		t.Error("2²⁷ heads of 32 rows go in steps together")
	}
	p.chunkRows = 1
	for _, x := range []Tensor{{H: 1 << 13, D: 1 << 10, SH: 1 << 10, SL: 1 << 23},
		{H: 1 << 13, D: 1 << 11, SH: 1 << 11, SL: 1 << 24}} {
		if p.tokensContiguous(&tuned, &x) {
			t.Errorf("tokens of %d elements are read as if the cache had room for 32 of them", x.SL)
		}
	}
}

// What is shown of a call is the schedule that the call gets.
func TestInspectShowsTheScheduleOfACall(t *testing.T) {
	forEachTuning(t, func(t *testing.T) {
		for _, layout := range []string{"bhld", "blhd", "cache"} {
			x := newProblem(random("inspect"), normal, shape{1, 4, 2, 3, 200, 24, 40})
			k, v := x.k, x.v
			if layout == "blhd" {
				k, v = tokenMajor(k), tokenMajor(v)
			}
			p := newPlan(BHLD(make([]float32, 8*3*40), 1, 8, 3, 40), x.q, k, v, nil)
			must(t, p.init(nil))
			if layout == "cache" {
				p.packed = new(packed.New(kernel.F32, kernel.F32, 4, 24, 40, false))
			}
			p.decide(&tuned, 2)
			shown, err := planOf(inspect.Call{B: 1, H: 8, KVH: 4, Lq: 3, Lk: 200, D: 24, Dv: 40,
				Layout: layout, Workers: 2})
			must(t, err)
			shown.decide(&tuned, 2)
			if shown.schedule != p.schedule {
				t.Errorf("%s: shown %v, the call has %v", layout, &shown.schedule, &p.schedule)
			}
			text := describe(&tuned, &shown)
			for _, line := range []string{"CPU ", "time ", "sharing ", "chunks ", "segments ", "tile rows ",
				"keys ", "values ", "span ", "step ", "full blocks ", "prefetch ", "lanes ", "maxima "} {
				if !strings.Contains("\n"+text, "\n"+line) {
					t.Errorf("%s: %q lacks a line %q", layout, text, line)
				}
			}
			for line := range strings.Lines(text) {
				if utf8.RuneCountInString(line) > 101 {
					t.Errorf("%s: want at most 100 columns: %s", layout, line)
				}
			}
		}
	})
}

func TestInspectRefusesWrongCalls(t *testing.T) {
	good := inspect.Call{B: 1, H: 8, KVH: 4, Lq: 3, Lk: 200, D: 24, Dv: 40, Layout: "bhld", Workers: 2}
	for name, c := range map[string]struct {
		change func(c *inspect.Call)
		want   error
		text   string
	}{
		"heads":   {func(c *inspect.Call) { c.KVH = 3 }, ErrShape, "KVH"},
		"no keys": {func(c *inspect.Call) { c.Lk = 0 }, ErrShape, "Lk"},
		"layout":  {func(c *inspect.Call) { c.Layout = "bshd" }, ErrOption, "layout"},
		"queries": {func(c *inspect.Call) {
			c.B, c.H, c.Lq = maxLength, maxLength, 1<<8
		}, ErrShape, "268435456×268435456×256×40"},
		"tokens": {func(c *inspect.Call) {
			c.KVH, c.H, c.Lk = 1<<20, 1<<20, maxLength
		}, ErrShape, "1048576×268435456×40"},
		"workers": {func(c *inspect.Call) { c.Workers = -1 }, ErrShape, "workers"},
	} {
		call := good
		c.change(&call)
		if _, err := inspect.Describer.Describe(call); !errors.Is(err, c.want) ||
			!strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v that says %s", name, err, c.want, c.text)
		}
	}
}
