package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Products in bfloat16 by tiles of AMX: TDPBF16PS adds to 16 × 16 sums the products of 32 inputs,
// in the order of sums over pairs. Two panels stay in the L1 cache for all rows, 32 of which are
// multiplied side by side, so that four sums wait for nobody; meanwhile the panels that follow are
// requested.

// pairTilesKernels emits everything by tiles.
func pairTilesKernels() {
	multiplyPairTilesKernel()
	finishPairTilesKernel()
}

// Tiles: sums of two times 16 rows by two panels, then rows and panels.
const (
	pairTileRow   tile = 4
	pairTilePanel tile = 6
)

// Registers by role.
var (
	pairTilesA       = reg.RSI // rows at hand
	pairTilesAStep   = reg.RDX // bytes from a group of inputs to the next
	pairTilesV       = reg.RBX // panel at hand
	pairTilesSecond  = reg.R13 // bytes from it to the second one
	pairTilesLine    = reg.RCX // bytes between rows of tiles, 64
	pairTilesSums    = reg.RDI // sums of the rows at hand
	pairTilesRows    = reg.R9  // rows left
	pairTilesStrip   = reg.R8  // where the rows at hand begin
	pairTilesNext    = reg.R10 // what is requested next
	pairTilesRequest = reg.R11 // pairs of lines that are requested with each group
	pairTilesGroups  = reg.R12 // groups left
	pairTilesTemp    = reg.RAX
)

// multiplyPairTilesKernel emits sums of some parts of inputs. Sums of rows that there are not are
// of any value.
func multiplyPairTilesKernel() {
	TEXT("multiplyPairTilesAMX", noSplit, context)
	config := AllocLocal(64)
	var a, v, parts, fresh Mem
	stackSlots(&a, &v, &parts, &fresh)
	Comment("All tiles have 16 rows of 64 bytes.")
	zero, bytes, rows := reg.X0, reg.X1, reg.X2
	VPXOR(zero, zero, zero)
	VMOVDQU(u32(64|64<<16), bytes)
	VMOVDQU(u32(rowsOfTile*0x01010101), rows)
	VMOVDQU(zero, config)
	VMOVDQU(bytes, config.Offset(16))
	VMOVDQU(zero, config.Offset(32))
	VMOVDQU(zero, config.Offset(48))
	VMOVQ(rows, config.Offset(48))
	MOVB(Imm(1), config)
	LEAQ(config, pairTilesTemp)
	tileConfig(Mem{Base: pairTilesTemp})
	spillArgument("TileCall.A", a)
	spillArgument("TileCall.V", v)
	spillArgument("TileCall.Parts", parts)
	argument("TileCall.AStep", pairTilesAStep)
	argument("TileCall.Second", pairTilesSecond)
	Load(Param("x"), pairTilesTemp)
	MOVBQZX(fieldOf(pairTilesTemp, "TileCall.Begin"), pairTilesTemp)
	MOVQ(pairTilesTemp, fresh)
	MOVQ(U32(64), pairTilesLine)

	Label("part")
	argument("TileCall.Request", pairTilesRequest)
	argument("TileCall.PartStride", pairTilesNext)
	ADDQ(v, pairTilesNext)
	CMPQ(parts, Imm(1))
	JNE(LabelRef("following"))
	argument("TileCall.Next", pairTilesNext)
	TESTQ(pairTilesNext, pairTilesNext)
	JNE(LabelRef("following"))
	XORL(pairTilesRequest.As32(), pairTilesRequest.As32())
	Label("following")
	argument("TileCall.Sums", pairTilesSums)
	argument("TileCall.Rows", pairTilesRows)
	MOVQ(a, pairTilesStrip)
	Label("rows")
	CMPQ(pairTilesRows, Imm(rowsOfTile))
	JLE(LabelRef("few"))
	pairTilesProducts("many", 2, v, fresh)
	JMP(LabelRef("multiplied"))
	Label("few")
	pairTilesProducts("one", 1, v, fresh)
	Label("multiplied")
	ADDQ(imm(4*tileBytes), pairTilesSums)
	ADDQ(imm(2*tileBytes), pairTilesStrip)
	SUBQ(Imm(2*rowsOfTile), pairTilesRows)
	JG(LabelRef("rows"))

	Comment("The next part.")
	argument("TileCall.Groups", pairTilesTemp)
	IMULQ(pairTilesAStep, pairTilesTemp)
	ADDQ(pairTilesTemp, a)
	argument("TileCall.PartStride", pairTilesTemp)
	ADDQ(pairTilesTemp, v)
	MOVQ(U32(0), pairTilesTemp)
	MOVQ(pairTilesTemp, fresh)
	DECQ(parts)
	JNE(LabelRef("part"))
	tileRelease()
	VZEROUPPER()
	RET()
}

// pairTilesProducts adds the products of a part for one or two times 16 rows.
func pairTilesProducts(name string, strips int, v, fresh Mem) {
	sum := func(strip, second int) (tile, Mem) {
		n := 2*strip + second
		return tile(n), Mem{Base: pairTilesSums, Index: pairTilesLine, Scale: 1, Disp: n * tileBytes}
	}
	each := func(f func(t tile, m Mem)) {
		for strip := range strips {
			for second := range 2 {
				f(sum(strip, second))
			}
		}
	}
	CMPQ(fresh, Imm(0))
	JE(LabelRef(name + "Load"))
	each(func(t tile, _ Mem) { tileZero(t) })
	JMP(LabelRef(name + "Begun"))
	Label(name + "Load")
	each(func(t tile, m Mem) { tileLoad(m, t) })
	Label(name + "Begun")
	MOVQ(pairTilesStrip, pairTilesA)
	MOVQ(v, pairTilesV)
	argument("TileCall.Groups", pairTilesGroups)
	Label(name + "Group")
	tileLoad(Mem{Base: pairTilesA, Index: pairTilesLine, Scale: 1}, pairTileRow)
	tileLoad(Mem{Base: pairTilesV, Index: pairTilesLine, Scale: 1}, pairTilePanel)
	pairDot.add(pairTilePanel, pairTileRow, 0)
	MOVQ(pairTilesRequest, pairTilesTemp)
	TESTQ(pairTilesTemp, pairTilesTemp)
	JE(LabelRef(name + "Requested"))
	Label(name + "Request")
	PREFETCHT1(Mem{Base: pairTilesNext})
	PREFETCHT1(Mem{Base: pairTilesNext, Disp: lineBytes})
	ADDQ(imm(2*lineBytes), pairTilesNext)
	DECQ(pairTilesTemp)
	JNE(LabelRef(name + "Request"))
	Label(name + "Requested")
	LEAQ(Mem{Base: pairTilesV, Index: pairTilesSecond, Scale: 1}, pairTilesTemp)
	tileLoad(Mem{Base: pairTilesTemp, Index: pairTilesLine, Scale: 1}, pairTilePanel+1)
	pairDot.add(pairTilePanel+1, pairTileRow, 1)
	if strips == 2 {
		tileLoad(Mem{Base: pairTilesA, Index: pairTilesLine, Scale: 1, Disp: tileBytes}, pairTileRow+1)
		pairDot.add(pairTilePanel, pairTileRow+1, 2)
		pairDot.add(pairTilePanel+1, pairTileRow+1, 3)
	}
	ADDQ(pairTilesAStep, pairTilesA)
	ADDQ(imm(tileBytes), pairTilesV)
	DECQ(pairTilesGroups)
	JNE(LabelRef(name + "Group"))
	each(func(t tile, m Mem) { tileStore(t, m) })
}

// finishPairTilesKernel copies sums of tiles to outputs, +0 added.
func finishPairTilesKernel() {
	TEXT("finishPairTilesAVX512", noSplit, "func(o, sums *float32, rows, cols, oStride int)")
	out, sums, rows, left := reg.RDI, reg.RSI, reg.R8, reg.R9
	stride, temp := reg.R10, reg.RAX
	Load(Param("o"), out)
	Load(Param("sums"), sums)
	Load(Param("rows"), rows)
	Load(Param("cols"), reg.RCX)
	Load(Param("oStride"), stride)
	SHLQ(Imm(2), stride)
	Comment("Masks of the columns of both panels.")
	MOVQ(U32(1), temp)
	SHLQ(reg.CL, temp)
	DECQ(temp)
	KMOVW(temp.As32(), reg.K1)
	SHRQ(Imm(16), temp)
	KMOVW(temp.As32(), reg.K2)
	VPXORD(reg.Z0, reg.Z0, reg.Z0)
	Label("strip")
	MOVQ(U32(rowsOfTile), left)
	CMPQ(rows, left)
	JGE(LabelRef("row"))
	MOVQ(rows, left)
	Label("row")
	VADDPS(Mem{Base: sums}, reg.Z0, reg.Z1)
	VADDPS(Mem{Base: sums, Disp: tileBytes}, reg.Z0, reg.Z2)
	VMOVUPS(reg.Z1, reg.K1, Mem{Base: out})
	VMOVUPS(reg.Z2, reg.K2, Mem{Base: out, Disp: avx512Vector})
	ADDQ(imm(avx512Vector), sums)
	ADDQ(stride, out)
	DECQ(left)
	JNE(LabelRef("row"))
	ADDQ(imm(tileBytes), sums)
	SUBQ(Imm(rowsOfTile), rows)
	JG(LabelRef("strip"))
	VZEROUPPER()
	RET()
}
