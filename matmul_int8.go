package attn

// Products by matrices with MatrixConfig.Integers: rows of a become integers with a scale for each
// int8Group inputs, and their products with the matrix's integers are exact sums.

// int8Group inputs have one scale: a sum of so many products is below 2²⁴, so float32 holds it.
const int8Group = 128

// int8Groups is the number of scales of a row of inputs.
func int8Groups(inputs int) int { return (inputs + int8Group - 1) / int8Group }

// quantize makes integers of row r of a, group by group. Where one has an element that is not
// finite, its scale and with it the products are NaN.
func (p *projection) quantize(r int, row []float32) {
	var bytes [int8Group]int8
	first, groups := r*roundUp(len(row), 4), int8Groups(len(row))
	scales := p.scales[r*groups:]
	whole := len(row) / int8Group
	p.ints.quantize(first, r*groups, scales, row, whole, int8Group, int8Group, bytes[:])
	if done := whole * int8Group; done < len(row) {
		last := row[done:]
		p.ints.quantize(first+done, r*groups+whole, scales[whole:], last, 1, len(last), 0, bytes[:])
	}
}

// multiplyInt8 computes a block of the product, but for the scales of columns: for each group of
// inputs the exact sum of products times the scale of the group, added in ascending order.
func (p *projection) multiplyInt8(dst []float32, stride int, u *productBlock) {
	inner := roundUp(p.m.inner, 4)
	groups := int8Groups(p.m.inner)
	first := (u.b*p.a.H+u.h)*p.a.L + u.row
	for k := 0; k < p.m.inner; k += productInner {
		part, layout := p.m.typedPart(u.b, u.h, k, u.first, u.cols)
		steps := layout.keys
		for g := 0; g < steps; g += int8Group {
			layout.keys = min(int8Group, steps-g)
			layout.overwrite = k+g == 0
			at := first*groups + (k+g)/int8Group
			addInt8(dst, p.ints.from(first*inner+k+g, at), part[g*panel:], p.scales[at:], u, stride, inner,
				groups, &layout)
		}
	}
}

// addInt8 is accumulateInt8 for any number of columns.
func addInt8(dst []float32, w integerRows, v []byte, f []float32, u *productBlock, stride, wStride,
	fStride int, b0 *panelLayout) {
	const step = productRows
	whole := u.cols / panel * panel
	part := *b0
	for r := 0; r < u.rows; r += step {
		rows, w, f := min(step, u.rows-r), w.from(r*wStride, r*fStride), f[r*fStride:]
		if part.cols = whole; whole > 0 {
			accumulateInt8(dst[r*stride:], w, v, nil, f, rows, stride, wStride, fStride, &part)
		}
		if whole == u.cols {
			continue
		}
		// The kernels write whole panels: the last columns go through a buffer.
		var buffer [step * panel]float32
		for i := range rows {
			copy(buffer[i*panel:], dst[(r+i)*stride+whole:][:u.cols-whole])
		}
		part.cols = panel
		last := v[whole/panel*b0.panelStride:]
		accumulateInt8(buffer[:], w, last, nil, f, rows, panel, wStride, fStride, &part)
		for i := range rows {
			copy(dst[(r+i)*stride+whole:][:u.cols-whole], buffer[i*panel:])
		}
	}
}
