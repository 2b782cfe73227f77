package attn

import "runtime"

// Sequence is the tokens of one sequence in the pages of a [Store]. It is made by [Store.NewSequence] or [Sequence.Fork].
//
// Positions count from the first token that was ever appended: dropping tokens from the front does not renumber those after them.
//
// Any number of goroutines may attend over a sequence, Read it and write it to files by WriteTo at the same time. The methods that change it,
// ReadFrom among them, need it for themselves, and are safe beside anything that happens to other sequences. After Release a handle must not be
// used, for a new sequence may have it.
type Sequence struct {
	pages
	store  *Store
	live   bool // not released
	writer tokenWriter
}

// Len returns the position after the last token: the number of tokens, with those that DropFront took.
func (s *Sequence) Len() int { return s.length }

// First returns the position of the first token that is there: as many as DropFront took.
func (s *Sequence) First() int { return s.first }

// PagesFor returns how many free pages of the store appending n tokens would take, a copy of a shared page included.
func (s *Sequence) PagesFor(n int) int {
	if s.store == nil || n <= 0 {
		return 0
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.pagesFor(n)
}

// pagesFor is PagesFor for who has locked the store.
func (s *Sequence) pagesFor(n int) int {
	need := (max(0, s.length+n-s.end()) + Block - 1) / Block
	if s.sharesLast() {
		need++
	}
	return need
}

// sharesLast reports whether the page that the next token goes to is there and another sequence has it, too.
func (s *Sequence) sharesLast() bool {
	return s.length < s.end() && s.store.users[s.at(s.length)] > 1
}

// Append adds n tokens:
//
//	k [1, KVHeads, n, HeadDim]
//	v [1, KVHeads, n, ValueDim]
//
// If the store has too few free pages, the error is [ErrCapacity], says how many are missing, and nothing has changed. A sequence may have
// positions up to 2²⁸, else it is [ErrLength]. In a store of I8, elements that are not finite are [ErrOption].
func (s *Sequence) Append(k, v Tensor) error {
	if err := s.checkTokens(&k, &v); err != nil {
		return err
	}
	if k.L > maxLength-s.length {
		return fail(ErrLength, "k.L is %d after %d tokens, want at most %d in all", k.L, s.length, maxLength)
	}
	blocks := &s.store.blocks
	if err := blocks.checkScales(&k, &v); err != nil {
		return err
	}
	if k.L == 0 {
		return nil
	}
	if err := s.makeRoom(k.L); err != nil {
		return err
	}
	for h := range k.H {
		for i := 0; i < k.L; {
			at := s.length + i
			n := min(k.L-i, Block-at%Block)
			blocks.write(&s.writer, blocks.at(h, s.at(at)), at%Block, k.Data[k.offset(0, h, i):], v.Data[v.offset(0, h, i):], k.SL, v.SL, n, v.D)
			i += n
		}
	}
	s.length += k.L
	runtime.KeepAlive(s) // and with it its memory
	return nil
}

// makeRoom takes pages for n more tokens, and makes the page that the first of them goes to the sequence's own.
func (s *Sequence) makeRoom(n int) error {
	t := s.store
	t.mu.Lock()
	if need := s.pagesFor(n); need > len(t.free) {
		defer t.mu.Unlock()
		return fail(ErrCapacity, "k.L is %d, which takes %d pages: %d are missing, as %d of %d are free", n, need, need-len(t.free), len(t.free), t.config.Pages)
	}
	var own [1]int32
	shared := s.sharesLast()
	if shared {
		t.take(own[:0], 1)
	}
	s.table = t.take(s.table, (max(0, s.length+n-s.end())+Block-1)/Block)
	t.mu.Unlock()
	if !shared {
		return nil
	}
	// While the page is copied it is still shared, so nobody writes to it.
	last := &s.table[s.length/Block-s.base]
	t.copyPage(own[0], *last)
	own[0], *last = *last, own[0]
	t.mu.Lock()
	t.drop(own[:])
	t.mu.Unlock()
	return nil
}

// Truncate drops the tokens at position n and after it, as speculative decoding does when it rolls back. n is First to Len, or the error
// is [ErrLength].
func (s *Sequence) Truncate(n int) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	if n < s.first || n > s.length {
		return fail(ErrLength, "n is %d, want %d to %d, the positions of the tokens", n, s.first, s.length)
	}
	s.length = n
	keep := max(0, (n+Block-1)/Block-s.base)
	s.store.giveBack(s.table[keep:])
	s.table = s.table[:keep]
	return nil
}

// giveBack is drop for who has not locked the store.
func (s *Store) giveBack(table []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(table)
}

// DropFront drops the tokens before position n: for attention they do not exist any more, as if they were masked. The pages in which no token
// is left are free again. Positions go on counting, so the others keep theirs. Tokens that were dropped before may be dropped again. n is 0 to
// Len, or the error is [ErrLength].
func (s *Sequence) DropFront(n int) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	if n < 0 || n > s.length {
		return fail(ErrLength, "n is %d, want 0 to %d, the positions of the sequence", n, s.length)
	}
	s.first = max(s.first, n)
	if whole := s.first/Block - s.base; whole > 0 {
		s.store.giveBack(s.table[:whole])
		s.table = s.table[:copy(s.table, s.table[whole:])]
		s.base += whole
	}
	return nil
}

// Fork returns a sequence with the same tokens in the same pages: no token is copied. Whichever of them appends first to the last page, if that
// is not full, gets a copy of this page. A fork of a released sequence is a released one.
func (s *Sequence) Fork() *Sequence {
	if s.store == nil || !s.live {
		return new(Sequence)
	}
	t := s.store
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.newSequence()
	q.copyPages(&s.pages)
	for _, page := range s.table {
		t.users[page]++
	}
	return q
}

// copyPages makes the positions those of another sequence of the store.
func (p *pages) copyPages(q *pages) {
	p.base, p.first, p.length = q.base, q.first, q.length
	p.table = append(p.table[:0], q.table...)
}

// Release gives back the pages that no other sequence has, and ends the use of the handle. Releasing it again does nothing, unless a new
// sequence has the handle by then.
func (s *Sequence) Release() {
	if s.store == nil || !s.live {
		return
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.drop(s.table)
	s.pages = pages{table: s.table[:0]}
	s.live = false
	s.store.released = append(s.store.released, s)
}

// Read copies tokens back, decoded, from position from on: as many as k and v have positions.
//
//	k [1, KVHeads, n, HeadDim]
//	v [1, KVHeads, n, ValueDim]
//
// What [Cache.Read] says of types holds here, too. If these tokens are not there, the error is [ErrLength].
func (s *Sequence) Read(k, v Tensor, from int) error {
	if err := s.checkTokens(&k, &v); err != nil {
		return err
	}
	if from < s.first || from > s.length || k.L > s.length-from {
		return fail(ErrLength, "from is %d and k.L %d, want positions %d to %d, those of the tokens", from, k.L, s.first, s.length)
	}
	if err := checkOutputs(&k, &v); err != nil {
		return err
	}
	blocks := &s.store.blocks
	for h := range k.H {
		for i := range k.L {
			blocks.read(k.row(0, h, i), v.row(0, h, i), blocks.at(h, s.at(from+i)), (from+i)%Block)
		}
	}
	runtime.KeepAlive(s) // and with it its memory
	return nil
}

// checkOpen makes sure that the sequence has a store with memory.
func (s *Sequence) checkOpen() error {
	switch {
	case s.store == nil || !s.live:
		return fail(ErrClosed, "the sequence was released, or is not from NewSequence")
	case s.store.blocks.memory == nil:
		return fail(ErrClosed, "the sequence's store was closed")
	}
	return nil
}

// checkTokens makes sure that k and v are tokens of the store.
func (s *Sequence) checkTokens(k, v *Tensor) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	return checkTokens(k, v, 1, s.store.config.KVHeads, s.store.config.HeadDim, s.store.config.ValueDim)
}
