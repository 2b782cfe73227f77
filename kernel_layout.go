package attn

import "math"

// The sizes and forms of what kernels read and write.

const (
	// Block is the number of keys of one online-softmax step. Blocks start at
	// absolute key indices that are multiples of Block.
	Block = 64

	// Segment is the number of keys that are summed from an empty state before
	// they are merged with the keys to their left. Work is split between
	// workers, and states are split, at multiples of Segment.
	Segment = 1024

	// softmaxRows is the number of rows of one assembly call of softmax. The AVX2
	// kernel (gen/softmax.go) keeps the lanes of so many sums on its stack.
	softmaxRows = 96

	// inPlaceRows is the number of rows up to which scoreRows transposes keys in registers faster than
	// they are packed.
	inPlaceRows = 4

	// panel is the number of keys, or value columns, side by side in packed order.
	panel = 16

	// maximaLanes is the number of lanes of a row's maxima: one for every maximaLanes-th key.
	maximaLanes = 8
)

// panelLayout says where the values of a block are: column c of key j is at
// v[c/panel*panelStride + j*stride + c%panel]. Both packed values and a
// caller's rows have this form.
type panelLayout struct {
	keys, cols          int // cols is a multiple of 8 in assembly
	stride, panelStride int
	prefetchHint
	overwrite bool    // outputs begin at 0, whatever is there (β = 0)
	after     uintptr // the panel that is read after these, 0 if panels are not prefetched one ahead
}

// negZero as a weight marks a key that the row does not see. It counts as zero in
// every sum, and accumulateMasked does not look at the key's value.
const negZero = 1 << 31

var negInf = float32(math.Inf(-1))
