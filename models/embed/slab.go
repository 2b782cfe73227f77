package embed

import (
	"sync/atomic"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// What goes row by row is computed slab by slab: a worker takes some rows through all steps of a
// stage, so that they stay in its nearest caches, and workers wait for each other only between
// stages. Where there are too few rows for all workers, they share each step instead.

// slab is rows of a batch on their way through a stage.
type slab struct {
	*runner
	pool        *attn.Pool // whose workers share the steps; nil for none
	first, rows int

	y, wide  []float32
	outs     []attn.Tensor
	matrices []*attn.Matrix
	biases   [][]float32
	err      error
}

// slabs are those of a batch.
type slabs struct {
	each  int    // rows of a slab
	lanes int    // workers that take slabs
	of    []slab // memory for each of them
	stage int
	next  atomic.Int64 // the row that nobody has taken
}

const (
	// mostSlab rows are the most: products take as many at a time, and what a stage makes of them
	// stays in the L2 cache.
	mostSlab = 128

	// leastSlab rows are the fewest that each worker reads all weights for.
	leastSlab = 64

	// evenSlab is what the rows of slabs are a multiple of: kernels take as many together.
	evenSlab = 16
)

// divide divides the rows of a batch among workers.
func (s *slabs) divide(r *runner) {
	lanes, most := r.options.Workers, mostSlab
	if lanes > 1 && r.tokens < lanes*leastSlab {
		lanes, most = 1, r.tokens
	}
	count := parts(r.tokens, most*lanes) * lanes
	s.each = parts(parts(r.tokens, count), evenSlab) * evenSlab
	if n := lanes - len(s.of); n > 0 {
		s.of = append(s.of, make([]slab, n)...)
	}
	s.lanes = lanes
}

// parts is how many parts of a size there are, the last one of which may be smaller.
func parts(all, size int) int { return (all + size - 1) / size }

// stage takes all rows through what is before the attention of layer i, and behind that of the one
// before it.
func (r *runner) stage(i int) {
	if r.try(ended(r.ctx)); r.err != nil {
		return
	}
	s := &r.slabs
	s.stage = i
	s.next.Store(0)
	if s.lanes > 1 {
		r.err = r.pool.Run(s.lanes, r)
	} else {
		r.Work(0)
	}
	for i := range s.of[:s.lanes] {
		r.try(s.of[i].err)
		s.of[i].err = nil
	}
}

// Work lets a worker take slabs until none is left, or the call ends.
func (r *runner) Work(part int) {
	all := &r.slabs
	s := &all.of[part]
	s.runner, s.pool = r, nil
	if all.lanes == 1 {
		s.pool = r.pool
	}
	for r.ctx.Err() == nil {
		s.first = int(all.next.Add(int64(all.each))) - all.each
		if s.first >= r.tokens {
			return
		}
		s.rows = min(all.each, r.tokens-s.first)
		s.y = resize(s.y, s.rows*r.hidden)
		s.wide = resize(s.wide, s.rows*r.upWidth())
		s.compute(all.stage)
	}
}

// compute takes the slab through a stage: it ends a layer and begins the next. A layer is x +
// attention(x) and x + network(x), with a norm of what these read or of the sums.
func (s *slab) compute(stage int) {
	if stage == 0 {
		s.lookUp()
	} else {
		s.end(&s.all[stage-1])
	}
	if stage < len(s.all) {
		s.begin(&s.all[stage])
	} else if s.final != nil {
		s.normalize(s.x(), s.x(), s.final)
	}
}

// try keeps the first error.
func (s *slab) try(err error) {
	if s.err == nil {
		s.err = err
	}
}

// x is the rows that go through the layers.
func (s *slab) x() attn.Tensor { return s.view(s.runner.x[s.first*s.hidden:], s.hidden) }

// view views the slab's rows of n elements.
func (s *slab) view(x []float32, n int) attn.Tensor { return attn.BHLD(x, 1, 1, s.rows, n) }

// begin makes the queries, keys and values of a layer.
func (s *slab) begin(l *layer) {
	q, k, _ := s.projections(s.first, s.rows)
	pitch := q.SL
	s.multiply(s.projected[s.first*pitch:], s.before(l.attentionNorm), l.input)
	if l.queryNorm != nil {
		s.try(nn.RMSNorm(s.pool, q, q, l.queryNorm, s.epsilon))
		s.try(nn.RMSNorm(s.pool, k, k, l.keyNorm, s.epsilon))
	}
	if l.rope != nil {
		positions := s.positions[s.first:][:s.rows]
		s.try(l.rope.Rotate(s.pool, q, q, positions))
		s.try(l.rope.Rotate(s.pool, k, k, positions))
	}
}

// end is what a layer does with what attention made.
func (s *slab) end(l *layer) {
	in := l.output.In
	s.one(s.y, s.view(s.attended[s.first*in:], in), &l.output)
	s.add(l.attentionNorm)
	s.multiply(s.wide, s.before(l.ffnNorm), l.up)
	s.one(s.y, s.activate(), &l.down)
	s.add(l.ffnNorm)
}

// before is what a part of a layer reads: x, or its norm.
func (s *slab) before(n *norm) attn.Tensor {
	if !s.preNorm || n == nil {
		return s.x()
	}
	y := s.view(s.y, s.hidden)
	s.normalize(y, s.x(), n)
	return y
}

// add sets x to x + y, or to the norm of that.
func (s *slab) add(n *norm) {
	x := s.x()
	s.try(nn.Add(s.pool, x, x, s.view(s.y, s.hidden)))
	if !s.preNorm && n != nil {
		s.normalize(x, x, n)
	}
}

func (s *slab) normalize(dst, x attn.Tensor, n *norm) {
	if s.rms {
		s.try(nn.RMSNorm(s.pool, dst, x, n.weight, s.epsilon))
	} else {
		s.try(nn.LayerNorm(s.pool, dst, x, n.weight, n.bias, s.epsilon))
	}
}

// one is a linear layer.
func (s *slab) one(dst []float32, x attn.Tensor, by *weights.Linear) {
	if s.err == nil {
		s.err = by.Multiply(s.pool, s.view(dst, by.Out), x)
	}
}

// multiply is linear layers of one input, whose outputs are side by side in a row.
func (s *slab) multiply(dst []float32, x attn.Tensor, by []weights.Linear) {
	pitch, from := 0, 0
	for i := range by {
		pitch += by[i].Out
	}
	s.outs, s.matrices, s.biases = s.outs[:0], s.matrices[:0], s.biases[:0]
	for i := range by {
		s.outs = append(s.outs, s.columns(dst, from, by[i].Out, pitch))
		s.matrices = append(s.matrices, by[i].Matrix)
		s.biases = append(s.biases, by[i].ProductBias())
		from += by[i].Out
	}
	if s.err == nil {
		s.err = s.pool.MulMatrices(s.outs, x, s.matrices, s.biases)
	}
	for i := range by {
		if s.err == nil {
			s.err = by[i].Rescale(s.pool, s.outs[i])
		}
	}
}

// columns views a part of rows of some pitch.
func (s *slab) columns(x []float32, from, width, pitch int) attn.Tensor {
	return attn.Rows(x[from:], 1, s.rows, 1, width, pitch)
}

// activate is what the second product of the network reads.
func (s *slab) activate() attn.Tensor {
	if !s.gated {
		x := s.view(s.wide, s.ffn)
		s.try(nn.Activate(s.pool, x, x, s.activation))
		return x
	}
	gate, up := s.columns(s.wide, 0, s.ffn, 2*s.ffn), s.columns(s.wide, s.ffn, s.ffn, 2*s.ffn)
	if s.gateLast {
		gate, up = up, gate
	}
	s.try(nn.Gate(s.pool, gate, gate, up, s.activation))
	return gate
}

// lookUp sets x to the sum of what the tables have for tokens, segments and positions.
func (s *slab) lookUp() {
	x, y := s.x(), s.view(s.y, s.hidden)
	gather := func(to attn.Tensor, from *weights.Table, at []int32) {
		for i, row := range at[s.first:][:s.rows] {
			from.Row(to.Row(0, 0, i), int(row))
		}
	}
	gather(x, s.tables.words, s.ids)
	if s.tables.segments != nil {
		gather(y, s.tables.segments, s.segments)
		s.try(nn.Add(s.pool, x, x, y))
	}
	if s.tables.positions != nil {
		gather(y, s.tables.positions, s.positions)
		s.try(nn.Add(s.pool, x, x, y))
	}
	if s.tables.norm != nil {
		s.normalize(x, x, s.tables.norm)
	}
}
