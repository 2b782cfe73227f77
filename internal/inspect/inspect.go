// Package inspect lets a command of this repository ask package attn how it would compute a call,
// without making that a part of the package's public interface.
package inspect

// Call is the shape of a call whose schedule is wanted.
type Call struct {
	B, H, KVH, Lq, Lk, D, Dv int    // batch, query heads, key/value heads, queries, keys, dimension of keys and of values
	Layout                   string // "bhld", "blhd", "cache"
	Causal                   bool
	Workers                  int
}

// Schedule describes how package attn would compute a call: lines of "name value meaning". Package attn
// sets it when it is initialised.
var Schedule func(c Call) (string, error)
