package file

import (
	"fmt"
	"io"

	"github.com/seed-1415985d/attn/internal/frames"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/views"
)

// Writing and reading tokens. A block in a file is a block of a cache or store with little-endian
// numbers, and zero where there is no token, because those bytes may be left from other sequences.
// A page is the blocks of all heads for the same Block positions.

// tokenFields are the fields of a header of tokens.
var tokenFields = [fieldCount]field{
	{"Format", 0, int(kernel.I4)}, {"ValueFormat", 0, int(kernel.I4)}, {"ValuesInKeys", 0, 1},
	{"Batch", 1, views.MaxLength}, {"KVHeads", 1, views.MaxLength},
	{"HeadDim", 1, views.MaxLength}, {"ValueDim", 1, views.MaxLength},
	{"first position", 0, views.MaxLength}, {"length", 0, views.MaxLength},
}

// readTokens reads the header of a file whose tokens must fit the reader's header h, and sets the
// positions in h.
func (h *Header) readTokens(f *frames.Reader, whose string) error {
	got, err := readHeader(f, tokensMagic, &tokenFields)
	switch {
	case err != nil:
		return err
	case got.Format != h.Format:
		return errOption("Format", got.Format, whose, h.Format)
	case got.ValueFormat != h.ValueFormat:
		return errOption("ValueFormat", got.ValueFormat, whose, h.ValueFormat)
	case got.Mark != h.Mark:
		return errOption("ValuesInKeys", got.Mark, whose, h.Mark)
	}
	want := [...]int{h.Batch, h.Heads, h.Inputs, h.Outputs}
	for i, n := range [len(want)]int{got.Batch, got.Heads, got.Inputs, got.Outputs} {
		if n != want[i] {
			return views.Fail(views.ErrShape, "the file's %s is %d, want %s %d", tokenFields[3+i].name, n,
				whose, want[i])
		}
	}
	h.First, h.Length = got.First, got.Length
	return nil
}

func errOption(name string, got any, whose string, want any) error {
	return views.Fail(views.ErrOption, "the file's %s is %v, want %s %v", name, got, whose, want)
}

// TokenWriter writes the tokens of blocks, page by page.
type TokenWriter struct {
	blocks *packed.Blocks
	to     frames.Writer
	buffer []byte // for the header or a block, and a checksum
	err    error
}

// WriteTokens begins a file of tokens with its header.
func WriteTokens(to io.Writer, s *packed.Blocks, h *Header) *TokenWriter {
	w := &TokenWriter{blocks: s, to: frames.Writer{To: to},
		buffer: make([]byte, 0, max(HeaderSize, s.Size+frames.ChecksumSize))}
	w.err = w.to.Write(h.append(w.buffer, tokensMagic), true)
	return w
}

// Page writes the blocks of some heads, with tokens at positions [lo, hi), unless there was an
// error.
func (w *TokenWriter) Page(heads, page, lo, hi int) {
	for h := 0; h < heads && w.err == nil; h++ {
		x := w.buffer[:w.blocks.Size]
		stop.Copy(x, w.blocks.At(h, page))
		w.blocks.Blank(x, lo, hi)
		w.blocks.LittleEndian(x)
		w.err = w.to.Write(x, h == heads-1)
	}
}

// End returns the number of written bytes, and the first error.
func (w *TokenWriter) End() (n int64, err error) { return w.to.N, errWriting(&w.to, w.err) }

// TokenReader reads what a TokenWriter wrote.
type TokenReader struct {
	from frames.Reader
	page int // that comes next
}

// ReadTokens reads the header of a file whose tokens must fit the reader's header h, and sets the
// positions in h.
func ReadTokens(from io.Reader, h *Header, whose string) (*TokenReader, error) {
	r := &TokenReader{from: frames.Reader{From: from}}
	return r, h.readTokens(&r.from, whose)
}

// N returns the number of read bytes.
func (r *TokenReader) N() int64 { return r.from.N }

// Page reads the next page into blocks of some heads, with tokens at positions [lo, hi).
func (r *TokenReader) Page(s *packed.Blocks, heads, page, lo, hi int) error {
	part := fmt.Sprintf("page %d", r.page)
	r.page++
	for h := range heads {
		if err := r.from.Read(s.At(h, page)); err != nil {
			return errPart(&r.from, part, err)
		}
	}
	if err := r.from.End(); err != nil {
		return errPart(&r.from, part, err)
	}
	for h := range heads {
		if fault := s.Take(s.At(h, page), lo, hi); fault != "" {
			return malformed("%s, %s: %s", part, nameOfHead(s, h, heads), fault)
		}
	}
	return nil
}

// nameOfHead names one of the heads of a page, and its batch entry if there are several.
func nameOfHead(s *packed.Blocks, h, heads int) string {
	if heads == s.Heads {
		return fmt.Sprintf("head %d", h)
	}
	return fmt.Sprintf("batch entry %d, head %d", h/s.Heads, h%s.Heads)
}
