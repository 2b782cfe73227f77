package matmul

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/kernel/pairs"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/tuning"
	"github.com/seed-1415985d/attn/internal/views"
)

// How matrices are packed: Inner inputs at a time, and of these a few columns where
// elements become fewer bits.

// PackCols columns at a time are packed as float32, before they become fewer bits: with
// Inner steps 256 KiB, and rows of the caller's matrix are read a few cache lines at a
// time.
const PackCols = 2 * Cols

// Config says how a matrix is packed, see MatrixConfig of package attn.
type Config struct {
	Format     kernel.Format
	Transposed bool
	Integers   bool
	BFloat16   bool
}

// format is the format of the packed matrix.
func (c *Config) format() kernel.Format {
	if c.BFloat16 {
		return kernel.Pairs
	}
	return c.Format
}

// PackMatrix packs a matrix, as package attn says.
func PackMatrix(t *tuning.Row, w *views.Tensor, c Config) (*Matrix, error) {
	p, err := newPacking(t, *w, c)
	if err != nil {
		return nil, err
	}
	p.divide(1)
	s := memories.Get().(*Memory)
	for i := range p.tasks() {
		p.Task(s, i)
	}
	memories.Put(s)
	return p.matrix()
}

// packing is a matrix that is being packed.
type packing struct {
	t          *tuning.Row
	x          views.Tensor
	from       kernel.Format // weights are rounded to it first
	transposed bool          // a row of x is a column of the matrix
	m          *Matrix

	steps, cols int         // of a task
	noScale     atomic.Bool // some element of x has no scale
}

// newPacking validates the arguments of PackMatrix, and allocates a matrix without elements.
func newPacking(t *tuning.Row, w views.Tensor, c Config) (*packing, error) {
	switch {
	case c.Format == kernel.I4:
		return nil, views.Fail(views.ErrOption, "MatrixConfig.Format is I4, want F32, F16, BF16 or I8: "+
			"weights of 4 bits are blocks, see PackBlocks")
	case !c.Format.Valid():
		return nil, views.Fail(views.ErrOption, "MatrixConfig.Format is %v, want F32, F16, BF16 or I8",
			c.Format)
	case c.BFloat16 && c.Integers:
		return nil, errTwoArithmetics
	case c.Integers && c.Format != kernel.I8:
		return nil, views.Fail(views.ErrOption, "MatrixConfig.Format is %v with Integers, want I8",
			c.Format)
	case c.BFloat16 && c.Format == kernel.I8:
		return nil, views.Fail(views.ErrOption, "MatrixConfig.Format is I8 with BFloat16, want F32, F16 "+
			"or BF16")
	}
	if err := w.Check("w"); err != nil {
		return nil, err
	}
	inner, cols := w.L, w.D
	if c.Transposed {
		inner, cols = cols, inner
	}
	m, ok := newMatrix(c.format(), w.B, w.H, inner, cols)
	if !ok || w.L == 0 {
		return nil, views.Fail(views.ErrShape, "w is [%d %d %d %d], want at least one row and at most "+
			"%d elements", w.B, w.H, w.L, w.D, views.MaxElements)
	}
	m.int8 = c.Integers
	room, err := memory.AllocateTogether(m.size() + m.scaleSize())
	if err != nil {
		return nil, views.Fail(views.ErrMemory, "w is [%d %d %d %d]: %v", w.B, w.H, w.L, w.D, err)
	}
	m.Use(room, room.Bytes()[:m.size()], room.Bytes()[m.size():])
	return &packing{t: t, x: w, from: c.Format, transposed: c.Transposed, m: m}, nil
}

var errTwoArithmetics = views.Fail(views.ErrOption, "MatrixConfig.BFloat16 is true with Integers, "+
	"want one of them")

// newMatrix describes a matrix, which has no memory yet. ok is false if it is larger than the
// address space.
func newMatrix(f kernel.Format, batch, heads, inner, cols int) (m *Matrix, ok bool) {
	m = &Matrix{format: f, traits: *f.Traits(), b: batch, h: heads,
		inner: inner, cols: cols, rotation: 1}
	if m.traits.Rotated {
		m.rotation = min(m.inner&-m.inner, maxMatrixRotation)
	}
	layout := m.layout()
	return m, layout.Fits()
}

// maxMatrixRotation is the largest block of inputs that is rotated together. It divides
// Inner.
const maxMatrixRotation = 128

// layout is how the matrix lies in memory.
func (m *Matrix) layout() packed.Matrix {
	return packed.Matrix{Format: max(0, m.format), Blocks: m.blocks, Batch: m.b,
		Heads: m.h, Inputs: m.inner, Outputs: m.cols}
}

// size returns the bytes of a matrix's elements, scaleSize the bytes of its scales.
func (m *Matrix) size() int {
	l := m.layout()
	return l.Size()
}

func (m *Matrix) scaleSize() int {
	l := m.layout()
	return l.ScaleSize()
}

// Use sets the memory of a matrix, its elements and its scales.
func (m *Matrix) Use(room *memory.Mapping, data, scales []byte) {
	m.mapping, m.data, m.scales = room, data, kernel.Elements[float32](scales)
}

// divide divides the matrix into tasks for workers: some columns, and unless they have scales,
// Inner inputs of them. Elements that do not change are packed directly, and whole rows are read as
// long as there is work for all.
func (p *packing) divide(workers int) {
	p.steps, p.cols = Inner, PackCols
	if p.m.traits.Scaled {
		p.steps = kernel.RoundUp(p.m.inner, Inner)
	}
	if p.m.format == kernel.F32 {
		p.cols = kernel.RoundUp(p.m.cols, panel)
	}
	for p.cols > minCols && p.tasks() < workers*tuning.TasksPerWorker {
		p.cols = kernel.RoundUp(p.cols/2, panel)
	}
}

// tasks is how many tasks there are.
func (p *packing) tasks() int { return p.m.b * p.m.h * p.stepBlocks() * p.colBlocks() }

func (p *packing) stepBlocks() int { return (p.m.inner + p.steps - 1) / p.steps }
func (p *packing) colBlocks() int  { return (p.m.cols + p.cols - 1) / p.cols }

// packRange is some inner steps from k on of some columns from first on.
type packRange struct{ b, h, k, first, steps, cols int }

func (p *packing) Begin(*Memory) {}

// Task packs the range of task i. Successive tasks have adjacent columns.
func (p *packing) Task(w *Memory, i int) {
	i, first := i/p.colBlocks(), i%p.colBlocks()*p.cols
	i, k := i/p.stepBlocks(), i%p.stepBlocks()*p.steps
	u := packRange{b: i / p.m.h, h: i % p.m.h, k: k, first: first}
	u.cols = min(p.cols, p.m.cols-u.first)
	u.steps = min(p.steps, p.m.inner-u.k)
	if p.m.traits.Scaled {
		p.packIntegers(w, u)
		return
	}
	p.packFloats(w, u)
}

// cost estimates the nanoseconds of packing on one core.
func (p *packing) cost() float64 {
	perElement := 0.5
	if p.m.traits.Scaled {
		perElement = 3
	}
	return perElement * float64(p.m.size()) / float64(p.m.traits.Bytes)
}

// packFloats packs at most Inner steps.
func (p *packing) packFloats(w *Memory, u packRange) {
	to := p.m.panels(u.b, u.h, u.k, u.first, u.cols)
	p.m.mapping.Populate(to)
	if p.m.format == kernel.F32 {
		p.fill(kernel.Elements[float32](to), u)
		return
	}
	w.k = kernel.Grow(w.k, Inner*PackCols)
	p.fill(w.k, u)
	if p.m.format == kernel.Pairs {
		w.halves = kernel.Grow(w.halves, Inner*PackCols)
		pairs.Pack(p.t.ISA, p.from, to, w.k, u.steps, w.halves)
		return
	}
	narrow.Narrow(p.t.ISA, p.m.format, kernel.Elements[uint16](to), w.k[:len(to)/2])
}

// packIntegers packs all inputs of some columns: it finds their scales, and then quantizes.
func (p *packing) packIntegers(w *Memory, u packRange) {
	w.k = kernel.Grow(w.k, Inner*PackCols)
	scales := p.m.scalesOf(u.b, u.h, u.first, u.cols)
	for k := 0; k < u.steps; k += Inner {
		if p.noScale.Load() || !p.findLargest(w.k, scales, u.from(k)) {
			p.noScale.Store(true)
			return
		}
	}
	for c, top := range scales {
		scales[c] = integers.ScaleOf(top)
	}
	for k := 0; k < u.steps; k += Inner {
		p.quantize(w.k, scales, u.from(k))
	}
}

// from is the range of at most Inner steps from step k on.
func (u packRange) from(k int) packRange {
	u.k, u.steps = u.k+k, min(Inner, u.steps-k)
	return u
}

// findLargest updates tops, the largest magnitudes of rotated columns. ok is false if sums of a
// rotation may not be finite.
func (p *packing) findLargest(columns, tops []float32, u packRange) (ok bool) {
	var room [Inner]float32
	column := room[:u.steps]
	p.fillColumns(columns, u)
	for c := range tops {
		p.column(column, columns, u, c)
		if !(integers.Largest(p.t.ISA, column) <= p.limit()) {
			return false
		}
		integers.Rotate(p.t.ISA, column, column, 1, u.steps, u.steps, u.steps, p.m.rotation)
		tops[c] = max(tops[c], integers.Largest(p.t.ISA, column))
	}
	return true
}

// quantize quantizes the rotated columns of a range.
func (p *packing) quantize(columns, scales []float32, u packRange) {
	var room [Inner]float32
	var rounded [Inner]int8
	column, bytes := room[:u.steps], rounded[:u.steps]
	to, group := p.m.panels(u.b, u.h, u.k, u.first, u.cols), p.m.traits.Group
	panelBytes := kernel.RoundUp(u.steps, group) * panel
	p.fillColumns(columns, u)
	for c, scale := range scales {
		p.column(column, columns, u, c)
		integers.Rotate(p.t.ISA, column, column, 1, u.steps, u.steps, u.steps, p.m.rotation)
		integers.Quantize(p.t.ISA, bytes, column, scale)
		packed.SpreadGroups(to[c/panel*panelBytes+c%panel*group:], kernel.RawBytes(bytes))
	}
}

// fill packs a range into float32 panels.
func (p *packing) fill(dst []float32, u packRange) {
	x := &p.x
	c, k := u.first, u.k
	if p.transposed {
		c, k = k, c
	}
	layout := panelLayout(p.t, u.steps, u.cols)
	packColumns(p.t, dst, x.Data[x.Offset(u.b, u.h, k)+c:], x.SL, p.transposed, &layout)
}

// fillColumns packs a range into float32 panels if its columns are not rows of x.
func (p *packing) fillColumns(columns []float32, u packRange) {
	if !p.transposed {
		p.fill(columns, u)
	}
}

// column copies column c of a range.
func (p *packing) column(dst, columns []float32, u packRange, c int) {
	if p.transposed {
		stop.Copy(dst, p.x.Row(u.b, u.h, u.first+c)[u.k:])
		return
	}
	from := columns[c/panel*panel*u.steps+c%panel:]
	for k := range dst {
		dst[k] = from[k*panel]
	}
}

// matrix returns the matrix, or an error that names an element without a scale.
func (p *packing) matrix() (*Matrix, error) {
	if !p.noScale.Load() {
		return p.m, nil
	}
	_ = p.m.Close() // the caller needs the reason why packing failed
	return nil, p.checkFinite()
}

// limit returns the largest magnitude of elements for which all sums of a rotation are finite.
func (p *packing) limit() float32 { return math.MaxFloat32 / float32(p.m.rotation) }

// checkFinite returns an error for the first element without a scale.
func (p *packing) checkFinite() error {
	limit := p.limit()
	for b := range p.x.B {
		for h := range p.x.H {
			for r := range p.x.L {
				row := p.x.Row(b, h, r)
				if integers.Largest(p.t.ISA, row) <= limit {
					continue
				}
				c := slices.IndexFunc(row, func(e float32) bool { return !(e >= -limit && e <= limit) })
				return views.Fail(views.ErrOption, "w is %v in row %d, column %d of head %d, batch entry %d, "+
					"want a magnitude of at most %v for I8", row[c], r, c, h, b, limit)
			}
		}
	}
	return views.Fail(views.ErrOption, "w was written to while it was packed")
}
