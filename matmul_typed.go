package attn

// Products by matrices of fewer bits: few rows widen the matrix in registers; for more, a part of
// it is widened once into the panels that the ordinary kernels read.

// widenedRows rows of a share what was widened once, which takes as long as a few rows of
// multiply-adds.
const widenedRows = 4 * productRows

// widenedCols columns are widened at a time: more would not stay in the nearest caches until the
// rows read them.
const widenedCols = 4 * panel

// multiplyTyped computes a block of the product by a matrix of fewer bits, scales included.
func (p *projection) multiplyTyped(dst []float32, stride int, u *productBlock) {
	a := p.a.Data[p.a.offset(u.b, u.h, u.row):]
	if p.m.int8 {
		p.multiplyInt8(dst, stride, u)
	} else if u.rows <= maxTypedRows {
		p.multiplyPacked(dst, a, stride, u)
	} else {
		p.multiplyWidened(dst, a, stride, u)
	}
	if p.m.scaled {
		scaleProducts(dst, p.m.scalesOf(u.b, u.h, u.first, u.cols), u.rows, stride)
	}
}

// multiplyPacked is for at most maxTypedRows rows.
func (p *projection) multiplyPacked(dst, a []float32, stride int, u *productBlock) {
	for k := 0; k < p.m.inner; k += productInner {
		part, layout := p.m.typedPart(u.b, u.h, k, u.first, u.cols)
		layout.overwrite = k == 0
		layout.inOrder = p.panelsSequential()
		addTyped(p.m.format, dst, a[k:], part, u.rows, u.cols, stride, p.a.SL, &layout)
	}
}

// multiplyWidened is for any number of rows. A few panels at a time are widened, so that they are
// in the cache when all rows read them.
func (p *projection) multiplyWidened(dst, a []float32, stride int, u *productBlock) {
	w := scratches.Get().(*scratch)
	w.k = grow(w.k, productInner*widenedCols)
	for k := 0; k < p.m.inner; k += productInner {
		for c := 0; c < u.cols; c += widenedCols {
			part, typed := p.m.typedPart(u.b, u.h, k, u.first+c, min(widenedCols, u.cols-c))
			layout := packedLayout(typed.keys, min(widenedCols, u.cols-c))
			layout.overwrite = k == 0
			widen(p.m.format, w.k, part, layout.panelStride, &typed)
			addProduct(dst[c:], a[k:], w.k, u.rows, stride, p.a.SL, &layout)
		}
	}
	scratches.Put(w)
}

// addTyped is addRows for a matrix of fewer bits and at most maxTypedRows rows.
func addTyped(t Format, dst, a []float32, b []byte, rows, cols, dstStride, aStride int,
	b0 *panelLayout) {
	whole := cols / panel * panel
	part := *b0
	if part.cols = whole; whole > 0 {
		accumulateTyped(t, dst, a, b, nil, rows, dstStride, aStride, &part)
	}
	if whole == cols {
		return
	}
	// The kernels write whole panels: the last columns go through a buffer.
	var buffer [maxTypedRows * panel]float32
	for r := range rows {
		copy(buffer[r*panel:], dst[r*dstStride+whole:][:cols-whole])
	}
	part.cols = panel
	accumulateTyped(t, buffer[:], a, b[whole/panel*b0.panelStride*t.bytes():], nil, rows, panel,
		aStride, &part)
	for r := range rows {
		copy(dst[r*dstStride+whole:][:cols-whole], buffer[r*panel:])
	}
}

// scaleProducts multiplies each column by its scale, a few rows at a time: a call of assembly must
// not last.
func scaleProducts(dst, scales []float32, rows, stride int) {
	step := max(1, callElements/len(scales))
	for r := 0; r < rows; r += step {
		scaleColumns(dst[r*stride:], scales, min(step, rows-r), stride, len(scales))
	}
}

// typedPart is part for a matrix of fewer bits; the layout has whole panels.
func (m *Matrix) typedPart(b, h, k, first, cols int) ([]byte, panelLayout) {
	layout := scoreLayout(m.format, min(productInner, m.inner-k), roundUp(cols, panel))
	layout.setTyped(&tuned)
	return m.panels(b, h, k, first, cols), layout
}

// scalesOf are the scales of columns [first, first+cols), for I8.
func (m *Matrix) scalesOf(b, h, first, cols int) []float32 {
	if !m.scaled {
		return nil
	}
	return m.scales[m.index(b, h)*roundUp(m.cols, panel)+first:][:cols]
}
