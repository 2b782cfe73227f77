package cluster

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// batch is steps whose first requests to a worker go as one, when all have said what they are.
type batch struct {
	client *Client

	mu      sync.Mutex
	waiting int // steps that have not said it
	gone    bool
	items   map[string][]item // by worker
}

// item is what a step asks a worker.
type item struct {
	row int
	ctx context.Context
	g   *gather
	a   *answer
}

// seat is a step's place in a batch. It is said once what comes with it.
type seat struct {
	*batch
	row  int // of its sequence among those of the batch
	said bool
}

// batchWaits is the part of a client's patience that requests wait for others of their batch. Steps
// that have to wait for something leave it; this is for those that do not know that they have to.
const batchWaits = 4

// take takes the first requests of a step, if the batch has not gone. Tokens for further copies go
// where others ask something.
func (x *seat) take(ctx context.Context, g *gather, requests []*answer) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.said || x.gone {
		return false
	}
	if x.items == nil {
		x.items = map[string][]item{}
		time.AfterFunc(x.client.config.Patience/batchWaits, x.hurry)
	}
	for _, a := range append(requests, g.rest(requests)...) {
		x.items[a.worker] = append(x.items[a.worker], item{x.row, ctx, g, a})
	}
	x.say()
	return true
}

// leave is that nothing comes with a seat, if something has not: the step goes on by itself.
func (x *seat) leave() {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.said {
		x.say()
	}
}

// say lets the batch go if it has waited for this step only. The lock is held.
func (x *seat) say() {
	x.said = true
	if x.waiting--; x.waiting == 0 {
		x.send()
	}
}

// hurry lets the batch go.
func (b *batch) hurry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.send()
}

// send sends what there is, if it has not gone. The lock is held.
func (b *batch) send() {
	if b.gone {
		return
	}
	b.gone = true
	for worker, items := range b.items {
		slices.SortStableFunc(items, func(x, y item) int { return cmp.Compare(x.row, y.row) })
		for len(items) > 0 {
			n := b.client.fitting(items)
			b.client.sendItems(worker, items[:n:n])
			items = items[n:]
		}
	}
}

// fitting is how many of some items go in one message: as many as a client's messages have bytes
// for, there and back, but at least one.
func (c *Client) fitting(items []item) (n int) {
	for bytes := 0; n < min(len(items), mostSteps); n++ {
		x := items[n]
		back := 4 * len(x.a.parts) * x.g.config.Heads * x.g.config.Queries * (x.g.config.ValueDim + 2)
		if bytes += x.a.request.size() + x.g.ride.size() + back; n > 0 && bytes > c.config.Chunk {
			break
		}
	}
	return n
}

// sendItems sends one message, if somebody asks for something with it.
func (c *Client) sendItems(worker string, items []item) {
	asks := false
	for _, x := range items {
		asks = asks || len(x.a.parts) > 0
	}
	run := func() {
		ctx, cancel := context.WithTimeout(c.ctx, requestPatience*c.config.Patience)
		defer cancel()
		c.sendSteps(ctx, worker, items)
		for _, x := range items { // before a step can return, and another one waits for its copies
			x.g.ride.land(x.a)
		}
		for _, x := range items {
			if len(x.a.parts) > 0 {
				x.g.answer(x.ctx, x.a)
			}
		}
	}
	if asks && c.background(run) {
		return
	}
	for _, x := range items { // copies follow; a closed client has ended the others
		x.a.err = fail(ErrUnavailable, "nothing was sent")
		x.g.ride.land(x.a)
	}
}

// sendSteps sends requests of some steps to a worker as one, and reads what comes back.
func (c *Client) sendSteps(ctx context.Context, worker string, items []item) {
	var r stepRequest
	var parts []int
	for _, x := range items {
		if x.a.ride != nil {
			r.appends = append(r.appends, x.g.ride.to(x.a.ride.id))
		}
		if n := len(x.a.parts); n > 0 {
			r.attends, parts = append(r.attends, x.a.request), append(parts, n)
		}
	}
	var reply stepReply
	d, err := c.call(ctx, worker, r.encode(c.id))
	if err == nil {
		err = reply.decode(d, worker, len(r.appends), parts)
	}
	for _, x := range items {
		if x.a.err = err; err != nil {
			continue
		}
		if x.a.ride != nil {
			x.a.outcome, reply.appends = reply.appends[0], reply.appends[1:]
		}
		if len(x.a.parts) > 0 {
			x.a.reply, x.a.err = reply.attends[0].attendReply, reply.attends[0].err
			reply.attends = reply.attends[1:]
		}
	}
}
