package main

import (
	"math"

	. "github.com/seed-1415985d/attn/asm/neon"
)

// Score's requests for memory: the fields of ahead in package attn, which the
// kernel changes as it goes.
const (
	aheadLeft   = 0
	aheadEvery  = 8
	aheadCursor = 16
	aheadEnd    = 24

	runAt    = 0
	runStep  = 8
	runLines = 16
	runLeft  = 24
	runBytes = 40

	lineBytes = 64
)

// ask asks for the rows that are due after r rows of a panel. Between tiles R15, R16
// and R19 to R25 are free.
func (t *tileKernel) ask(r int) {
	const queue, run, at, x, y = b0, b0 + 1, b0 + 2, b0 + 3, b0 + 4
	row, search, found, line, end := t.label("askRow"), t.label("askRun"), t.label("askFound"), t.label("askLine"), t.label("asked")
	t.arg("next", queue)
	t.Cbz(queue, end)
	t.Ldr(x, queue, aheadLeft)
	t.SubsImm(x, x, r)
	t.Str(x, queue, aheadLeft)
	t.Bcond(GT, end)
	t.Label(row)
	t.Ldr(y, queue, aheadCursor)
	t.Add(run, queue, y)
	t.Label(search)
	t.Ldr(x, run, runLeft)
	t.Cbnz(x, found)
	t.Comment("The next run.")
	t.AddImm(run, run, runBytes)
	t.AddImm(y, y, runBytes)
	t.Str(y, queue, aheadCursor)
	t.Ldr(x, queue, aheadEnd)
	t.Sub(x, x, y)
	t.Cbnz(x, search)
	t.MovImm(x, math.MaxInt64)
	t.Str(x, queue, aheadLeft)
	t.B(end)
	t.Label(found)
	t.SubImm(x, x, 1)
	t.Str(x, run, runLeft)
	t.Ldr(at, run, runAt)
	t.Ldr(x, run, runStep)
	t.Add(x, x, at)
	t.Str(x, run, runAt)
	t.Ldr(x, run, runLines)
	t.Label(line)
	t.PrefetchL2(at)
	t.AddImm(at, at, lineBytes)
	t.SubImm(x, x, 1)
	t.Cbnz(x, line)
	t.Ldr(x, queue, aheadLeft)
	t.Ldr(y, queue, aheadEvery)
	t.Add(x, x, y)
	t.Str(x, queue, aheadLeft)
	t.CmpImm(x, 0)
	t.Bcond(LE, row)
	t.Label(end)
}
