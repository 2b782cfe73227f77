package cluster

import (
	"context"

	"github.com/seed-1415985d/attn"
)

// Attend computes attention of queries over all tokens of a layer:
//
//	q   [1, H, L, HeadDim]     KVHeads divides H
//	dst [1, H, L, ValueDim]
//
// The bits are those of [attn.AttendSequences] over the same tokens on one machine. Options mean
// what they mean to [attn.Attend] with as many keys as the layer has tokens: BottomRight lets the
// last query see the last token, the other alignments take Offset. Mask and Bias [1, H or 1, L,
// tokens] travel to the workers with the queries. LSE is filled. KeyLens, QueryLens and Weights are
// [attn.ErrUnsupported].
//
// If it returns an error, it has written nothing. With tokens of which no copy is left that is a
// [*LostError].
func (s *Sequence) Attend(ctx context.Context, layer int, dst, q attn.Tensor,
	opt *attn.Options) error {
	ctx, end := s.begin(ctx)
	defer end()
	if err := s.check(layer); err != nil {
		return err
	}
	if opt == nil {
		opt = new(attn.Options)
	}
	c, err := s.newCall(layer, dst, q, opt)
	if err != nil {
		return err
	}
	s.mendSoon()
	// Rows go in as many steps as their states take messages. What is computed waits for the last
	// of them, so that an error leaves dst as it is.
	var done []*attn.State
	for first := 0; first < q.L; first += c.rows {
		state, err := c.step(ctx, first, min(c.rows, q.L-first))
		if err != nil {
			return s.orReleased(err)
		}
		done = append(done, state)
	}
	return c.finish(done)
}

// attendCall is a call of Attend.
type attendCall struct {
	*Sequence
	layer  uint32
	dst, q attn.Tensor
	opt    *attn.Options
	keys   int
	offset int          // position of query 0
	window *attn.Window // with bounds that can be added to positions
	rows   int          // of a step
	parts  []callPart
}

// callPart is a part as it was when a call began.
type callPart struct {
	*sequencePart
	epoch uint32
	keys  int
}

// newCall validates the arguments of a call.
func (s *Sequence) newCall(layer int, dst, q attn.Tensor, opt *attn.Options) (*attendCall, error) {
	c := &attendCall{Sequence: s, layer: uint32(layer), dst: dst, q: q, opt: opt, offset: opt.Offset,
		window: clampWindow(opt.Window)}
	s.mu.Lock()
	released := s.released
	c.keys = s.lengths[layer]
	for _, p := range s.parts {
		if keys := min(s.tokens, c.keys-p.index*s.tokens); keys > 0 {
			c.parts = append(c.parts, callPart{p, p.epoch, keys})
		}
	}
	s.mu.Unlock()
	if released {
		return nil, s.orReleased(nil)
	}
	if err := c.checkOptions(); err != nil {
		return nil, err
	}
	if opt.Causal == attn.BottomRight {
		c.offset = c.keys - q.L
	}
	h := &s.shape
	switch {
	case q.B != 1 || q.D != h.headDim || q.H%h.kvHeads != 0:
		return nil, fail(attn.ErrShape, "q is [%d %d … %d], want [1 a multiple of %d … %d]", q.B, q.H,
			q.D,
			h.kvHeads, h.headDim)
	case dst.B != 1 || dst.H != q.H || dst.L != q.L || dst.D != h.valueDim:
		return nil, fail(attn.ErrShape, "dst is [%d %d %d %d], want [1 %d %d %d]", dst.B, dst.H, dst.L,
			dst.D, q.H, q.L, h.valueDim)
	case opt.LSE != nil && len(opt.LSE) != q.H*q.L:
		return nil, fail(attn.ErrLength, "len(LSE) is %d, want %d×%d", len(opt.LSE), q.H, q.L)
	}
	c.rows = c.rowsOfStep()
	_, err := c.unseen(0, q.L, 0) // which validates q and the other options
	return c, err
}

// stepWork is about how many multiply-adds a worker does in a step: a fraction of a second.
const stepWork = 4e9

// rowsOfStep is how many rows go in a step: those whose states are a message, and that workers can
// compute before anybody loses patience.
func (c *attendCall) rowsOfStep() int {
	h := &c.shape
	bytes := 4 * c.q.H * (h.valueDim + 2)
	work := float64(c.q.H) * float64(c.keys) * float64(h.headDim+h.valueDim)
	work /= float64(max(1, min(len(c.parts), len(c.client.Workers()))))
	return max(1, min(c.q.L, c.client.config.Chunk/max(1, bytes), int(min(stepWork/max(1, work),
		most))))
}

// unseen is the state of rows over a part of which they see nothing, of so many keys.
func (c *attendCall) unseen(first, rows, keys int) (*attn.State, error) {
	h := &c.shape
	s, err := attn.NewState(1, c.q.H, rows, h.valueDim)
	if err != nil {
		return nil, err
	}
	none := attn.Tensor{Data: make([]float32, max(h.headDim, h.valueDim)), B: 1, H: h.kvHeads, L: keys}
	k, v := none, none
	k.D, v.D = h.headDim, h.valueDim
	wire := c.wire()
	opt := wire.options(c.offset + first)
	opt.KeyLens = []int{0}
	if c.opt.Bias != nil { // its values do not matter, but that there is one
		opt.Bias = &attn.Tensor{Data: make([]float32, keys), B: 1, H: 1, L: rows, D: keys}
	}
	return s, s.Update(c.queries(first, rows), k, v, opt)
}

// queries are some rows of q.
func (c *attendCall) queries(first, rows int) attn.Tensor {
	q := c.q
	q.L = rows
	if !(q.H == 0 || rows == 0) {
		q.Data = q.Data[min(len(q.Data), first*q.SL):]
	}
	return q
}

// visible reports whether some row may see a key of a part. Parts whose states have rotated outputs
// are always asked: what is empty here is not rotated, and would not merge with them as it is.
func (c *attendCall) visible(p *callPart, first, rows int) bool {
	if c.shape.rotatesOutputs() {
		return true
	}
	from, to := p.index*c.tokens, p.index*c.tokens+p.keys
	lowest, highest := c.offset+first, c.offset+first+rows-1
	if c.opt.Causal != attn.Full && from > highest {
		return false
	}
	if w := c.window; w != nil {
		if w.Left >= 0 && to <= lowest-w.Left || w.Right >= 0 && from > highest+w.Right {
			return false
		}
	}
	return true
}

// step computes the state of some rows over all parts, in their order.
func (c *attendCall) step(ctx context.Context, first, rows int) (*attn.State, error) {
	g := newGather(c, first, rows)
	if err := g.run(ctx); err != nil {
		return nil, err
	}
	if len(c.parts) == 0 {
		return c.unseen(first, rows, 0)
	}
	var total *attn.State
	for i := 0; i < len(c.parts); i += max(1, g.parts[i].span) {
		s, err := g.parts[i].state, error(nil)
		if s == nil {
			s, err = c.unseen(first, rows, c.parts[i].keys)
		}
		if err == nil && total != nil {
			err = total.Merge(s)
		}
		if err != nil {
			return nil, err
		}
		if total == nil {
			total = s
		}
		g.parts[i].state = nil
	}
	return total, nil
}

// finish writes the results of all rows. The first writes nothing if dst is wrong.
func (c *attendCall) finish(done []*attn.State) error {
	for i, state := range done {
		first := i * c.rows
		dst := c.dst
		dst.L = min(c.rows, c.q.L-first)
		if len(done) > 1 && i == 0 {
			if err := c.checkWhole(state); err != nil {
				return err
			}
		}
		if dst.H > 0 {
			dst.Data = dst.Data[min(len(dst.Data), first*dst.SL):]
		}
		lse := c.opt.LSE
		if lse != nil && len(done) > 1 {
			lse = make([]float32, c.q.H*dst.L)
		}
		if err := state.Finish(dst, lse); err != nil {
			return err
		}
		if lse != nil && len(done) > 1 {
			for h := range c.q.H {
				copy(c.opt.LSE[h*c.q.L+first:][:dst.L], lse[h*dst.L:])
			}
		}
	}
	return nil
}

// checkWhole makes sure that all of dst can be written, before a part of it is: by the checks of a
// call that has nothing to compute.
func (c *attendCall) checkWhole(*attn.State) error {
	var last int
	if c.dst.H > 0 && c.dst.L > 0 {
		last = end(c.dst.H, c.dst.L, c.dst.D, c.dst.SH, c.dst.SL)
	}
	if len(c.dst.Data) < last {
		return fail(attn.ErrLength, "len(dst.Data) is %d, want at least %d", len(c.dst.Data), last)
	}
	return nil
}
