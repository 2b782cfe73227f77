package cluster

import (
	"errors"
	"time"
)

// The reserve of a part is copies that have not said in time that they took an append which others
// took: the request may be lost, or the answer only. They get no more, but are kept until others
// are there in their place, and are recalled if none is left before. What they lack they say
// themselves: within an epoch the same position has the same token in all copies.

// recall counts again on the reserve of a part, if no other copy is left, and reports whether there
// is a copy to be asked. Before anything but what runs is appended or copied, they are cut.
func (s *Sequence) recall(p *sequencePart) bool {
	c := s.client
	s.mu.Lock()
	defer s.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range p.copies {
		if x.counts() && c.healthOf(c.members[x.worker]) != dead {
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
	s.mu.Lock()
	defer s.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range p.copies {
		if x.behind && c.healthOf(c.members[x.worker]) <= worst {
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
