// Package attn computes exact scaled dot-product attention,
// softmax(scale·QKᵀ)·V, on CPUs: the core of transformers for language
// models, embeddings and reranking. It is pure Go with Go assembly for AVX2
// and AVX-512 (amd64) and NEON (arm64), uses no cgo, and does not allocate on the hot path.
//
// # Tensors
//
// A [Tensor] is a [View] of a caller's []float32: four dimensions (batch, heads, length, dimension)
// and a stride for each but the last. [BHLD] and [BLHD] make the two usual contiguous layouts, and
// [Rows] columns of wider rows, such as Q, K and V side by side; other layouts are View literals.
// [View.Slice] and [View.Heads] return parts of a view. Nothing is copied to change a layout, and
// an output in BLHD concatenates the heads. The stride [Broadcast] repeats an input without copies.
// Queries may have more heads than keys and values (grouped-query attention), and values a
// different dimension than keys.
//
// Which layout is fast for what:
//
//   - Prefill and encoders (many queries): any. Keys and values are packed once for many queries,
//     so BHLD and BLHD are equally fast.
//   - Decoding (one or a few queries): a [Cache] is fastest, because its keys and values are packed
//     already, contiguous for each head. Views in BHLD are next: a head is contiguous. Views in
//     BLHD (token-major, as most engines store it) are about as fast if heads and tokens have no
//     gaps between them: all heads read the tokens together. With gaps they are slowest: each head
//     reads a small piece of every token.
//   - A head dimension that is a multiple of 16 wastes nothing; others are padded inside.
//
// # Which call
//
//   - [Attend] computes one call on the calling goroutine.
//   - [Pool.Attend] is Attend on persistent workers, for calls longer than about 20 µs. Any number
//     of goroutines may use one Pool. [Pool.Run] runs an engine's own loops on the same workers.
//   - [Cache] keeps the keys and values of a growing sequence in the kernels' own order, for
//     decoding token by token: [Cache.Append], then [Cache.Attend] or [Pool.AttendCache].
//     [Cache.Grow] adds room, [Cache.DropBefore] frees it as a window moves, [Cache.Save] and
//     [Cache.Load] keep it on disk.
//   - [Store] holds the keys and values of many sequences in pages, for serving: they join, grow,
//     fork, shrink and leave. [AttendSequences] and [Pool.AttendSequences] compute one call over
//     any of them, of different lengths, with any number of queries each; prefixes that sequences
//     share are kept once and read once. [Sequence.Save] and [Sequence.Load] keep prompts on
//     disk, in the same files.
//   - [State] computes attention over keys and values that arrive in chunks, so that they need not
//     be in memory at the same time or on the same machine. [State.Merge] merges parts.
//   - [MatMul], [MatMulTransposed], and [Matrix] for weights that are used again, are for products
//     around attention. [PackMatrix] packs weights with one row for each input, or for each output
//     as Linear layers keep them, in any [Format]; [PackBlocks] packs blocks of GGUF files.
//     [MulMatrices] multiplies one input by several matrices, [MulExperts] each row by the matrices
//     that it has chosen. With [Matrix.Save] and [MapMatrix] a program starts with packed weights,
//     with [SaveMatrices] and [MapMatrices] for a whole model. Packages gguf and safetensors read
//     weights from models' files.
//   - Other packages: nn has norms, rotation and activations, linattn the layers that keep states
//     in place of keys; module models runs language models and embeds texts.
//   - [Dot], [Max], [Exp], [ExpSum], [Softmax], [LogSumExp], [TopK], [Widen] and [Narrow] work on
//     plain slices.
//
// [Options] selects variants. With nil, as with the zero value, every query sees every key, so a
// causal model must set Causal. There are causal alignment, sliding window, mask, trees of queries,
// additive bias, ALiBi slopes, softcap, sinks, lengths per batch entry, and the log-sum-exp and
// weights as further outputs. They compose, except a few pairs, such as lists of keys with trees.
// docs/semantics.md lists these pairs, defines each option, and says which options reproduce a call
// of another library.
//
// Lengths, of which a call has few, are []int, as len returns them: KeyLens, Documents. Positions
// and indices of which it has one for each token or pair are []int32, which is half the memory:
// Keys, the experts of MulExperts, positions of a rotation.
//
// # The numeric contract
//
// The result of a row depends only on its query, the keys that it sees and their values, their
// absolute positions, and the options. It has the same bits
//
//   - on every CPU and architecture, with assembly and without,
//   - for any number of workers, in any batch, for any strides,
//   - as part of a prefill, of a chunk of it, or decoded alone,
//   - from Attend, from a Cache, from pages of a Store, shared or not, and from a State whose
//     chunks and parts are divided as [State] says.
//
// Keys that a mask, a bias of −Inf, the position or the lengths hide do not exist: their contents,
// NaN and ±Inf included, change no bit. A row that sees no key is zero and its log-sum-exp −Inf. A
// NaN in a query, or in a key that it sees, makes that row NaN and no other row; a NaN of a value
// makes its column NaN in the rows that see it. Which NaN is not specified.
//
// This is version 2 of the contract; the generic code is its specification. The root-mean-square
// error of outputs and log-sum-exps against float64 is at most 1.25 times that of the textbook
// float32 algorithm, for float32, float16, bfloat16 and integer values alike; docs/semantics.md
// says what the claim leaves out.
//
// # Errors
//
// Bad shapes, strides, lengths, options, and outputs that overlap other arguments are errors that
// wrap [ErrShape], [ErrStride], [ErrLength], [ErrOption] or [ErrOverlap]; there are also
// [ErrUnsupported], [ErrCapacity] of a Cache or Store, [ErrMemory] of a Cache, Store, Matrix or
// State, [ErrClosed] of a Cache, Store, Sequence, Matrix, State or Pool, and [ErrFormat] of what a
// State, Sequence, Cache or Matrix reads. The text names the argument, its value and the expected
// value, and nothing has been written. Functions on plain slices panic if lengths differ, as
// indexing does; [View.Slice], [View.Heads] and [View.Row] panic out of range, as slicing does. A
// nil *[Pool] computes on the calling goroutine. Close of a nil pointer, and Release of a nil
// *Sequence, do nothing; with a nil *Cache, *Sequence, *Matrix or *State, methods that return
// errors return ErrOption, others may panic. Methods named Save and Load, [LoadMatrix],
// [MapMatrix], [SaveMatrices] and [MapMatrices] also return errors of their writer, reader or file,
// wrapped.
//
// # Implementations
//
// [Implementation] names the kernels in use, chosen when the program starts by what the CPU and the
// operating system support. The environment variable ATTN_ISA=generic, avx2, avx512 or neon forces
// one, and the program panics at start if it is not available. ATTN_VNNI=off disables the x86-64
// instructions for products of four bytes, ATTN_AMX=off disables tiles: calls in integers use both
// where the CPU has them, with the same bits. The build tag purego leaves all assembly out. The
// generic Go code runs everywhere, with multiply-adds of the CPU or emulated ones, see
// [Implementation].
package attn

// example_formula_test.go computes the same for one head, as formulas.
//
// A call goes from the API files (attention.go, cache.go, attend_sequences.go, state_update.go,
// pool.go) down through the layers of layers_test.go, whose order TestLayers checks:
//
//	validate.go, validate_views.go         make a plan (plan.go, plan_sequences.go) of the arguments
//	schedule.go, schedule_sequences.go     decide how it is computed
//	chunk.go                               takes rows of queries; sequences that share pages together
//	span.go                                takes keys, block by block
//	tile.go                                takes rows through the kernels: Q·Kᵀ, softmax, P·V
//	tile_options.go                        does to scores what options say
//	kind.go, kind_*.go                     how kernels read keys and values: a file for each kind
//	internal/packed                        how tokens of caches and stores lie, byte by byte
//	internal/online                        merges the states of segments
//	internal/matmul                        multiplies matrices, for matmul.go
//	internal/pool                          shares calls among workers, for pool.go
//	internal/kernel                        calls assembly, in pieces that are short: floats, narrow
//	                                       over fewer bits, integers, int4
//
// The specification of a kernel is the function of the same name with Generic, in generic.go of its
// folder; the line of P·V is the FMA in accumulateGeneric. kernel.go has passes over slices.
