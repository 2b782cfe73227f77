package cluster

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/seed-1415985d/attn"
)

// repairAlways makes lost copies again, and moves copies that cannot stay.
func (c *Client) repairAlways() {
	c.every(max(c.config.Patience/2, 10*time.Millisecond), c.kick, func() {
		for _, s := range c.all() {
			s.repair(s.ctx)
		}
	})
}

// all returns all sequences, always in the same order.
func (c *Client) all() []*Sequence {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Keys(c.sequences), func(a, b *Sequence) int {
		return cmp.Compare(a.id, b.id)
	})
}

// repair makes the missing copies of all parts, as far as there are workers for them.
func (s *Sequence) repair(ctx context.Context) {
	for _, p := range s.all() {
		s.recall(p)
	}
	mend, cancel := context.WithTimeout(ctx, 4*s.client.config.Patience)
	_ = s.mend(mend) // if it fails, copies wait until it succeeds
	cancel()
	for _, p := range s.all() {
		if ctx.Err() != nil {
			return
		}
		if s.wants(p) {
			s.repairBeside(ctx, p)
		}
	}
}

// wants reports whether copies of a part may need work.
func (s *Sequence) wants(p *sequencePart) bool {
	c := s.client
	s.sweep(p)
	good := s.good(p)
	alive, staying := c.count(good)
	return alive > 0 && (staying < c.config.Copies || len(good) > c.config.Copies ||
		slices.ContainsFunc(good, func(x *partCopy) bool {
			return c.member(x.worker).share(0) > nearlyFull
		}))
}

// repairBeside repairs a part on another goroutine, as many parts at a time as the client allows.
// Only the repair goroutine calls it.
func (s *Sequence) repairBeside(ctx context.Context, p *sequencePart) {
	c := s.client
	select {
	case c.moves <- struct{}{}:
	case <-ctx.Done():
		return
	}
	select {
	case p.moving <- struct{}{}:
		c.wg.Go(func() {
			s.repairPart(ctx, p)
			<-p.moving
			<-c.moves
		})
	default: // a copy is being made
		<-c.moves
	}
}

// count returns how many copies are on workers that were heard of recently, and on workers that
// stay.
func (c *Client) count(copies []*partCopy) (alive, staying int) {
	for _, x := range copies {
		m := c.member(x.worker)
		if !m.health.gone() {
			alive++
		}
		if m.stays() {
			staying++
		}
	}
	return alive, staying
}

// repairPart makes one more copy of a part, if too few of its copies are on workers that stay.
func (s *Sequence) repairPart(ctx context.Context, p *sequencePart) {
	c := s.client
	s.sweep(p)
	good := s.good(p)
	alive, staying := c.count(good)
	switch {
	case alive == 0:
	case staying < c.config.Copies:
		s.addCopy(ctx, p, staying)
	case len(good) > c.config.Copies:
		s.trim(ctx, p)
	default:
		s.level(ctx, p)
	}
}

// addCopy makes a copy of a part on a worker with memory for it to grow; for the last copy, if its
// worker leaves, on a worker with any memory. Without another worker, copies on leaving workers are
// given up if another copy stays.
func (s *Sequence) addCopy(ctx context.Context, p *sequencePart, staying int) {
	c := s.client
	if s.takeBack(ctx, p) {
		return
	}
	candidates := s.without(p, c.takers())
	if len(candidates) == 0 && staying > 0 {
		s.giveUp(ctx, p, func(good []*partCopy) []*partCopy {
			leaving := slices.DeleteFunc(slices.Clone(good), func(x *partCopy) bool {
				return !c.member(x.worker).status.Leaving
			})
			if len(leaving) > 0 && !slices.ContainsFunc(good, func(x *partCopy) bool {
				return c.member(x.worker).stays() && c.has(ctx, x, s.content(p)) == nil
			}) { // the copy that was to stay is lost, or may be
				return nil
			}
			return leaving
		})
		return
	}
	targets := rank(slices.DeleteFunc(candidates, func(w Status) bool {
		_, enough := s.needs(p)
		m := c.member(w.Worker)
		return w.Free()-m.promised < enough || m.refused.After(c.now())
	}), s.id, p.index)
	if staying == 0 && len(targets) == 0 {
		targets = s.roomiest(ctx, p)
	}
	for _, worker := range targets {
		if s.moveTo(ctx, p, worker) {
			return
		}
	}
}

// moveTo makes a copy of a part on a worker, and gives up surplus copies.
func (s *Sequence) moveTo(ctx context.Context, p *sequencePart, worker string) bool {
	c := s.client
	least, _ := s.needs(p)
	c.update(worker, func(m *member) { m.promised += least })
	err := s.copyTo(ctx, p, worker)
	c.update(worker, func(m *member) {
		if m.promised -= least; errors.Is(err, attn.ErrCapacity) {
			m.refused = c.now().Add(8 * c.config.Patience)
		}
	})
	if err == nil {
		s.trim(ctx, p)
	}
	return err == nil
}

// The fraction of its memory that a nearly full worker uses, and the largest fraction, with the
// copy, of a worker to which a copy moves from there. The gap between them keeps copies from moving
// back and forth.
const (
	nearlyFull  = 0.9
	fairlyEmpty = 0.7
)

// level moves a copy of a part from a nearly full worker to one where it would be placed now. The
// next move waits until the worker has announced its new memory.
func (s *Sequence) level(ctx context.Context, p *sequencePart) {
	c := s.client
	if !c.levelling.TryLock() {
		return
	}
	defer c.levelling.Unlock()
	if c.now().Sub(c.levelled) < c.config.Gone {
		return
	}
	takers := c.takers()
	if !slices.ContainsFunc(s.good(p), func(x *partCopy) bool {
		return c.member(x.worker).share(0) > nearlyFull && c.member(x.worker).said.After(c.levelled)
	}) {
		return
	}
	least, _ := s.needs(p)
	first := rank(takers, s.id, p.index)
	first = first[:min(len(first), c.config.Copies)]
	for _, w := range s.without(p, takers) {
		if slices.Contains(first, w.Worker) && c.member(w.Worker).share(least) < fairlyEmpty {
			s.moveTo(ctx, p, w.Worker)
			c.levelled = c.now().Add(c.config.Patience) // until its memory is freed
			return
		}
	}
}

var (
	// errMeanwhile: a copy was made of tokens that the sequence does not have any more.
	errMeanwhile = errors.New("cluster: the sequence has changed meanwhile")
	// errBehind: a copy lacks tokens that were appended meanwhile.
	errBehind = errors.New("cluster: the sequence has grown meanwhile")
)

// copyTo makes a copy of a part on a worker: most of it while appends continue, the rest during a
// short pause of appends.
func (s *Sequence) copyTo(ctx context.Context, p *sequencePart, worker string) error {
	c := s.client
	good := s.good(p)
	if len(good) == 0 {
		return errMeanwhile
	}
	source := good[0]
	s.mu.Lock()
	at := sequencePart{index: p.index, epoch: p.epoch}
	s.mu.Unlock()
	x, err := s.create(ctx, &at, worker)
	if err != nil {
		return err
	}
	r := copyRequest{copy: x.id, epoch: at.epoch, from: source.worker, source: source.id}
	lengths, err := s.copyMost(ctx, p, worker, &r)
	for i := 0; err == nil; i++ {
		err = s.join(ctx, p, x, source, at.epoch, lengths)
		if i == catchUps || !errors.Is(err, errBehind) {
			break
		}
		resume := s.pauseAppends(ctx, min(c.config.Patience/4<<i, c.config.Patience))
		defer resume()
		lengths, err = c.copy(ctx, worker, &r, 4*c.config.Patience)
	}
	if err != nil {
		c.freeSoon([]*partCopy{x})
	}
	return err
}

// copyMost makes a worker copy a part as long as it makes progress: the part may grow meanwhile,
// but not as fast.
func (s *Sequence) copyMost(ctx context.Context, p *sequencePart, worker string, r *copyRequest) (
	lengths []uint32, err error) {
	s.mu.Lock()
	expected := s.lengthsIn(p, s.taken)
	s.mu.Unlock()
	for {
		before := lengths
		if lengths, err = s.client.copy(ctx, worker, r, copyPatience); err != nil {
			return nil, err
		}
		if len(lengths) != len(expected) {
			return nil, fail(ErrProtocol, "worker %s has %d layers, want %d", worker, len(lengths),
				len(expected))
		}
		lacks := false
		for i, n := range expected {
			lacks = lacks || lengths[i] < n
		}
		if !lacks || slices.Equal(lengths, before) {
			return lengths, nil
		}
	}
}

// catchUps is how often a copy may fetch tokens that were appended meanwhile, with a longer pause
// of appends each time: a worker that hangs gets only the first.
const catchUps = 4

// pauseAppends waits for running appends and makes new ones wait, at most for longest.
func (s *Sequence) pauseAppends(ctx context.Context, longest time.Duration) (resume func()) {
	pause, resume := context.WithTimeout(ctx, longest)
	locked(&s.mu, func() { s.pause = pause })
	if s.change.own(pause) == nil {
		s.change.disown()
	}
	return resume
}

// copy makes a worker copy, and returns the number of its tokens afterwards. It asks again if an
// answer may be lost; the worker then continues where it is.
func (c *Client) copy(ctx context.Context, worker string, r *copyRequest,
	patience time.Duration) (lengths []uint32, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for wait := 4 * c.config.Patience; ; wait *= 2 {
		attempt, cancel := context.WithTimeout(ctx, wait)
		var reply copyReply
		err = c.tell(attempt, worker, r.encode(c.id), &reply)
		late := attempt.Err() != nil
		cancel()
		if err == nil || !late || ctx.Err() != nil {
			return reply.lengths, err
		}
	}
}

// join adds a copy to the part, if it has all tokens of the part; no append is running then.
func (s *Sequence) join(ctx context.Context, p *sequencePart, x, source *partCopy, epoch uint32,
	lengths []uint32) error {
	leave, err := s.alone(ctx)
	if err != nil {
		return err
	}
	defer leave()
	lost := s.client.isLost(source) || s.client.isLost(x)
	s.mu.Lock()
	switch {
	case lost || s.released || p.epoch != epoch || !slices.Contains(s.parts, p) || s.broken:
		err = errMeanwhile
	case !slices.Equal(lengths, s.lengthsIn(p, s.taken)):
		err = errBehind
	default:
		p.copies = append(slices.Clone(p.copies), x)
	}
	s.mu.Unlock()
	if err == nil {
		s.sweep(p)
	}
	return err
}

// trim gives up surplus copies of a part: first on dead or leaving workers, then on the fullest.
func (s *Sequence) trim(ctx context.Context, p *sequencePart) {
	c := s.client
	s.giveUp(ctx, p, func(good []*partCopy) []*partCopy {
		slices.SortStableFunc(good, func(a, b *partCopy) int {
			switch stays := c.member(a.worker).stays(); {
			case stays == c.member(b.worker).stays():
				return cmp.Compare(c.member(a.worker).share(0), c.member(b.worker).share(0))
			case stays:
				return -1
			}
			return 1
		})
		return good[min(c.config.Copies, len(good)):]
	})
}

// giveUp gives up some of a part's copies, while no append is running.
func (s *Sequence) giveUp(ctx context.Context, p *sequencePart,
	which func(good []*partCopy) []*partCopy) {
	if len(which(s.good(p))) == 0 {
		return
	}
	leave, err := s.alone(ctx)
	if err != nil {
		return // next time
	}
	defer leave()
	if s.isBroken() { // some may lack tokens that others have
		return
	}
	for _, x := range which(s.good(p)) {
		s.client.lose(x)
	}
	s.sweep(p)
}
