package attn

import (
	"github.com/seed-1415985d/attn/internal/inspect"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/tuning"
)

func init() { inspect.Describer = describer{} }

// describer's method is linked only into programs that call it, because only they reach it through
// an interface. A function in a variable that init sets would be in every program.
type describer struct{}

// Describe computes the schedule of a call as Attend and Pool would, over views without memory, and
// explains it.
func (describer) Describe(c inspect.Call) (string, error) {
	p, err := planOf(c)
	if err != nil {
		return "", err
	}
	p.decide(&tuned, c.Workers)
	return describe(&tuned, &p), nil
}

// planOf returns the plan of a call without buffers.
func planOf(c inspect.Call) (plan, error) {
	if err := c.Check(); err != nil {
		return plan{}, err
	}
	p := plan{batch: c.B, heads: c.H, kvHeads: c.KVH, group: c.H / c.KVH, lq: c.Lq, lk: c.Lk, d: c.D,
		dv: c.Dv, left: -1, right: -1}
	if c.Causal {
		p.causal = BottomRight
	}
	view := BHLD[float32]
	switch c.Layout {
	case "bhld":
	case "blhd":
		view = func(_ []float32, b, h, l, d int) Tensor { return BLHD[float32](nil, b, l, h, d) }
	case "cache":
		blocks := packed.New(kernel.F32, kernel.F32, c.KVH, c.D, c.Dv, false)
		p.packed = &blocks
		return p, nil
	default:
		return plan{}, fail(ErrOption, "layout is %q, want bhld, blhd or cache", c.Layout)
	}
	p.k, p.v = view(nil, c.B, c.KVH, c.Lk, c.D), view(nil, c.B, c.KVH, c.Lk, c.Dv)
	return p, nil
}

// describe explains a schedule: a line of at most 100 columns for each decision.
func describe(t *tuning.Row, p *plan) string {
	var s inspect.Text
	cost := p.cost(t)
	s.Line("CPU", t.CPU, "row of the tuning table; kernels: %v", t.ISA)
	s.Line("time", cost, "estimate for one core")
	s.Sharing(t, cost)
	s.Line("chunks", p.chunks, "parts of the work, each %d query rows by %d key/value heads",
		p.chunkRows, p.headsPerChunk)
	s.Line("segments", p.segments, "parts of a chunk's keys, which workers share; workers: %d",
		p.workers)
	s.Line("tile rows", p.tileRows, "query rows in one call of a kernel, at most")
	where, meaning := p.place(p.keys)
	s.Line("keys", where, "%s; %s", meaning, p.prefetching(p.keys))
	where, meaning = p.place(p.values)
	s.Line("values", where, "%s; %s", meaning, p.prefetching(p.values))
	s.Line("span", p.blocks, "blocks of %d keys that are scored before their values are added, at "+
		"most", Block)
	s.Line("step", p.step, "keys of a head before the next head of the chunk has its turn")
	s.Line("full blocks", p.full, "operands of a whole block are checked once, not for each tile")
	s.Line("prefetch", p.prefetchOrder(t), "for few rows: by the hardware, or by kernels, paged or "+
		"in order")
	use := floats.Choose(t, min(p.tileRows, p.chunkRows), p.d,
		p.packed == nil && p.chunkRows >= kernel.PackedRows || p.panelRows > 0)
	s.Line("lanes", inspect.Lanes(use.Lanes16), "floats that score and value kernels compute at "+
		"once; softmax: %d", inspect.Lanes(use.Softmax16))
	s.Line("maxima", use.Maxima && !use.Lanes16, "score kernels find the maxima of rows")
	return s.String()
}

// place says where the kernels of whole chunks read keys, or values.
func (p *plan) place(at placement) (where, meaning string) {
	switch {
	case p.packed != nil:
		return "cache", "read from the cache"
	case p.chunkRows <= at.inPlaceRows:
		return "in place", "read where they lie"
	}
	return "packed", "copied once for all rows of a chunk"
}

// prefetching says how keys or values are prefetched.
func (p *plan) prefetching(at placement) string {
	order := "page by page"
	switch {
	case p.inOrder:
		order = "in order"
	case p.oneStream:
		order = "in one stream"
	}
	switch {
	case p.chunkRows > at.pagedRows:
		return "kernels prefetch no pages"
	case at.shared:
		return "prefetched " + order + " over all heads' tokens"
	}
	return "prefetched " + order
}

// prefetchOrder says how memory is prefetched for kernels of few rows.
func (p *plan) prefetchOrder(t *tuning.Row) string {
	switch {
	case p.inOrder || p.inOrderRows >= min(p.chunkRows, inPlaceRows) && p.inOrderRows > 0:
		return "in order"
	case t.Reads == tuning.PagedReads:
		return "paged"
	}
	return "hardware"
}
