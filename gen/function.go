package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The parts of a function besides its instructions: flags, arguments, stack slots, labels, its end.

// Flags of TEXT.
const (
	noSplit    = 4 // no check that the stack is large enough: for small frames
	growsStack = 0 // with the check: for frames that are too large to go without
)

// param loads an argument.
func param(name string) reg.GPVirtual {
	r := GP64()
	Load(Param(name), r)
	return r
}

// spill stores an argument in a stack slot, by way of a0.
func spill(name string, slot Mem) {
	Load(Param(name), a0)
	MOVQ(a0, slot)
}

// context is the signature of kernels whose only argument x points to a struct; the Go package of
// the kernel declares it.
const context = "func(x *uintptr)"

// argument loads a field of that struct, "blockCall.rows".
func argument(name string, to reg.Register) {
	Load(Param("x"), to)
	MOVQ(fieldOf(to, name), to)
}

// argumentOf is argument with a register of its own.
func argumentOf(name string) reg.GPVirtual {
	r := GP64()
	argument(name, r)
	return r
}

// spillArgument stores such a field in a stack slot, by way of a0.
func spillArgument(name string, slot Mem) {
	argument(name, a0)
	MOVQ(a0, slot)
}

// compareArgument compares such a field of one byte with 0, by way of a register.
func compareArgument(name string, by reg.Register) {
	Load(Param("x"), by)
	CMPB(fieldOf(by, name), Imm(0))
}

// broadcastParam loads a float argument into all lanes.
func broadcastParam(name string) reg.VecVirtual {
	v := YMM()
	VBROADCASTSS(paramAddress(name), v)
	return v
}

// paramAddress is where a parameter lies.
func paramAddress(name string) Mem {
	m, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return m.Addr
}

// returnFloat stores lane 0 as the result. Avo's Store would use MOVSS, a legacy SSE instruction,
// while the upper halves of registers are in use.
func returnFloat(x reg.VecVirtual) {
	result, err := ReturnIndex(0).Resolve()
	if err != nil {
		panic(err)
	}
	VMOVSS(x.AsX(), result.Addr)
}

// stackSlots gives each of the slots 8 bytes of the frame.
func stackSlots(slots ...*Mem) {
	frame := AllocLocal(8 * len(slots))
	for i, slot := range slots {
		*slot = frame.Offset(8 * i)
	}
}

// move copies a stack slot, by way of a0.
func move(from, to Mem) {
	MOVQ(from, a0)
	MOVQ(a0, to)
}

// finish returns.
func finish() {
	VZEROUPPER()
	RET()
}

var labels int

// unique makes a label that no other call has made.
func unique(name string) string {
	labels++
	return fmt.Sprintf("%s%d", name, labels)
}
