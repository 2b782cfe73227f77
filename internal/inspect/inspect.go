// Package inspect connects package attn with the public package inspect, so that package attn needs
// no exported name for it.
package inspect

// Call is the shape of a call to describe.
type Call struct {
	B, H, KVH, Lq, Lk, D, Dv int
	Layout                   string // of keys and values: "bhld", "blhd" or "cache"
	Causal                   bool   // bottom-right
	Workers                  int
}

// Describer describes how package attn would compute a call. Package attn sets it when it is
// initialised.
var Describer interface{ Describe(c Call) (string, error) }
