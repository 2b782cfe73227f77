package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Products by blocks of GGUF (internal/blocks) in two steps. Unpacking makes of each 32 inputs of
// 16 outputs bytes without sign in groups of four inputs, as integers of I8 lie, followed by
// vectors of float32 that are their scales; multiplying meets these with rows of blockRow.

// blockUnpacked is the bytes of 32 inputs of 16 outputs, blockVectors the vectors of scales after
// them.
const blockUnpacked = 32 * panel

var blockVectors = map[blockSums]int{plainSums: 1, minimaSums: 4, halvesSums: 4, offsetSums: 2,
	scaledSums: 2, pairsSums: 3, floatsSums: 2, singleSums: 3,
	oddSums: 3}

// apart reports whether sums of halves meet as floats.
func (s blockSums) apart() bool { return s == halvesSums || s == oddSums }

func (s blockSums) size() int { return blockUnpacked + blockVectors[s]*panelBytes }

// Bytes of blockRow, and where its fields are.
const (
	blockRowScale = 32
	blockRowStart = 36
	blockRowHalf  = 40
	blockRowSum   = 48
	blockRowPairs = 52
	blockRowSize  = 56
)

// blockKernels emits everything over blocks.
func blockKernels() {
	for _, k := range multiplyVNNI {
		multiplyBlocksVNNI(k.avx512, k.sums)
	}
	for _, k := range multiplyAVX2 {
		multiplyBlocksAVX2(k)
	}
	for _, k := range multiplyVNNI {
		multiplyBlocksAVX2(blockSums8{name: k.simd, sums: k.sums})
	}
	sumBlocksKernel()
	unpackKernels()
	fewRowsKernels()
	blockPairsKernels()
	roundedKernels()
}

// sizes returns the numbers of rows of tiles: with sums of halves a row needs three vectors, else
// two. Only the sums of most types have tiles of more than 8 rows: the others are a few per cent
// slower without, and shorter. Callers have multiples of 4 rows; blocks_few.go handles the rest.
func (s blockSums) sizes() tileSizes {
	switch s { // which not all CPUs have kernels of few rows for
	case singleSums:
		return tileSizes{1, 4, 8, 12}
	case oddSums:
		return tileSizes{1, 4, 8}
	}
	if s == plainSums || s == minimaSums {
		return tileSizes{4, 8, 12}
	}
	return tileSizes{4, 8}
}

// multiplyBlocksVNNI emits products of rows by one panel.
func multiplyBlocksVNNI(name string, sums blockSums) {
	blockRows(name, sums.sizes(), func(r int, blocks Mem) {
		t := blockTile{sums: sums, rows: r}
		t.emit(blocks)
	})
}

// blockRows emits a kernel that computes some rows at a time.
func blockRows(name string, sizes tileSizes, rowTile func(r int, blocks Mem)) {
	TEXT(name, noSplit, context)
	var blocks Mem
	stackSlots(&blocks)
	Load(Param("x"), a0)
	MOVQ(fieldOf(a0, "blockCall.blocks"), b0)
	MOVQ(b0, blocks)
	MOVQ(fieldOf(a0, "blockCall.o"), cPtr)
	MOVQ(fieldOf(a0, "blockCall.a"), aPtr)
	MOVQ(fieldOf(a0, "blockCall.rows"), b0)
	MOVQ(fieldOf(a0, "blockCall.oStride"), bStride)
	SHLQ(Imm(2), bStride)
	MOVQ(fieldOf(a0, "blockCall.aStride"), aStride)
	IMUL3Q(imm(blockRowSize), aStride, aStride)
	name = unique("rows")
	label := func(r int) string { return tileLabel(name+"Tile", r) }
	Label(name)
	sizes.choose(b0, label, name+"End")
	for _, r := range sizes {
		Label(label(r))
		Commentf("%d rows.", r)
		rowTile(r, blocks)
		SUBQ(imm(r), b0)
		IMUL3Q(imm(r), aStride, a0)
		ADDQ(a0, aPtr)
		IMUL3Q(imm(r), bStride, a0)
		ADDQ(a0, cPtr)
		JMP(LabelRef(name))
	}
	Label(name + "End")
	VZEROUPPER()
	RET()
}

// blockTile is some rows by a panel.
type blockTile struct {
	sums blockSums
	rows int
}

func (t *blockTile) sum(i int) reg.VecPhysical { return zmm[i] }
func (t *blockTile) acc(i int) reg.VecPhysical { return zmm[t.rows+i] }

// free are registers that no sum is in.
func (t *blockTile) free() []reg.VecPhysical {
	if t.sums.apart() {
		return zmm[3*t.rows:]
	}
	return zmm[2*t.rows:]
}

// first is the sum of first halves times their scale.
func (t *blockTile) first(i int) reg.VecPhysical { return zmm[2*t.rows+i] }

// emit walks over the blocks.
func (t *blockTile) emit(blocks Mem) {
	loop, w := unique("block"), avx512Temp
	t.begin()
	pointAtRows(aPtr, aStride, t.rows)
	argument("blockCall.w", w)
	MOVQ(blocks, stepsLeft)
	Label(loop)
	t.block(w)
	for i := 0; i < t.rows; i += 3 {
		ADDQ(imm(blockRowSize), avx512RowPointers[i/3])
	}
	ADDQ(imm(t.sums.size()), w)
	DECQ(stepsLeft)
	JNE(LabelRef(loop))
	pointAtRows(cPtr, bStride, t.rows)
	for i := range t.rows {
		VMOVUPS(t.sum(i), avx512Row(i, bStride, 0))
	}
}

// begin loads sums, or makes them 0.
func (t *blockTile) begin() {
	load, ready := unique("load"), unique("ready")
	compareArgument("blockCall.overwrite", avx512Temp)
	JE(LabelRef(load))
	for i := range t.rows {
		VPXORD(t.sum(i), t.sum(i), t.sum(i))
	}
	JMP(LabelRef(ready))
	Label(load)
	pointAtRows(cPtr, bStride, t.rows)
	for i := range t.rows {
		VMOVUPS(avx512Row(i, bStride, 0), t.sum(i))
	}
	Label(ready)
}

// scales addresses a vector of scales.
func (t *blockTile) scales(w reg.Register, i int) Mem {
	return Mem{Base: w, Disp: blockUnpacked + i*panelBytes}
}

// block adds a block.
func (t *blockTile) block(w reg.Register) {
	switch t.sums {
	case halvesSums, oddSums:
		t.products(w, 0, 4, blockRowHalf)
		free := t.free()
		VMOVUPS(t.scales(w, 1), free[1])
		for i := range t.rows {
			VCVTDQ2PS(t.acc(i), t.acc(i))
			VMULPS(free[1], t.acc(i), t.first(i))
		}
		t.products(w, 4, 8, blockRowHalf+4)
		VMOVUPS(t.scales(w, 2), free[1])
		for i := range t.rows {
			VCVTDQ2PS(t.acc(i), t.acc(i))
			VFMADD132PS(free[1], t.first(i), t.acc(i))
		}
	case minimaSums:
		t.products(w, 0, 8, 0)
		scale := t.free()[1]
		VMOVUPS(t.scales(w, 2), scale)
		for i := range t.rows { // in integers: units that add products are busy enough
			VPMULLD(scale, t.acc(i), t.acc(i))
			VCVTDQ2PS(t.acc(i), t.acc(i))
		}
	case floatsSums:
		t.products(w, 0, 4, blockRowHalf)
		t.floats()
		t.add(w, 0, VFMADD231PS)
		t.products(w, 4, 8, blockRowHalf+4)
		t.floats()
		t.add(w, 1, VFMADD231PS)
		return
	case offsetSums, pairsSums:
		t.products(w, 0, 8, 0)
		t.floats()
	default:
		t.products(w, 0, 8, blockRowStart)
		t.floats()
		if t.sums == scaledSums || t.sums == singleSums {
			scale := t.free()[1]
			VMOVUPS(t.scales(w, 1), scale)
			for i := range t.rows {
				VMULPS(scale, t.acc(i), t.acc(i)) // exact
			}
		}
	}
	t.add(w, 0, VFMADD231PS)
	t.less(w)
}

// floats makes floats of sums of products.
func (t *blockTile) floats() {
	for i := range t.rows {
		VCVTDQ2PS(t.acc(i), t.acc(i))
	}
}

// less adds the products by the sums of the inputs.
func (t *blockTile) less(w reg.Register) {
	least := t.free()[1]
	switch t.sums {
	case minimaSums:
		VMOVUPS(t.scales(w, 3), least)
		for i := range t.rows {
			VPMULLD_BCST(avx512Row(i, aStride, blockRowSum), least, t.acc(i))
			VCVTDQ2PS(t.acc(i), t.acc(i))
		}
		t.add(w, 1, VFNMADD231PS)
	case offsetSums:
		for i := range t.rows {
			VCVTDQ2PS_BCST(avx512Row(i, aStride, blockRowSum), t.acc(i))
		}
		t.add(w, 1, VFMADD231PS)
	case pairsSums:
		VMOVUPS(t.scales(w, 2), least)
		for i := range t.rows {
			acc := t.acc(i)
			VPBROADCASTD(avx512Row(i, aStride, blockRowPairs), acc)
			VPMADDWD(least, acc, acc)
			VPSRAD(Imm(3), acc, acc) // minus the minima times the sums
			VCVTDQ2PS(acc, acc)
		}
		t.add(w, 1, VFMADD231PS)
	}
}

// add adds floats times a·d, of which d is a vector of scales.
func (t *blockTile) add(w reg.Register, scales int, fma func(ops ...Op)) {
	free := t.free()
	d, ad := free[1], free[0]
	VMOVUPS(t.scales(w, scales), d)
	for i := range t.rows {
		VMULPS_BCST(avx512Row(i, aStride, blockRowScale), d, ad)
		fma(ad, t.acc(i), t.sum(i))
	}
}

// products multiplies groups of four inputs. Sums begin with a field of blockRow, or 0.
func (t *blockTile) products(w reg.Register, first, end, start int) {
	weights := t.free()[:2]
	for i := range t.rows {
		if start == 0 {
			VPXORD(t.acc(i), t.acc(i), t.acc(i))
		} else {
			VPBROADCASTD(avx512Row(i, aStride, start), t.acc(i))
			if t.sums == oddSums { // 128 was added, not 32
				VPSLLD(Imm(2), t.acc(i), t.acc(i))
			}
		}
	}
	for g := first; g < end; g++ {
		VMOVDQU32(Mem{Base: w, Disp: g * panelBytes}, weights[g%2])
		for i := range t.rows {
			vnniAdd("VPDPBUSD.BCST", avx512Row(i, aStride, 4*g), weights[g%2], t.acc(i))
		}
	}
}
