// Package linattn computes linear attention: layers that keep a matrix for each head in place of
// the keys and values of all tokens, as DeltaNet, Qwen3-Next, Kimi Linear, gated linear attention,
// RetNet and Mamba-2 (as state space duality) do.
//
// It keeps the promise of package attn: one order of operations, so outputs have the same bits
// token by token and in a prompt, for any cut of a sequence into calls, in any batch, for any
// number of threads, on every CPU.
//
// Tokens lie in chunks of 16 by their position. With S the matrix [KeyDim, ValueDim] at the chunk's
// begin, i a row of the chunk, a_i = exp(decay_i), G_0 = a_0, G_i = G_i−1·a_i; W_ii = 1,
// W_ij = W_i−1,j·a_i for j < i; sums are chains of FMAs in ascending order, from +0 unless said:
//
//	r_i = (Σ_d S_d·k_i,d)·G_i, then for j = 0 … i−1: r_i = FMA((k_i·k_j)·W_ij, u_j, r_i)
//	u_i = β_i·(v_i − r_i), each rounded; Linear and Gated: u_i = v_i
//	o_i = (Σ_d S_d·q_i,d)·G_i, then for j = 0 … i: o_i = FMA((q_i·k_j)·W_ij, u_j, o_i)
//	dst_i = o_i·Scale
//	after row 15: S_d = S_d·G_15, then for j = 0 … 15: S_d = FMA(k_j,d·W_15,j, u_j, S_d)
//
// Without decay G and W are 1. With ChannelDecay they are vectors over d: (q_i,d·G_i,d) and
// (q_i,d·W_ij,d), rounded, take the place of q_i,d, likewise of k_i; S_d takes G_15,d, and k_j,d
// W_15,j,d.
//
// Products of decays are running ones, never differences of sums of logarithms: a decay of −Inf
// forgets everything, and small errors do not add up. A token whose data are NaN or ±Inf makes NaN
// of its own head, for as long as the state remembers: 0·Inf is NaN, too. It touches no other head
// and no other sequence.
//
// A [State] is one layer of one sequence. Speculative decoding takes tokens back with
// [State.Truncate], within the chunk at hand or to a [State.Checkpoint]; [State.Fork] shares memory
// until one of both writes to it. Nothing is allocated in calls, but for that copy.
//
// The first argument of calls is the pool whose workers share the work; nil computes on the calling
// goroutine. A closed pool is [attn.ErrClosed]. Views escape to the heap, as those of
// [attn.Pool.Attend] do: buffers on the caller's stack become buffers on the heap.
//
// Errors wrap those of package attn and name the argument, what came and what is wanted.
package linattn
