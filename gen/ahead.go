package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const lineBytes = 64

// aheadQueue is score's requests for memory: the fields of ahead in package attn, which
// the kernel changes as it goes. Between tiles its registers are free.
type aheadQueue struct {
	queue, run reg.GPPhysical
}

func (q aheadQueue) left() Mem   { return Mem{Base: q.queue} }
func (q aheadQueue) every() Mem  { return Mem{Base: q.queue, Disp: 8} }
func (q aheadQueue) cursor() Mem { return Mem{Base: q.queue, Disp: 16} }
func (q aheadQueue) end() Mem    { return Mem{Base: q.queue, Disp: 24} }

func (q aheadQueue) at() Mem    { return Mem{Base: q.run} }
func (q aheadQueue) step() Mem  { return Mem{Base: q.run, Disp: 8} }
func (q aheadQueue) lines() Mem { return Mem{Base: q.run, Disp: 16} }
func (q aheadQueue) n() Mem     { return Mem{Base: q.run, Disp: 24} }
func (q aheadQueue) back() Mem  { return Mem{Base: q.run, Disp: 32} }

// Where the fields of prefetchQueue behind end are, and the size of a run.
const (
	queueAccess = 32
	queueAfter  = 64
	runBytes    = 40
)

// ask asks for the rows that are due after r rows of a panel.
func ask(r int) {
	row, found, line, end := unique("askRow"), unique("askFound"), unique("askLine"), unique("asked")
	q := aheadQueue{a0, b0}
	Load(Param("next"), q.queue)
	TESTQ(q.queue, q.queue)
	JE(LabelRef(end))
	SUBQ(imm(r), q.left())
	JG(LabelRef(end))
	Label(row)
	MOVQ(q.cursor(), q.run)
	ADDQ(q.queue, q.run)
	skip := unique("askRun")
	Label(skip)
	CMPQ(q.n(), Imm(0))
	JNE(LabelRef(found))
	Comment("The next run.")
	ADDQ(imm(runBytes), q.run)
	ADDQ(imm(runBytes), q.cursor())
	MOVQ(q.cursor(), count)
	CMPQ(count, q.end())
	JNE(LabelRef(skip))
	MOVQ(U64(math.MaxInt), count)
	MOVQ(count, q.left())
	JMP(LabelRef(end))
	Label(found)
	DECQ(q.n())
	MOVQ(q.at(), a3)
	MOVQ(q.step(), count)
	TESTQ(U32(3), q.n())
	among := unique("askAmong")
	JNE(LabelRef(among))
	ADDQ(q.back(), count)
	Label(among)
	ADDQ(count, q.at())
	MOVQ(q.lines(), count)
	Label(line)
	PREFETCHT1(Mem{Base: a3})
	ADDQ(imm(lineBytes), a3)
	DECQ(count)
	JNE(LabelRef(line))
	MOVQ(q.every(), count)
	ADDQ(count, q.left())
	JLE(LabelRef(row))
	Label(end)
}

// streamOf leaves in at the stream of the queue next, or 0 if there is none.
func streamOf(at reg.Register) {
	ofQueue(at, func() { MOVQ(Mem{Base: at, Disp: queueAccess + accessPointer}, at) })
}

// ofQueue leaves the address of the queue next in at, and goes through then unless that is 0.
func ofQueue(at reg.Register, then func()) {
	none := unique("noQueue")
	Load(Param("next"), at)
	TESTQ(at, at)
	JE(LabelRef(none))
	then()
	Label(none)
}
