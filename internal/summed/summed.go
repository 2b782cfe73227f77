// Package summed writes and reads files of numbers, little endian, that end in a checksum of all
// before it.
package summed

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/seed-1415985d/attn/internal/views"
)

var table = crc32.MakeTable(crc32.Castagnoli)

// Writer writes a file. After an error it writes nothing more.
type Writer struct {
	to  io.Writer
	sum uint32
	n   int64
	err error
}

// NewWriter begins a file.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Put writes numbers: what binary.Write takes.
func (w *Writer) Put(x any) error {
	if w.err == nil {
		w.err = binary.Write((*counter)(w), binary.LittleEndian, x)
	}
	return w.err
}

// End writes the checksum, and returns how many bytes were written in all.
func (w *Writer) End() (int64, error) {
	err := w.Put(w.sum)
	return w.n, err
}

// counter counts and adds up what the writer takes. A writer that takes less and says nothing
// fails.
type counter Writer

func (c *counter) Write(x []byte) (int, error) {
	n, err := c.to.Write(x)
	c.n += int64(n)
	c.sum = crc32.Update(c.sum, table, x)
	if err == nil && n != len(x) {
		err = io.ErrShortWrite
	}
	return n, err
}

// Reader reads a file.
type Reader struct {
	N    int64 // bytes that were read
	from io.Reader
	sum  uint32
	data []byte // memory that is kept
}

// NewReader begins a file.
func NewReader(from io.Reader) *Reader { return &Reader{from: from} }

// Take reads numbers: what binary.Decode takes.
func (r *Reader) Take(into any) error {
	n := binary.Size(into)
	if cap(r.data) < n {
		r.data = make([]byte, n)
	}
	data := r.data[:n]
	got, err := io.ReadFull(r.from, data)
	if r.N += int64(got); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return views.Fail(views.ErrFormat, "the file ends after %d bytes", r.N)
	}
	if err != nil {
		return err
	}
	r.sum = crc32.Update(r.sum, table, data)
	_, err = binary.Decode(data, binary.LittleEndian, into)
	return err
}

// End reads the checksum, which must be that of what was taken.
func (r *Reader) End() error {
	want, got := r.sum, uint32(0)
	if err := r.Take(&got); err != nil {
		return err
	}
	if got != want {
		return views.Fail(views.ErrFormat, "the file is damaged: its checksum is %08x, want %08x", got,
			want)
	}
	return nil
}
