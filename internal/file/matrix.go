package attn

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"runtime"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/frames"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/marks"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/stop"
)

// The file of a matrix: the header (file.go), then parts
//
//	of I8     the scales as in Matrix, [batch][heads][outputs in whole panels] float32, and bytes of
//	          zero so that the part and its checksum are a multiple of 64 bytes
//	always    the elements as in Matrix, which therefore begin at a multiple of 64 bytes
//
// Blocks (internal/blocks) have their scales among their elements, in little-endian bytes. Format
// is firstBlockFormat + BlockType.
//
// Whoever maps a file checks the header and the scales, and leaves the elements where they are.

// filePiece is how many bytes are read or written at a time, whole numbers.
const filePiece = stop.Bytes

// scalePadding is the zeros after the scales, which are a multiple of 64 bytes.
const scalePadding = 64 - frames.ChecksumSize

const _ = uint(-(4 * panel % 64)) // does not compile if they are not

// matrixFields are the fields of a header of a matrix.
var matrixFields = [fileFields]fileField{
	{"Format", 0, lastBlockFormat}, {"ValueFormat", 0, lastBlockFormat}, {"Integers", 0, 1},
	{"number of batch entries", 1, maxLength}, {"number of heads", 1, maxLength},
	{"number of inputs", 1, maxLength}, {"number of outputs", 1, maxLength},
	{"first position", 0, 0}, {"length", 0, 0},
}

// Formats of files of blocks: firstBlockFormat + BlockType. Those from 16 on lay otherwise.
const (
	firstBlockFormat = 32
	lastBlockFormat  = firstBlockFormat + int(TQ2_0)
)

// fileFormat is the Format of the matrix's file.
func (m *Matrix) fileFormat() Format {
	if m.blocks != 0 {
		return firstBlockFormat + Format(m.blocks)
	}
	return m.format
}

// Save writes the packed matrix to w in a form that any machine can read with [LoadMatrix] or
// [MapMatrix]: its elements and scales, and less than 200 bytes beside them. It returns how many
// were written. The same matrix gives the same bytes, on every CPU. Errors of w are wrapped.
func (m *Matrix) Save(w io.Writer) (n int64, err error) {
	if err := m.checkOpen(); err != nil {
		return 0, err
	}
	f := frames.Writer{To: w}
	h := fileHeader{m.fileFormat(), m.fileFormat(), m.int8, m.b, m.h, m.inner, m.cols, 0, 0}
	buffer := make([]byte, 0, min(filePiece, max(headerSize, m.size()))+frames.ChecksumSize)
	err = f.Write(h.append(buffer, matrixMagic), true)
	if m.traits.Scaled {
		if err == nil {
			err = writeNumbers(&f, buffer, rawBytes(m.scales), 4, false)
		}
		if err == nil {
			err = f.Write(append(buffer, make([]byte, scalePadding)...), true)
		}
	}
	if err == nil {
		err = writeNumbers(&f, buffer, m.data, m.traits.Bytes, true)
	}
	runtime.KeepAlive(m) // and with it its memory
	return f.N, errWriting(&f, err)
}

// writeNumbers writes numbers of a size, piece by piece, the last one perhaps with a checksum.
func writeNumbers(f *frames.Writer, buffer, x []byte, size int, last bool) error {
	for len(x) > 0 {
		n := min(len(x), cap(buffer)-frames.ChecksumSize)
		piece := append(buffer[:0], x[:n]...)
		x = x[n:]
		if packed.BigEndian() {
			packed.SwapEach(piece, size)
		}
		if err := f.Write(piece, last && len(x) == 0); err != nil {
			return err
		}
	}
	return nil
}

// LoadMatrix reads a matrix that [Matrix.Save] wrote, and nothing after it, so r may hold several
// one after another. It checks all of it; of the integers of an output in I8, that the largest is
// what its scale makes of the largest weight. Products have the bits of those by the matrix that
// was saved. The memory is like that of [PackMatrix], and is taken as bytes come.
//
// What Save cannot have written is [ErrFormat]; it wraps [io.EOF] too if r has no bytes, and
// [io.ErrUnexpectedEOF] if it has too few. A matrix larger than memory can be is [ErrShape], and
// [ErrMemory] if the system has no memory. Other errors of r are wrapped.
func LoadMatrix(r io.Reader) (*Matrix, error) {
	f := frames.Reader{From: r}
	m, err := readMatrixHeader(&f)
	if err == nil {
		err = m.readFrom(&f)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// MapMatrix opens a file that [Matrix.Save] wrote, a single matrix, and uses its bytes in place:
// a packed model starts at once, and programs that map the same file share its memory. The header
// and the scales are checked; elements are read from the file when they are first needed, and are
// not checked, nor are the scales of blocks, which lie among them. Products have the bits of those
// by the matrix that was saved.
//
// The file must not change until Close: products by bytes that changed are of any value, and the
// end of the program where the file became shorter. Where the system cannot map the file, or orders
// the bytes of numbers otherwise, it is read and checked as by [LoadMatrix]. A system that gives
// huge pages on request gives them to memory and not to files, so decoding may take longer than by
// a matrix from LoadMatrix.
//
// The errors are those of LoadMatrix, [ErrFormat] for bytes after the matrix, and those of opening
// the file, wrapped.
func MapMatrix(path string) (*Matrix, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("attn: mapping a matrix: %w", err)
	}
	defer file.Close()
	m, err := mapMatrix(file)
	if err != nil {
		return nil, fmt.Errorf("%w (mapping %s)", err, path)
	}
	return m, nil
}

// mapMatrix maps a file, or reads it where that cannot be done.
func mapMatrix(file *os.File) (*Matrix, error) {
	if !packed.BigEndian() {
		if mapping, err := memory.Map(file); err == nil {
			m, err := matrixIn(mapping)
			if err != nil {
				_ = mapping.Close() // what is wrong with it is what the caller wants to know
			}
			return m, err
		}
	}
	return loadWhole(file)
}

// loadWhole is LoadMatrix for a reader with nothing after the matrix.
func loadWhole(r io.Reader) (*Matrix, error) {
	m, err := LoadMatrix(r)
	if err != nil {
		return nil, err
	}
	if n, _ := io.ReadFull(r, make([]byte, 1)); n > 0 {
		_ = m.Close()
		return nil, m.errSize("more")
	}
	return m, nil
}

// matrixIn is the matrix in the bytes of a file, which are those of this machine's numbers.
func matrixIn(file *memory.Mapping) (*Matrix, error) {
	x := file.Bytes()
	f := frames.Reader{From: bytes.NewReader(x)}
	m, err := readMatrixHeader(&f)
	if err != nil {
		return nil, err
	}
	if len(x) != m.fileSize() {
		return nil, m.errSize(fmt.Sprint(len(x)))
	}
	if _, err = m.readScales(&f); err != nil {
		return nil, err
	}
	x = x[headerSize:]
	scales := x[:m.scaleSize()]
	if m.traits.Scaled {
		x = x[len(scales)+scalePadding+frames.ChecksumSize:]
	}
	m.use(file, x[:m.size()], scales)
	return m, nil
}

// readMatrixHeader reads a header and returns its matrix, which has no memory yet.
func readMatrixHeader(f *frames.Reader) (*Matrix, error) {
	h, err := readHeader(f, matrixMagic, &matrixFields)
	switch {
	case err != nil:
		return nil, err
	case h.format > I8 && h.format <= firstBlockFormat:
		return nil, fail(ErrFormat, "the file's Format is %d, want 0 to %d, or %d to %d of blocks",
			int(h.format), int(I8), firstBlockFormat+1, lastBlockFormat)
	case h.valueFormat != h.format:
		return nil, fail(ErrFormat, "the file's ValueFormat is %v, want %v as Format", h.valueFormat,
			h.format)
	case h.format > firstBlockFormat:
		return h.blockMatrix()
	case h.mark && h.format != I8:
		return nil, fail(ErrFormat, "the file's Format is %v with Integers, want I8", h.format)
	}
	m, ok := newMatrix(h.format, h.batch, h.heads, h.inputs, h.outputs)
	if !ok {
		return nil, fail(ErrShape, "the file's matrix is [%d %d %d %d], want at most %d elements",
			h.batch, h.heads, h.inputs, h.outputs, maxElements)
	}
	m.int8 = h.mark
	return m, nil
}

// blockMatrix is the matrix of a header of blocks, which has no memory yet.
func (h *fileHeader) blockMatrix() (*Matrix, error) {
	t := blocks.Type(h.format - firstBlockFormat)
	switch {
	case t.Halves():
		return nil, fail(ErrFormat, "the file's Format is %d, of %v, want that of numbers that lie "+
			"alone, %d or %d", int(h.format), t, int(F16), int(BF16))
	case h.batch != 1 || h.heads != 1:
		return nil, fail(ErrFormat, "the file has %d batch entries and %d heads of %v, want 1", h.batch,
			h.heads, t)
	case h.inputs%t.Traits().Inputs != 0:
		return nil, fail(ErrFormat, "the file's number of inputs is %d, want a multiple of %d for %v",
			h.inputs, t.Traits().Inputs, t)
	}
	m, ok := newBlockMatrix(t, h.outputs, h.inputs)
	if !ok {
		return nil, fail(ErrShape, "the file's matrix is %d×%d, want at most %d elements", h.outputs,
			h.inputs, maxElements)
	}
	m.int8 = h.mark
	return m, nil
}

// fileSize is the bytes of the matrix's file.
func (m *Matrix) fileSize() int {
	n := headerSize + m.size() + frames.ChecksumSize
	if m.traits.Scaled {
		n += m.scaleSize() + scalePadding + frames.ChecksumSize
	}
	return n
}

func (m *Matrix) errSize(n string) error {
	return fail(ErrFormat, "the file has %s bytes, want the %d of its matrix", n, m.fileSize())
}

// readFrom reads what follows the header.
func (m *Matrix) readFrom(f *frames.Reader) (err error) {
	scales, err := m.readScales(f)
	if err != nil {
		return err
	}
	defer scales.Close()
	all := memory.Growing{Most: m.size() + m.scaleSize()}
	defer func() {
		if m.memory == nil { // also if the reader panics
			all.Close()
		}
	}()
	const part = "elements"
	if err := readNumbers(f, part, &all, m.size(), m.traits.Bytes); err != nil {
		return err
	}
	if err := f.End(); err != nil {
		return errPart(f, part, err)
	}
	if _, err := all.Next(m.scaleSize()); err != nil {
		return errMemory(&all, err)
	}
	x := all.Mapping().Bytes()
	data, own := x[:m.size()], x[m.size():]
	if m.traits.Scaled {
		stop.Copy(own, scales.Mapping().Bytes())
	}
	if fault := m.faultOfElements(data, elements[float32](own)); fault != "" {
		return fail(ErrFormat, "%s: %s", part, fault)
	}
	m.use(all.Mapping(), data, own)
	return nil
}

// readScales reads and checks the scales, if the matrix has some.
func (m *Matrix) readScales(f *frames.Reader) (memory.Growing, error) {
	const part = "scales"
	g := memory.Growing{Most: m.scaleSize()}
	if !m.traits.Scaled {
		return g, nil
	}
	err := readNumbers(f, part, &g, m.scaleSize(), 4)
	if err == nil {
		err = readZeros(f, part, scalePadding)
	}
	if err == nil {
		if fault := m.faultOfScales(g.Mapping().Floats()); fault != "" {
			err = fail(ErrFormat, "%s: %s", part, fault)
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
		x, err := to.Next(min(n, filePiece))
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
	return fail(ErrMemory, "the file's matrix is %d bytes: %v", g.Most, err)
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
		return fail(ErrFormat, "%s: byte %d after them is %d, want 0", part, i, x[i])
	}
	return nil
}

// faultOfScales says what among scales no matrix has. It is empty if there is nothing.
func (m *Matrix) faultOfScales(scales []float32) string {
	for ; len(scales) > 0; scales = scales[roundUp(m.cols, panel):] {
		if fault := packed.FaultOfScales("output", scales[:m.cols]); fault != "" {
			return fault
		}
		for _, e := range scales[m.cols:roundUp(m.cols, panel)] {
			if math.Float32bits(e) != 0 {
				return fmt.Sprintf("one of no output is %v, want 0", e)
			}
		}
	}
	return ""
}

// faultOfElements says what among elements no matrix with these scales has. It is empty if there is
// nothing.
func (m *Matrix) faultOfElements(data []byte, scales []float32) string {
	if m.blocks != 0 {
		return m.faultOfBlocks(data)
	}
	if m.traits.Scaled && stop.IndexByte(data, 0x80) >= 0 {
		return "one is -128, want -127 to 127"
	}
	size, cols := len(data)/(m.b*m.h), roundUp(m.cols, panel)
	for ; len(data) > 0; data = data[size:] {
		if stray := m.stray(data[:size]); stray != 0 {
			return fmt.Sprintf("a byte of no input or output is %d, want 0", stray)
		}
		if m.traits.Scaled {
			if fault := m.faultOfColumns(data[:size], scales[:m.cols]); fault != "" {
				return fault
			}
			scales = scales[cols:]
		}
	}
	return ""
}

// faultOfColumns says which column of a head's integers does not become its scale.
func (m *Matrix) faultOfColumns(data []byte, scales []float32) string {
	all := make([]marks.Marks, roundUp(m.cols, panel)/2)
	for steps, part := range m.stepsOf(data) {
		size := roundUp(steps, m.traits.Group) * panel
		for c := 0; c < m.cols; c += panel {
			marks.Bytes(all[c/2:][:panel/2], part[c/panel*size:][:size])
		}
	}
	for c, scale := range scales {
		word, bits := packed.BitsOf(kernel.Format(m.format), c, false)
		if any, top := all[word].In(bits); scale > 0 && top || scale == 0 && !any {
			continue
		}
		fault := packed.FaultOfLargest(kernel.Format(m.format), "output", c, m.largestOf(data, c), scale)
		if fault != "" {
			return fault
		}
	}
	return ""
}

// largestOf is the largest magnitude of column c of a head's integers.
func (m *Matrix) largestOf(data []byte, c int) (largest float32) {
	for steps, part := range m.stepsOf(data) {
		layout := kernel.ScoreLayout(kernel.Format(m.format), steps, roundUp(m.cols, panel))
		for k := range steps {
			e := narrow.ElementOf(kernel.Format(m.format), part, kernel.PlaceOf(kernel.Format(m.format),
				&layout, k, c))
			largest = max(largest, e, -e)
		}
	}
	return largest
}

// stepsOf goes through a head's elements: at most productInner steps of all columns at a time.
func (m *Matrix) stepsOf(data []byte) iter.Seq2[int, []byte] {
	return func(yield func(steps int, part []byte) bool) {
		for k := 0; k < m.inner; k += productInner {
			steps := min(productInner, m.inner-k)
			n := roundUp(steps, m.traits.Group) * roundUp(m.cols, panel) * m.traits.Bytes
			if !yield(steps, data[:n]) {
				return
			}
			data = data[n:]
		}
	}
}

// faultOfBlocks is faultOfElements of a matrix of blocks.
func (m *Matrix) faultOfBlocks(data []byte) string {
	size := m.blocks.Traits().Packed
	for panelAt := 0; len(data) > 0; panelAt += panel {
		for k := range m.inner / m.blocks.Traits().Inputs {
			outputs := min(panel, m.cols-panelAt)
			if fault := blocks.FaultOfPacked(m.blocks, data[:size], outputs); fault != "" {
				return fmt.Sprintf("block %d of outputs %d to %d: %s", k, panelAt, panelAt+outputs-1, fault)
			}
			data = data[size:]
		}
	}
	return ""
}

// stray is the first byte beyond the steps and columns of a head that is not zero, or zero.
func (m *Matrix) stray(data []byte) byte {
	for steps, part := range m.stepsOf(data) {
		if e := m.strayIn(part, steps); e != 0 {
			return e
		}
	}
	return 0
}

// strayIn is stray for some steps.
func (m *Matrix) strayIn(x []byte, steps int) byte {
	layout := kernel.ScoreLayout(kernel.Format(m.format), steps, roundUp(m.cols, panel))
	for c := range layout.Cols {
		first := steps
		if c >= m.cols {
			first = 0
		}
		for k := first; k < roundUp(steps, m.traits.Group); k++ {
			at := kernel.PlaceOf(kernel.Format(m.format), &layout, k, c) * m.traits.Bytes
			for _, e := range x[at:][:m.traits.Bytes] {
				if e != 0 {
					return e
				}
			}
		}
	}
	return 0
}
