package cluster

import "time"

// renew keeps a client's copies alive, and frees copies that it does not list: their release was
// lost, or they were made by a call that the client gave up.
func (w *Worker) renew(client clientID, r *renewRequest) (body, error) {
	if err := w.checkNamed(r.copies); err != nil {
		return nil, err
	}
	known := make(map[uint64]bool, len(r.copies))
	for _, copy := range r.copies {
		known[copy] = true
	}
	var missing, unknown []uint64
	w.mu.Lock()
	o := w.owner(client, r.lease)
	for _, copy := range r.copies {
		if o.copies[copy] == nil {
			missing = append(missing, copy)
		}
	}
	for copy := range o.copies {
		if copy <= r.horizon && !known[copy] {
			unknown = append(unknown, copy)
		}
	}
	if len(o.copies) == 0 {
		delete(w.clients, client) // nothing to keep
	}
	w.mu.Unlock()
	w.remove(client, unknown)
	return &renewReply{missing}, nil
}

// endLeases frees the copies of clients that are not heard of any more. It counts ticks instead of
// time, so that a worker that was stopped for long first reads the messages that have arrived
// meanwhile. It does not count ticks without a connection, when nobody can be heard, unless that
// lasts longer than Outage; leases start again afterwards.
func (w *Worker) endLeases() {
	every := max(w.config.Lease/leaseTicks, time.Millisecond)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for stands := false; ; {
		select {
		case <-w.ctx.Done():
			return
		case <-tick.C:
		}
		away, _ := outageOf(w.transport)
		if away > 0 && away <= w.config.Outage {
			stands = true
			continue
		}
		w.mu.Lock()
		var ended []clientID
		for id, o := range w.clients {
			if stands {
				o.idle = 0
			}
			if o.idle++; time.Duration(o.idle-1)*every > o.lease {
				ended = append(ended, id)
			}
		}
		w.mu.Unlock()
		stands = false
		for _, id := range ended {
			w.drop(id)
		}
	}
}
