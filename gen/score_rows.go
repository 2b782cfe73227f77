package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// scoreRowsKernel multiplies queries by keys that are not packed. It transposes 8 keys × 4
// dimensions in registers and uses each column for all queries of the tile. Two groups of 8 keys go
// side by side where there are as many, because a single chain for each query would wait for
// itself.
func scoreRowsKernel() {
	TEXT("scoreRowsSIMD", noSplit, "func(s, q, k *float32, rows, d, stride, n int, next *uintptr)")
	var r rowsProgram
	stackSlots(&r.s, &r.q, &r.rows, &r.dims, &r.n, &r.line, &r.rowEnd, &r.sRow, &r.width, &r.pointer,
		&r.stream,
		&r.touched.after, &r.touched.line, &r.touched.rowEnd, &r.touched.gap, &r.touched.wanted)
	r.k, r.stride = param("k"), param("stride")
	SHLQ(Imm(2), r.stride)
	tmp := GP64()
	pointerOf(tmp)
	MOVQ(tmp, r.pointer)
	MOVQ(I32(0), r.stream)
	ofQueue(tmp, func() {
		MOVBQZX(hint(tmp, "PrefetchQueue", "OneStream"), tmp)
		MOVQ(tmp, r.stream)
	})
	Load(Param("s"), tmp)
	MOVQ(tmp, r.s)
	Load(Param("d"), tmp)
	MOVQ(tmp, r.dims)
	SHLQ(Imm(2), tmp)
	MOVQ(tmp, r.width)
	Load(Param("n"), tmp)
	MOVQ(tmp, r.n)
	r.beginTouching()
	CMPQ(r.touched.wanted, Imm(0))
	JNE(LabelRef("keys8"))
	r.keyLoop(16)
	r.keyLoop(8)
	r.keyLoop(1)
	finish()
}

// rowsProgram emits the kernel.
type rowsProgram struct {
	k, stride reg.GPVirtual // keys that are left, and bytes between them

	// Stack slots.
	n            Mem // the number of keys that are left
	s            Mem // scores of these keys, first query
	dims, width  Mem // d, and d in bytes
	q, rows      Mem // queries that are left for these keys
	sRow         Mem // scores of the queries of this pass
	line, rowEnd Mem // the next line to prefetch and the end of its row; 0 if pages alternate
	pointer      Mem // the prefetch pointer at these keys, 0 if there is none
	stream       Mem // does it lead along one stream?
	touched      touchSlots

	keys, queries int    // at a time
	outOfLine     func() // emits the code after the loop over queries, if not nil
}

// keyLoop handles the given number of keys at a time, for all queries.
func (r *rowsProgram) keyLoop(keys int) {
	r.keys = keys
	begin, end := fmt.Sprintf("keys%d", keys), fmt.Sprintf("keys%dEnd", keys)
	Label(begin)
	CMPQ(r.n, imm(keys))
	JL(LabelRef(end))
	tmp := GP64()
	Load(Param("q"), tmp)
	MOVQ(tmp, r.q)
	Load(Param("rows"), tmp)
	MOVQ(tmp, r.rows)
	MOVQ(r.s, tmp)
	MOVQ(tmp, r.sRow)
	for _, queries := range []int{4, 3, 2, 1} {
		r.queries = queries
		r.queryLoop()
	}
	ADDQ(imm(4*keys), r.s)
	MOVQ(r.stride, tmp)
	IMUL3Q(U32(keys), tmp, tmp)
	ADDQ(tmp, r.k)
	if keys > 1 {
		r.nextKeysOfPointer(begin)
	}
	SUBQ(imm(keys), r.n)
	JMP(LabelRef(begin))
	Label(end)
}

// queryLoop handles r.queries queries at a time, for the keys of this pass.
func (r *rowsProgram) queryLoop() {
	begin := fmt.Sprintf("keys%dqueries%d", r.keys, r.queries)
	end := begin + "End"
	Label(begin)
	CMPQ(r.rows, imm(r.queries))
	JL(LabelRef(end))
	r.outOfLine = nil
	r.dot(begin)
	ADDQ(imm(r.queries*blockBytes), r.sRow)
	tmp := GP64()
	MOVQ(r.dims, tmp)
	IMUL3Q(U32(4*r.queries), tmp, tmp)
	ADDQ(tmp, r.q)
	SUBQ(imm(r.queries), r.rows)
	JMP(LabelRef(begin))
	if r.outOfLine != nil {
		r.outOfLine()
	}
	Label(end)
}

// dot leaves in s the products of r.queries queries with r.keys keys.
func (r *rowsProgram) dot(label string) {
	groups := max(1, r.keys/lanes)
	acc := make([]reg.VecVirtual, groups*r.queries)
	for i := range acc {
		acc[i] = YMM()
		VXORPS(acc[i], acc[i], acc[i])
	}
	beside := func() {}
	switch r.keys {
	case 16:
		beside = r.prefetchKeys(label)
	case 8:
		beside = r.touchKeys(label)
	}
	key, advanceKeys := r.keyPointers()
	query, advanceQueries := r.queryPointers()
	left := GP64()
	MOVQ(r.dims, left)
	if r.keys > 1 {
		SUBQ(Imm(4), left)
		JL(LabelRef(label + "Dims"))
		Label(label + "Four")
		beside()
		for g := range groups {
			columns := transpose4(func(i int) Mem { return key(8*g + i) })
			for x, column := range columns {
				r.fma(acc[g*r.queries:], column, movedBy(query, 4*x))
			}
		}
		advanceKeys(16)
		advanceQueries(16)
		SUBQ(Imm(4), left)
		JGE(LabelRef(label + "Four"))
		Label(label + "Dims")
		ADDQ(Imm(4), left)
		JE(LabelRef(label + "Store"))
	}
	Comment("One dimension at a time.")
	Label(label + "One")
	for g := range groups {
		column := YMM()
		if r.keys == 1 {
			VBROADCASTSS(key(0), column)
		} else {
			gather(column, func(i int) Mem { return key(8*g + i) })
		}
		r.fma(acc[g*r.queries:], column, query)
	}
	advanceKeys(4)
	advanceQueries(4)
	DECQ(left)
	JNE(LabelRef(label + "One"))
	Label(label + "Store")
	out := GP64()
	MOVQ(r.sRow, out)
	for i := range r.queries {
		for g := range groups {
			out := Mem{Base: out, Disp: i*blockBytes + g*vector}
			if r.keys == 1 {
				VMOVSS(acc[i].AsX(), out)
			} else {
				VMOVUPS(acc[g*r.queries+i], out)
			}
		}
	}
}

// prefetchKeys returns the code of each round of 4 dimensions: it prefetches 4 cache lines of the
// keys keyDistance rows on, row by row. Few queries wait for memory more than they compute, and the
// processor itself does not foresee 16 rows at a time. No register is left, so the address stays on
// the stack.
func (r *rowsProgram) prefetchKeys(label string) func() {
	const lines = 4
	at := GP64()
	MOVQ(r.stride, at)
	IMUL3Q(U32(keyDistance), at, at)
	ADDQ(r.k, at)
	MOVQ(at, r.line)
	ADDQ(r.width, at)
	MOVQ(at, r.rowEnd)
	r.startPages(label)
	return func() {
		at, same, inOrder := GP64(), label+"SameRow", label+"Sequential"
		MOVQ(r.line, at)
		CMPQ(r.rowEnd, Imm(0))
		JNE(LabelRef(inOrder))
		prefetchPages(at, 0, lines)
		nextRequests(at, lines)
		MOVQ(at, r.line)
		JMP(LabelRef(same))
		Label(inOrder)
		for i := range lines {
			PREFETCHT0(Mem{Base: at, Disp: 64 * i})
		}
		ADDQ(imm(lines*64), r.line)
		MOVQ(r.rowEnd, at)
		CMPQ(r.line, at)
		JL(LabelRef(same))
		Comment("The next row begins a stride after this one.")
		ADDQ(r.stride, at)
		MOVQ(at, r.rowEnd)
		SUBQ(r.width, at)
		MOVQ(at, r.line)
		Label(same)
	}
}

// startPages begins to prefetch along the prefetch pointer, if there is one: page by page, or like
// a row that has no end.
func (r *rowsProgram) startPages(label string) {
	none, pages := label+"NoPointer", label+"Pages"
	CMPQ(r.pointer, Imm(0))
	JE(LabelRef(none))
	at := GP64()
	CMPQ(r.stream, Imm(0))
	JE(LabelRef(pages))
	MOVQ(r.pointer, at)
	ADDQ(imm(prefetchWindow), at)
	MOVQ(at, r.line)
	MOVQ(U64(math.MaxInt), at)
	MOVQ(at, r.rowEnd)
	JMP(LabelRef(none))
	Label(pages)
	firstRequest(r.pointer, at, r.line)
	MOVQ(at, r.line)
	MOVQ(I32(0), r.rowEnd)
	Label(none)
}

// nextKeysOfPointer moves the prefetch pointer on by the keys of this pass.
func (r *rowsProgram) nextKeysOfPointer(label string) {
	none := label + "NoPointer"
	CMPQ(r.pointer, Imm(0))
	JE(LabelRef(none))
	bytes := GP64()
	IMUL3Q(U32(r.keys), r.width, bytes)
	ADDQ(bytes, r.pointer)
	Label(none)
}

const keyDistance = 24

// fma is acc_i = FMA(q_i, column, acc_i).
func (r *rowsProgram) fma(acc []reg.VecVirtual, column reg.VecVirtual, query func(i int) Mem) {
	for i := range r.queries {
		q := YMM()
		VBROADCASTSS(query(i), q)
		VFMADD231PS(column, q, acc[i])
	}
}

// keyPointers points at enough of the keys to address each of them by scale.
func (r *rowsProgram) keyPointers() (key func(i int) Mem, advance func(bytes int)) {
	bases := map[int][]int{16: {0, 3, 5, 10, 11}, 8: {0, 3, 6}, 1: {0}}[r.keys]
	pointer := make([]reg.GPVirtual, len(bases))
	for b, base := range bases {
		pointer[b] = GP64()
		if b == 0 {
			MOVQ(r.k, pointer[b])
			continue
		}
		IMUL3Q(U32(base), r.stride, pointer[b])
		ADDQ(r.k, pointer[b])
	}
	key = func(i int) Mem {
		for b, base := range bases {
			switch step := i - base; step {
			case 0:
				return Mem{Base: pointer[b]}
			case 1, 2, 4, 8:
				return Mem{Base: pointer[b], Index: r.stride, Scale: uint8(step)}
			}
		}
		panic(fmt.Sprintf("no pointer near key %d", i))
	}
	advance = func(bytes int) {
		for _, p := range pointer {
			ADDQ(imm(bytes), p)
		}
	}
	return key, advance
}

// queryPointers does the same for the queries, d elements apart.
func (r *rowsProgram) queryPointers() (query func(i int) Mem, advance func(bytes int)) {
	q := GP64()
	MOVQ(r.q, q)
	if r.queries == 1 {
		return func(i int) Mem { return Mem{Base: q} }, func(bytes int) { ADDQ(imm(bytes), q) }
	}
	stride := GP64()
	MOVQ(r.dims, stride)
	SHLQ(Imm(2), stride)
	q2 := q
	if r.queries > 2 {
		q2 = GP64()
		LEAQ(Mem{Base: q, Index: stride, Scale: 2}, q2)
	}
	query = func(i int) Mem {
		m := Mem{Base: []reg.GPVirtual{q, q2}[i/2]}
		if i%2 == 1 {
			m.Index, m.Scale = stride, 1
		}
		return m
	}
	return query, func(bytes int) {
		ADDQ(imm(bytes), q)
		if r.queries > 2 {
			ADDQ(imm(bytes), q2)
		}
	}
}
