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

func (q aheadQueue) left() Mem   { return field(q.queue, "prefetchQueue.left") }
func (q aheadQueue) every() Mem  { return field(q.queue, "prefetchQueue.every") }
func (q aheadQueue) cursor() Mem { return field(q.queue, "prefetchQueue.cursor") }
func (q aheadQueue) end() Mem    { return field(q.queue, "prefetchQueue.end") }

func (q aheadQueue) at() Mem    { return field(q.run, "prefetchRun.at") }
func (q aheadQueue) step() Mem  { return field(q.run, "prefetchRun.step") }
func (q aheadQueue) lines() Mem { return field(q.run, "prefetchRun.lines") }
func (q aheadQueue) n() Mem     { return field(q.run, "prefetchRun.n") }
func (q aheadQueue) back() Mem  { return field(q.run, "prefetchRun.back") }

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
	ADDQ(imm(offsets.Get("prefetchRun")), q.run)
	ADDQ(imm(offsets.Get("prefetchRun")), q.cursor())
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
	ofQueue(at, func() { MOVQ(field(at, "prefetchQueue.access", "access.pointer"), at) })
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
