package file

import (
	"bytes"
	"fmt"
	"io"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/frames"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/views"
)

// The file of a matrix: the header, then parts
//
//	of I8     the scales as in packed.Matrix, and bytes of zero so that the part and its checksum
//	          are a multiple of 64 bytes
//	always    the elements as in packed.Matrix, which therefore begin at a multiple of 64 bytes
//
// Format 5 is BF16 for products in bfloat16. Blocks (internal/blocks) have their scales among their
// elements, in little-endian bytes. Format is firstBlockFormat + BlockType, and for products in
// bfloat16 bfloat16Formats more.
//
// Whoever maps a file checks the header and the scales, and leaves the elements where they are.

// piece is how many bytes are read or written at a time, whole numbers.
const piece = stop.Bytes

// scalePadding is the zeros after the scales, which are a multiple of 64 bytes.
const scalePadding = 64 - frames.ChecksumSize

const _ = uint(-(4 * kernel.Panel % 64)) // does not compile if they are not

// matrixFields are the fields of a header of a matrix.
var matrixFields = [fieldCount]field{
	{"Format", 0, bfloat16Formats + lastBlockFormat},
	{"ValueFormat", 0, bfloat16Formats + lastBlockFormat}, {"Integers", 0, 1},
	{"number of batch entries", 1, views.MaxLength}, {"number of heads", 1, views.MaxLength},
	{"number of inputs", 1, views.MaxLength}, {"number of outputs", 1, views.MaxLength},
	{"first position", 0, 0}, {"length", 0, 0},
}

// Formats of files of blocks: firstBlockFormat + BlockType. Those from 16 on lay otherwise.
const (
	firstBlockFormat = 32
	lastBlockFormat  = firstBlockFormat + int(blocks.Last)
	bfloat16Formats  = 64
)

// Matrix is a matrix as its file says.
type Matrix struct {
	packed.Matrix
	Integers bool // products are in integers,
	BFloat16 bool // or, by blocks, in bfloat16
}

// header returns the header of the matrix's file.
func (m *Matrix) header() Header {
	f := m.Format
	if m.Blocks != 0 {
		f = firstBlockFormat + kernel.Format(m.Blocks)
	}
	if m.BFloat16 {
		f += bfloat16Formats
	}
	return Header{Format: f, ValueFormat: f, Mark: m.Integers, Batch: m.Batch, Heads: m.Heads,
		Inputs: m.Inputs, Outputs: m.Outputs}
}

// FileSize is the bytes of the matrix's file.
func (m *Matrix) FileSize() int {
	n := HeaderSize + m.Size() + frames.ChecksumSize
	if m.Scaled() {
		n += m.ScaleSize() + scalePadding + frames.ChecksumSize
	}
	return n
}

// ErrSize is the error of a file of another size.
func (m *Matrix) ErrSize(n string) error {
	return malformed("the file has %s bytes, want the %d of its matrix", n,
		m.FileSize())
}

// Write writes the file of the matrix, and returns how many bytes were written.
func (m *Matrix) Write(to io.Writer, data, scales []byte) (n int64, err error) {
	f, h := frames.Writer{To: to}, m.header()
	buffer := make([]byte, 0, min(piece, max(HeaderSize, m.Size()))+frames.ChecksumSize)
	err = f.Write(h.append(buffer, matrixMagic), true)
	if m.Scaled() {
		if err == nil {
			err = writeNumbers(&f, buffer, scales, 4, false)
		}
		if err == nil {
			err = f.Write(append(buffer, make([]byte, scalePadding)...), true)
		}
	}
	if err == nil {
		err = writeNumbers(&f, buffer, data, m.ElementBytes(), true)
	}
	return f.N, errWriting(&f, err)
}

// writeNumbers writes numbers of a size, piece by piece, the last one perhaps with a checksum.
func writeNumbers(f *frames.Writer, buffer, x []byte, size int, last bool) error {
	for len(x) > 0 {
		n := min(len(x), cap(buffer)-frames.ChecksumSize)
		part := append(buffer[:0], x[:n]...)
		x = x[n:]
		if packed.BigEndian() {
			packed.SwapEach(part, size)
		}
		if err := f.Write(part, last && len(x) == 0); err != nil {
			return err
		}
	}
	return nil
}

// Body is what follows the header of a matrix, in memory.
type Body struct {
	Memory       *memory.Mapping
	Data, Scales []byte
}

// ReadMatrix reads a matrix and nothing after it.
func ReadMatrix(from io.Reader) (m Matrix, b Body, err error) {
	f := frames.Reader{From: from}
	if m, err = readMatrixHeader(&f); err == nil {
		b, err = m.read(&f)
	}
	return m, b, err
}

// MatrixIn returns the matrix in the bytes of a file, which are in this machine's byte order. It
// does not check the elements.
func MatrixIn(file *memory.Mapping) (m Matrix, b Body, err error) {
	x := file.Bytes()
	f := frames.Reader{From: bytes.NewReader(x)}
	if m, err = readMatrixHeader(&f); err != nil {
		return m, b, err
	}
	if len(x) != m.FileSize() {
		return m, b, m.ErrSize(fmt.Sprint(len(x)))
	}
	if _, err = m.readScales(&f); err != nil {
		return m, b, err
	}
	x = x[HeaderSize:]
	scales := x[:m.ScaleSize()]
	if m.Scaled() {
		x = x[len(scales)+scalePadding+frames.ChecksumSize:]
	}
	return m, Body{file, x[:m.Size()], scales}, nil
}

// readMatrixHeader reads the header of a matrix.
func readMatrixHeader(f *frames.Reader) (m Matrix, err error) {
	h, err := readHeader(f, matrixMagic, &matrixFields)
	if err != nil {
		return m, err
	}
	return h.Matrix()
}

// Matrix is the matrix of a header.
func (h *Header) Matrix() (m Matrix, err error) {
	switch {
	case !knownFormat(h.Format):
		return m, malformed("the file's Format is %d, want 0 to %d, %d, or %d to %d or %d to %d of "+
			"blocks", int(h.Format), int(kernel.I8), int(kernel.Pairs), firstBlockFormat+1, lastBlockFormat,
			bfloat16Formats+firstBlockFormat+1, bfloat16Formats+lastBlockFormat)
	case h.ValueFormat != h.Format:
		return m, malformed("the file's ValueFormat is %v, want %v as Format",
			h.ValueFormat, h.Format)
	case h.Format > firstBlockFormat:
		return h.blockMatrix()
	case h.Mark && h.Format != kernel.I8:
		return m, malformed("the file's Format is %v with Integers, want I8", h.Format)
	}
	m.Integers = h.Mark
	m.Matrix = packed.Matrix{Format: h.Format, Batch: h.Batch, Heads: h.Heads, Inputs: h.Inputs,
		Outputs: h.Outputs}
	if !m.Fits() {
		return m, views.Fail(views.ErrShape, "the file's matrix is [%d %d %d %d], want at most %d "+
			"elements", h.Batch, h.Heads, h.Inputs, h.Outputs, views.MaxElements)
	}
	return m, nil
}

// knownFormat reports whether matrices have a format.
func knownFormat(f kernel.Format) bool {
	if f > firstBlockFormat {
		f := int(f) % bfloat16Formats
		return f > firstBlockFormat && f <= lastBlockFormat
	}
	return f <= kernel.I8 || f == kernel.Pairs
}

// blockMatrix is the matrix of a header of blocks.
func (h *Header) blockMatrix() (m Matrix, err error) {
	t := blocks.Type(h.Format%bfloat16Formats - firstBlockFormat)
	m.BFloat16 = h.Format > bfloat16Formats
	switch {
	case t.Halves():
		return m, malformed("the file's Format is %d, of %v, want that of numbers that lie alone, %d or "+
			"%d", int(h.Format), t, int(kernel.F16), int(kernel.BF16))
	case h.Batch != 1 || h.Heads != 1:
		return m, malformed("the file has %d batch entries and %d heads of %v, want 1",
			h.Batch, h.Heads, t)
	case m.BFloat16 && h.Mark:
		return m, malformed("the file's Format is %d, of %v in bfloat16, with Integers, want one of them",
			int(h.Format), t)
	case h.Inputs%t.Traits().Inputs != 0:
		return m, malformed("the file's number of inputs is %d, want a multiple of %d "+
			"for %v", h.Inputs, t.Traits().Inputs, t)
	}
	m.Integers = h.Mark
	m.Matrix = packed.Matrix{Blocks: t, Batch: 1, Heads: 1, Inputs: h.Inputs, Outputs: h.Outputs}
	if !m.Fits() {
		return m, views.Fail(views.ErrShape, "the file's matrix is %d×%d, want at most %d elements",
			h.Outputs, h.Inputs, views.MaxElements)
	}
	return m, nil
}

// read reads what follows the header.
func (m *Matrix) read(f *frames.Reader) (b Body, err error) {
	scales, err := m.readScales(f)
	if err != nil {
		return b, err
	}
	defer scales.Close()
	all := memory.Growing{Most: m.Size() + m.ScaleSize(), Together: true}
	defer func() {
		if b.Memory == nil { // also if the reader panics
			all.Close()
		}
	}()
	const part = "elements"
	if err := readNumbers(f, part, &all, m.Size(), m.ElementBytes()); err != nil {
		return b, err
	}
	if err := f.End(); err != nil {
		return b, errPart(f, part, err)
	}
	if _, err := all.Next(m.ScaleSize()); err != nil {
		return b, errMemory(&all, err)
	}
	x := all.Mapping().Bytes()
	data, own := x[:m.Size()], x[m.Size():]
	if m.Scaled() {
		stop.Copy(own, scales.Mapping().Bytes())
	}
	if fault := m.FaultOfElements(data, kernel.Elements[float32](own)); fault != "" {
		return b, malformed("%s: %s", part, fault)
	}
	return Body{all.Mapping(), data, own}, nil
}

// readScales reads and checks the scales, if the matrix has some.
func (m *Matrix) readScales(f *frames.Reader) (memory.Growing, error) {
	const part = "scales"
	g := memory.Growing{Most: m.ScaleSize()}
	if !m.Scaled() {
		return g, nil
	}
	err := readNumbers(f, part, &g, m.ScaleSize(), 4)
	if err == nil {
		err = readZeros(f, part, scalePadding)
	}
	if err == nil {
		if fault := m.FaultOfScales(g.Mapping().Floats()); fault != "" {
			err = malformed("%s: %s", part, fault)
		}
	}
	if err != nil {
		g.Close()
	}
	return g, err
}

// readNumbers reads bytes of numbers of a size, piece by piece.
func readNumbers(f *frames.Reader, part string, to *memory.Growing, n, size int) error {
	for n > 0 {
		x, err := to.Next(min(n, piece))
		if err != nil {
			return errMemory(to, err)
		}
		if err := f.Read(x); err != nil {
			return errPart(f, part, err)
		}
		if packed.BigEndian() {
			packed.SwapEach(x, size)
		}
		n -= len(x)
	}
	return nil
}

func errMemory(g *memory.Growing, err error) error {
	return views.Fail(views.ErrMemory, "the file's matrix is %d bytes: %v", g.Most, err)
}

// readZeros reads the end of a part, n bytes of zero.
func readZeros(f *frames.Reader, part string, n int) error {
	x := make([]byte, n)
	if err := f.Read(x); err != nil {
		return errPart(f, part, err)
	}
	if err := f.End(); err != nil {
		return errPart(f, part, err)
	}
	if i := bytes.IndexFunc(x, func(e rune) bool { return e != 0 }); i >= 0 {
		return malformed("%s: byte %d after them is %d, want 0", part, i, x[i])
	}
	return nil
}
