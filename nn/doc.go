// Package nn has what engines compute between attention and products by matrices: norms, sums,
// activations, gates, rotation of positions, causal convolution, and scores of documents by
// vectors of their tokens.
//
// It keeps the promise of package attn: each function has one order of operations, so results have
// the same bits on every CPU, for any number of threads, in any batch and from views of any
// strides. Nothing is allocated in calls, but what a [Rope] keeps of positions that it meets for
// the first time.
//
// Functions take views [B, H, L, D] and work along D, row by row. All views of a call have the same
// dimensions; inputs may repeat elements by the stride [attn.Broadcast]. dst may be an input
// exactly, with the same memory and strides, so that a function works in place. Any other overlap
// of dst with an argument is [attn.ErrOverlap]. A call writes all of dst or, if it returns an
// error, nothing.
//
// The first argument is the pool whose workers share the rows; nil computes on the calling
// goroutine. A closed pool is [attn.ErrClosed]. Views escape to the heap, as those of
// [attn.Pool.Attend] do: buffers on the caller's stack become buffers on the heap.
//
// Errors wrap those of package attn and name the argument, what came and what is wanted.
package nn
