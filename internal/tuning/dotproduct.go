package tuning

import (
	"fmt"
	"os"
)

// DotProduct says whether kernels of an implementation add products of four bytes in one
// instruction in this process, and in a few words which instruction, or why not.
func DotProduct(i ISA) (used bool, why string) {
	return dotProductAsked(os.Getenv("ATTN_VNNI"), i, hostDotProduct(i))
}

// HasDotProduct is DotProduct without the reason.
func HasDotProduct(i ISA) bool {
	used, _ := DotProduct(i)
	return used
}

// dotProductAsked applies the environment variable ATTN_VNNI. instruction is what this machine has
// for an implementation, "" for none.
func dotProductAsked(value string, i ISA, instruction string) (used bool, why string) {
	switch value {
	case "":
	case "off":
		if i == AVX2 || i == AVX512 {
			return false, "ATTN_VNNI=off"
		}
	default:
		panic(fmt.Sprintf("attn: ATTN_VNNI=%s is not known, want off or nothing", value))
	}
	switch {
	case !i.DotProduct():
		return false, "the implementation is " + i.String() + ", which has none"
	case instruction == "":
		return false, "the CPU has none"
	}
	return true, instruction
}
