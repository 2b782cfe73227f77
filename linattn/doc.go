// Package linattn computes linear attention: layers that keep a matrix for each head in place of
// the keys and values of all tokens, as DeltaNet, Qwen3-Next, Kimi Linear, gated linear attention,
// RetNet and Mamba-2 (as state space duality) do.
//
// As in package attn, the order of operations is fixed: outputs have the same bits token by token
// and in a prompt, for any division of a sequence into calls, in any batch, for any number of
// threads, on every CPU.
//
// Tokens form chunks of 16 by their position. S is the matrix [KeyDim, ValueDim] at the start of
// the chunk, i a row of the chunk, a_i = exp(decay_i), G_0 = a_0, G_i = G_i−1·a_i, W_ii = 1, and
// W_ij = W_i−1,j·a_i for j < i. Sums are chains of FMAs in ascending order, from +0 unless stated:
//
//	r_i = (Σ_d S_d·k_i,d)·G_i, then for j = 0 … i−1: r_i = FMA((k_i·k_j)·W_ij, u_j, r_i)
//	u_i = β_i·(v_i − r_i), each rounded; Linear and Gated: u_i = v_i
//	o_i = (Σ_d S_d·q_i,d)·G_i, then for j = 0 … i: o_i = FMA((q_i·k_j)·W_ij, u_j, o_i)
//	dst_i = o_i·Scale
//	after row 15: S_d = S_d·G_15, then for j = 0 … 15: S_d = FMA(k_j,d·W_15,j, u_j, S_d)
//
// Without decay G and W are 1. With ChannelDecay they are vectors over d: (q_i,d·G_i,d) and
// (q_i,d·W_ij,d), rounded, replace q_i,d, and likewise for k_i; S_d is multiplied by G_15,d, k_j,d
// by W_15,j,d.
//
// With ReadKeys a row of k is two keys (Gated DeltaNet-2, Comba). r_i, also in its products
// k_i·k_j, reads the second half of row i, and all else the first halves. Equal halves give the
// bits of the same keys without ReadKeys.
//
// Decays are accumulated as products, never as differences of sums of logarithms: a decay of −Inf
// forgets everything, and small errors do not add up. A token with NaN or ±Inf makes its own head
// NaN for as long as the state remembers it, since 0·Inf is NaN, too. No other head and no other
// sequence changes.
//
// A [State] belongs to one layer and one sequence. Speculative decoding removes tokens with
// [State.Truncate], within the current chunk or back to a [State.Checkpoint]. [State.Fork] shares
// memory until either state writes to it. Calls allocate nothing except for that copy.
//
// The first argument of calls is the pool whose workers share the work; nil computes on the calling
// goroutine. A closed pool is [attn.ErrClosed]. Views escape to the heap, as in [attn.Pool.Attend]:
// buffers on the caller's stack become buffers on the heap.
//
// Errors wrap the errors of package attn and name the function, the argument, the value and what
// was wanted.
package linattn
