package cluster

import (
	"context"
	"errors"
	"time"
)

// copy fetches from another worker the runs that this copy lacks, and again the last run of each
// layer, which may be older. It may end before it has all, and at once when the same request
// arrives again, which then continues where this one was.
func (w *Worker) copy(client clientID, r *copyRequest) (body, error) {
	p, err := w.part(client, r.copy)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(w.ctx, copyPatience) // Close does not wait for it
	defer cancel()
	if before := p.copier.Swap(&cancel); before != nil {
		(*before)()
	}
	err = w.copyWhileAlone(ctx, client, p, r)
	if again := errors.Is(ctx.Err(), context.Canceled) && w.ctx.Err() == nil; err != nil && !again {
		return nil, err
	}
	return &copyReply{p.lengths()}, nil
}

// copyWhileAlone copies when no other request to copy to the same copy runs any more.
func (w *Worker) copyWhileAlone(ctx context.Context, client clientID, p *part,
	r *copyRequest) error {
	select {
	case p.copying <- struct{}{}:
		defer func() { <-p.copying }()
	case <-ctx.Done():
		return fail(ErrUnavailable, "copy %d is being copied to: %v", r.copy, ctx.Err())
	}
	select {
	case w.copying <- struct{}{}:
		defer func() { <-w.copying }()
	default:
		return fail(ErrBusy, "%d copies are being made here, want at most %d at a time",
			cap(w.copying), cap(w.copying))
	}
	until, begun := time.Now().Add(w.copySlice), false
	more := func() bool {
		first := !begun
		begun = true
		return first || time.Now().Before(until)
	}
	for range p.layers { // from where the last call ended, so each makes progress
		if done, err := w.copyLayer(ctx, client, p, r, p.copied, more); !done || err != nil {
			return err
		}
		p.copied = (p.copied + 1) % len(p.layers)
	}
	return nil
}

const (
	// copySlice is the time for which a call copies. The client repeats the call as long as it makes
	// progress, because a part may need long.
	copySlice = 10 * time.Second
	// callPatience bounds the time of one run, before it is requested again.
	callPatience = 5 * time.Second
	// copyPatience bounds the time of a call that copies, with all waiting.
	copyPatience = copySlice + 4*callPatience
	// copyShare is the number of allowed calls for each that may copy.
	copyShare = 4
)

// copyLayer copies the runs of a layer as long as there is time, and reports whether it has all.
func (w *Worker) copyLayer(ctx context.Context, client clientID, p *part, r *copyRequest,
	layer int, more func() bool) (done bool, err error) {
	l := &p.layers[layer]
	l.mu.RLock()
	i := len(l.runs)
	if l.length%p.long != 0 {
		i-- // this run may have grown
	}
	l.mu.RUnlock()
	n := i + 1
	for ; i < n && more(); i++ {
		reply, err := w.fetch(ctx, client, r.from, &readRequest{r.source, r.epoch, uint32(layer),
			uint32(i)})
		if err != nil {
			return false, err
		}
		if n = reply.runs; i < n {
			if err := p.load(r.epoch, layer, i, reply.saved); err != nil {
				return false, err
			}
		}
	}
	return i >= n, nil
}

// fetch asks another worker for a run, when the pace of both allows it.
func (w *Worker) fetch(ctx context.Context, client clientID, from string, r *readRequest) (
	reply readReply, err error) {
	for {
		if err := sleep(ctx, w.takes.wait(time.Now())); err != nil {
			return reply, fail(ErrUnavailable, "copying from another worker: %v", err)
		}
		attempt, cancel := context.WithTimeout(ctx, callPatience)
		data, err := w.transport.Call(attempt, from, r.encode(client))
		late := attempt.Err() != nil
		cancel()
		if err != nil && late && ctx.Err() == nil {
			continue // the request may be lost, or the answer
		}
		if err != nil {
			return reply, err
		}
		d, err := decodeReply(from, data)
		if err != nil {
			return reply, err
		}
		if err := d.read(&reply); err != nil {
			return reply, err
		}
		w.takes.went(len(reply.saved), time.Now())
		if reply.wait == 0 {
			return reply, nil
		}
		if err := sleep(ctx, min(reply.wait, callPatience)); err != nil {
			return reply, fail(ErrUnavailable, "copying from another worker: %v", err)
		}
	}
}
