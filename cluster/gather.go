package cluster

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/seed-1415985d/attn"
)

// gather asks for the state of each part, of one copy after the other until one has answered.
type gather struct {
	call        *attendCall
	first, rows int
	q           []float32
	config      attn.StateConfig // of each state
	parts       []gatherPart     // as those of the call
	answers     chan *answer
	left        int // parts without a state that need one
	ride        *ride
	seat        *seat // in a batch that the first requests go with
}

// gatherPart is how far a part is.
type gatherPart struct {
	tried   []*partCopy
	refused []*partCopy // which will never answer,
	refusal error       // and why
	running int         // requests that may still answer
	cause   error

	done  bool        // a state has its keys:
	state *attn.State // this one, which begins with them, or one of a part before it,
	span  int         // of that many parts
}

// answer is what one worker is asked about some parts, and what it says.
type answer struct {
	worker  string
	parts   []int // by their number in the call
	copies  []*partCopy
	joins   []bool // to the part before it
	cuts    int    // of the sequence, when it was asked
	request attendRequest
	ride    *partCopy // that the tokens of a step go to, too, if there are any,
	outcome appendOutcome
	reply   attendReply
	err     error
}

func newGather(c *attendCall, first, rows int) *gather {
	return &gather{call: c, first: first, rows: rows, q: gatherHeads(c.q.Slice(first, first+rows)),
		config: c.stateConfig(rows), parts: make([]gatherPart, len(c.snapshot)), ride: c.ride,
		seat: c.seat}
}

// gatherHeads copies a view, one head after another.
func gatherHeads(x attn.Tensor) []float32 {
	out := make([]float32, 0, x.H*x.L*x.D)
	for h := range x.H {
		for i := range x.L {
			out = append(out, x.Row(0, h, i)...)
		}
	}
	return out
}

// run gathers the states of all parts of which a row sees a key.
func (g *gather) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var want []int
	for i := range g.parts {
		if len(g.q) > 0 && g.call.visible(&g.call.snapshot[i], g.first, g.rows) {
			want = append(want, i)
		}
	}
	g.left = len(want)
	g.answers = make(chan *answer, 2*len(want)+16)
	g.ask(ctx, want)
	patience := time.NewTicker(g.call.client.config.Patience)
	defer patience.Stop()
	for wait := time.Millisecond; g.left > 0; {
		var err error
		select {
		case a := <-g.answers:
			err = g.take(a)
			g.askMissing(ctx, want, 0)
		case <-patience.C: // who has not answered may hang
			g.askMissing(ctx, want, g.call.client.config.Copies)
			err = g.full()
		case <-ctx.Done():
			return g.failure(want, ctx.Err())
		}
		if err == nil {
			err = g.exhausted(ctx, want, &wait)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// askMissing asks further copies of parts for which at most a number of requests runs.
func (g *gather) askMissing(ctx context.Context, want []int, running int) {
	var missing []int
	for _, i := range want {
		if !g.parts[i].done && g.parts[i].running <= running {
			missing = append(missing, i)
		}
	}
	g.ask(ctx, missing)
}

// ask asks another copy of each of some parts, with one request for each worker.
func (g *gather) ask(ctx context.Context, want []int) {
	if len(want) == 0 {
		return
	}
	var parts, keys []int
	var copies [][]*partCopy
	var holders [][]string
	for _, i := range want {
		next := g.untried(i)
		if len(next) == 0 {
			continue
		}
		names := make([]string, len(next))
		for n, x := range next {
			names[n] = x.worker
		}
		parts, keys = append(parts, i), append(keys, g.call.snapshot[i].keys)
		copies, holders = append(copies, next), append(holders, names)
	}
	requests := map[string]*answer{}
	for n, worker := range spread(parts, holders, keys) {
		i, x := parts[n], copies[n][slices.Index(holders[n], worker)]
		g.parts[i].tried = append(g.parts[i].tried, x)
		g.parts[i].running++
		a := requests[worker]
		if a == nil {
			a = &answer{worker: worker}
			requests[worker] = a
		}
		a.parts, a.copies = append(a.parts, i), append(a.copies, x)
	}
	for _, a := range requests {
		a.joins = joins(a.parts, len(g.parts))
		a.request = g.request(a)
		a.ride = g.rideOn(a.worker)
	}
	g.dispatch(ctx, slices.Collect(maps.Values(requests)))
}

// dispatch sends requests, those that a batch does not take by themselves.
func (g *gather) dispatch(ctx context.Context, requests []*answer) {
	if g.seat != nil && g.seat.take(ctx, g, requests) {
		return
	}
	for _, a := range requests {
		g.call.client.staff.run(func() {
			g.send(ctx, a)
			g.ride.land(a)
			g.answer(ctx, a)
		})
	}
}

// answer is called when a request has an answer, or an error.
func (g *gather) answer(ctx context.Context, a *answer) {
	select {
	case g.answers <- a:
	case <-ctx.Done():
	}
}

// untried are the copies of a part to ask next, all of workers that are to be relied on alike; none
// if all were asked.
func (g *gather) untried(i int) []*partCopy {
	tried := func(x *partCopy) bool { return slices.Contains(g.parts[i].tried, x) }
	good := slices.DeleteFunc(g.willing(i), tried)
	c := g.call.client
	c.mu.Lock()
	defer c.mu.Unlock()
	for n, x := range good {
		if c.doubt(x) > c.doubt(good[0]) {
			return good[:n]
		}
	}
	return good
}

// willing are the copies of a part that are of use and have not refused to answer.
func (g *gather) willing(i int) []*partCopy {
	return slices.DeleteFunc(g.call.good(g.call.snapshot[i].part), func(x *partCopy) bool {
		return slices.Contains(g.parts[i].refused, x)
	})
}

// request is what is asked of a worker.
func (g *gather) request(a *answer) attendRequest {
	c := g.call
	r := attendRequest{layer: c.layer, heads: c.q.H, rows: g.rows, q: g.q, options: c.wire()}
	epochs := make([]uint32, len(a.parts))
	c.mu.Lock() // an append to another layer that failed may have changed epochs since the call began
	a.cuts = c.cuts
	for n, i := range a.parts {
		epochs[n] = c.snapshot[i].part.epoch
	}
	c.mu.Unlock()
	for n, i := range a.parts {
		p := &c.snapshot[i]
		from := p.part.index * c.tokens
		x := attendPart{copy: a.copies[n].id, epoch: epochs[n], keys: p.keys,
			offset: c.offset + g.first - from, joins: a.joins[n]}
		if m := &c.opt.Mask; !none(m) {
			x.maskHeads, x.mask = m.H, columns(m, g.first, g.rows, from, p.keys)
		}
		if b := &c.opt.Bias; !none(b) {
			x.biasHeads, x.bias = b.H, columns(b, g.first, g.rows, from, p.keys)
		}
		r.parts = append(r.parts, x)
	}
	return r
}

// columns copies some rows and columns of a mask or bias.
func columns[T any](x *attn.View[T], row, rows, from, n int) []T {
	out := make([]T, 0, x.H*rows*n)
	for h := range x.H {
		for i := row; i < row+rows; i++ {
			out = append(out, x.Row(0, h, i)[from:][:n]...)
		}
	}
	return out
}

// send sends a request and reads what comes back.
func (g *gather) send(ctx context.Context, a *answer) {
	c := g.call.client
	ctx, cancel := context.WithTimeout(ctx, requestPatience*c.config.Patience)
	defer cancel()
	if a.ride != nil {
		c.sendSteps(ctx, a.worker, []item{{0, ctx, g, a}})
		return
	}
	d, err := c.call(ctx, a.worker, a.request.encode(c.id))
	if err == nil {
		err = a.reply.decode(d, a.worker, len(a.parts))
	}
	a.err = err
}

// requestPatience is how many times a client's patience a request is waited for: it may be lost.
const requestPatience = 10

// exhausted is called when somebody has answered. For a part that nobody is asked for any more, it
// begins again after a while, or says that all copies are gone.
func (g *gather) exhausted(ctx context.Context, want []int, wait *time.Duration) error {
	var again []int
	for _, i := range want {
		p := &g.parts[i]
		if p.done || p.running > 0 {
			continue
		}
		alive := false
		for _, x := range g.willing(i) {
			alive = alive || g.call.client.health(x.worker) != dead
		}
		switch {
		case !alive && p.refusal != nil:
			return p.refusal
		case !alive:
			return g.call.lostError(g.call.snapshot[i].part, p.cause)
		}
		again = append(again, i)
	}
	if len(again) == 0 {
		return nil
	}
	select {
	case <-time.After(*wait):
	case <-ctx.Done():
		return g.failure(want, ctx.Err())
	}
	*wait = min(2*(*wait), 100*time.Millisecond)
	for _, i := range again {
		g.parts[i].tried = nil
	}
	g.ask(ctx, again)
	return nil
}

// close gives back the memory of the states.
func (g *gather) close() {
	for i := range g.parts {
		_ = g.parts[i].state.Close() // they are open, or nil
	}
}

// failure says for which part there was not enough time.
func (g *gather) failure(want []int, cause error) error {
	for _, i := range want {
		if g.parts[i].done {
			continue
		}
		p := &g.call.snapshot[i]
		from := p.part.index * g.call.tokens
		return fail(ErrUnavailable, "no answer for positions %d to %d of sequence %x: %v; the last "+
			"error is: %v", from, from+p.keys-1, g.call.id, cause, g.parts[i].cause)
	}
	return cause
}
