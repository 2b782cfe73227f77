package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Some processors read memory fast only in order, whatever is prefetched (SequentialReads in
// internal/tuning). While they do, the L1 cache hardly keeps what was read 8 KiB before. There
// scoreRows and, for more than one query, accumulate handle 8 rows at a time, which are 4 KiB at
// 128 dimensions. Meanwhile they touch the next 8 rows: they read a word of each of their cache
// lines, in order. (A row that begins within a line may end in a line that is not touched. It is
// the first of the next row, if the rows follow each other.)
//
// The rows of one head among several side by side are not in order. If there is a prefetch pointer,
// the tokens of all heads are, and each head prefetches a share of them into the L2 cache, a step
// of keys before it is read. Then nothing is touched. Prefetched into the L1 cache instead, or
// touched, the tokens would arrive at two thirds of the rate.

const (
	touchRows  = lanes                         // rows at a time
	touchLines = touchRows * 4 * 4 / lineBytes // lines that 4 dimensions of these rows have
	touchBytes = 4096                          // of values at a time: 8 rows, or 16 of half the length
)

// touchSlots are stack slots.
type touchSlots struct {
	line   Mem // the next line to touch, or 0
	rowEnd Mem // the end of its row; of keys, if line is 0, the next line along the pointer, or 0
	gap    Mem // from there to the next row

	// Only of keys.
	wanted Mem // are the rows to be read in order?
	after  Mem // rows that follow the n of the call and may be touched

	// Only of values.
	width Mem // bytes of a row
}

// beginTouching touches the first 8 keys of a call.
func (r *rowsProgram) beginTouching() {
	t, next, tmp := &r.touched, GP64(), GP64()
	MOVQ(I32(0), t.wanted)
	Load(Param("next"), next)
	TESTQ(next, next)
	JE(LabelRef("notTouched"))
	MOVBQZX(hint(next, "PrefetchQueue", "InOrder"), tmp)
	MOVQ(tmp, t.wanted)
	TESTQ(tmp, tmp)
	JE(LabelRef("notTouched"))
	MOVQ(fieldOf(next, "PrefetchQueue.After"), tmp)
	MOVQ(tmp, t.after)
	MOVQ(r.stride, tmp)
	SUBQ(r.width, tmp)
	MOVQ(tmp, t.gap)
	CMPQ(r.pointer, Imm(0))
	JNE(LabelRef("notTouched"))
	CMPQ(r.n, imm(touchRows))
	JL(LabelRef("notTouched"))
	r.touch("touchFirst", r.k)
	Label("notTouched")
}

// touch touches 8 keys at once.
func (r *rowsProgram) touch(label string, keys reg.Register) {
	touch(label, keys, U32(touchRows), r.stride, func(row, end reg.Register) {
		MOVQ(row, end)
		ADDQ(r.width, end)
	})
}

// touch touches n rows, stride bytes apart; ends leaves in end where a row ends.
func touch(
	label string, first reg.Register, n Op, stride reg.Register, ends func(row, end reg.Register),
) {
	row, line, end, left := GP64(), GP64(), GP64(), GP64()
	MOVQ(first, row)
	MOVQ(n, left)
	Label(label)
	MOVQ(row, line)
	ends(row, end)
	Label(label + "Line")
	TESTL(left.As32(), Mem{Base: line})
	ADDQ(imm(lineBytes), line)
	CMPQ(line, end)
	JB(LabelRef(label + "Line"))
	ADDQ(stride, row)
	DECQ(left)
	JNE(LabelRef(label))
}

// touchKeys prepares to touch the 8 keys after the current ones, if there are as many, or to
// prefetch along the pointer. It returns the code of each round of 4 dimensions. Rows that do not
// end with a round's lines are touched at once.
func (r *rowsProgram) touchKeys(label string) func() {
	t, at, tmp := &r.touched, GP64(), GP64()
	r.outOfLine = func() { r.prefetchAlong(label) }
	ready, apart, skip, along := label+"Ready", label+"Apart", label+"Untouched", label+"Along"
	MOVQ(I32(0), t.line)
	MOVQ(I32(0), t.rowEnd)
	CMPQ(t.wanted, Imm(0))
	JE(LabelRef(ready))
	CMPQ(r.pointer, Imm(0))
	JNE(LabelRef(along))
	MOVQ(r.n, at)
	ADDQ(t.after, at)
	CMPQ(at, imm(2*touchRows))
	JL(LabelRef(ready))
	MOVQ(r.stride, at)
	SHLQ(Imm(3), at)
	ADDQ(r.k, at)
	MOVQ(r.width, tmp)
	SHLQ(Imm(3), tmp)
	CMPQ(t.gap, Imm(0))
	JNE(LabelRef(apart))
	Comment("One run of memory.")
	MOVQ(at, t.line)
	ADDQ(at, tmp)
	MOVQ(tmp, t.rowEnd)
	JMP(LabelRef(ready))
	Label(apart)
	MOVQ(r.width, tmp)
	TESTQ(U32(touchLines*lineBytes-1), tmp)
	JNE(LabelRef(label + "AtOnce"))
	MOVQ(at, t.line)
	ADDQ(at, tmp)
	MOVQ(tmp, t.rowEnd)
	JMP(LabelRef(ready))
	Label(label + "AtOnce")
	r.touch(label+"Touch", at)
	JMP(LabelRef(ready))
	Label(along)
	MOVQ(r.pointer, at)
	ADDQ(imm(prefetchWindow), at)
	MOVQ(at, t.rowEnd)
	Label(ready)
	return func() {
		at := GP64()
		MOVQ(t.line, at)
		TESTQ(at, at)
		JE(LabelRef(label + "NotTouched"))
		for i := range touchLines {
			TESTL(at.As32(), Mem{Base: at, Disp: i * lineBytes})
		}
		ADDQ(imm(touchLines*lineBytes), at)
		CMPQ(at, t.rowEnd)
		JB(LabelRef(label + "SameTouched"))
		ADDQ(t.gap, at)
		MOVQ(at, t.line)
		ADDQ(r.width, at)
		MOVQ(at, t.rowEnd)
		JMP(LabelRef(skip))
		Label(label + "SameTouched")
		MOVQ(at, t.line)
		Label(skip)
	}
}

// prefetchAlong prefetches as many lines as touchKeys would touch, if there is a pointer. It stands
// outside of the loop, to which it returns: one more branch in the loop costs time.
func (r *rowsProgram) prefetchAlong(label string) {
	at, skip := GP64(), label+"Untouched"
	Label(label + "NotTouched")
	MOVQ(r.touched.rowEnd, at)
	TESTQ(at, at)
	JE(LabelRef(skip))
	prefetchLines(at, touchLines)
	MOVQ(at, r.touched.rowEnd)
	JMP(LabelRef(skip))
}

// touchAll touches n rows of d elements, stride bytes apart, if the kernel's argument inOrder
// says so: packing itself goes through 8 rows of keys at a time, and through columns of values.
func touchAll(x, stride, n, d reg.Register) {
	wanted := GP8()
	Load(Param("inOrder"), wanted)
	TESTB(wanted, wanted)
	JE(LabelRef("notTouched"))
	touch("touchRow", x, n, stride, func(row, end reg.Register) {
		LEAQ(Mem{Base: row, Index: d, Scale: 4}, end)
	})
	Label("notTouched")
}

// prefetchLines prefetches n lines in order into the L2 cache, and moves on.
func prefetchLines(at reg.Register, n int) {
	for i := range n {
		PREFETCHT1(Mem{Base: at, Disp: i * lineBytes})
	}
	ADDQ(imm(n*lineBytes), at)
}
