package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Loops over contiguous elements: whole vectors, then one masked vector for the rest, so that no
// byte after the slice is read or written.

var loops int

// eachVector emits body for n elements. mask is nil for whole vectors; body must use it for its
// loads and stores, and advance must move its pointers.
func eachVector(n reg.GPVirtual, body func(mask reg.VecVirtual), advance func()) {
	loops++
	label := func(name string) string { return fmt.Sprintf("%s%d", name, loops) }
	loop, tail, end := label("loop"), label("tail"), label("end")
	SUBQ(imm(lanes), n)
	JL(LabelRef(tail))
	Label(loop)
	body(nil)
	advance()
	SUBQ(imm(lanes), n)
	JGE(LabelRef(loop))
	Label(tail)
	ADDQ(imm(lanes), n)
	JE(LabelRef(end))
	body(tailMask(n))
	Label(end)
}

// eachLine is eachVector with two vectors, a cache line, at a time where there are as many: body
// handles the vector at a displacement of all pointers, and beside is emitted once for each line.
func eachLine(n reg.GPVirtual, pointers []reg.GPVirtual, beside func(),
	body func(at int, mask reg.VecVirtual)) {
	loops++
	loop, rest := fmt.Sprintf("lines%d", loops), fmt.Sprintf("rest%d", loops)
	SUBQ(imm(2*lanes), n)
	JL(LabelRef(rest))
	Label(loop)
	beside()
	body(0, nil)
	body(vector, nil)
	for _, p := range pointers {
		ADDQ(imm(2*vector), p)
	}
	SUBQ(imm(2*lanes), n)
	JGE(LabelRef(loop))
	Label(rest)
	ADDQ(imm(2*lanes), n)
	eachVector(n, func(mask reg.VecVirtual) { body(0, mask) }, advanceVector(pointers...))
}

// prefetchAhead prefetches lines at some distance after the bytes that are read and written.
func prefetchAhead(dst reg.GPVirtual, inputs ...reg.GPVirtual) func() {
	read, written := param("xAhead"), param("dstAhead")
	return func() {
		for _, x := range inputs {
			PREFETCHT0(Mem{Base: x, Index: read, Scale: 1})
		}
		PREFETCHT0(Mem{Base: dst, Index: written, Scale: 1})
	}
}

// tailMask has ones in the first n of 8 lanes.
func tailMask(n reg.GPVirtual) reg.VecVirtual {
	at, mask := GP64(), YMM()
	table := tailMasks()
	LEAQ(table.Offset(vector), at)
	shift := GP64()
	MOVQ(n, shift)
	SHLQ(Imm(2), shift)
	SUBQ(shift, at)
	VMOVUPS(Mem{Base: at}, mask)
	return mask
}

// newVectors returns n new registers.
func newVectors(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = YMM()
	}
	return v
}

// loadLanes loads the lanes of the mask, and 0 into the others.
func loadLanes(m Mem, mask reg.VecVirtual, v reg.VecVirtual) {
	if mask == nil {
		VMOVUPS(m, v)
		return
	}
	VMASKMOVPS(m, mask, v)
}

// storeLanes stores the lanes of the mask.
func storeLanes(v, mask reg.VecVirtual, m Mem) {
	if mask == nil {
		VMOVUPS(v, m)
		return
	}
	VMASKMOVPS(v, mask, m)
}

// mapKernel is dst = f(x) element by element.
func mapKernel(name, signature, dst, x string, f func(v reg.VecVirtual) reg.VecVirtual) {
	TEXT(name, noSplit, signature)
	d, s, n := param(dst), param(x), param("n")
	eachVector(n, func(mask reg.VecVirtual) {
		v := YMM()
		loadLanes(Mem{Base: s}, mask, v)
		storeLanes(f(v), mask, Mem{Base: d})
	}, func() {
		ADDQ(imm(vector), s)
		if d != s {
			ADDQ(imm(vector), d)
		}
	})
	finish()
}
