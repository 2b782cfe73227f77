package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// The reserve of a part is copies that have not said in time that they took an append which others
// took: the request may be lost, or the answer only. They get no more, but are kept until others
// are there in their place, and are recalled if none is left before. Those that say that they have
// all are taken back, before others are made. What they lack they say themselves: within an epoch
// the same position has the same token in all copies.

// recall counts again on the reserve of a part, if no other copy is left, and reports whether there
// is a copy to be asked. Before anything but what runs is appended or copied, they are cut.
func (s *Sequence) recall(p *sequencePart) bool {
	c := s.client
	defer s.lockAll()()
	for _, x := range p.copies {
		if x.counts() && c.healthOf(x.worker) != dead {
			return true
		}
	}
	some := false
	for _, x := range p.copies {
		if x.behind && !x.lost {
			x.behind, some = false, true
		}
	}
	if some {
		p.doubts, s.broken = true, true
		wake(c.kick)
	}
	return some
}

// catchesUp reports whether an error is that a copy lacks something which may be on its way to it
// or wait there: a worker that hung does in any order what has come meanwhile.
func (c *Client) catchesUp(x *partCopy, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x.late.IsZero() || x.lost || !errors.Is(err, errStale) {
		return false
	}
	now := c.now()
	if !x.lacks {
		x.lacks = true
		if soon := now.Add(c.config.Patience); soon.After(x.late) {
			x.late = soon
		}
	}
	return now.Before(x.late)
}

// takeBack counts again on those of a part's reserve that say that they have all, and reports
// whether it is any. Those that say that they lack something are of no use any more, but for what
// is not cut yet, which says nothing.
func (s *Sequence) takeBack(ctx context.Context, p *sequencePart) (any bool) {
	c := s.client
	for _, x := range s.reserve(p) {
		all := s.content(p)
		switch err := c.has(ctx, x, all); {
		case err == nil:
			any = s.rejoin(ctx, p, x, all) || any
		case s.isBroken(), s.content(p).epoch != all.epoch:
		case errors.Is(err, errUnknown), errors.Is(err, errStale) && !c.catchesUp(x, err):
			c.lose(x)
		}
	}
	return any
}

// content is what copies of a part have to have.
type content struct {
	epoch   uint32
	cut     truncateRequest
	lengths []uint32
}

func (s *Sequence) content(p *sequencePart) content {
	s.mu.Lock()
	defer s.mu.Unlock()
	return content{p.epoch, p.cut, s.lengthsIn(p, s.taken)}
}

// has asks a copy whether it has some content, after the last cut, which it may have missed: it is
// to append nothing then.
func (c *Client) has(ctx context.Context, x *partCopy, all content) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.Patience)
	defer cancel()
	var r stepRequest
	if all.cut.epoch > 0 {
		r.cuts = []truncateRequest{all.cut.to(x.id)}
	}
	var appends []appendRequest
	for i, n := range all.lengths {
		appends = append(appends, appendRequest{copy: x.id, epoch: all.epoch, layer: uint32(i),
			position: int(n)})
	}
	for r.appends = range slices.Chunk(appends, mostSteps) {
		reply, err := c.step(ctx, x.worker, &r)
		if err = cmp.Or(err, reply.error()); err != nil {
			return err
		}
	}
	return nil
}

// rejoin counts again on a copy of a part's reserve that has some content, if that is all that
// copies have to have: no append is running then.
func (s *Sequence) rejoin(ctx context.Context, p *sequencePart, x *partCopy, has content) bool {
	leave, err := s.alone(ctx)
	if err != nil {
		return false
	}
	defer leave()
	all := s.content(p)
	defer s.lockAll()()
	if s.broken || all.epoch != has.epoch || !slices.Equal(all.lengths, has.lengths) || x.lost {
		return false
	}
	x.behind, x.lacks, x.late = false, false, time.Time{}
	return true
}

// reserve are the copies of a part's reserve whose workers are not gone.
func (s *Sequence) reserve(p *sequencePart) []*partCopy {
	copies := s.copiesOf([]*sequencePart{p})
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(copies, func(x *partCopy) bool {
		return !x.behind || x.lost || c.healthOf(x.worker).gone()
	})
}

// caughtUp notes that the copies of a part that are counted on have been cut.
func (s *Sequence) caughtUp(p *sequencePart) {
	good := s.good(p)
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	for _, x := range good {
		x.late, x.lacks = time.Time{}, false
	}
}

// doubts reports whether copies of a part were recalled and not cut since.
func (s *Sequence) doubts(p *sequencePart) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.doubts
}

// loseReserve gives up those copies of a part's reserve whose workers are in some health or better.
func (s *Sequence) loseReserve(p *sequencePart, worst health) {
	c := s.client
	defer s.lockAll()()
	for _, x := range p.copies {
		if x.behind && c.healthOf(x.worker) <= worst {
			x.lost = true
			wake(c.kick)
		}
	}
}

// freeReserves frees the memory of all reserves that can be freed, and reports whether it was any.
func (c *Client) freeReserves() bool {
	var lost []*partCopy
	for _, s := range c.all() {
		for _, p := range s.all() {
			s.loseReserve(p, slow)
			lost = append(lost, s.takeLost(p)...)
		}
	}
	c.free(lost)
	return len(lost) > 0
}
