package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const lineBytes = 64

// prefetchQueue is what score prefetches: the fields of prefetchQueue in package attn, which
// the kernel changes as it goes. Between tiles its registers are free.
type prefetchQueue struct {
	queue, run reg.GPPhysical
}

func (q prefetchQueue) left() Mem { return field(q.queue, "prefetchQueue.left") }

func (q prefetchQueue) every() Mem { return field(q.queue, "prefetchQueue.every") }

func (q prefetchQueue) cursor() Mem { return field(q.queue, "prefetchQueue.cursor") }

func (q prefetchQueue) end() Mem { return field(q.queue, "prefetchQueue.end") }

func (q prefetchQueue) at() Mem { return field(q.run, "prefetchRun.at") }

func (q prefetchQueue) step() Mem { return field(q.run, "prefetchRun.step") }

func (q prefetchQueue) lines() Mem { return field(q.run, "prefetchRun.lines") }

func (q prefetchQueue) n() Mem { return field(q.run, "prefetchRun.n") }

func (q prefetchQueue) back() Mem { return field(q.run, "prefetchRun.back") }

// prefetchDue prefetches the rows of the queue that are due after r rows of a panel.
func prefetchDue(r int) {
	row, found, line, end := unique("dueRow"), unique("dueFound"), unique("dueLine"), unique("dueEnd")
	q := prefetchQueue{a0, b0}
	Load(Param("next"), q.queue)
	TESTQ(q.queue, q.queue)
	JE(LabelRef(end))
	SUBQ(imm(r), q.left())
	JG(LabelRef(end))
	Label(row)
	MOVQ(q.cursor(), q.run)
	ADDQ(q.queue, q.run)
	skip := unique("dueRun")
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
	among := unique("sameQuarters")
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

// pointerOf leaves in at the prefetch pointer of the queue next, or 0 if there is none.
func pointerOf(at reg.Register) {
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
