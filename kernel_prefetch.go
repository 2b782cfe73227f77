package attn

import (
	"math"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/tuning"
)

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
	prefetchFew int  // and three to five rows
	fourPanels  bool // one row takes four packed panels side by side, else one after another
	// rows of the caller, or packed panels, are read in order, or prefetched so if there is a pointer
	inOrder bool
}

// set is what the CPU wants of kernels that read float32, or elements of fewer bits if typed, with
// no pointer. (Word by word: a copy of what has just been written waits for the stores, which small
// calls feel.)
func (a *prefetchHint) set(t *tuning.Row, typed, inOrder bool) {
	a.pointer, a.inOrder, a.fourPanels = 0, inOrder, t.FourPanels
	if typed {
		a.prefetchOne, a.prefetchFew = t.PrefetchTyped, t.PrefetchTyped
	} else {
		a.prefetchOne, a.prefetchFew = t.PrefetchOne, t.PrefetchFew
	}
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
