package matmul

import (
	"encoding/binary"
	"math"
	"sync/atomic"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/views"
)

// Matrices of blocks, as in GGUF files.

// PackBlocks packs a matrix from the blocks of a file, as package attn says.
func PackBlocks(data []byte, t blocks.Type, outputs, inputs int, c Config) (*Matrix, error) {
	p, err := newBlockPacking(data, t, outputs, inputs, c)
	if err != nil {
		return nil, err
	}
	for i := range p.tasks() {
		p.Task(nil, i)
	}
	return p.matrix()
}

// blockPacking is a matrix of blocks that is being packed.
type blockPacking struct {
	data []byte
	t    blocks.Type
	m    *Matrix
	bad  atomic.Int64 // the first block with a scale that is not finite, or none
}

// newBlockPacking validates the arguments of PackBlocks, and allocates a matrix without elements.
func newBlockPacking(data []byte, t blocks.Type, outputs, inputs int,
	c Config) (*blockPacking, error) {
	switch {
	case !t.Valid():
		return nil, views.Fail(views.ErrOption, "t is %v, want a block type, %v to %v", t, blocks.Q8_0,
			blocks.Last)
	case c.Format != kernel.F32:
		return nil, views.Fail(views.ErrOption, "MatrixConfig.Format is %v, want it unset: t says it",
			c.Format)
	case c.Transposed:
		return nil, views.Fail(views.ErrOption, "MatrixConfig.Transposed is true, want it unset: blocks "+
			"are rows of outputs")
	case c.Integers && t.Halves():
		return nil, views.Fail(views.ErrOption, "MatrixConfig.Integers is true with %v, want false: its "+
			"weights are no integers", t)
	case c.Integers && c.BFloat16:
		return nil, errTwoArithmetics
	}
	of := t.Traits()
	if outputs < 1 || outputs > views.MaxLength {
		return nil, views.Fail(views.ErrShape, "outputs is %d, want 1 to %d", outputs, views.MaxLength)
	}
	if inputs < 1 || inputs > views.MaxLength || inputs%of.Inputs != 0 {
		return nil, views.Fail(views.ErrShape, "inputs is %d, want a multiple of %d for %v, at most %d",
			inputs, of.Inputs, t, views.MaxLength)
	}
	m, ok := newBlockMatrix(t, outputs, inputs)
	if c.BFloat16 && t.Halves() {
		m, ok = newMatrix(kernel.Pairs, 1, 1, inputs, outputs)
	}
	want, fits := views.Product(outputs, inputs/of.Inputs, of.Bytes)
	if !ok || !fits {
		return nil, views.Fail(views.ErrShape, "the matrix is %d×%d, want at most %d elements", outputs,
			inputs, views.MaxElements)
	}
	if len(data) != want {
		return nil, views.Fail(views.ErrLength, "len(data) is %d, want %d for %d×%d weights of %v",
			len(data), want, outputs, inputs, t)
	}
	m.int8, m.paired = c.Integers, c.BFloat16 && !t.Halves()
	mapping, err := memory.AllocateTogether(m.size())
	if err != nil {
		return nil, views.Fail(views.ErrMemory, "the matrix is %d×%d of %v: %v", outputs, inputs, t, err)
	}
	m.Use(mapping, mapping.Bytes(), nil)
	p := &blockPacking{data: data, t: t, m: m}
	p.bad.Store(math.MaxInt64)
	return p, nil
}

// blocksFormat is the format of a matrix of blocks; no elements have it.
const blocksFormat kernel.Format = -1

// newBlockMatrix describes a matrix of blocks, which has no memory yet. ok is false if it is larger
// than the address space.
func newBlockMatrix(t blocks.Type, outputs, inputs int) (m *Matrix, ok bool) {
	if t.Halves() {
		return newMatrix(formatOfHalves(t), 1, 1, inputs, outputs)
	}
	m = &Matrix{format: blocksFormat, traits: kernel.Traits{Name: t.String(), Bytes: 1, Group: 1},
		blocks: t, b: 1, h: 1, inner: inputs, cols: outputs, rotation: 1}
	_, ok = views.Product(kernel.RoundUp(inputs, blocks.Inputs), kernel.RoundUp(outputs, panel), 2)
	return m, ok
}

// formatOfHalves is the format of a matrix of numbers of a type that lie alone.
func formatOfHalves(t blocks.Type) kernel.Format {
	if t == blocks.BF16 {
		return kernel.BF16
	}
	return kernel.F16
}

// tasks returns the number of panels; each is a task.
func (p *blockPacking) tasks() int { return partsOf(p.m.cols, panel) }

// cost estimates the nanoseconds of packing on one core.
func (p *blockPacking) cost() float64 { return 0.5 * float64(len(p.data)) }

func (p *blockPacking) Begin(*Memory) {}

// Task packs panel i.
func (p *blockPacking) Task(_ *Memory, i int) {
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

// refuse records a block of panel i with a wrong scale, if it is the first of all panels.
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
	for k := 0; k < p.m.inner; k += Inner {
		steps := min(Inner, p.m.inner-k)
		to := kernel.Elements[uint16](p.m.panels(0, 0, k, output/panel*panel, panel))
		layout := kernel.ScoreLayout(p.m.format, steps, panel)
		for i := range steps {
			to[kernel.PlaceOf(p.m.format, &layout, i, output%panel)] = p.half(from[2*(k+i):])
		}
	}
}

// half is a number of 16 bits as the matrix keeps it.
func (p *blockPacking) half(from []byte) uint16 {
	bits := binary.LittleEndian.Uint16(from)
	if p.m.format == kernel.Pairs && p.t == blocks.F16 {
		return f32.ToBF16(f32.FromF16(bits))
	}
	return bits
}

// matrix returns the matrix, or an error that names a block without a finite scale.
func (p *blockPacking) matrix() (*Matrix, error) {
	bad := p.bad.Load()
	if bad == math.MaxInt64 {
		return p.m, nil
	}
	_ = p.m.Close() // the caller needs the reason why packing failed
	each := int64(p.m.inner / p.t.Traits().Inputs)
	size := int64(p.t.Traits().Bytes)
	return nil, views.Fail(views.ErrOption, "data of %v: block %d of output %d: %s", p.t, bad%each,
		bad/each, blocks.FaultOfScale(p.t, p.data[bad*size:][:size]))
}
