package linattn

import (
	"sync"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/elements"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/triangle"
	"github.com/seed-1415985d/attn/internal/stop"
)

// head is the state of one head: the matrix at the start of the chunk, and the chunk's rows. The
// package documentation has the formulas.
type head struct {
	matrix  []float32 // S in panels of 16 values: [panels][KeyDim][16]
	keys    []float32 // k [KeyDim][16 rows]
	updates []float32 // u, which each row adds: [16 rows][panels·16]
	factors []float32 // a = exp(decay) of each row: [16 rows][decays]
	decay   []float32 // G, the product of the factors up to the last row: [decays]
	weights []float32 // W, the product of the factors after row j: [decays][16 rows]
}

// head returns the state of head h.
func (s *State) head(h int) head {
	c := s.chunk.now.data[h*s.layout.chunk:][:s.layout.chunk]
	return head{
		matrix:  s.matrix.now.data[h*s.layout.matrix:][:s.layout.matrix],
		keys:    c[:s.updates],
		updates: c[s.updates:s.factors],
		factors: c[s.factors:][:Chunk*s.decays],
		decay:   c[s.decay:][:s.decays],
		weights: c[s.weights:][:Chunk*s.decays],
	}
}

// panel returns panel p of the matrix: 16 values of each row.
func (m *head) panel(g *State, p int) []float32 {
	n := g.KeyDim * kernel.Panel
	return m.matrix[p*n:][:n]
}

// width returns the padded length of a row of values.
func (g *layout) width() int { return g.panels * kernel.Panel }

// applyFactors multiplies decay and weights by the factors of row i of the chunk.
func (m *head) applyFactors(g *layout, i int) {
	switch g.decays {
	case 0:
		return
	case 1:
		m.applyOneFactor(i)
		return
	}
	a := m.factors[i*g.decays:][:g.decays]
	if i == 0 {
		stop.Copy(m.decay, a)
	} else {
		elements.Multiply(tuned.ISA, m.decay, m.decay, a, elements.Ahead{})
	}
	triangle.DecayRow(tuned.ISA, m.weights, a, i)
}

// applyOneFactor is applyFactors for one factor a row, without calls.
func (m *head) applyOneFactor(i int) {
	a := m.factors[i]
	if i == 0 {
		m.decay[0] = a
	} else {
		m.decay[0] *= a
	}
	w := (*[Chunk]float32)(m.weights)
	for j := range w[:i] {
		w[j] *= a
	}
	w[i] = 1
}

// refreshDecays recomputes decay and weights from the factors of the first rows.
func (m *head) refreshDecays(g *layout, rows int) {
	for i := range rows {
		m.applyFactors(g, i)
	}
}

// work is a worker's scratch memory.
type work struct {
	inputs []float32 // rows to multiply by the matrix: keys, then the queries of each head
	sums   []float32 // inputs times the matrix: [rows][panels·16]
	pairs  []float32 // inputs times the chunk's keys: [rows][16]
	keys   []float32 // the chunk's keys, scaled by their weights
	factor []float32 // the chunk's decay for each channel
	panel  []float32 // the panel that Read writes out
	own    []float32 // private copy of the parts of a head that units share

	decays, betas [Chunk]float32
	values        kernel.PanelLayout
	shape         triangle.Shape
}

var works = sync.Pool{New: func() any { return new(work) }}

// getWork returns scratch memory for one chunk of a head.
func getWork(g *layout) *work {
	w := works.Get().(*work)
	rows := (1 + g.group()) * Chunk
	w.inputs = kernel.Grow(w.inputs, rows*g.KeyDim)
	w.sums = kernel.Grow(w.sums, rows*g.width())
	w.pairs = kernel.Grow(w.pairs, rows*kernel.Panel)
	w.keys = kernel.Grow(w.keys, g.KeyDim*kernel.Panel)
	w.factor = kernel.Grow(w.factor, g.KeyDim)
	return w
}

func (w *work) put() { works.Put(w) }

// runUnit processes the rows of the call in panels [from, to) of a head, chunk by chunk.
func (j *job) runUnit(w *work, s *State, h, from, to int, next []float32) {
	if s.rows == 0 {
		return
	}
	m := s.head(h)
	if j.pieces > 1 {
		m = w.privateHead(s, &m)
	}
	for t := 0; t < s.rows; {
		i := (s.length + t) % Chunk
		n := min(Chunk-i, s.rows-t)
		r := passage{job: j, work: w, state: s, head: &m, index: h, token: s.first + t, first: i,
			rows: n, left: s.rows - t - n, from: from, to: to, next: next}
		r.run()
		t += n
	}
}

// privateHead returns the head with private copies of what all its units write, keys and decays: a
// unit writes to shared memory only its own columns of the matrix and of updates.
func (w *work) privateHead(s *State, m *head) head {
	n := s.updates + s.layout.chunk - s.factors
	w.own = kernel.Grow(w.own, n)
	c := head{matrix: m.matrix, updates: m.updates}
	at := 0
	for _, part := range [...]struct {
		to   *[]float32
		from []float32
	}{{&c.keys, m.keys}, {&c.factors, m.factors}, {&c.decay, m.decay}, {&c.weights, m.weights}} {
		*part.to = w.own[at:][:len(part.from)]
		at += len(part.from)
		if s.length%Chunk > 0 {
			stop.Copy(*part.to, part.from)
		}
	}
	return c
}

// storeChunk stores the keys and decays of the last chunk in the state. Units that share a head
// have computed them in private copies only.
func (j *job) storeChunk(s *State) {
	end := s.length + s.rows
	if s.rows == 0 || end%Chunk == 0 {
		return
	}
	begin := max(s.length, end/Chunk*Chunk)
	for h := range s.Heads {
		m := s.head(h)
		r := passage{job: j, state: s, head: &m, index: h, token: s.first + begin - s.length,
			first: begin % Chunk, rows: end - begin}
		r.computeFactors()
		r.packKeys()
		for i := range r.rows {
			m.applyFactors(&s.layout, r.first+i)
		}
	}
}

// passage is consecutive rows of one chunk, processed by one unit.
type passage struct {
	job      *job
	work     *work
	state    *State
	head     *head
	index    int       // number of the head
	token    int       // position of the first row in the arguments
	first    int       // position of the first row in the chunk
	rows     int       // number of rows
	left     int       // rows of the call after these
	from, to int       // range of panels
	next     []float32 // panels of the worker's next unit, nil for none
}

// run adds the rows to the chunk and computes their outputs. A full chunk is added to the matrix.
func (r *passage) run() {
	r.computeFactors()
	r.multiplyRows()
	if r.left == 0 && r.rows > 1 {
		triangle.PrefetchRows(tuned.ISA, r.next, 1, 0, prefetched)
	}
	shape := &r.work.shape
	*shape = triangle.Shape{First: r.first, Rows: r.rows,
		Cols:    min(r.to*kernel.Panel, r.state.ValueDim) - r.from*kernel.Panel,
		Updates: r.state.width(), Sums: (r.to - r.from) * kernel.Panel}
	r.computeUpdates(shape)
	r.computeOutputs(shape)
	if r.first+r.rows < Chunk {
		return
	}
	r.work.weighKeys(r.state, r.head)
	r.addChunk()
}

// channels is how many channels of a panel one kernel call updates. Between calls the next rows are
// prefetched.
const channels = 64

// addChunk applies the chunk's decay to the matrix and adds the chunk's updates.
func (r *passage) addChunk() {
	n := r.state.KeyDim
	pieces := (n + channels - 1) / channels
	for p := r.from; p < r.to; p++ {
		s, u := r.head.panel(r.state, p), r.head.updates[p*kernel.Panel:]
		for i := range pieces {
			from, to := i*channels, min((i+1)*channels, n)
			next := triangle.Next{&s[0], &s[0], &s[0], &s[0]}
			if r.left > 0 {
				next = r.nextRows((p-r.from)*pieces+i, pieces*(r.to-r.from))
			}
			triangle.AddChunk(&tuned, s[from*kernel.Panel:to*kernel.Panel],
				r.work.keys[from*kernel.Panel:], u, r.work.factor[from:to], r.state.width(), &next)
		}
	}
}

// nextRows returns the addresses that a piece prefetches: rows of the next chunk, spread evenly
// over all pieces. It prefetches the second half of a row of two keys itself.
func (r *passage) nextRows(piece, pieces int) triangle.Next {
	t := r.token + r.rows + piece*min(r.left, Chunk)/pieces
	column := r.from * kernel.Panel
	keys := r.job.all[argK].From(0, r.state.headOf(r.index, r.state.KeyHeads), t)
	if at := r.state.readAt(); at > 0 {
		triangle.PrefetchRows(tuned.ISA, keys[at:], 1, 0, r.state.KeyDim)
	}
	return triangle.Next{&keys[0],
		&r.job.all[argQ].From(0, r.state.queryHead(r.index, 0), t)[0],
		&r.job.all[argV].From(0, r.index, t)[column],
		&r.job.all[argDst].From(0, r.index*r.state.group(), t)[column]}
}

// prefetched is how many floats of the next matrix are prefetched during one chunk.
const prefetched = 1024

// computeFactors computes the factors of the rows, exp(decay).
func (r *passage) computeFactors() {
	decay := &r.job.all[argDecay]
	switch {
	case r.state.decays == 0:
	case r.state.ChannelDecay:
		for i := range r.rows {
			n := r.state.KeyDim
			attn.Exp(r.head.factors[(r.first+i)*n:][:n], decay.Row(0, r.index, r.token+i))
		}
	default:
		var logs [Chunk]float32
		for i := range r.rows {
			logs[i] = decay.Row(0, r.index, r.token+i)[0]
		}
		attn.Exp(r.head.factors[r.first:][:r.rows], logs[:r.rows])
	}
}

// packKeys transposes the keys of the rows into the chunk, one panel for each channel.
func (r *passage) packKeys() {
	k, h := &r.job.all[argK], r.state.headOf(r.index, r.state.KeyHeads)
	if r.first == 0 {
		floats.PackKeys(&tuned, r.head.keys, k.From(0, h, r.token), k.SL, r.rows, r.state.KeyDim)
		return
	}
	for i := range r.rows {
		triangle.TakeColumn(r.head.keys, k.Row(0, h, r.token+i)[:r.state.KeyDim], r.first+i)
		stop.Point()
	}
}

// multiplyRows packs the keys, then multiplies keys and queries by the matrix and by the chunk's
// keys, and applies the decays.
func (r *passage) multiplyRows() {
	if r.multiplyOneRow() {
		return
	}
	r.packKeys()
	count := 0 // of rows in inputs
	if r.state.Rule.corrects() {
		count = r.copyRows(count, argK, r.state.headOf(r.index, r.state.KeyHeads), r.state.readAt())
	}
	for number := range r.state.group() {
		count = r.copyRows(count, argQ, r.state.queryHead(r.index, number), 0)
	}
	if !r.state.ChannelDecay {
		r.multiplyPanels(r.work.pairs, r.head.keys, count, 0, 1)
	}
	r.decayRows(count)
	r.multiplyPanels(r.work.sums, r.head.matrix, count, r.from, r.to)
}

// multiplyOneRow is multiplyRows of a single token by one kernel. The kernel multiplies two rows:
// the query and, for rules that correct, the key, else the query again. It reports whether it
// applies.
func (r *passage) multiplyOneRow() (done bool) {
	if r.rows > 1 || r.state.ChannelDecay || r.state.group() > 1 {
		return false
	}
	q := r.job.all[argQ].Row(0, r.state.queryHead(r.index, 0), r.token)
	key := r.job.all[argK].Row(0, r.state.headOf(r.index, r.state.KeyHeads), r.token)
	x, count := q, 1
	if r.state.Rule.corrects() {
		x, count = key[r.state.readAt():], 2
	}
	key = key[:r.state.KeyDim]
	panels := r.to - r.from
	if !triangle.TwoSums(tuned.ISA, &triangle.Pair{X: x, Y: q, K: r.head.keys, Key: key, Row: r.first,
		S: r.head.matrix[r.from*r.state.KeyDim*kernel.Panel:], Sums: r.work.sums,
		Pairs: r.work.pairs, Panels: panels, Stride: panels * kernel.Panel}) {
		return false
	}
	r.decayRows(count)
	return true
}

// readAt returns where in a row of k the key begins that is read.
func (g *layout) readAt() int { return g.keyRow() - g.KeyDim }

// copyRows copies the rows of an argument, from a column on, to row at of inputs, and returns the
// number of inputs.
func (r *passage) copyRows(at, of, h, column int) int {
	n := r.state.KeyDim
	for i := range r.rows {
		stop.Copy(r.work.inputs[(at+i)*n:][:n], r.job.all[of].Row(0, h, r.token+i)[column:])
	}
	return at + r.rows
}

// decayRows multiplies the products with the chunk's keys by their weights and stores the decay of
// each row. Decays for each channel scale the inputs instead, see decayChannels.
func (r *passage) decayRows(count int) {
	if r.state.decays == 0 {
		return
	}
	for i := range r.rows {
		r.head.applyFactors(&r.state.layout, r.first+i)
		if r.state.ChannelDecay {
			r.decayChannels(i, count)
			continue
		}
		r.work.decays[i] = r.head.decay[0]
		for at := i; at < count; at += r.rows {
			pairs := r.work.pairs[at*kernel.Panel:]
			for j, e := range r.head.weights[:r.first+i] {
				pairs[j] *= e
			}
		}
	}
}

// decayChannels is decayRows with a decay for each channel. It multiplies the inputs of row i by
// the chunk's keys and their weights, then scales these inputs by the decay.
func (r *passage) decayChannels(i, count int) {
	n := r.state.KeyDim
	var pairs [2 * kernel.Panel]float32
	for at := i; at < count; at += 2 * r.rows {
		both := min(2, (count-at+r.rows-1)/r.rows)
		triangle.DecayedSums(tuned.ISA, pairs[:], r.work.inputs[at*n:], r.head.weights, r.head.keys,
			both, r.rows*n, n)
		for row := range both {
			to := at + row*r.rows
			copy(r.work.pairs[to*kernel.Panel:][:kernel.Panel], pairs[row*kernel.Panel:])
			x := r.work.inputs[to*n:][:n]
			elements.Multiply(tuned.ISA, x, x, r.head.decay, elements.Ahead{})
		}
	}
}

// steps is how many channels one kernel call sums.
const steps = 512

// multiplyPanels multiplies the inputs by panels [from, to) of a matrix.
func (r *passage) multiplyPanels(dst, matrix []float32, count, from, to int) {
	b, n := &r.work.values, r.state.KeyDim
	width := (to - from) * kernel.Panel
	for d := 0; d < n; d += steps {
		*b = kernel.PanelLayout{Keys: min(steps, n-d), Cols: width, Stride: kernel.Panel,
			PanelStride: n * kernel.Panel, Overwrite: d == 0}
		sums := kernel.Sums{O: dst, P: r.work.inputs[d:], Rows: count, OStride: width, PStride: n}
		floats.Accumulate(&tuned, &sums, matrix[(from*n+d)*kernel.Panel:], b)
	}
}

// rowDecays returns the decay of each row, or nil: decays for each channel are already in the
// inputs.
func (r *passage) rowDecays() []float32 {
	if r.state.ChannelDecay || !r.state.Rule.decays() {
		return nil
	}
	return r.work.decays[:]
}

// computeUpdates computes the vector that each row adds to the state.
func (r *passage) computeUpdates(shape *triangle.Shape) {
	v := &r.job.all[argV]
	column := r.from * kernel.Panel
	if !r.state.Rule.corrects() {
		for i := range r.rows {
			stop.Copy(r.head.updates[(r.first+i)*shape.Updates+column:][:shape.Cols],
				v.Row(0, r.index, r.token+i)[column:])
		}
		return
	}
	for i := range r.rows {
		r.work.betas[i] = r.job.all[argBeta].Row(0, r.index, r.token+i)[0]
	}
	shape.Outer = v.SL
	triangle.Substitute(tuned.ISA, r.head.updates[column:], r.work.sums, r.work.pairs, r.rowDecays(),
		r.work.betas[:], v.From(0, r.index, r.token)[column:], shape)
}

// computeOutputs computes the outputs of the rows for each query head.
func (r *passage) computeOutputs(shape *triangle.Shape) {
	dst := &r.job.all[argDst]
	column, at := r.from*kernel.Panel, 0
	if r.state.Rule.corrects() {
		at = r.rows
	}
	shape.Outer = dst.SL
	for number := range r.state.group() {
		triangle.Outputs(tuned.ISA, dst.From(0, r.index*r.state.group()+number, r.token)[column:],
			r.work.sums[at*shape.Sums:], r.work.pairs[at*kernel.Panel:], r.rowDecays(),
			r.head.updates[column:], r.state.Scale, shape)
		at += r.rows
	}
}

// weighKeys scales the chunk's keys by the remaining decay. Factor gets the decay of the whole
// chunk for each channel.
func (w *work) weighKeys(s *State, m *head) {
	n := len(m.keys)
	switch {
	case s.ChannelDecay:
		elements.Multiply(tuned.ISA, w.keys[:n], m.keys, m.weights, elements.Ahead{})
		stop.Copy(w.factor, m.decay)
	case s.Rule.decays():
		for d := range s.KeyDim {
			w.factor[d] = m.decay[0]
		}
		stop.Copy(w.keys, m.keys)
		const piece = kernel.CallElements / kernel.Panel
		for d := 0; d < s.KeyDim; d = kernel.NextPiece(d, piece, s.KeyDim) {
			floats.ScaleColumns(tuned.ISA, w.keys[d*kernel.Panel:], m.weights, min(piece, s.KeyDim-d),
				kernel.Panel, kernel.Panel)
		}
	default:
		for d := range s.KeyDim {
			w.factor[d] = 1
		}
		stop.Copy(w.keys, m.keys)
	}
}

// addRows applies the decay to a copied panel of the matrix and adds the chunk's first rows.
func (w *work) addRows(s *State, panel, u []float32, rows int) {
	w.values = kernel.PanelLayout{Keys: rows, Cols: kernel.Panel, Stride: s.width(),
		PanelStride: kernel.Panel}
	sums := kernel.Sums{O: panel, P: w.keys, Alpha: w.factor, Rows: s.KeyDim, OStride: kernel.Panel,
		PStride: kernel.Panel}
	floats.Accumulate(&tuned, &sums, u, &w.values)
}
