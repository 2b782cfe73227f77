package attn

import "fmt"

// Causal says which keys a query may see by their positions.
type Causal int

const (
	// Full: every query sees every key.
	Full Causal = iota
	// TopLeft: query i sees key j when j ≤ i + Options.Offset.
	TopLeft
	// BottomRight: the last query sees the last key: query i sees key j when
	// j ≤ i + keyLen − queryLen, with the lengths of the batch entry.
	BottomRight
)

// String returns the name of the alignment.
func (c Causal) String() string {
	switch c {
	case Full:
		return "Full"
	case TopLeft:
		return "TopLeft"
	case BottomRight:
		return "BottomRight"
	}
	return fmt.Sprintf("Causal(%d)", int(c))
}

// Window limits attention to keys near the query: query i sees key j when p−Left < j < p+Right,
// where p is the query's absolute position: i + Offset, or with BottomRight i + keyLen − queryLen.
// So Left and Right count keys, including the key at the query's position, and a model's
// sliding_window of 4096 is a Left of 4096. 0 is unbounded.
type Window struct{ Left, Right int }

// Distance adds to the score of each query and key a number that depends on their distance d: the
// key's position less the query's absolute position (Offset + i, or as BottomRight has it; with
// Documents and Tree as these say). The result has the bits of a Bias with these numbers, which
// needs more memory. T5, MPNet and DeBERTa have such biases. T5's weights [buckets, heads] are
// transposed first: Query is [1, H, 1, buckets], and its Scale is 1.
//
// The number is the element of Query, or of Key, or their sum, rounded once. A Bias is added to
// that, rounded once. −Inf masks the key. A [State] allows no Distance.
type Distance struct {
	// Query [B or 1, H or 1, Lq or 1, N]: element bucket(d) of row i is for query i. With Documents
	// and in [AttendSequences] rows are those of packed queries. The zero View is none.
	Query Tensor
	// Key [B or 1, H or 1, Lk, N]: element bucket(d) of row j is for key j. [AttendSequences] allows
	// no Key. The zero View is none.
	Key Tensor
	// Buckets has a number of 0 to N−1 for each distance −R to R: bucket(d) is Buckets[d+R]; distances
	// below −R and above R have the first and the last bucket. Without Buckets N is odd, R is (N−1)/2,
	// and bucket(d) is d+R in the same bounds.
	Buckets []int32
}

// none reports that there is no such option.
func (d *Distance) none() bool { return d.Query.none() && d.Key.none() && d.Buckets == nil }

// Options selects variants of attention. Nil and the zero value compute softmax(QKᵀ/√D)V: every
// query sees every key, so a causal model must set Causal. Options compose, except where a field
// below excludes others: docs/semantics.md has a table.
//
// H is the number of query heads, Lq the number of queries, Lk of keys.
type Options struct {
	// Scale multiplies q·k; it is finite. 0 means 1/√D, D being the dimension of q and k.
	Scale float32
	// Causal selects the causal alignment.
	Causal Causal
	// Offset is the absolute position of query 0 among the keys, for Causal, Window, Slopes and
	// Distance; chunked prefill sets it. With BottomRight, which derives the position from the
	// lengths, it must be 0; otherwise it is −2²⁸ to 2²⁸.
	Offset int
	// Window limits the keys by their distance; the zero value does not. Left and Right are at least
	// 0.
	Window Window
	// Softcap c > 0 replaces a scaled score s by c·tanh(s/c), before Bias and Slopes; Scale/c must
	// be finite. 0 is none.
	Softcap float32
	// Mask [B or 1, H or 1, Lq or 1, Lk]: keys whose element is false do not exist for the query. A
	// dimension of 1 stands for all: [B, 1, 1, Lk] masks padding. The zero View is none.
	Mask Mask
	// Bias [B or 1, H or 1, Lq or 1, Lk] is added to the scaled scores. −Inf masks the key. The zero
	// View is none.
	Bias Tensor
	// Distance adds numbers by the distance of key and query. The zero value adds none.
	Distance Distance
	// Slopes holds H ALiBi slopes: slope·(j − p) is added to the score of key j
	// and the query at absolute position p, so a positive slope prefers near
	// keys among those before the query.
	Slopes []float32
	// Sinks holds H logits that take part in the softmax's denominator only.
	Sinks []float32
	// QueryLens and KeyLens hold B lengths; nil means Lq and Lk for all.
	// Output rows of queries beyond the length are zero, with LSE −Inf.
	QueryLens []int
	KeyLens   []int
	// LSE, if not nil, receives B×H×Lq natural logarithms of the sum of exp(score) over the visible
	// keys, without the sink; −Inf where a query sees none. Query i of head h of batch entry b has
	// element (b·H + h)·Lq + i. Like every output, LSE must share no memory with other arguments.
	LSE []float32
	// Integers computes both products, queries by keys and weights by values, as exact sums of
	// integers: of I8, with queries rounded to 8 bits and weights to 15. A cache or store must be of
	// I8 or I4; keys and values in views are rounded to I8 in the call, so that the bits are those of
	// an I8 cache with the same tokens. D must be below 65536. docs/low-precision.md says when it
	// pays.
	Integers bool
	// BFloat16 computes both products in bfloat16: queries, keys, weights and values are rounded to
	// it, and sums are float32 in a fixed order, so that results have the same bits on every CPU. A
	// cache or store must be of F32, F16 or BF16. It excludes Integers. docs/semantics.md defines it.
	BFloat16 bool
	// Blocks [B or 1, H or 1, ⌈Lq/64⌉, ⌈Lk/64⌉]: a query sees keys of those blocks of 64 only whose
	// element is true for its own block of 64. Blocks count from query 0 and from key 0. The result
	// has the bits of a Mask with the same keys. Blocks composes with all options except Keys; blocks
	// that nobody sees cost nothing. The zero View is none.
	Blocks Mask
	// Documents, for B = 1, holds the lengths of sequences that lie one after the other, 0 included.
	// They add up to Lq, and a query sees keys of its own document only. Causal, Window, Slopes and
	// Distance count positions from the document's first query and key, and BottomRight aligns by its
	// lengths: the bits are those of a call for each document. LSE, Mask, Bias, Blocks and Weights
	// have indices of the whole call, and weights of other documents' keys are 0. Documents are for
	// [Attend] and [Pool.Attend], with an Offset of 0 and without QueryLens, KeyLens, Tree and Keys.
	// nil is none.
	Documents []int
	// KeyDocuments holds the numbers of keys of the Documents, which add up to Lk; nil means the
	// Documents themselves.
	KeyDocuments []int
	// Tree holds the parents of Lq queries: for each the index of one before it, or −1 if it has none.
	// The last Lq keys are the queries' own tokens, and a query sees the keys before these, its own
	// key and its ancestors' keys: branching proposals are verified in one call, as if each path were
	// alone, and [Cache.Keep] keeps the accepted path. For Window, Slopes and Distance the position of
	// a query, and of its own key, is the position of the first own key plus the number of its
	// ancestors. A tree in which each query's parent is the one before it is BottomRight.
	//
	// The tree is the same for all batch entries, Causal is Full, Offset 0 and QueryLens nil. With
	// KeyLens own tokens are the last ones of each entry. [AttendSequences] allows QueryLens: there
	// the parents of a sequence's queries are counted from its first query. A [State] allows no Tree.
	Tree []int
	// Keys [B or 1, H or KVH or 1, Lq, n] lists the keys of each query, by their positions, strictly
	// ascending, padded with −1. Attention is as if k and v held only the listed tokens, in that
	// order: blocks and segments count along the list. Causal, Window, Slopes, KeyLens, Mask, Bias and
	// Distance still use the positions of the keys, and listed keys that they hide keep their places
	// in the list. Weights are [B, H, Lq, n] then. Only listed keys are read. Heads and queries that
	// share a list (Broadcast) read its keys together. A position without a key is [ErrOption], and so
	// is Keys with Blocks, Documents or Tree, and in Updates of a [State]. The zero View is none.
	Keys View[int32]
	// Weights, unless it is the zero View, receives the softmax probabilities [B, H, Lq, Lk]. A sink's
	// share is missing from a row's sum. It must share no memory with other arguments.
	Weights Tensor
}
