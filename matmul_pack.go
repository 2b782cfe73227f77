package attn

import (
	"math"
	"slices"

	"github.com/seed-1415985d/attn/internal/memory"
)

// How matrices are packed: productInner inputs at a time, and of these a few columns where elements
// become fewer bits.

// packCols columns at a time are packed as float32, before they become fewer bits: with
// productInner steps 256 KiB, and rows of the caller's matrix are read a few cache lines at a time.
const packCols = 2 * productCols

// MatrixConfig says how [PackMatrix] packs a matrix.
type MatrixConfig struct {
	Format     Format // F32 is the zero value
	Transposed bool   // rows of w are outputs, as Linear layers and GGUF files store them
	Integers   bool   // products are exact sums of integers; Format is I8
}

// PackMatrix packs the matrices w [B or 1, H or 1, K, N], whose rows are inputs and columns
// outputs; or with c.Transposed w [B or 1, H or 1, N, K], whose rows are outputs: then products are
// a·wᵀ, with the bits of a Matrix of the transpose. Strides are as in any view, so
// Broadcast repeats a row. PackMatrix copies w, which may change afterwards. Like NewCache, it asks for huge
// pages.
//
// Formats of fewer bits take 2 bytes an element, or 1 and a float32 for each output. Few rows
// multiply that much faster, because they wait for memory; many rows take about as long as with
// F32.
//
//   - F16 and BF16: elements are rounded to nearest, ties to even. Products have the bits of those
//     by a float32 matrix of the rounded elements. In F16, what is above 65504 may become ±Inf.
//   - I8: weights are multiplied by the orthonormal Walsh–Hadamard matrix along the inputs, block
//     by block of the largest power of two up to 128 that divides K, which spreads outlier inputs.
//     Each output has a scale, the largest magnitude of its rotated weights divided by 127, and
//     integers rint(x/scale). In a product each row of a is rotated in the same way, in float32;
//     the product is one chain of fused multiply-adds over the integers in ascending order, from
//     +0, times the scale, rounded once; then bias is added.
//   - I8 with c.Integers: the rotated row of a becomes integers, too, with a scale for each 128 inputs.
//     The product is one chain of fused multiply-adds, from +0, of the exact sum of products of
//     each 128 inputs with their scale; then it is multiplied by the output's scale. A NaN or ±Inf
//     in a row makes it NaN.
//
// The bits are the same on every CPU and for any shape around a product, as those of F32 are.
//
// An unknown format is [ErrOption]. So are weights of I8 that have no scale: NaN, ±Inf, and what is
// so large that sums in a rotation may overflow, and Integers of another format. A view that is not
// valid is [ErrShape], [ErrStride] or [ErrLength], as is a matrix without rows; [ErrMemory] if the
// system has no memory.
func PackMatrix(w Tensor, c MatrixConfig) (*Matrix, error) {
	p := packing{x: w, transposed: c.Transposed, inner: w.L, cols: w.D}
	if c.Transposed {
		p.inner, p.cols = w.D, w.L
	}
	switch {
	case !c.Format.valid():
		return nil, fail(ErrOption, "MatrixConfig.Format is %v, want F32, F16, BF16 or I8", c.Format)
	case c.Integers && c.Format != I8:
		return nil, fail(ErrOption, "MatrixConfig.Format is %v with Integers, want I8", c.Format)
	}
	m, err := p.allocate(c.Format)
	if err != nil {
		return nil, err
	}
	m.int8 = c.Integers
	if m.scaled {
		if err := p.findScales(m); err != nil {
			_ = m.Close() // why packing failed is what the caller can do something about
			return nil, err
		}
	}
	p.eachPart(m, p.write)
	return m, nil
}

// packing is a matrix that is being packed.
type packing struct {
	x           Tensor
	transposed  bool // a row of x is a column of the matrix
	inner, cols int

	floats []float32 // panels of a part, on their way to fewer bits
	column [productInner]float32
	bytes  [productInner]int8
}

// allocate validates the view and makes a matrix without elements.
func (p *packing) allocate(f Format) (*Matrix, error) {
	x := &p.x
	if err := checkView("w", x); err != nil {
		return nil, err
	}
	m := &Matrix{format: f, formatTraits: *f.traits(), b: x.B, h: x.H, inner: p.inner, cols: p.cols}
	size, ok := product(m.b, m.h, roundUp(m.inner, m.group), roundUp(m.cols, panel))
	if !ok || x.L == 0 {
		return nil, fail(ErrShape, "w is [%d %d %d %d], want at least one row and at most %d elements",
			x.B, x.H, x.L, x.D, maxElements)
	}
	m.rotation = 1
	if m.rotated {
		m.rotation = min(m.inner&-m.inner, maxMatrixRotation)
	}
	size *= m.bytes
	scales := 0
	if m.scaled {
		scales = 4 * m.b * m.h * roundUp(m.cols, panel)
	}
	var err error
	if m.memory, err = memory.Allocate(size + scales); err != nil {
		return nil, fail(ErrMemory, "w is [%d %d %d %d]: %v", x.B, x.H, x.L, x.D, err)
	}
	m.data, m.scales = m.memory.Bytes()[:size], elements[float32](m.memory.Bytes()[size:])
	if f != F32 {
		p.floats = make([]float32, productInner*packCols)
	}
	return m, nil
}

// maxMatrixRotation is the largest block of inputs that is rotated together. It divides
// productInner.
const maxMatrixRotation = 128

// packPart is some inner steps from k on of some columns from first on, as float32 panels.
type packPart struct{ b, h, k, first, steps, cols int }

// eachPart takes all parts of the matrix, of float32 with all columns.
func (p *packing) eachPart(m *Matrix, take func(m *Matrix, part packPart)) {
	cols := packCols
	if m.format == F32 {
		cols = m.cols
	}
	for b := range m.b {
		for h := range m.h {
			for k := 0; k < m.inner; k += productInner {
				for first := 0; first < m.cols; first += cols {
					steps := min(productInner, m.inner-k)
					take(m, packPart{b, h, k, first, steps, min(cols, m.cols-first)})
				}
			}
		}
	}
}

// write packs a part.
func (p *packing) write(m *Matrix, u packPart) {
	to := m.panels(u.b, u.h, u.k, u.first, u.cols)
	if m.format == F32 {
		p.fill(elements[float32](to), u)
		return
	}
	p.fill(p.floats, u)
	if !m.scaled {
		narrow(m.format, elements[uint16](to), p.floats[:len(to)/2])
		return
	}
	scales := m.scalesOf(u.b, u.h, u.first, u.cols)
	panelBytes := roundUp(u.steps, m.group) * panel
	for c, scale := range scales {
		column := p.rotatedColumn(m, u, c)
		quantize(p.bytes[:len(column)], column, scale)
		lane := elements[int8](to[c/panel*panelBytes:])[c%panel*m.group:]
		for k := 0; k < len(column); k += m.group {
			copy(lane[k*panel:][:m.group], p.bytes[k:len(column)])
		}
	}
}

// fill makes a part float32 panels.
func (p *packing) fill(dst []float32, u packPart) {
	x := &p.x
	if !p.transposed {
		layout := packedLayout(u.steps, u.cols)
		packPanels(dst, x.Data[x.offset(u.b, u.h, u.k)+u.first:], x.SL, &layout)
		return
	}
	for c := 0; c < u.cols; c += panel {
		from := x.Data[x.offset(u.b, u.h, u.first+c)+u.k:]
		packKeys(dst[c*u.steps:], from, x.SL, min(panel, u.cols-c), u.steps)
	}
}

// rotatedColumn is column c of the panels in p.floats, rotated. Parts begin at multiples of the
// rotation, which divides their steps.
func (p *packing) rotatedColumn(m *Matrix, u packPart, c int) []float32 {
	column := p.column[:u.steps]
	from := p.floats[c/panel*panel*u.steps+c%panel:]
	for k := range column {
		column[k] = from[k*panel]
	}
	rotate(column, 1, u.steps, u.steps, m.rotation)
	return column
}

// findScales finds the scales of all columns. The error names an element that has none.
func (p *packing) findScales(m *Matrix) error {
	if err := p.checkFinite(m); err != nil {
		return err
	}
	p.eachPart(m, func(m *Matrix, u packPart) {
		p.fill(p.floats, u)
		tops := m.scalesOf(u.b, u.h, u.first, u.cols)
		for c := range tops {
			tops[c] = max(tops[c], largest(p.rotatedColumn(m, u, c)))
		}
	})
	for i, top := range m.scales {
		m.scales[i] = scaleOf(top)
	}
	return nil
}

// checkFinite makes sure that the sums of a rotation are finite.
func (p *packing) checkFinite(m *Matrix) error {
	limit := math.MaxFloat32 / float32(m.rotation)
	for b := range p.x.B {
		for h := range p.x.H {
			for r := range p.x.L {
				row := p.x.row(b, h, r)
				if largest(row) <= limit {
					continue
				}
				c := slices.IndexFunc(row, func(e float32) bool { return !(e >= -limit && e <= limit) })
				return fail(ErrOption, "w is %v in row %d, column %d of head %d, batch entry %d, want at most "+
					"%v for I8", row[c], r, c, h, b, limit)
			}
		}
	}
	return nil
}
