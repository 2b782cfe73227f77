package attn

import (
	"math"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// The sizes and forms of what kernels read and write.

const (
	// Block is the number of keys of one online-softmax step. Blocks start at
	// absolute key indices that are multiples of Block.
	Block = 64

	// Segment is the number of keys that are summed from an empty state before
	// they are merged with the keys to their left. Work is split between
	// workers, and states are split, at multiples of Segment.
	Segment = 1024

	// softmaxRows is the number of rows of one assembly call of softmax. The AVX2
	// kernel (gen/softmax.go) keeps the lanes of that many sums on its stack.
	softmaxRows = 96

	// inPlaceRows is the number of rows up to which scoreRows transposes keys in registers faster than
	// they are packed.
	inPlaceRows = 4

	// panel is the number of keys, or value columns, side by side in packed order.
	panel = 16

	// maximaLanes is the number of lanes of a row's maxima: one for every maximaLanes-th key.
	maximaLanes = 8
)

// tuned is every policy that depends on the CPU, and which kernels are in use.
var tuned = tuning.Host()

const (
	minTileRows = tuning.MinTileRows
	maxTileRows = tuning.MaxTileRows
)

// panelLayout says where the values of a block are: column c of key j is at
// v[c/panel*panelStride + j*stride + c%panel]. Both packed values and a
// caller's rows have this form.
type panelLayout struct {
	keys, cols          int // cols is a multiple of 8 in assembly
	stride, panelStride int
	prefetchHint
	overwrite bool    // outputs begin at 0, whatever is there (β = 0)
	after     uintptr // the panel that is read after these, 0 if panels are not prefetched one ahead
}

// negZero as a weight marks a key that the row does not see. It counts as zero in
// every sum, and accumulateMasked does not look at the key's value.
const negZero = 1 << 31

var negInf = float32(math.Inf(-1))

// Which of several variants a call goes through, which return the same bits.

const (
	// maximaRows is what the rows of a call of scoreMaxima are a multiple of; softmaxMaxima takes up
	// to maxTileRows.
	maximaRows = 6

	// maximaDim is the least dimension of scoreMaxima: one row of the tile before is looked at in
	// every 8 steps but the last 4.
	maximaDim = 8*maximaRows + 4
)

// kernels is the variants that some rows go through. The zero value is kernels with 8 lanes on
// amd64, and with 4 on arm64.
type kernels struct {
	lanes16   bool // score, and accumulate of whole panels, have 16 lanes
	softmax16 bool // so has softmax
	maxima    bool // score finds the maxima of rows for softmax; both have 8 lanes
}

// chooseKernels chooses the variants for some rows of queries, their d dimensions, and whether the
// call has packed keys. Who calls a kernel that does not depend on one of these leaves it 0.
// lanes16 goes before maxima, where both are true.
func chooseKernels(rows, d int, packed bool) kernels {
	from := tuned.MinRows16
	if packed {
		from = tuned.MinPacked16
	}
	return kernels{
		lanes16:   tuned.ISA.Lanes16() && rows >= from,
		softmax16: tuned.ISA.Lanes16() && rows > 1, // one row has a kernel that keeps it in registers
		maxima:    tuned.MaximaInScore && tuned.ISA.Maxima() && d >= maximaDim && rows%maximaRows == 0,
	}
}

// typedKernel says whether some rows over elements of fewer bits have 16 lanes, and how many panels
// they read side by side, as gen/typed.go has it. One row of I8 and codes always have 16 lanes,
// where there are such: they are widened another way.
func typedKernel(t Format, rows int) (lanes16 bool, panels int) {
	lanes16 = tuned.ISA.Lanes16() &&
		(t == I4 || t == I8 && rows == 1 || rows >= max(2, tuned.MinTypedRows16))
	switch {
	case lanes16 && rows <= 4 || rows == 1 && (t == I8 || tuned.FourPanels):
		return lanes16, 4
	case lanes16 || rows <= 3:
		return lanes16, 2
	}
	return lanes16, 1
}

// integerRows is rows of integers of 8 bits as kernels take them.
type integerRows struct {
	words []int16 // in the order of inGroupOrder

	// In the place of words, where one instruction adds products of four bytes. With VNNI kernels add
	// 128 to what a row meets, to have no signs there, and sums begin with −128 times the sum of the
	// row, or of each group of it that has a sum.
	bytes  []int8
	starts []int32

	// In the place of both, where one instruction multiplies bytes without sign by bytes with one: of
	// each four elements their magnitudes, then −1 where one is negative and else 0. Sums begin with
	// starts, here the sum of the magnitudes of negative elements: see addSigned in gen.
	magnitudes []int8
}

// fit makes the memory large enough, for at least that number of rows a call.
func (x *integerRows) fit(elements, groups, rows int) {
	was := *x
	*x = integerRows{} // what there is means that kernels take it
	switch {
	case tuned.DotProduct && rows >= tuned.MinInt8Rows16:
		x.bytes, x.starts = grow(was.bytes, elements), grow(was.starts, groups)
	case tuned.ISA.Integers():
		x.magnitudes, x.starts = grow(was.magnitudes, 2*elements), grow(was.starts, groups)
	default:
		x.words = grow(was.words, elements)
	}
}

// startOf is −128 times the sum of a row.
func startOf(row []int8) int32 {
	var sum int32
	for _, e := range row {
		sum += int32(e)
	}
	return -128 * sum
}

// from is the rows from an element and a group on.
func (x *integerRows) from(at, group int) integerRows {
	switch {
	case x.words != nil:
		return integerRows{words: x.words[at:]}
	case x.magnitudes != nil:
		return integerRows{magnitudes: x.magnitudes[2*at:], starts: x.starts[group:]}
	}
	return integerRows{bytes: x.bytes[at:], starts: x.starts[group:]}
}

// reads: rows from one on, of n elements and some groups.
func (x *integerRows) reads(row, rows, stride, groupStride, n, groups int) {
	if x.words != nil {
		operand.ReadsRows(x.words[row*stride:], rows, stride, n)
		return
	}
	operand.ReadsRows(x.starts[row*groupStride:], rows, groupStride, groups)
	if x.magnitudes != nil {
		operand.ReadsRows(x.magnitudes[2*row*stride:], rows, 2*stride, 2*n)
	} else {
		operand.ReadsRows(x.bytes[row*stride:], rows, stride, n)
	}
}

// inGroupOrder widens a row to 16 bits, in the order that kernels take it: of each group of four,
// elements 0, 2, 1, 3. So pairs meet the even and the odd bytes of a group, which shifts separate.
// Elements that complete the last group are 0.
func inGroupOrder(dst []int16, row []int8) {
	whole := len(row) / 4 * 4
	for i := 0; i < whole; i += 4 {
		from, to := row[i:][:4], dst[i:][:4]
		to[0], to[1], to[2], to[3] = int16(from[0]), int16(from[2]), int16(from[1]), int16(from[3])
	}
	if whole < len(dst) {
		var last [4]int8
		copy(last[:], row[whole:])
		inGroupOrder(dst[whole:], last[:])
	}
}

// Score prefetches memory that will be needed soon, while it has something to
// compute: packing and adding a bias would wait for it otherwise. It prefetches
// a row now and then, because processors drop prefetches when too many are under way.

// prefetchHint is how kernels of few rows, which wait for memory, go through it. The zero value
// prefetches nothing. No result depends on it, so the generic code does not look at it.
type prefetchHint struct {
	// pointer is where reading is, a window before what is prefetched page by page
	// (gen/prefetch_pages.go), or in order; 0 if nothing is.
	pointer     uintptr
	prefetchOne int  // how many bytes ahead one or two rows prefetch packed panels,
	prefetchFew int  // and three to five rows, or any over elements of fewer bits
	fourPanels  bool // one row takes four packed panels side by side, else one after another
	// rows of the caller, or packed panels, are read in order, or prefetched so if there is a pointer
	inOrder bool
	// what is a window after the pointer is prefetched line by line, not a line of each page in turn
	oneStream bool
	packed    bool // the call has packed keys, for rows enough that memory is not what they wait for
}

// set is what the CPU wants of kernels that prefetch packed panels by that many bytes ahead, with
// no pointer. (Word by word: a copy of what has just been written waits for the stores, which small
// calls feel.)
func (a *prefetchHint) set(one, few int, inOrder bool) {
	a.pointer, a.inOrder, a.fourPanels = 0, inOrder, tuned.FourPanels
	a.oneStream, a.packed = false, false
	a.prefetchOne, a.prefetchFew = one, few
}

// setTyped is set for some rows over elements of fewer bits, whose panels of keys, or of a matrix,
// have some bytes. Lines are requested in the order of memory, and panels are read side by side, so
// what lies before the last of these goes first. Values are prefetched as far ahead as keys, which
// may be scaled: where the distance changes, some lines are requested twice, or never.
func (a *prefetchHint) setTyped(t Format, rows, panelBytes int, scaled bool) {
	a.pointer, a.inOrder, a.fourPanels = 0, false, tuned.FourPanels
	_, panels := typedKernel(t, rows)
	beyond := tuned.PrefetchTyped
	if scaled {
		beyond = tuned.PrefetchScaled
	}
	ahead := min(beyond+max(1, panels-1)*panelBytes, tuning.MostAhead)
	a.prefetchOne, a.prefetchFew = ahead, ahead
}

// prefetchQueue is what score prefetches, in order. It goes from the cursor to the end without
// looking for anything else, so the zero value is none: clear or fill it before the kernels of a
// block; cleared, it stays so.
type prefetchQueue struct {
	left   int // rows of single panels until the next prefetch
	every  int // rows of single panels from one prefetch to the next
	cursor int // bytes from here to the run at hand
	end    int // and to where runs end

	prefetchHint
	after int // rows of keys that follow those of the call and may be read

	runs [pairRuns + tokenRuns]prefetchRun
}

// prefetchRun is rows of memory at equal distances. Where tuned.QuarterSteps says so, and n is a
// multiple of 4, they are prefetched from four places in turn, a quarter of the rows from each:
// several pages side by side come faster.
type prefetchRun struct {
	at    uintptr // of the next row; not a pointer, for a stack may move
	step  int     // from a row to the one that is prefetched next, in bytes
	lines int     // cache lines of a row, at least 1
	n     int     // rows left
	// back is added to step after every fourth row, when n is a multiple of 4 again; 0 if in order.
	// NEON does without.
	back int
}

const (
	pairRuns  = 16             // the bias or mask of a tile: one for each head of a group
	tokenRuns = 2 + 2*pairRuns // keys and values of the next block, outputs, queries of the next chunk
)

// A full tile has four panels, so this is two prefetches for each row of queries,
// and a bit more than one for each row of a bias.
const (
	tokenEvery = 2
	pairEvery  = 3
)

const (
	cacheLine = 64
	pageBytes = 4096 // what one translation of an address is for

	// packedRows is from how many rows of a chunk on keys that are packed once count as packed for
	// kernels: fewer wait for memory, for which 8 lanes do more.
	packedRows = 8

	// prefetchWindow is how far kernels prefetch page by page, as the generator has it.
	prefetchWindow = 8 * pageBytes
)

// prefetchRunOf returns n rows of d elements, stride elements apart, from x[at] on.
func prefetchRunOf[T any](x []T, at, stride, n, d int) prefetchRun {
	if n <= 0 {
		return prefetchRun{}
	}
	size := int(unsafe.Sizeof(x[0]))
	first, step, back := uintptr(unsafe.Pointer(&x[at])), stride*size, 0
	if tuned.QuarterSteps && n%4 == 0 {
		back = step - n*step
		step *= n / 4
	}
	return prefetchRun{first, step, (int(first%cacheLine) + d*size + cacheLine - 1) / cacheLine, n,
		back}
}

// clear leaves room for the rows of a bias or mask and nothing else.
func (a *prefetchQueue) clear() { a.left, a.end = math.MaxInt, firstRun+pairRuns*sizeOfRun }

// start begins with run first.
func (a *prefetchQueue) start(first, every int) {
	a.left, a.every, a.cursor = every, every, firstRun+first*sizeOfRun
}

// Where runs are in a queue, in bytes from its begin.
const (
	firstRun  = int(unsafe.Offsetof(prefetchQueue{}.runs))
	sizeOfRun = int(unsafe.Sizeof(prefetchRun{}))
)

// advance says that n elements have been read.
func (a *prefetchQueue) advance(n int) {
	if a != nil && a.pointer != 0 {
		a.pointer += uintptr(4 * n)
	}
}
