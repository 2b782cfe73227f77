package triangle

// Shape is some rows of a chunk and some columns of values.
type Shape struct {
	First int // the row in the chunk of the call's first row
	Rows  int
	Cols  int // of values and outputs; sums and updates have whole panels
	// Elements between rows: of the updates of the chunk; of the call's sums; of values and outputs,
	// which are the caller's.
	Updates, Sums, Outer int
}

// Pair is two rows of channels, and the factors by which TwoSums multiplies them.
type Pair struct {
	X, Y   []float32
	S      []float32 // panels of the state
	K      []float32 // the chunk's keys; Key becomes row Row
	Key    []float32
	Row    int
	Sums   []float32 // products with the state: two rows, Stride apart
	Pairs  []float32 // by the chunk's keys: two rows of a panel
	Panels int
	Stride int
}

// rowsCall is the argument of the kernels of substitute and outputs. The generators read the
// offsets of fields from this declaration and the ones below (internal/dev/constants). It is set
// field by field, because a copy of a struct that has just been written waits for the stores.
type rowsCall struct {
	u, sums, w, decay *float32 // updates of the chunk, sums of the call's rows, weights, factors
	beta              *float32 // of substitute
	outer             *float32 // values, or outputs
	scale             float32  // of outputs
	panels            int
	shape             *Shape
}

// pairCall is the argument of the kernels of twoSums.
type pairCall struct {
	sums, pairs, x, y, s, k, key *float32
	column                       int // a bit: where the key belongs
	n, panels, stride            int
}
