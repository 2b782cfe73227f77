package attn

import (
	"io"
	"runtime"

	"github.com/seed-1415985d/attn/internal/file"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/stop"
)

// The file of a sequence: the header (internal/file), and then for each page from position
// first/Block·Block on, up to that of position length−1, a part of the blocks of all heads, see
// packed.Blocks. A page of a Cache has those of all batch entries in turn, so the file of a
// sequence is that of a cache with a batch of 1.

// Save writes the tokens to w in a form that any machine can read with [Cache.Load], or with a
// batch of 1 with [Sequence.Load]: about as many bytes as the blocks with tokens take, whatever the
// Capacity. It returns how many were written. The same tokens give the same bytes. Errors of w are
// wrapped.
func (c *Cache) Save(w io.Writer) (n int64, err error) {
	if err := c.checkOpen(); err != nil {
		return 0, err
	}
	h := c.header()
	h.First, h.Length = c.first, c.length
	to := file.WriteTokens(w, &c.packed, &h)
	for i := range c.blocks() {
		at, lo, hi := c.at(i)
		to.Page(c.heads(), at/Block%c.packed.Count, lo, hi)
	}
	runtime.KeepAlive(c) // and with it its memory
	return to.End()
}

// header is that of a file of no tokens.
func (c *Cache) header() file.Header {
	g := &c.config
	return file.Header{Format: c.packed.K.Format, ValueFormat: c.packed.V.Format,
		Mark: g.ValuesInKeys, Batch: g.Batch, Heads: g.KVHeads, Inputs: g.HeadDim, Outputs: g.ValueDim}
}

// heads is the number of heads of all batch entries.
func (c *Cache) heads() int { return c.config.Batch * c.config.KVHeads }

// Load replaces the tokens by those that [Cache.Save] wrote from a cache of the same configuration,
// with whatever Capacity, or [Sequence.Save] where Batch is 1. It reads exactly what Save wrote, so
// r may hold several caches one after another, and returns how many bytes were read. Where there
// are tokens already, the new ones are in memory beside them until all have come.
//
// What has no room by the rule of Append is [ErrCapacity]. A cache of another shape is [ErrShape],
// of another Format or ValuesInKeys [ErrOption]. What Save cannot have written is [ErrFormat]; it
// wraps [io.EOF] too if r has no bytes, and [io.ErrUnexpectedEOF] if it has too few. Other errors
// of r are wrapped. After any error the tokens are those that there were. Of the elements of a
// token in I8 and I4, the largest is what its scale makes of the largest number; the others are not
// larger, and may be any.
//
// Like Append, it needs the cache for itself.
func (c *Cache) Load(r io.Reader) (n int64, err error) {
	if err := c.checkOpen(); err != nil {
		return 0, err
	}
	h := c.header()
	from, err := file.ReadTokens(r, &h, "the cache's")
	if err == nil {
		err = c.load(from, ringSpan{h.First, h.Length})
	}
	runtime.KeepAlive(c) // and with it its memory
	return from.N(), err
}

// load replaces the tokens by those of a file whose header was read.
func (c *Cache) load(from *file.TokenReader, tokens ringSpan) (err error) {
	switch err = c.checkFits(tokens); {
	case err != nil:
		return err
	case c.first == c.length: // nobody reads its blocks
		err = c.readInPlace(from, tokens)
	default:
		err = c.readBeside(from, tokens)
	}
	if err == nil {
		c.ringSpan = tokens
	}
	return err
}

// readInPlace reads the pages of a file into the blocks of the cache.
func (c *Cache) readInPlace(from *file.TokenReader, tokens ringSpan) error {
	for i := range tokens.blocks() {
		at, lo, hi := tokens.at(i)
		if err := from.Page(&c.packed, c.heads(), at/Block%c.packed.Count, lo, hi); err != nil {
			return err
		}
	}
	return nil
}

// readBeside reads the pages of a file into memory of their own, and when all are right, copies
// them to the blocks of the cache.
func (c *Cache) readBeside(from *file.TokenReader, tokens ringSpan) error {
	size := c.heads() * c.packed.Size
	pages := memory.Growing{Most: tokens.blocks() * size}
	defer pages.Close()
	for i := range tokens.blocks() {
		x, err := pages.Next(size)
		if err != nil {
			return fail(ErrMemory, "the file has %d tokens: %v", tokens.length-tokens.first, err)
		}
		page := c.packed.OnePage(x)
		_, lo, hi := tokens.at(i)
		if err := from.Page(&page, c.heads(), 0, lo, hi); err != nil {
			return err
		}
	}
	for i := range tokens.blocks() {
		at, _, _ := tokens.at(i)
		for h := range c.heads() {
			stop.Copy(c.packed.At(h, at/Block%c.packed.Count),
				pages.Mapping().Bytes()[i*size+h*c.packed.Size:])
		}
	}
	return nil
}

// Save writes the tokens to w in a form that any machine can read with [Sequence.Load], page by
// page: about as many bytes as their pages take. It returns how many were written. The same tokens
// give the same bytes, those of [Cache.Save] with a batch of 1. Errors of w are wrapped.
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

// header is that of a file of the store's tokens.
func (s *Store) header(first, length int) file.Header {
	c := &s.config
	return file.Header{Format: s.packed.K.Format, ValueFormat: s.packed.V.Format,
		Mark: c.ValuesInKeys, Batch: 1, Heads: c.KVHeads, Inputs: c.HeadDim, Outputs: c.ValueDim,
		First: first, Length: length}
}

// Load replaces the tokens by those that [Sequence.Save] wrote from a store of the same shape and
// format, with whatever pages, or [Cache.Save] from such a cache with a batch of 1. It reads
// exactly what Save wrote, so r may hold several sequences one after another, and returns how
// many bytes were read.
//
// The tokens go to free pages of the store first, and the pages before go back only then: if the
// free ones are too few, the error is [ErrCapacity] and says how many are missing. A store of
// another shape is [ErrShape], of another Format or ValuesInKeys [ErrOption]. What Save cannot have
// written is [ErrFormat]; it wraps [io.EOF] too if r has no bytes, and [io.ErrUnexpectedEOF] if it
// has too few. Other errors of r are wrapped. After any error the tokens are those that there were.
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

// readPages replaces the tokens by those of a file whose header was read.
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
