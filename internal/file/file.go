// Package file has the format of files of tokens and of matrices, and the validation of readers.
package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/seed-1415985d/attn/internal/frames"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/views"
)

// A file begins with a header of 64 bytes, and numbers are little-endian. Its parts end with
// checksums (internal/frames), the header's first:
//
//	7 bytes   tokensMagic or matrixMagic
//	1 byte    version
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
// What follows is in tokens.go for tokens and in matrix.go for a matrix. The same content has the
// same bytes: padding of tokens, columns and dimensions is zero.
const (
	tokensMagic = "attnTok"
	matrixMagic = "attnMat"
	version     = 4 // 1 to 3 were of sequences only
	fieldCount  = 9

	// HeaderSize is the size of a header with its checksum.
	HeaderSize = 64
)

// Header is the content of a header.
type Header struct {
	Format, ValueFormat           kernel.Format
	Mark                          bool
	Batch, Heads, Inputs, Outputs int
	First, Length                 int
}

// append adds the header to x, without its checksum.
func (h *Header) append(x []byte, magic string) []byte {
	mark := 0
	if h.Mark {
		mark = 1
	}
	start := len(x)
	x = append(append(x, magic...), version)
	for _, n := range [fieldCount]int{int(h.Format), int(h.ValueFormat), mark, h.Batch, h.Heads,
		h.Inputs, h.Outputs, h.First, h.Length} {
		x = binary.LittleEndian.AppendUint32(x, uint32(n))
	}
	return append(x, make([]byte, HeaderSize-frames.ChecksumSize-(len(x)-start))...)
}

// field is a field of a header, with its name and bounds.
type field struct {
	name     string
	min, max int
}

// readHeader reads a header with a magic, and checks that fields are within their bounds, and that
// the length is not before the first position.
func readHeader(f *frames.Reader, magic string, named *[fieldCount]field) (h Header,
	err error) {
	var x [HeaderSize - frames.ChecksumSize]byte
	if err := readStart(f, x[:], magic); err != nil {
		return h, err
	}
	var n [fieldCount]int
	for i, is := range named {
		e := binary.LittleEndian.Uint32(x[8+4*i:])
		if e < uint32(is.min) || e > uint32(is.max) {
			return h, malformed("the file's %s is %d, want %d to %d", is.name, e, is.min,
				is.max)
		}
		n[i] = int(e)
	}
	for i, e := range x[8+4*fieldCount:] {
		if e != 0 {
			return h, malformed("byte %d of the header is %d, want 0", 8+4*fieldCount+i, e)
		}
	}
	h = Header{kernel.Format(n[0]), kernel.Format(n[1]), n[2] == 1, n[3], n[4], n[5], n[6], n[7], n[8]}
	if h.Length < h.First {
		return h, malformed("the file's %s is %d, want %d to %d", named[8].name,
			h.Length, h.First, named[8].max)
	}
	return h, nil
}

// readStart reads a header and its checksum. It checks the magic first, because bytes that are no
// such file have no checksum that could be wrong.
func readStart(f *frames.Reader, x []byte, magic string) error {
	const part, first = "header", 8
	if err := f.Read(x[:first]); err != nil {
		if got := string(x[:f.N]); err == io.ErrUnexpectedEOF && !begins(got, magic) {
			return fmt.Errorf("%w: %w", errMagic(got, magic), err)
		}
		return errPart(f, part, err)
	}
	if err := checkMagic(string(x[:first]), magic); err != nil {
		return err
	}
	return readPart(f, part, x[first:])
}

// savedBy names the method that writes files with a magic. (A map would be in every program that
// links the package.)
func savedBy(magic string) string {
	switch magic {
	case tokensMagic:
		return "Save of a Cache or a Sequence"
	case matrixMagic:
		return "Matrix.Save"
	}
	return "SaveMatrices"
}

// checkMagic verifies the kind and the version of a file.
func checkMagic(got, magic string) error {
	switch last := len(magic); {
	case !begins(got, magic):
		return errMagic(got[:last], magic)
	case got[last] != version:
		return malformed("the file is version %d of the form, want version %d", got[last],
			version)
	}
	return nil
}

// begins reports whether bytes, however few, are the beginning of a file of a kind.
func begins(got, magic string) bool {
	n := min(len(got), len(magic))
	return got[:n] == magic[:n]
}

func errMagic(got, magic string) error {
	return malformed("the file begins with %q, want %q, which %s writes", got, magic, savedBy(magic))
}

// malformed returns the error for bytes that are no such file.
func malformed(format string, args ...any) error {
	return views.Fail(views.ErrFormat, format, args...)
}

// errPart wraps an error of reading a part of a file.
func errPart(f *frames.Reader, part string, err error) error {
	var mismatch frames.Mismatch
	switch {
	case errors.As(err, &mismatch):
		return malformed("%s: %v", part, mismatch)
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return fmt.Errorf("%w: %s: the file ends after %d bytes: %w", views.ErrFormat, part, f.N, err)
	}
	return fmt.Errorf("attn: reading a file, %s: %w", part, err)
}

// errWriting wraps an error of a writer.
func errWriting(f *frames.Writer, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("attn: writing a file, %d bytes are written: %w", f.N, err)
}
