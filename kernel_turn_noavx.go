//go:build !amd64 || purego

package attn

import "github.com/seed-1415985d/attn/internal/operand"

// turnsTyped reports whether there are kernels of turnHalves and turnGroups.
func turnsTyped() bool { return false }

// turnFloatsStep turns squares as keys are packed, a call for each.
func turnFloatsStep(dst, k *float32, stride, squares, panels int) {
	for p := range panels {
		for j := range squares {
			to, from := operand.At(dst, (p*Block+j*panel)*panel), operand.At(k, p*panel*panel+j*stride)
			packKeysSIMD(to, from, panel, panel, panel, false)
		}
	}
}

func turnHalvesSIMD(dst, k *uint16, stride, squares, panels int) { panic(onlyAMD64) }
func turnGroupsSIMD(dst, k *byte, stride, groups int)            { panic(onlyAMD64) }
