package matmul

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/blockwise"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/kernel/pairs"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Products of any number of rows and columns, added to a part of an output. Kernels need rows of
// bounded length and whole vectors of columns.

const (
	// Inner steps of the chains are done at a time: a packed panel of that many rows is 16 KiB and
	// stays in the L1 cache for all rows of a. The files of matrices have these panels.
	Inner = packed.Inner

	// Rows rows of a are multiplied at a time, or somewhat fewer: with Inner steps they are 128 KiB,
	// which stay in the L2 cache, and with a panel one call of a kernel (kernel.CallProducts).
	Rows = 128

	panel = kernel.Panel

	// together rows are packed side by side, as many streams as memory is read in well: one by one,
	// rows would be written to the same sets of a cache, a line to each panel.
	together = 8
)

// outputBlock is some rows and columns of an output, in rows that are Stride apart.
type outputBlock struct {
	Dst                []float32
	Stride, Rows, Cols int
}

// part is the block's columns from one on, n of them.
func (u *outputBlock) part(first, n int) outputBlock {
	return outputBlock{u.Dst[first:], u.Stride, u.Rows, n}
}

// quarters reduces the block to some of its quarters, up to n from quarter i on, and returns where
// they begin and how many they are. Quarters divide the columns, so that no other worker reads
// their panels, if each has at least leastCols; else they are halves of the rows and columns, where
// both halves are large enough, with rows divided at a multiple of even, one quarter at a time. The
// result may be empty.
func (u *outputBlock) quarters(i, n, leastRows, leastCols, even int) (row, first, taken int) {
	rows, cols := u.Rows, u.Cols
	switch {
	case n == 4:
		return 0, 0, n
	case cols >= 4*leastCols:
		cols = kernel.RoundUp((cols+3)/4, kernel.Panel)
		first = i * cols
		u.Cols = min(n*cols, u.Cols-first)
		return 0, first, n
	case cols >= 2*leastCols:
		cols = kernel.RoundUp((cols+1)/2, kernel.Panel)
	}
	if rows >= 2*leastRows {
		rows = kernel.RoundUp((rows+1)/2, even)
	}
	row, first = i/2*rows, i%2*cols
	u.Rows, u.Cols = min(rows, u.Rows-row), min(cols, u.Cols-first)
	return row, first, 1
}

// partOfRows returns the number of rows to compute at a time, so that the parts are about equal: a
// small last part would read b for few products. Parts are a multiple of even.
func partOfRows(rows, most, even int) int {
	parts := max(1, (rows+most-1)/most)
	return min(most, kernel.RoundUp(max(1, (rows+parts-1)/parts), even))
}

// panelLayout is the layout of inner × cols elements in panels.
func panelLayout(t *tuning.Row, inner, cols int) kernel.PanelLayout {
	layout := kernel.PanelLayout{Keys: inner, Cols: cols, Stride: kernel.Panel,
		PanelStride: inner * kernel.Panel}
	layout.Set(t, t.PrefetchOne, t.PrefetchFew, false)
	return layout
}

// packColumns packs columns into panels: from rows of b, or if it is transposed from rows that are
// the columns.
func packColumns(t *tuning.Row, dst, b []float32, stride int, transposed bool,
	layout *kernel.PanelLayout) {
	if !transposed {
		packPanels(dst, b, stride, layout)
		return
	}
	for c := 0; c < layout.Cols; c += panel {
		n := min(panel, layout.Cols-c)
		floats.PackKeys(t, dst[c*layout.Keys:], b[c*stride:], stride, n, layout.Keys)
	}
}

// packPanels copies rows of b into panels. Columns after the last one become +0.
func packPanels(dst, b []float32, stride int, layout *kernel.PanelLayout) {
	whole := layout.Cols / panel
	for k := 0; k < layout.Keys; k += together {
		n := min(together, layout.Keys-k)
		for c := range whole {
			to, from := dst[c*layout.PanelStride+k*panel:], b[k*stride+c*panel:]
			if n == together {
				packTogether((*[together * panel]float32)(to), from[:(together-1)*stride+panel], stride)
				continue
			}
			for r := range n {
				*(*[panel]float32)(to[r*panel:]) = *(*[panel]float32)(from[r*stride:])
			}
		}
		for r := k; r < k+n && whole*panel < layout.Cols; r++ {
			last := dst[whole*layout.PanelStride+r*panel:][:panel]
			clear(last[copy(last, b[r*stride:][whole*panel:layout.Cols]):])
		}
	}
}

// packTogether copies a panel of as many rows as are packed side by side.
func packTogether(to *[together * panel]float32, from []float32, stride int) {
	*(*[panel]float32)(to[0*panel:]) = *(*[panel]float32)(from)
	*(*[panel]float32)(to[1*panel:]) = *(*[panel]float32)(from[stride:])
	*(*[panel]float32)(to[2*panel:]) = *(*[panel]float32)(from[2*stride:])
	*(*[panel]float32)(to[3*panel:]) = *(*[panel]float32)(from[3*stride:])
	*(*[panel]float32)(to[4*panel:]) = *(*[panel]float32)(from[4*stride:])
	*(*[panel]float32)(to[5*panel:]) = *(*[panel]float32)(from[5*stride:])
	*(*[panel]float32)(to[6*panel:]) = *(*[panel]float32)(from[6*stride:])
	*(*[panel]float32)(to[7*panel:]) = *(*[panel]float32)(from[7*stride:])
}

// add adds a·b to the block for some inner steps, or sets it to a·b if the layout overwrites. Rows
// of a are aStride apart. In b, packed columns are padded to a multiple of 8.
func (u *outputBlock) add(t *tuning.Row, a []float32, aStride int, b []float32,
	b0 *kernel.PanelLayout) {
	layout := *b0
	step := partOfRows(u.Rows, Rows, kernel.SplitRows)
	if u.Rows > step {
		layout.Pointer = 0 // else each part of the rows would ask for all of b
	}
	for r := 0; r < u.Rows; r += step {
		if r > 0 {
			layout.After = 0 // the first rows have prefetched it
		}
		some := outputBlock{u.Dst[r*u.Stride:], u.Stride, min(step, u.Rows-r), u.Cols}
		some.addRows(t, a[r*aStride:], aStride, b, &layout)
	}
}

// addRows is Add for at most Rows rows.
func (u *outputBlock) addRows(t *tuning.Row, a []float32, aStride int, b []float32,
	b0 *kernel.PanelLayout) {
	whole := u.Cols / 8 * 8
	part, sums := *b0, kernel.Sums{O: u.Dst, P: a, Rows: u.Rows, OStride: u.Stride, PStride: aStride}
	if part.Cols = whole; whole > 0 {
		floats.Accumulate(t, &sums, b, &part)
	}
	if whole == u.Cols {
		return
	}
	var last ragged
	last.load(u.Dst[whole:], u.Rows, u.Stride, u.Cols-whole)
	part.Cols = 8
	b = b[whole/kernel.Panel*b0.PanelStride+whole%kernel.Panel:]
	sums.O, sums.OStride = last[:], kernel.Panel
	floats.Accumulate(t, &sums, b, &part)
	last.store(u.Dst[whole:], u.Rows, u.Stride, u.Cols-whole)
}

// typedKernel is what adds products by elements of fewer bits.
type typedKernel struct {
	format kernel.Format
	normal bool // of pairs: no number in a sum is subnormal
}

func (k typedKernel) accumulate(t *tuning.Row, x *kernel.Sums, v []byte, b *kernel.PanelLayout) {
	if k.format == kernel.Pairs {
		pairs.Accumulate(t, x, v, b, k.normal)
		return
	}
	narrow.Accumulate(t, k.format, x, v, b)
}

// addTyped is AddRows for a matrix of fewer bits and at most narrow.MaxRows rows, or Rows of pairs.
func (u *outputBlock) addTyped(t *tuning.Row, k typedKernel, a []float32, aStride int, b []byte,
	b0 *kernel.PanelLayout) {
	whole := u.Cols / kernel.Panel * kernel.Panel
	part, sums := *b0, kernel.Sums{O: u.Dst, P: a, Rows: u.Rows, OStride: u.Stride, PStride: aStride}
	if part.Cols = whole; whole > 0 {
		k.accumulate(t, &sums, b, &part)
	}
	if whole == u.Cols {
		return
	}
	var last ragged
	last.load(u.Dst[whole:], u.Rows, u.Stride, u.Cols-whole)
	part.Cols = kernel.Panel
	sums.O, sums.OStride = last[:], kernel.Panel
	k.accumulate(t, &sums, b[whole/kernel.Panel*b0.PanelStride*k.format.Bytes():], &part)
	last.store(u.Dst[whole:], u.Rows, u.Stride, u.Cols-whole)
}

// scaleAndBias multiplies each column by its scale and adds its bias. Either may be nil. It does a
// few rows at a time to bound each call of assembly.
func (u *outputBlock) scaleAndBias(t *tuning.Row, scales, bias []float32) {
	for c := 0; c < u.Cols && (scales != nil || bias != nil); c += kernel.CallElements {
		some := u.part(c, min(kernel.CallElements, u.Cols-c))
		some.finishSome(t, some.of(scales, c), some.of(bias, c))
	}
}

// of returns the elements of x for the block's columns from first on; nil for nil.
func (u *outputBlock) of(x []float32, first int) []float32 {
	if x == nil {
		return nil
	}
	return x[first:][:u.Cols]
}

func (u *outputBlock) finishSome(t *tuning.Row, scales, bias []float32) {
	step := kernel.CallElements / u.Cols
	for r := 0; r < u.Rows; r += step {
		dst, rows := u.Dst[r*u.Stride:], min(step, u.Rows-r)
		switch {
		case scales == nil:
			floats.AddColumns(t.ISA, dst, bias, rows, u.Stride, u.Cols)
		case bias == nil:
			floats.ScaleColumns(t.ISA, dst, scales, rows, u.Stride, u.Cols)
		default:
			floats.ScaleAddColumns(t.ISA, dst, scales, bias, rows, u.Stride, u.Cols)
		}
	}
}

// ragged is the last columns of a product where these are fewer than kernels write, which write
// whole vectors or panels: they go through this buffer.
type ragged [Rows * kernel.Panel]float32

// load copies columns of an output, in rows that are stride apart.
func (x *ragged) load(dst []float32, rows, stride, cols int) {
	for r := range rows {
		copy(x[r*kernel.Panel:], dst[r*stride:][:cols])
	}
}

// store copies them back.
func (x *ragged) store(dst []float32, rows, stride, cols int) {
	for r := range rows {
		copy(dst[r*stride:][:cols], x[r*kernel.Panel:])
	}
}

// integerRows are rows of integers, Pitch apart, each with a scale for each group.
type integerRows struct {
	Rows          integers.Rows
	Scales        []float32
	Pitch, Groups int
}

// from is the rows from one on, without the steps before k.
func (x *integerRows) from(row, k int) (integers.Rows, []float32) {
	at := row*x.Groups + k/integers.Group
	return x.Rows.From(row*x.Pitch+k, at), x.Scales[at:]
}

// addIntegers is integers.Multiply of rows of x from one on, for any number of rows and columns,
// and for the steps from k on.
func (u *outputBlock) addIntegers(t *tuning.Row, x *integerRows, first, k int, v []byte,
	b0 *kernel.PanelLayout) {
	whole := u.Cols / kernel.Panel * kernel.Panel
	part := *b0
	for r := 0; r < u.Rows; r += Rows {
		rows, dst := min(Rows, u.Rows-r), u.Dst[r*u.Stride:]
		w, scales := x.from(first+r, k)
		var sums integers.Sums
		sums.O, sums.W, sums.F, sums.Rows = dst, &w, scales, rows
		sums.OStride, sums.WStride, sums.FStride = u.Stride, x.Pitch, x.Groups
		if part.Cols = whole; whole > 0 {
			integers.Multiply(t, &sums, v, &part)
		}
		if whole == u.Cols {
			continue
		}
		var last ragged
		last.load(dst[whole:], rows, u.Stride, u.Cols-whole)
		part.Cols = kernel.Panel
		sums.O, sums.OStride = last[:], kernel.Panel
		integers.Multiply(t, &sums, v[whole/kernel.Panel*b0.PanelStride:], &part)
		last.store(dst[whole:], rows, u.Stride, u.Cols-whole)
	}
}

// multiplyBlocks computes a product by blocks for some columns; x has all its arguments but the
// panels.
func multiplyBlocks(t *tuning.Row, x *blockwise.Product, cols int, memory *blockwise.Memory) {
	whole, size, part := cols/kernel.Panel, x.PanelBytes(), *x
	most := blockwise.PanelsFor(t, x.Type, x.Rows)
	for p := 0; p < whole; p += most {
		part.Panels = min(most, whole-p)
		part.O, part.Packed = x.O[p*kernel.Panel:], x.Packed[p*size:]
		blockwise.Multiply(t, &part, memory)
	}
	if whole*kernel.Panel == cols {
		return
	}
	dst := x.O[whole*kernel.Panel:]
	var last ragged
	part.Panels, part.Packed, part.O, part.OStride = 1, x.Packed[whole*size:], last[:], kernel.Panel
	for r := 0; r < x.Rows; r += Rows {
		part.A, part.Rows = x.A[r*x.AStride:], min(Rows, x.Rows-r)
		blockwise.Multiply(t, &part, memory)
		last.store(dst[r*x.OStride:], part.Rows, x.OStride, cols-whole*kernel.Panel)
	}
}

// multiplyFew is multiplyBlocks for few rows, see blockwise.MultiplyFew.
func multiplyFew(t *tuning.Row, x *blockwise.Product, cols int, next []byte) {
	x.Panels = cols / kernel.Panel
	at := x.Panels * kernel.Panel
	if at == cols {
		blockwise.MultiplyFew(t, x, next)
		return
	}
	after, part := x.Packed[x.Panels*x.PanelBytes():], *x
	if x.Panels > 0 {
		blockwise.MultiplyFew(t, x, after)
	}
	var last ragged
	part.O, part.Packed, part.Panels, part.OStride = last[:], after, 1, kernel.Panel
	blockwise.MultiplyFew(t, &part, next)
	last.store(x.O[at:], x.Rows, x.OStride, cols-at)
}
