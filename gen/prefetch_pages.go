package main

import (
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Some processors read memory in order at little more than half the rate at which they read several
// pages side by side (PagedReads in internal/tuning). For these, kernels of few rows prefetch a
// window of 8 pages, a line of each page in turn. With every line that is read goes one prefetch of
// a line of the next window. So when a window has been read, in whatever order, all of the next one
// has been prefetched once.
//
// Others read several pages side by side no faster than one after the other, and hold fewer lines
// at once of pages that take turns. For these the hint says oneStream: with every line that is read
// goes a prefetch of the line a window after it.
//
// The prefetch pointer says where reading is. It may point elsewhere than to what is read: what is
// prefetched lies a window after the pointer.

const (
	windowPages    = 8
	pageBytes      = 4096
	prefetchWindow = windowPages * pageBytes
)

// firstRequest leaves in at the first address to prefetch if what is read next is at from: as many
// lines count as prefetched as lie before from in its window.
func firstRequest(from Op, at reg.Register, tmp Mem) {
	MOVQ(from, at)
	ANDQ(imm(prefetchWindow-1), at)
	MOVQ(at, tmp)
	SHRQ(Imm(uint64(bits.Len(windowPages-1))), at)
	SUBQ(tmp, at)
	ADDQ(from, at)
	ADDQ(imm(prefetchWindow), at)
}

// startStream is startPages where what is prefetched is one stream.
func startStream(pointer reg.Register, request Mem) {
	none := unique("noPointer")
	MOVQ(I32(0), request)
	TESTQ(pointer, pointer)
	JE(LabelRef(none))
	ADDQ(imm(prefetchWindow), pointer)
	MOVQ(pointer, request)
	Label(none)
}

// startPages sets request to the first address to prefetch, or to 0 if there is no prefetch
// pointer. It changes at.
func startPages(pointer, at reg.Register, request Mem) {
	none := unique("noPointer")
	MOVQ(pointer, request)
	TESTQ(pointer, pointer)
	JE(LabelRef(none))
	firstRequest(pointer, at, request)
	MOVQ(at, request)
	Label(none)
}

// prefetchPages prefetches n lines, the i-th of which is number from+i of a round that begins at a
// line of the first page.
func prefetchPages(at reg.Register, from, n int) {
	for i := from; i < from+n; i++ {
		PREFETCHT0(Mem{Base: at, Disp: i%windowPages*pageBytes + i/windowPages*lineBytes})
	}
}

// nextRequests moves on by n lines: whole rounds, or half of one.
func nextRequests(at reg.Register, n int) {
	const half = windowPages / 2
	switch {
	case n%windowPages == 0:
		ADDQ(imm(n/windowPages*lineBytes), at)
	case n == half:
		// Half a line more each time is a line more after both halves.
		XORQ(imm(half*pageBytes), at)
		ADDQ(imm(lineBytes/2), at)
	default:
		panic("nextRequests: not a half of a round")
	}
	same := unique("sameWindow")
	TESTQ(U32(pageBytes), at)
	JE(LabelRef(same))
	ADDQ(imm(prefetchWindow-pageBytes), at) // after the first page's last line
	Label(same)
}
