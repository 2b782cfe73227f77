package attn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/seed-1415985d/attn/internal/frames"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/marks"
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
	{"Format", 0, len(formats) - 1}, {"ValueFormat", 0, len(formats) - 1}, {"ValuesInKeys", 0, 1},
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
func (s *packedKV) fileBuffer() []byte {
	return make([]byte, 0, max(headerSize, s.block+frames.ChecksumSize))
}

// writePage writes the blocks of some heads, of which positions lo to hi−1 have tokens.
func (s *packedKV) writePage(f *frames.Writer, buffer []byte, heads, page, lo, hi int) error {
	for h := range heads {
		x := buffer[:s.block]
		stop.Copy(x, s.at(h, page))
		s.blank(x, lo, hi)
		s.littleEndian(x)
		if err := f.Write(x, h == heads-1); err != nil {
			return err
		}
	}
	return nil
}

// readPage reads page i of a file into blocks of some heads, of which positions lo to hi−1 have
// tokens.
func (s *packedKV) readPage(f *frames.Reader, i, heads, page, lo, hi int) error {
	for h := range heads {
		if err := f.Read(s.at(h, page)); err != nil {
			return errPart(f, fmt.Sprintf("page %d", i), err)
		}
	}
	if err := f.End(); err != nil {
		return errPart(f, fmt.Sprintf("page %d", i), err)
	}
	for h := range heads {
		x := s.at(h, page)
		if fault := s.takeBlock(x, lo, hi); fault != "" {
			return fail(ErrFormat, "page %d, %s: %s", i, s.nameOfHead(h, heads), fault)
		}
	}
	return nil
}

// nameOfHead names one of the heads of a page, and its batch entry if there are several.
func (s *packedKV) nameOfHead(h, heads int) string {
	if heads == s.heads {
		return fmt.Sprintf("head %d", h)
	}
	return fmt.Sprintf("batch entry %d, head %d", h/s.heads, h%s.heads)
}

// takeBlock makes a file's block one of this machine. It says what in it no tokens lo to hi−1
// become, and is empty if there is nothing.
func (s *packedKV) takeBlock(x []byte, lo, hi int) (fault string) {
	if stray := s.blank(x, lo, hi); stray != 0 {
		return fmt.Sprintf("a byte of no token is %d, want 0", stray)
	}
	s.littleEndian(x)
	return s.faultOfIntegers(x)
}

// blank makes zero what of block x is not of its tokens lo to hi−1. It returns one of the
// bytes there that were not zero, or zero.
func (s *packedKV) blank(x []byte, lo, hi int) (stray byte) {
	keys, values := x[:s.keyBytes], x[s.keyBytes:s.block]
	keyLayout, valueLayout := kernel.ScoreLayout(kernel.Format(s.k.format), s.d,
		Block), s.valueLayout(Block)
	for j := range Block {
		d, dv := s.d, s.dv // what stays
		if j < lo || j >= hi {
			d, dv = 0, 0
			stray = either(stray, s.k.blankScale(keys, j))
			if !s.valuesInKeys {
				stray = either(stray, s.v.blankScale(values, j))
			}
		}
		for i := d; i < roundUp(s.d, s.k.whole); i++ {
			at := kernel.PlaceOf(kernel.Format(s.k.format), &keyLayout, i, j)
			stray = either(stray, s.k.wipe(keys, at))
		}
		for c := dv; c < s.cols && !s.valuesInKeys; c++ {
			at := kernel.PlaceOf(kernel.Format(s.v.format), &valueLayout, j, c)
			stray = either(stray, s.v.wipe(values, at))
		}
	}
	return stray
}

// blankScale is blank for the scale of token j, if the keys or values x of a block have scales.
func (s *packedSide) blankScale(x []byte, j int) (stray byte) {
	if !s.scaled {
		return 0
	}
	return wipe(x[len(x)-s.scaleBytes:], j, 4)
}

// wipe makes element i zero, and returns one of its bytes that were not, or zero.
func (s *packedSide) wipe(x []byte, i int) (stray byte) {
	if s.format == I4 {
		stray = kernel.CodeAt(x, i)
		kernel.SetCode(x, i, 0)
		return stray
	}
	return wipe(x, i, s.bytes)
}

// wipe makes element i of a size zero, and returns one of its bytes that were not, or zero.
func wipe(x []byte, i, size int) (stray byte) {
	x = x[i*size:][:size]
	for _, e := range x {
		stray = either(stray, e)
	}
	clear(x)
	return stray
}

// either is the first of two bytes that is not zero, if one is not.
func either(a, b byte) byte {
	if a != 0 {
		return a
	}
	return b
}

// littleEndian makes the numbers of block x little-endian, or from that what this machine wants.
func (s *packedKV) littleEndian(x []byte) {
	if bigEndian() {
		s.swapBytes(x)
	}
}

// bigEndian reports whether numbers of this machine are turned on their way to a file.
func bigEndian() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) != 1 }

// swapBytes turns the order of the bytes of each number of block x.
func (s *packedKV) swapBytes(x []byte) {
	s.k.swapBytes(x[:s.keyBytes])
	if !s.valuesInKeys {
		s.v.swapBytes(x[s.keyBytes:])
	}
}

func (s *packedSide) swapBytes(x []byte) {
	scales := len(x) - s.scaleBytes
	swapEach(x[:scales], s.bytes)
	swapEach(x[scales:], 4)
}

func swapEach(x []byte, size int) {
	for ; size > 1 && len(x) > 0; x = x[size:] {
		slices.Reverse(x[:size])
	}
}

// Integers as readers check them: a scale is one that [scaleOf] gives, and the largest element of a
// token, or of a matrix's column, is what the largest number with this scale becomes.

// faultOfIntegers says what in a block of integers no token becomes. It is empty if there is
// nothing.
func (s *packedKV) faultOfIntegers(x []byte) string {
	if s.k.scaled {
		keys, scales := s.keys(x)
		layout := kernel.ScoreLayout(kernel.Format(s.k.format), s.d, Block)
		if fault := s.k.faultOf("key", keys, scales, &layout); fault != "" {
			return fault
		}
	}
	if !s.v.scaled || s.valuesInKeys {
		return ""
	}
	values, scales := s.values(x)
	layout := s.valueLayout(Block)
	return s.v.faultOf("value", values, scales, &layout)
}

// faultOf is faultOfIntegers of keys, the columns of a layout, or of values, its rows.
func (s *packedSide) faultOf(name string, x []byte, scales []float32,
	l *kernel.PanelLayout) string {
	if fault := faultOfScales(name, scales); fault != "" {
		return fault
	}
	if s.format == I8 && stop.IndexByte(x, 0x80) >= 0 {
		return fmt.Sprintf("an element of the %ss is -128, want -127 to 127", name)
	}
	var words [panel / 2]marks.Marks
	all, together := words[:], panel // tokens whose elements lie between each other's
	values := name == "value"
	if values {
		all, together = words[:1], s.whole
	}
	size := len(x) / Block
	for j, scale := range scales {
		if j%together == 0 {
			clear(all)
			s.format.mark(all, x[j*size:][:together*size])
		}
		word, bits := s.format.bitsOf(j%together, values)
		if any, top := all[word].In(bits); scale > 0 && top || scale == 0 && !any {
			continue
		}
		largest := s.largestOf(x, l, j, values)
		if fault := s.format.faultOfLargest(name, j, largest, scale); fault != "" {
			return fault
		}
	}
	return ""
}

// largestOf is the largest magnitude of the elements of token j.
func (s *packedSide) largestOf(x []byte, l *kernel.PanelLayout, j int,
	values bool) (largest float32) {
	steps := l.Keys
	if values {
		steps = l.Cols
	}
	for i := range steps {
		at := kernel.PlaceOf(kernel.Format(s.format), l, i, j)
		if values {
			at = kernel.PlaceOf(kernel.Format(s.format), l, j, i)
		}
		e := narrow.ElementOf(kernel.Format(s.format), x, at)
		largest = max(largest, e, -e)
	}
	return largest
}

// mark marks integers or codes.
func (f Format) mark(m []marks.Marks, x []byte) {
	if f == I4 {
		marks.Codes(m, x)
		return
	}
	marks.Bytes(m, x)
}

// bitsOf says in which bits of which word are the elements of the i-th of some tokens, whose
// elements lie between each other's. A word has two groups of four: those of two keys, or of two
// columns of values.
func (f Format) bitsOf(i int, values bool) (word int, bits uint64) {
	switch {
	case !values:
		return i / 2, 0xffffffff << (i % 2 * 32)
	case f == I4:
		return 0, 0x0000000f_0000000f << (i%4*8 + i/4*4)
	}
	return 0, 0x000000ff_000000ff << (i * 8)
}

// faultOfLargest says what is wrong with the scale of a token or an output, of which the largest
// element, an integer or a level, has a magnitude. It is empty if there is nothing.
func (f Format) faultOfLargest(name string, j int, largest, scale float32) string {
	if scale == 0 {
		return fmt.Sprintf("the scale of %s %d is 0, want elements as zeros have them", name, j)
	}
	most, end := float32(127), largest+0.5 // end is that of the numbers that become it, in scales
	if f == I4 {
		most, end = 117, 127.5
		if i := slices.Index(kernel.Levels[:len(kernel.LevelBounds)], int8(largest)); i >= 0 {
			end = kernel.LevelBounds[i]
		}
	}
	if integers.ScaleOf(end*scale) >= scale { // it is subnormal, and was rounded
		return ""
	}
	return fmt.Sprintf("the largest element of %s %d is %v with a scale of %v, want %v", name, j,
		largest, scale, most)
}

func faultOfScales(name string, scales []float32) string {
	top := integers.ScaleOf(math.MaxFloat32)
	for j, e := range scales {
		if !(e >= 0 && e <= top) || math.Signbit(float64(e)) {
			return fmt.Sprintf("the scale of %s %d is %v, want 0 to %v", name, j, e, top)
		}
	}
	return ""
}
