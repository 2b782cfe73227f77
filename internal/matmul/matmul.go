// Package matmul multiplies by matrices: arguments of a call, or matrices that were packed once, as
// float32, in fewer bits, or as the blocks of files. Package attn documents what each function
// computes; its functions and Matrix are thin wrappers of this package.
package matmul

import (
	"fmt"
	"math"
	"runtime"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
	"github.com/seed-1415985d/attn/internal/views"
)

// How matrix products are divided. No result depends on these numbers.
const (
	// Cols columns of b are done at a time.
	Cols = 128

	// packedCols columns of b are packed at a time: rows of 2 KiB, since memory is fast only in runs,
	// and with Inner steps 512 KiB, which stay in the L2 cache.
	packedCols = 4 * Cols

	// longRuns inner steps of a panel are packed at a time where few rows wait for memory, and the
	// rows of a transposed b begin at the same place in pages: then short runs of many rows share few
	// sets of the caches, and lines that the processor has prefetched are lost.
	longRuns = kernel.PageBytes / 4

	// farCaches L2 caches are what b has at least where it is assumed to come from memory.
	farCaches = 8

	// fewRowsCols columns of a matrix are done at a time for up to maxTypedRows rows. These wait for
	// memory, which is fastest in one stream; panels of the same inputs are adjacent in it. Their
	// outputs stay in the L2 cache.
	fewRowsCols = 32 * Cols

	// minCols columns are the fewest that products by a Matrix are divided into only to be of equal
	// length.
	minCols = 2 * panel
)

// partsOf is the number of parts of at most some elements.
func partsOf(n, of int) int { return (n + of - 1) / of }

// MatMul computes dst = a·b, or a·bᵀ, of each batch and head, as package attn says.
func MatMul(t *tuning.Row, dst, a, b *views.Tensor, transposed bool) error {
	p := multiplication{t: t, dst: *dst, a: *a, b: *b, transposed: transposed}
	if err := p.check(); err != nil || p.dst.Empty() {
		return err
	}
	p.partition(1)
	w := memories.Get().(*Memory)
	for i := range p.tasks() {
		p.Task(w, i)
	}
	memories.Put(w)
	return nil
}

// multiplication is a call of MatMul.
type multiplication struct {
	t          *tuning.Row
	dst, a, b  views.Tensor
	transposed bool // a row of b is a column of the product

	inPlace           int  // columns that are read in place: packing is slower for few rows
	atOnce, inner     int  // columns, and inner steps, that are packed at a time
	gathered          bool // blocks of dst are computed in scratch memory
	heads, rows, cols int  // of a task; heads of all batch entries are counted
}

// check validates the arguments.
func (p *multiplication) check() error {
	b := &p.b
	if err := b.Check("b"); err != nil {
		return err
	}
	right := rightSide{"b", "rows", b.B, b.H, b.L, b.D}
	if p.transposed {
		right = rightSide{"b", "columns", b.B, b.H, b.D, b.L}
	}
	return checkProduct(&p.dst, &p.a, &right, b, nil)
}

// leastProductRows rows are the fewest for which another worker packs the same columns of b.
const leastProductRows = 32

// partition divides the product into tasks for workers: by columns, then by heads, then by rows.
func (p *multiplication) partition(workers int) {
	switch few := p.a.L <= kernel.InPlaceRows; {
	case few && !p.transposed:
		p.inPlace = p.dst.D / 8 * 8 // whole vectors
	case few && p.a.D <= kernel.InPlaceDim:
		p.inPlace = p.dst.D
	}
	p.atOnce, p.inner = p.packedAtOnce()
	p.gathered = p.a.D > Inner && gathers(p.t, &p.dst)
	heads := p.dst.B * p.dst.H
	p.heads, p.rows, p.cols = heads, p.dst.L, p.dst.D
	if workers == 1 {
		return
	}
	best, shortest := [3]int{heads, p.rows, p.cols}, math.Inf(1)
	for p.cols = packedCols; p.cols >= minCols; p.cols /= 2 {
		for n := 1; n <= heads; n *= 2 {
			p.heads = partsOf(heads, n)
			for n := 1; n == 1 || p.dst.L/n >= leastProductRows && n <= workers; n *= 2 {
				p.rows = partsOf(p.dst.L, n)
				if t := p.makespan(workers); t < shortest {
					best, shortest = [3]int{p.heads, p.rows, p.cols}, t
				}
			}
		}
	}
	p.heads, p.rows, p.cols = best[0], best[1], best[2] // a copy of p would make its buffers escape
}

// packedAtOnce is how many columns, and inner steps of them, are packed at a time.
func (p *multiplication) packedAtOnce() (cols, inner int) {
	if p.transposed && p.a.L <= kernel.InPlaceRows && 4*p.b.SL%kernel.PageBytes == 0 &&
		4*p.a.D*p.dst.D > farCaches*p.t.L2 {
		return panel, longRuns
	}
	return packedCols, Inner
}

// makespan estimates the time until the last worker is done, in multiply-adds for each step of the
// chains.
func (p *multiplication) makespan(workers int) float64 {
	heads, again := float64(p.heads), 0.
	if p.inPlace == 0 { // packing costs as much as this many rows, more where runs of memory are short
		switch {
		case p.cols >= packedCols:
			again = 60
		case p.cols > Cols:
			again = 90
		default:
			again = 180
		}
	}
	packed := 1. // matrices of b that a task packs columns of
	if p.b.H > 1 || p.b.B > 1 {
		packed = heads
	}
	each := float64(min(p.cols, p.dst.D)) * (heads*float64(p.rows) + packed*again)
	return tuning.Makespan(p.tasks(), workers, each, 1)
}

// tasks is how many tasks there are.
func (p *multiplication) tasks() int {
	return partsOf(p.dst.B*p.dst.H, p.heads) * partsOf(p.dst.L, p.rows) * partsOf(p.dst.D, p.cols)
}

// cost estimates the nanoseconds of the product on one core.
func (p *multiplication) cost() float64 {
	cells := float64(p.dst.B) * float64(p.dst.H) * float64(p.dst.D)
	return p.t.Cost(2*cells*float64(p.dst.L)*float64(p.a.D), 4*cells*float64(p.a.D))
}

func (p *multiplication) Begin(*Memory) {}

// Task computes one task.
func (p *multiplication) Task(w *Memory, i int) {
	rows, cols := partsOf(p.dst.L, p.rows), partsOf(p.dst.D, p.cols)
	u := productRange{row: i / cols % rows * p.rows, head: i / cols / rows * p.heads}
	u.rowsEnd, u.headsEnd = min(u.row+p.rows, p.dst.L), min(u.head+p.heads, p.dst.B*p.dst.H)
	first := i % cols * p.cols
	end := min(first+p.cols, p.dst.D)
	if n := min(end, p.inPlace) - first; n > 0 {
		if p.transposed {
			p.multiplyRows(&u, first, n, w)
		} else {
			p.multiplyInPlace(&u, first, n)
		}
		first += n
	}
	w.k = kernel.Grow(w.k, Inner*packedCols)
	for ; first < end; first += p.atOnce {
		p.multiplyCols(&u, first, min(p.atOnce, end-first), w)
	}
}

// productRange is some rows of some heads, counted through all batch entries.
type productRange struct{ row, rowsEnd, head, headsEnd int }

// rightSide describes the matrices [batch or 1, heads or 1, inner, cols] of a product. inputs is
// the caller's name for the inner steps.
type rightSide struct {
	name, inputs              string
	batch, heads, inner, cols int
}

// checkProduct validates the output and the left side of a product. The right side is valid, as b
// or packed; then b is empty.
func checkProduct(dst, a *views.Tensor, right *rightSide, b *views.Tensor, bias []float32) error {
	if err := a.Check("a"); err != nil {
		return err
	}
	if err := dst.Check("dst"); err != nil {
		return err
	}
	switch {
	case a.D != right.inner:
		return views.Fail(views.ErrShape, "a.D is %d, want %d as %s has %s", a.D, right.inner, right.name,
			right.inputs)
	case right.batch != a.B && right.batch != 1 || right.heads != a.H && right.heads != 1:
		return views.Fail(views.ErrShape, "%s is [%d %d …], want [%s, %s, …] as a", right.name,
			right.batch, right.heads, views.OrOne(a.B), views.OrOne(a.H))
	case dst.B != a.B || dst.H != a.H || dst.L != a.L || dst.D != right.cols:
		return views.Fail(views.ErrShape, "dst is [%d %d %d %d], want [%d %d %d %d]", dst.B, dst.H, dst.L,
			dst.D, a.B, a.H, a.L, right.cols)
	}
	if err := dst.CheckDistinct("dst"); err != nil {
		return err
	}
	all := [...]views.Extent{dst.Extent("dst"), a.Extent("a"), b.Extent("b"),
		views.ExtentOfSlice("bias", bias)}
	for i, at := range [len(all)]uintptr{operand.Address(dst.Data, 0), operand.Address(a.Data, 0),
		operand.Address(b.Data, 0), operand.Address(bias, 0)} {
		all[i].Begin = at
	}
	return views.CheckApart(all[:1], all[1:])
}

// multiplyInPlace computes some columns of a range, reading b where it is.
func (p *multiplication) multiplyInPlace(u *productRange, first, cols int) {
	for n := u.head; n < u.headsEnd; n++ {
		for k := 0; k < p.a.D; k += Inner {
			at := p.rightOffset(n, first, k)
			layout := kernel.PanelLayout{Keys: min(Inner, p.a.D-k), Cols: cols, Stride: p.b.SL,
				PanelStride: panel, Overwrite: k == 0}
			layout.Set(p.t, p.t.PrefetchOne, p.t.PrefetchFew, false)
			if p.t.Reads == tuning.PagedReads && p.b.SL == cols { // one run of memory, see prefetch.go
				layout.Pointer = operand.Address(p.b.Data, at)
			}
			p.add(u, n, k, first, nil, p.b.Data[at:], &layout)
		}
	}
}

// multiplyRows computes some columns of a range, reading the rows of a transposed b where they are.
func (p *multiplication) multiplyRows(u *productRange, first, cols int, w *Memory) {
	rows, d := u.rowsEnd-u.row, p.a.D
	w.rotated, w.s = kernel.Grow(w.rotated, rows*d), kernel.Grow(w.s, rows*kernel.Block)
	for n := u.head; n < u.headsEnd; n++ {
		i, h := n/p.dst.H, n%p.dst.H
		for r := range rows {
			copy(w.rotated[r*d:][:d], p.a.Row(i, h, u.row+r))
		}
		for c := first; c < first+cols; c += kernel.Block {
			keys := floats.KeyRows{K: p.b.Data[p.rightOffset(n, c, 0):], Stride: p.b.SL,
				N: min(kernel.Block, first+cols-c)}
			floats.ScoreRows(p.t.ISA, w.s, w.rotated, keys, rows, d, nil)
			for r := range rows {
				copy(p.dst.Row(i, h, u.row+r)[c:], w.s[r*kernel.Block:][:keys.N])
			}
		}
	}
}

// gatheredRows rows are gathered at a time, so that their sums are not much larger than the packed
// columns.
const gatheredRows = 4 * Rows

// multiplyCols computes some columns of a range: if sums are gathered, for some rows of all heads,
// or of some heads, at a time.
func (p *multiplication) multiplyCols(u *productRange, first, cols int, w *Memory) {
	all := u.rowsEnd - u.row
	if !p.gathered {
		p.multiplyPacked(u, first, cols, w.k, nil)
		return
	}
	rows, heads := min(all, gatheredRows), max(1, gatheredRows/all)
	w.s = kernel.Grow(w.s, heads*rows*cols)
	for head := u.head; head < u.headsEnd; head += heads {
		for row := u.row; row < u.rowsEnd; row += rows {
			some := productRange{row, min(row+rows, u.rowsEnd), head, min(head+heads, u.headsEnd)}
			p.multiplyPacked(&some, first, cols, w.k, w.s)
			for n := some.head; n < some.headsEnd; n++ {
				for r := some.row; r < some.rowsEnd; r++ {
					from := w.s[((n-some.head)*(some.rowsEnd-some.row)+r-some.row)*cols:]
					copy(p.dst.Row(n/p.dst.H, n%p.dst.H, r)[first:][:cols], from)
				}
			}
		}
	}
}

// multiplyPacked computes some columns of a range, in sums unless that is nil. They are packed once
// for all batch entries and heads that use the same matrix.
func (p *multiplication) multiplyPacked(u *productRange, first, cols int, packed,
	sums []float32) {
	for k := 0; k < p.a.D; k += p.inner {
		layout := panelLayout(p.t, min(p.inner, p.a.D-k), cols)
		layout.Overwrite = k == 0
		have := -1 // where in b the packed columns begin
		for n := u.head; n < u.headsEnd; n++ {
			if at := p.rightOffset(n, first, k); at != have {
				packColumns(p.t, packed, p.b.Data[at:], p.b.SL, p.transposed, &layout)
				have = at
			}
			p.add(u, n, k, first, sums, packed, &layout)
		}
	}
}

// rightOffset returns the offset of column c, inner step k, of the matrix by which head n, counted
// over all batch entries, multiplies.
func (p *multiplication) rightOffset(n, c, k int) int {
	if p.transposed {
		c, k = k, c
	}
	return p.b.Offset(min(n/p.dst.H, p.b.B-1), min(n%p.dst.H, p.b.H-1), k) + c
}

// add adds the products of some inner steps from k on to columns of a range, for head n: in dst, or
// in sums if that is not nil.
func (p *multiplication) add(u *productRange, n, k, first int, sums, b []float32,
	layout *kernel.PanelLayout) {
	i, h := n/p.dst.H, n%p.dst.H
	to := outputBlock{Rows: u.rowsEnd - u.row, Cols: layout.Cols}
	if sums != nil {
		to.Dst, to.Stride = sums[(n-u.head)*to.Rows*to.Cols:], to.Cols
	} else {
		to.Dst, to.Stride = p.dst.Data[p.dst.Offset(i, h, u.row)+first:], p.dst.SL
	}
	to.add(p.t, p.a.Data[p.a.Offset(i, h, u.row)+k:], p.a.SL, b, layout)
}

// Matrix is the body of attn.Matrix.
type Matrix struct {
	format            kernel.Format
	traits            kernel.Traits // of the format
	b, h, inner, cols int
	blocks            blocks.Type     // of a matrix in blocks, with format blocksFormat; else 0
	int8              bool            // inputs become integers, too
	paired            bool            // blocks are unpacked to pairs, for products in bfloat16
	rotation          int             // size of the Walsh–Hadamard matrix along the inputs; 1: none
	mapping           *memory.Mapping // the memory of data and scales; nil if the matrix is closed
	data              []byte          // [b][h][inner/Inner] × panels, as ScoreLayout describes;
	// panels of blocks, as internal/blocks describes
	scales []float32 // of I8: [b][h][cols in whole panels]
	least  uint32    // of pairs, 1 + their Least, once a kernel needed it
}

// Dims returns the batch entries, heads, inputs and outputs.
func (m *Matrix) Dims() (batch, heads, inputs, outputs int) { return m.b, m.h, m.inner, m.cols }

// MemoryUse returns the bytes of elements and scales.
func (m *Matrix) MemoryUse() int { return len(m.data) + 4*len(m.scales) }

// Close releases the memory.
func (m *Matrix) Close() error {
	if err := m.checkOpen(); err != nil {
		return err
	}
	mapping := m.mapping
	m.mapping, m.data, m.scales = nil, nil, nil
	return mapping.Close()
}

// Elements returns the packed elements, without scales.
func (m *Matrix) Elements() []byte { return m.data }

// Scales returns the scales of I8; other formats have none.
func (m *Matrix) Scales() []float32 { return m.scales }

// checkOpen verifies that the matrix has memory.
func (m *Matrix) checkOpen() error {
	if m == nil {
		return views.Fail(views.ErrOption, "m is nil, want a matrix")
	}
	if !m.isOpen() {
		return views.Fail(views.ErrClosed, "the matrix was closed, or is not from PackMatrix")
	}
	return nil
}

// isOpen reports whether m is not nil and has memory.
func (m *Matrix) isOpen() bool { return m != nil && m.mapping != nil }

// errListed is the error for a matrix of a list that is nil or has no memory.
func errListed(ms []*Matrix, i int) error {
	if ms[i] == nil {
		return views.Fail(views.ErrOption, "ms[%d] is nil, want a matrix", i)
	}
	return fmt.Errorf("%w (ms[%d])", ms[i].checkOpen(), i)
}

// needs returns the preparation that inputs of the matrix need.
func (m *Matrix) needs() inputNeeds {
	switch {
	case m.int8 && m.blocks != 0:
		return needsBlocks
	case m.int8:
		return needsIntegers
	case m.rotation > 1:
		return needsRotation
	case m.pairs():
		return needsPairs
	}
	return 0
}

// pairs reports whether products are in bfloat16.
func (m *Matrix) pairs() bool { return m.format == kernel.Pairs || m.paired }

// floatPanels returns the panels of columns [first, first+cols) for the inner steps that begin with
// k, of a matrix of float32. k is a multiple of Inner and first one of panel.
func (m *Matrix) floatPanels(t *tuning.Row, b, h, k, first, cols int) ([]float32,
	kernel.PanelLayout) {
	layout := panelLayout(t, min(Inner, m.inner-k), cols)
	layout.PrefetchFew += t.PrefetchRun
	data := kernel.Elements[float32](m.panels(b, h, k, first, cols))
	if t.Reads == tuning.PagedReads { // see prefetch.go
		layout.Pointer = operand.Address(data, 0)
	}
	return data, layout
}

// panels is the memory of the panels of columns [first, first+cols) for the inner steps that begin
// with k.
func (m *Matrix) panels(b, h, k, first, cols int) []byte {
	steps := kernel.RoundUp(min(Inner, m.inner-k), m.traits.Group)
	inner, all := kernel.RoundUp(m.inner, m.traits.Group), kernel.RoundUp(m.cols, panel)
	at := (m.index(b, h)*inner+k)*all + first*steps
	n := kernel.RoundUp(cols, panel) * steps
	return m.data[at*m.traits.Bytes:][:n*m.traits.Bytes]
}

// blockPanel is the bytes of a panel.
func (m *Matrix) blockPanel() int {
	of := m.blocks.Traits()
	return m.inner / of.Inputs * of.Packed
}

// blockData is panels of 16 outputs from a number on.
func (m *Matrix) blockData(first, panels int) []byte {
	return m.data[first*m.blockPanel():][:panels*m.blockPanel()]
}

// index returns the number of the matrix of a batch entry and head, which may share one.
func (m *Matrix) index(b, h int) int { return min(b, m.b-1)*m.h + min(h, m.h-1) }

// MatMul computes dst = a·m + bias.
func (m *Matrix) MatMul(t *tuning.Row, dst, a *views.Tensor, bias []float32) error {
	if err := m.checkMatMul(dst, a, bias); err != nil {
		return err
	}
	one := targets{[]views.Tensor{*dst}, []*Matrix{m}, [][]float32{bias}}
	one.multiply(inputsOf(t, *a, one.ms))
	runtime.KeepAlive(m) // and with it its memory
	return nil
}

// checkMatMul validates the arguments of MatMul, and makes the strides of its views explicit.
func (m *Matrix) checkMatMul(dst, a *views.Tensor, bias []float32) error {
	if err := m.checkOpen(); err != nil {
		return err
	}
	if bias != nil && len(bias) != m.cols {
		return views.Fail(views.ErrLength, "len(bias) is %d, want %d", len(bias), m.cols)
	}
	return checkProduct(dst, a, &rightSide{"the matrix", "inputs", m.b, m.h, m.inner, m.cols},
		&views.Tensor{}, bias)
}

// its first row among the rows of inputs
type projection struct {
	inputs *preparation
	at     int // the index of its first row among the inputs

	m    *Matrix
	bias []float32 // or nil

	dst     views.Tensor // as many rows as the product
	offsets []int        // offsets of these rows in dst's data; nil: as its strides say

	rows, cols int    // of a task
	gathered   bool   // blocks of dst are computed in scratch memory
	next       []byte // memory that is read after this product, for few rows by blocks
}

// input returns the rows, stride apart, from which a block of dst is computed.
func (p *projection) input(u *productBlock) (a []float32, stride int) {
	x := &p.inputs.source
	if p.m.needs()&needsRotation != 0 || p.inputs.routes != nil {
		x = &p.inputs.rotated
	}
	return x.Data[x.Offset(u.b, u.h, p.at+u.row):], x.SL
}

// inputRow returns the first row of a block among the rows that became integers.
func (p *projection) inputRow(u *productBlock) int {
	x := &p.inputs.source
	return (u.b*x.H+u.h)*x.L + p.at + u.row
}

// partition divides the product into blocks for workers.
func (p *projection) partition(workers int) {
	if workers == 1 && p.few() {
		p.rows, p.cols = p.dst.L, p.dst.D // one stream
		return
	}
	p.rows, p.cols = partOfRows(p.dst.L, Rows, p.evenRows()), 2*Cols
	switch {
	case p.pairTiles():
		p.rows, p.cols = partOfRows(p.dst.L, tiledRows, p.evenRows()), fewRowsCols
	case p.m.blocks == 0 && p.dst.L <= narrow.MaxRows:
		p.cols = fewRowsCols
	case workers == 1 && p.m.int8 && p.dst.L > Rows:
		p.cols *= 2 // inputs of so many rows leave the L2 cache, and are read half as often
	}
	if p.m.sharesWidened() && !(workers > 1 && p.m.int8) { // of integers nothing is widened
		p.rows = partOfRows(p.dst.L, WidenedRows, p.evenRows())
		if p.tasks() < workers*tuning.TasksPerWorker {
			p.rows = partOfRows(p.dst.L, Rows, p.evenRows())
		}
	}
	p.gathered = p.gathered || p.gathers()
	if workers == 1 {
		return
	}
	if p.dst.L <= narrow.MaxRows && !p.pairTiles() {
		for p.cols > panel && p.tasks() < workers*tuning.TasksPerWorker {
			p.cols /= 2
		}
		return
	}
	best, shortest := p.cols, math.Inf(1)
	for ; p.cols >= panel; p.cols /= 2 {
		if t := p.makespan(workers); t < shortest {
			best, shortest = p.cols, t
		}
	}
	p.cols = best
}

// makespan estimates the time until the last worker is done, in multiply-adds for each step of the
// chains. Narrow blocks take a little longer in all, blocks of a single panel much longer, because
// inputs are read for few products. Rows that stay in the L2 cache cost little to read again. The
// last worker ends a quarter of a block after the others.
func (p *projection) makespan(workers int) float64 {
	again := 8.
	switch {
	case p.cols < minCols:
		again = 12
	case p.inputs.t.Stays(4 * p.rows * p.m.inner):
		again = 3
	}
	each := float64(min(p.cols, p.dst.D)) + again
	return (max(float64(p.tasks())/float64(workers), 1./quarters) + 1./quarters) * each
}

// sharesWidened reports whether widening is so slow that more rows share it than would multiply
// fastest: not for F16 and BF16, and blocks with Integers are unpacked for few rows as well.
func (m *Matrix) sharesWidened() bool {
	switch m.format {
	case kernel.F32, kernel.F16, kernel.BF16, kernel.Pairs:
		return false
	}
	return m.blocks == 0 || !m.int8
}

// gathers reports whether sums between parts of the inner steps are kept in scratch memory. (With a
// matrix of fewer bits, the widened columns need the cache.)
func (p *projection) gathers() bool {
	return (p.m.format == kernel.F32 || p.m.format == kernel.Pairs && !p.pairTiles()) &&
		p.m.inner > Inner && gathers(p.inputs.t, &p.dst)
}

// gathers reports whether an output has so many rows, so far apart, that each is in a page of its
// own, and many are in the same sets of a cache.
func gathers(t *tuning.Row, dst *views.Tensor) bool {
	return dst.L > kernel.InPlaceRows && !t.Stays(4*dst.L*dst.SL)
}

// tasks is the number of blocks of rows and columns in all products.
func (p *projection) tasks() int {
	return p.dst.B * p.dst.H * p.rowBlocks() * p.colBlocks()
}

func (p *projection) rowBlocks() int { return (p.dst.L + p.rows - 1) / p.rows }
func (p *projection) colBlocks() int { return (p.dst.D + p.cols - 1) / p.cols }

// productBlock is a block of dst: some rows and columns of the product of a batch entry and head.
type productBlock struct {
	b, h, row, first int

	outputBlock // where it is computed
}

// block is the block of dst that task i computes. Blocks of rows follow each other, so that the
// columns of the matrix stay in the cache.
func (p *projection) block(i int) productBlock {
	i, row := i/p.rowBlocks(), i%p.rowBlocks()*p.rows
	i, first := i/p.colBlocks(), i%p.colBlocks()*p.cols
	return productBlock{b: i / p.dst.H, h: i % p.dst.H, row: row, first: first,
		outputBlock: outputBlock{Rows: min(p.rows, p.dst.L-row), Cols: min(p.cols, p.dst.D-first)}}
}

// evenRows is the number of rows that kernels compute together: blocks divide rows at multiples of
// it.
func (p *projection) evenRows() int {
	if p.pairTiles() {
		return 2 * tuning.AMXRows
	}
	if p.m.int8 && p.inputs.t.AMX {
		return tuning.AMXRows
	}
	return kernel.SplitRows
}

// task computes one block of dst.
func (p *projection) task(i int) { p.compute(p.block(i)) }

// quarters is into how many pieces blocks are divided at most.
const quarters = 4

// stretch computes the quarters [from, to) of blocks; quarters of the same block together.
func (p *projection) stretch(from, to int) {
	for from < to {
		i := from % quarters
		u, taken := p.block(from/quarters).quarters(i, min(to-from, quarters-i), p.evenRows())
		if from += taken; u.Rows > 0 && u.Cols > 0 {
			p.compute(u)
		}
	}
}

// quarters returns up to n quarters of a block from quarter i on, and their number. They may be
// empty: few rows or columns are not divided, others at a multiple of even.
func (u productBlock) quarters(i, n, even int) (part productBlock, taken int) {
	row, first, taken := u.outputBlock.quarters(i, n, leastProductRows, minCols, even)
	u.row, u.first = u.row+row, u.first+first
	return u, taken
}

// compute computes a block of dst. (Through a pointer to u the caller's buffers would escape.)
func (p *projection) compute(u productBlock) {
	if p.gathered {
		p.gather(u)
		return
	}
	u.Dst, u.Stride = p.dst.Data[p.dst.Offset(u.b, u.h, u.row)+u.first:], p.dst.SL
	p.multiply(&u)
	p.scaleAndBias(&u)
}

// gather computes a block in scratch memory, and then copies it to dst.
func (p *projection) gather(u productBlock) {
	w := memories.Get().(*Memory)
	w.s = kernel.Grow(w.s, u.Rows*u.Cols)
	u.Dst, u.Stride = w.s, u.Cols
	p.multiply(&u)
	p.scaleAndBias(&u)
	for r := range u.Rows {
		copy(p.rowOf(&u, r)[u.first:][:u.Cols], w.s[r*u.Cols:])
	}
	memories.Put(w)
}

// rowOf returns row r of a block, in dst.
func (p *projection) rowOf(u *productBlock, r int) []float32 {
	if p.offsets != nil {
		return p.dst.Data[p.offsets[u.row+r]:]
	}
	return p.dst.Row(u.b, u.h, u.row+r)
}

// multiply computes a block of the product, without scales of columns and bias.
func (p *projection) multiply(u *productBlock) {
	if p.m.format != kernel.F32 {
		p.multiplyTyped(u)
		return
	}
	a, stride := p.input(u)
	for k := 0; k < p.m.inner; k += Inner {
		right, layout := p.m.floatPanels(p.inputs.t, u.b, u.h, k, u.first, u.Cols)
		layout.Overwrite = k == 0
		layout.InOrder = p.panelsSequential()
		if layout.After = p.after(u, k); layout.After != 0 {
			layout.Pointer = 0 // only one kind of prefetching
		}
		u.addRows(p.inputs.t, a[k:], stride, right, &layout)
	}
}

// after returns the address of the panel that is read after the panels of the inner steps from k
// on, 0 if it is not to be prefetched.
func (p *projection) after(u *productBlock, k int) uintptr {
	if u.Rows <= kernel.InPlaceRows || !p.inputs.t.PanelsAhead(u.Rows) {
		return 0 // few rows prefetch otherwise
	}
	first := u.first
	if k += Inner; k >= p.m.inner {
		k = 0
		if u.row+u.Rows == p.dst.L {
			first = (u.first + u.Cols) % p.m.cols // a guess if other workers take part
		}
	}
	return operand.Address(p.m.panels(u.b, u.h, k, first, panel), 0)
}

// scaleAndBias multiplies a block by the scales of columns and adds the bias, if there are.
func (p *projection) scaleAndBias(u *productBlock) {
	bias := p.bias
	if bias != nil {
		bias = bias[u.first:][:u.Cols]
	}
	u.scaleAndBias(p.inputs.t, p.m.scalesOf(u.b, u.h, u.first, u.Cols), bias)
}

// panelsSequential reports whether few rows read the panels of a large matrix in order, as they
// read the panels of a cache.
func (p *projection) panelsSequential() bool {
	return p.dst.L <= kernel.InPlaceRows && p.inputs.t.PanelsInOrder(float64(len(p.m.data)))
}

// decodingFlops is the cost of decoding a weight of a block, in operations, and roundingFlops of
// doing so in registers.
const decodingFlops, roundingFlops = 30, 6

// cost estimates the nanoseconds of the product on one core.
func (p *projection) cost() float64 {
	rows := float64(p.dst.B) * float64(p.dst.H) * float64(p.dst.L)
	flops := 2 * rows * float64(p.m.inner) * float64(p.dst.D)
	bytes := float64(len(p.m.data))
	if p.m.blocks != 0 && !p.m.int8 {
		each := float64(decodingFlops)
		if p.rounded() {
			each = roundingFlops
		}
		again := float64(p.dst.B) * float64(p.dst.H) * float64(partsOf(p.dst.L, WidenedRows))
		flops += each * again * float64(p.m.inner) * float64(p.dst.D)
	}
	return p.inputs.t.Cost(flops, bytes)
}
