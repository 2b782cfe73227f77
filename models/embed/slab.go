package embed

import (
	"sync/atomic"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// Operations on single rows are computed slab by slab: a worker computes all steps of a stage for
// the rows of a slab, so that they stay in its caches, and workers wait for each other only between
// stages. With too few rows for all workers they share each step instead.

// slab is rows of a batch in a stage.
type slab struct {
	*runner
	pool        *attn.Pool // workers that share the steps, nil for none
	first, rows int

	y, wide  []float32
	narrow   []float32 // embeddings that are widened or convolved
	scores   []float32 // of experts, and below outputs and weights of those that rows have chosen
	mixed    []float32
	shares   []float32
	chosen   []int32
	outs     []attn.Tensor
	matrices []*attn.Matrix
	biases   [][]float32
	err      error
}

// slabs is the division of a batch into slabs.
type slabs struct {
	each  int    // rows of a slab
	lanes int    // workers that compute slabs
	of    []slab // the current slab of each lane
	stage int
	next  atomic.Int64 // first row that no lane has claimed
}

const (
	// mostSlab is the maximum of rows of a slab: one block of products, whose intermediate results
	// stay in the L2 cache.
	mostSlab = 128

	// leastSlab is the fewest rows for which a worker reads all weights.
	leastSlab = 64

	// evenSlab divides the rows of a slab: kernels process that many rows at a time.
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

// parts returns the number of parts of a size. The last one may be smaller.
func parts(all, size int) int { return (all + size - 1) / size }

// runStage computes stage i for all rows: layer i−1 from its attention on, then layer i up to its
// attention.
func (r *runner) runStage(i int) {
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

// Work computes slabs until none is left or the call ends. It implements attn.Worker.
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
		s.computeStage(all.stage)
	}
}

// computeStage computes a stage for the slab: it ends a layer and begins the next. A layer is x +
// attention(x), then x + network(x), with norms of the inputs of both or of the sums.
func (s *slab) computeStage(stage int) {
	if stage == 0 && s.vision != nil {
		s.embedPatches()
	} else if stage == 0 {
		s.lookUp()
		s.keepEmbeddings()
	} else {
		s.endLayer(&s.all[stage-1])
	}
	if stage == 1 {
		s.convolve()
	}
	if stage < len(s.all) {
		s.beginLayer(&s.all[stage])
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

// x returns the slab's rows of hidden values.
func (s *slab) x() attn.Tensor { return s.view(s.runner.x[s.first*s.hidden:], s.hidden) }

// view returns a view of the slab's rows of n elements.
func (s *slab) view(x []float32, n int) attn.Tensor { return attn.BHLD(x, 1, 1, s.rows, n) }

// beginLayer computes the queries, keys and values of a layer.
func (s *slab) beginLayer(l *layer) {
	q, k, _ := s.projections(s.first, s.rows)
	pitch := q.SL
	s.multiplyAll(s.projected[s.first*pitch:], s.inputOf(l.attentionNorm), l.input)
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

// endLayer computes the rest of a layer from the outputs of attention.
func (s *slab) endLayer(l *layer) {
	in := l.output.In
	s.multiplyOne(s.y, s.view(s.attended[s.first*in:], in), &l.output)
	s.normalizeOutput(l.outputNorm)
	s.addResidual(l.attentionNorm)
	if l.experts != nil {
		s.runExperts(l.experts)
	} else {
		s.multiplyAll(s.wide, s.inputOf(l.ffnNorm), l.up)
		s.multiplyOne(s.y, s.activateUp(), &l.down)
	}
	s.normalizeOutput(l.downNorm)
	s.addResidual(l.ffnNorm)
}

// inputOf returns the input of attention or of the network: x, or with preNorm its norm.
func (s *slab) inputOf(n *norm) attn.Tensor {
	if !s.preNorm || n == nil {
		return s.x()
	}
	y := s.view(s.y, s.hidden)
	s.normalize(y, s.x(), n)
	return y
}

// normalizeOutput normalizes the output of attention or of the network, unless there is no norm.
func (s *slab) normalizeOutput(n *norm) {
	if n != nil {
		y := s.view(s.y, s.hidden)
		s.normalize(y, y, n)
	}
}

// addResidual sets x to x + y, without preNorm to the norm of that.
func (s *slab) addResidual(n *norm) {
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

// multiplyOne computes a linear layer.
func (s *slab) multiplyOne(dst []float32, x attn.Tensor, by *weights.Linear) {
	if s.err == nil {
		s.err = by.Multiply(s.pool, s.view(dst, by.Out), x)
	}
}

// multiplyAll computes linear layers that share an input. Their outputs are columns of dst.
func (s *slab) multiplyAll(dst []float32, x attn.Tensor, by []weights.Linear) {
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

// columns returns a view of width columns of rows.
func (s *slab) columns(x []float32, from, width, pitch int) attn.Tensor {
	return attn.Rows(x[from:], 1, s.rows, 1, width, pitch)
}

// activateUp applies activation and gate, and returns the input of the network's second product.
func (s *slab) activateUp() attn.Tensor {
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

// lookUp sets x to the sum of the embeddings of tokens, segments and positions.
func (s *slab) lookUp() {
	x, y := s.x(), s.view(s.y, s.hidden)
	if by := s.tables.project; by != nil {
		s.narrow = resize(s.narrow, 2*s.rows*by.In)
		x, y = s.view(s.narrow, by.In), s.view(s.narrow[s.rows*by.In:], by.In)
	}
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
	if by := s.tables.project; by != nil {
		s.multiplyOne(s.x().Data, x, by)
		x = s.x()
	}
	if s.tables.norm != nil {
		s.normalize(x, x, s.tables.norm)
	}
}
