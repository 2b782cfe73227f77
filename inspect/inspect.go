// Package inspect describes how package attn would compute a call: how it is divided, where keys
// and values are read, and which kernels are used. It is for tools such as cmd/attn, and for
// questions of speed. It changes no result, and its texts may change with any version.
package inspect

import (
	_ "github.com/seed-1415985d/attn" // sets internal/inspect.Describer
	internal "github.com/seed-1415985d/attn/internal/inspect"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Call is the shape of a call over views, or over a cache: B, H, KVH, Lq, Lk, D and Dv as in
// attn.Attend; Layout is "bhld", "blhd" or "cache"; Causal means BottomRight; Workers is at least
// 1, as in attn.NewPool.
type Call = internal.Call

// Schedule returns the schedule of a call on this machine, on lines with a name, a value and its
// meaning. A size outside its range, or an unknown layout, is an error.
func Schedule(c Call) (string, error) { return internal.Describer.Describe(c) }

// DotProduct reports whether integer kernels of this process add products of four bytes in one
// instruction, and which instruction set that is, or why not. The environment variable
// ATTN_VNNI=off, read when the program starts, turns off VPDPBUSD and related instructions on
// x86-64, and AMX tiles with them; no result changes.
func DotProduct() (used bool, why string) {
	return tuning.DotProduct(tuning.Host().ISA)
}

// Tiles reports whether integer products of many rows use AMX tiles in this process, and why. The
// environment variable ATTN_AMX=off, read when the program starts, turns them off; no result
// changes.
func Tiles() (used bool, why string) {
	t := tuning.HostTiles()
	return t.Use, t.Why
}

// BFloat16Tiles is Tiles for products in bfloat16, which need AMX-BF16.
func BFloat16Tiles() (used bool, why string) {
	t := tuning.HostTiles()
	if t.Use && !t.BFloat16 {
		return false, "this CPU has no AMX-BF16"
	}
	return t.BFloat16, t.Why
}
