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

// Which of several variants a call goes through, which return the same bits.

const (
	// fusedRows is what the rows of one call of the fused kernel are a multiple of.
	fusedRows = 6

	// fusedCols is the number of value columns that the fused kernel sums. Others are summed by
	// accumulate.
	fusedCols = 64

	// maximaRows is what the rows of a call of scoreMaxima are a multiple of; softmaxMaxima takes up
	// to maxTileRows.
	maximaRows = 6

	// maximaDim is the least dimension of scoreMaxima: one row of the tile before is looked at in
	// every 8 steps but the last 4.
	maximaDim = 8*maximaRows + 4
)

// kernels is the variants that some rows go through. The zero value is kernels with 8 lanes on
// amd64, and with 4 on arm64.
type kernels struct {
	lanes16   bool // score, and accumulate of whole panels, have 16 lanes
	softmax16 bool // so has softmax
	maxima    bool // score finds the maxima of rows for softmax; both have 8 lanes
	// softmax and accumulate are one kernel of fusedCols columns, for a multiple of fusedRows rows
	fused bool
}

// chooseKernels chooses the variants for some rows of queries, their d dimensions, and columns of
// values. Who calls a kernel that does not depend on one of these leaves it 0. lanes16 goes before
// maxima, where both are true.
func chooseKernels(rows, d, cols int) kernels {
	return kernels{
		lanes16:   tuned.ISA.Lanes16() && rows >= tuned.MinRows16,
		softmax16: tuned.ISA.Lanes16() && rows > 1, // one row has a kernel that keeps it in registers
		maxima:    tuned.MaximaInScore && tuned.ISA.Maxima() && d >= maximaDim && rows%maximaRows == 0,
		fused: tuned.FusedSoftmax && tuned.ISA.Fused() &&
			rows >= fusedRows && cols >= fusedCols,
	}
}
