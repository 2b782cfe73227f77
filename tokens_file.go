package attn

import (
	"io"
	"runtime"

	"github.com/seed-1415985d/attn/internal/frames"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/stop"
)

// The file of a sequence: the header (file.go), and then for each page from position
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
	f := frames.Writer{To: w}
	h := c.header()
	h.first, h.length = c.first, c.length
	buffer := fileBuffer(&c.packed)
	err = f.Write(h.append(buffer, tokensMagic), true)
	for i := 0; i < c.blocks() && err == nil; i++ {
		at, lo, hi := c.at(i)
		err = writePage(&c.packed, &f, buffer, c.heads(), at/Block%c.packed.Count, lo, hi)
	}
	runtime.KeepAlive(c) // and with it its memory
	return f.N, errWriting(&f, err)
}

// header is that of a file of no tokens.
func (c *Cache) header() fileHeader {
	g := &c.config
	return fileHeader{Format(c.packed.K.Format), Format(c.packed.V.Format), g.ValuesInKeys, g.Batch,
		g.KVHeads, g.HeadDim, g.ValueDim, 0, 0}
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
	f := frames.Reader{From: r}
	h := c.header()
	if err = h.readTokens(&f, "the cache's"); err == nil {
		err = c.load(&f, &h)
	}
	runtime.KeepAlive(c) // and with it its memory
	return f.N, err
}

// load replaces the tokens by those of a file whose header was read.
func (c *Cache) load(f *frames.Reader, h *fileHeader) (err error) {
	file := ringSpan{h.first, h.length}
	switch err = c.checkFits(file); {
	case err != nil:
		return err
	case c.first == c.length: // nobody reads its blocks
		err = c.readInPlace(f, file)
	default:
		err = c.readBeside(f, file)
	}
	if err == nil {
		c.ringSpan = file
	}
	return err
}

// readInPlace reads the pages of a file into the blocks of the cache.
func (c *Cache) readInPlace(f *frames.Reader, file ringSpan) error {
	for i := range file.blocks() {
		at, lo, hi := file.at(i)
		if err := readPage(&c.packed, f, i, c.heads(), at/Block%c.packed.Count, lo, hi); err != nil {
			return err
		}
	}
	return nil
}

// readBeside reads the pages of a file into memory of their own, and when all are right, copies
// them to the blocks of the cache.
func (c *Cache) readBeside(f *frames.Reader, file ringSpan) error {
	size := c.heads() * c.packed.Size
	pages := memory.Growing{Most: file.blocks() * size}
	defer pages.Close()
	for i := range file.blocks() {
		x, err := pages.Next(size)
		if err != nil {
			return fail(ErrMemory, "the file has %d tokens: %v", file.length-file.first, err)
		}
		page := c.packed.OnePage(x)
		_, lo, hi := file.at(i)
		if err := readPage(&page, f, i, c.heads(), 0, lo, hi); err != nil {
			return err
		}
	}
	for i := range file.blocks() {
		at, _, _ := file.at(i)
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
	blocks := &s.store.packed
	f := frames.Writer{To: w}
	h := s.store.header(s.table.First(), s.table.Len())
	buffer := fileBuffer(blocks)
	err = f.Write(h.append(buffer, tokensMagic), true)
	for i := 0; i < s.table.Count() && err == nil; i++ {
		page, lo, hi := s.table.At(i)
		err = writePage(blocks, &f, buffer, blocks.Heads, page, lo, hi)
	}
	return f.N, errWriting(&f, err)
}

// header is that of a file of the store's tokens.
func (s *Store) header(first, length int) fileHeader {
	c := &s.config
	return fileHeader{Format(s.packed.K.Format), Format(s.packed.V.Format), c.ValuesInKeys, 1,
		c.KVHeads, c.HeadDim, c.ValueDim, first, length}
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
	f := frames.Reader{From: r}
	h := s.store.header(0, 0)
	if err = h.readTokens(&f, "the store's"); err == nil {
		err = s.readPages(&f, h.first, h.length)
	}
	return f.N, err
}

// readPages replaces the tokens by those of a file whose header was read.
func (s *Sequence) readPages(f *frames.Reader, first, length int) error {
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
		if err := readPage(blocks, f, i, blocks.Heads, page, lo, hi); err != nil {
			return err
		}
	}
	s.store.pages.Replace(&s.table, &t)
	done = true
	return nil
}
