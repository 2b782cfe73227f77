// Package inspect lets the project's own command show how package attn would compute a call, without making that part
// of the package's public names.
package inspect

// Call is the shape of a call whose schedule is wanted.
type Call struct {
	B, H, KVH, Lq, Lk, D, Dv int
	Layout                   string // of keys and values: "bhld", "blhd" or "cache"
	Causal                   bool   // bottom-right
	Workers                  int
}

// Schedule describes how package attn would compute a call: lines of a name, its value and what that means. Package
// attn sets it when it is initialised.
var Schedule func(c Call) (string, error)
