package main

import (
	"fmt"

	. "github.com/seed-1415985d/attn/asm/internal/neon"
)

// The micro-kernel of score and accumulate: c[r][x] = start + Σ_k a[r][k]·b[k][x],
// one FMA chain in ascending k for each element, vector lanes across x.
//
// A tile of 6 rows × 16 columns fills the registers: 24 accumulators, four steps of a for each row
// (6), and two vectors of b at a time. For four steps that is 96 FMAs for 22 loads, and 24
// independent chains are enough for four FMA units of latency 4. Each FMA reads its factor of a
// from a lane.
//
// Panels are the outer loop and row tiles the inner one, so a panel of b is
// read from the L1 cache by all but the first tile.

const (
	tileRows = 6
	unroll   = lanes // steps of the main loop: the lanes of a vector of a
)

// Registers by role.
const (
	cTile       = R0  // c at the tile's first row, current panel
	aTile       = R1  // a at the tile's first row
	bPanel      = R2  // b at the current panel
	cStride     = R3  // bytes between rows of c
	aStride     = R4  // bytes between rows of a
	bStride     = R5  // bytes between rows of b
	steps       = R6  // length of the chains
	panels      = R7  // panels left
	panelStride = R8  // bytes between panels of b
	cPanel      = R9  // c at the first row, current panel
	aFirst      = R10 // a at the first row
	allRows     = R11 // all rows
	rowsLeft    = R12 // rows left in the panel
	tileAlpha   = R13 // alpha of the tile's first row, 0 or overwriteOutputs
	alphaFirst  = R14 // alpha of the first row, 0 or overwriteOutputs
	stepsLeft   = R15 // steps left
	moving      = R16 // a moving pointer: rows of c or alpha
	b0          = R19 // moving through up to 4 panels of b: R19 to R22
	a0          = R20 // moving through up to 6 rows of a: up to R25
	halfPanel   = R26 // are there 8 columns after the last panel?
)

// overwriteOutputs is in the place of the pointer to alpha where outputs begin with 0. Where they
// begin as they are, that is 0.
const overwriteOutputs = 1

// zeros is a row of outputs that begin with 0: the columns of four panels.
const (
	zeroTable = "zeros<>(SB)"
	zeroBytes = 4 * panelBytes
)

// tileA is the general register that moves through row r of a; with n panels of
// b side by side, their pointers come first.
func tileA(r, n int) Reg { return a0 + Reg(n-1+r) }

func tileB(i int) Reg { return b0 + Reg(i) }

// acc is the accumulator of row r, vector v, in a tile of vecs vectors a row.
func acc(r, v, vecs int) Vec { return Vec(r*vecs + v) }

// aVec holds up to four steps of row r of a.
func aVec(r int) Vec { return Vec(24 + r) }

const (
	bLow  = Vec(30)
	bHigh = Vec(31)
)

// tileKernel emits one kernel on the micro-kernel.
type tileKernel struct {
	*program
	accumulates bool    // start from c·alpha, c if there is no alpha, or zero; else from zero
	masked      bool    // b counts as 0 where a has its sign bit set
	element     element // of b
	sizes       []int
}

func (p *program) score() {
	p.kernel("scoreSIMD", 0, "s q k rows d panels next", "")
	p.arg("s", cPanel)
	p.arg("q", aFirst)
	p.arg("k", bPanel)
	p.arg("rows", allRows)
	p.arg("d", steps)
	p.arg("panels", panels)
	p.MovImm(cStride, blockBytes)
	p.LslImm(aStride, steps, 2)
	p.MovImm(bStride, panelBytes)
	p.LslImm(panelStride, steps, 6)
	t := tileKernel{program: p, sizes: []int{6, 5, 4, 3, 2, 1}}
	t.emit()
}

func (p *program) accumulate() {
	p.kernel("accumulateSIMD", 0, "o p v alpha rows oStride pStride b", "")
	p.accumulateArgs(elementF32)
	t := tileKernel{program: p, accumulates: true, sizes: []int{6, 5, 4, 3, 2, 1}}
	t.emit()
}

func (p *program) accumulateMasked() {
	p.kernel("accumulateMaskedSIMD", 0, "o p v alpha rows oStride pStride b", "")
	p.accumulateArgs(elementF32)
	t := tileKernel{program: p, accumulates: true, masked: true, sizes: []int{4, 2, 1}}
	t.emit()
}

func (p *program) accumulateArgs(e element) {
	p.arg("o", cPanel)
	p.arg("p", aFirst)
	p.arg("v", bPanel)
	p.arg("alpha", alphaFirst)
	p.arg("rows", allRows)
	p.arg("oStride", cStride)
	p.LslImm(cStride, cStride, 2)
	p.arg("pStride", aStride)
	p.LslImm(aStride, aStride, 2)
	p.arg("b", moving)
	at := func(field string) int { return p.offsets.Get("PanelLayout." + field) }
	p.Ldr(steps, moving, at("Keys"))
	p.Ldr(panels, moving, at("Cols"))
	p.Ldr(bStride, moving, at("Stride"))
	p.Ldr(panelStride, moving, at("PanelStride"))
	p.LslImm(bStride, bStride, e.shift())
	p.LslImm(panelStride, panelStride, e.shift())
	p.LsrImm(halfPanel, panels, 3)
	p.LsrImm(panels, panels, 4)
	p.LslImm(moving, panels, 1)
	p.Sub(halfPanel, halfPanel, moving)
	p.arg("b", moving)
	p.AddImm(moving, moving, at("Overwrite"))
	p.LdrbPost(stepsLeft, moving)
	p.MovImm(moving, overwriteOutputs)
	p.CmpImm(stepsLeft, 0)
	p.Csel(NE, alphaFirst, moving, alphaFirst)
}

// emit writes the loops over panels and row tiles.
func (t *tileKernel) emit() {
	if !t.masked {
		t.Comment("Few rows: several panels at once, so that there are enough chains.")
		for _, g := range []struct{ rows, panels int }{{1, 4}, {2, 2}, {3, 2}} {
			t.panelGroups(g.rows, g.panels)
		}
	}
	t.panelLoop("panel", panel/lanes)
	if !t.accumulates { // keys are whole panels
		t.Ret()
		return
	}
	t.Comment("The last 8 columns, if their number is odd.")
	t.Cbz(halfPanel, "done")
	t.MovImm(halfPanel, 0)
	t.MovImm(panels, 1)
	t.panelLoop("half", panel/lanes/2)
	t.Label("done")
	t.Ret()
}

// panelGroups handles calls of exactly r rows, n panels at a time.
func (t *tileKernel) panelGroups(r, n int) {
	next, loop := t.label("next"), t.label("group")
	t.CmpImm(allRows, r)
	t.Bcond(NE, next)
	t.Label(loop)
	t.CmpImm(panels, n)
	t.Bcond(LT, "panel")
	t.firstRows()
	t.tile(r, n, panel/lanes)
	t.AddImm(cPanel, cPanel, n*panelBytes)
	for range n {
		t.Add(bPanel, bPanel, panelStride)
	}
	t.SubImm(panels, panels, n)
	t.B(loop)
	t.Label(next)
}

// firstRows goes to the first rows of the panel.
func (t *tileKernel) firstRows() {
	t.Mov(cTile, cPanel)
	t.Mov(aTile, aFirst)
	t.Mov(rowsLeft, allRows)
	if t.accumulates {
		t.Mov(tileAlpha, alphaFirst)
	}
}

// panelLoop walks over the panels, or the one half panel, with vecs vectors a row.
func (t *tileKernel) panelLoop(name string, vecs int) {
	end := name + "End"
	t.Label(name)
	t.Cbz(panels, end)
	t.firstRows()
	t.Label(name + "Rows")
	t.choose(name)
	for _, r := range t.sizes {
		t.Label(fmt.Sprintf("%s%d", name, r))
		t.tile(r, 1, vecs)
		if !t.accumulates {
			t.prefetchDue(r)
		}
		t.nextRows(r)
		t.B(name + "Rows")
	}
	t.Label(name + "Next")
	t.AddImm(cPanel, cPanel, panelBytes)
	t.Add(bPanel, bPanel, panelStride)
	t.SubImm(panels, panels, 1)
	t.B(name)
	t.Label(end)
}

// choose jumps to the tile for the rows that are left. Tiles of one or two rows
// have too few chains, so the last rows are shared out among larger tiles where
// that is possible: 7 rows are 4 + 3, 13 are 6 + 4 + 3.
func (t *tileKernel) choose(name string) {
	pairs := [][2]int{} // least rows that are left, tile
	switch {
	case t.sizes[0] == tileRows:
		pairs = [][2]int{{11, 6}, {9, 5}, {7, 4}}
	case t.element != elementF32:
		pairs = [][2]int{{7, 4}, {5, 3}}
	}
	for _, r := range t.sizes {
		pairs = append(pairs, [2]int{r, r})
	}
	for _, p := range pairs {
		t.CmpImm(rowsLeft, p[0])
		t.Bcond(GE, fmt.Sprintf("%s%d", name, p[1]))
	}
	t.B(name + "Next")
}

// nextRows goes r rows down.
func (t *tileKernel) nextRows(r int) {
	for range r {
		t.Add(cTile, cTile, cStride)
		t.Add(aTile, aTile, aStride)
	}
	if t.accumulates {
		t.AddImm(moving, tileAlpha, 4*r)
		t.CmpImm(tileAlpha, overwriteOutputs)
		t.Csel(HI, tileAlpha, moving, tileAlpha)
	}
	t.SubImm(rowsLeft, rowsLeft, r)
}
