package attn

import (
	"io"
	"runtime"

	"github.com/seed-1415985d/attn/internal/frames"
	"github.com/seed-1415985d/attn/internal/memory"
)

// The file of a cache is that of a sequence (sequence_file.go), with the heads of each batch entry
// in turn in each page.

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
	buffer := c.packed.fileBuffer()
	err = f.Write(h.append(buffer, tokensMagic), true)
	for i := 0; i < c.blocks() && err == nil; i++ {
		at, lo, hi := c.at(i)
		err = c.packed.writePage(&f, buffer, c.heads(), c.packed.ring(at), lo, hi)
	}
	runtime.KeepAlive(c) // and with it its memory
	return f.N, errWriting(&f, err)
}

// header is that of a file of no tokens.
func (c *Cache) header() fileHeader {
	g := &c.config
	return fileHeader{g.Format, g.Format, g.ValuesInKeys, g.Batch, g.KVHeads, g.HeadDim,
		g.ValueDim, 0, 0}
}

// heads is the number of heads of all batch entries.
func (c *Cache) heads() int { return c.config.Batch * c.config.KVHeads }

// Load replaces the tokens by those that [Cache.Save] wrote from a cache of the same configuration,
// with whatever Capacity, or [Sequence.Save] where Batch is 1. It reads exactly what Save wrote, so
// r may hold several caches one after the other, and returns how many bytes were read. Where there
// are tokens already, the new ones are in memory beside them until all have come.
//
// What has no room by the rule of Append is [ErrCapacity]. A cache of another shape is [ErrShape],
// of another Format or ValuesInKeys [ErrOption]. What Save cannot have written is [ErrFormat]; it
// wraps [io.EOF] too if r has no bytes, and [io.ErrUnexpectedEOF] if it has too few. Other errors
// of r are wrapped. After any error the tokens are those that there were.
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
		if err := c.packed.readPage(f, i, c.heads(), c.packed.ring(at), lo, hi); err != nil {
			return err
		}
	}
	return nil
}

// readBeside reads the pages of a file into memory of their own, and when all are right, copies
// them to the blocks of the cache.
func (c *Cache) readBeside(f *frames.Reader, file ringSpan) error {
	size := c.heads() * c.packed.block
	pages := memory.Growing{Most: file.blocks() * size}
	defer pages.Close()
	page := c.packed
	page.headStride = page.block // of one page
	for i := range file.blocks() {
		x, err := pages.Next(size)
		if err != nil {
			return fail(ErrMemory, "the file has %d tokens: %v", file.length-file.first, err)
		}
		page.data = x
		_, lo, hi := file.at(i)
		if err := page.readPage(f, i, c.heads(), 0, lo, hi); err != nil {
			return err
		}
	}
	for i := range file.blocks() {
		at, _, _ := file.at(i)
		for h := range c.heads() {
			copy(c.packed.at(h, c.packed.ring(at)), pages.Mapping().Bytes()[i*size+h*c.packed.block:])
		}
	}
	return nil
}
