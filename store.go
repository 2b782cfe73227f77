package attn

import (
	"io"
	"runtime"
	"sync/atomic"

	"github.com/seed-1415985d/attn/internal/file"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/pages"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/views"
)

// StoreConfig is the shape of a [Store]. Every size must be at least 1.
type StoreConfig struct {
	KVHeads  int    // key/value heads
	HeadDim  int    // dimension of queries and keys
	ValueDim int    // dimension of values and outputs
	Pages    int    // a page holds Block tokens of all heads
	Format   Format // F32 is the zero value

	ValueFormat  Format // of values; 0: Format. See CacheConfig
	ValuesInKeys bool   // values are the first ValueDim channels of keys, see CacheConfig
}

// Store is a fixed number of pages for the keys and values of many sequences (a paged KV cache). A
// page holds [Block] tokens of all heads. Sequences join, grow, fork, shrink and leave;
// [AttendSequences] attends over any number of them in one call.
//
// NewStore allocates all memory for tokens: as much as a [Cache] of Pages·Block tokens. NewSequence
// and Fork allocate a small handle; the tables of their pages, 4 bytes for each page of the store,
// are reused after Release. Nothing else allocates, except as [Attend] does.
//
// All methods but Close are safe for concurrent use, and so are calls over different sequences,
// forks of each other among them.
type Store struct {
	config StoreConfig
	packed packed.Blocks
	pages  *pages.Pool
}

// A page of the store is a block of each head.
const _ = uint(Block-pages.Tokens) + uint(pages.Tokens-Block)

// NewStore allocates a store without sequences. The error is [ErrShape] for a size outside 1 to
// 2²⁸, a store larger than the address space, or a ValueDim above HeadDim with ValuesInKeys,
// [ErrMemory] if the system has too little memory, [ErrOption] for a format that does not exist.
// Notes on memory of [NewCache] apply to a store, too.
func NewStore(c StoreConfig) (*Store, error) {
	named := packed.Config{Name: "StoreConfig", Format: kernel.Format(c.Format),
		Values: kernel.Format(c.ValueFormat), ValuesInKeys: c.ValuesInKeys,
		Sizes: []packed.Size{{Name: "KVHeads", N: c.KVHeads}, {Name: "HeadDim", N: c.HeadDim},
			{Name: "ValueDim", N: c.ValueDim}, {Name: "Pages", N: c.Pages}},
		Batch: 1, Heads: c.KVHeads, D: c.HeadDim, DV: c.ValueDim, Blocks: c.Pages}
	blocks, err := named.Open()
	if err != nil {
		return nil, err
	}
	return &Store{config: c, packed: blocks, pages: pages.NewPool(c.Pages)}, nil
}

// Config returns the configuration of the store.
func (s *Store) Config() StoreConfig { return s.config }

// FreePages returns the number of pages that no sequence has.
func (s *Store) FreePages() int {
	if s.pages == nil { // the zero value
		return 0
	}
	return s.pages.Free()
}

// MemoryUse returns the bytes allocated for keys and values, used or not; 0 after Close.
func (s *Store) MemoryUse() int { return len(s.packed.Data) }

// Close releases the store's memory. Later calls over its sequences return [ErrClosed], as does
// closing it again. Closing a store while another goroutine uses one of its sequences ends the
// program.
func (s *Store) Close() error {
	if s == nil {
		return nil
	}
	if !s.packed.Open() {
		return fail(ErrClosed, "the store was closed, or is not from NewStore")
	}
	return s.packed.Close()
}

// NewSequence returns a sequence without tokens. Its methods return [ErrClosed] if the store was
// closed, or is not from NewStore.
func (s *Store) NewSequence() *Sequence {
	if s.pages == nil { // the zero value
		return new(Sequence)
	}
	return &Sequence{store: s, table: s.pages.NewTable()}
}

// copyPage copies a page of all heads.
func (s *Store) copyPage(dst, src int32) {
	for h := range s.config.KVHeads {
		stop.Copy(s.packed.At(h, int(dst)), s.packed.At(h, int(src)))
	}
}

// Sequence is the tokens of one sequence in the pages of a [Store], from [Store.NewSequence] or
// [Sequence.Fork].
//
// Positions count from the first token that was ever appended: dropping tokens from the front does
// not renumber those after them.
//
// Any number of goroutines may attend over a sequence, Read it and Save it at the same time. The
// methods that change it, Load among them, need exclusive use of it, and are safe concurrently with
// calls on other sequences. Release may be called at any time.
type Sequence struct {
	store *Store
	table pages.Table
	calls atomic.Int64 // running calls; negative from Release on
}

// released is added to Sequence.calls by Release.
const released = -1 << 62

// beginCall registers a call over the sequence, which keeps its pages until endCall. The error is
// [ErrClosed] for a sequence that was released or whose store was closed.
func (s *Sequence) beginCall() error {
	if s == nil {
		return fail(ErrOption, "s is nil, want a sequence")
	}
	if closed := s.begin(); closed != "" {
		return fail(ErrClosed, "the sequence %s", closed)
	}
	return nil
}

// begin is beginCall that returns the reason why the sequence is closed, or "".
func (s *Sequence) begin() (closed string) {
	const why = "was released, or is not from NewSequence"
	for s.store != nil {
		n := s.calls.Load()
		switch {
		case n < 0:
			return why
		case !s.calls.CompareAndSwap(n, n+1):
			continue
		case !s.store.packed.Open():
			s.endCall()
			return "is of a store that was closed"
		}
		return ""
	}
	return why
}

// endCall is called after a beginCall that returned no error. The last call over a released
// sequence frees its pages.
func (s *Sequence) endCall() {
	if s.calls.Add(-1) == released {
		s.store.pages.Release(&s.table)
	}
	runtime.KeepAlive(s) // and with it its memory
}

// inOneStore and inStoresAlike say which stores the sequences of a call may be in.
const (
	inOneStore = iota
	inStoresAlike
)

// beginCalls registers a call over sequences, which must be of one open store, or of open stores
// with equal block layouts. It registers none if there is an error.
func beginCalls(seqs []*Sequence, in int) (err error) {
	for i, s := range seqs {
		if s == nil {
			err = fail(ErrOption, "seqs[%d] is nil, want a sequence", i)
		} else if closed := s.begin(); closed != "" {
			err = fail(ErrClosed, "seqs[%d] %s", i, closed)
		} else if first := &seqs[0].store.packed; in == inStoresAlike && !s.store.packed.Alike(first) {
			s.endCall()
			err = fail(ErrOption, "seqs[%d] is of a store of %v, want %v as seqs[0]", i,
				&s.store.packed, first)
		} else if in == inOneStore && s.store != seqs[0].store {
			s.endCall()
			err = fail(ErrOption, "seqs[%d] is of another store than seqs[0], want sequences of one", i)
		}
		if err != nil {
			endCalls(seqs[:i])
			return err
		}
	}
	return nil
}

// endCalls is called after beginCalls.
func endCalls(seqs []*Sequence) {
	for _, s := range seqs {
		s.endCall()
	}
}

// Release ends the use of the handle, and frees the pages that no other sequence has: at once, or
// when running calls have ended. From then on every method returns [ErrClosed]; Len, First and
// PagesFor return 0, and Release does nothing.
func (s *Sequence) Release() {
	if s == nil {
		return
	}
	for s.store != nil {
		n := s.calls.Load()
		if n < 0 {
			return
		}
		if !s.calls.CompareAndSwap(n, n+released) {
			continue
		}
		if n == 0 {
			s.store.pages.Release(&s.table)
		}
		return
	}
}

// Len returns the position after the last token: the number of tokens, dropped ones included.
func (s *Sequence) Len() int {
	if s.calls.Load() < 0 {
		return 0
	}
	return s.table.Len()
}

// First returns the position of the first token that was not dropped: the number of dropped tokens.
func (s *Sequence) First() int {
	if s.calls.Load() < 0 {
		return 0
	}
	return s.table.First()
}

// PagesFor returns the number of free pages that appending n tokens would use, including a copy of
// a shared page.
func (s *Sequence) PagesFor(n int) int {
	if s.beginCall() != nil {
		return 0
	}
	defer s.endCall()
	return s.store.pages.Need(&s.table, max(0, n))
}

// Append adds n tokens:
//
//	k [1, KVHeads, n, HeadDim]
//	v [1, KVHeads, n, ValueDim]     the zero Tensor with ValuesInKeys
//
// If the store has too few free pages, the error is [ErrCapacity] and says how many are missing,
// and nothing has changed. Positions above 2²⁸ are [ErrLength]. In a store of I8 or I4, elements
// that are not finite, or too large to be rotated, are [ErrOption].
//
// [Pool.AppendSequence] uses all workers.
func (s *Sequence) Append(k, v Tensor) error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.endCall()
	x := writing{k: k, v: v}
	err := s.beginAppend(&x)
	if err == nil {
		x.run()
	}
	return err
}

// beginAppend validates tokens and reserves pages for them, in a call that has begun.
func (s *Sequence) beginAppend(x *writing) error {
	x.blocks, x.table, x.at = &s.store.packed, &s.table, s.table.Len()
	if err := checkTokens(x.blocks, &x.k, &x.v, 1); err != nil {
		return err
	}
	if n := x.k.L; n > maxLength-x.at {
		return fail(ErrLength, "k.L is %d after %d tokens, want at most %d in all", n, x.at, maxLength)
	}
	if err := checkFinite(x.blocks, &x.k, &x.v); err != nil {
		return err
	}
	if need, free, ok := s.store.pages.Grow(&s.table, x.k.L, s.store.copyPage); !ok {
		return s.store.errPages("k.L is %d, which", x.k.L, need, free)
	}
	return nil
}

// errPages is the error if what, of size n, needs more pages than are free.
func (s *Store) errPages(what string, n, need, free int) error {
	return fail(ErrCapacity, what+" takes %d pages: %d are missing, as %d of %d are free",
		n, need, need-free, free, s.config.Pages)
}

// Truncate drops the tokens at position n and after it, as speculative decoding does when it rolls
// back. n is First to Len, or the error is [ErrLength].
func (s *Sequence) Truncate(n int) error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.endCall()
	if n < s.table.First() || n > s.table.Len() {
		return fail(ErrLength, "n is %d, want %d to %d, the positions of the tokens",
			n, s.table.First(), s.table.Len())
	}
	s.store.pages.Truncate(&s.table, n)
	return nil
}

// DropBefore drops the tokens before a position: for attention they do not exist any more, as if
// they were masked. Pages without remaining tokens are freed. The other tokens keep their
// positions. Tokens that were dropped before may be dropped again. The position is 0 to Len, or the
// error is [ErrLength].
func (s *Sequence) DropBefore(position int) error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.endCall()
	if position < 0 || position > s.table.Len() {
		return fail(ErrLength, "position is %d, want 0 to %d, the positions of the sequence", position,
			s.table.Len())
	}
	s.store.pages.DropBefore(&s.table, position)
	return nil
}

// Fork returns a sequence with the same tokens in the same pages: no token is copied. The first of
// the two that appends to the last page, if that is not full, gets a copy of this page. The fork of
// a released sequence is a released one: its methods return [ErrClosed].
func (s *Sequence) Fork() *Sequence {
	if s.beginCall() != nil {
		return new(Sequence)
	}
	defer s.endCall()
	return &Sequence{store: s.store, table: s.store.pages.Fork(&s.table)}
}

// Read copies tokens back, decoded, from position from on: as many as k and v have positions.
//
//	k [1, KVHeads, n, HeadDim]
//	v [1, KVHeads, n, ValueDim]     the zero Tensor with ValuesInKeys
//
// Formats are as in [Cache.Read]. If the sequence does not hold all of these tokens, the error is
// [ErrLength].
func (s *Sequence) Read(k, v Tensor, from int) error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.endCall()
	blocks, first, end := &s.store.packed, s.table.First(), s.table.Len()
	if err := checkTokens(blocks, &k, &v, 1); err != nil {
		return err
	}
	if from < first || from > end || k.L > end-from {
		return fail(ErrLength, "from is %d and k.L %d, want positions %d to %d, those of the tokens",
			from, k.L, first, end)
	}
	if err := checkOutputs(&k, &v); err != nil {
		return err
	}
	readTokens(blocks, &s.table, &k, &v, 0, from)
	return nil
}

// Keep is [Cache.Keep] for a sequence. Pages that are shared with others are copied before tokens
// are moved to them. If the store has too few free pages for that, the error is [ErrCapacity] and
// says how many are missing, and nothing has changed.
func (s *Sequence) Keep(indices []int) error {
	if err := s.beginCall(); err != nil {
		return err
	}
	defer s.endCall()
	err := views.CheckKept(indices, s.table.First(), s.table.Len())
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

// Save writes the tokens to w in a format that any machine can read with [Sequence.Load], page by
// page: about as many bytes as their pages have. It returns how many were written. The same tokens
// give the same bytes, also by [Cache.Save] with a batch of 1. Errors of w are wrapped.
func (s *Sequence) Save(w io.Writer) (n int64, err error) {
	if err := s.beginCall(); err != nil {
		return 0, err
	}
	defer s.endCall()
	h := s.store.header(s.table.First(), s.table.Len())
	to := file.WriteTokens(w, &s.store.packed, &h)
	for i := range s.table.Count() {
		page, lo, hi := s.table.At(i)
		to.Page(s.store.packed.Heads, page, lo, hi)
	}
	return to.End()
}

// header returns the header of a file of the store's tokens.
func (s *Store) header(first, length int) file.Header {
	c := &s.config
	return file.Header{Format: s.packed.K.Format, ValueFormat: s.packed.V.Format,
		Mark: c.ValuesInKeys, Batch: 1, Heads: c.KVHeads, Inputs: c.HeadDim, Outputs: c.ValueDim,
		First: first, Length: length}
}

// Load replaces the tokens by tokens that [Sequence.Save] wrote from a store of the same shape and
// format, with any number of pages, or [Cache.Save] from such a cache with a batch of 1. It reads
// exactly the bytes that Save wrote, so r may hold several sequences one after another, and returns
// how many were read.
//
// The new tokens are read into free pages of the store before the old pages are freed: if there are
// too few, the error is [ErrCapacity] and says how many are missing. It is [ErrShape] for a store
// of another shape, [ErrOption] for another Format or ValuesInKeys, and [ErrFormat] for bytes that
// Save cannot have written; it wraps [io.EOF] too if r has no bytes, and [io.ErrUnexpectedEOF] if
// it has too few. Other errors of r are wrapped. After any error the tokens have not changed.
func (s *Sequence) Load(r io.Reader) (n int64, err error) {
	if err := s.beginCall(); err != nil {
		return 0, err
	}
	defer s.endCall()
	h := s.store.header(0, 0)
	from, err := file.ReadTokens(r, &h, "the store's")
	if err == nil {
		err = s.readPages(from, h.First, h.Length)
	}
	return from.N(), err
}

// readPages replaces the tokens by the tokens of a file whose header was read.
func (s *Sequence) readPages(from *file.TokenReader, first, length int) error {
	t, need, free, ok := s.store.pages.Replacement(&s.table, first, length)
	if !ok {
		return s.store.errPages("the file of %d tokens", length-first, need, free)
	}
	done := false
	defer func() {
		if !done { // also if the reader panics
			s.store.pages.Discard(&t)
		}
	}()
	blocks := &s.store.packed
	for i := range t.Count() {
		page, lo, hi := t.At(i)
		if err := from.Page(blocks, blocks.Heads, page, lo, hi); err != nil {
			return err
		}
	}
	s.store.pages.Replace(&s.table, &t)
	done = true
	return nil
}
