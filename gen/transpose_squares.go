package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Keys to values (kernel_typed.go): squares of 16 channels × 16 keys are transposed, all squares of
// the same channels one after another, so that the writes are consecutive.

// transposeKernel transposes squares: a row of 16 keys becomes a column.
func transposeKernel(name, element string, size int, square func(k, dst reg.GPVirtual)) {
	TEXT(name, noSplit, "func(dst, k *"+element+", stride, squares, panels int)")
	dst, k, stride := param("dst"), param("k"), param("stride")
	squares, panels := param("squares"), param("panels")
	from, to, left := GP64(), GP64(), GP64()
	IMUL3Q(imm(size), stride, stride)
	Label("panels")
	MOVQ(k, from)
	MOVQ(dst, to)
	MOVQ(squares, left)
	Label("squares")
	square(from, to)
	ADDQ(stride, from)
	ADDQ(imm(panel*panel*size), to)
	DECQ(left)
	JNE(LabelRef("squares"))
	ADDQ(imm(panel*panel*size), k)
	ADDQ(imm(block*panel*size), dst)
	DECQ(panels)
	JNE(LabelRef("panels"))
	finish()
}

// transposeFloatsKernel: 8 channels × 4 keys at a time.
func transposeFloatsKernel() {
	transposeKernel("transposeFloatsSIMD", "float32", 4, func(k, dst reg.GPVirtual) {
		for half := range 2 {
			for key := 0; key < panel; key += 4 {
				columns := transpose4(func(r int) Mem {
					return Mem{Base: k, Disp: (half*lanes+r)*panelBytes + 4*key}
				})
				for i, v := range columns {
					VMOVUPS(v, Mem{Base: dst, Disp: (key+i)*panelBytes + half*vector})
				}
			}
		}
	})
}

// transposeFloatsAVX512Kernel: a whole square at a time, in registers of 16 keys.
func transposeFloatsAVX512Kernel() {
	transposeKernel("transposeFloatsAVX512", "float32", 4, func(k, dst reg.GPVirtual) {
		var v [panel]reg.VecPhysical
		spare, more := zmm[panel], zmm[panel+1:]
		for r := range v {
			v[r] = zmm[r]
			VMOVUPS(Mem{Base: k, Disp: r * panelBytes}, v[r])
		}
		v, spare = pairUp(v, spare, 1, VUNPCKLPS, VUNPCKHPS)
		v, _ = pairUp(v, spare, 2, VUNPCKLPD, VUNPCKHPD)
		// Quarter i of v[4c+j] has channels 4c to 4c+3 of key 4i+j.
		for j := range 4 {
			for odd, which := range []uint64{0x88, 0xdd} {
				a, b, key := more[0], more[1], more[2]
				VSHUFF32X4(Imm(which), v[4+j], v[j], a)
				VSHUFF32X4(Imm(which), v[12+j], v[8+j], b)
				for half, which := range []uint64{0x88, 0xdd} {
					VSHUFF32X4(Imm(which), b, a, key)
					VMOVUPS(key, Mem{Base: dst, Disp: (4*(odd+2*half) + j) * panelBytes})
				}
			}
		}
	})
}

// pairUp interleaves registers that are one or two apart, and needs a spare one. Its results have
// two or four keys of each quarter in ascending order.
func pairUp(v [panel]reg.VecPhysical, spare reg.VecPhysical, apart int,
	low, high func(ops ...Op)) (out [panel]reg.VecPhysical, rest reg.VecPhysical) {
	for i, x := range v {
		if i&apart != 0 {
			continue
		}
		y := v[i+apart]
		low(y, x, spare)
		high(y, x, y)
		to := i/(2*apart)*(2*apart) + 2*(i%apart)
		out[to], out[to+1], spare = spare, y, x
	}
	return out, spare
}

// transposeHalvesKernel: 8 channels × 16 keys at a time, of which a register has 8 in each half.
func transposeHalvesKernel() {
	const row = 2 * panel // bytes
	transposeKernel("transposeHalvesSIMD", "uint16", 2, func(k, dst reg.GPVirtual) {
		for half := range 2 {
			var v [8]reg.VecVirtual
			for r := range v {
				v[r] = YMM()
				VMOVDQU(Mem{Base: k, Disp: (half*8 + r) * row}, v[r])
			}
			v = unpackPairs(v, VPUNPCKLWD, VPUNPCKHWD) // two channels
			v = unpackPairs(v, VPUNPCKLDQ, VPUNPCKHDQ) // four
			v = unpackPairs(v, VPUNPCKLQDQ, VPUNPCKHQDQ)
			for i, e := range v {
				key := [8]int{0, 4, 2, 6, 1, 5, 3, 7}[i]
				VMOVDQU(e.AsX(), Mem{Base: dst, Disp: key*row + 16*half})
				VEXTRACTI128(Imm(1), e, Mem{Base: dst, Disp: (key+8)*row + 16*half})
			}
		}
	})
}

// unpackPairs interleaves registers in pairs of neighbours: their low parts go to the first half of
// the result, their high parts to the second. After three times there is a register for each of 8
// keys, in bit-reversed order.
func unpackPairs(v [8]reg.VecVirtual, low, high func(ops ...Op)) (out [8]reg.VecVirtual) {
	for i := range 4 {
		out[i], out[i+4] = YMM(), YMM()
		low(v[2*i+1], v[2*i], out[i])
		high(v[2*i+1], v[2*i], out[i+4])
	}
	return out
}

// transposeGroupsKernel brings groups of four channels of each of 16 keys to the order of groups of
// four keys: in each quarter of 64 bytes, 4 keys × 4 channels are transposed.
func transposeGroupsKernel() {
	TEXT("transposeGroupsSIMD", noSplit, "func(dst, k *byte, stride, groups int)")
	dst, k, stride, groups := param("dst"), param("k"), param("stride"), param("groups")
	third, order := GP64(), YMM() // strides; which bytes of four rows of four follow each other
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, third)
	VMOVDQU(transposedBytes(), order)
	load := func(group int) (low, high reg.VecVirtual) {
		low, high = YMM(), YMM()
		VMOVDQU(Mem{Base: k, Disp: group * 2 * vector}, low)
		VMOVDQU(Mem{Base: k, Disp: group*2*vector + vector}, high)
		VPSHUFB(order, low, low)
		VPSHUFB(order, high, high)
		return low, high
	}
	rows := [4]Mem{{Base: dst}, {Base: dst, Index: stride, Scale: 1},
		{Base: dst, Index: stride, Scale: 2}, {Base: dst, Index: third, Scale: 1}}
	SUBQ(Imm(2), groups)
	JL(LabelRef("last"))
	Comment("Two groups at a time: what they have of the same keys is side by side.")
	Label("pairs")
	low, high := load(0)
	nextLow, nextHigh := load(1)
	for r, pair := range [2][2]reg.VecVirtual{{low, nextLow}, {high, nextHigh}} {
		for half := range 2 {
			both := YMM()
			VPERM2I128(Imm(uint64(0x20+0x11*half)), pair[1], pair[0], both)
			VMOVDQU(both, rows[2*r+half])
		}
	}
	ADDQ(imm(4*vector), k)
	ADDQ(imm(vector), dst)
	SUBQ(Imm(2), groups)
	JGE(LabelRef("pairs"))
	Label("last")
	ADDQ(Imm(2), groups)
	JE(LabelRef("end"))
	low, high = load(0)
	for r, v := range [2]reg.VecVirtual{low, high} {
		VMOVDQU(v.AsX(), rows[2*r])
		VEXTRACTI128(Imm(1), v, rows[2*r+1])
	}
	Label("end")
	finish()
}
