package cluster

import (
	"context"

	"github.com/seed-1415985d/attn"
)

// computeRows computes all rows, and writes the results.
func (c *call) computeRows(ctx context.Context) error {
	// Rows are computed in as many steps as their states need messages. Results are written after the
	// last step, so that an error leaves dst unchanged.
	var done []rowsDone
	for first := 0; first < c.q.L; first += c.rows {
		x, err := c.step(ctx, first, min(c.rows, c.q.L-first))
		if err != nil {
			return err
		}
		defer x.state.Close() // it is open, or nil
		done = append(done, x)
	}
	if err := c.beginFollow(ctx); err != nil {
		return err
	}
	if err := c.ended(); err != nil { // some calls send no request, and would not notice
		return err
	}
	err := c.writeResults(done)
	if err == nil {
		c.putAmongOthers()
	}
	return err
}

// callPart is a part as it was when a call began, or a piece of it if Mask, Bias and Blocks of the
// whole part do not fit one message.
type callPart struct {
	part *sequencePart
	from int // position of the first key
	keys int
}

// end returns the position after the last key.
func (p *callPart) end() int { return p.from + p.keys }

// prepareQueries validates the queries, over the tokens of the layer and of the call.
func (c *call) prepareQueries(ctx context.Context) error {
	if err := c.lockSettled(ctx, c.layer); err != nil {
		return err
	}
	c.keys = c.lengths[c.layer] + c.k.L
	c.look()
	c.mu.Unlock()
	if err := c.ended(); err != nil {
		return err
	}
	if err := c.checkQueries(); err != nil {
		return err
	}
	if err := c.checkPairs(); err != nil {
		return err
	}
	c.align()
	return nil
}

// checkQueries validates the arguments except Mask, Bias and Blocks.
func (c *call) checkQueries() error {
	if err := c.checkOptions(); err != nil {
		return err
	}
	h, q, dst, opt := &c.shape, &c.q, &c.dst, c.opt
	switch {
	case q.B != 1 || q.D != h.HeadDim || q.H%h.KVHeads != 0:
		return fail(attn.ErrShape, "q is [%d %d … %d], want [1 a multiple of %d … %d]", q.B, q.H,
			q.D, h.KVHeads, h.HeadDim)
	case dst.B != 1 || dst.H != q.H || dst.L != q.L || dst.D != h.ValueDim:
		return fail(attn.ErrShape, "dst is [%d %d %d %d], want [1 %d %d %d]", dst.B, dst.H, dst.L,
			dst.D, q.H, q.L, h.ValueDim)
	case opt.LSE != nil && len(opt.LSE) != q.H*q.L:
		return fail(attn.ErrLength, "len(LSE) is %d, want %d×%d", len(opt.LSE), q.H, q.L)
	}
	hidden := c.unseen(0, q.L)
	_, err := hidden.block(c.stateConfig(q.L), 0) // validates q and the other options
	return err
}

// align sets the position of query 0, the tokens that are asked for together, and the rows of a
// step.
func (c *call) align() {
	if c.opt.Causal == attn.BottomRight {
		c.offset = c.keys - c.q.L
	}
	c.rows = c.rowsOfStep()
	if unit := c.unitOfPairs(); unit < c.unit {
		whole := c.snapshot
		c.snapshot, c.unit = nil, unit
		for _, p := range whole {
			c.lookAt(p.part)
		}
	}
}

// look notes the current parts. The lock is held.
func (c *call) look() {
	c.snapshot = c.snapshot[:0]
	for _, p := range c.parts {
		c.lookAt(p)
	}
}

// lookAt notes the pieces of a part that are asked for together.
func (c *call) lookAt(p *sequencePart) {
	first := p.index * c.tokens
	for from := first; from < min(first+c.tokens, c.keys); from += c.unit {
		c.snapshot = append(c.snapshot, callPart{p, from, min(c.unit, c.keys-from)})
	}
}

// lookAgain notes the current parts again, unless the sequence is released.
func (c *call) lookAgain() error {
	locked(&c.mu, func() { c.look() })
	return c.ended()
}

// stateConfig returns the configuration of states of some rows.
func (c *call) stateConfig(rows int) attn.StateConfig {
	return attn.StateConfig{Batch: 1, Heads: c.q.H, Queries: rows, ValueDim: c.shape.ValueDim}
}

// stepWork bounds approximately the multiply-adds of a worker in a step: a fraction of a second.
const stepWork = 4e9

// rowsOfStep returns the rows of a step: so many that the request and the states in the reply each
// fit a message, and that workers answer before the client's patience ends.
func (c *call) rowsOfStep() int {
	h, pairs := &c.shape, c.pairs()
	workers := max(1, min(len(c.snapshot), c.client.answering()))
	there := 4*int64(c.q.H)*int64(h.HeadDim) + pairs.bytes(attn.Block, c.keys/workers)/attn.Block
	back := 4 * int64(c.q.H) * int64(h.ValueDim+2)
	work := float64(c.q.H) * float64(c.keys) * float64(h.HeadDim+h.ValueDim) / float64(workers)
	rows := max(1, min(c.q.L, int(int64(c.client.config.Chunk)/max(1, there, back)),
		int(min(stepWork/max(1, work), maxLength))))
	if pairs.blocks > 0 && rows < c.q.L {
		return rowsOfBlocks(rows)
	}
	return rows
}

// unseen returns keys that no query of some rows sees.
func (c *call) unseen(first, rows int) unseen {
	return unseen{c.q.Slice(first, first+rows), c.shape.KVHeads, c.sent, !none(&c.opt.Bias)}
}

// visible reports whether some row may see a key of a part. Some parts are always asked: if states
// have rotated outputs the first part, since an empty state of the client is not rotated and would
// not merge unchanged; and all parts if queries are rounded like keys that contain values.
func (c *call) visible(number, first, rows int) bool {
	if number == 0 && c.shape.rotatesOutputs() || c.opt.Integers && c.shape.ValuesInKeys {
		return true
	}
	p := &c.snapshot[number]
	lowest, highest := c.offset+first, c.offset+first+rows-1
	if c.opt.Causal != attn.Full && p.from > highest {
		return false
	}
	w := c.sent.Window
	if w.Left > 0 && p.end()-1 <= lowest-w.Left || w.Right > 0 && p.from >= highest+w.Right {
		return false
	}
	return c.pairsShow(p, first, rows)
}

// rowsDone is the result of some rows over all parts: a state, or outputs.
type rowsDone struct {
	state *attn.State
	*outputs
}

// step computes some rows over all parts.
func (c *call) step(ctx context.Context, first, rows int) (x rowsDone, err error) {
	g := c.begun
	if c.begun = nil; g == nil {
		g = newGather(c, first, rows)
	}
	defer g.close()
	if err := g.gatherStates(ctx); err != nil {
		return x, err
	}
	if len(c.snapshot) == 0 {
		hidden := c.unseen(first, rows)
		x.state, err = hidden.block(g.config, 0)
	} else if x.outputs = g.outputs; x.outputs == nil {
		x.state, err = c.merge(g, first, rows)
	}
	return x, err
}

// merge merges the states of all parts, in their order.
func (c *call) merge(g *gather, first, rows int) (total *attn.State, err error) {
	hidden, between := c.unseen(first, rows), 0
	for i := 0; i < len(c.snapshot) && err == nil; {
		p := &g.parts[i]
		if p.state == nil {
			between += c.snapshot[i].keys
			i++
			continue
		}
		total, err = hidden.follow(total, between, p.state)
		p.state, between = nil, 0
		i += p.span
	}
	if err == nil && between > 0 {
		total, err = hidden.add(total, g.config, between)
	}
	if err != nil {
		_ = total.Close() // it is open, or nil
		return nil, err
	}
	return total, nil
}

// writeResults writes the results of all rows, or nothing if it returns an error.
func (c *call) writeResults(done []rowsDone) (err error) {
	if len(done) == 1 && done[0].state != nil {
		return done[0].state.Finish(c.dst, c.opt.LSE)
	}
	// This state without keys validates dst and LSE as a whole.
	whole, err := attn.NewState(c.stateConfig(c.q.L))
	if err != nil {
		return err
	}
	defer whole.Close() // it is open
	if err := whole.Finish(c.dst, c.opt.LSE); err != nil {
		return err
	}
	for i, x := range done {
		if x.outputs == nil {
			if x.outputs, err = outputsOf(x.state); err != nil {
				return err
			}
		}
		x.writeTo(&c.dst, c.opt.LSE, i*c.rows, c.q.L)
	}
	return nil
}
