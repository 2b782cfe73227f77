package triangle

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Substitute turns sums over the state into the updates that rows add to it, see substituteGeneric.
func Substitute(isa tuning.ISA, u, r, w, g, beta, v []float32, s *Shape) {
	s.operands(u, r, w, g)
	operand.Reads(beta, s.Rows)
	operand.ReadsRows(v, s.Rows, s.Outer, s.Cols)
	rest := s.eachCall(isa, func(c, panels int) {
		var x rowsCall
		x.u, x.sums, x.w, x.decay = &u[c], &r[c], &w[0], factors(g)
		x.beta, x.outer, x.panels, x.shape = &beta[0], &v[c], panels, s
		substituteStep(isa, &x)
	})
	if c := s.Cols - rest.Cols; rest.Cols > 0 {
		substituteGeneric(u[c:], r[c:], w, g, beta, v[c:], &rest)
	}
}

// Outputs turns sums over the state into outputs, see outputsGeneric.
func Outputs(isa tuning.ISA, dst, o, w, g, u []float32, scale float32, s *Shape) {
	s.operands(u, o, w, g)
	operand.WritesRows(dst, s.Rows, s.Outer, s.Cols)
	rest := s.eachCall(isa, func(c, panels int) {
		var x rowsCall
		x.u, x.sums, x.w, x.decay = &u[c], &o[c], &w[0], factors(g)
		x.outer, x.scale, x.panels, x.shape = &dst[c], scale, panels, s
		outputsStep(isa, &x)
	})
	if c := s.Cols - rest.Cols; rest.Cols > 0 {
		outputsGeneric(dst[c:], o[c:], w, g, u[c:], scale, &rest)
	}
}

// eachCall visits whole panels of columns, as many as a call of assembly may have, and returns the
// columns that are left for generic code.
func (s *Shape) eachCall(isa tuning.ISA, call func(c, panels int)) (rest Shape) {
	rest = *s
	if !vectors(isa) {
		return rest
	}
	const step = kernel.CallProducts / (kernel.Panel * kernel.Panel)
	whole := s.Cols / kernel.Panel * kernel.Panel
	for c := 0; c < whole; c = kernel.NextPiece(c, step, whole) {
		call(c, min(step, whole-c)/kernel.Panel)
	}
	rest.Cols -= whole
	return rest
}

// one holds factors of 1, for rows without factors.
var one = func() (x [kernel.Panel]float32) {
	for i := range x {
		x[i] = 1
	}
	return x
}()

func factors(g []float32) *float32 {
	if g == nil {
		return &one[0]
	}
	return &g[0]
}

// operands checks the operands that Substitute and Outputs have in common.
func (s *Shape) operands(u, sums, w, g []float32) {
	operand.UpdatesRows(u, s.First+s.Rows, s.Updates, s.Cols)
	operand.UpdatesRows(sums, s.Rows, s.Sums, s.Cols)
	operand.Reads(w, s.Rows*kernel.Panel)
	if g != nil {
		operand.Reads(g, s.Rows)
	}
}

// callChannels bounds the channels of a call, each of which has a panel.
const callChannels = kernel.CallElements / kernel.Panel

// DecayRow multiplies the weights of a chunk's rows by the decay of a new row, see decayRowGeneric.
func DecayRow(isa tuning.ISA, w, a []float32, i int) {
	n := len(a)
	operand.Reads(a, n)
	operand.Updates(w, n*kernel.Panel)
	if !vectors(isa) {
		decayRowGeneric(w, a, i)
		return
	}
	for d := 0; d < n; d = kernel.NextPiece(d, callChannels, n) {
		decayRowSIMD(&w[d*kernel.Panel], &a[d], min(callChannels, n-d), i)
	}
}

// DecayedSums multiplies rows of x, which are stride elements apart, by the keys of a chunk, see
// decayedSumsGeneric: sums are rows of a panel.
func DecayedSums(isa tuning.ISA, sums, x, w, k []float32, rows, stride, n int) {
	operand.Writes(sums, rows*kernel.Panel)
	operand.ReadsRows(x, rows, stride, n)
	operand.Reads(w, n*kernel.Panel)
	operand.Reads(k, n*kernel.Panel)
	if !vectors(isa) || n > kernel.CallInner {
		for r := range rows {
			decayedSumsGeneric((*[kernel.Panel]float32)(sums[r*kernel.Panel:]), x[r*stride:][:n], w, k)
		}
		return
	}
	for r := 0; r < rows; r = kernel.NextPiece(r, 2, rows) {
		decayedSumsSIMD(&sums[r*kernel.Panel], &x[r*stride], &w[0], &k[0], n, min(2, rows-r), stride)
	}
}

// TwoSums adds a key to the chunk's keys, and multiplies two rows by panels of the state and by the
// chunk's keys, see twoSumsGeneric, if there is a kernel for it.
func TwoSums(isa tuning.ISA, p *Pair) (done bool) {
	n := len(p.X)
	if !vectors(isa) || n > kernel.CallInner {
		return false
	}
	operand.WritesRows(p.Sums, 2, p.Stride, p.Panels*kernel.Panel)
	operand.Writes(p.Pairs, 2*kernel.Panel)
	operand.Reads(p.X, n)
	operand.Reads(p.Y, n)
	operand.Reads(p.S, p.Panels*n*kernel.Panel)
	operand.Updates(p.K, n*kernel.Panel)
	operand.Reads(p.Key, n)
	if !isa.Lanes16() {
		TakeColumn(p.K, p.Key, p.Row)
	}
	step := max(1, kernel.CallProducts/(kernel.CallRows*n*kernel.Panel))
	var call pairCall
	call.pairs, call.x, call.y, call.k, call.key = &p.Pairs[0], &p.X[0], &p.Y[0], &p.K[0], &p.Key[0]
	call.column, call.n, call.stride = 1<<p.Row, n, p.Stride
	for i := 0; i < p.Panels; i = kernel.NextPiece(i, step, p.Panels) {
		call.sums, call.s = &p.Sums[i*kernel.Panel], &p.S[i*n*kernel.Panel]
		call.panels = min(step, p.Panels-i)
		twoSumsStep(isa, &call)
	}
	return true
}

// Next is where rows begin that will be read soon. Any address will do.
type Next [4]*float32

// AddChunk adds the rows of a full chunk to a panel of the state, see addChunkGeneric. It may
// prefetch lines of the next rows, one of each for each 8 channels.
func AddChunk(cpu *tuning.Row, s, k, u, decay []float32, updates int, next *Next) {
	n := len(decay)
	operand.Updates(s, n*kernel.Panel)
	operand.Reads(k, n*kernel.Panel)
	operand.ReadsRows(u, kernel.Panel, updates, kernel.Panel)
	operand.Reads(decay, n)
	if !vectors(cpu.ISA) {
		addChunkGeneric(s, k, u, decay, updates)
		return
	}
	const step = 2 * callChannels
	for d := 0; d < n; d = kernel.NextPiece(d, step, n) {
		end := min(d+step, n)
		addChunkStep(cpu, s[d*kernel.Panel:], k[d*kernel.Panel:], u, decay[d:end], updates, next)
	}
}

// addPanel is AddChunk as a product of matrices.
func addPanel(cpu *tuning.Row, s, k, u, decay []float32, updates int) {
	b := kernel.PanelLayout{Keys: kernel.Panel, Cols: kernel.Panel, Stride: updates,
		PanelStride: kernel.Panel}
	sums := kernel.Sums{O: s, P: k, Alpha: decay, Rows: len(decay), OStride: kernel.Panel,
		PStride: kernel.Panel}
	floats.Accumulate(cpu, &sums, u, &b)
}

// PrefetchRows asks for n elements of rows that will be read soon: few, since processors hold up
// whoever asks for many.
func PrefetchRows(isa tuning.ISA, x []float32, rows, stride, n int) {
	if !vectors(isa) || rows <= 0 || n <= 0 || len(x) == 0 {
		prefetchRowsGeneric(x, rows, stride, n)
		return
	}
	const line = kernel.CacheLine / 4
	prefetchRowsSIMD(&x[0], rows, stride, min((n+line-1)/line, kernel.CallElements/line))
}
