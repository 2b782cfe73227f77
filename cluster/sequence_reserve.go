package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// The reserve of a part is copies that have not confirmed in time an append which other copies
// applied: the request may be lost, or only the answer. They receive no more tokens, but are kept
// until replacements exist, and are recalled if no other copy is left before. A copy that reports
// that it has all tokens is taken back before a replacement is made. A copy itself knows what it
// lacks: within an epoch the same position has the same token in all copies.

// recall takes copies of the reserve back, if no other copy is left, and reports whether there is a
// copy to ask. They are cut before any new append or copy.
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

// catchesUp reports whether err says that a copy lacks tokens which may still arrive: a worker that
// hung handles in any order the requests that have arrived meanwhile.
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

// takeBack takes back the copies of a part's reserve that report that they have all tokens, and
// reports whether there are any. Copies that report missing tokens are lost, unless a cut is
// missing, too, which proves nothing.
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

// content is what copies of a part must have.
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

// has asks a copy whether it has some content, after the last cut, which it may have missed. The
// request appends nothing.
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

// rejoin takes back a copy of a part's reserve that has some content, if that is still all that
// copies must have; no append is running then.
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

// reserve returns the copies of a part's reserve whose workers are not gone.
func (s *Sequence) reserve(p *sequencePart) []*partCopy {
	copies := s.copiesOf([]*sequencePart{p})
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(copies, func(x *partCopy) bool {
		return !x.behind || x.lost || c.healthOf(x.worker).gone()
	})
}

// caughtUp records that the usable copies of a part have been cut.
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

// loseReserve gives up the copies of a part's reserve on workers with health worst or better.
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

// freeReserves frees the memory of all reserves that can be freed, and reports whether there were
// any.
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
