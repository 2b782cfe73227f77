package cluster

import (
	"context"
	"slices"

	"github.com/seed-1415985d/attn"
)

// Truncate drops the tokens at position n and after it, in all layers. n is 0 to the length of the
// longest, or the error is [attn.ErrLength].
func (s *Sequence) Truncate(ctx context.Context, n int) error {
	ctx, cancel := s.client.limit(ctx)
	defer cancel()
	if err := s.check(ctx, 0); err != nil {
		return err
	}
	s.mu.Lock()
	longest := slices.Max(s.lengths)
	s.mu.Unlock()
	if n < 0 || n > longest {
		return fail(attn.ErrLength, "n is %d, want 0 to %d, the positions of the tokens", n, longest)
	}
	s.change.Lock()
	defer s.change.Unlock()
	return s.cut(ctx, n)
}

// cut leaves n tokens, or if n is negative those that lengths say: what of an append went to copies
// before it failed goes away. Parts that change begin a new epoch, so that what of the past still
// comes is refused. The lock of changes is held.
func (s *Sequence) cut(ctx context.Context, n int) error {
	s.mu.Lock()
	lengths, longest := slices.Clone(s.lengths), 0
	for i := range lengths {
		if n >= 0 {
			lengths[i] = min(lengths[i], n)
		}
		longest = max(longest, lengths[i])
	}
	shortest := slices.Min(lengths)
	keep := min(len(s.parts), (longest+s.tokens-1)/s.tokens)
	parts, free := slices.Clone(s.parts[:keep]), slices.Clone(s.parts[keep:])
	// From here on the tokens are gone for the caller, whatever becomes of the messages.
	s.lengths, s.taken, s.broken = lengths, slices.Clone(lengths), true
	s.parts = s.parts[:keep]
	s.cuts++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.cuts++
		s.mu.Unlock()
	}()
	for i := min(len(parts), shortest/s.tokens); i < len(parts); i++ {
		if err := s.cutPart(ctx, parts[i], lengths); err != nil {
			s.freeParts(free)
			return err
		}
	}
	s.freeParts(free)
	s.mu.Lock()
	s.broken = false
	s.mu.Unlock()
	return nil
}

func (s *Sequence) cutPart(ctx context.Context, p *sequencePart, lengths []int) error {
	s.mu.Lock()
	p.epoch++
	r := truncateRequest{epoch: p.epoch, lengths: s.lengthsIn(p, lengths)}
	s.mu.Unlock()
	return s.toAll(ctx, p, r.encode(s.client.id), 0)
}

// lengthsIn is how many tokens of each layer a part has.
func (s *Sequence) lengthsIn(p *sequencePart, lengths []int) []uint32 {
	in := make([]uint32, len(lengths))
	for i, n := range lengths {
		in[i] = uint32(min(max(0, n-p.index*s.tokens), s.tokens))
	}
	return in
}
