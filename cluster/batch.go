package cluster

import (
	"context"
	"slices"
	"time"
)

// batch is steps of sequences of which none waits for anything. What goes to a worker is one
// message, and copies are asked so that all workers have about as much to do for all of them.
type batch struct {
	client *Client
	steps  []*batchStep
	landed chan []item // of messages that have come back
	rest   []func()    // sends messages that no step waits for
}

// batchStep is a step in a batch. Its sequence's layer is owned, and change is shared.
type batchStep struct {
	attendCall
	own    rows
	number int // of its sequence among those of the call
	adds   tokens
	ended  bool
}

// item is what a step asks a worker.
type item struct {
	step *batchStep
	g    *gather
	a    *answer
}

// add takes a step, if nothing is to be waited for before its first requests: nobody else changes
// or reads the layer, copies have what they follow to take, nothing is cut, and the tokens go with
// the queries to where the end is.
func (b *batch) add(number int, s *Sequence, layer int, own rows) (added bool) {
	if !s.layers[layer].tryOwn() {
		return false
	}
	defer func() {
		if !added {
			s.layers[layer].disown()
		}
	}()
	if !s.change.tryShare() {
		return false
	}
	defer func() {
		if !added {
			s.change.unshare()
		}
	}()
	x := &batchStep{own: own, number: number,
		adds: tokens{layer: layer, k: own.k, v: own.v}}
	x.attendCall = s.callOf(layer, own.dst, own.q, &x.own.opt)
	if !x.ready() {
		return false
	}
	x.begun = newGather(&x.attendCall, 0, own.q.L)
	x.begun.asked = time.Now()
	b.steps = append(b.steps, x)
	return true
}

// ready prepares a step, and reports whether it waits for nothing.
func (x *batchStep) ready() bool {
	s, t := x.Sequence, &x.adds
	last := s.settledEnd(t)
	if last == nil || s.messageLength(t, 0) < t.k.L {
		return false
	}
	s.mu.Lock()
	x.keys = t.length + t.k.L
	x.look()
	s.mu.Unlock()
	x.align()
	r, err := s.messageTo(last, t, 0, t.k.L)
	x.ride = r
	return err == nil && x.carries()
}

// settledEnd is the part that some tokens go to if they are one message, nil if there is something
// to be waited for. It notes how many tokens there are before them.
func (s *Sequence) settledEnd(t *tokens) *sequencePart {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.length = s.lengths[t.layer]
	end := t.length + t.k.L
	if s.released || s.broken || s.follows[t.layer] != nil || s.taken[t.layer] != t.length ||
		s.pause != nil && s.pause.Err() == nil || t.k.L == 0 || end > most ||
		(end-1)/s.tokens >= len(s.parts) {
		return nil
	}
	return s.parts[(end-1)/s.tokens]
}

// send asks for all that steps want.
func (b *batch) send(ctx context.Context) {
	byWorker, count := b.items(), 0
	for _, items := range byWorker {
		count += len(items)
	}
	b.landed = make(chan []item, count) // nobody waits to say what has become of a message
	for worker, items := range byWorker {
		for len(items) > 0 {
			n := b.client.fitting(items)
			some := items[:n:n]
			if slices.ContainsFunc(some, func(x item) bool { return len(x.a.parts) > 0 }) {
				b.sendItems(ctx, worker, some)
			} else {
				b.rest = append(b.rest, func() { b.sendItems(ctx, worker, some) })
			}
			items = items[n:]
		}
	}
}

// items are what steps ask each worker, and the tokens that they send to further copies.
func (b *batch) items() map[string][]item {
	var wants []want
	for i, x := range b.steps {
		wants = x.begun.wants(wants, i, x.begun.want)
	}
	chosen := spread(wants)
	byWorker, from := map[string][]item{}, 0
	for i, x := range b.steps {
		to := from
		for to < len(wants) && wants[to].sequence == i {
			to++
		}
		g := x.begun
		asked, rest := g.requests(wants[from:to], chosen[from:to])
		from = to
		for _, y := range rest {
			asked = append(asked, &answer{worker: y.worker, ride: g.ride.fly(y)})
		}
		for _, a := range asked {
			byWorker[a.worker] = append(byWorker[a.worker], item{x, g, a})
		}
	}
	return byWorker
}

// sendRest sends tokens to workers that nothing was asked of, after the steps: they wait for none.
func (b *batch) sendRest() {
	for _, send := range b.rest {
		send()
	}
}

// fitting is how many of some items go in one message: as many as a client's messages have bytes
// for, there and back, but at least one.
func (c *Client) fitting(items []item) (n int) {
	for bytes := 0; n < min(len(items), mostSteps); n++ {
		x := items[n]
		back := 4 * len(x.a.parts) * x.g.config.Heads * x.g.config.Queries * (x.g.config.ValueDim + 2)
		if bytes += sizeOf(&x.a.request) + x.g.ride.size() + back; n > 0 && bytes > c.config.Chunk {
			break
		}
	}
	return n
}

// sendItems sends one message.
func (b *batch) sendItems(ctx context.Context, worker string, items []item) {
	c := b.client
	if !c.enter() {
		for _, x := range items { // a closed client has ended them
			x.a.err = fail(ErrUnavailable, "nothing was sent")
		}
		b.land(ctx, items)
		return
	}
	limited, cancel := context.WithTimeout(c.ctx, requestPatience*c.config.Patience)
	c.askSteps(limited, worker, items, func() {
		defer c.wg.Done()
		cancel()
		b.land(ctx, items)
	})
}

// land gives what has become of a message to those that it is of.
func (b *batch) land(ctx context.Context, items []item) {
	for _, x := range items { // before a step can return, and another one waits for its copies
		x.g.ride.land(x.a)
	}
	for _, x := range items {
		if len(x.a.parts) > 0 {
			x.g.answer(ctx, x.a)
		}
	}
	b.landed <- items
}

// wait calls end for each step: when it has what it wants, or when somebody has not answered as
// hoped for and it is to go on alone.
func (b *batch) wait(ctx context.Context, end func(x *batchStep, alone bool)) {
	patience := time.NewTimer(b.client.config.Patience)
	defer patience.Stop()
	for left := len(b.steps); left > 0; {
		select {
		case items := <-b.landed:
			for _, x := range items {
				if x.step.ended || len(x.a.parts) == 0 {
					continue
				}
				if has := x.g.takeHere(); has || x.g.stuck() {
					x.step.ended = true
					end(x.step, !has || !x.step.tryFollow(x.step.ride, false))
					left--
				}
			}
			continue
		case <-patience.C:
		case <-ctx.Done():
		}
		for _, x := range b.steps {
			if !x.ended {
				end(x, true)
			}
		}
		return
	}
}

// end ends a step.
func (x *batchStep) end(ctx context.Context) error {
	err := x.takeStep(ctx, &x.adds, &x.attendCall)
	if err == nil {
		x.own.done()
	}
	return err
}

// askSteps sends requests of some steps to a worker as one, and calls ended when what comes back is
// read.
func (c *Client) askSteps(ctx context.Context, worker string, items []item, ended func()) {
	var r stepRequest
	for _, x := range items {
		if x.a.ride != nil {
			r.appends = append(r.appends, x.g.ride.to(x.a.ride.id))
		}
		if len(x.a.parts) > 0 {
			r.attends = append(r.attends, x.a.request)
		}
	}
	reply := replyTo(&r)
	c.ask(ctx, worker, r.encode(c.id), func(d *codec, err error) {
		if err == nil {
			err = d.read(&reply)
		}
		reply.give(items, err)
		ended()
	})
}

// give gives the outcomes to what was asked for, or the error that there is instead.
func (r *stepReply) give(items []item, err error) {
	changes, attends := r.changes, r.attends
	for _, x := range items {
		x.a.err = err
		if err == nil && x.a.ride != nil {
			x.a.outcome, changes = changes[0], changes[1:]
		}
		if err == nil && len(x.a.parts) > 0 {
			x.a.reply, attends = attends[0], attends[1:]
			x.a.err = x.a.reply.err
		}
	}
}
