package main

import (
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Some processors read memory in order at little more than half the rate at which they read
// several pages side by side (see scattered in package attn). There, kernels
// of few rows ask for what follows, a window of 8 pages, in an order of their own: a
// line of each page in turn. For every line that is read there is one request, for
// a line of the next window, so that all of a window is asked for exactly once
// in whatever order the one before it is read, if that is all read.
//
// The stream is where reading is. It may be elsewhere than what is read: then what
// is asked for lies a window behind it, and nothing else changes.

const (
	scatterPages  = 8
	pageBytes     = 4096
	scatterWindow = scatterPages * pageBytes
)

// scatterFrom leaves in at the first request if what is read next is at from: where so
// many lines would have been asked for as lie in front of it in its window.
func scatterFrom(from Op, at reg.Register, tmp Mem) {
	MOVQ(from, at)
	ANDQ(imm(scatterWindow-1), at)
	MOVQ(at, tmp)
	SHRQ(Imm(uint64(bits.Len(scatterPages-1))), at)
	SUBQ(tmp, at)
	ADDQ(from, at)
	ADDQ(imm(scatterWindow), at)
}

// follow sets request to the first one of a stream, or to 0 if there is none.
func follow(stream, at reg.Register, request Mem) {
	none := unique("noStream")
	MOVQ(stream, request)
	TESTQ(stream, stream)
	JE(LabelRef(none))
	scatterFrom(stream, at, request)
	MOVQ(at, request)
	Label(none)
}

// scatter asks for n lines, the i-th of them being number from+i of a round that
// begins at a line of the first page.
func scatter(at reg.Register, from, n int) {
	for i := from; i < from+n; i++ {
		PREFETCHT0(Mem{Base: at, Disp: i%scatterPages*pageBytes + i/scatterPages*lineBytes})
	}
}

// nextScatter moves on by n requests, which must begin and end a round or half of one.
func nextScatter(at reg.Register, n int) {
	const half = scatterPages / 2
	switch {
	case n%scatterPages == 0:
		ADDQ(imm(n/scatterPages*lineBytes), at)
	case n == half:
		// Half a line more each time is a line more after two times.
		XORQ(imm(half*pageBytes), at)
		ADDQ(imm(lineBytes/2), at)
	default:
		panic("scatter: requests for no half of a round")
	}
	same := unique("sameWindow")
	TESTQ(U32(pageBytes), at)
	JE(LabelRef(same))
	ADDQ(imm(scatterWindow-pageBytes), at) // behind the first page's last line
	Label(same)
}
