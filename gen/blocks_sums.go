package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// sumBlocksKernel finds sums of the integers of blockRows.
func sumBlocksKernel() {
	TEXT("sumBlocksSIMD", noSplit, "func(rows *byte, scales *float32, n int)")
	rows, scales, n := param("rows"), param("scales"), param("n")
	ones, words, zero := constant(u32(0x01010101)), constant(u32(0x00010001)), YMM()
	VPXOR(zero, zero, zero)
	factors := XMM()
	VMOVDQU(words128(), factors)
	Label("row")
	sums := YMM()
	VMOVDQU(Mem{Base: rows}, sums)
	VPMADDUBSW(sums, ones, sums)
	VPMADDWD(words, sums, sums)
	VPHADDD(sums, sums, sums)
	VPHADDD(sums, sums, sums) // the sum of each half
	second, both, halves, scaled := XMM(), XMM(), XMM(), XMM()
	VEXTRACTI128(Imm(1), sums, second)
	VPADDD(second, sums.AsX(), both)
	VPUNPCKLDQ(second, sums.AsX(), halves)
	VPSHUFD(Imm(0), both, scaled)
	shuffled := XMM()
	VPSHUFD(Imm(0x10), halves, shuffled) // of which lanes 1 and 2 are the halves
	VPBLENDD(Imm(0b0110), shuffled, scaled, scaled)
	VPMULLD(factors, scaled, scaled)
	VMOVDQU(scaled, Mem{Base: rows, Disp: blockRowStart})
	VPSLLD(Imm(3), halves, halves)
	VPSUBD(halves, zero.AsX(), halves)
	VPSHUFLW(Imm(0x08), halves, halves)
	VMOVD(halves, Mem{Base: rows, Disp: blockRowPairs})
	scale := GP32()
	MOVL(Mem{Base: scales}, scale)
	MOVL(scale, Mem{Base: rows, Disp: blockRowScale})
	ADDQ(Imm(4), scales)
	ADDQ(imm(blockRowSize), rows)
	DECQ(n)
	JNE(LabelRef("row"))
	finish()
}

// words128 holds the factors of the sum, of the sums of the halves, and of the sum again.
func words128() Mem {
	const minus128, minus32 = 1<<32 - 128, 1<<32 - 32
	return wordTable("blockSumFactors", minus128, minus32, minus32, 1)
}
