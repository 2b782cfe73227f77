package main

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Instructions of AVX-VNNI, which add products to sums of 32 bytes. Go's assembler knows only their
// EVEX form, for CPUs with AVX-512. So a file has macros of words for the VEX forms of 32 bytes,
// each defined once above its kernels. A test compares them with a disassembler.

// vexVNNI are the opcodes, by mnemonic.
var vexVNNI = map[string]int{"VPDPBUSD": 0x50, "VPDPWSSD": 0x52}

// macroVNNI returns the macro of such an instruction, and its text: words with their disassembly.
// The operands are two factors and the sum; VPDPBUSD reads signed bytes from the first factor and
// unsigned bytes from the second.
func macroVNNI(i *ir.Instruction) (name, text string, ok bool) {
	opcode, ok := vexVNNI[i.Opcode]
	if !ok || !operand.IsYMM(i.Operands[1]) {
		return "", "", false
	}
	var registers [3]int
	for at, r := range i.Registers() {
		registers[at] = int(r.(reg.Physical).PhysicalIndex())
	}
	signed, unsigned, sum := registers[0], registers[1], registers[2]
	if max(signed, unsigned, sum) >= len(ymm) {
		panic(fmt.Sprintf("%s has registers %v: one is the runtime's", i.Opcode, registers))
	}
	inverted := func(x, bit int) byte { return byte(1 - x>>bit&1) }
	const ymmLength = 1 << 2
	code := []byte{0xc4, inverted(sum, 3)<<7 | 1<<6 | inverted(signed, 3)<<5 | 2,
		byte(^unsigned&15)<<3 | ymmLength | prefix66, byte(opcode),
		byte(3<<6 | sum&7<<3 | signed&7)}
	name = fmt.Sprintf("%s_%d_%d_%d", i.Opcode, signed, unsigned, sum)
	return name, fmt.Sprintf("LONG $0x%02x%02x%02x%02x; BYTE $0x%02x // %s ymm%d, ymm%d, ymm%d",
		code[3],
		code[2], code[1], code[0], code[4], strings.ToLower(i.Opcode), sum, unsigned, signed), true
}
