package attn

import (
	"fmt"
	"strings"

	"github.com/seed-1415985d/attn/internal/inspect"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/tuning"
	"github.com/seed-1415985d/attn/internal/views"
)

func init() { inspect.Describer = describer{} }

// describer's method is linked only into programs that call it, since they alone reach it through
// an interface. A function that init left in a variable would be in every program.
type describer struct{}

// Describe makes the schedule of a call as Attend and Pool would, over views without memory, and
// says what it means.
func (describer) Describe(c inspect.Call) (string, error) {
	p, err := planOf(c)
	if err != nil {
		return "", err
	}
	p.decide(&tuned, c.Workers)
	return describe(&tuned, &p), nil
}

// planOf is the plan of a call without buffers.
func planOf(c inspect.Call) (plan, error) {
	for _, f := range [...]struct {
		name string
		n    int
	}{{"B", c.B}, {"H", c.H}, {"KVH", c.KVH}, {"Lq", c.Lq}, {"Lk", c.Lk}, {"D", c.D}, {"Dv", c.Dv},
		{"workers", c.Workers}} {
		if f.n < 1 || f.n > maxLength {
			return plan{}, fail(ErrShape, "%s is %d, want 1 to %d", f.name, f.n, maxLength)
		}
	}
	if c.H%c.KVH != 0 {
		return plan{}, fail(ErrShape, "H is %d, want a multiple of KVH = %d", c.H, c.KVH)
	}
	for _, size := range [...][4]int{{c.B, c.H, c.Lq, max(c.D, c.Dv)},
		{c.B, c.KVH, c.Lk, max(c.D, c.Dv)}, {1, 1, 4 * Block, c.D + c.Dv}} {
		if _, ok := views.Product(size[:]...); !ok {
			return plan{}, fail(ErrShape, "a view or scratch memory is %d×%d×%d×%d elements, want at "+
				"most %d", size[0], size[1], size[2], size[3], maxElements)
		}
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

// describe says what a schedule means, a line for each decision.
func describe(t *tuning.Row, p *plan) string {
	var s strings.Builder
	line := func(name string, value any, meaning string, args ...any) {
		fmt.Fprintf(&s, "%-18s %-10v %s\n", name, value, fmt.Sprintf(meaning, args...))
	}
	line("CPU", t.CPU, "with %v kernels; its row of the tuning table decides what follows", t.ISA)
	line("cost", fmt.Sprintf("%.3g µs", p.cost(t)/1e3),
		"estimated on one core; a Pool leaves calls below %.3g µs to the caller, and wakes workers "+
			"for one of %.3g µs", t.SmallCall/1e3, t.WakingCall/1e3)
	line("chunks", p.chunks, "pieces of work: %d rows of queries for each of %d key/value heads",
		p.chunkRows, p.headsPerChunk)
	line("segments", p.segments, "pieces of keys that each chunk is divided into, for %d workers",
		p.workers)
	line("tiles", p.tileRows, "rows at most go through the kernels together")
	line("keys", p.place(p.keys), "%s", p.prefetching(p.keys))
	line("values", p.place(p.values), "%s", p.prefetching(p.values))
	line("spans", p.blocks, "blocks at most are scored before their values are added")
	line("steps", p.step, "keys at a time where heads of a chunk take turns; %d is a whole block",
		Block)
	line("full blocks", p.full, "whole blocks go from kernel to kernel, operands checked once")
	line("reads", t.Reads, "of few rows; in order: %t",
		p.inOrder || p.inOrderRows >= min(p.chunkRows, inPlaceRows) && p.inOrderRows > 0)
	use := floats.Choose(&tuned, min(p.tileRows, p.chunkRows), p.d,
		p.packed == nil && p.chunkRows >= kernel.PackedRows || p.panelRows > 0)
	line("kernels", t.ISA, "for a tile: 16 lanes %t, softmax with 16 lanes %t, maxima found in "+
		"score %t", use.Lanes16, use.Softmax16, use.Maxima && !use.Lanes16)
	return s.String()
}

// place says where the kernels of whole chunks read keys, or values.
func (p *plan) place(at placement) string {
	switch {
	case p.packed != nil:
		return "cache"
	case p.chunkRows <= at.inPlaceRows:
		return "in place"
	}
	return "packed"
}

// prefetching says how they are prefetched.
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
		return "not prefetched page by page"
	case at.shared:
		return "prefetched " + order + ", each head its share of all heads' tokens"
	}
	return "prefetched " + order
}
