package attn

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/views"
)

// Matrices of blocks, as GGUF files have them.

// PackBlocks packs a matrix from the blocks of type t that a file has for it: the rows of outputs
// follow each other, each of inputs/32 blocks, or inputs/256 of the K types, laid out as
// ggml-common.h has them, little-endian. Of the configuration only Integers may be set. Weights are
// exactly what the blocks decode to: they are never rounded, nor rotated, and take the file's
// memory and at most 7 % more. data may change afterwards. [Pool.PackBlocks] takes all workers.
//
//   - Without c.Integers a product is one chain of fused multiply-adds over the weights as float32,
//     in ascending order, from +0. Q4_K and Q5_K are d·scale·n − dmin·min, rounded once; other
//     weights are exact.
//   - With c.Integers, which is what to choose for speed, each 32 inputs become integers with a
//     scale a, their largest magnitude divided by 127. For each 32 inputs in ascending order, from
//     +0, one fused multiply-add adds the exact sum of products of integers, of Q4_K, Q5_K and Q6_K
//     with the scales of 6 or 8 bits, times a·d, rounded once; a second one takes off the minima of
//     Q4_K and Q5_K, times a·dmin. A NaN or ±Inf in a row makes it NaN.
//   - BlockF16 and BlockBF16, one number a block, become what [PackMatrix] makes of the same
//     numbers in F16 and BF16.
//
// Then bias is added. The bits are the same on every CPU and for any shape around a product.
//
// A type that is not known is [ErrOption], as are Format and Transposed, Integers with BlockF16 or
// BlockBF16, and scales that are NaN or infinite or, of MXFP4, above 2¹²⁵: the error names the
// block. Inputs that are no multiple of a block's are [ErrShape], as are no outputs; data that is
// not exactly of that length is [ErrLength]; [ErrMemory] if the system has no memory.
func PackBlocks(data []byte, t BlockType, outputs, inputs int, c MatrixConfig) (*Matrix, error) {
	p, err := newBlockPacking(data, t, outputs, inputs, c)
	if err != nil {
		return nil, err
	}
	for i := range p.units() {
		p.unit(i)
	}
	return p.finish()
}

// blockPacking is a matrix of blocks that is being packed.
type blockPacking struct {
	data []byte
	t    BlockType
	m    *Matrix
	bad  atomic.Int64 // the first block whose scale is not finite, or none
}

// newBlockPacking validates what is to be packed, and makes a matrix without elements.
func newBlockPacking(data []byte, t BlockType, outputs, inputs int, c MatrixConfig) (*blockPacking,
	error) {
	switch {
	case !t.valid():
		return nil, fail(ErrOption, "t is %v, want a block type, %v to %v", t, Q8_0, BlockBF16)
	case c.Format != F32:
		return nil, fail(ErrOption, "MatrixConfig.Format is %v, want it unset: t says it", c.Format)
	case c.Transposed:
		return nil, fail(ErrOption, "MatrixConfig.Transposed is true, want it unset: blocks are rows "+
			"of outputs")
	case c.Integers && t.halves():
		return nil, fail(ErrOption, "MatrixConfig.Integers is true with %v, want false: its weights are "+
			"no integers", t)
	}
	of := t.traits()
	if outputs < 1 || outputs > maxLength {
		return nil, fail(ErrShape, "outputs is %d, want 1 to %d", outputs, maxLength)
	}
	if inputs < 1 || inputs > maxLength || inputs%of.inputs != 0 {
		return nil, fail(ErrShape, "inputs is %d, want a multiple of %d for %v, at most %d", inputs,
			of.inputs, t, maxLength)
	}
	m, ok := newBlockMatrix(t, outputs, inputs)
	want, fits := views.Product(outputs, inputs/of.inputs, of.bytes)
	if !ok || !fits {
		return nil, fail(ErrShape, "the matrix is %d×%d, want at most %d elements", outputs, inputs,
			maxElements)
	}
	if len(data) != want {
		return nil, fail(ErrLength, "len(data) is %d, want %d for %d×%d weights of %v", len(data), want,
			outputs, inputs, t)
	}
	m.int8 = c.Integers
	memory, err := memory.Allocate(m.size())
	if err != nil {
		return nil, fail(ErrMemory, "the matrix is %d×%d of %v: %v", outputs, inputs, t, err)
	}
	m.use(memory, memory.Bytes(), nil)
	p := &blockPacking{data: data, t: t, m: m}
	p.bad.Store(math.MaxInt64)
	return p, nil
}

// newBlockMatrix describes a matrix of blocks, which has no memory yet. It is not ok if it is
// larger than memory can be.
func newBlockMatrix(t BlockType, outputs, inputs int) (m *Matrix, ok bool) {
	if t.halves() {
		return newMatrix(t.traits().format, 1, 1, inputs, outputs)
	}
	m = &Matrix{format: Blocks, traits: kernel.Traits{Name: t.String(), Bytes: 1, Group: 1},
		blocks: t, b: 1, h: 1, inner: inputs, cols: outputs, rotation: 1}
	_, ok = views.Product(roundUp(inputs, blockInputs), roundUp(outputs, panel), 2)
	return m, ok
}

// units is the number of units of work, panels.
func (p *blockPacking) units() int { return parts(p.m.cols, panel) }

// cost estimates the nanoseconds of packing on one core.
func (p *blockPacking) cost() float64 { return 0.5 * float64(len(p.data)) }

// unit packs panel i.
func (p *blockPacking) unit(i int) {
	of := p.t.traits()
	row := p.m.inner / of.inputs * of.bytes
	for c := range min(panel, p.m.cols-i*panel) {
		output := i*panel + c
		from := p.data[output*row:][:row]
		if p.t.halves() {
			p.packHalves(output, from)
			continue
		}
		to := p.m.blockData(i, 1)
		for k := range p.m.inner / of.inputs {
			if !packBlock(p.t, to[k*of.packed:][:of.packed], c, from[k*of.bytes:][:of.bytes]) {
				p.refuse(output*(p.m.inner/of.inputs) + k)
			}
		}
	}
}

// refuse remembers the first block that has no scale.
func (p *blockPacking) refuse(block int) {
	for old := p.bad.Load(); int64(block) < old; old = p.bad.Load() {
		if p.bad.CompareAndSwap(old, int64(block)) {
			return
		}
	}
}

// packHalves packs all inputs of an output.
func (p *blockPacking) packHalves(output int, from []byte) {
	for k := 0; k < p.m.inner; k += productInner {
		steps := min(productInner, p.m.inner-k)
		to := elements[uint16](p.m.panels(0, 0, k, output/panel*panel, panel))[output%panel:]
		for i := range steps {
			to[i*panel] = binary.LittleEndian.Uint16(from[2*(k+i):])
		}
	}
}

// finish returns the matrix, or an error that names a block that has no scale.
func (p *blockPacking) finish() (*Matrix, error) {
	bad := p.bad.Load()
	if bad == math.MaxInt64 {
		return p.m, nil
	}
	_ = p.m.Close() // why packing failed is what the caller can do something about
	blocks := int64(p.m.inner / p.t.traits().inputs)
	size := int64(p.t.traits().bytes)
	return nil, fail(ErrOption, "data of %v: block %d of output %d: %s", p.t, bad%blocks, bad/blocks,
		faultOfScale(p.t, p.data[bad*size:][:size]))
}

// faultOfScale says which scale of a file's block is wrong. It is empty if none is.
func faultOfScale(t BlockType, block []byte) string {
	if t == MXFP4 {
		if e := block[0]; e > maxMXFP4 {
			return fmt.Sprintf("the exponent of the scale is %d, want 0 to %d", e, maxMXFP4)
		}
		return ""
	}
	scales := block[:2]
	switch t {
	case Q4_K, Q5_K:
		scales = block[:4] // d and dmin
	case Q6_K:
		scales = block[208:]
	}
	for i, name := range []string{"d", "dmin"}[:len(scales)/2] {
		if x := scales[2*i:]; !finiteF16(x) {
			return fmt.Sprintf("the scale %s is %v, want a finite number", name,
				f32.FromF16(binary.LittleEndian.Uint16(x)))
		}
	}
	return ""
}

// packBlock brings a block of a file to the place of output c in a packed block of 16. It is not ok
// if its scales are not finite. kernel_blocks.go says where all is.
func packBlock(t BlockType, to []byte, c int, from []byte) (ok bool) {
	switch t {
	case Q8_0:
		spreadWords(to[4*panel:], c, from[2:])
		return putScale(to, c, from)
	case Q4_0, IQ4_NL:
		spreadWords(to[2*panel:], c, from[2:])
		copy(to[2*c:], from[:2])
		return finiteF16(from)
	case MXFP4:
		spreadWords(to[2*panel:], c, from[1:])
		binary.LittleEndian.PutUint16(to[2*c:], scaleMXFP4(from[0]))
		return from[0] <= maxMXFP4
	case Q4_K, Q5_K:
		copy(to[2*c:], from[:2])
		copy(to[2*panel+2*c:], from[2:4])
		packMinima(to[blockScales+c:], from[4:])
		spreadWords(to[blockWords:], c, from[16:])
		return finiteF16(from) && finiteF16(from[2:])
	}
	for i, e := range from[192:208] {
		to[blockScales+i*panel+c] = e
	}
	spreadWords(to[blockWords:], c, from[:192])
	return putScale(to, c, from[208:])
}

// spreadWords puts words of four bytes where those of output c are.
func spreadWords(to []byte, c int, from []byte) {
	to = to[4*c:]
	for len(from) >= 4 {
		*(*[4]byte)(to) = [4]byte(from)
		if from = from[4:]; len(from) >= 4 {
			to = to[4*panel:]
		}
	}
}

// putScale makes a scale in F16 the float32 of output c.
func putScale(to []byte, c int, from []byte) (ok bool) {
	d := f32.FromF16(binary.LittleEndian.Uint16(from))
	binary.LittleEndian.PutUint32(to[4*c:], math.Float32bits(d))
	return finiteF16(from)
}

// finiteF16 reports whether a number in F16 is neither NaN nor infinite.
func finiteF16(x []byte) bool { return x[1]&0x7c != 0x7c }

// maxMXFP4 is the largest exponent of MXFP4 with which all weights are finite.
const maxMXFP4 = 252

// scaleMXFP4 is 2^(e−128) in BF16, of which the two smallest are subnormal.
func scaleMXFP4(e byte) uint16 {
	if e < 2 {
		return 0x20 << e
	}
	return uint16(e-1) << 7
}

// packMinima unpacks the scales and minima of 6 bits of 8 blocks, each a byte of an output.
func packMinima(to, x []byte) {
	for i := range 8 {
		scale, least := x[i%4]&63, x[4+i%4]&63
		if i >= 4 {
			scale = x[4+i]&15 | x[i-4]>>6<<4
			least = x[4+i]>>4 | x[i]>>6<<4
		}
		to[2*i*panel], to[(2*i+1)*panel] = scale, least
	}
}

// Sizes of the largest blocks.
const (
	maxPackedBlock = 3392
	maxFileBlock   = 210
)

// fileBlock is the block of a file that packBlock brought to the place of output c.
func fileBlock(t BlockType, block, packed []byte, c int) {
	d := func() uint16 {
		d := math.Float32frombits(binary.LittleEndian.Uint32(packed[4*c:]))
		return f32.ToF16(d)
	}
	switch t {
	case Q8_0:
		gatherWords(block[2:], c, packed[4*panel:])
		binary.LittleEndian.PutUint16(block, d())
	case Q4_0, IQ4_NL:
		copy(block, packed[2*c:][:2])
		gatherWords(block[2:], c, packed[2*panel:])
	case MXFP4:
		x := binary.LittleEndian.Uint16(packed[2*c:])
		block[0] = byte(x>>7) + 1
		if x < scaleMXFP4(2) {
			block[0] = byte(x >> 6)
		}
		gatherWords(block[1:], c, packed[2*panel:])
	case Q4_K, Q5_K:
		copy(block, packed[2*c:][:2])
		copy(block[2:], packed[2*panel+2*c:][:2])
		fileMinima(block[4:], packed[blockScales+c:])
		gatherWords(block[16:], c, packed[blockWords:])
	case Q6_K:
		gatherWords(block[:192], c, packed[blockWords:])
		for i := range 16 {
			block[192+i] = packed[blockScales+i*panel+c]
		}
		binary.LittleEndian.PutUint16(block[208:], d())
	}
}

// gatherWords is the opposite of spreadWords.
func gatherWords(to []byte, c int, from []byte) {
	for i := range len(to) / 4 {
		copy(to[4*i:], from[4*panel*i+4*c:][:4])
	}
}

// fileMinima is the opposite of packMinima.
func fileMinima(to, x []byte) {
	for i := range 4 {
		scale, least := x[2*i*panel], x[(2*i+1)*panel]
		upperScale, upperLeast := x[2*(i+4)*panel], x[(2*(i+4)+1)*panel]
		to[i] = scale&63 | upperScale>>4<<6
		to[4+i] = least&63 | upperLeast>>4<<6
		to[8+i] = upperScale&15 | upperLeast<<4
	}
}
