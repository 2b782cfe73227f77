package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const lineBytes = 64

// prefetchQueue is the queue of package attn, which score prefetches. The kernel changes its fields
// as it goes. Between tiles these registers are free.
type prefetchQueue struct {
	queue, run reg.GPPhysical
}

func (q prefetchQueue) field(name string) Mem { return fieldOf(q.queue, "PrefetchQueue."+name) }

func (q prefetchQueue) ofRun(name string) Mem { return fieldOf(q.run, "PrefetchRun."+name) }

// prefetchDue prefetches the rows of the queue that are due after a number of rows of a panel: a
// constant, or a register other than a0.
func prefetchDue(rows Op) {
	row, found, line, end := unique("dueRow"), unique("dueFound"), unique("dueLine"), unique("dueEnd")
	q := prefetchQueue{a0, b0}
	Load(Param("next"), q.queue)
	TESTQ(q.queue, q.queue)
	JE(LabelRef(end))
	SUBQ(rows, q.field("left"))
	JG(LabelRef(end))
	Label(row)
	MOVQ(q.field("cursor"), q.run)
	ADDQ(q.queue, q.run)
	skip := unique("dueRun")
	Label(skip)
	CMPQ(q.ofRun("N"), Imm(0))
	JNE(LabelRef(found))
	Comment("The next run.")
	ADDQ(imm(offsets.Get("PrefetchRun")), q.run)
	ADDQ(imm(offsets.Get("PrefetchRun")), q.field("cursor"))
	MOVQ(q.field("cursor"), stepsLeft)
	CMPQ(stepsLeft, q.field("End"))
	JNE(LabelRef(skip))
	MOVQ(U64(math.MaxInt), stepsLeft)
	MOVQ(stepsLeft, q.field("left"))
	JMP(LabelRef(end))
	Label(found)
	DECQ(q.ofRun("N"))
	MOVQ(q.ofRun("At"), a3)
	MOVQ(q.ofRun("Step"), stepsLeft)
	TESTQ(U32(3), q.ofRun("N"))
	among := unique("sameQuarters")
	JNE(LabelRef(among))
	ADDQ(q.ofRun("Back"), stepsLeft)
	Label(among)
	ADDQ(stepsLeft, q.ofRun("At"))
	MOVQ(q.ofRun("Lines"), stepsLeft)
	Label(line)
	PREFETCHT1(Mem{Base: a3})
	ADDQ(imm(lineBytes), a3)
	DECQ(stepsLeft)
	JNE(LabelRef(line))
	MOVQ(q.field("every"), stepsLeft)
	ADDQ(stepsLeft, q.field("left"))
	JLE(LabelRef(row))
	Label(end)
}

// pointerOf leaves in at the prefetch pointer of the queue next, or 0 if there is none.
func pointerOf(at reg.Register) {
	ofQueue(at, func() { MOVQ(hint(at, "PrefetchQueue", "Pointer"), at) })
}

// ofQueue leaves the address of the queue next in at, and emits then for where there is a queue.
func ofQueue(at reg.Register, then func()) {
	none := unique("noQueue")
	Load(Param("next"), at)
	TESTQ(at, at)
	JE(LabelRef(none))
	then()
	Label(none)
}
