// Package frames writes and reads files in parts that end with a checksum. A checksum is the
// CRC-32C of all bytes from the beginning except earlier checksums, little-endian, so that parts in
// another order, or of another file, fail. A [Writer] writes bytes, a [NumberWriter] one part of
// numbers.
package frames

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/seed-1415985d/attn/internal/stop"
)

// ChecksumSize is the length of a checksum.
const ChecksumSize = 4

// update adds bytes to the checksum.
func update(sum uint32, x []byte) uint32 {
	return crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), x)
}

// Writer writes to To.
type Writer struct {
	To  io.Writer
	N   int64 // bytes written
	sum uint32
}

// Write writes x, and after the last piece of a part its checksum. A call of To has at most a few
// bytes more than [stop.Bytes], because a writer to memory copies them without a stop. x has room
// for a checksum, or it is copied.
func (w *Writer) Write(x []byte, last bool) error {
	for ; len(x) > stop.Bytes; x = x[stop.Bytes:] {
		w.sum = update(w.sum, x[:stop.Bytes])
		if err := w.put(x[:stop.Bytes]); err != nil {
			return err
		}
	}
	w.sum = update(w.sum, x)
	if last {
		x = binary.LittleEndian.AppendUint32(x, w.sum)
	}
	return w.put(x)
}

// put writes bytes whose checksum is computed.
func (w *Writer) put(x []byte) error {
	n, err := w.To.Write(x)
	w.N += int64(n)
	if err == nil && n != len(x) {
		err = io.ErrShortWrite
	}
	return err
}

// Reader reads from From, never more than requested.
type Reader struct {
	From   io.Reader
	N      int64 // bytes read
	sum    uint32
	buffer [ChecksumSize]byte
}

// Read fills x with a piece of a part. The error wraps [io.EOF] if nothing was read at all, and
// [io.ErrUnexpectedEOF] if the bytes end later.
func (r *Reader) Read(x []byte) error {
	for {
		piece := x[:min(len(x), stop.Bytes)]
		if err := r.fill(piece); err != nil {
			return err
		}
		r.sum = update(r.sum, piece)
		if x = x[len(piece):]; len(x) == 0 {
			return nil
		}
	}
}

// End reads the checksum of a part. The error is a [Mismatch] if it does not belong to the bytes
// before.
func (r *Reader) End() error {
	if err := r.fill(r.buffer[:]); err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint32(r.buffer[:]); got != r.sum {
		return Mismatch{got, r.sum}
	}
	return nil
}

// fill reads bytes without adding them to the checksum.
func (r *Reader) fill(x []byte) error {
	n, err := io.ReadFull(r.From, x)
	r.N += int64(n)
	if err == io.EOF && r.N > 0 {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Mismatch is the error for a wrong checksum.
type Mismatch struct{ Got, Want uint32 }

func (m Mismatch) Error() string {
	return fmt.Sprintf("the checksum is %08x, want %08x", m.Got, m.Want)
}
