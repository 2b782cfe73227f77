package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

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

func broadcastParam(name string) reg.VecVirtual {
	v := YMM()
	m, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(m.Addr, v)
	return v
}

// returnFloat stores lane 0 as the result. Avo's Store would take MOVSS, a
// legacy SSE instruction, while the upper halves of registers are in use.
func returnFloat(x reg.VecVirtual) {
	result, err := ReturnIndex(0).Resolve()
	if err != nil {
		panic(err)
	}
	VMOVSS(x.AsX(), result.Addr)
}

// move copies a stack slot.
func move(from, to Mem) {
	MOVQ(from, a0)
	MOVQ(a0, to)
}

func finish() {
	VZEROUPPER()
	RET()
}

var labels int

func unique(name string) string {
	labels++
	return fmt.Sprintf("%s%d", name, labels)
}
