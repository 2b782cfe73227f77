package cluster

import (
	"context"
	"slices"
	"time"
)

// repairAlways makes lost copies again.
func (c *Client) repairAlways() {
	c.every(max(c.config.Patience/2, 10*time.Millisecond), c.kick, func() {
		c.mu.Lock()
		var all []*Sequence
		for s := range c.sequences {
			all = append(all, s)
		}
		c.mu.Unlock()
		for _, s := range all {
			s.repair(c.ctx)
		}
	})
}

// repair makes the missing copies of all parts, as far as there are workers for them.
func (s *Sequence) repair(ctx context.Context) {
	s.mu.Lock()
	parts := slices.Clone(s.parts)
	s.mu.Unlock()
	for _, p := range parts {
		if ctx.Err() != nil {
			return
		}
		s.repairPart(ctx, p)
	}
}

// repairPart makes one more copy of a part, if too few of its copies are on workers that live.
func (s *Sequence) repairPart(ctx context.Context, p *sequencePart) {
	c := s.client
	good, has := s.good(p), map[string]bool{}
	alive := 0
	for _, x := range good {
		has[x.worker] = true
		if !c.gone(x.worker) {
			alive++
		}
	}
	if alive == 0 || alive >= c.config.Copies {
		return
	}
	for _, worker := range rank(c.Workers(), s.id, p.index) {
		if !has[worker] {
			s.copyTo(ctx, p, good[0], worker)
			return
		}
	}
}

// copyTo makes a copy of a part on a worker: most of it while appends go on, the rest while they
// wait.
func (s *Sequence) copyTo(ctx context.Context, p *sequencePart, source *partCopy, worker string) {
	c := s.client
	s.mu.Lock()
	epoch := p.epoch
	at := *p
	s.mu.Unlock()
	x, err := s.create(ctx, &at, worker)
	if err != nil {
		return
	}
	r := copyRequest{copy: x.id, epoch: epoch, from: source.worker, source: source.id}
	lengths, err := c.copy(ctx, worker, &r, copyPatience)
	if err == nil {
		s.change.Lock()
		defer s.change.Unlock()
		s.mu.Lock()
		want := s.lengthsIn(p, s.lengths)
		valid := !s.released && p.epoch == epoch && slices.Contains(s.parts, p) && !s.broken
		s.mu.Unlock()
		if valid && !slices.Equal(lengths, want) {
			lengths, err = c.copy(ctx, worker, &r, 4*c.config.Patience)
		}
		if valid && err == nil && slices.Equal(lengths, want) && !c.isLost(source) && !c.isLost(x) {
			s.join(p, x)
			return
		}
	}
	c.forget(x) // and the worker frees it at the next renewal
}

// copy lets a worker copy, and returns how many tokens it has then.
func (c *Client) copy(ctx context.Context, worker string, r *copyRequest,
	patience time.Duration) ([]uint32, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d, err := c.call(ctx, worker, r.encode(c.id))
	if err != nil {
		return nil, err
	}
	lengths := d.u32s()
	return lengths, d.end()
}

// join counts on a copy from now on, in the place of those that are lost or whose worker is dead.
func (s *Sequence) join(p *sequencePart, x *partCopy) {
	c := s.client
	good := []*partCopy{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, old := range p.copies {
		if c.isLost(old) || c.gone(old.worker) {
			c.forget(old)
			continue
		}
		good = append(good, old)
	}
	p.copies = append(good, x)
}
