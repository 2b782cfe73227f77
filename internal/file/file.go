package attn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/seed-1415985d/attn/internal/frames"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/stop"
)

// A file begins with a header of 64 bytes, and numbers are little-endian. Its parts end with
// checksums (internal/frames), the header's first:
//
//	7 bytes   tokensMagic or matrixMagic
//	1 byte    fileVersion
//	u32       Format: 0 F32, 1 F16, 2 BF16, 3 I8, 4 I4; of tokens that of keys
//	u32       ValueFormat: that of values, of a matrix Format again
//	u32       1 with ValuesInKeys, or if products by a matrix are in integers; else 0
//	u32       batch entries
//	u32       heads
//	u32       HeadDim, or a matrix's inputs
//	u32       ValueDim, or a matrix's outputs
//	u32       position of the first token; 0 of a matrix
//	u32       position after the last token; 0 of a matrix
//	bytes     zero
//	u32       checksum
//
// What follows is in tokens_file.go for tokens and in matmul_file.go for a matrix. The same
// content is the same bytes: what is of no token, column or dimension is zero.
const (
	tokensMagic = "attnTok"
	matrixMagic = "attnMat"
	fileVersion = 4 // 1 to 3 were of sequences only
	fileFields  = 9
	headerSize  = 64 // with its checksum
)

// fileHeader is what a header says.
type fileHeader struct {
	format, valueFormat           Format
	mark                          bool
	batch, heads, inputs, outputs int
	first, length                 int
}

// append adds the header to x, without its checksum.
func (h *fileHeader) append(x []byte, magic string) []byte {
	mark := 0
	if h.mark {
		mark = 1
	}
	start := len(x)
	x = append(append(x, magic...), fileVersion)
	for _, n := range [fileFields]int{int(h.format), int(h.valueFormat), mark, h.batch, h.heads,
		h.inputs, h.outputs, h.first, h.length} {
		x = binary.LittleEndian.AppendUint32(x, uint32(n))
	}
	return append(x, make([]byte, headerSize-frames.ChecksumSize-(len(x)-start))...)
}

// fileField is a field of a header, by name, and its bounds.
type fileField struct {
	name     string
	min, max int
}

// readHeader reads a header with a magic, whose fields are within their bounds. A length is not
// before the first position.
func readHeader(f *frames.Reader, magic string, fields *[fileFields]fileField) (h fileHeader,
	err error) {
	const part = "header"
	var x [headerSize - frames.ChecksumSize]byte
	if err := f.Read(x[:]); err != nil {
		return h, errPart(f, part, err)
	}
	if err := checkMagic(string(x[:8]), magic); err != nil {
		return h, err
	}
	if err := f.End(); err != nil {
		return h, errPart(f, part, err)
	}
	var n [fileFields]int
	for i, field := range fields {
		e := binary.LittleEndian.Uint32(x[8+4*i:])
		if e < uint32(field.min) || e > uint32(field.max) {
			return h, fail(ErrFormat, "the file's %s is %d, want %d to %d", field.name, e, field.min,
				field.max)
		}
		n[i] = int(e)
	}
	for i, e := range x[8+4*fileFields:] {
		if e != 0 {
			return h, fail(ErrFormat, "byte %d of the header is %d, want 0", 8+4*fileFields+i, e)
		}
	}
	h = fileHeader{Format(n[0]), Format(n[1]), n[2] == 1, n[3], n[4], n[5], n[6], n[7], n[8]}
	if h.length < h.first {
		return h, fail(ErrFormat, "the file's %s is %d, want %d to %d", fields[8].name, h.length, h.first,
			fields[8].max)
	}
	return h, nil
}

// checkMagic makes sure that a file is of a kind and of this version.
func checkMagic(got, magic string) error {
	switch last := len(magic); {
	case got[:last] != magic:
		return fail(ErrFormat, "the file begins with %q, want %q", got[:last], magic)
	case got[last] != fileVersion:
		return fail(ErrFormat, "the file is version %d of the form, want version %d", got[last],
			fileVersion)
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
	return fmt.Errorf("attn: reading a file, %s: %w", part, err)
}

// errWriting is an error of a writer.
func errWriting(f *frames.Writer, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("attn: writing a file, %d bytes are written: %w", f.N, err)
}

// Tokens on their way to a file, and back. A block in a file is that of a cache or store with
// numbers little-endian, and zero wherever no token is: these bytes may be left from other
// sequences. A page is the blocks of all heads for the same Block positions.

// tokenFields are the fields of a header of tokens.
var tokenFields = [fileFields]fileField{
	{"Format", 0, int(kernel.I4)}, {"ValueFormat", 0, int(kernel.I4)}, {"ValuesInKeys", 0, 1},
	{"Batch", 1, maxLength}, {"KVHeads", 1, maxLength}, {"HeadDim", 1, maxLength},
	{"ValueDim", 1, maxLength}, {"first position", 0, maxLength}, {"length", 0, maxLength},
}

// readTokens reads the header of a file whose tokens are to fit h, that of its reader. It leaves
// their positions in h.
func (h *fileHeader) readTokens(f *frames.Reader, whose string) error {
	got, err := readHeader(f, tokensMagic, &tokenFields)
	switch {
	case err != nil:
		return err
	case got.format != h.format:
		return errOption("Format", got.format, whose, h.format)
	case got.valueFormat != h.valueFormat:
		return errOption("ValueFormat", got.valueFormat, whose, h.valueFormat)
	case got.mark != h.mark:
		return errOption("ValuesInKeys", got.mark, whose, h.mark)
	}
	want := [...]int{h.batch, h.heads, h.inputs, h.outputs}
	for i, n := range [len(want)]int{got.batch, got.heads, got.inputs, got.outputs} {
		if n != want[i] {
			return fail(ErrShape, "the file's %s is %d, want %s %d", tokenFields[3+i].name, n, whose,
				want[i])
		}
	}
	h.first, h.length = got.first, got.length
	return nil
}

func errOption(name string, got any, whose string, want any) error {
	return fail(ErrOption, "the file's %s is %v, want %s %v", name, got, whose, want)
}

// fileBuffer is memory for a header or a block on its way, with room for a checksum.
func fileBuffer(s *packed.Blocks) []byte {
	return make([]byte, 0, max(headerSize, s.Size+frames.ChecksumSize))
}

// writePage writes the blocks of some heads, of which positions lo to hi−1 have tokens.
func writePage(s *packed.Blocks, f *frames.Writer, buffer []byte, heads, page, lo,
	hi int) error {
	for h := range heads {
		x := buffer[:s.Size]
		stop.Copy(x, s.At(h, page))
		s.Blank(x, lo, hi)
		s.LittleEndian(x)
		if err := f.Write(x, h == heads-1); err != nil {
			return err
		}
	}
	return nil
}

// readPage reads page i of a file into blocks of some heads, of which positions lo to hi−1 have
// tokens.
func readPage(s *packed.Blocks, f *frames.Reader, i, heads, page, lo, hi int) error {
	for h := range heads {
		if err := f.Read(s.At(h, page)); err != nil {
			return errPart(f, fmt.Sprintf("page %d", i), err)
		}
	}
	if err := f.End(); err != nil {
		return errPart(f, fmt.Sprintf("page %d", i), err)
	}
	for h := range heads {
		x := s.At(h, page)
		if fault := s.Take(x, lo, hi); fault != "" {
			return fail(ErrFormat, "page %d, %s: %s", i, nameOfHead(s, h, heads), fault)
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
