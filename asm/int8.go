package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// The micro-kernel in integers, for CPUs with FEAT_DotProd: sum[r][x] = Σ_k a[r][k]·b[k][x] of 8
// bits, in groups of four steps, which lie together and which one SDOT adds to a lane. Panels are
// the outer loop and tiles of up to four rows the inner one.

// int8Rows is the most rows of a tile: with 16 columns 16 accumulators.
const int8Rows = 4

// Registers of tiles in integers, in addition to the registers of tile.go.
const (
	int8Factor  = R13 // scales of the panel's keys, or factors of the tile's rows
	int8Factors = R14 // of the first row
	int8Stride  = R25 // bytes between factors of rows
)

// int8Groups holds a group of four steps of a panel.
var int8Groups = from(16, panel/lanes)

// int8Kernel emits a kernel whose sums become scores or are added to outputs.
type int8Kernel struct {
	*program
	score bool
	codes bool // b is codes of I4
}

func (p *program) int8Kernels() {
	t := int8Kernel{program: p, score: true}
	p.kernelLike("scoreInt8Generic", "scoreInt8Dot", 0, "s q k scales rows qStride b", "")
	t.scoreArguments()
	t.MovImm(cStride, blockBytes)
	t.panelLoop(int8Rows, t.tile)
	t.score = false
	p.kernelLike("accumulateInt8Generic", "multiplyInt8Dot", 0, "x", "")
	t.sumsArguments()
	t.outputs()
	t.panelLoop(int8Rows, t.tile)
}

// outputs loads the arguments of kernels that add to outputs. halfPanel holds whether the outputs
// begin at 0.
func (t *int8Kernel) outputs() {
	t.arg("x", moving)
	t.field(cStride, moving, "SumsCall.OStride")
	t.LslImm(cStride, cStride, 2)
	t.field(int8Stride, moving, "SumsCall.FStride")
	t.LslImm(int8Stride, int8Stride, 2)
	t.field(moving, moving, "SumsCall.B")
	t.byteField(halfPanel, moving, "PanelLayout.Overwrite")
}

// scoreArguments loads the arguments of kernels of scores.
func (t *int8Kernel) scoreArguments() {
	t.arg("s", cPanel)
	t.arg("q", aFirst)
	t.arg("k", bPanel)
	t.arg("scales", int8Factors)
	t.arg("qStride", aStride)
	t.arg("rows", allRows)
	t.arg("b", moving)
	t.panelLayout()
}

// sumsArguments loads the further arguments of kernels of sums.
func (t *int8Kernel) sumsArguments() {
	t.arg("x", moving)
	t.field(cPanel, moving, "SumsCall.O")
	t.field(aFirst, moving, "SumsCall.W")
	t.field(bPanel, moving, "SumsCall.V")
	t.field(int8Factors, moving, "SumsCall.F")
	t.field(aStride, moving, "SumsCall.WStride")
	t.field(allRows, moving, "SumsCall.Rows")
	t.field(moving, moving, "SumsCall.B")
	t.panelLayout()
}

// panelLayout loads how the panels at an address lie.
func (t *int8Kernel) panelLayout() {
	at := func(field string) int { return t.offsets.Get("PanelLayout." + field) }
	t.Ldr(steps, moving, at("Keys"))
	t.AddImm(steps, steps, 3)
	t.LsrImm(steps, steps, 2)
	t.Ldr(panels, moving, at("Cols"))
	t.LsrImm(panels, panels, 4)
	t.Ldr(bStride, moving, at("Stride"))
	t.Ldr(panelStride, moving, at("PanelStride"))
}

// panelLoop writes the loops over panels and tiles of up to a number of rows.
func (t *int8Kernel) panelLoop(maxRows int, tile func(r int)) {
	next, tiles := t.label("panel"), t.label("tiles")
	t.Label(next)
	t.Mov(cTile, cPanel)
	t.Mov(aTile, aFirst)
	t.Mov(rowsLeft, allRows)
	t.Mov(int8Factor, int8Factors)
	t.Mov(alpha8, alphaFirst8) // which only values have
	t.Label(tiles)
	end := t.label("rowsEnd")
	for r := maxRows; r >= 1; r-- {
		fewer := t.label("fewer")
		t.CmpImm(rowsLeft, r)
		t.Bcond(LT, fewer)
		tile(r)
		t.SubsImm(rowsLeft, rowsLeft, r)
		t.Bcond(GT, tiles)
		t.B(end)
		t.Label(fewer)
	}
	t.Label(end)
	t.AddImm(cPanel, cPanel, panelBytes)
	if t.score {
		t.AddImm(int8Factors, int8Factors, panelBytes)
	}
	t.Add(bPanel, bPanel, panelStride)
	t.SubImm(panels, panels, 1)
	t.Cbnz(panels, next)
	t.Ret()
}

// tile computes r rows of a panel and moves on by these rows.
func (t *int8Kernel) tile(r int) {
	t.beginTile(r)
	t.Mov(stepsLeft, steps)
	loop := t.label("group")
	t.Label(loop)
	t.Ld1(int8Groups, b0)
	t.Add(b0, b0, bStride)
	for i := range r {
		t.LdrSPost(aVec(i), a0+Reg(i))
	}
	for i := range r {
		for v, b := range int8Groups {
			t.SdotLane(acc(i, v, len(int8Groups)), b, aVec(i), 0)
		}
	}
	t.SubImm(stepsLeft, stepsLeft, 1)
	t.Cbnz(stepsLeft, loop)
	t.finish(r)
	t.nextRows(r)
}

// beginTile begins sums of r rows.
func (t *int8Kernel) beginTile(r int) {
	t.Comment("%d rows.", r)
	for _, v := range from(0, r*len(int8Groups)) {
		t.Zero(v)
	}
	t.rowPointers(r)
}

func (t *int8Kernel) nextRows(r int) {
	for range r {
		t.Add(aTile, aTile, aStride)
	}
}

// rowPointers points at the panel and at r rows.
func (t *int8Kernel) rowPointers(r int) {
	t.Mov(b0, bPanel)
	t.Mov(a0, aTile)
	for i := range Reg(r - 1) {
		t.Add(a0+i+1, a0+i, aStride)
	}
}

// finish makes floats of sums, and stores scores or adds to outputs.
func (t *int8Kernel) finish(r int) {
	if t.score {
		t.Ld1(int8Groups, int8Factor) // the scales of the keys
	}
	for i := range r {
		sums := from(Vec(i*len(int8Groups)), len(int8Groups))
		for _, v := range sums {
			t.Scvtf(v, v)
		}
		if t.score {
			for v, scale := range int8Groups {
				t.Fmul(sums[v], sums[v], scale)
			}
			t.St1(sums, cTile)
			t.Add(cTile, cTile, cStride)
			continue
		}
		factor, begin, ready := aVec(0), t.label("begin"), t.label("ready")
		t.LdrS(factor, int8Factor, 0)
		t.Add(int8Factor, int8Factor, int8Stride)
		t.Cbz(halfPanel, begin)
		for _, v := range int8Groups {
			t.Zero(v)
		}
		t.B(ready)
		t.Label(begin)
		t.Ld1(int8Groups, cTile)
		t.Label(ready)
		for v, o := range int8Groups {
			t.FmlaLane(o, sums[v], factor, 0)
		}
		t.St1(int8Groups, cTile)
		t.Add(cTile, cTile, cStride)
	}
}
