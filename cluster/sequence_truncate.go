package cluster

import (
	"context"
	"slices"

	"github.com/seed-1415985d/attn"
)

// Truncate drops the tokens at position n and after it, in all layers. n is 0 to the length of the
// longest, or the error is [attn.ErrLength].
func (s *Sequence) Truncate(ctx context.Context, n int) error {
	ctx, end := s.beginCall(ctx)
	defer end()
	if err := s.check(0); err != nil {
		return err
	}
	s.mu.Lock()
	longest := slices.Max(s.lengths)
	s.mu.Unlock()
	if n < 0 || n > longest {
		return fail(attn.ErrLength, "n is %d, want 0 to %d, the positions of the tokens", n, longest)
	}
	if err := s.mended.own(ctx); err != nil {
		return s.orReleased(err)
	}
	defer s.mended.disown()
	return s.orReleased(s.cut(ctx, n))
}

// cut keeps n tokens, or if n is negative as many as lengths: it removes tokens of a failed append.
// Changed parts begin a new epoch, so that late requests are refused. The caller owns mended;
// running appends have ended when something is cut, and new ones see that the sequence is broken
// and wait.
func (s *Sequence) cut(ctx context.Context, n int) error {
	if err := s.change.own(ctx); err != nil {
		return err
	}
	parts, free, lengths := s.cutLengths(n)
	s.change.disown()
	defer func() {
		locked(&s.mu, func() { s.cuts++ })
	}()
	defer s.client.freeSoon(s.copiesOf(free))
	for _, p := range parts {
		if p.index < slices.Min(lengths)/s.tokens && !s.doubts(p) {
			continue
		}
		if err := s.cutPart(ctx, p, lengths); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.broken = slices.ContainsFunc(s.parts, func(p *sequencePart) bool { return p.doubts })
	s.mu.Unlock()
	return nil
}

// cutLengths sets the lengths to n tokens, or keeps them if n is negative. It returns the remaining
// parts, the parts to free, and the lengths of layers.
func (s *Sequence) cutLengths(n int) (parts, free []*sequencePart, lengths []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lengths = slices.Clone(s.lengths)
	for i := range lengths {
		if n >= 0 {
			lengths[i] = min(lengths[i], n)
		}
	}
	keep := min(len(s.parts), (slices.Max(lengths)+s.tokens-1)/s.tokens)
	parts, free = slices.Clone(s.parts[:keep]), slices.Clone(s.parts[keep:])
	// From here on the tokens are gone for the caller, even if messages fail.
	s.lengths, s.taken, s.broken = lengths, slices.Clone(lengths), true
	s.parts = s.parts[:keep]
	s.cuts++
	return parts, free, lengths
}

func (s *Sequence) cutPart(ctx context.Context, p *sequencePart, lengths []int) error {
	s.mu.Lock()
	p.epoch++
	doubts := p.doubts
	p.doubts = false
	r := p.cut.next(p.epoch, s.lengthsIn(p, lengths))
	s.mu.Unlock()
	if err := s.toAll(ctx, &ride{part: p, cut: r}); err != nil {
		locked(&s.mu, func() { p.doubts = p.doubts || doubts })
		return err
	}
	locked(&s.mu, func() { p.cut = r })
	s.sweep(p)
	s.caughtUp(p)
	return nil
}

// next returns the cut of a later epoch. Tokens appended meanwhile may be at positions where a copy
// that missed the cut has other tokens.
func (r *truncateRequest) next(epoch uint32, lengths []uint32) truncateRequest {
	next := truncateRequest{epoch: epoch, since: r.since, lengths: lengths}
	for i, n := range r.lengths {
		if lengths[i] > n {
			next.since = r.epoch
		}
	}
	return next
}

// to returns the cut for a copy.
func (r truncateRequest) to(copy uint64) truncateRequest {
	r.copy = copy
	return r
}

// lengthsIn returns the number of tokens of each layer in a part.
func (s *Sequence) lengthsIn(p *sequencePart, lengths []int) []uint32 {
	in := make([]uint32, len(lengths))
	for i, n := range lengths {
		in[i] = uint32(min(max(0, n-p.index*s.tokens), s.tokens))
	}
	return in
}
