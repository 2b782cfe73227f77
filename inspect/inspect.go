// Package inspect says how package attn would compute a call: how it is divided, where it reads
// keys and values, which kernels it takes. It is for tools such as cmd/attn, and for questions of
// speed: nothing of it changes a result, and what it says may be other words in the next version.
package inspect

import (
	_ "github.com/seed-1415985d/attn" // sets internal/inspect.Describer
	internal "github.com/seed-1415985d/attn/internal/inspect"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Call is the shape of a call over views, or over a cache: B, H, KVH, Lq, Lk, D and Dv as in
// attn.Attend; Layout "bhld", "blhd" or "cache"; Causal for BottomRight; Workers as in
// attn.NewPool, at least 1.
type Call = internal.Call

// Schedule returns the schedule of a call on this machine: lines of a name, its value and what that
// means. A size outside its range, or an unknown layout, is an error.
func Schedule(c Call) (string, error) { return internal.Describer.Describe(c) }

// DotProduct says whether kernels in integers of this process add products of four bytes in one
// instruction, and which set of instructions that is, or why not. The environment variable
// ATTN_VNNI=off, read when the program starts, leaves out VPDPBUSD and its relatives on x86-64, and
// with them the tiles of AMX; no result changes.
func DotProduct() (used bool, why string) {
	return tuning.DotProduct(tuning.Host().ISA)
}

// Tiles says whether products in integers of many rows go through the tiles of AMX in this process,
// and why, or why not. The environment variable ATTN_AMX=off, read when the program starts, leaves
// them out; no result changes.
func Tiles() (used bool, why string) {
	t := tuning.HostTiles()
	return t.Use, t.Why
}

// BFloat16Tiles is Tiles of products in bfloat16: the tiles of AMX-BF16.
func BFloat16Tiles() (used bool, why string) {
	t := tuning.HostTiles()
	if t.Use && !t.BFloat16 {
		return false, "this CPU has no AMX-BF16"
	}
	return t.BFloat16, t.Why
}
