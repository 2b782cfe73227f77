package cluster

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/seed-1415985d/attn"
)

// Mask, Bias and Blocks have elements for pairs of a query and a key. Each worker gets the elements
// of its keys.

// checkPairs validates Mask, Bias and Blocks: their shape here, the rest by package attn, which
// validates a call without batch entries and computes nothing.
func (c *call) checkPairs() error {
	mask, bias, blocks := &c.opt.Mask, &c.opt.Bias, &c.opt.Blocks
	if none(mask) && none(bias) && none(blocks) {
		return nil
	}
	repeatRow(mask, c.q.L)
	repeatRow(bias, c.q.L)
	if err := cmp.Or(checkPairShape(c, "Mask", mask, c.q.L, c.keys),
		checkPairShape(c, "Bias", bias, c.q.L, c.keys),
		checkPairShape(c, "Blocks", blocks, blocksOf(c.q.L), blocksOf(c.keys))); err != nil {
		return err
	}
	config := c.stateConfig(c.q.L)
	config.Batch = 0
	s, err := attn.NewState(config)
	if err != nil {
		return err
	}
	h := &c.shape
	q, k := sameRow(c.q.H, c.q.L, h.HeadDim), sameRow(h.KVHeads, c.keys, h.HeadDim)
	v := sameRow(h.KVHeads, c.keys, h.ValueDim)
	q.B, k.B, v.B = 0, 0, 0
	return s.Update(q, k, v, &attn.Options{Mask: *mask, Bias: *bias, Blocks: *blocks})
}

// repeatRow makes a view with one row for several queries repeat it.
func repeatRow[T any](x *attn.View[T], queries int) {
	if x.L != 1 || queries == 1 {
		return
	}
	if x.SB|x.SH|x.SL == 0 {
		x.SB, x.SH, _ = x.Strides()
	}
	x.L, x.SL = queries, attn.Broadcast
}

func checkPairShape[T any](c *call, name string, x *attn.View[T], rows, width int) error {
	if none(x) || x.B == 1 && (x.H == 1 || x.H == c.q.H) && x.L == rows && x.D == width {
		return nil
	}
	return fail(attn.ErrShape, "%s is [%d %d %d %d], want [1, 1 or %d, %d, %d]; a stride of "+
		"attn.Broadcast repeats elements, too", name, x.B, x.H, x.L, x.D, c.q.H, rows, width)
}

// pairs returns the heads of Mask, Bias and Blocks.
func (c *call) pairs() pairHeads {
	return pairHeads{c.opt.Mask.H, c.opt.Bias.H, c.opt.Blocks.H}
}

// unitOfPairs returns the most tokens that are asked for together: a part, or fewer if a row's
// elements for its keys exceed a message, but at least a run.
func (c *call) unitOfPairs() int {
	unit, pairs := c.tokens, c.pairs()
	for unit > c.long && pairs.bytes(1, unit) > int64(c.client.config.Chunk) {
		unit /= 2
	}
	return unit
}

// rowsOfBlocks returns the most rows of a step with Blocks: whole blocks, or a power of two within
// one, so that each step begins at a block of queries or lies within one.
func rowsOfBlocks(rows int) int {
	if rows >= attn.Block {
		return rows - rows%attn.Block
	}
	return 1 << (bits.Len(uint(rows)) - 1)
}

// pairsShow reports whether none of Mask, Bias and Blocks hides the whole part from all of some
// rows.
func (c *call) pairsShow(p *callPart, first, rows int) bool {
	some := func(row []bool) bool { return slices.Contains(row, true) }
	finite := func(row []float32) bool {
		return slices.ContainsFunc(row, func(x float32) bool { return x != float32(math.Inf(-1)) })
	}
	return shows(&c.opt.Mask, first, rows, p.from, p.keys, some) &&
		shows(&c.opt.Bias, first, rows, p.from, p.keys, finite) &&
		shows(&c.opt.Blocks, first/attn.Block, blocksOf(rows), p.from/attn.Block, blocksOf(p.keys), some)
}

// shows reports whether some element of some rows and columns shows its key, as without a view.
func shows[T any](x *attn.View[T], first, rows, from, n int, sees func([]T) bool) bool {
	for h := range x.H {
		for i := first; i < first+rows; i++ {
			if sees(x.Row(0, h, i)[from:][:n]) {
				return true
			}
		}
	}
	return none(x)
}
