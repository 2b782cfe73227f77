package tuning

import "fmt"

// Tiles says whether products of integers may go through the tiles of AMX, and if not, why.
type Tiles struct {
	Use      bool
	BFloat16 bool   // and those in bfloat16, too
	Why      string // in a few words, also where they are used
}

// tilesAsked obeys the environment variable ATTN_AMX. request asks the system for the registers,
// which processes have only after that.
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
