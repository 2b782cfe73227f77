package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/seed-1415985d/attn"
)

// gather asks for the state of each part, one copy after the other until one has answered.
type gather struct {
	call        *call
	first, rows int
	q           []float32
	config      attn.StateConfig // of the state of all rows
	parts       []gatherPart     // in the order of the call's parts
	want        []int            // parts with a key that a row sees
	answers     chan *answer
	left        int      // parts that need a state and have none
	outputs     *outputs // of all keys, instead of states
	ride        *ride
	asked       time.Time // when the first requests were sent, including a batch's
	fatal       error     // an error of an answer to a batch
}

// gatherPart is the progress of a part.
type gatherPart struct {
	tried   []*partCopy
	refused []*partCopy // that will never answer,
	refusal error       // and why
	running int         // requests that may still answer
	cause   error

	done  bool        // no query sees its keys, or a state includes them:
	state *attn.State // this state, whose first keys they are, or one of a part before it,
	span  int         // with the keys of that many parts
}

// answer is a request to one worker about some parts, and its reply.
type answer struct {
	g       *gather
	worker  string
	parts   []int // by their number in the call
	copies  []*partCopy
	blocks  []block // of these parts, each with one state
	cuts    int     // of the sequence when the request was sent
	request attendRequest
	ride    *partCopy // the copy that also gets the tokens of a step, if any,
	outcome changeReply
	reply   attendReply
	err     error
}

func newGather(c *call, first, rows int) *gather {
	g := &gather{call: c, first: first, rows: rows, q: columns(&c.q, first, rows, 0, c.q.D),
		config: c.stateConfig(rows), parts: make([]gatherPart, len(c.snapshot)),
		want: make([]int, 0, len(c.snapshot)), ride: c.ride}
	for i := range g.parts {
		if len(g.q) > 0 && c.visible(i, first, rows) {
			g.want = append(g.want, i)
		} else {
			g.parts[i].done = true
		}
	}
	g.left = len(g.want)
	g.answers = make(chan *answer, 2*len(g.want)+16)
	return g
}

// gatherStates gathers the states of all parts with a key that a row sees. Requests of a batch have
// been sent already.
func (g *gather) gatherStates(ctx context.Context) error {
	if g.fatal != nil || g.left == 0 {
		return g.fatal
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	patience, wait := g.call.client.config.Patience, time.Millisecond
	first := patience
	g.askMissing(ctx, 0)
	if !g.asked.IsZero() {
		first -= time.Since(g.asked)
		if err := g.exhausted(ctx, &wait); err != nil {
			return err
		}
	}
	late := time.NewTimer(first)
	defer late.Stop()
	for g.left > 0 {
		var err error
		select {
		case a := <-g.answers:
			err = g.keepAnswer(a)
			g.askMissing(ctx, 0)
		case <-late.C: // workers that have not answered may hang
			late.Reset(patience)
			g.askMissing(ctx, g.call.client.config.Copies)
			err = g.full()
		case <-ctx.Done():
			return g.failure(ctx.Err())
		}
		if err == nil {
			err = g.exhausted(ctx, &wait)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// takeHere handles the answers that have arrived, and reports whether all states are there.
func (g *gather) takeHere() bool {
	for g.left > 0 && g.fatal == nil {
		select {
		case a := <-g.answers:
			g.fatal = g.keepAnswer(a)
		default:
			return false
		}
	}
	return g.fatal == nil
}

// stuck reports whether the running requests cannot complete all states.
func (g *gather) stuck() bool {
	return g.fatal != nil || slices.ContainsFunc(g.want, func(i int) bool {
		return !g.parts[i].done && g.parts[i].running == 0
	})
}

// askMissing asks further copies of parts with at most running running requests.
func (g *gather) askMissing(ctx context.Context, running int) {
	var missing []int
	for _, i := range g.want {
		if !g.parts[i].done && g.parts[i].running <= running {
			missing = append(missing, i)
		}
	}
	g.ask(ctx, missing)
}

// ask asks another copy of each of some parts, with one request for each worker.
func (g *gather) ask(ctx context.Context, parts []int) {
	if len(parts) == 0 {
		return
	}
	wants := g.wants(nil, 0, parts)
	requests, _ := g.requests(wants, spread(wants))
	for _, a := range requests {
		all := []*answer{a}
		send := func() { g.call.client.askSteps(ctx, all, func() { land(ctx, all) }) }
		if sizeOf(&a.request) > pieceSize {
			g.call.client.staff.run(send)
		} else {
			send()
		}
	}
}

// wants adds the parts that have copies to ask next, of a sequence of a batch: all copies on
// equally reliable workers.
func (g *gather) wants(all []want, sequence int, parts []int) []want {
	c := g.call.client
	all = slices.Grow(all, len(parts))
	copies := make([]*partCopy, 0, 2*len(parts)) // of all parts
	defer g.call.lockAll()()
	for _, i := range parts {
		from, least := len(copies), int(healths)
		for _, x := range g.call.snapshot[i].part.copies {
			if !x.counts() || g.parts[i].has(x) {
				continue
			}
			switch doubt := c.doubt(x); {
			case doubt < least:
				copies, least = append(copies[:from], x), doubt
			case doubt == least:
				copies = append(copies, x)
			}
		}
		if next := slices.Clip(copies[from:]); len(next) > 0 {
			all = append(all, want{sequence, i, g.call.snapshot[i].keys, next})
		}
	}
	return all
}

// has reports whether a copy must not be asked: it was asked already, or will never answer.
func (p *gatherPart) has(x *partCopy) bool {
	return slices.Contains(p.tried, x) || slices.Contains(p.refused, x)
}

// requests returns the requests to chosen copies, one for each worker unless it has too many bytes,
// and the copies that do not get the tokens of a step with them.
func (g *gather) requests(wants []want, chosen []*partCopy) (all []*answer, rest []*partCopy) {
	for n, x := range chosen {
		i := wants[n].part
		if p := &g.parts[i]; p.tried == nil {
			p.tried = chosen[n : n+1 : n+1] // most parts are asked once
		} else {
			p.tried = append(p.tried, x)
		}
		g.parts[i].running++
		at := slices.IndexFunc(all, func(a *answer) bool { return a.worker == x.worker })
		if at < 0 {
			at, all = len(all), append(all, &answer{g: g, worker: x.worker,
				parts: make([]int, 0, len(chosen)), copies: make([]*partCopy, 0, len(chosen))})
		}
		a := all[at]
		a.parts, a.copies = append(a.parts, i), append(a.copies, x)
	}
	if g.ride != nil {
		rest = g.call.missing(g.ride)
	}
	whole := all
	for all = nil; len(whole) > 0; whole = whole[1:] {
		all = append(all, g.cut(whole[0])...)
		last := all[len(all)-1] // the end, if the worker is asked for it
		at := slices.IndexFunc(rest, func(x *partCopy) bool { return x.worker == last.worker })
		if at >= 0 {
			last.ride = g.ride.fly(rest[at])
			rest = slices.Delete(rest, at, at+1)
		}
	}
	for _, a := range all {
		a.request = g.request(a)
	}
	return all, rest
}

// answer handles the reply to a request, or its error. It does not wait.
func (g *gather) answer(ctx context.Context, a *answer) {
	select {
	case g.answers <- a:
	default:
		g.call.client.staff.run(func() {
			select {
			case g.answers <- a:
			case <-ctx.Done():
			}
		})
	}
}

// request returns the message to a worker.
func (g *gather) request(a *answer) attendRequest {
	c := g.call
	r := attendRequest{layer: uint32(c.layer), heads: c.q.H, rows: g.rows, q: g.q, options: c.sent,
		pairs: c.pairs(), whole: g.isWhole(a.blocks), groups: make([]attendGroup, len(a.blocks))}
	parts := make([]attendPart, len(a.parts))
	c.mu.Lock() // a failed append to another layer may have changed epochs since the call began
	a.cuts = c.cuts
	for n, i := range a.parts {
		parts[n].epoch = c.snapshot[i].part.epoch
	}
	c.mu.Unlock()
	for j, b := range a.blocks {
		end := c.snapshot[b.first].from // of the part before it, where the state continues
		r.groups[j] = attendGroup{offset: c.offset + g.first - end, parts: parts[b.at:b.to]}
		for n := b.at; n < b.to; n++ {
			p, x := &c.snapshot[a.parts[n]], &parts[n]
			x.copy, x.keys, x.first, x.before = a.copies[n].id, p.keys, p.from%c.tokens, p.from-end
			x.mask = columns(&c.opt.Mask, g.first, g.rows, p.from, p.keys)
			x.bias = columns(&c.opt.Bias, g.first, g.rows, p.from, p.keys)
			x.blocks = columns(&c.opt.Blocks, g.first/attn.Block, blocksOf(g.rows), p.from/attn.Block,
				blocksOf(p.keys))
			end = p.end()
		}
		r.groups[j].after = c.snapshot[b.end-1].end() - end
	}
	return r
}

// columns copies some rows and columns of a view with an element for each pair, if it is given.
func columns[T any](x *attn.View[T], row, rows, from, n int) []T {
	if none(x) {
		return nil
	}
	out := make([]T, 0, x.H*rows*n)
	for h := range x.H {
		for i := row; i < row+rows; i++ {
			out = append(out, x.Row(0, h, i)[from:][:n]...)
		}
	}
	return out
}

// requestPatience bounds the wait for a request, which may be lost, in multiples of the client's
// patience.
const requestPatience = 10

// exhausted is called after an answer. If no request for a part is running any more, it starts
// again after a while, or returns an error if all copies are lost.
func (g *gather) exhausted(ctx context.Context, wait *time.Duration) error {
	var again []int
	for _, i := range g.want {
		p := &g.parts[i]
		if p.done || p.running > 0 {
			continue
		}
		alive := slices.ContainsFunc(g.call.good(g.call.snapshot[i].part), func(x *partCopy) bool {
			return !slices.Contains(p.refused, x) && g.call.client.member(x.worker).health != dead
		})
		switch {
		case !alive && p.refusal != nil:
			return p.refusal
		case !alive && !g.call.recall(g.call.snapshot[i].part):
			return g.call.lostError(g.call.snapshot[i].part, p.cause)
		}
		again = append(again, i)
	}
	if len(again) == 0 {
		return nil
	}
	if sleep(ctx, *wait) != nil {
		return g.failure(ctx.Err())
	}
	*wait = min(2*(*wait), 100*time.Millisecond)
	for _, i := range again {
		g.parts[i].tried = nil
	}
	g.ask(ctx, again)
	return nil
}

// close releases the memory of the states.
func (g *gather) close() {
	for i := range g.parts {
		_ = g.parts[i].state.Close() // they are open, or nil
	}
}

// failure returns an error that names the part for which there was not enough time.
func (g *gather) failure(cause error) error {
	for _, i := range g.want {
		if g.parts[i].done {
			continue
		}
		p := &g.call.snapshot[i]
		return fail(ErrUnavailable, "no answer for positions %d to %d of sequence %x: %v; the last "+
			"error is: %v", p.from, p.end()-1, g.call.id, cause, g.parts[i].cause)
	}
	return cause
}
