package attn

import (
	"encoding/binary"
	"math"
	"sync/atomic"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/product"
	"github.com/seed-1415985d/attn/internal/views"
)

// Matrices of blocks, as GGUF files have them.

// PackBlocks packs a matrix from the blocks of type t that a file has for it: the rows of outputs
// follow each other, each of inputs/n blocks of n inputs, laid out as ggml-common.h has them,
// little-endian. Of the configuration only Integers may be set. Weights are exactly what the blocks
// decode to: they are never rounded, nor rotated, and take the file's memory and at most 7 % more.
// data may change afterwards. [Pool.PackBlocks] takes all workers.
//
//   - Without c.Integers a product is one chain of fused multiply-adds over the weights as float32,
//     in ascending order, from +0. Weights d·scale·n − dmin·min, of types with minima, and d·n + m,
//     of types with a number that is added, are rounded once; other weights are exact.
//   - With c.Integers, which is what to choose for speed, each 32 inputs become integers with a
//     scale a, their largest magnitude divided by 127. For each 32 inputs in ascending order, from
//     +0, one fused multiply-add adds the exact sum of products of integers, with the scales of 4
//     to 8 bits of types that have them, times a·d, rounded once; of NVFP4 one for each 16. A
//     second one subtracts the sum of products of minima, times a·dmin, or adds a·m times the sum
//     of the inputs' integers. A NaN or ±Inf in a row makes it NaN.
//   - BlockF16 and BlockBF16, one number a block, become what [PackMatrix] makes of the same
//     numbers in F16 and BF16.
//
// Then bias is added. The bits are the same on every CPU and for any shape around a product.
//
// A type that is not known is [ErrOption], as are Format and Transposed, Integers with BlockF16 or
// BlockBF16, and scales that are NaN or infinite or, of MXFP4, above 2¹²⁵ or, of NVFP4, negative:
// the error names the block. Inputs that are no multiple of a block's are [ErrShape], as are no
// outputs; data that is not exactly of that length is [ErrLength]; [ErrMemory] if the system has no
// memory.
func PackBlocks(data []byte, t BlockType, outputs, inputs int, c MatrixConfig) (*Matrix, error) {
	p, err := newBlockPacking(data, blocks.Type(t), outputs, inputs, c)
	if err != nil {
		return nil, err
	}
	for i := range p.tasks() {
		p.task(nil, i)
	}
	return p.finish()
}

// blockPacking is a matrix of blocks that is being packed.
type blockPacking struct {
	data []byte
	t    blocks.Type
	m    *Matrix
	bad  atomic.Int64 // the first block whose scale is not finite, or none
}

// newBlockPacking validates what is to be packed, and makes a matrix without elements.
func newBlockPacking(data []byte, t blocks.Type, outputs, inputs int,
	c MatrixConfig) (*blockPacking, error) {
	switch {
	case !t.Valid():
		return nil, fail(ErrOption, "t is %v, want a block type, %v to %v", t, Q8_0, blocks.Last)
	case c.Format != F32:
		return nil, fail(ErrOption, "MatrixConfig.Format is %v, want it unset: t says it", c.Format)
	case c.Transposed:
		return nil, fail(ErrOption, "MatrixConfig.Transposed is true, want it unset: blocks are rows "+
			"of outputs")
	case c.Integers && t.Halves():
		return nil, fail(ErrOption, "MatrixConfig.Integers is true with %v, want false: its weights are "+
			"no integers", t)
	}
	of := t.Traits()
	if outputs < 1 || outputs > maxLength {
		return nil, fail(ErrShape, "outputs is %d, want 1 to %d", outputs, maxLength)
	}
	if inputs < 1 || inputs > maxLength || inputs%of.Inputs != 0 {
		return nil, fail(ErrShape, "inputs is %d, want a multiple of %d for %v, at most %d", inputs,
			of.Inputs, t, maxLength)
	}
	m, ok := newBlockMatrix(t, outputs, inputs)
	want, fits := views.Product(outputs, inputs/of.Inputs, of.Bytes)
	if !ok || !fits {
		return nil, fail(ErrShape, "the matrix is %d×%d, want at most %d elements", outputs, inputs,
			maxElements)
	}
	if len(data) != want {
		return nil, fail(ErrLength, "len(data) is %d, want %d for %d×%d weights of %v", len(data), want,
			outputs, inputs, t)
	}
	m.int8 = c.Integers
	mapping, err := memory.AllocateTogether(m.size())
	if err != nil {
		return nil, fail(ErrMemory, "the matrix is %d×%d of %v: %v", outputs, inputs, t, err)
	}
	m.use(mapping, mapping.Bytes(), nil)
	p := &blockPacking{data: data, t: t, m: m}
	p.bad.Store(math.MaxInt64)
	return p, nil
}

// newBlockMatrix describes a matrix of blocks, which has no memory yet. It is not ok if it is
// larger than memory can be.
func newBlockMatrix(t blocks.Type, outputs, inputs int) (m *Matrix, ok bool) {
	if t.Halves() {
		return newMatrix(formatOfHalves(t), 1, 1, inputs, outputs)
	}
	m = &Matrix{format: Blocks, traits: kernel.Traits{Name: t.String(), Bytes: 1, Group: 1},
		blocks: t, b: 1, h: 1, inner: inputs, cols: outputs, rotation: 1}
	_, ok = views.Product(kernel.RoundUp(inputs, blocks.Inputs), kernel.RoundUp(outputs, panel), 2)
	return m, ok
}

// formatOfHalves is the format of a matrix of numbers of a type that lie alone.
func formatOfHalves(t blocks.Type) Format {
	if t == blocks.BF16 {
		return BF16
	}
	return F16
}

// tasks is how many panels there are, of which each is a task.
func (p *blockPacking) tasks() int { return partsOf(p.m.cols, panel) }

// cost estimates the nanoseconds of packing on one core.
func (p *blockPacking) cost() float64 { return 0.5 * float64(len(p.data)) }

func (p *blockPacking) begin(*scratch) {}

// task packs panel i.
func (p *blockPacking) task(_ *scratch, i int) {
	of, outputs := p.t.Traits(), min(panel, p.m.cols-i*panel)
	row := p.m.inner / of.Inputs * of.Bytes
	from := p.data[i*panel*row:][:outputs*row]
	if p.t.Halves() {
		for c := range outputs {
			p.packHalves(i*panel+c, from[c*row:][:row])
		}
		return
	}
	if !blocks.Pack(p.t, p.m.blockData(i, 1), from, outputs) {
		p.refuse(i)
	}
}

// refuse remembers the first of all blocks that have a wrong scale, of which panel i has one.
func (p *blockPacking) refuse(i int) {
	size := p.t.Traits().Bytes
	block := i * panel * (p.m.inner / p.t.Traits().Inputs)
	for blocks.FaultOfScale(p.t, p.data[block*size:][:size]) == "" {
		block++
	}
	for old := p.bad.Load(); int64(block) < old; old = p.bad.Load() {
		if p.bad.CompareAndSwap(old, int64(block)) {
			return
		}
	}
}

// packHalves packs all inputs of an output.
func (p *blockPacking) packHalves(output int, from []byte) {
	for k := 0; k < p.m.inner; k += product.Inner {
		steps := min(product.Inner, p.m.inner-k)
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
	each := int64(p.m.inner / p.t.Traits().Inputs)
	size := int64(p.t.Traits().Bytes)
	return nil, fail(ErrOption, "data of %v: block %d of output %d: %s", p.t, bad%each, bad/each,
		blocks.FaultOfScale(p.t, p.data[bad*size:][:size]))
}
