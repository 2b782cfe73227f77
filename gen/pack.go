package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// packKeysKernel transposes 8 keys × 8 dimensions at once in registers, and copies the remaining
// dimensions and keys element by element.
func packKeysKernel() {
	TEXT("packKeysSIMD", noSplit, "func(dst, k *float32, stride, n, d int, inOrder bool)")
	dst, k, stride, n := param("dst"), param("k"), param("stride"), param("n")
	SHLQ(Imm(2), stride)
	d := AllocLocal(8)
	dim := GP64()
	Load(Param("d"), dim)
	MOVQ(dim, d)
	touchAll(k, stride, n, dim)
	octet := GP64() // 0 or 1: the half of the panel
	XORQ(octet, octet)

	Comment("Eight keys at a time.")
	Label("octets")
	CMPQ(n, Imm(8))
	JL(LabelRef("single"))
	p3, p6, out, left := GP64(), GP64(), GP64(), GP64()
	LEAQ(Mem{Base: k, Index: stride, Scale: 2}, p3)
	ADDQ(stride, p3)
	LEAQ(Mem{Base: p3, Index: stride, Scale: 2}, p6)
	ADDQ(stride, p6)
	MOVQ(dst, out)
	MOVQ(d, left)
	SUBQ(Imm(8), left)
	JL(LabelRef("dims"))
	Label("block")
	for x := 0; x < 8; x += 4 {
		columns := transpose4(movedBy(rowAddress(k, p3, p6, stride), 4*x))
		for i, v := range columns {
			VMOVUPS(v, Mem{Base: out, Disp: (x + i) * panelBytes})
		}
	}
	ADDQ(imm(8*panelBytes), out)
	for _, p := range []reg.GPVirtual{k, p3, p6} {
		ADDQ(imm(vector), p)
	}
	SUBQ(Imm(8), left)
	JGE(LabelRef("block"))
	Label("dims")
	ADDQ(Imm(8), left)
	JE(LabelRef("octetDone"))
	Label("dim")
	e := GP32()
	address := rowAddress(k, p3, p6, stride)
	for r := range 8 {
		MOVL(address(r), e)
		MOVL(e, Mem{Base: out, Disp: 4 * r})
	}
	ADDQ(imm(panelBytes), out)
	for _, p := range []reg.GPVirtual{k, p3, p6} {
		ADDQ(Imm(4), p)
	}
	DECQ(left)
	JNE(LabelRef("dim"))
	Label("octetDone")
	Comment("The next 8 keys: p6 is at row 6, so row 8 is two strides on.")
	MOVQ(d, left)
	SHLQ(Imm(2), left)
	SUBQ(left, p6)
	LEAQ(Mem{Base: p6, Index: stride, Scale: 2}, k)
	SUBQ(Imm(8), n)
	nextHalf("octets", dst, octet, d, left)

	Comment("Single keys, in a panel or half of zeros. dst points at it.")
	Label("single")
	lane := GP64()
	MOVQ(octet, lane)
	SHLQ(Imm(3), lane) // lanes of the panel that are done
	total := GP64()
	MOVQ(lane, total)
	ADDQ(n, total)
	TESTQ(total, total)
	JE(LabelRef("end"))
	zero := YMM()
	VXORPS(zero, zero, zero)
	MOVQ(dst, out)
	MOVQ(d, left)
	TESTQ(lane, lane)
	JNE(LabelRef("clearHalf"))
	Label("clear")
	VMOVUPS(zero, Mem{Base: out})
	VMOVUPS(zero, Mem{Base: out, Disp: vector})
	ADDQ(imm(panelBytes), out)
	DECQ(left)
	JNE(LabelRef("clear"))
	JMP(LabelRef("cleared"))
	Label("clearHalf")
	VMOVUPS(zero, Mem{Base: out})
	ADDQ(imm(panelBytes), out)
	DECQ(left)
	JNE(LabelRef("clearHalf"))
	Label("cleared")
	Label("key")
	TESTQ(n, n)
	JE(LabelRef("end"))
	MOVQ(dst, out)
	MOVQ(d, left)
	MOVQ(k, p3)
	Label("element")
	MOVL(Mem{Base: p3}, e)
	MOVL(e, Mem{Base: out})
	ADDQ(Imm(4), p3)
	ADDQ(imm(panelBytes), out)
	DECQ(left)
	JNE(LabelRef("element"))
	ADDQ(stride, k)
	DECQ(n)
	ADDQ(Imm(4), dst)
	JMP(LabelRef("key"))
	Label("end")
	finish()
}

// nextHalf moves dst to the other half of the panel or to the next panel, and jumps back to loop.
func nextHalf(loop string, dst, octet reg.GPVirtual, d Mem, tmp reg.GPVirtual) {
	XORQ(Imm(1), octet)
	JE(LabelRef("nextPanel"))
	ADDQ(imm(vector), dst)
	JMP(LabelRef(loop))
	Label("nextPanel")
	MOVQ(d, tmp)
	SHLQ(Imm(6), tmp)
	LEAQ(Mem{Base: dst, Index: tmp, Scale: 1, Disp: -vector}, dst)
	JMP(LabelRef(loop))
}

// packValuesKernel copies column by column of panels. The columns of the last
// panel that do not exist become 0: a masked load reads them so.
func packValuesKernel() {
	TEXT("packValuesSIMD", noSplit, "func(dst, v *float32, stride, n, d int, inOrder bool)")
	dst, v, stride, n, d := param("dst"), param("v"), param("stride"), param("n"), param("d")
	SHLQ(Imm(2), stride)
	touchAll(v, stride, n, d)
	copyPanel := func(name string, mask [2]reg.VecVirtual) {
		in, out, left := GP64(), GP64(), GP64()
		MOVQ(v, in)
		MOVQ(dst, out)
		MOVQ(n, left)
		Label(name)
		a, b := YMM(), YMM()
		loadLanes(Mem{Base: in}, mask[0], a)
		loadLanes(Mem{Base: in, Disp: vector}, mask[1], b)
		VMOVUPS(a, Mem{Base: out})
		VMOVUPS(b, Mem{Base: out, Disp: vector})
		ADDQ(stride, in)
		ADDQ(imm(panelBytes), out)
		DECQ(left)
		JNE(LabelRef(name))
	}
	Label("panels")
	CMPQ(d, Imm(panel))
	JL(LabelRef("last"))
	copyPanel("row", [2]reg.VecVirtual{})
	ADDQ(imm(panelBytes), v)
	ADDQ(imm(block*panelBytes), dst)
	SUBQ(imm(panel), d)
	JMP(LabelRef("panels"))
	Label("last")
	TESTQ(d, d)
	JE(LabelRef("end"))
	low, high := GP64(), GP64()
	eight := GP64()
	MOVQ(U32(lanes), eight)
	MOVQ(d, low)
	CMPQ(low, eight)
	CMOVQGT(eight, low)
	MOVQ(d, high)
	SUBQ(low, high)
	copyPanel("lastRow", [2]reg.VecVirtual{tailMask(low), tailMask(high)})
	Label("end")
	finish()
}
