package attn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/seed-1415985d/attn/internal/frames"
	"github.com/seed-1415985d/attn/internal/pages"
)

// The file of a sequence, little-endian, in parts that end with a checksum (internal/frames):
//
//	8 bytes   sequenceMagic; its last byte is the version
//	u32       format: 0 F32, 1 F16, 2 BF16, 3 I8
//	3 × u32   KVHeads, HeadDim, ValueDim
//	u32       first: the tokens that DropBefore took
//	u32       length: the position after the last token
//	u32       checksum
//	          for each page from position first/Block·Block on, up to that of position length−1:
//	bytes     the blocks of all heads, see packedKV
//	u32       checksum
//
// What of a block is no token, or a column or dimension that tokens do not have, is zero. So the
// same tokens are the same bytes, and no byte is of another sequence.
//
// Version 3 is of a store with ValuesInKeys, whose blocks have no values. Version 2 belongs to
// version 2 of the numeric contract, which fixes Block, and to keys of I8 that are always rotated;
// in version 1 they were where a mark said so.
const (
	sequenceMagic  = "attnSeq\x02"
	latentMagic    = "attnSeq\x03"
	sequenceFields = 6
	sequenceHeader = len(sequenceMagic) + 4*sequenceFields // without its checksum
)

// Save writes the tokens to w in a form that any machine can read with [Sequence.Load], page by
// page: about as many bytes as their pages take. It returns how many were written. The same tokens
// give the same bytes. Errors of w are wrapped.
func (s *Sequence) Save(w io.Writer) (n int64, err error) {
	if err := s.begin(); err != nil {
		return 0, err
	}
	defer s.end()
	config, packed := &s.store.config, &s.store.packed
	f := frames.Writer{To: w}
	buffer := make([]byte, max(sequenceHeader, packed.block)+frames.ChecksumSize)
	err = f.Write(putHeader(buffer, config, &s.table), true)
	for i := 0; i < s.table.Count() && err == nil; i++ {
		page, lo, hi := s.table.At(i)
		for h := 0; h < config.KVHeads && err == nil; h++ {
			x := buffer[:copy(buffer, packed.at(h, page))]
			packed.blank(x, lo, hi)
			packed.littleEndian(x)
			err = f.Write(x, h == config.KVHeads-1)
		}
	}
	if err != nil {
		return f.N, fmt.Errorf("attn: writing a sequence, %d bytes are written: %w", f.N, err)
	}
	return f.N, nil
}

// putHeader makes the header of a file, without its checksum.
func putHeader(x []byte, c *StoreConfig, t *pages.Table) []byte {
	magic := sequenceMagic
	if c.ValuesInKeys {
		magic = latentMagic
	}
	x = append(x[:0], magic...)
	for _, n := range [sequenceFields]int{
		int(c.Format), c.KVHeads, c.HeadDim, c.ValueDim, t.First(), t.Len()} {
		x = binary.LittleEndian.AppendUint32(x, uint32(n))
	}
	return x
}

// Load replaces the tokens by those that [Sequence.Save] wrote from a store of the same shape and
// format, with whatever pages. It reads exactly what Save wrote, so r may hold several sequences
// one after the other, and returns how many bytes were read.
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
	first, length, err := readHeader(&f, &s.store.config)
	if err == nil {
		err = s.readPages(&f, first, length)
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
	for i := range t.Count() {
		page, lo, hi := t.At(i)
		if err := s.store.readPage(f, i, page, lo, hi); err != nil {
			return err
		}
	}
	s.store.pages.Replace(&s.table, &t)
	done = true
	return nil
}

// readHeader reads the header of a file that fits a store, and returns its positions.
func readHeader(f *frames.Reader, c *StoreConfig) (first, length int, err error) {
	const part = "header"
	var x [sequenceHeader]byte
	if err := f.Read(x[:]); err != nil {
		return 0, 0, errPart(f, part, err)
	}
	if err := checkSequenceMagic(string(x[:len(sequenceMagic)])); err != nil {
		return 0, 0, err
	}
	if err := f.End(); err != nil {
		return 0, 0, errPart(f, part, err)
	}
	var head [sequenceFields]int
	for i := range head {
		head[i] = int(binary.LittleEndian.Uint32(x[len(sequenceMagic)+4*i:]))
	}
	return head[4], head[5], checkFields(&head, string(x[:len(latentMagic)]) == latentMagic, c)
}

// checkSequenceMagic makes sure that a file is one of this version.
func checkSequenceMagic(magic string) error {
	const version = len(sequenceMagic) - 1
	switch {
	case magic[:version] != sequenceMagic[:version]:
		return fail(ErrFormat, "the file begins with %q, want %q", magic, sequenceMagic)
	case magic[version] != sequenceMagic[version] && magic[version] != latentMagic[version]:
		return fail(ErrFormat, "the file is version %d of the form, want version %d or %d",
			magic[version], sequenceMagic[version], latentMagic[version])
	}
	return nil
}

// checkFields makes sure that a header is one, and that its sequence fits the store.
func checkFields(head *[sequenceFields]int, valuesInKeys bool, c *StoreConfig) error {
	for i, f := range [sequenceFields]struct {
		name     string
		min, max int
	}{
		{"Format", 0, len(formats) - 1},
		{"KVHeads", 1, maxLength}, {"HeadDim", 1, maxLength}, {"ValueDim", 1, maxLength},
		{"first position", 0, maxLength}, {"length", head[4], maxLength},
	} {
		if uint(head[i]) > uint(f.max) || head[i] < f.min { // 32 bits may have become negative
			return fail(ErrFormat, "the file's %s is %d, want %d to %d",
				f.name, uint32(head[i]), f.min, f.max)
		}
	}
	if f := Format(head[0]); f != c.Format {
		return fail(ErrOption, "the file's Format is %v, want the store's %v", f, c.Format)
	}
	if valuesInKeys != c.ValuesInKeys {
		return fail(ErrOption, "the file's ValuesInKeys is %t, want the store's %t", valuesInKeys,
			c.ValuesInKeys)
	}
	for i, size := range [...]namedSize{
		{"KVHeads", c.KVHeads}, {"HeadDim", c.HeadDim}, {"ValueDim", c.ValueDim}} {
		if got := head[1+i]; got != size.n {
			return fail(ErrShape, "the file's %s is %d, want the store's %d", size.name, got, size.n)
		}
	}
	return nil
}

// readPage reads page i of a file, whose positions lo to hi−1 have tokens, into a page of the
// store.
func (s *Store) readPage(f *frames.Reader, i, page, lo, hi int) error {
	part := fmt.Sprintf("page %d", i)
	for h := range s.config.KVHeads {
		if err := f.Read(s.packed.at(h, page)); err != nil {
			return errPart(f, part, err)
		}
	}
	if err := f.End(); err != nil {
		return errPart(f, part, err)
	}
	for h := range s.config.KVHeads {
		x := s.packed.at(h, page)
		s.packed.littleEndian(x)
		if s.packed.blank(x, lo, hi) {
			return fail(ErrFormat, "%s, head %d: a byte is of no token and not zero", part, h)
		}
		if fault := s.packed.faultOfIntegers(x); fault != "" {
			return fail(ErrFormat, "%s, head %d: %s", part, h, fault)
		}
	}
	return nil
}

// errPart is an error of reading a part of a file.
func errPart(f *frames.Reader, part string, err error) error {
	var mismatch frames.Mismatch
	switch {
	case errors.As(err, &mismatch):
		return fail(ErrFormat, "%s: %v", part, mismatch)
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return fmt.Errorf("%w: %s: the file ends after %d bytes: %w", ErrFormat, part, f.N, err)
	}
	return fmt.Errorf("attn: reading a sequence, %s: %w", part, err)
}
