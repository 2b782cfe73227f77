package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Products by blocks of GGUF by tiles of AMX: one instruction multiplies 16 rows of 32 inputs by 16
// outputs. Its sums go to memory and are converted to floats from there; the floats that they are
// added to stay in registers.
//
// While tiles are in use, and some 500 cycles longer, a Sapphire Rapids begins one operation on 16
// floats a cycle and not two. If there are few such operations for each sum, it is still best to
// overlap them with the products of the next blocks; otherwise to do them after the products of all
// blocks.
//
// Sums of halves of blocks are not here: twice as many tiles for the same products are slower than
// VPDPBUSD.

// multiplyAMX are these products.
var multiplyAMX = []blockTiles{
	{name: "multiplyPlainAMX", sums: plainSums, beside: true},
	{name: "multiplyScaledAMX", sums: scaledSums, beside: true},
	{name: "multiplyMinimaAMX", sums: minimaSums},
	{name: "multiplyOffsetAMX", sums: offsetSums},
	{name: "multiplyPairsAMX", sums: pairsSums},
}

// blockTilesKernels emits them.
func blockTilesKernels() {
	for _, t := range multiplyAMX {
		t.emit()
	}
}

// Tiles: sums, rows and weights.
const (
	blockTileSums tile = 0
	blockTileRows tile = 1
	blockTilePart tile = 2
)

// Registers by role. Row r of a tile is addressed by pointer r/3.
var (
	blockTilePointers = [...]reg.Register{reg.RSI, reg.R9, reg.R10, reg.R11, reg.R12, reg.R13}
	blockTileStride   = reg.RDX // bytes between rows
	blockTileW        = reg.RBX // current weights
	blockTileLine     = reg.RCX // bytes between rows of sums and weights, 64
	blockTileLeft     = reg.RAX // blocks left
	blockTileNow      = reg.RDI // sums of the current block
	blockTileNext     = reg.R8  // where the next ones go
)

// blockTiles emits one kernel.
type blockTiles struct {
	name   string
	sums   blockSums
	beside bool // floats are computed between products

	o, a, rows, panels, w, out Mem // stack slots: the current addresses, and panels and rows left
}

// emit walks over rows and panels.
func (t *blockTiles) emit() {
	TEXT(t.name, noSplit, context)
	stackSlots(&t.o, &t.a, &t.rows, &t.panels, &t.w, &t.out)
	spillArgument("blockCall.o", t.o)
	spillArgument("blockCall.a", t.a)
	spillArgument("blockCall.rows", t.rows)
	Comment("Ones where outputs are added to, zeros where they are overwritten.")
	MOVL(U32(0xffff), reg.EAX)
	compareArgument("blockCall.overwrite", blockTileNext)
	JE(LabelRef("kept"))
	XORL(reg.EAX, reg.EAX)
	Label("kept")
	KMOVW(reg.EAX, reg.K1)
	LEAQ(blockTileSizes(), reg.RAX)
	tileConfig(Mem{Base: reg.RAX})
	argument("blockCall.aStride", blockTileStride)
	IMUL3Q(imm(blockRowSize), blockTileStride, blockTileStride)
	MOVQ(U32(64), blockTileLine)

	Label("rows")
	spillArgument("blockCall.panels", t.panels)
	spillArgument("blockCall.w", t.w)
	move(t.o, t.out)
	Label("panel")
	if t.beside {
		t.together()
	} else {
		t.apart()
	}
	argument("blockCall.wStride", blockTileNext)
	ADDQ(blockTileNext, t.w)
	ADDQ(imm(panelBytes), t.out)
	DECQ(t.panels)
	JNE(LabelRef("panel"))
	MOVQ(blockTileStride, blockTileNext)
	SHLQ(Imm(4), blockTileNext)
	ADDQ(blockTileNext, t.a)
	argument("blockCall.oStride", blockTileNext)
	SHLQ(Imm(6), blockTileNext)
	ADDQ(blockTileNext, t.o)
	SUBQ(Imm(rowsOfTile), t.rows)
	JG(LabelRef("rows"))
	tileRelease()
	VZEROUPPER()
	RET()
}

// blockTileSizes are the sizes of the tiles: palette 1, bytes of rows, rows.
func blockTileSizes() Mem {
	var sizes [64]byte
	sizes[0] = 1
	for t, size := range map[tile][2]byte{blockTileSums: {panelBytes, rowsOfTile},
		blockTileRows: {32, rowsOfTile}, blockTilePart: {panelBytes, 8}} {
		sizes[16+2*t], sizes[48+t] = size[0], size[1]
	}
	var x [16]uint32
	for i, e := range sizes {
		x[i/4] |= uint32(e) << (8 * (i % 4))
	}
	return wordTable("blockTileSizes", x[:]...)
}

// apart makes the sums of all blocks, and then floats of them.
func (t *blockTiles) apart() {
	t.point(1)
	Label("products")
	t.load(0)
	t.dot()
	t.store(blockTileNow)
	t.advance(1)
	ADDQ(imm(tileBytes), blockTileNow)
	DECQ(blockTileLeft)
	JNE(LabelRef("products"))
	t.outputs(func(i int, o Mem) { VMOVUPS_Z(o, reg.K1, zmm[i]) })
	t.point(len(blockTilePointers))
	Label("block")
	t.floats()
	t.advance(len(blockTilePointers))
	ADDQ(imm(tileBytes), blockTileNow)
	DECQ(blockTileLeft)
	JNE(LabelRef("block"))
	t.outputs(func(i int, o Mem) { VMOVUPS(zmm[i], o) })
}

// together converts the sums of a block to floats while the sums of the next block are stored, the
// block after that is multiplied and a third is loaded. Sums alternate between two buffers.
func (t *blockTiles) together() {
	t.outputs(func(i int, o Mem) { VMOVUPS_Z(o, reg.K1, zmm[i]) })
	t.point(len(blockTilePointers))
	LEAQ(Mem{Base: blockTileNow, Disp: tileBytes}, blockTileNext)
	t.load(0)
	t.dot()
	t.store(blockTileNow)
	CMPQ(blockTileLeft, Imm(2))
	JL(LabelRef("block"))
	t.load(1)
	t.dot()
	CMPQ(blockTileLeft, Imm(3))
	JL(LabelRef("block"))
	t.load(2)
	Label("block")
	for ahead, step := range []func(){func() { t.store(blockTileNext) }, t.dot,
		func() { t.load(3) }} {
		CMPQ(blockTileLeft, imm(2+ahead))
		JL(LabelRef("last"))
		step()
	}
	Label("last")
	t.floats()
	t.advance(len(blockTilePointers))
	XORQ(blockTileNext, blockTileNow)
	XORQ(blockTileNow, blockTileNext)
	XORQ(blockTileNext, blockTileNow)
	DECQ(blockTileLeft)
	JNE(LabelRef("block"))
	t.outputs(func(i int, o Mem) { VMOVUPS(zmm[i], o) })
}

// point begins with the first block, with some pointers at rows.
func (t *blockTiles) point(pointers int) {
	MOVQ(t.a, blockTilePointers[0])
	for i := 1; i < pointers; i++ {
		LEAQ(Mem{Base: blockTilePointers[i-1], Index: blockTileStride, Scale: 2}, blockTilePointers[i])
		ADDQ(blockTileStride, blockTilePointers[i])
	}
	MOVQ(t.w, blockTileW)
	argument("blockCall.blocks", blockTileLeft)
	argument("blockCall.sums", blockTileNow)
}

// advance goes on to the next block.
func (t *blockTiles) advance(pointers int) {
	for _, p := range blockTilePointers[:pointers] {
		ADDQ(imm(blockRowSize), p)
	}
	ADDQ(imm(t.sums.size()), blockTileW)
}

// outputs visits the outputs of the current rows.
func (t *blockTiles) outputs(use func(i int, o Mem)) {
	o, stride := blockTilePointers[0].(reg.GPPhysical), blockTilePointers[1].(reg.GPPhysical)
	MOVQ(t.out, o)
	argument("blockCall.oStride", stride)
	SHLQ(Imm(2), stride)
	for i := range rowsOfTile {
		use(i, Mem{Base: o})
		ADDQ(stride, o)
	}
}

// load loads a block after the current one.
func (t *blockTiles) load(ahead int) {
	tileLoad(Mem{Base: blockTilePointers[0], Index: blockTileStride, Scale: 1,
		Disp: ahead * blockRowSize}, blockTileRows)
	tileLoad(Mem{Base: blockTileW, Index: blockTileLine, Scale: 1, Disp: ahead * t.sums.size()},
		blockTilePart)
}

// dot multiplies the loaded tiles.
func (t *blockTiles) dot() {
	tileZero(blockTileSums)
	signedByUnsigned.add(blockTilePart, blockTileRows, blockTileSums)
}

func (t *blockTiles) store(to reg.Register) {
	tileStore(blockTileSums, Mem{Base: to, Index: blockTileLine, Scale: 1})
}

// row addresses a field of the current inputs of a row.
func (t *blockTiles) row(r, field int) Mem {
	m := Mem{Base: blockTilePointers[r/3], Disp: field}
	if r%3 > 0 {
		m.Index, m.Scale = blockTileStride, uint8(r%3)
	}
	return m
}

// floats adds the sums of the current block.
func (t *blockTiles) floats() {
	scales := zmm[rowsOfTile:][:blockVectors[t.sums]]
	for i, v := range scales {
		VMOVUPS(Mem{Base: blockTileW, Disp: blockUnpacked + i*panelBytes}, v)
		if t.sums == minimaSums && i >= 2 {
			VCVTDQ2PS(v, v)
		}
	}
	free := zmm[rowsOfTile+len(scales):]
	for i := range rowsOfTile {
		x, ad := free[i%4], free[4+i%4]
		add := func(d int, fma func(ops ...Op)) {
			VMULPS_BCST(t.row(i, blockRowScale), scales[d], ad)
			fma(ad, x, zmm[i])
		}
		from := Mem{Base: blockTileNow, Disp: panelBytes * i}
		switch t.sums {
		case plainSums, scaledSums:
			VMOVDQU32(from, x)
			VPADDD_BCST(t.row(i, blockRowStart), x, x)
			VCVTDQ2PS(x, x)
			if t.sums == scaledSums {
				VMULPS(scales[1], x, x) // exact
			}
		case minimaSums:
			VCVTDQ2PS(from, x)
			VMULPS(scales[2], x, x) // exact
		default:
			VCVTDQ2PS(from, x)
		}
		add(0, VFMADD231PS)
		switch t.sums {
		case minimaSums:
			VCVTDQ2PS_BCST(t.row(i, blockRowSum), x)
			VMULPS(scales[3], x, x) // exact
			add(1, VFNMADD231PS)
		case offsetSums:
			VCVTDQ2PS_BCST(t.row(i, blockRowSum), x)
			add(1, VFMADD231PS)
		case pairsSums:
			VPBROADCASTD(t.row(i, blockRowPairs), x)
			VPMADDWD(scales[2], x, x)
			VPSRAD(Imm(3), x, x) // minus the minima times the sums
			VCVTDQ2PS(x, x)
			add(1, VFMADD231PS)
		}
	}
}
