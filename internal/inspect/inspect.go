// Package inspect is where package attn leaves what the public package of this name shows, so that
// it is no part of package attn's own names.
package inspect

// Call is the shape of a call whose schedule is wanted.
type Call struct {
	B, H, KVH, Lq, Lk, D, Dv int
	Layout                   string // of keys and values: "bhld", "blhd" or "cache"
	Causal                   bool   // bottom-right
	Workers                  int
}

// Describer describes how package attn would compute a call. Package attn sets it when it is
// initialised.
var Describer interface{ Describe(c Call) (string, error) }
