package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Products in integers by tiles of AMX: 16 rows of up to 64 bytes times 64 bytes of 16 columns are
// one instruction. Panels of integers have the layout of its second operand, rows of integers that
// of its first. Sums of two panels go from tiles to memory and are converted to floats there, while
// the products of the next two panels are computed: sums alternate between two buffers.

// tilesKernels emits everything by tiles.
func tilesKernels() {
	(&tilesProgram{}).multiply("multiplyTilesAMX")
	(&tilesProgram{}).score("scoreTilesAMX")
	(&tilesProgram{}).accumulate("accumulateTilesAMX")
}

// Tiles: sums of two panels for two groups of inputs, then rows and panels, each in two sizes: 64
// inputs, and the remaining inputs.
const (
	tileSums   tile = 0
	tileRow    tile = 4
	tileRest   tile = 5
	tilePanel  tile = 6
	tileEnding tile = 7
)

const (
	tileInputs = 64               // inputs of a tile
	rowsOfTile = 16               // rows of a tile
	tileBytes  = rowsOfTile * 64  // bytes of a tile, of inputs or of sums
	turnBytes  = 4 * tileBytes    // sums of a turn
	mostHalves = 256 / tileInputs // tiles of inputs in a call
)

// Registers by role.
var (
	tilesRow     = reg.RSI // current rows of inputs
	tilesRowStep = reg.RDX // bytes between them
	tilesPanel   = reg.RBX // current panel
	tilesSecond  = reg.R13 // bytes from it to the second one, 0 if there is none
	tilesLine    = reg.RCX // bytes between rows of sums and panels, 64
	tilesOut     = reg.RDI // outputs of the current rows and panel
	tilesOutStep = reg.R8  // bytes between their rows
	tilesTurn    = reg.R11 // where sums go in this turn
	tilesScale   = reg.R10 // scales of the current rows
	tilesScaleBy = reg.R9  // bytes between them
	tilesLeft    = reg.R12 // panels left
	tilesTemp    = reg.RAX
)

// tilesProgram emits one kernel.
type tilesProgram struct {
	config, sums, digits                              Mem
	rows, rowsLeft, panels, inputs                    Mem
	panel, panelStep, out, outNext                    Mem
	lastOut, lastSecond, lastTurn, lastScale, pending Mem
	scale, scaleStep, alpha, lastAlpha, row           Mem
	ahead, fours                                      Mem
}

// begin reserves the frame, and configures tiles for the sizes of the call: rows, and the inputs
// that remain after whole tiles, or one whole tile.
func (p *tilesProgram) begin(name, signature string) {
	TEXT(name, growsStack, signature)
	p.config = AllocLocal(64)
	p.sums = AllocLocal(2*turnBytes + 64)
	stackSlots(&p.rows, &p.rowsLeft, &p.panels, &p.inputs, &p.panel, &p.panelStep, &p.out, &p.outNext,
		&p.lastOut, &p.lastSecond, &p.lastTurn, &p.lastScale, &p.pending, &p.scale, &p.scaleStep,
		&p.alpha,
		&p.lastAlpha, &p.row, &p.ahead, &p.fours)
}

// configure fills the sizes in. rows and rest, inputs after whole tiles, are in registers. If
// alike, all tiles of rows and of panels are of the rest.
func (p *tilesProgram) configure(rows, rest reg.Register, alike bool) {
	zero := reg.X0
	Comment("Sizes: palette 1, bytes of rows, rows.")
	VPXOR(zero, zero, zero)
	for i := 0; i < 64; i += 16 {
		VMOVDQU(zero, p.config.Offset(i))
	}
	MOVB(Imm(1), p.config)
	bytes := func(t tile) Mem { return p.config.Offset(16 + 2*int(t)) }
	rowsOf := func(t tile) Mem { return p.config.Offset(48 + int(t)) }
	for _, t := range []tile{0, 1, 2, 3, tileRow, tilePanel, tileEnding} {
		MOVW(U16(64), bytes(t))
	}
	MOVW(rest.(reg.GPPhysical).As16(), bytes(tileRest))
	if alike {
		MOVW(rest.(reg.GPPhysical).As16(), bytes(tileRow))
	}
	for _, t := range []tile{0, 1, 2, 3, tileRow, tileRest} {
		MOVB(rows.(reg.GPPhysical).As8(), rowsOf(t))
	}
	MOVB(Imm(16), rowsOf(tilePanel))
	SHRQ(Imm(2), rest)
	MOVB(rest.(reg.GPPhysical).As8(), rowsOf(tileEnding))
	if alike {
		MOVB(rest.(reg.GPPhysical).As8(), rowsOf(tilePanel))
	}
	LEAQ(p.config, tilesTemp)
	tileConfig(Mem{Base: tilesTemp})
}

// sizes makes tiles for the rows of the call, in tilesLeft, and its inputs, in another register.
func (p *tilesProgram) sizes(inputs reg.Register, alike bool) {
	Comment("What the last tile of inputs has, 1 to 64.")
	DECQ(inputs)
	ANDQ(Imm(tileInputs-1), inputs)
	INCQ(inputs)
	CMPQ(tilesLeft, Imm(rowsOfTile))
	JLE(LabelRef("fewRows"))
	MOVQ(U32(rowsOfTile), tilesLeft)
	Label("fewRows")
	MOVQ(tilesLeft, p.rows)
	MOVQ(inputs, tilesPanel)
	p.configure(tilesLeft, tilesPanel, alike)
}

// keepOutputs has ones in a mask where outputs are added to, and zeros where they are overwritten.
func (p *tilesProgram) keepOutputs() {
	MOVL(U32(0xffff), tilesTemp.As32())
	compareArgument("SumsCall.Overwrite", tilesSecond)
	JE(LabelRef("kept"))
	XORL(tilesTemp.As32(), tilesTemp.As32())
	Label("kept")
	KMOVW(tilesTemp.As32(), reg.K1)
}

// firstTurn begins with the first place of sums, and nothing that is to become outputs.
func (p *tilesProgram) firstTurn() {
	MOVQ(U32(0), tilesTemp)
	MOVQ(tilesTemp, p.pending)
	LEAQ(p.sums.Offset(63), tilesTurn)
	ANDQ(I32(-64), tilesTurn)
}

// second finds the second panel. Where there is none it is the first one again, which gives the
// same outputs twice.
func (p *tilesProgram) second(stride func(to reg.Register)) {
	stride(tilesSecond)
	CMPQ(tilesLeft, Imm(1))
	JNE(LabelRef("two"))
	XORL(tilesSecond.As32(), tilesSecond.As32())
	Label("two")
}

// valueStride is from a panel of values to the next.
func valueStride(to reg.Register) { argument("SumsCall.VStride", to) }

// keep notes the outputs that the next turn writes.
func (p *tilesProgram) keep() {
	MOVQ(tilesOut, p.lastOut)
	MOVQ(tilesSecond, p.lastSecond)
	MOVQ(tilesTurn, p.lastTurn)
	MOVQ(U32(1), tilesTemp)
	MOVQ(tilesTemp, p.pending)
}

// lastSecondOutput sets second to the distance in bytes between the outputs of the two panels in
// the turn before: 0 if there was no second panel.
func (p *tilesProgram) lastSecondOutput(name string, second reg.GPPhysical) {
	XORL(second.As32(), second.As32())
	CMPQ(p.lastSecond, Imm(0))
	JEQ(LabelRef(name + "Alone"))
	MOVQ(U32(panelBytes), second)
	Label(name + "Alone")
}

// multiply emits products of rows by a part of a matrix, of at most 256 inputs: for each group of
// 128 inputs the sum times the scale of the row's group is added to the outputs.
func (p *tilesProgram) multiply(name string) {
	p.begin(name, context)
	spillArgument("SumsCall.Steps", p.inputs)
	argument("SumsCall.Rows", tilesLeft)
	argument("SumsCall.Steps", tilesTemp)
	p.sizes(tilesTemp, false)
	p.keepOutputs()
	p.share()
	argument("SumsCall.WStride", tilesRowStep)
	argument("SumsCall.FStride", tilesScaleBy)
	SHLQ(Imm(2), tilesScaleBy)
	argument("SumsCall.OStride", tilesOutStep)
	SHLQ(Imm(2), tilesOutStep)
	spillArgument("SumsCall.O", p.outNext)
	argument("SumsCall.V", tilesPanel)
	argument("SumsCall.Panels", tilesLeft)
	p.firstTurn()

	Comment("Two panels for all rows: both stay in the L1 cache, and so do the inputs.")
	Label("panels")
	p.second(valueStride)
	MOVQ(p.outNext, tilesOut)
	argument("SumsCall.W", tilesRow)
	argument("SumsCall.F", tilesScale)
	spillArgument("SumsCall.Rows", p.rowsLeft)
	LEAQ(Mem{Base: tilesPanel, Disp: panelsAhead}, tilesTemp)
	MOVQ(tilesTemp, p.ahead)
	Label("rows")
	p.request()
	argument("SumsCall.Steps", tilesTemp)
	for halves := 1; halves < mostHalves; halves++ {
		CMPQ(tilesTemp, U32(halves*tileInputs))
		JLE(LabelRef(halvesLabel(halves)))
	}
	for halves := mostHalves; halves >= 1; halves-- {
		Label(halvesLabel(halves))
		p.products(halves)
		if halves > 1 {
			JMP(LabelRef("multiplied"))
		}
	}
	Label("multiplied")
	CMPQ(p.pending, Imm(0))
	JEQ(LabelRef("turned"))
	p.outputs("previous")
	Label("turned")
	p.keep()
	MOVQ(tilesScale, p.lastScale)
	p.turn()

	Comment("The next rows.")
	for _, next := range []struct{ step, at reg.Register }{{tilesRowStep, tilesRow},
		{tilesScaleBy, tilesScale}, {tilesOutStep, tilesOut}} {
		MOVQ(p.rows, tilesTemp)
		IMULQ(next.step, tilesTemp)
		ADDQ(tilesTemp, next.at)
	}
	MOVQ(p.rows, tilesTemp)
	SUBQ(tilesTemp, p.rowsLeft)
	JG(LabelRef("rows"))
	ADDQ(imm(2*panelBytes), p.outNext)
	LEAQ(Mem{Base: tilesPanel, Index: tilesSecond, Scale: 2}, tilesPanel)
	SUBQ(Imm(2), tilesLeft)
	JG(LabelRef("panels"))
	p.outputs("last")
	tileRelease()
	VZEROUPPER()
	RET()
}

// panelsAhead is how many bytes ahead panels are requested, four of them or more. Most are a page,
// where the processor stops; within it, it goes on by itself from every fourth line.
const panelsAhead = 4 * 256 * 16

const requestBytes = 4 * 64 // of which one line is requested

// share finds how many requests come with each tile of rows, in fours.
func (p *tilesProgram) share() {
	tiles := tilesOut
	Comment("Two panels have 32 bytes for each input.")
	argument("SumsCall.Rows", tiles)
	ADDQ(Imm(rowsOfTile-1), tiles)
	SHRQ(Imm(4), tiles)
	argument("SumsCall.Steps", tilesTemp)
	ADDQ(Imm(4*requestBytes/32-1), tilesTemp)
	SHRQ(Imm(5), tilesTemp)
	ADDQ(tiles, tilesTemp)
	DECQ(tilesTemp)
	XORL(reg.EDX, reg.EDX)
	DIVQ(tiles)
	Comment("One tile of rows waits for memory whatever is requested.")
	CMPQ(tiles, Imm(1))
	JG(LabelRef("requests"))
	XORL(tilesTemp.As32(), tilesTemp.As32())
	Label("requests")
	MOVQ(tilesTemp, p.fours)
}

// request requests a share of the panels ahead.
func (p *tilesProgram) request() {
	at, left := tilesTemp, tilesLine
	MOVQ(p.ahead, at)
	MOVQ(p.fours, left)
	TESTQ(left, left)
	JEQ(LabelRef("requested"))
	Label("request")
	for i := range 4 {
		PREFETCHT1(Mem{Base: at, Disp: requestBytes * i})
	}
	ADDQ(imm(4*requestBytes), at)
	DECQ(left)
	JNE(LabelRef("request"))
	MOVQ(at, p.ahead)
	Label("requested")
	MOVQ(U32(64), tilesLine)
}

func halvesLabel(halves int) string {
	return []string{"", "one", "twoHalves", "three", "four"}[halves]
}

// savedRegister is a register that is used for something else meanwhile.
type savedRegister struct {
	register reg.Register
	slot     Mem
}

// turn switches to the other buffer of sums.
func (p *tilesProgram) turn() {
	LEAQ(p.sums.Offset(63), tilesTemp)
	ANDQ(I32(-64), tilesTemp)
	LEAQ(Mem{Base: tilesTemp, Disp: turnBytes, Index: tilesTemp, Scale: 1}, tilesTemp)
	SUBQ(tilesTurn, tilesTemp)
	MOVQ(tilesTemp, tilesTurn)
}

// products multiplies the current rows by two panels, with halves tiles of inputs each.
func (p *tilesProgram) products(halves int) {
	for h := range halves {
		group := tile(h / 2)
		first, second := tileSums+2*group, tileSums+2*group+1
		if h%2 == 0 {
			tileZero(first)
			tileZero(second)
		}
		row, column := tileRow, tilePanel
		if h == halves-1 {
			row, column = tileRest, tileEnding
		}
		tileLoad(Mem{Base: tilesRow, Index: tilesRowStep, Scale: 1, Disp: h * tileInputs}, row)
		tileLoad(Mem{Base: tilesPanel, Index: tilesLine, Scale: 1, Disp: h * tileBytes}, column)
		signedDot.add(column, row, first)
		if h == 0 {
			LEAQ(Mem{Base: tilesPanel, Index: tilesSecond, Scale: 1}, tilesTemp)
		}
		tileLoad(Mem{Base: tilesTemp, Index: tilesLine, Scale: 1, Disp: h * tileBytes}, column)
		signedDot.add(column, row, second)
		if h%2 == 1 || h == halves-1 {
			at := 2 * int(group) * tileBytes
			tileStore(first, Mem{Base: tilesTurn, Index: tilesLine, Scale: 1, Disp: at})
			tileStore(second, Mem{Base: tilesTurn, Index: tilesLine, Scale: 1, Disp: at + tileBytes})
		}
	}
}

// outputs adds the sums of the turn before to outputs, if there was one. It changes registers that
// the caller's loop has, and brings them back.
func (p *tilesProgram) outputs(name string) {
	sums, out, second, scale, left := tilesTemp, tilesPanel, tilesSecond, tilesScale, tilesLeft
	saved := []savedRegister{{tilesPanel, p.panel}, {tilesSecond, p.panelStep}, {tilesScale, p.out},
		{tilesLeft, p.panels}}
	for _, s := range saved {
		MOVQ(s.register, s.slot)
	}
	MOVQ(p.lastTurn, sums)
	MOVQ(p.lastOut, out)
	MOVQ(p.lastScale, scale)
	MOVQ(p.rows, left)
	p.lastSecondOutput(name, second)
	CMPQ(p.inputs, imm(int8Group))
	JG(LabelRef(name + "Both"))
	for _, groups := range []int{1, 2} {
		loop := name + []string{"", "One", "Two"}[groups]
		if groups == 2 {
			Label(name + "Both")
		}
		Label(loop)
		o := [2]Mem{{Base: out}, {Base: out, Index: second, Scale: 1}}
		for i := range 2 {
			VMOVUPS_Z(o[i], reg.K1, zmm[i])
		}
		for g := range groups {
			VBROADCASTSS(Mem{Base: scale, Disp: 4 * g}, zmm[2])
			for i := range 2 {
				VCVTDQ2PS(Mem{Base: sums, Disp: (2*g + i) * tileBytes}, zmm[3+i])
				VFMADD231PS(zmm[2], zmm[3+i], zmm[i])
			}
		}
		for i := range 2 {
			VMOVUPS(zmm[i], o[i])
		}
		ADDQ(tilesLine, sums)
		ADDQ(tilesOutStep, out)
		ADDQ(tilesScaleBy, scale)
		DECQ(left)
		JNE(LabelRef(loop))
		if groups == 1 {
			JMP(LabelRef(name + "Done"))
		}
	}
	Label(name + "Done")
	for _, s := range saved {
		MOVQ(s.slot, s.register)
	}
}
