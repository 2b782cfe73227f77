package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Instructions of AMX, which neither Go's assembler nor avo knows: they are written as
// little-endian words of their bytes, with a comment that says what they mean. A test compares the
// comments with a disassembler.

// tile is the number of a tile register, 0 to 7.
type tile int

// The opcodes, and which of the four prefixes goes with them.
const (
	opTileConfig = 0x49
	opTileMove   = 0x4b
	opTileDot    = 0x5e
	opTilePairs  = 0x5c

	prefixNone = 0
	prefix66   = 1
	prefixF3   = 2
	prefixF2   = 3
)

// tileConfig makes tiles of the sizes that 64 bytes of memory say.
func tileConfig(from Mem) {
	emitVEX(opTileConfig, prefixNone, 0, 0, from, fmt.Sprintf("ldtilecfg %s", amxAddress(from)))
}

// tileRelease gives the tiles back.
func tileRelease() { emitVEXRegister(opTileConfig, prefixNone, 0, 0, 0, "tilerelease") }

// tileZero makes a tile zero.
func tileZero(t tile) {
	emitVEXRegister(opTileConfig, prefixF2, int(t), 0, 0, fmt.Sprintf("tilezero tmm%d", t))
}

// tileLoad loads a tile; its rows are as far apart as the index register says.
func tileLoad(from Mem, t tile) {
	emitVEX(opTileMove, prefixF2, int(t), 0, from,
		fmt.Sprintf("tileloadd tmm%d, %s", t, amxAddress(from)))
}

// tileStore stores a tile likewise.
func tileStore(t tile, to Mem) {
	emitVEX(opTileMove, prefixF3, int(t), 0, to,
		fmt.Sprintf("tilestored %s, tmm%d", amxAddress(to), t))
}

// tileDot is an instruction that adds products of four bytes, or of pairs of bfloat16: of a, rows
// of them, and b, rows of groups of four bytes for each column.
type tileDot struct {
	name           string
	opcode, prefix int
}

var (
	signedDot   = tileDot{"tdpbssd", opTileDot, prefixF2} // both have signs
	unsignedDot = tileDot{"tdpbusd", opTileDot, prefix66} // b has signs, a has none

	// a has signs, b has none
	signedByUnsigned = tileDot{"tdpbsud", opTileDot, prefixF3}

	pairDot = tileDot{"tdpbf16ps", opTilePairs, prefixF3}
)

// add adds products of a and b to sum.
func (d tileDot) add(b, a, sum tile) {
	emitVEXRegister(d.opcode, d.prefix, int(sum), int(a), int(b),
		fmt.Sprintf("%s tmm%d, tmm%d, tmm%d", d.name, sum, a, b))
}

// Numbers of general registers in instructions.
var registerNumbers = map[reg.Register]int{
	reg.RAX: 0, reg.RCX: 1, reg.RDX: 2, reg.RBX: 3, reg.RSP: 4, reg.RSI: 6, reg.RDI: 7,
	reg.R8: 8, reg.R9: 9, reg.R10: 10, reg.R11: 11, reg.R12: 12, reg.R13: 13,
}

var registerNames = map[reg.Register]string{
	reg.RAX: "rax", reg.RCX: "rcx", reg.RDX: "rdx", reg.RBX: "rbx", reg.RSP: "rsp", reg.RSI: "rsi",
	reg.RDI: "rdi", reg.R8: "r8", reg.R9: "r9", reg.R10: "r10", reg.R11: "r11", reg.R12: "r12",
	reg.R13: "r13",
}

// amxAddress is an operand in memory as the disassembler writes it.
func amxAddress(m Mem) string {
	text := registerNames[m.Base]
	if m.Index != nil {
		text += " + " + registerNames[m.Index]
	}
	if m.Disp != 0 {
		text += fmt.Sprintf(" + %d", m.Disp)
	}
	return "[" + text + "]"
}

// vex is the three bytes that an instruction begins with, and its opcode.
func vex(opcode, prefix, index, base, second int) []byte {
	inverted := func(bit int) byte { return byte(1 - bit>>3&1) }
	return []byte{0xc4, 1<<7 | inverted(index)<<6 | inverted(base)<<5 | 2,
		byte(^second&15)<<3 | byte(prefix), byte(opcode)}
}

// emitVEX emits an instruction with an operand in memory, with a displacement of 32 bits.
func emitVEX(opcode, prefix, first, second int, m Mem, text string) {
	const disp32, sib = 2 << 6, 4
	base, ok := registerNumbers[m.Base]
	index, ofIndex := 0, false
	if m.Index != nil {
		index, ofIndex = registerNumbers[m.Index]
		ok = ok && ofIndex && m.Scale == 1
	} else {
		ok = ok && base&7 != sib
	}
	if !ok {
		panic(fmt.Sprintf("%v is no address of a tile", m))
	}
	code := vex(opcode, prefix, index, base, second)
	if ofIndex {
		code = append(code, byte(disp32|first<<3|sib), byte(index&7<<3|base&7))
	} else {
		code = append(code, byte(disp32|first<<3|base&7))
	}
	for i := range 4 {
		code = append(code, byte(m.Disp>>(8*i)))
	}
	emitWords(code, text)
}

// emitVEXRegister emits an instruction without one.
func emitVEXRegister(opcode, prefix, first, second, third int, text string) {
	// The operands are, in the order that the manual has: modrm.reg, modrm.rm, vvvv.
	code := vex(opcode, prefix, 0, 0, third)
	emitWords(append(code, byte(3<<6|first<<3|second)), text)
}

// emitWords writes bytes as words of four, two and one.
func emitWords(code []byte, text string) {
	Comment(text)
	for len(code) > 0 {
		n, opcode := 4, "LONG"
		if len(code) < 4 {
			n, opcode = 2, "WORD"
		}
		if len(code) < 2 {
			n, opcode = 1, "BYTE"
		}
		word := uint64(0)
		for i := range n {
			word |= uint64(code[i]) << (8 * i)
		}
		Instruction(&ir.Instruction{Opcode: opcode, Operands: []Op{Imm(word)}})
		code = code[n:]
	}
}
