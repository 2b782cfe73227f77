package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Products by blocks with AVX2. VPMADDUBSW multiplies bytes without sign by the inputs and adds two
// products, of 16 bits. If the bytes are small, the products of several groups of four inputs fit
// in 16 bits: all eight groups for integers up to 15, four up to 31, two up to 63. Then VPMADDWD
// adds pairs and multiplies by their scale.
//
// Signed bytes become magnitudes, and their signs move to the inputs: VPMADDUBSW's sum of two
// products is at most 2·128·127, which fits.

// With AVX-VNNI the products of all groups are added in 32 bits. Bytes are unsigned, as in the
// kernels with 16 lanes, and the sums start with the correction for that.

// blockSums8 is a kernel: how sums of products are scaled, and how many groups of four inputs are
// added in words, 1 for signed bytes, 0 with AVX-VNNI. Bytes of plain sums had 128 >> shift added.
type blockSums8 struct {
	name  string
	sums  blockSums
	words int
	shift uint64
}

// sizes returns the number of rows of a tile: each needs two vectors of sums, and two more if there
// are several words. Callers have multiples of it; blocks_few.go handles the rest.
func (s *blockSums8) sizes() tileSizes {
	switch {
	case s.sums == singleSums, s.sums == oddSums && s.words == 1:
		return tileSizes{1, 4}
	case s.sums == oddSums:
		return tileSizes{1, 3}
	case s.words == 8 || s.words == 1 || s.words == 0 && s.sums != halvesSums:
		return tileSizes{4}
	}
	return tileSizes{3}
}

func multiplyBlocksAVX2(s blockSums8) {
	blockRows(s.name, s.sizes(), func(r int, blocks Mem) {
		t := blockTile8{blockSums8: s, rows: r}
		t.emit(blocks)
	})
}

// blockTile8 multiplies some rows by a panel; their sums are in memory.
type blockTile8 struct {
	blockSums8
	rows int
}

// Pointers to outputs: of row 0, and of row 3.
var blockOutputs = [2]reg.Register{a6, a9}

func (t *blockTile8) output(i, v int) Mem {
	m := Mem{Base: blockOutputs[i/3], Disp: v * vector}
	if i%3 > 0 {
		m.Index, m.Scale = bStride, uint8(i%3)
	}
	return m
}

func (t *blockTile8) acc(i, v int) reg.VecPhysical { return ymm[2*i+v] }

// word is a sum of 16 bits.
func (t *blockTile8) word(i, v int) reg.VecPhysical {
	if t.words == 8 {
		return t.acc(i, v)
	}
	return ymm[2*t.rows+2*i+v]
}

// free are registers that no sum is in.
func (t *blockTile8) free() []reg.VecPhysical {
	if t.words == 8 || t.words == 1 || t.words == 0 && !t.sums.apart() {
		return ymm[2*t.rows:]
	}
	return ymm[4*t.rows:]
}

// afterwards are registers that are free when there are no words any more.
func (t *blockTile8) afterwards() []reg.VecPhysical { return ymm[2*t.rows:] }

// emit walks over the blocks.
func (t *blockTile8) emit(blocks Mem) {
	loop, ready, w := unique("block"), unique("ready"), avx512Temp
	MOVQ(cPtr, blockOutputs[0])
	LEAQ(Mem{Base: cPtr, Index: bStride, Scale: 2}, blockOutputs[1])
	ADDQ(bStride, blockOutputs[1])
	compareArgument("blockCall.overwrite", w)
	JE(LabelRef(ready))
	zero := t.free()[0]
	VPXOR(zero, zero, zero)
	for i := range t.rows {
		for v := range 2 {
			VMOVUPS(zero, t.output(i, v))
		}
	}
	Label(ready)
	if t.biased() {
		VPBROADCASTD(u32(sumBias), t.bias())
	}
	pointAtRows(aPtr, aStride, t.rows)
	argument("blockCall.w", w)
	MOVQ(blocks, stepsLeft)
	Label(loop)
	switch {
	case t.words == 0:
		t.dotProducts(w)
	case t.sums == floatsSums:
		for half := range 2 {
			for g := range 4 {
				t.group(w, 4*half+g)
			}
			t.endWords(w, 0)
			t.add(w, half)
		}
	case t.words == 1:
		t.signed(w)
		t.add(w, 0)
	default:
		t.unsigned(w)
		t.add(w, 0)
	}
	for i := 0; i < t.rows; i += 3 {
		ADDQ(imm(blockRowSize), avx512RowPointers[i/3])
	}
	ADDQ(imm(t.sums.size()), w)
	DECQ(stepsLeft)
	JNE(LabelRef(loop))
}

// Sums with AVX-VNNI start with the bits of a float32 whose last bit is 1. The final bits as a
// float, minus that float, equal a conversion of sums below 2²², but run in units that products
// leave free.
const sumBias = 0x4b400000 // 3·2²²

// biased reports whether they do: sums of halves leave no register for the bits.
func (t *blockTile8) biased() bool { return t.words == 0 && !t.sums.apart() }

func (t *blockTile8) bias() reg.VecPhysical { return ymm[len(ymm)-1] }

// floats makes floats of sums.
func (t *blockTile8) floats(sum reg.VecPhysical) {
	if t.biased() {
		VSUBPS(t.bias(), sum, sum)
		return
	}
	VCVTDQ2PS(sum, sum)
}

// dotProducts adds a block with AVX-VNNI.
func (t *blockTile8) dotProducts(w reg.Register) {
	switch t.sums {
	case floatsSums:
		for half := range 2 {
			t.dots(w, 4*half, 4*half+4, blockRowHalf+4*half)
			t.add(w, half)
		}
		return
	case halvesSums, oddSums:
		t.dots(w, 0, 4, blockRowHalf)
		scale := t.free()[0]
		for v := range 2 {
			t.scale(w, 1, v, scale)
			for i := range t.rows {
				t.floats(t.acc(i, v))
				VMULPS(scale, t.acc(i, v), t.word(i, v))
			}
		}
		t.dots(w, 4, 8, blockRowHalf+4)
		for v := range 2 {
			t.scale(w, 2, v, scale)
			for i := range t.rows {
				t.floats(t.acc(i, v))
				VFMADD213PS(t.word(i, v), scale, t.acc(i, v)) // an integer below 2²⁴
			}
		}
	case plainSums, scaledSums, singleSums:
		t.dots(w, 0, 8, blockRowStart)
	default:
		t.dots(w, 0, 8, 0)
	}
	t.add(w, 0)
}

// dots adds products of some groups with AVX-VNNI to a field of blockRow, or 0.
func (t *blockTile8) dots(w reg.Register, first, end, start int) {
	free := t.free()
	row, weights := free[0], free[1:3]
	for i := range t.rows {
		sum := t.acc(i, 0)
		switch {
		case start == 0:
			VMOVDQA(t.bias(), sum)
		case t.biased():
			VPBROADCASTD(avx512Row(i, aStride, start), sum)
			VPADDD(t.bias(), sum, sum)
		default:
			VPBROADCASTD(avx512Row(i, aStride, start), sum)
		}
		if t.sums == oddSums { // 128 was added, not 32
			VPSLLD(Imm(2), sum, sum)
		}
		VMOVDQA(sum, t.acc(i, 1))
	}
	for g := first; g < end; g++ {
		for v, x := range weights {
			VMOVDQU(Mem{Base: w, Disp: g*panelBytes + v*vector}, x)
		}
		for i := range t.rows {
			VPBROADCASTD(avx512Row(i, aStride, 4*g), row)
			for v, x := range weights {
				vnniAdd("VPDPBUSD", row, x, t.acc(i, v))
			}
		}
	}
}

// scale makes floats of scales that lie as pairs of words.
func (t *blockTile8) scale(w reg.Register, i, v int, to reg.VecPhysical) {
	VMOVDQU(t.scales(w, i, v), to)
	VPSRAD(Imm(16), to, to)
	VCVTDQ2PS(to, to)
}

// scales addresses a vector of scales.
func (t *blockTile8) scales(w reg.Register, i, v int) Mem {
	return Mem{Base: w, Disp: blockUnpacked + i*panelBytes + v*vector}
}

// factor addresses the factors of the words of a part of the groups.
func (t *blockTile8) factor(w reg.Register, part, v int) Mem {
	switch t.sums {
	case minimaSums:
		return t.scales(w, 2, v)
	case halvesSums:
		return t.scales(w, 1+part/2, v)
	}
	return u32(wordOnes)
}

// unsigned makes the sums of products by bytes without sign.
func (t *blockTile8) unsigned(w reg.Register) {
	for g := range 8 {
		t.group(w, g)
		if (g+1)%t.words == 0 {
			t.endWords(w, g/t.words)
		}
	}
}

// group adds products of a group to words.
func (t *blockTile8) group(w reg.Register, g int) {
	free := t.free()
	row, product, weights := free[0], free[1], free[2:min(4, len(free))]
	for at := 0; at < 2; at += len(weights) {
		for v, x := range weights {
			VMOVDQU(Mem{Base: w, Disp: g*panelBytes + (at+v)*vector}, x)
		}
		for i := range t.rows {
			VPBROADCASTD(avx512Row(i, aStride, 4*g), row)
			for v, x := range weights {
				word := t.word(i, at+v)
				if g%t.words == 0 {
					VPMADDUBSW(row, x, word)
					continue
				}
				VPMADDUBSW(row, x, product)
				VPADDW(product, word, word)
			}
		}
	}
}

// endWords adds words to sums, times a factor.
func (t *blockTile8) endWords(w reg.Register, part int) {
	product := t.free()[1]
	for i := range t.rows {
		for v := range 2 {
			if part == 0 {
				VPMADDWD(t.factor(w, part, v), t.word(i, v), t.acc(i, v))
				continue
			}
			VPMADDWD(t.factor(w, part, v), t.word(i, v), product)
			VPADDD(product, t.acc(i, v), t.acc(i, v))
		}
	}
}

// signed makes the sums of products by bytes with sign.
func (t *blockTile8) signed(w reg.Register) {
	free := t.free()
	weights, magnitudes, row, product, ones := free[:2], free[2:4], free[4], free[5], free[6]
	VPBROADCASTD(u32(wordOnes), ones)
	factor := func(g, v int) Op {
		if t.sums == oddSums {
			return t.scales(w, 1+g/4, v)
		}
		return ones
	}
	for g := range 8 {
		for v, x := range weights {
			VMOVDQU(Mem{Base: w, Disp: g*panelBytes + v*vector}, x)
			VPABSB(x, magnitudes[v])
		}
		for i := range t.rows {
			VPBROADCASTD(avx512Row(i, aStride, 4*g), row)
			for v, x := range weights {
				VPSIGNB(x, row, product)
				VPMADDUBSW(product, magnitudes[v], product)
				if g == 0 {
					VPMADDWD(factor(g, v), product, t.acc(i, v))
					continue
				}
				VPMADDWD(factor(g, v), product, product)
				VPADDD(product, t.acc(i, v), t.acc(i, v))
			}
		}
	}
}

// add adds floats of the sums, times a·d of a half, to the outputs.
func (t *blockTile8) add(w reg.Register, half int) {
	free := t.afterwards()
	a, x, y := free[0], free[1], free[2]
	pairs := map[blockSums]int{minimaSums: 2, singleSums: 1}[t.sums] // where scales are pairs
	if t.words > 0 {
		pairs = 0
	}
	if pairs > 0 {
		for v, scale := range free[4:6] {
			t.scale(w, pairs, v, scale)
		}
	}
	for i := range t.rows {
		t.correct(w, i, half, a, x)
		VBROADCASTSS(avx512Row(i, aStride, blockRowScale), a)
		for v := range 2 {
			sum := t.acc(i, v)
			if t.words > 0 || !t.sums.apart() { // which are floats already
				t.floats(sum)
			}
			switch {
			case t.sums == scaledSums:
				VMULPS(t.scales(w, 1, v), sum, sum) // exact
			case pairs > 0:
				VMULPS(free[4+v], sum, sum) // exact
			}
			VMULPS(t.scales(w, half, v), a, x)
			VFMADD213PS(t.output(i, v), x, sum)
		}
		t.less(w, i, a, x, y)
		for v := range 2 {
			VMOVUPS(t.acc(i, v), t.output(i, v))
		}
	}
}

// correct subtracts what was added to bytes.
func (t *blockTile8) correct(w reg.Register, i, half int, start, x reg.VecPhysical) {
	switch {
	case t.words == 0:
	case t.sums == floatsSums:
		VPBROADCASTD(avx512Row(i, aStride, blockRowHalf+4*half), start)
		VPSRAD(Imm(t.shift-2), start, start)
		for v := range 2 {
			VPADDD(start, t.acc(i, v), t.acc(i, v))
		}
	case t.sums == halvesSums:
		VPBROADCASTD(avx512Row(i, aStride, blockRowPairs), start)
		for v := range 2 {
			VPMADDWD(t.scales(w, 3, v), start, x)
			VPSLLD(Imm(2), x, x)
			VPADDD(x, t.acc(i, v), t.acc(i, v))
		}
	case t.shift > 0:
		VPBROADCASTD(avx512Row(i, aStride, blockRowStart), start)
		VPSRAD(Imm(t.shift), start, start)
		for v := range 2 {
			VPADDD(start, t.acc(i, v), t.acc(i, v))
		}
	}
}

// less subtracts the minima times the sum of the inputs, times a·dmin, or adds it times a·m.
func (t *blockTile8) less(w reg.Register, i int, a, x, y reg.VecPhysical) {
	sum := t.afterwards()[3]
	switch t.sums {
	case minimaSums:
		VPBROADCASTD(avx512Row(i, aStride, blockRowSum), sum)
		for v := range 2 {
			if t.words > 0 {
				VPMADDWD(t.scales(w, 3, v), sum, y)
			} else {
				VMOVDQU(t.scales(w, 3, v), x)
				VMOVDQA(t.bias(), y)
				vnniAdd("VPDPWSSD", x, sum, y)
			}
			t.floats(y)
			VMULPS(t.scales(w, 1, v), a, x)
			VFNMADD231PS(x, y, t.acc(i, v))
		}
	case offsetSums:
		VPBROADCASTD(avx512Row(i, aStride, blockRowSum), sum)
		VCVTDQ2PS(sum, sum)
		for v := range 2 {
			VMULPS(t.scales(w, 1, v), a, x)
			VFMADD231PS(x, sum, t.acc(i, v))
		}
	case pairsSums:
		VPBROADCASTD(avx512Row(i, aStride, blockRowPairs), sum)
		for v := range 2 {
			VPMADDWD(t.scales(w, 2, v), sum, y)
			VPSRAD(Imm(3), y, y) // minus the minima times the sums
			VCVTDQ2PS(y, y)
			VMULPS(t.scales(w, 1, v), a, x)
			VFMADD231PS(x, y, t.acc(i, v))
		}
	}
}
