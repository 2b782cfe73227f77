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

// head is the state of one head: the matrix at the chunk's begin, and the chunk's rows.
type head struct {
	s       []float32 // panels of 16 values: [panels][KeyDim][16]
	k       []float32 // keys [KeyDim][16 rows]
	u       []float32 // what rows add [16 rows][panels·16]
	factors []float32 // what rows leave [16 rows][decays]
	decay   []float32 // what the rows so far leave: products of factors [decays]
	weights []float32 // and what those after row j leave of it [decays][16 rows]
}

// head returns that of number h.
func (s *State) head(h int) head {
	c := s.chunk.now.data[h*s.layout.chunk:][:s.layout.chunk]
	return head{
		s:       s.matrix.now.data[h*s.layout.matrix:][:s.layout.matrix],
		k:       c[:s.updates],
		u:       c[s.updates:s.factors],
		factors: c[s.factors:][:Chunk*s.decays],
		decay:   c[s.decay:][:s.decays],
		weights: c[s.weights:][:Chunk*s.decays],
	}
}

// panel is 16 values of the matrix.
func (m *head) panel(g *State, p int) []float32 {
	n := g.KeyDim * kernel.Panel
	return m.s[p*n:][:n]
}

// width is how many values a row has in memory.
func (g *layout) width() int { return g.panels * kernel.Panel }

// goOn multiplies decay and weights by the factors of row i of the chunk.
func (m *head) goOn(g *layout, i int) {
	switch g.decays {
	case 0:
		return
	case 1:
		m.goOnByOne(i)
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

// goOnByOne is goOn where a row has one factor, without calls.
func (m *head) goOnByOne(i int) {
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

// refresh finds decay and weights after some rows.
func (m *head) refresh(g *layout, rows int) {
	for i := range rows {
		m.goOn(g, i)
	}
}

// work is what a worker needs for itself.
type work struct {
	x      []float32 // rows that are multiplied by the matrix: keys, then each head's queries
	sums   []float32 // these products [rows][panels·16]
	pairs  []float32 // those with the chunk's keys [rows][16]
	keys   []float32 // keys with their weights
	factor []float32 // the decay of each channel
	panel  []float32 // of Read
	own    []float32 // parts of a head that several units share

	decays, betas [Chunk]float32
	values        kernel.PanelLayout
	shape         triangle.Shape
}

var works = sync.Pool{New: func() any { return new(work) }}

// takeWork returns one with room for a chunk of a head.
func takeWork(g *layout) *work {
	w := works.Get().(*work)
	rows := (1 + g.group()) * Chunk
	w.x = kernel.Grow(w.x, rows*g.KeyDim)
	w.sums = kernel.Grow(w.sums, rows*g.width())
	w.pairs = kernel.Grow(w.pairs, rows*kernel.Panel)
	w.keys = kernel.Grow(w.keys, g.KeyDim*kernel.Panel)
	w.factor = kernel.Grow(w.factor, g.KeyDim)
	return w
}

func (w *work) put() { works.Put(w) }

// unit takes the rows of the call through a head of a state, for panels from one to before another.
func (j *job) unit(w *work, s *State, h, from, to int, next []float32) {
	if s.rows == 0 {
		return
	}
	m := s.head(h)
	if j.pieces > 1 {
		m = w.copyOf(s, &m)
	}
	for t := 0; t < s.rows; {
		i := (s.length + t) % Chunk
		n := min(Chunk-i, s.rows-t)
		r := passage{job: j, w: w, s: s, m: &m, h: h, t: s.first + t, first: i, n: n,
			left: s.rows - t - n, from: from, to: to, next: next}
		r.run()
		t += n
	}
}

// copyOf is a head of which the unit writes no more than its columns.
func (w *work) copyOf(s *State, m *head) head {
	n := s.updates + s.layout.chunk - s.factors
	w.own = kernel.Grow(w.own, n)
	c := head{s: m.s, u: m.u}
	at := 0
	for _, part := range [...]struct {
		to   *[]float32
		from []float32
	}{{&c.k, m.k}, {&c.factors, m.factors}, {&c.decay, m.decay}, {&c.weights, m.weights}} {
		*part.to = w.own[at:][:len(part.from)]
		at += len(part.from)
		if s.length%Chunk > 0 {
			stop.Copy(*part.to, part.from)
		}
	}
	return c
}

// remember leaves in a state what its units have kept for themselves: the keys and decays of the
// last chunk.
func (j *job) remember(s *State) {
	end := s.length + s.rows
	if s.rows == 0 || end%Chunk == 0 {
		return
	}
	begin := max(s.length, end/Chunk*Chunk)
	for h := range s.Heads {
		m := s.head(h)
		r := passage{job: j, s: s, m: &m, h: h, t: s.first + begin - s.length, first: begin % Chunk,
			n: end - begin}
		r.takeFactors()
		r.takeKeys()
		for i := range r.n {
			m.goOn(&s.layout, r.first+i)
		}
	}
}

// passage is some rows of one chunk, in one unit.
type passage struct {
	job      *job
	w        *work
	s        *State
	m        *head
	h, t     int       // the head, and the first row in the arguments
	first, n int       // the first row in the chunk, and how many there are
	left     int       // and after these in the call
	from, to int       // panels
	next     []float32 // the matrix that the worker multiplies by after this one, if there is one
}

// run takes them into the chunk, and the chunk into the matrix when it is full.
func (r *passage) run() {
	r.takeFactors()
	r.multiply()
	if r.left == 0 && r.n > 1 {
		triangle.PrefetchRows(tuned.ISA, r.next, 1, 0, prefetched)
	}
	shape := &r.w.shape
	*shape = triangle.Shape{First: r.first, Rows: r.n, Cols: min(r.to*kernel.Panel, r.s.ValueDim) -
		r.from*kernel.Panel, Updates: r.s.width(), Sums: (r.to - r.from) * kernel.Panel}
	r.update(shape)
	r.output(shape)
	if r.first+r.n < Chunk {
		return
	}
	r.w.weighKeys(r.s, r.m)
	r.addChunk()
}

// channels is how many channels of a panel take a chunk together. Meanwhile rows that are next come
// nearer.
const channels = 64

// addChunk takes the chunk into the matrix.
func (r *passage) addChunk() {
	n := r.s.KeyDim
	pieces := (n + channels - 1) / channels
	for p := r.from; p < r.to; p++ {
		s, u := r.m.panel(r.s, p), r.m.u[p*kernel.Panel:]
		for i := range pieces {
			from, to := i*channels, min((i+1)*channels, n)
			next := triangle.Next{&s[0], &s[0], &s[0], &s[0]}
			if r.left > 0 {
				next = r.nextRows((p-r.from)*pieces+i, pieces*(r.to-r.from))
			}
			triangle.AddChunk(&tuned, s[from*kernel.Panel:to*kernel.Panel], r.w.keys[from*kernel.Panel:], u,
				r.w.factor[from:to], r.s.width(), &next)
		}
	}
}

// nextRows are where those of the arguments begin that one of some pieces asks for.
func (r *passage) nextRows(piece, pieces int) triangle.Next {
	t := r.t + r.n + piece*min(r.left, Chunk)/pieces
	column := r.from * kernel.Panel
	return triangle.Next{&r.job.all[ofK].From(0, r.s.headOf(r.h, r.s.KeyHeads), t)[0],
		&r.job.all[ofQ].From(0, r.s.queryHead(r.h, 0), t)[0], &r.job.all[ofV].From(0, r.h, t)[column],
		&r.job.all[toDst].From(0, r.h*r.s.group(), t)[column]}
}

// prefetched is how much of the next matrix is asked for while the rows of a chunk are at work.
const prefetched = 1024

// takeFactors finds what rows leave: exp(decay).
func (r *passage) takeFactors() {
	decay := &r.job.all[ofDecay]
	switch {
	case r.s.decays == 0:
	case r.s.ChannelDecay:
		for i := range r.n {
			n := r.s.KeyDim
			attn.Exp(r.m.factors[(r.first+i)*n:][:n], decay.Row(0, r.h, r.t+i))
		}
	default:
		var logs [Chunk]float32
		for i := range r.n {
			logs[i] = decay.Row(0, r.h, r.t+i)[0]
		}
		attn.Exp(r.m.factors[r.first:][:r.n], logs[:r.n])
	}
}

// takeKeys transposes keys into the chunk, whose panels are channels.
func (r *passage) takeKeys() {
	k, h := &r.job.all[ofK], r.s.headOf(r.h, r.s.KeyHeads)
	if r.first == 0 {
		floats.PackKeys(&tuned, r.m.k, k.From(0, h, r.t), k.SL, r.n, r.s.KeyDim)
		return
	}
	for i := range r.n {
		triangle.TakeColumn(r.m.k, k.Row(0, h, r.t+i), r.first+i)
		stop.Point()
	}
}

// multiply takes keys into the chunk, and finds the products of keys and queries with the matrix
// and with the chunk's keys, whose weights it puts in.
func (r *passage) multiply() {
	if r.multiplyOne() {
		return
	}
	r.takeKeys()
	count := 0 // of rows in x
	if r.s.Rule.corrects() {
		count = r.take(count, ofK, r.s.headOf(r.h, r.s.KeyHeads))
	}
	for number := range r.s.group() {
		count = r.take(count, ofQ, r.s.queryHead(r.h, number))
	}
	if !r.s.ChannelDecay {
		r.product(r.w.pairs, r.m.k, count, 0, 1)
	}
	r.decayRows(count)
	r.product(r.w.sums, r.m.s, count, r.from, r.to)
}

// multiplyOne is takeKeys and multiply of one token, if there is a kernel for it: it multiplies one
// query, and the key or that query again.
func (r *passage) multiplyOne() (done bool) {
	if r.n > 1 || r.s.ChannelDecay || r.s.group() > 1 {
		return false
	}
	q := r.job.all[ofQ].Row(0, r.s.queryHead(r.h, 0), r.t)
	key := r.job.all[ofK].Row(0, r.s.headOf(r.h, r.s.KeyHeads), r.t)
	x, count := q, 1
	if r.s.Rule.corrects() {
		x, count = key, 2
	}
	panels := r.to - r.from
	if !triangle.TwoSums(tuned.ISA, &triangle.Pair{X: x, Y: q, K: r.m.k, Key: key, Row: r.first,
		S: r.m.s[r.from*r.s.KeyDim*kernel.Panel:], Sums: r.w.sums, Pairs: r.w.pairs, Panels: panels,
		Stride: panels * kernel.Panel}) {
		return false
	}
	r.decayRows(count)
	return true
}

// take copies rows of an argument into x from row at on, and returns how many there are then.
func (r *passage) take(at, of, h int) int {
	n := r.s.KeyDim
	for i := range r.n {
		stop.Copy(r.w.x[(at+i)*n:][:n], r.job.all[of].Row(0, h, r.t+i))
	}
	return at + r.n
}

// decayRows gives products with the chunk's keys their weights, and leaves the decays of rows.
// Those of channels multiply the rows themselves.
func (r *passage) decayRows(count int) {
	if r.s.decays == 0 {
		return
	}
	for i := range r.n {
		r.m.goOn(&r.s.layout, r.first+i)
		if r.s.ChannelDecay {
			r.channelRows(i, count)
			continue
		}
		r.w.decays[i] = r.m.decay[0]
		for at := i; at < count; at += r.n {
			pairs := r.w.pairs[at*kernel.Panel:]
			for j, e := range r.m.weights[:r.first+i] {
				pairs[j] *= e
			}
		}
	}
}

// channelRows finds the products of row i, of keys and of each head's queries, with the chunk's
// keys, and lets these rows of x decay.
func (r *passage) channelRows(i, count int) {
	n := r.s.KeyDim
	var pairs [2 * kernel.Panel]float32
	for at := i; at < count; at += 2 * r.n {
		both := min(2, (count-at+r.n-1)/r.n)
		triangle.DecayedSums(tuned.ISA, pairs[:], r.w.x[at*n:], r.m.weights, r.m.k, both, r.n*n, n)
		for row := range both {
			to := at + row*r.n
			copy(r.w.pairs[to*kernel.Panel:][:kernel.Panel], pairs[row*kernel.Panel:])
			x := r.w.x[to*n:][:n]
			elements.Multiply(tuned.ISA, x, x, r.m.decay, elements.Ahead{})
		}
	}
}

// steps is how long chains of one call are.
const steps = 512

// product multiplies rows of x by panels of a matrix.
func (r *passage) product(dst, matrix []float32, count, from, to int) {
	b, n := &r.w.values, r.s.KeyDim
	width := (to - from) * kernel.Panel
	for d := 0; d < n; d += steps {
		*b = kernel.PanelLayout{Keys: min(steps, n-d), Cols: width, Stride: kernel.Panel,
			PanelStride: n * kernel.Panel, Overwrite: d == 0}
		sums := kernel.Sums{O: dst, P: r.w.x[d:], Rows: count, OStride: width, PStride: n}
		floats.Accumulate(&tuned, &sums, matrix[(from*n+d)*kernel.Panel:], b)
	}
}

// rowDecays are those of the rows, nil where they are already in, or there are none.
func (r *passage) rowDecays() []float32 {
	if r.s.ChannelDecay || !r.s.Rule.decays() {
		return nil
	}
	return r.w.decays[:]
}

// update finds what rows add to the state.
func (r *passage) update(shape *triangle.Shape) {
	v := &r.job.all[ofV]
	column := r.from * kernel.Panel
	if !r.s.Rule.corrects() {
		for i := range r.n {
			stop.Copy(r.m.u[(r.first+i)*shape.Updates+column:][:shape.Cols], v.Row(0, r.h, r.t+i)[column:])
		}
		return
	}
	for i := range r.n {
		r.w.betas[i] = r.job.all[ofBeta].Row(0, r.h, r.t+i)[0]
	}
	shape.Outer = v.SL
	triangle.Substitute(tuned.ISA, r.m.u[column:], r.w.sums, r.w.pairs, r.rowDecays(), r.w.betas[:],
		v.From(0, r.h, r.t)[column:], shape)
}

// output finds the outputs of rows, for each head of queries.
func (r *passage) output(shape *triangle.Shape) {
	dst := &r.job.all[toDst]
	column, at := r.from*kernel.Panel, 0
	if r.s.Rule.corrects() {
		at = r.n
	}
	shape.Outer = dst.SL
	for number := range r.s.group() {
		triangle.Outputs(tuned.ISA, dst.From(0, r.h*r.s.group()+number, r.t)[column:],
			r.w.sums[at*shape.Sums:], r.w.pairs[at*kernel.Panel:], r.rowDecays(), r.m.u[column:],
			r.s.Scale, shape)
		at += r.n
	}
}

// weighKeys leaves in keys those of the chunk with what rows after them leave, and in factor what
// all leave of each channel.
func (w *work) weighKeys(s *State, m *head) {
	n := len(m.k)
	switch {
	case s.ChannelDecay:
		elements.Multiply(tuned.ISA, w.keys[:n], m.k, m.weights, elements.Ahead{})
		stop.Copy(w.factor, m.decay)
	case s.Rule.decays():
		for d := range s.KeyDim {
			w.factor[d] = m.decay[0]
		}
		stop.Copy(w.keys, m.k)
		const piece = kernel.CallElements / kernel.Panel
		for d := 0; d < s.KeyDim; d = kernel.NextPiece(d, piece, s.KeyDim) {
			floats.ScaleColumns(tuned.ISA, w.keys[d*kernel.Panel:], m.weights, min(piece, s.KeyDim-d),
				kernel.Panel, kernel.Panel)
		}
	default:
		for d := range s.KeyDim {
			w.factor[d] = 1
		}
		stop.Copy(w.keys, m.k)
	}
}

// takeRows lets a panel of the matrix decay and adds the chunk's first rows.
func (w *work) takeRows(s *State, panel, u []float32, rows int) {
	w.values = kernel.PanelLayout{Keys: rows, Cols: kernel.Panel, Stride: s.width(),
		PanelStride: kernel.Panel}
	sums := kernel.Sums{O: panel, P: w.keys, Alpha: w.factor, Rows: s.KeyDim, OStride: kernel.Panel,
		PStride: kernel.Panel}
	floats.Accumulate(&tuned, &sums, u, &w.values)
}
