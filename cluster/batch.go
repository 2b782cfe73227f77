package cluster

import (
	"context"
	"slices"
	"time"
)

// batch is steps of sequences that need not wait for anything. Requests to a worker are one
// message, and copies are chosen so that all workers have about as much work for the whole batch.
type batch struct {
	client *Client
	steps  []*call
	landed chan []*answer // of messages that have an answer
	rest   []func()       // sends messages that no step waits for
}

// add adds a step, if its first requests need not wait: nobody else changes or reads the layer,
// copies have the tokens of earlier steps, nothing is being cut, and the tokens go with the queries
// to the end of the sequence. The call then owns the layer, and shares change.
func (b *batch) add(c *call) (added bool) {
	if !c.layers[c.layer].tryOwn() {
		return false
	}
	defer func() {
		if !added {
			c.layers[c.layer].disown()
		}
	}()
	if !c.change.tryShare() {
		return false
	}
	if !c.ready() {
		c.ride = nil
		c.change.unshare()
		return false
	}
	c.begun = newGather(c, 0, c.q.L)
	c.begun.asked = time.Now()
	b.steps = append(b.steps, c)
	return true
}

// ready prepares a step, and reports whether it need not wait.
func (c *call) ready() bool {
	last := c.settledEnd()
	if last == nil || c.messageLength(0) < c.k.L {
		return false
	}
	c.mu.Lock()
	c.keys = c.length + c.k.L
	c.look()
	c.mu.Unlock()
	c.align()
	r, err := c.messageTo(last, 0, c.k.L)
	c.ride = r
	return err == nil && c.carries()
}

// settledEnd returns the part for the tokens if they are one message, or nil if the step has to
// wait. It sets the number of tokens before them.
func (c *call) settledEnd() *sequencePart {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.length = c.lengths[c.layer]
	end := c.length + c.k.L
	if c.released || c.broken || c.follows[c.layer] != nil || c.taken[c.layer] != c.length ||
		c.pause != nil && c.pause.Err() == nil || c.k.L == 0 || end > maxLength ||
		(end-1)/c.tokens >= len(c.parts) {
		return nil
	}
	return c.parts[(end-1)/c.tokens]
}

// send sends the requests of all steps.
func (b *batch) send(ctx context.Context) {
	byWorker, count := b.items(), 0
	for _, items := range byWorker {
		count += len(items)
	}
	b.landed = make(chan []*answer, count) // no goroutine waits to report the end of a message
	for _, items := range byWorker {
		for len(items) > 0 {
			n := b.client.fitting(items)
			some := items[:n:n]
			if slices.ContainsFunc(some, func(x *answer) bool { return len(x.parts) > 0 }) {
				b.sendItems(ctx, some)
			} else {
				b.rest = append(b.rest, func() { b.sendItems(ctx, some) })
			}
			items = items[n:]
		}
	}
}

// items returns the requests of steps to each worker, and sets rest to the tokens for further
// copies.
func (b *batch) items() map[string][]*answer {
	var wants []want
	for i, x := range b.steps {
		wants = x.begun.wants(wants, i, x.begun.want)
	}
	chosen := spread(wants)
	byWorker, from := map[string][]*answer{}, 0
	for i, x := range b.steps {
		to := from
		for to < len(wants) && wants[to].sequence == i {
			to++
		}
		g := x.begun
		answers, rest := g.requests(wants[from:to], chosen[from:to])
		from = to
		for _, y := range rest {
			answers = append(answers, &answer{g: g, worker: y.worker, ride: g.ride.fly(y)})
		}
		for _, a := range answers {
			byWorker[a.worker] = append(byWorker[a.worker], a)
		}
	}
	return byWorker
}

// sendRest sends tokens to workers without other requests, after the requests that steps wait for.
func (b *batch) sendRest() {
	for _, send := range b.rest {
		send()
	}
}

// fitting returns how many items fit one message, request and reply, at least one.
func (c *Client) fitting(items []*answer) (n int) {
	for bytes := 0; n < min(len(items), mostSteps); n++ {
		x := items[n]
		back := 4 * len(x.parts) * x.g.config.Heads * x.g.config.Queries * (x.g.config.ValueDim + 2)
		if bytes += sizeOf(&x.request) + x.g.ride.size() + back; n > 0 && bytes > c.config.Chunk {
			break
		}
	}
	return n
}

// sendItems sends one message.
func (b *batch) sendItems(ctx context.Context, items []*answer) {
	c := b.client
	ended := func() {
		land(ctx, items)
		b.landed <- items
	}
	if !c.enter() {
		for _, x := range items { // a closed client has ended them
			x.err = fail(ErrUnavailable, "nothing was sent")
		}
		ended()
		return
	}
	c.askSteps(c.ctx, items, func() {
		defer c.wg.Done()
		ended()
	})
}

// land passes the outcome of a message to its items.
func land(ctx context.Context, items []*answer) {
	for _, x := range items { // before a step can return and another one waits for its copies
		x.g.ride.land(x)
	}
	for _, x := range items {
		if len(x.parts) > 0 {
			x.g.answer(ctx, x)
		}
	}
}

// wait calls end for each step: when it is complete, or when a worker has not answered as expected
// and the step continues alone.
func (b *batch) wait(ctx context.Context, end func(x *call, alone bool)) {
	patience := time.NewTimer(b.client.config.Patience)
	defer patience.Stop()
	for left := len(b.steps); left > 0; {
		select {
		case items := <-b.landed:
			for _, x := range items {
				if x.g.call.over || len(x.parts) == 0 {
					continue
				}
				if has := x.g.takeHere(); has || x.g.stuck() {
					x.g.call.over = true
					end(x.g.call, !has || !x.g.call.tryFollow(x.g.call.ride, false))
					left--
				}
			}
			continue
		case <-patience.C:
		case <-ctx.Done():
		}
		for _, x := range b.steps {
			if !x.over {
				end(x, true)
			}
		}
		return
	}
}

// askSteps sends requests of some steps to their worker as one message, and calls ended when the
// reply is read.
func (c *Client) askSteps(ctx context.Context, items []*answer, ended func()) {
	ctx, cancel := context.WithTimeout(ctx, requestPatience*c.config.Patience)
	var r stepRequest
	for _, x := range items {
		if x.ride != nil {
			r.appends = append(r.appends, x.g.ride.to(x.ride.id))
		}
		if len(x.parts) > 0 {
			r.attends = append(r.attends, x.request)
		}
	}
	reply := replyTo(&r)
	c.ask(ctx, items[0].worker, r.encode(c.id), func(d *codec, err error) {
		cancel()
		if err == nil {
			err = d.read(&reply)
		}
		reply.passOutcomes(items, err)
		ended()
	})
}

// passOutcomes passes the outcomes, or the error instead, to the requests.
func (r *stepReply) passOutcomes(items []*answer, err error) {
	changes, attends := r.changes, r.attends
	for _, x := range items {
		x.err = err
		if err == nil && x.ride != nil {
			x.outcome, changes = changes[0], changes[1:]
		}
		if err == nil && len(x.parts) > 0 {
			x.reply, attends = attends[0], attends[1:]
			x.err = x.reply.err
		}
	}
}
