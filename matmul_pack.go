package attn

import (
	"math"

	"github.com/seed-1415985d/attn/internal/memory"
)

// How matrices are packed: a part of productInner rows at a time, and of that a few columns where elements become fewer bits.

// packCols columns at a time are packed as float32, before they become fewer bits: with productInner steps 256 KiB, and
// rows of the caller's matrix are read a few cache lines at a time.
const packCols = 2 * productCols

// PackMatrix packs the matrices b [B or 1, H or 1, K, N] as float32: rows are inputs, columns are outputs. Strides are as in any
// view, so a stride of 0 repeats a row. It copies them: b may
// change afterwards. Like NewCache, it asks for huge pages, and returns [ErrMemory] if the system has no memory. A view that is
// not valid is [ErrShape], [ErrStride] or [ErrLength], as is a matrix without rows.
func PackMatrix(b Tensor) (*Matrix, error) { return PackMatrixAs(b, F32) }

// PackTransposed packs the transposed matrices of w [B or 1, H or 1, N, K]: rows are outputs, as Linear layers and GGUF files
// store them. The products are a·wᵀ, with the bits of a [Matrix] that PackMatrix makes of the transpose. Nothing is transposed by
// the caller. It copies, asks for memory and fails as PackMatrix does.
func PackTransposed(w Tensor) (*Matrix, error) { return PackTransposedAs(w, F32) }

// PackMatrixAs is [PackMatrix] in a type of fewer bits: memory for 2 bytes an element, or 1 and a float32 for each column. Few
// rows multiply that much faster, because they wait for memory; many rows take about as long as with F32.
//
//   - F16 and BF16: elements are rounded to nearest, ties to even. Products have the bits of those by a float32 matrix of the rounded elements.
//   - I8: each column has a scale, the largest magnitude in it divided by 127, and integers rint(x/scale). A product is one chain of
//     fused multiply-adds over the integers in ascending order, from +0, times the scale, rounded once; then bias is added.
//
// The bits are the same on every CPU and for any shape around a product, as those of F32 are. In I8, NaN and ±Inf have no scale:
// the error is [ErrOption] and names row and column. So is an unknown type. In F16, what is above 65504 may become ±Inf.
func PackMatrixAs(b Tensor, t Format) (*Matrix, error) {
	return pack(&packing{name: "b", x: b, inner: b.L, cols: b.D}, t)
}

// PackTransposedAs is [PackTransposed] in a type of fewer bits, with what [PackMatrixAs] says of them. A column of the matrix, which
// has a scale of its own, is a row of w.
func PackTransposedAs(w Tensor, t Format) (*Matrix, error) {
	return pack(&packing{name: "w", x: w, transposed: true, inner: w.D, cols: w.L}, t)
}

// packing is a matrix that is being packed.
type packing struct {
	name        string
	x           Tensor
	transposed  bool // a row of x is a column of the matrix
	inner, cols int

	floats []float32 // panels of a part, on their way to fewer bits
	column [productInner]float32
	bytes  [productInner]int8
}

func pack(p *packing, t Format) (*Matrix, error) {
	m, err := p.allocate(t)
	if err != nil {
		return nil, err
	}
	if t == I8 {
		if err := p.findScales(m); err != nil {
			_ = m.Close() // why packing failed is what the caller can do something about
			return nil, err
		}
	}
	if t != F32 {
		p.floats = make([]float32, productInner*packCols)
	}
	for b := range m.b {
		for h := range m.h {
			for k := 0; k < m.inner; k += productInner {
				p.part(m, b, h, k)
			}
		}
	}
	return m, nil
}

// allocate validates the view and makes a matrix without elements.
func (p *packing) allocate(t Format) (*Matrix, error) {
	x := &p.x
	if t < F32 || t > I8 {
		return nil, fail(ErrOption, "t is %v, want F32, F16, BF16 or I8", t)
	}
	if err := checkView(p.name, x); err != nil {
		return nil, err
	}
	m := &Matrix{b: x.B, h: x.H, inner: p.inner, cols: p.cols, kind: t}
	size, ok := product(m.b, m.h, roundUp(m.inner, m.group()), roundUp(m.cols, panel))
	if !ok || x.L == 0 {
		return nil, fail(ErrShape, "%s is [%d %d %d %d], want at least one row and at most %d elements", p.name, x.B, x.H, x.L, x.D, maxElements)
	}
	size *= t.bytes()
	scales := 0
	if t == I8 {
		scales = 4 * m.b * m.h * roundUp(m.cols, panel)
	}
	var err error
	if m.memory, err = memory.Allocate(size + scales); err != nil {
		return nil, fail(ErrMemory, "%s is [%d %d %d %d]: %v", p.name, x.B, x.H, x.L, x.D, err)
	}
	m.data, m.scales = m.memory.Bytes()[:size], elements[float32](m.memory.Bytes()[size:])
	return m, nil
}

// part packs the inner steps that begin with k.
func (p *packing) part(m *Matrix, b, h, k int) {
	steps := min(productInner, m.inner-k)
	if m.kind == F32 {
		p.fill(elements[float32](m.bytes(b, h, k, 0, m.cols)), b, h, k, 0, steps, m.cols)
		return
	}
	for first := 0; first < m.cols; first += packCols {
		cols := min(packCols, m.cols-first)
		p.fill(p.floats, b, h, k, first, steps, cols)
		for c := 0; c < cols; c += panel {
			p.encode(m, m.bytes(b, h, k, first+c, panel), p.floats[c*steps:][:steps*panel], m.scalesOf(b, h, first+c, panel))
		}
	}
}

// fill packs columns [first, first+cols) of some inner steps as float32.
func (p *packing) fill(dst []float32, b, h, k, first, steps, cols int) {
	x := &p.x
	if !p.transposed {
		layout := packedLayout(steps, cols)
		packPanels(dst, x.Data[x.offset(b, h, k)+first:], x.SL, &layout)
		return
	}
	for c := 0; c < cols; c += panel {
		packKeys(dst[c*steps:], x.Data[x.offset(b, h, first+c)+k:], x.SL, min(panel, cols-c), steps)
	}
}

// encode makes a panel fewer bits.
func (p *packing) encode(m *Matrix, dst []byte, x, scales []float32) {
	if m.kind != I8 {
		narrow(m.kind, elements[uint16](dst), x)
		return
	}
	to, column := elements[int8](dst), p.column[:len(x)/panel]
	for c, scale := range scales {
		for k := range column {
			column[k] = x[k*panel+c]
		}
		quantize(p.bytes[:], column, scale)
		for k := 0; k < len(column); k += 4 {
			copy(to[k*panel+4*c:][:4], p.bytes[k:len(column)])
		}
	}
}

// findScales finds the scales of all columns. The error names an element that has none.
func (p *packing) findScales(m *Matrix) error {
	for b := range m.b {
		for h := range m.h {
			scales := m.scalesOf(b, h, 0, m.cols)
			p.findLargest(scales, b, h)
			for c, most := range scales {
				if !(most <= math.MaxFloat32) {
					return p.notFinite(b, h)
				}
				scales[c] = scaleOf(most)
			}
		}
	}
	return nil
}

// findLargest is most_c = max |x_kc| over all inner steps k: NaN if one is NaN.
func (p *packing) findLargest(most []float32, b, h int) {
	if p.transposed {
		for c := range most {
			most[c] = largest(p.x.row(b, h, c))
		}
		return
	}
	for k := range p.inner {
		for c, e := range p.x.row(b, h, k) {
			// As integers, magnitudes are in the same order, and NaN is above them all.
			most[c] = math.Float32frombits(max(math.Float32bits(most[c]), math.Float32bits(e)&^(1<<31)))
		}
	}
}

// notFinite is the error of a matrix with a NaN or infinity.
func (p *packing) notFinite(b, h int) error {
	for r := range p.x.L {
		for c, e := range p.x.row(b, h, r) {
			if e-e != 0 {
				return fail(ErrOption, "%s is %v in row %d, column %d of head %d, batch entry %d, want finite elements for a matrix of I8", p.name, e, r, c, h, b)
			}
		}
	}
	return nil
}
