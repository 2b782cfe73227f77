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
// MatMul packs b each time. Weights that are used more than once are better
// kept in a [Matrix].
func MatMul(dst, a, b Tensor) error {
	return matmul.MatMul(&tuned, viewed(&dst), viewed(&a), viewed(&b))
}

// Matrix is the right side of matrix products, packed once by [PackMatrix] in the order that the
// kernels read: the weights of a projection. [Matrix.Save] keeps it in a file, and [LoadMatrix] or
// [MapMatrix] opens that without packing. It does not change, so any number of goroutines may
// multiply by it and save it. Its memory is like that of a [Cache]; on Linux, matrices of 32 KiB to
// 8 MiB lie together in huge pages, each of which goes back when no matrix is in it any more.
type Matrix struct{ body matmul.Matrix }

// A Matrix has nothing but its body, so a pointer to one is a pointer to the other, and lists of
// them are the same memory.

// bodyOf is the body of a matrix, which may be nil.
func bodyOf(m *Matrix) *matmul.Matrix { return (*matmul.Matrix)(unsafe.Pointer(m)) }

// withBody is the matrix of a body, which may be nil.
func withBody(m *matmul.Matrix) *Matrix { return (*Matrix)(unsafe.Pointer(m)) }

func bodiesOf(ms []*Matrix) []*matmul.Matrix {
	return unsafe.Slice((**matmul.Matrix)(unsafe.Pointer(unsafe.SliceData(ms))), len(ms))
}

// Dims returns the batch entries, heads, inputs and outputs of the matrix, K and N of [PackMatrix].
func (m *Matrix) Dims() (batch, heads, inputs, outputs int) { return m.body.Dims() }

// MemoryUse returns the bytes that the matrix takes, scales included; 0 after Close. Those of
// [MapMatrix] are the file's.
func (m *Matrix) MemoryUse() int { return m.body.MemoryUse() }

// Format returns the format of the matrix's weights: that of [PackMatrix], F16 and BF16 for what
// [PackBlocks] made of BlockF16 and BlockBF16, BF16 with BFloat16, and [Blocks] for other blocks.
func (m *Matrix) Format() Format { return Format(m.body.Format()) }

// BlockType returns the type of the matrix's blocks, and false if it has none: if it was made by
// [PackMatrix], or of halves.
func (m *Matrix) BlockType() (t BlockType, ok bool) {
	of, ok := m.body.BlockType()
	return BlockType(of), ok
}

// Close gives the matrix's memory back. Calls that begin later, Close among them, return
// [ErrClosed]. Closing a matrix while another goroutine multiplies by it, or closes it, may end the
// program, or give products any value.
func (m *Matrix) Close() error {
	if m == nil {
		return nil
	}
	return m.body.Close()
}

// MatMul computes dst = a·m + bias like the function [MatMul], on the calling goroutine. bias,
// which is added last, has N elements or is nil. [PackMatrix] says what the products by a matrix of
// fewer bits are.
//
//	a   [B, H, L, K]
//	dst [B, H, L, N]
func (m *Matrix) MatMul(dst, a Tensor, bias []float32) error {
	return bodyOf(m).MatMul(&tuned, viewed(&dst), viewed(&a), bias)
}

// Rows decodes the weights of some outputs, as many rows: the embeddings of tokens out of a matrix
// that computes logits, too, so that tied weights are kept once.
//
//	outputs 0 to N − 1, in any order, also several times; none of them is an empty dst
//	dst     [batch, heads, len(outputs), K] of the matrix's Dims, with any strides
//
// They are exactly the weights that products use: in F16 and BF16 rounded when they were packed, of
// blocks what these decode to. Those of I8 are integers times the output's scale, rounded once, and
// then rotated back, which rounds again; so they are the packed weights as closely as 8 bits are.
//
// 16 outputs lie together, and are decoded together: an output takes as long as 16 in a row that
// begin with a multiple of 16. Rows does not allocate.
//
// An output that does not exist is [ErrOption], a dst of another shape [ErrShape], a closed matrix
// [ErrClosed]; a view that is not valid is [ErrShape], [ErrStride] or [ErrLength], and one that
// shares memory with outputs [ErrOverlap]. Then nothing was written.
func (m *Matrix) Rows(dst Tensor, outputs []int32) error {
	return bodyOf(m).Rows(&tuned, viewed(&dst), outputs)
}

// MulMatrices computes dsts[i] = a·ms[i] + biases[i] for each of the matrices, as [Matrix.MatMul]
// does one by one and with the same bits: queries, keys and values of one input, or gate and up.
// Matrices may differ in format and outputs. What they need of a, rotated or in integers, is made
// once.
//
//	a        [B, H, L, K]
//	dsts[i]  [B, H, L, N of ms[i]]
//	biases   nil, or one for each matrix: nil, or as many as it has outputs
//
// Outputs that share elements are [ErrOverlap], lists of different lengths [ErrLength], and a nil
// matrix is [ErrOption]. If the arguments are invalid, nothing has been written.
func MulMatrices(dsts []Tensor, a Tensor, ms []*Matrix, biases [][]float32) error {
	return matmul.MulMatrices(&tuned, allViewed(dsts), viewed(&a), bodiesOf(ms), biases)
}

// MulExperts multiplies rows by the matrices that they have chosen, as the experts of a mixture are
// applied to tokens: row t of dst's head j is a row of a times ms[experts[t][j]], plus
// biases[experts[t][j]], with the bits of that product alone. Rows of the same matrix are
// multiplied together, so each matrix is read once a call.
//
//	experts  [1, 1, T, n]           an index of ms for each row; −1: none
//	a        [1, 1 or n, T, K]      1: each row for all n matrices that its token has chosen
//	dst      [1, n, T, N]
//	ms       of K inputs and N outputs, without batch and heads; formats and types may differ
//	biases   nil, or one for each matrix: nil, or N elements
//
// Where the index is −1, as for experts that another machine has, the row of dst becomes +0 without
// bias, and its inputs are not read. A token may choose a matrix several times, and T may be 0.
// experts and a may be Broadcast. Gate and up are two calls with the same experts, down is a third,
// whose a is their n rows a token. The layer's output is the sum of its n rows, of which an element
// e counts with the router's weight w as float32(w*e): the conversion rounds before the sum, which
// compilers for some CPUs leave out otherwise. The example has all of a layer.
//
// An index below −1 or from len(ms) on and a nil matrix are [ErrOption], other shapes [ErrShape], a
// bias of another length or another number of them [ErrLength], a closed matrix [ErrClosed], and a
// dst that shares memory with a, experts or biases [ErrOverlap]. Then nothing has been written.
// MulExperts does not allocate.
func MulExperts(dst, a Tensor, ms []*Matrix, experts View[int32], biases [][]float32) error {
	return matmul.MulExperts(&tuned, viewed(&dst), viewed(&a), bodiesOf(ms), viewed(&experts), biases)
}

// MatrixConfig says how [PackMatrix] packs a matrix.
type MatrixConfig struct {
	Format     Format // F32 is the zero value
	Transposed bool   // rows of w are outputs, as Linear layers and GGUF files store them
	Integers   bool   // products are exact sums of integers; Format is I8, of PackBlocks unset
	BFloat16   bool   // products are in bfloat16; Format is F32, F16 or BF16, of PackBlocks unset
}

// body is the configuration of a matrix's body.
func (c *MatrixConfig) body() matmul.Config {
	return matmul.Config{Format: kernel.Format(c.Format), Transposed: c.Transposed,
		Integers: c.Integers, BFloat16: c.BFloat16}
}

// PackMatrix packs the matrices w [B or 1, H or 1, K, N], whose rows are inputs and columns
// outputs; or with c.Transposed w [B or 1, H or 1, N, K], whose rows are outputs: then products are
// a·wᵀ, with the bits of a Matrix of the transpose. Strides are as in any view, so Broadcast
// repeats a row. PackMatrix copies w, which may change afterwards. Like NewCache, it asks for huge
// pages. [Pool.PackMatrix] takes all workers, and [Matrix.Save] keeps what was packed.
//
// Formats of fewer bits take 2 bytes an element, or 1 and a float32 for each output. Few rows
// multiply that much faster, because they wait for memory; many rows take about as long as with
// F32.
//
//   - F16 and BF16: elements are rounded to nearest, ties to even. Products have the bits of those
//     by a float32 matrix of the rounded elements. In F16, what is above 65504 may become ±Inf.
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
//     the tiles of AMX, which multiply many rows several times as fast. Rows of a and weights, after
//     they were rounded to F16 or BF16, are rounded to bfloat16: those below 2⁻¹²⁶ count as zeros,
//     and from 2¹²⁸ − 2¹¹⁹ on they are infinite. A sum begins with +0. Each 32 inputs add the sum of
//     two chains of fused multiply-adds, of their even and of their odd inputs, from +0. In these
//     sums what is below 2⁻¹²⁶ after rounding is a zero of its sign. Then +0 is added, and bias. A
//     weight takes 2 bytes, and inputs are padded to a multiple of 32; Format of such a matrix is
//     BF16.
//
// The bits are the same on every CPU and for any shape around a product, as those of F32 are.
//
// An unknown format is [ErrOption]. So are weights of I8 that have no scale: NaN, ±Inf, and what is
// so large that sums in a rotation may overflow, Integers of another format, BFloat16 of I8, and
// both of them. A view that is not
// valid is [ErrShape], [ErrStride] or [ErrLength], as is a matrix without rows; [ErrMemory] if the
// system has no memory.
func PackMatrix(w Tensor, c MatrixConfig) (*Matrix, error) {
	m, err := matmul.PackMatrix(&tuned, viewed(&w), c.body())
	return withBody(m), err
}

// PackBlocks packs a matrix from the blocks of type t that a file has for it: the rows of outputs
// follow each other, each of inputs/32 blocks, inputs/64 of NVFP4, or inputs/256 of IQ4_XS and the
// K and TQ types, laid out as ggml-common.h has them, little-endian. Of the configuration only
// Integers or BFloat16 may be set. Weights are exactly what the blocks decode to: they are never
// rounded, nor rotated, and take the file's memory and at most 7 % more. data may change
// afterwards. [Pool.PackBlocks] takes all workers.
//
//   - Without c.Integers a product is one chain of fused multiply-adds over the weights as float32,
//     in ascending order, from +0. Q2_K, Q4_K and Q5_K are d·scale·n − dmin·min, Q4_1 and Q5_1
//     d·n + m, rounded once; other weights are exact.
//   - With c.Integers, which is what to choose for speed, each 32 inputs become integers with a
//     scale a, their largest magnitude divided by 127. For each 32 inputs in ascending order, from
//     +0, one fused multiply-add adds the exact sum of products of integers, of IQ4_XS and the K
//     types with the scales of 4 to 8 bits, times a·d, rounded once; of NVFP4 one for each 16. A
//     second one takes off the minima of Q2_K, Q4_K and Q5_K, times a·dmin, or adds a·m of Q4_1 and
//     Q5_1 times the sum of the inputs' integers. A NaN or ±Inf in a row makes it NaN.
//   - BlockF16 and BlockBF16, one number a block, become what [PackMatrix] makes of the same
//     numbers in F16 and BF16, also with c.BFloat16, which other types do not have yet.
//
// Then bias is added. The bits are the same on every CPU and for any shape around a product.
//
// A type that is not known is [ErrOption], as are Format and Transposed, Integers with BlockF16 or
// BlockBF16, BFloat16 with others, and scales that are NaN or infinite or, of MXFP4, above 2¹²⁵ or,
// of NVFP4, negative: the error names the block. Inputs that are no multiple of a block's are
// [ErrShape], as are no outputs; data that is not exactly of that length is [ErrLength];
// [ErrMemory] if the system has no memory.
func PackBlocks(data []byte, t BlockType, outputs, inputs int, c MatrixConfig) (*Matrix, error) {
	m, err := matmul.PackBlocks(data, blocks.Type(t), outputs, inputs, c.body())
	return withBody(m), err
}

// Files of matrices, one or several; internal/file has their form.

// Save writes the packed matrix to w in a form that any machine can read with [LoadMatrix] or
// [MapMatrix]: its elements and scales, and less than 200 bytes beside them. It returns how many
// were written. The same matrix gives the same bytes, on every CPU. Errors of w are wrapped.
func (m *Matrix) Save(w io.Writer) (n int64, err error) { return bodyOf(m).Save(w) }

// LoadMatrix reads a matrix that [Matrix.Save] wrote, and nothing after it, so r may hold several
// one after another. It checks all of it; of the integers of an output in I8, that the largest is
// what its scale makes of the largest weight. Products have the bits of those by the matrix that
// was saved. The memory is like that of [PackMatrix], and is taken as bytes come.
//
// What Save cannot have written is [ErrFormat]; it wraps [io.EOF] too if r has no bytes, and
// [io.ErrUnexpectedEOF] if it has too few. A matrix larger than memory can be is [ErrShape], and
// [ErrMemory] if the system has no memory. Other errors of r are wrapped.
func LoadMatrix(r io.Reader) (*Matrix, error) {
	m, err := matmul.LoadMatrix(r)
	return withBody(m), err
}

// MapMatrix opens a file that [Matrix.Save] wrote, a single matrix, and uses its bytes in place:
// a packed model starts at once, and programs that map the same file share its memory. The header
// and the scales are checked; elements are read from the file when they are first needed, and are
// not checked, nor are the scales of blocks, which lie among them. Products have the bits of those
// by the matrix that was saved.
//
// The file must not change until Close: products by bytes that changed are of any value, and the
// end of the program where the file became shorter. Where the system cannot map the file, or orders
// the bytes of numbers otherwise, it is read and checked as by [LoadMatrix]. A system that gives
// huge pages on request gives them to memory and not to files, so decoding may take longer than by
// a matrix from LoadMatrix.
//
// The errors are those of LoadMatrix, [ErrFormat] for bytes after the matrix, and those of opening
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
// len(names) is len(ms), or the error is [ErrLength], as for names of more than 256 MiB together.
// An empty name, one that came before and a nil matrix are [ErrOption], a closed matrix is
// [ErrClosed]; nothing is written then. Errors of w are wrapped.
func SaveMatrices(w io.Writer, names []string, ms []*Matrix) (n int64, err error) {
	return matmul.SaveMatrices(w, names, bodiesOf(ms))
}

// Matrices are those of a file that [SaveMatrices] wrote. Any number of goroutines may ask for them
// and multiply by them.
type Matrices struct{ body matmul.Matrices }

// MapMatrices opens a file that [SaveMatrices] wrote, and uses its bytes in place, as [MapMatrix]
// does with a single matrix: names, headers and scales are checked, elements are read when they are
// first needed, and the file must not change until Close. It is mapped once, for all.
//
// The errors are those of MapMatrix, with the name of the matrix that they are of.
func MapMatrices(path string) (*Matrices, error) {
	all, err := matmul.MapMatrices(path)
	if err != nil {
		return nil, err
	}
	return &Matrices{*all}, nil
}

// Names returns the names of the matrices, in the order of [SaveMatrices].
func (a *Matrices) Names() []string { return a.body.Names() }

// Matrix returns the matrix of a name, nil if there is none and after Close. The same matrix comes
// each time. Its own Close lets nobody multiply by it any more; its memory stays until that of all.
func (a *Matrices) Matrix(name string) *Matrix { return withBody(a.body.Matrix(name)) }

// Close closes all matrices and gives their memory back. Closing again is [ErrClosed]. Closing
// while another goroutine multiplies ends the program.
func (a *Matrices) Close() error {
	if a == nil {
		return nil
	}
	return a.body.Close()
}
