package tuning

import "fmt"

// Tiles says whether products of integers may use AMX tiles, and why.
type Tiles struct {
	Use      bool
	BFloat16 bool   // so may products in bfloat16
	Why      string // in a few words, also if tiles are used
}

// tilesAsked applies the environment variable ATTN_AMX. request asks the operating system for the
// registers, which a process has only after that.
func tilesAsked(value string, isa ISA, request func() Tiles) Tiles {
	switch value {
	case "":
	case "off":
		return Tiles{Why: "ATTN_AMX=off"}
	default:
		panic(fmt.Sprintf("attn: ATTN_AMX=%s is not known, want off or nothing", value))
	}
	if isa != AVX512 {
		return Tiles{Why: "the implementation is " + isa.String() + ", which has none"}
	}
	return request()
}
