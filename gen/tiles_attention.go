package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Scores and values by tiles.

// Registers that scores have for other things, since their outputs are rows of a block.
var (
	tilesRowAt   = reg.R8  // moving through the rows
	tilesPanelAt = reg.R9  // moving through the panel
	tilesWhole   = reg.R10 // whole tiles of dimensions left
)

// score emits scores of rows of queries by panels of keys, times the scales of the keys.
func (p *tilesProgram) score(name string) {
	p.begin(name, "func(s *float32, q *int8, k *byte, scales *float32, rows, panels, d, qStride, "+
		"kStride int)")
	Load(Param("rows"), tilesLeft)
	Load(Param("d"), tilesTemp)
	p.sizes(tilesTemp, false)
	MOVQ(U32(64), tilesLine)
	Load(Param("q"), tilesRow)
	Load(Param("qStride"), tilesRowStep)
	spill("s", p.outNext)
	spill("rows", p.rowsLeft)
	p.firstTurn()

	Label("rows")
	MOVQ(p.outNext, tilesOut)
	Load(Param("k"), tilesPanel)
	Load(Param("panels"), tilesLeft)
	spill("scales", p.scale)
	Label("panels")
	p.second(func(to reg.Register) { Load(Param("kStride"), to) })
	p.chain()
	CMPQ(p.pending, Imm(0))
	JEQ(LabelRef("turned"))
	p.scores("previous")
	Label("turned")
	p.keep()
	move(p.scale, p.lastScale)
	ADDQ(imm(2*panelBytes), p.scale)
	p.turn()
	ADDQ(imm(2*panelBytes), tilesOut)
	LEAQ(Mem{Base: tilesPanel, Index: tilesSecond, Scale: 2}, tilesPanel)
	SUBQ(Imm(2), tilesLeft)
	JG(LabelRef("panels"))

	Comment("The next rows.")
	MOVQ(p.rows, tilesTemp)
	MOVQ(tilesRowStep, tilesPanel)
	IMULQ(tilesTemp, tilesPanel)
	ADDQ(tilesPanel, tilesRow)
	IMUL3Q(imm(4*block), tilesTemp, tilesPanel)
	ADDQ(tilesPanel, p.outNext)
	SUBQ(tilesTemp, p.rowsLeft)
	JG(LabelRef("rows"))
	p.scores("last")
	tileRelease()
	VZEROUPPER()
	RET()
}

// chain multiplies the current rows by two panels, of any number of dimensions.
func (p *tilesProgram) chain() {
	const first, second = tileSums, tileSums + 1
	tileZero(first)
	tileZero(second)
	MOVQ(tilesRow, tilesRowAt)
	MOVQ(tilesPanel, tilesPanelAt)
	Load(Param("d"), tilesWhole)
	DECQ(tilesWhole)
	SHRQ(Imm(6), tilesWhole)
	JEQ(LabelRef("rest"))
	step := func(row, column tile) {
		tileLoad(Mem{Base: tilesRowAt, Index: tilesRowStep, Scale: 1}, row)
		tileLoad(Mem{Base: tilesPanelAt, Index: tilesLine, Scale: 1}, column)
		signedDot.add(column, row, first)
		LEAQ(Mem{Base: tilesPanelAt, Index: tilesSecond, Scale: 1}, tilesTemp)
		tileLoad(Mem{Base: tilesTemp, Index: tilesLine, Scale: 1}, column)
		signedDot.add(column, row, second)
	}
	Label("whole")
	step(tileRow, tilePanel)
	ADDQ(imm(tileInputs), tilesRowAt)
	ADDQ(imm(tileBytes), tilesPanelAt)
	DECQ(tilesWhole)
	JNE(LabelRef("whole"))
	Label("rest")
	step(tileRest, tileEnding)
	tileStore(first, Mem{Base: tilesTurn, Index: tilesLine, Scale: 1})
	tileStore(second, Mem{Base: tilesTurn, Index: tilesLine, Scale: 1, Disp: tileBytes})
}

// scores makes scores of the sums of the turn before.
func (p *tilesProgram) scores(name string) {
	sums, out, second, left := tilesTemp, tilesRowAt, tilesPanelAt, tilesWhole
	MOVQ(p.lastScale, tilesTemp)
	VMOVUPS(Mem{Base: tilesTemp}, zmm[0])
	p.lastSecondOutput(name, second)
	VMOVUPS(Mem{Base: tilesTemp, Index: second, Scale: 1}, zmm[1])
	MOVQ(p.lastTurn, sums)
	MOVQ(p.lastOut, out)
	MOVQ(p.rows, left)
	Label(name)
	VCVTDQ2PS(Mem{Base: sums}, zmm[2])
	VCVTDQ2PS(Mem{Base: sums, Disp: tileBytes}, zmm[3])
	VMULPS(zmm[0], zmm[2], zmm[2])
	VMULPS(zmm[1], zmm[3], zmm[3])
	VMOVUPS(zmm[2], Mem{Base: out})
	VMOVUPS(zmm[3], Mem{Base: out, Index: second, Scale: 1})
	ADDQ(tilesLine, sums)
	ADDQ(imm(4*block), out)
	DECQ(left)
	JNE(LabelRef(name))
}

// Registers of values.
var (
	tilesValueLine = reg.R9 // bytes between the rows of a panel
	tilesFree      = reg.R10
)

// Weights have 15 bits: their upper 8 and their lower 7 are rows of bytes by themselves.
const (
	tileUpper tile = 4
	tileLower tile = 5
	tileFirst tile = 6 // values of a panel
	tileLast  tile = 7 // and of the second one
)

// accumulate emits outputs of rows of weights and panels of values of at most 64 keys: the sum of
// products, times the row's scale, is added to the output times the row's alpha.
func (p *tilesProgram) accumulate(name string) {
	p.begin(name, context)
	p.digits = AllocLocal(2*tileBytes + 64)
	argument("SumsCall.Steps", tilesTemp)
	Comment("Which words of a row there are.")
	MOVQ(tilesTemp, tilesLine)
	MOVQ(I32(-1), tilesPanel)
	NEGQ(tilesLine)
	ADDQ(Imm(64), tilesLine)
	SHRQ(reg.CL, tilesPanel)
	KMOVD(tilesPanel.As32(), reg.K2)
	SHRQ(Imm(32), tilesPanel)
	KMOVD(tilesPanel.As32(), reg.K3)
	argument("SumsCall.Rows", tilesLeft)
	p.sizes(tilesTemp, true)
	p.keepOutputs()
	MOVQ(U32(64), tilesLine)
	argument("SumsCall.W", tilesRow)
	argument("SumsCall.WStride", tilesRowStep)
	SHLQ(Imm(1), tilesRowStep)
	argument("SumsCall.VLine", tilesValueLine)
	argument("SumsCall.OStride", tilesOutStep)
	SHLQ(Imm(2), tilesOutStep)
	spillArgument("SumsCall.O", p.outNext)
	spillArgument("SumsCall.Rows", p.rowsLeft)
	spillArgument("SumsCall.F", p.scale)
	spillArgument("SumsCall.Alpha", p.alpha)
	spillArgument("SumsCall.FStride", p.scaleStep)
	SHLQ(Imm(2), p.scaleStep)
	p.firstTurn()

	Label("rows")
	p.split()
	MOVQ(p.outNext, tilesOut)
	argument("SumsCall.V", tilesPanel)
	argument("SumsCall.Panels", tilesLeft)
	Label("panels")
	p.second(valueStride)
	const upper, lower = tileSums, tileSums + 1 // and two more of the second panel
	for i := range 4 {
		tileZero(upper + tile(i))
	}
	tileLoad(Mem{Base: tilesPanel, Index: tilesValueLine, Scale: 1}, tileFirst)
	unsignedDot.add(tileFirst, tileUpper, upper)
	unsignedDot.add(tileFirst, tileLower, lower)
	LEAQ(Mem{Base: tilesPanel, Index: tilesSecond, Scale: 1}, tilesTemp)
	tileLoad(Mem{Base: tilesTemp, Index: tilesValueLine, Scale: 1}, tileLast)
	unsignedDot.add(tileLast, tileUpper, upper+2)
	unsignedDot.add(tileLast, tileLower, lower+2)
	for i := range 4 {
		tileStore(upper+tile(i), Mem{Base: tilesTurn, Index: tilesLine, Scale: 1, Disp: i * tileBytes})
	}
	CMPQ(p.pending, Imm(0))
	JEQ(LabelRef("turned"))
	p.weighted("previous")
	Label("turned")
	p.keep()
	move(p.scale, p.lastScale)
	move(p.alpha, p.lastAlpha)
	p.turn()
	ADDQ(imm(2*panelBytes), tilesOut)
	LEAQ(Mem{Base: tilesPanel, Index: tilesSecond, Scale: 2}, tilesPanel)
	SUBQ(Imm(2), tilesLeft)
	JG(LabelRef("panels"))

	Comment("The next rows.")
	MOVQ(p.rows, tilesTemp)
	MOVQ(tilesRowStep, tilesPanel)
	IMULQ(tilesTemp, tilesPanel)
	ADDQ(tilesPanel, tilesRow)
	MOVQ(tilesOutStep, tilesPanel)
	IMULQ(tilesTemp, tilesPanel)
	ADDQ(tilesPanel, p.outNext)
	MOVQ(p.scaleStep, tilesPanel)
	IMULQ(tilesTemp, tilesPanel)
	ADDQ(tilesPanel, p.scale)
	MOVQ(tilesTemp, tilesPanel)
	SHLQ(Imm(2), tilesPanel)
	ADDQ(tilesPanel, p.alpha)
	SUBQ(tilesTemp, p.rowsLeft)
	JG(LabelRef("rows"))
	p.weighted("last")
	tileRelease()
	VZEROUPPER()
	RET()
}

// split splits the words of the current rows into bytes, in the order of the keys, and loads both
// tiles.
func (p *tilesProgram) split() {
	digits, from, left := tilesPanel, tilesTemp, tilesLeft
	LEAQ(p.digits.Offset(63), digits)
	ANDQ(I32(-64), digits)
	MOVQ(tilesRow, from)
	MOVQ(p.rows, left)
	low, order := zmm[0], zmm[1]
	MOVL(U32(127), tilesFree.As32())
	VPBROADCASTW(tilesFree.As32(), low)
	VMOVDQU64(tilesOrder(), order)
	Label("split")
	VMOVDQU16_Z(Mem{Base: from}, reg.K2, zmm[2])
	VMOVDQU16_Z(Mem{Base: from, Disp: 64}, reg.K3, zmm[3])
	for i := range 2 {
		VPANDD(low, zmm[2+i], zmm[4+i])
		VPSRLW(Imm(7), zmm[2+i], zmm[2+i])
	}
	for i, at := range []int{2, 4} {
		VPERMT2B(zmm[at+1], order, zmm[at])
		VMOVDQU64(zmm[at], Mem{Base: digits, Disp: i * tileBytes})
	}
	ADDQ(tilesRowStep, from)
	ADDQ(Imm(64), digits)
	DECQ(left)
	JNE(LabelRef("split"))
	LEAQ(p.digits.Offset(63), digits)
	ANDQ(I32(-64), digits)
	tileLoad(Mem{Base: digits, Index: tilesLine, Scale: 1}, tileUpper)
	tileLoad(Mem{Base: digits, Index: tilesLine, Scale: 1, Disp: tileBytes}, tileLower)
}

// tilesOrder is which byte of two vectors of words each byte is: of each four words the second and
// the third change places, see inGroupOrder.
func tilesOrder() Mem {
	var order [16]uint32
	for i := range 64 {
		at := i/4*4 + [4]int{0, 2, 1, 3}[i%4]
		order[i/4] |= uint32(2*at) << (i % 4 * 8)
	}
	return wordTable("tilesOrder", order[:]...)
}

// weighted makes outputs of the sums of the turn before.
func (p *tilesProgram) weighted(name string) {
	sums, out, second, left, scale, alpha := tilesTemp, tilesPanel, tilesSecond, tilesLeft, tilesFree,
		tilesRow
	saved := []savedRegister{{tilesPanel, p.panel}, {tilesSecond, p.panelStep}, {tilesLeft, p.panels},
		{tilesRow, p.row}}
	for _, s := range saved {
		MOVQ(s.register, s.slot)
	}
	MOVQ(p.lastTurn, sums)
	MOVQ(p.lastOut, out)
	MOVQ(p.lastScale, scale)
	MOVQ(p.lastAlpha, alpha)
	MOVQ(p.rows, left)
	p.lastSecondOutput(name, second)
	Label(name)
	o := [2]Mem{{Base: out}, {Base: out, Index: second, Scale: 1}}
	VBROADCASTSS(Mem{Base: alpha}, zmm[0])
	VBROADCASTSS(Mem{Base: scale}, zmm[1])
	for i := range 2 {
		output, sum := zmm[2+i], zmm[4+i]
		VMOVUPS_Z(o[i], reg.K1, output)
		VMULPS_Z(zmm[0], output, reg.K1, output)
		VPSLLD(Imm(7), Mem{Base: sums, Disp: 2 * i * tileBytes}, sum)
		VPADDD(Mem{Base: sums, Disp: (2*i + 1) * tileBytes}, sum, sum)
		VCVTDQ2PS(sum, sum)
		VFMADD231PS(zmm[1], sum, output)
	}
	for i := range 2 {
		VMOVUPS(zmm[2+i], o[i])
	}
	ADDQ(tilesLine, sums)
	ADDQ(tilesOutStep, out)
	ADDQ(p.scaleStep, scale)
	ADDQ(Imm(4), alpha)
	DECQ(left)
	JNE(LabelRef(name))
	for _, s := range saved {
		MOVQ(s.slot, s.register)
	}
}
