package attn

import (
	"runtime"

	"github.com/seed-1415985d/attn/internal/packed"
)

// The blocks of a cache form a ring, so that tokens that were dropped give their room to new ones:
// token j has block j/Block, modulo the number of blocks.

// First returns the position of the first token that is there: as many as [Cache.DropBefore] took.
func (c *Cache) First() int { return c.first }

// DropBefore drops the tokens before a position, of every sequence, as a sliding window leaves them
// behind: for attention they do not exist any more, as if they were masked. Positions go on
// counting, so those that stay keep theirs. Tokens that were dropped before may be dropped again.
// The position is 0 to Len, or the error is [ErrLength].
//
// Room comes back in blocks of [Block] positions, once all of theirs are dropped: Append is
// [ErrCapacity] if more than Capacity tokens would be there, or if it needs a block, one of
// Capacity rounded up, in which a token is left. A layer with a window of w tokens to which at most
// n at once are appended needs a Capacity of w+n+62, if DropBefore(max(0, Len−w+1)) comes before
// each Append.
func (c *Cache) DropBefore(position int) error {
	if err := c.checkOpen(); err != nil {
		return err
	}
	if position < 0 || position > c.length {
		return fail(ErrLength, "position is %d, want 0 to %d, the positions of the cache", position,
			c.length)
	}
	c.first = max(c.first, position)
	return nil
}

// ringSpan is the positions of a cache's tokens.
type ringSpan struct {
	first  int // tokens before this position were dropped
	length int // tokens, with those that were dropped
}

// blocks is how many blocks have room for the tokens and those that were dropped from the first.
func (r ringSpan) blocks() int { return blocksOf(r.length) - r.first/Block }

// at is the first position of the i-th of these blocks, and which of its positions, counted from
// that, have a token.
func (r ringSpan) at(i int) (j, lo, hi int) {
	j = (r.first/Block + i) * Block
	return j, max(0, r.first-j), min(Block, r.length-j)
}

// checkRoom makes sure that n more tokens fit.
func (c *Cache) checkRoom(n int) error {
	if n > maxLength-c.length {
		return fail(ErrLength, "k.L is %d after %d tokens, want at most %d in all", n, c.length,
			maxLength)
	}
	alive := c.length - c.first
	if n > c.config.Capacity-alive {
		return fail(ErrCapacity, "k.L is %d, want at most %d: %d of %d tokens are in the cache",
			n, c.config.Capacity-alive, alive, c.config.Capacity)
	}
	if room := (c.first/Block+c.packed.Count)*Block - c.length; n > room {
		return fail(ErrCapacity, "k.L is %d, want at most %d: tokens from position %d on are in the "+
			"cache's ring of %d blocks of %d", n, room, c.first, c.packed.Count, Block)
	}
	return nil
}

// checkFits makes sure that the tokens of a file fit.
func (c *Cache) checkFits(r ringSpan) error {
	if alive := r.length - r.first; alive > c.config.Capacity {
		return fail(ErrCapacity, "the file has %d tokens, want at most %d, the cache's Capacity", alive,
			c.config.Capacity)
	}
	if r.blocks() > c.packed.Count {
		return fail(ErrCapacity, "the file's positions %d to %d take %d blocks of %d, want at most %d, "+
			"the cache's", r.first, r.length, r.blocks(), Block, c.packed.Count)
	}
	return nil
}

// Keep keeps some of the last tokens of every sequence and drops the rest, as after the
// verification of a tree of proposed tokens, of which one path is accepted: of the tokens from
// position indices[0] on, exactly those at the positions in indices stay, moved together. It is
// what truncating to indices[0] and appending them again would give, bit for bit. No index changes
// nothing.
//
// Indices are positions, First to Len−1, in ascending order, or the error is [ErrLength] and
// nothing has changed.
func (c *Cache) Keep(indices []int) error {
	if err := c.checkOpen(); err != nil {
		return err
	}
	if err := checkKept(indices, c.first, c.length); err != nil || len(indices) == 0 {
		return err
	}
	c.packed.Keep(nil, c.config.Batch, indices)
	c.length = indices[0] + len(indices)
	runtime.KeepAlive(c) // and with it its memory
	return nil
}

// Keep is [Cache.Keep] for a sequence. Pages that are shared with others are copied before tokens
// are moved to them. If the store has too few free pages for that, the error is [ErrCapacity], says
// how many are missing, and nothing has changed.
func (s *Sequence) Keep(indices []int) error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.endCall()
	err := checkKept(indices, s.table.First(), s.table.Len())
	if err != nil || len(indices) == 0 {
		return err
	}
	from, to := indices[0]+packed.InPlace(indices), indices[0]+len(indices)
	if from < to {
		need, free, ok := s.store.pages.Unshare(&s.table, from, to, s.store.copyPage)
		if !ok {
			return s.store.errPages("len(indices) is %d, which", len(indices), need, free)
		}
	}
	s.store.packed.Keep(&s.table, 1, indices)
	s.store.pages.Truncate(&s.table, to)
	return nil
}

// checkKept makes sure that indices are ascending positions of tokens.
func checkKept(indices []int, first, length int) error {
	for i, j := range indices {
		if j < first || j >= length {
			return fail(ErrLength, "indices[%d] is %d, want %d to %d, the positions of the tokens", i, j,
				first, length-1)
		}
		if i > 0 && j <= indices[i-1] {
			return fail(ErrLength, "indices[%d] is %d after %d, want ascending positions", i, j,
				indices[i-1])
		}
	}
	return nil
}
