package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed-1415985d/attn"
)

// noteFull records that a worker had no memory for an append to copies.
func (c *Client) noteFull(copies []*partCopy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range copies {
		x.full = true
	}
}

// makeRoom makes a copy of a part on a worker with memory for it to grow, when no worker of its
// copies has any: then the append continues there, and the full copies are given up. If no worker
// has memory, it returns full.
func (s *Sequence) makeRoom(ctx context.Context, p *sequencePart, full error) error {
	select {
	case p.moving <- struct{}{}:
		defer func() { <-p.moving }()
	case <-ctx.Done():
		return noTime(ctx, full)
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		if err := s.mend(ctx); err != nil {
			return err
		}
		if s.hasRoom(p) {
			return nil
		}
		hope := false
		for _, worker := range s.roomiest(ctx, p) {
			err := s.copyTo(ctx, p, worker)
			if err == nil {
				return nil
			}
			hope = hope || !(errors.Is(err, attn.ErrCapacity) || errors.Is(err, ErrLimit) || refuses(err))
		}
		if !hope && s.client.freeReserves() {
			return nil
		}
		if !hope {
			return full
		}
		if sleep(ctx, wait) != nil {
			return noTime(ctx, full)
		}
	}
}

// noTime returns an error that says that there was no time to look for memory, not that there is
// none.
func noTime(ctx context.Context, full error) error {
	return fail(ErrUnavailable, "moving a part whose workers are full: %v; %v", ctx.Err(), full)
}

// hasRoom reports whether to retry an append to a part: a copy was not full, or the part does not
// exist any more.
func (s *Sequence) hasRoom(p *sequencePart) bool {
	s.mu.Lock()
	there := slices.Contains(s.parts, p)
	s.mu.Unlock()
	good := s.good(p)
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	return !there || len(good) == 0 ||
		slices.ContainsFunc(good, func(x *partCopy) bool { return !x.full })
}

// roomiest returns the workers without a copy of a part that may have memory for one: by rank those
// with memory for it to grow, then the others by descending memory.
func (s *Sequence) roomiest(ctx context.Context, p *sequencePart) []string {
	c := s.client
	all := s.without(p, c.takers())
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			if now, err := c.status(ctx, all[i].Worker); err == nil {
				all[i] = now
			}
		})
	}
	wg.Wait()
	least, enough := s.needs(p)
	var ample, scarce []Status
	for _, w := range all {
		switch {
		case w.Leaving || w.Free() < least:
		case w.Free() >= enough:
			ample = append(ample, w)
		default:
			scarce = append(scarce, w)
		}
	}
	slices.SortFunc(scarce, func(a, b Status) int { return cmp.Compare(b.Free(), a.Free()) })
	names := rank(ample, s.id, p.index)
	for _, w := range scarce {
		names = append(names, w.Worker)
	}
	return names
}

// without returns the workers without a usable copy of a part.
func (s *Sequence) without(p *sequencePart, workers []Status) []Status {
	good := s.good(p)
	return slices.DeleteFunc(workers, func(w Status) bool {
		return slices.ContainsFunc(good, func(x *partCopy) bool { return x.worker == w.Worker })
	})
}

// needs returns the least memory for a copy of a part, with a page to grow, and the memory that
// lets it stay for a while: a quarter more, and a segment of each layer, but no more than a whole
// part. So the copied bytes are at most a few times the appended bytes, however full workers are.
func (s *Sequence) needs(p *sequencePart) (least, enough int64) {
	config := s.shape.storeConfig()
	page := pageBytes(&config)
	s.mu.Lock()
	for _, n := range s.lengthsIn(p, s.taken) {
		least += int64(pagesOf(int(n))) * page
	}
	s.mu.Unlock()
	layers := int64(s.shape.Layers) * page
	whole := layers * int64(pagesOf(s.tokens))
	enough = min(whole, least+max(least/4, layers*int64(pagesOf(attn.Segment))))
	return min(whole, least+page), enough
}

// status asks a worker for its current Status.
func (c *Client) status(ctx context.Context, worker string) (s Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Patience)
	defer cancel()
	err = c.tell(ctx, worker, encodeRequest(opStatus, c.id, nothing{}), &s)
	return s, err
}
