package attn

import (
	"io"

	"github.com/seed-1415985d/attn/internal/frames"
)

// The file of a sequence: the header (file_header.go), and then for each page from position
// first/Block·Block on, up to that of position length−1, a part of the blocks of all heads, see
// packedKV. A page of a Cache has those of all batch entries in turn, so the file of a sequence is
// that of a cache with a batch of 1.

// Save writes the tokens to w in a form that any machine can read with [Sequence.Load], page by
// page: about as many bytes as their pages take. It returns how many were written. The same tokens
// give the same bytes, those of [Cache.Save] with a batch of 1. Errors of w are wrapped.
func (s *Sequence) Save(w io.Writer) (n int64, err error) {
	if err := s.begin(); err != nil {
		return 0, err
	}
	defer s.end()
	packed := &s.store.packed
	f := frames.Writer{To: w}
	h := s.store.header(s.table.First(), s.table.Len())
	buffer := packed.fileBuffer()
	err = f.Write(h.append(buffer, tokensMagic), true)
	for i := 0; i < s.table.Count() && err == nil; i++ {
		page, lo, hi := s.table.At(i)
		err = packed.writePage(&f, buffer, packed.heads, page, lo, hi)
	}
	return f.N, errWriting(&f, err)
}

// header is that of a file of the store's tokens.
func (s *Store) header(first, length int) fileHeader {
	c := &s.config
	return fileHeader{c.Format, c.Format, c.ValuesInKeys, 1, c.KVHeads, c.HeadDim, c.ValueDim, first,
		length}
}

// Load replaces the tokens by those that [Sequence.Save] wrote from a store of the same shape and
// format, with whatever pages, or [Cache.Save] from such a cache with a batch of 1. It reads
// exactly what Save wrote, so r may hold several sequences one after the other, and returns how
// many bytes were read.
//
// The tokens go to free pages of the store first, and the pages before go back only then: if the
// free ones are too few, the error is [ErrCapacity] and says how many are missing. A store of
// another shape is [ErrShape], of another Format or ValuesInKeys [ErrOption]. What Save cannot have
// written is [ErrFormat]; it wraps [io.EOF] too if r has no bytes, and [io.ErrUnexpectedEOF] if it
// has too few. Other errors of r are wrapped. After any error the tokens are those that there were.
func (s *Sequence) Load(r io.Reader) (n int64, err error) {
	if err := s.begin(); err != nil {
		return 0, err
	}
	defer s.end()
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
	packed := &s.store.packed
	for i := range t.Count() {
		page, lo, hi := t.At(i)
		if err := packed.readPage(f, i, packed.heads, page, lo, hi); err != nil {
			return err
		}
	}
	s.store.pages.Replace(&s.table, &t)
	done = true
	return nil
}
