package main

import (
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Some processors read memory in order at little more than half the rate at which they read several
// pages side by side (PagedReads in internal/tuning). For these, kernels of few rows prefetch a
// window of 8 pages, a line of each page in turn. Each line that is read is accompanied by one
// prefetch of a line of the next window. So when a window has been read, in whatever order, all of
// the next one has been prefetched once.
//
// Others read several pages side by side no faster than one after the other, and hold fewer lines
// at once of alternating pages. For these the hint says oneStream: each line that is read is
// accompanied by a prefetch of the line a window after it.
//
// The prefetched line lies a window after the prefetch pointer. The pointer usually points to the
// line that is read, but need not.

const (
	windowPages    = 8
	pageBytes      = 4096
	prefetchWindow = windowPages * pageBytes
)

// firstRequest sets at to the first address to prefetch if the next line to read is at from: as
// many lines of the next window count as prefetched as lie before from in its own.
func firstRequest(from Op, at reg.Register, tmp Mem) {
	MOVQ(from, at)
	ANDQ(imm(prefetchWindow-1), at)
	MOVQ(at, tmp)
	SHRQ(Imm(uint64(bits.Len(windowPages-1))), at)
	SUBQ(tmp, at)
	ADDQ(from, at)
	ADDQ(imm(prefetchWindow), at)
}

// startStream is startPages for prefetching in one stream.
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
