package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Instructions of AVX-VNNI, which add products to sums of 32 bytes. Go's assembler knows them in
// EVEX form only, for CPUs with AVX-512: of 32 bytes a file has macros in their place, of words in
// VEX form, each defined once above its kernels. A test asks a disassembler what they are.

// vexVNNI are the opcodes, by mnemonic.
var vexVNNI = map[string]int{"VPDPBUSD": 0x50, "VPDPWSSD": 0x52}

// ofVNNI is one of 32 bytes as avo writes it, with the registers' numbers: two factors, of which
// VPDPBUSD takes bytes with sign from the first and without sign from the second, and the sum.
var ofVNNI = regexp.MustCompile(`(?m)^\t(VPDPBUSD|VPDPWSSD) Y(\d+), Y(\d+), Y(\d+)$`)

// withVEX puts macros in the place of instructions of AVX-VNNI, and defines them.
func withVEX(text []byte) []byte {
	defined := map[string]bool{}
	text = ofVNNI.ReplaceAllFunc(text, func(line []byte) []byte {
		m := ofVNNI.FindSubmatch(line)
		var registers [3]int
		for i := range registers {
			registers[i], _ = strconv.Atoi(string(m[2+i]))
		}
		name, words := macroVNNI(string(m[1]), registers)
		defined[fmt.Sprintf("#define %s %s\n", name, words)] = true
		return []byte("\t" + name)
	})
	var lines []string
	for line := range defined {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	const above = "#include \"textflag.h\"\n"
	before, after, found := strings.Cut(string(text), above)
	if len(lines) == 0 || !found {
		return text
	}
	return []byte(before + above + "\n" + strings.Join(lines, "") + after)
}

// macroVNNI is the macro of an instruction, and its words with what a disassembler reads in them.
func macroVNNI(mnemonic string, registers [3]int) (name, words string) {
	signed, unsigned, sum := registers[0], registers[1], registers[2]
	if max(signed, unsigned, sum) >= len(ymm) {
		panic(fmt.Sprintf("%s has registers %v: one is the runtime's", mnemonic, registers))
	}
	inverted := func(x, bit int) byte { return byte(1 - x>>bit&1) }
	const ymmLength = 1 << 2
	code := []byte{0xc4, inverted(sum, 3)<<7 | 1<<6 | inverted(signed, 3)<<5 | 2,
		byte(^unsigned&15)<<3 | ymmLength | prefix66, byte(vexVNNI[mnemonic]),
		byte(3<<6 | sum&7<<3 | signed&7)}
	name = fmt.Sprintf("%s_%d_%d_%d", mnemonic, signed, unsigned, sum)
	return name, fmt.Sprintf("LONG $0x%02x%02x%02x%02x; BYTE $0x%02x // %s ymm%d, ymm%d, ymm%d",
		code[3], code[2], code[1], code[0], code[4], strings.ToLower(mnemonic), sum, unsigned, signed)
}
