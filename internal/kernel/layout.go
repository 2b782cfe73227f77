package kernel

import (
	"math"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/sanitize"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// The sizes and layouts of the operands of kernels.

const (
	// Block is the number of keys of one online-softmax step. Blocks start at
	// absolute key indices that are multiples of Block.
	Block = 64

	// Segment is the number of keys that are summed from an empty state before
	// they are merged with the keys to their left. Work is split between
	// workers, and states are split, at multiples of Segment.
	Segment = 1024

	// SoftmaxRows is the number of rows of one assembly call of softmax. The AVX2
	// kernel (gen/softmax.go) keeps the lanes of that many sums on its stack.
	SoftmaxRows = 96

	// InPlaceRows is the number of rows up to which floats.ScoreRows transposes keys in registers
	// faster than they are packed.
	InPlaceRows = 4

	// Panel is the number of keys, or value columns, side by side in packed order.
	Panel = 16

	// MaximaLanes is the number of lanes of a row's maxima: one for every MaximaLanes-th key.
	MaximaLanes = 8
)

// PanelLayout says where the values of a block are: column c of key j is at
// v[c/panel*PanelStride + j*stride + c%panel]. Both packed values and a
// caller's rows have this form.
type PanelLayout struct {
	Keys, Cols          int // cols is a multiple of 8 in assembly
	Stride, PanelStride int
	PrefetchHint
	Overwrite bool    // outputs begin at 0, whatever is there (β = 0)
	After     uintptr // the panel that is read after these, 0 if panels are not prefetched one ahead
}

// NegZero as a weight marks a key that the row does not see. It counts as zero in
// every sum, and floats.AccumulateMasked does not look at the key's value.
const NegZero = 1 << 31

var NegInf = float32(math.Inf(-1))

// The choice among variants, which return the same bits.

// TypedKernel returns, for some rows over elements of fewer bits, whether their kernel has 16 lanes
// and how many panels it reads side by side, as in gen/typed.go. One row of I8 and codes always
// have 16 lanes where the CPU has them, because they are widened another way.
func TypedKernel(cpu *tuning.Row, t Format, rows int) (lanes16 bool, panels int) {
	least := cpu.MinTypedRows16
	if t == F16 || t == BF16 {
		least = cpu.MinHalfRows16
	}
	lanes16 = cpu.ISA.Lanes16() && (t == I4 || t == I8 && rows == 1 || rows >= least)
	switch {
	case lanes16 && rows <= 4 || rows == 1 && (t == I8 || cpu.FourPanels):
		return lanes16, 4
	case lanes16 || rows <= 3:
		return lanes16, 2
	}
	return lanes16, 1
}

// While it computes, Score prefetches memory that will be needed soon; packing and adding a bias
// would wait for it otherwise. It prefetches a row now and then, because processors drop prefetches
// when too many are under way.

// PrefetchHint is how kernels of few rows, which wait for memory, go through it. The zero value
// prefetches nothing. No result depends on it, so the generic code does not look at it.
type PrefetchHint struct {
	// Pointer is the address being read, a window before the address that is prefetched page by page
	// (gen/prefetch_pages.go), or in order; 0 prefetches nothing.
	Pointer     uintptr
	PrefetchOne int  // how many bytes ahead one or two rows prefetch packed panels,
	PrefetchFew int  // and three to five rows, or any over elements of fewer bits
	FourPanels  bool // one row reads four packed panels side by side, else one after another
	// rows of the caller, or packed panels, are read in order, or prefetched so if there is a pointer
	InOrder bool
	// the window after the pointer is prefetched line by line, not a line of each page in turn
	OneStream bool
	Packed    bool // the call has packed keys, for enough rows that they do not wait for memory
}

// Set sets the hint for this CPU's kernels that prefetch packed panels that many bytes ahead,
// without a pointer. (Word by word: a copy of a struct that has just been written waits for the
// stores, which slows small calls.)
func (a *PrefetchHint) Set(cpu *tuning.Row, one, few int, inOrder bool) {
	a.Pointer, a.InOrder, a.FourPanels = 0, inOrder, cpu.FourPanels
	a.OneStream, a.Packed = false, false
	a.PrefetchOne, a.PrefetchFew = one, few
}

// SetTyped is Set for some rows over elements of fewer bits, with panels of keys or of a matrix of
// panelBytes. Lines are prefetched in the order of memory, but panels are read side by side, so the
// distance includes the panels before the last of these. Values are prefetched as far ahead as
// keys, which may be scaled: where the distance changes, some lines are prefetched twice, or never.
func (a *PrefetchHint) SetTyped(cpu *tuning.Row, t Format, rows, panelBytes int, scaled bool) {
	a.Pointer, a.InOrder, a.FourPanels = 0, false, cpu.FourPanels
	_, panels := TypedKernel(cpu, t, rows)
	beyond := cpu.PrefetchTyped
	if scaled {
		beyond = cpu.PrefetchScaled
	}
	ahead := min(beyond+max(1, panels-1)*panelBytes, tuning.MostAhead)
	a.PrefetchOne, a.PrefetchFew = ahead, ahead
}

// PrefetchQueue lists the memory that score prefetches, in order. Score reads it from the cursor to
// the end without other checks, so the zero value is not valid: Clear or fill it before the kernels
// of a block. A cleared queue stays clear.
type PrefetchQueue struct {
	left   int // rows of single panels until the next prefetch
	every  int // rows of single panels from one prefetch to the next
	cursor int // bytes from here to the current run
	End    int // and to where runs end

	PrefetchHint
	After int // rows of keys that follow the rows of the call and may be read

	Runs [PairRuns + tokenRuns]PrefetchRun
}

// PrefetchRun is rows of memory at equal distances. If tuned.QuarterSteps says so, and n is a
// multiple of 4, they are prefetched from four places in turn, a quarter of the rows from each,
// because several pages side by side are faster.
type PrefetchRun struct {
	At    uintptr // of the next row; not a pointer, for a stack may move
	Step  int     // from a row to the row that is prefetched next, in bytes
	Lines int     // cache lines of a row, at least 1
	N     int     // rows left
	// Back is added to step after every fourth row, when n is a multiple of 4 again; 0 if in order.
	// NEON does without.
	Back int
}

const (
	PairRuns  = 16             // the bias or mask of a tile: one for each head of a group
	tokenRuns = 2 + 2*PairRuns // keys and values of the next block, outputs, queries of the next chunk
)

// A full tile has four panels, so this is two prefetches for each row of queries,
// and a bit more than one for each row of a bias.
const (
	TokenEvery = 2
	PairEvery  = 3
)

const (
	CacheLine = 64
	PageBytes = 4096 // the memory that one address translation covers

	// PackedRows is from how many rows of a chunk on keys that are packed once count as packed for
	// kernels: fewer wait for memory, for which 8 lanes do more.
	PackedRows = 8

	// PrefetchWindow is the distance at which kernels prefetch page by page, as in the generator.
	PrefetchWindow = 8 * PageBytes
)

// PrefetchRunOf returns n rows of d elements, stride elements apart, from x[at] on.
func PrefetchRunOf[T any](cpu *tuning.Row, x []T, at, stride, n, d int) PrefetchRun {
	if n <= 0 {
		return PrefetchRun{}
	}
	size := int(unsafe.Sizeof(x[0]))
	first, step, back := uintptr(unsafe.Pointer(&x[at])), stride*size, 0
	if cpu.QuarterSteps && n%4 == 0 {
		back = step - n*step
		step *= n / 4
	}
	return PrefetchRun{first, step, (int(first%CacheLine) + d*size + CacheLine - 1) / CacheLine, n,
		back}
}

// Clear leaves room for the rows of a bias or mask and nothing else.
func (a *PrefetchQueue) Clear() { a.left, a.End = math.MaxInt, FirstRun+PairRuns*SizeOfRun }

// Start begins with run first.
func (a *PrefetchQueue) Start(first, every int) {
	a.left, a.every, a.cursor = every, every, FirstRun+first*SizeOfRun
}

// Where runs are in a queue, in bytes from its begin.
const (
	FirstRun  = int(unsafe.Offsetof(PrefetchQueue{}.Runs))
	SizeOfRun = int(unsafe.Sizeof(PrefetchRun{}))
)

// Advance notes that n elements have been read.
func (a *PrefetchQueue) Advance(n int) {
	if a != nil && a.Pointer != 0 {
		a.Pointer += uintptr(4 * n)
	}
}

// ScoreLayout returns the layout of n packed keys of d dimensions for narrow.Accumulate.
func ScoreLayout(t Format, d, n int) (l PanelLayout) {
	l.OfKeys(t, d, n)
	return l
}

// OfKeys turns a zero value into ScoreLayout in place, see PrefetchHint.Set.
func (l *PanelLayout) OfKeys(t Format, d, n int) {
	l.Keys, l.Cols, l.Stride, l.PanelStride, l.Overwrite = d, n, Panel, d*Panel, true
	switch t {
	case I8:
		l.Stride, l.PanelStride = 4*Panel, RoundUp(d, 4)*Panel
	case I4:
		l.Stride, l.PanelStride = 4*Panel, RoundUp(d, 8)/2*Panel
	case Pairs:
		l.Stride, l.PanelStride = 2*Panel, RoundUp(d, formats[Pairs].Group)*Panel
	}
}

// PlaceOf is where step k of column c is, see kernel_typed.go and kernel_int4.go.
func PlaceOf(t Format, b *PanelLayout, k, c int) int {
	switch t {
	case I8:
		return c/Panel*b.PanelStride + k/4*b.Stride + c%Panel*4 + k%4
	case I4: // two codes a byte
		return 2*(c/Panel*b.PanelStride+k/8*b.Stride+c%Panel*4+k%4) + k%8/4
	case Pairs:
		return c/Panel*b.PanelStride + k/2*b.Stride + c%Panel*2 + k%2
	}
	return c/Panel*b.PanelStride + k*b.Stride + c%Panel
}

// ReadsTyped: the values of a block, panel by panel.
func ReadsTyped(t Format, v []byte, b *PanelLayout) {
	steps := (b.Keys-1)*b.Stride + Panel
	switch t {
	case I8:
		steps = (b.Keys-1)/4*b.Stride + 4*Panel
	case I4:
		steps = (b.Keys-1)/8*b.Stride + 4*Panel
	case Pairs:
		steps = (RoundUp(b.Keys, formats[Pairs].Group)-2)/2*b.Stride + 2*Panel
	}
	last := (b.Cols - 1) / Panel
	size := formats[t].Bytes
	operand.Need(v, (last*b.PanelStride+steps)*size)
	if sanitize.Enabled {
		for c := range last + 1 {
			operand.Reads(v[c*b.PanelStride*size:], steps*size)
		}
	}
}

// RoundUp is the next multiple of to.
func RoundUp(n, to int) int { return (n + to - 1) / to * to }

// LowBits has bits 0 to n−1 set.
func LowBits(n int) uint64 { return 1<<n - 1 }

// Elements is memory as elements of another type.
func Elements[T any](x []byte) []T {
	var e T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(x))), len(x)/int(unsafe.Sizeof(e)))
}

// RawBytes is elements as memory.
func RawBytes[T any](x []T) []byte {
	var e T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(e)))
}

// Grow returns x, if it has n elements, or a slice that has. It never shrinks: callers may rely on
// an earlier length.
func Grow[T any](x []T, n int) []T {
	if len(x) < n {
		return make([]T, n)
	}
	return x
}
