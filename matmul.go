package attn

import (
	"io"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/matmul"
)

// MatMul computes the matrix products dst = a·b of each batch and head, as in
// the projections around attention.
//
//	a   [B, H, L, K]
//	b   [B or 1, H or 1, K, N]     1, like the stride Broadcast, uses one matrix for all
//	dst [B, H, L, N]
//
// K and N are 1 to 2²⁸, L may be 0. Each element is one chain of fused multiply-adds in ascending
// order of the inner index, from +0: the same bits on every CPU and for any shape around it. dst
// must not share elements with a or b. If the arguments are invalid, MatMul
// returns an error that names the argument and has written nothing.
//
// MatMul packs b in each call. Pack weights that are used more than once in a [Matrix].
// [MatMulTransposed] multiplies by matrices whose rows are outputs.
func MatMul(dst, a, b Tensor) error {
	return matmul.MatMul(&tuned, viewed(&dst), viewed(&a), viewed(&b), false)
}

// MatMulTransposed is [MatMul] with b transposed, dst = a·bᵀ, with the bits of MatMul by that
// matrix: dot products of rows, as layers with weights [outputs, inputs] and scores of attention
// have them.
//
//	a   [B, H, L, K]
//	b   [B or 1, H or 1, N, K]     1, like the stride Broadcast, uses one matrix for all
//	dst [B, H, L, N]
func MatMulTransposed(dst, a, b Tensor) error {
	return matmul.MatMul(&tuned, viewed(&dst), viewed(&a), viewed(&b), true)
}

// Matrix is the right side of matrix products, packed once by [PackMatrix] in the order that the
// kernels read: the weights of a projection. [Matrix.Save] writes it to a file, and [LoadMatrix] or
// [MapMatrix] opens that without packing. A Matrix does not change, so any number of goroutines may
// multiply by it and save it. Its memory is like a [Cache]'s: without Close, it is released some
// time after the matrix has become unreachable, perhaps late, because the garbage collector does
// not count it. On Linux, matrices of 32 KiB to 8 MiB share huge pages, each of which is released
// with its last matrix.
type Matrix struct{ body matmul.Matrix }

// A Matrix has no other field than its body, so pointers to them, and lists of these, are converted
// without copies.

// bodyOf returns the body of a matrix, which may be nil.
func bodyOf(m *Matrix) *matmul.Matrix { return (*matmul.Matrix)(unsafe.Pointer(m)) }

// withBody returns the matrix of a body, which may be nil.
func withBody(m *matmul.Matrix) *Matrix { return (*Matrix)(unsafe.Pointer(m)) }

func bodiesOf(ms []*Matrix) []*matmul.Matrix {
	return unsafe.Slice((**matmul.Matrix)(unsafe.Pointer(unsafe.SliceData(ms))), len(ms))
}

// Dims returns the batch entries, heads, inputs and outputs of the matrix, K and N of [PackMatrix].
func (m *Matrix) Dims() (batch, heads, inputs, outputs int) { return m.body.Dims() }

// MemoryUse returns the bytes of the matrix, scales included; 0 after Close. For [MapMatrix] they
// are memory of the file.
func (m *Matrix) MemoryUse() int { return m.body.MemoryUse() }

// Format returns the format of the matrix's weights: the one given to [PackMatrix], F16 and BF16
// for BlockF16 and BlockBF16 of [PackBlocks], BF16 with BFloat16, and [Blocks] for other blocks.
func (m *Matrix) Format() Format { return Format(m.body.Format()) }

// BlockType returns the type of the matrix's blocks, and false if it has none: if it was packed by
// [PackMatrix], or from BlockF16 or BlockBF16.
func (m *Matrix) BlockType() (t BlockType, ok bool) {
	of, ok := m.body.BlockType()
	return BlockType(of), ok
}

// Close releases the matrix's memory. Later calls, Close among them, return [ErrClosed]. Closing a
// matrix while another goroutine multiplies by it, or closes it, may end the program, or corrupt
// products.
func (m *Matrix) Close() error {
	if m == nil {
		return nil
	}
	return m.body.Close()
}

// MatMul computes dst = a·m + bias like the function [MatMul], on the calling goroutine. bias,
// which is added last, has N elements or is nil. [PackMatrix] defines products by a matrix of fewer
// bits.
//
//	a   [B, H, L, K]
//	dst [B, H, L, N]
func (m *Matrix) MatMul(dst, a Tensor, bias []float32) error {
	return bodyOf(m).MatMul(&tuned, viewed(&dst), viewed(&a), bias)
}

// Rows decodes the weights of some outputs, one row each: for example the embeddings of tokens from
// the matrix that also computes logits, so that tied weights are in memory once.
//
//	outputs 0 to N − 1, in any order, also several times; none of them is an empty dst
//	dst     [batch, heads, len(outputs), K] of the matrix's Dims, with any strides
//
// The weights are exactly those that products use: in F16 and BF16 rounded when they were packed,
// of blocks the decoded values; products in bfloat16 count subnormal weights as 0 and round blocks.
// In I8 they are integers times the output's scale, rounded once, and then rotated back, which
// rounds again; so they approximate the packed weights like 8 bits do.
//
// Outputs are decoded in groups of 16 that begin at a multiple of 16: one output costs as much as
// its whole group. Rows does not allocate.
//
// The error is [ErrOption] for an output that does not exist, [ErrShape] for a dst of another
// shape, [ErrClosed] for a closed matrix, [ErrShape], [ErrStride] or [ErrLength] for an invalid
// view, and [ErrOverlap] for a dst that shares memory with outputs. Then nothing was written.
func (m *Matrix) Rows(dst Tensor, outputs []int32) error {
	return bodyOf(m).Rows(&tuned, viewed(&dst), outputs)
}

// MulMatrices computes dsts[i] = a·ms[i] + biases[i] for each of the matrices, as [Matrix.MatMul]
// does one by one and with the same bits: queries, keys and values of one input, or gate and up.
// Matrices may differ in format and outputs. If they need a rotated or in integers, it is prepared
// once.
//
//	a        [B, H, L, K]
//	dsts[i]  [B, H, L, N of ms[i]]
//	biases   nil, or one for each matrix: nil, or as many as it has outputs
//
// The error is [ErrOverlap] for outputs that share elements, [ErrLength] for lists of different
// lengths, and [ErrOption] for a nil matrix. If the arguments are invalid, nothing has been
// written.
func MulMatrices(dsts []Tensor, a Tensor, ms []*Matrix, biases [][]float32) error {
	return matmul.MulMatrices(&tuned, allViewed(dsts), viewed(&a), bodiesOf(ms), biases)
}

// MulExperts multiplies rows by the matrices that they have chosen, like the experts of a mixture:
// row t of dst's head j is a row of a times ms[experts[t][j]], plus biases[experts[t][j]], with the
// bits of that product alone. Rows of the same matrix are multiplied together, so each matrix is
// read once a call.
//
//	experts  [1, 1, T, n]           an index of ms for each row; −1: none
//	a        [1, 1 or n, T, K]      1: each row for all n matrices that its token has chosen
//	dst      [1, n, T, N]
//	ms       of K inputs and N outputs, without batch and heads; formats and types may differ
//	biases   nil, or one for each matrix: nil, or N elements
//
// Where the index is −1, as for experts on another machine, the row of dst becomes +0 without bias,
// and its inputs are not read. A token may choose a matrix several times, and T may be 0. experts
// and a may be Broadcast. Gate and up are two calls with the same experts, down is a third, whose a
// has their n rows for each token. Combine of package nn adds up its n rows times the router's
// weights. The example computes a whole layer.
//
// The error is [ErrOption] for an index below −1 or from len(ms) on and for a nil matrix,
// [ErrShape] for other shapes, [ErrLength] for a bias of another length or another number of
// biases, [ErrClosed] for a closed matrix, and [ErrOverlap] for a dst that shares memory with a,
// experts or biases. Then nothing has been written. MulExperts does not allocate.
func MulExperts(dst, a Tensor, ms []*Matrix, experts View[int32], biases [][]float32) error {
	return matmul.MulExperts(&tuned, viewed(&dst), viewed(&a), bodiesOf(ms), viewed(&experts), biases)
}

// MatrixConfig says how [PackMatrix] packs a matrix.
type MatrixConfig struct {
	Format     Format // F32 is the zero value
	Transposed bool   // rows of w are outputs, as Linear layers and GGUF files store them
	Integers   bool   // products are exact sums of integers; Format is I8, unset for PackBlocks
	BFloat16   bool   // products are in bfloat16; Format is F32, F16, BF16, unset for PackBlocks
}

// body returns the configuration of a matrix's body.
func (c *MatrixConfig) body() matmul.Config {
	return matmul.Config{Format: kernel.Format(c.Format), Transposed: c.Transposed,
		Integers: c.Integers, BFloat16: c.BFloat16}
}

// PackMatrix packs the matrices w [B or 1, H or 1, K, N], whose rows are inputs and columns
// outputs; or with c.Transposed w [B or 1, H or 1, N, K], whose rows are outputs: then products are
// a·wᵀ, with the bits of a Matrix of the transpose. Strides are as in any view, so Broadcast
// repeats a row. PackMatrix copies w, which may change afterwards. Like NewCache, it requests huge
// pages. [Pool.PackMatrix] uses all workers, and [Matrix.Save] keeps the packed matrix.
//
// Formats of fewer bits need 2 bytes an element, or 1 and a float32 for each output. Few rows
// multiply faster by that factor, because they wait for memory; many rows are about as fast as with
// F32.
//
//   - F16 and BF16: elements are rounded to nearest, ties to even. Products have the bits of
//     products by a float32 matrix of the rounded elements. In F16, elements above 65504 may become
//     ±Inf.
//   - I8: weights are multiplied by the orthonormal Walsh–Hadamard matrix along the inputs, block
//     by block of the largest power of two up to 128 that divides K, which spreads outlier inputs.
//     Each output has a scale, the largest magnitude of its rotated weights divided by 127, and
//     integers rint(x/scale). In a product each row of a is rotated in the same way, in float32;
//     the product is one chain of fused multiply-adds over the integers in ascending order, from
//     +0, times the scale, rounded once; then bias is added.
//   - I8 with c.Integers: the rotated row of a becomes integers, too, with a scale for each 128
//     inputs. The product is one chain of fused multiply-adds, from +0, of the exact sum of
//     products of each 128 inputs with their scale; then it is multiplied by the output's scale. A
//     NaN or ±Inf in a row makes it NaN.
//   - F32, F16 and BF16 with c.BFloat16: products are in bfloat16, sums in float32, in the order of
//     the tiles of AMX, which multiply many rows several times as fast. Rows of a and weights,
//     after they were rounded to F16 or BF16, are rounded to bfloat16: those below 2⁻¹²⁶ count as
//     zeros, and from 2¹²⁸ − 2¹¹⁹ on they are infinite. A sum begins with +0. Each 32 inputs add
//     the sum of two chains of fused multiply-adds, of their even and of their odd inputs, from +0.
//     In these sums what is below 2⁻¹²⁶ after rounding is a zero of its sign. Then +0 is added, and
//     bias. A weight takes 2 bytes, and inputs are padded to a multiple of 32; Format of such a
//     matrix is BF16.
//
// As in F32, the bits are the same on every CPU and for any shape around a product.
//
// The error is [ErrOption] for an unknown format, for Integers with another format than I8, for
// BFloat16 with I8 or with Integers, and for weights of I8 without a scale: NaN, ±Inf, and weights
// so large that sums in a rotation may overflow. It is [ErrShape], [ErrStride] or [ErrLength] for
// an invalid view or a matrix without rows, and [ErrMemory] if the system has too little memory.
func PackMatrix(w Tensor, c MatrixConfig) (*Matrix, error) {
	m, err := matmul.PackMatrix(&tuned, viewed(&w), c.body())
	return withBody(m), err
}

// PackBlocks packs a matrix from blocks of type t as in GGUF files: data has contiguous rows of
// outputs, each of inputs/32 blocks, inputs/64 for NVFP4 and Q2_0, inputs/128 for Q1_0, or
// inputs/256 for the K, TQ and IQ types except IQ4_NL, in the layout of ggml-common.h,
// little-endian. Of the configuration only Integers or
// BFloat16 may be set. Weights are exactly the decoded blocks: they are never rounded, nor rotated,
// and need at most 7 % more memory than the file. data may change afterwards. [Pool.PackBlocks]
// uses all workers.
//
//   - Without c.Integers a product is one chain of fused multiply-adds over the weights as float32,
//     in ascending order, from +0. Q2_K, Q4_K and Q5_K are d·scale·n − dmin·min, Q4_1 and Q5_1
//     d·n + m, rounded once; other weights are exact.
//   - With c.Integers, which is faster, each 32 inputs become integers with a scale a, their
//     largest magnitude divided by 127. For each 32 inputs in ascending order, from +0, one fused
//     multiply-add adds the exact sum of products of integers, for the K and IQ types with their
//     scales of 3 to 8 bits, times a·d, rounded once; for NVFP4 one for each 16. A second one
//     subtracts the minima of Q2_K, Q4_K and Q5_K, times a·dmin, or adds a·m of Q4_1 and Q5_1 times
//     the sum of the inputs' integers. A NaN or ±Inf in a row makes it NaN.
//   - With c.BFloat16 products are the products of [PackMatrix] with BFloat16 and these weights in
//     F32: each call decodes blocks to float32 and rounds them to bfloat16. The matrix keeps the
//     blocks.
//   - BlockF16 and BlockBF16, one number a block, are packed like the same numbers by [PackMatrix]
//     in F16 and BF16, also with c.BFloat16.
//
// Then bias is added. The bits are the same on every CPU and for any shape around a product.
//
// The error is [ErrOption] for an unknown type, if Format or Transposed is set, for Integers with
// BlockF16, BlockBF16 or BFloat16, and for scales that are NaN or infinite, above 2¹²⁵ in MXFP4 or
// negative in NVFP4: it names the block. It is [ErrShape] if inputs are no multiple of a block's or
// there are no outputs, [ErrLength] if data does not have exactly the blocks' length, and
// [ErrMemory] if the system has too little memory.
func PackBlocks(data []byte, t BlockType, outputs, inputs int, c MatrixConfig) (*Matrix, error) {
	m, err := matmul.PackBlocks(data, blocks.Type(t), outputs, inputs, c.body())
	return withBody(m), err
}

// Files of one or several matrices; internal/file has their format.

// Save writes the packed matrix to w in a format that any machine can read with [LoadMatrix] or
// [MapMatrix]: its elements and scales, and less than 200 more bytes. It returns how many were
// written. The same matrix gives the same bytes, on every CPU. Errors of w are wrapped.
func (m *Matrix) Save(w io.Writer) (n int64, err error) { return bodyOf(m).Save(w) }

// LoadMatrix reads a matrix that [Matrix.Save] wrote, and nothing after it, so r may hold several
// one after another. It validates all bytes; for an output in I8, that its largest integer is the
// one that belongs to its scale. Products have the bits of products by the saved matrix. The memory
// is like that of [PackMatrix], and is allocated as bytes arrive.
//
// The error is [ErrFormat] for bytes that Save cannot have written; it wraps [io.EOF] too if r has
// no bytes, and [io.ErrUnexpectedEOF] if it has too few. It is [ErrShape] for a matrix larger than
// the address space, and [ErrMemory] if the system has too little memory. Other errors of r are
// wrapped.
func LoadMatrix(r io.Reader) (*Matrix, error) {
	m, err := matmul.LoadMatrix(r)
	return withBody(m), err
}

// MapMatrix opens a file that [Matrix.Save] wrote, a single matrix, and uses its bytes in place: a
// packed model starts at once, and programs that map the same file share its memory. The header and
// the scales are checked. Elements, and the scales of blocks among them, are read from the file
// when they are first used, and are not checked. Products have the bits of products by the saved
// matrix.
//
// The file must not change until Close: products by changed bytes may have any value, and the
// program ends if the file became shorter. If the system cannot map the file, or is big-endian, it
// is read and checked as by [LoadMatrix]. A system provides huge pages for memory and not for
// files, so decoding may be slower than with a matrix from LoadMatrix.
//
// The errors are those of LoadMatrix, [ErrFormat] for bytes after the matrix, and errors of opening
// the file, wrapped.
func MapMatrix(path string) (*Matrix, error) {
	m, err := matmul.MapMatrix(path)
	return withBody(m), err
}

// SaveMatrices writes matrices to w, each under a name, so that [MapMatrices] opens all of a model
// at once. It returns how many bytes were written: those of [Matrix.Save], and for each matrix less
// than 4600 and its name. A matrix with several names, as a tied embedding, is written once. The
// same names and matrices give the same bytes, on every CPU.
//
// The error is [ErrLength] if len(names) is not len(ms) or names have more than 256 MiB together,
// [ErrOption] for an empty or a repeated name and for a nil matrix, and [ErrClosed] for a closed
// matrix; nothing is written then. Errors of w are wrapped.
func SaveMatrices(w io.Writer, names []string, ms []*Matrix) (n int64, err error) {
	return matmul.SaveMatrices(w, names, bodiesOf(ms))
}

// Matrices are the matrices of a file that [SaveMatrices] wrote. Any number of goroutines may look
// them up and multiply by them.
type Matrices struct{ body matmul.Matrices }

// MapMatrices opens a file that [SaveMatrices] wrote, and uses its bytes in place, as [MapMatrix]
// does with a single matrix: names, headers and scales are checked, elements are read when they are
// first needed, and the file must not change until Close. It is mapped once, for all.
//
// The errors are those of MapMatrix, with the name of the matrix.
func MapMatrices(path string) (*Matrices, error) {
	all, err := matmul.MapMatrices(path)
	if err != nil {
		return nil, err
	}
	return &Matrices{*all}, nil
}

// Names returns the names of the matrices, in the order of [SaveMatrices].
func (a *Matrices) Names() []string { return a.body.Names() }

// Matrix returns the matrix of a name, nil if there is none and after Close. Each call returns the
// same matrix. After the matrix's own Close nobody can multiply by it, but its memory is released
// only by Close of all.
func (a *Matrices) Matrix(name string) *Matrix { return withBody(a.body.Matrix(name)) }

// Close closes all matrices and releases their memory. Closing again returns [ErrClosed]. Closing
// while another goroutine multiplies ends the program.
func (a *Matrices) Close() error {
	if a == nil {
		return nil
	}
	return a.body.Close()
}
