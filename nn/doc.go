// Package nn computes the layers of a model between attention and matrix products: norms, residual
// sums, sums of experts, activations, gates, softmax, rotary positions, causal convolution, and
// MaxSim scores of documents.
//
// As in package attn, each function has a fixed order of operations: results have the same bits on
// every CPU, for any number of threads, in any batch and from views of any strides. Calls allocate
// nothing, except that a [Rope] keeps the angles of positions that it meets for the first time.
//
// Arguments are views [B, H, L, D]; functions work along D, row by row. All views of a call have
// the same dimensions, except where a function gives others; inputs may repeat elements by the
// stride [attn.Broadcast]. To work in place, dst may be exactly an input, with the same memory and
// strides. Any other overlap of dst with an argument is [attn.ErrOverlap]. A call writes all of dst
// or, if it returns an error, nothing.
//
// The first argument is the pool whose workers share the rows; nil computes on the calling
// goroutine. A closed pool is [attn.ErrClosed]. Views escape to the heap, as in [attn.Pool.Attend]:
// buffers on the caller's stack become buffers on the heap.
//
// Errors wrap the errors of package attn and name the function, the argument, the value and what
// was wanted.
//
// # ONNX
//
// Nodes of ONNX with float32 tensors and stash_type 1 are these calls; other types are converted
// before and after.
//
//   - RMSNormalization, LayerNormalization: [RMSNorm], [LayerNorm] of [attn.BHLD](x, 1, 1, rows,
//     d), d the product of the dimensions from axis on, eps epsilon, weight Scale, bias B. A scale
//     that is to be broadcast within these is repeated by the caller. Mean and InvStdDev are not
//     kept.
//   - RotaryEmbedding: [NewRopeTables] of cos_cache and sin_cache, with Dim rotary_embedding_dim
//     (0: the head's size) and Interleaved interleaved, then [Rope.Rotate] with position_ids as
//     positions. Without position_ids caches have a row for each token: positions 0 to B·L − 1. An
//     input [B, H, L, D] is an [attn.BHLD] view, one [B, L, num_heads·D] an [attn.BLHD] view.
//   - Gelu: [Activate] with [GELU], or if approximate is tanh [GELUTanh].
//   - Swish: [Activate] with [SiLU]; with another alpha above 0 [GateClamped] with that alpha,
//     limit +Inf and an up of zeros. Swish and Mul, SwiGLU: [Gate] with SiLU.
//   - CausalConvWithState: a [Conv] for each batch entry, whose Weight is weight [C, 1, k], Bias
//     bias and Activation SiLU for silu and swish; past_state goes in by [Conv.Start],
//     present_state comes out of [Conv.Read]. Channels lie side by side here, [1, 1, L, C]: inputs,
//     outputs and states are transposed.
package nn
