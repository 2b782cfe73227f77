// Package neon writes Go assembly for arm64: one method per instruction, typed
// operands, destination first as in Arm's own notation.
//
// Where Go's assembler knows an instruction, its mnemonic is written. Where it
// does not (most of vector floating point), the method encodes the word itself
// and writes it with the decoded text in a comment, which a test compares with
// an independent disassembler. To add an instruction of the second kind, find
// its encoding with all registers 0, add a method to words.go and a line to the
// table of neon_test.go.
//
// An operand out of range is a mistake in a program, so methods panic.
package neon

import "fmt"

// Vec is a 128-bit vector register, V0 to V31.
type Vec uint8

// Reg is a 64-bit general register. There are no constants for the registers
// that assembly functions must leave alone: R18 (platform), R27 (assembler),
// R28 (g), R29 (frame pointer), R30 (link) and R31.
type Reg uint8

// The general registers that programs may use.
const (
	R0  Reg = 0
	R1  Reg = 1
	R2  Reg = 2
	R3  Reg = 3
	R4  Reg = 4
	R5  Reg = 5
	R6  Reg = 6
	R7  Reg = 7
	R8  Reg = 8
	R9  Reg = 9
	R10 Reg = 10
	R11 Reg = 11
	R12 Reg = 12
	R13 Reg = 13
	R14 Reg = 14
	R15 Reg = 15
	R16 Reg = 16
	R17 Reg = 17
	R19 Reg = 19
	R20 Reg = 20
	R21 Reg = 21
	R22 Reg = 22
	R23 Reg = 23
	R24 Reg = 24
	R25 Reg = 25
	R26 Reg = 26
)

func (v Vec) check() {
	if v > 31 {
		panic(fmt.Sprintf("neon: vector register %d, want 0 to 31", uint8(v)))
	}
}

func (r Reg) check() {
	if r > 26 || r == 18 {
		panic(fmt.Sprintf("neon: general register R%d is reserved", uint8(r)))
	}
}

// String is the register's name in Go assembly.
func (r Reg) String() string {
	r.check()
	return fmt.Sprintf("R%d", uint8(r))
}

// String is the register's name in Go assembly.
func (v Vec) String() string {
	v.check()
	return fmt.Sprintf("V%d", uint8(v))
}

// f is the vector register's name as an operand of scalar instructions.
func (v Vec) f() string {
	v.check()
	return fmt.Sprintf("F%d", uint8(v))
}

// between panics unless lo ≤ x ≤ hi and x is a multiple of step.
func between(what string, x, lo, hi, step int) {
	if x < lo || x > hi || x%step != 0 {
		panic(fmt.Sprintf("neon: %s is %d, want a multiple of %d from %d to %d", what, x, step, lo, hi))
	}
}
