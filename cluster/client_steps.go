package cluster

import (
	"context"
)

// batch is steps whose first requests to a worker go as one.
type batch struct{}

func (b *batch) leave() {}

func (b *batch) take(ctx context.Context, g *gather, requests []*answer) bool { return false }

// sendStep sends requests of some calls to a worker as one, and reads what comes back.
func (c *Client) sendStep(ctx context.Context, worker string, gathers []*gather, all []*answer) {
	var r stepRequest
	var parts []int
	appends := 0
	for i, a := range all {
		if a.ride != nil {
			r.appends = append(r.appends, gathers[i].ride.to(a.ride.id))
		}
		if len(a.parts) > 0 {
			r.attends, parts = append(r.attends, a.request), append(parts, len(a.parts))
		}
	}
	appends = len(r.appends)
	var reply stepReply
	d, err := c.call(ctx, worker, r.encode(c.id))
	if err == nil {
		err = reply.decode(d, worker, appends, parts)
	}
	for _, a := range all {
		if a.err = err; err != nil {
			continue
		}
		if a.ride != nil {
			a.outcome, reply.appends = reply.appends[0], reply.appends[1:]
		}
		if len(a.parts) > 0 {
			a.reply, a.err = reply.attends[0].attendReply, reply.attends[0].err
			reply.attends = reply.attends[1:]
		}
	}
}
