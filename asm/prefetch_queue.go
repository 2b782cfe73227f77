package main

import (
	"math"

	. "github.com/seed-1415985d/attn/asm/internal/neon"
)

const lineBytes = 64

// prefetchDue prefetches the rows of the queue that are due after r rows of a panel. Between tiles
// R15, R16 and R19 to R25 are free.
func (t *tileKernel) prefetchDue(r int) {
	const queue, run, at, x, y = b0, b0 + 1, b0 + 2, b0 + 3, b0 + 4
	queueAt := func(field string) int { return t.offsets.Get("PrefetchQueue." + field) }
	runAt := func(field string) int { return t.offsets.Get("PrefetchRun." + field) }
	row, search, found, line, end := t.label("dueRow"), t.label("dueRun"), t.label("dueFound"),
		t.label("dueLine"), t.label("dueEnd")
	t.arg("next", queue)
	t.Cbz(queue, end)
	t.Ldr(x, queue, queueAt("left"))
	t.SubsImm(x, x, r)
	t.Str(x, queue, queueAt("left"))
	t.Bcond(GT, end)
	t.Label(row)
	t.Ldr(y, queue, queueAt("cursor"))
	t.Add(run, queue, y)
	t.Label(search)
	t.Ldr(x, run, runAt("N"))
	t.Cbnz(x, found)
	t.Comment("The next run.")
	t.AddImm(run, run, t.offsets.Get("PrefetchRun"))
	t.AddImm(y, y, t.offsets.Get("PrefetchRun"))
	t.Str(y, queue, queueAt("cursor"))
	t.Ldr(x, queue, queueAt("End"))
	t.Sub(x, x, y)
	t.Cbnz(x, search)
	t.MovImm(x, math.MaxInt64)
	t.Str(x, queue, queueAt("left"))
	t.B(end)
	t.Label(found)
	t.SubImm(x, x, 1)
	t.Str(x, run, runAt("N"))
	t.Ldr(at, run, runAt("At"))
	t.Ldr(x, run, runAt("Step"))
	t.Add(x, x, at)
	t.Str(x, run, runAt("At"))
	t.Ldr(x, run, runAt("Lines"))
	t.Label(line)
	t.PrefetchL2(at)
	t.AddImm(at, at, lineBytes)
	t.SubImm(x, x, 1)
	t.Cbnz(x, line)
	t.Ldr(x, queue, queueAt("left"))
	t.Ldr(y, queue, queueAt("every"))
	t.Add(x, x, y)
	t.Str(x, queue, queueAt("left"))
	t.CmpImm(x, 0)
	t.Bcond(LE, row)
	t.Label(end)
}
