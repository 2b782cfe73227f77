package main

import . "github.com/seed-1415985d/attn/asm/neon"

// Score's requests for memory: see ahead in package attn. One row is asked for
// whenever as many rows of single panels are done as the call has panels.
// Between tiles R15, R16 and R19 to R25 are free, and score has no alpha.
const (
	aheadNext = alpha      // pointer to the distance of the next row
	aheadLeft = alphaFirst // rows of single panels until the next row is due
	aheadBase = R17        // what distances count from, 0 if there is nothing to ask for
	lineBytes = 64
)

// loadAhead takes the fields of next: data, first, lines, rows.
func (t *tileKernel) loadAhead() {
	t.Mov(aheadLeft, panels)
	t.arg("next", count)
	t.Ldr(aheadBase, count, 0)
	t.Ldr(moving, count, 8)
	t.Add(aheadBase, aheadBase, moving)
	t.Ldr(aheadNext, count, 24)
}

// ask asks for the rows that are due after r rows of a panel.
func (t *tileKernel) ask(r int) {
	const at, lines, price = b0, b0 + 1, b0 + 2
	row, line, end := t.label("askRow"), t.label("askLine"), t.label("asked")
	t.Cbz(aheadBase, end)
	t.SubsImm(aheadLeft, aheadLeft, r)
	t.Bcond(GT, end)
	t.arg("panels", price)
	t.Label(row)
	t.LdrPost(at, aheadNext)
	t.Add(at, at, aheadBase)
	t.arg("next", lines)
	t.Ldr(lines, lines, 16)
	t.Label(line)
	t.PrefetchL2(at)
	t.AddImm(at, at, lineBytes)
	t.SubImm(lines, lines, 1)
	t.Cbnz(lines, line)
	t.SubImm(at, at, 1)
	t.PrefetchL2(at) // one more line if they are not aligned
	t.Add(aheadLeft, aheadLeft, price)
	t.CmpImm(aheadLeft, 0)
	t.Bcond(LE, row)
	t.Label(end)
}
