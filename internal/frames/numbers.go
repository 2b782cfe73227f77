package frames

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/seed-1415985d/attn/internal/views"
)

// NumberWriter writes numbers, little-endian, as one part. After an error it writes nothing more.
type NumberWriter struct {
	to   Writer
	data []byte // memory that is kept
	err  error
}

// NewNumberWriter begins a file.
func NewNumberWriter(to io.Writer) *NumberWriter { return &NumberWriter{to: Writer{To: to}} }

// Put writes what binary.Append encodes.
func (w *NumberWriter) Put(x any) error {
	if w.err == nil {
		w.data, w.err = binary.Append(w.data[:0], binary.LittleEndian, x)
	}
	if w.err == nil {
		w.err = w.to.Write(w.data, false)
	}
	return w.err
}

// End writes the checksum, and returns the number of bytes of the file.
func (w *NumberWriter) End() (int64, error) {
	if w.err == nil {
		w.err = w.to.Write(w.data[:0], true)
	}
	return w.to.N, w.err
}

// NumberReader reads what NumberWriter wrote. A file that ends early or is damaged is
// [views.ErrFormat].
type NumberReader struct {
	Reader
	data []byte // memory that is kept
}

// NewNumberReader begins a file.
func NewNumberReader(from io.Reader) *NumberReader {
	return &NumberReader{Reader: Reader{From: from}}
}

// Get reads numbers: what binary.Decode decodes.
func (r *NumberReader) Get(into any) error {
	n := binary.Size(into)
	if cap(r.data) < n {
		r.data = make([]byte, n)
	}
	data := r.data[:n]
	if err := r.Reader.Read(data); err != nil {
		return r.errFormat(err)
	}
	_, err := binary.Decode(data, binary.LittleEndian, into)
	return err
}

// End reads the checksum.
func (r *NumberReader) End() error { return r.errFormat(r.Reader.End()) }

// errFormat returns an error of reading, as [views.ErrFormat] if the bytes are wrong.
func (r *NumberReader) errFormat(err error) error {
	var mismatch Mismatch
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return views.Fail(views.ErrFormat, "the file ends after %d bytes", r.N)
	case errors.As(err, &mismatch):
		return views.Fail(views.ErrFormat, "the file is damaged: %v", mismatch)
	}
	return err
}
