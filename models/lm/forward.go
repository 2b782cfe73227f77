package lm

import (
	"fmt"
	"slices"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// piece is tokens that continue a sequence: a part of a prompt, or the token generated last.
type piece struct {
	seq    sequence
	tokens []int32
	trace  *tracer // of the rows that layers return; nil for none
}

// runner runs pieces of any number of sequences through the model at once: a row for each token,
// one piece after another.
type runner struct {
	*model
	pool  *attn.Pool
	cache cache

	// the rows of one call
	x, normed, qk, v, heads, hidden, gate, up, active, last, logits []float32
	tokens                                                          []int32 // of each row,
	positions                                                       []int32 // and its position
	mixing
	stateful
	inputRows
	// the products of one call of multiply
	dsts     []attn.Tensor
	linears  []*weights.Linear
	matrices []*attn.Matrix
	biases   [][]float32
	// the first error of a call, after which logits are invalid
	err error
}

// forward appends the pieces to their sequences. It sets logits after the last wanted[i] tokens of
// piece i, one after another; a nil wanted means one token of each.
func (r *runner) forward(pieces []piece, wanted []int) error {
	r.err = nil
	r.lookUpTokens(pieces)
	r.lookUpInputs()
	if r.unnormed(); !r.OnlyAfter {
		r.normRows(&r.normed, r.x, r.layers[0].attentionNorm)
	}
	for i := 0; i < len(r.layers) && r.err == nil; i++ {
		r.attention(i, pieces)
		r.feedForward(i)
		r.traced(i, pieces)
	}
	r.computeLogits(pieces, wanted)
	return r.err
}

// someLogits is how many logits are checked together: they stay in the L1 cache.
const someLogits = 2048

// zeros: 0 times a number that is not finite is not 0.
var zeros [someLogits]float32

// checkLogits refuses logits from which no token can be chosen.
func checkLogits(logits []float32, vocab int) error {
	for first := 0; first < len(logits); first += someLogits {
		some := logits[first:min(first+someLogits, len(logits))]
		if attn.Dot(some, zeros[:len(some)]) == 0 {
			continue
		}
		i := slices.IndexFunc(some, func(x float32) bool { return x-x != 0 }) // NaN or infinite
		return fmt.Errorf("the logit of token %d is %v, want finite numbers: the model has weights, or "+
			"makes numbers, that the types of weights and cache cannot hold", (first+i)%vocab, some[i])
	}
	return nil
}

// lookUpTokens looks up the embeddings and positions of the tokens.
func (r *runner) lookUpTokens(pieces []piece) {
	r.tokens, r.positions = r.tokens[:0], r.positions[:0]
	for _, p := range pieces {
		first := p.seq.length()
		for i, token := range p.tokens {
			r.tokens, r.positions = append(r.tokens, token), append(r.positions, int32(first+i))
		}
	}
	r.x = resize(r.x, len(r.tokens)*r.Dim)
	r.try(r.pool.Run((len(r.tokens)+embeddedRows-1)/embeddedRows, (*embedder)(r)))
}

// embedder looks up the embeddings of some tokens.
type embedder runner

const embeddedRows = 16 // rows at a time

func (e *embedder) Work(part int) {
	for i := part * embeddedRows; i < min((part+1)*embeddedRows, len(e.tokens)); i++ {
		x := e.x[i*e.Dim:][:e.Dim]
		e.embedding.Row(x, int(e.tokens[i]))
		scale(x, e.EmbeddingScale)
	}
}

// attention adds to each row the output of a layer's attention.
func (r *runner) attention(i int, pieces []piece) {
	l, all := &r.layers[i], len(r.x)/r.Dim
	if r.States.of(i) {
		switch {
		case l.short != nil:
			r.shortConv(i, l.short, pieces)
		case l.mamba != nil:
			r.mamba(i, l.mamba, pieces)
		default:
			r.delta(i, l.delta, pieces)
		}
		r.join(l.attentionAfter, l.ffnNorm)
		return
	}
	q, k, v := r.queriesKeysValues(l)
	r.heads = resize(r.heads, all*l.out.In)
	if r.err != nil {
		return
	}
	r.try(r.cache.step(r.cachedBy(i), attn.BLHD(r.heads, 1, all, r.Heads, l.headDim), q, k, v, pieces))
	if l.share.Matrix != nil {
		r.multiply(r.normed, product{&r.gate, &l.share})
		n := max(1, len(r.heads))
		r.try(nn.Gate(r.pool, rowsOf(r.heads, n), rowsOf(r.gate, n), rowsOf(r.heads, n), nn.Sigmoid))
	}
	r.multiply(r.heads, product{&r.hidden, &l.out})
	r.join(l.attentionAfter, l.ffnNorm)
}

// join adds to each row the output of one part of the layer, normed if after is not nil, and norms
// the sum for the next part unless next is nil.
func (r *runner) join(after, next []float32) {
	if after != nil {
		r.normRows(&r.hidden, r.hidden, after)
	}
	r.shrink(r.hidden)
	if next == nil {
		r.add(r.x, r.hidden)
		r.unnormed()
		return
	}
	r.addNorm(&r.normed, r.x, r.hidden, next)
}

// unnormed lets the next part of a layer read the rows themselves, if the model norms no inputs.
func (r *runner) unnormed() {
	if r.OnlyAfter {
		r.normed = r.x
	}
}

// queriesKeysValues computes rows of queries, keys and values from the normed rows; the last two
// are zero tensors for a layer that reads another one's. If the model does so, it norms their heads
// and rotates those of queries and keys together.
func (r *runner) queriesKeysValues(l *decoderLayer) (q, k, v attn.Tensor) {
	d, heads, rows := l.headDim, r.Heads+l.kvHeads, len(r.normed)/r.Dim
	r.qk = resize(r.qk, rows*heads*d)
	rest := r.qk[min(r.Heads*d, len(r.qk)):]
	r.also(attn.Rows(r.qk, 1, rows, 1, r.Heads*d, heads*d), &l.q)
	if l.kvHeads > 0 {
		r.also(attn.Rows(rest, 1, rows, 1, l.kvHeads*d, heads*d), &l.k)
		k = attn.Rows(rest, 1, rows, l.kvHeads, d, heads*d)
		r.v = resize(r.v, rows*l.kvHeads*d)
		v = attn.BLHD(r.v, 1, rows, l.kvHeads, d)
	}
	if l.v.Matrix != nil {
		r.multiply(r.normed, product{&r.v, &l.v})
	} else {
		r.multiply(r.normed)
	}
	r.normValues(l, v, k)
	q = attn.Rows(r.qk, 1, rows, r.Heads, d, heads*d)
	if l.qNorm != nil {
		r.normHeads(r.qk, r.Heads*d, heads*d, l.qNorm)
	}
	if l.kNorm != nil {
		r.normHeads(rest, l.kvHeads*d, heads*d, l.kNorm)
	}
	if all := attn.BLHD(r.qk, 1, rows, heads, d); l.rope != nil {
		r.try(l.rope.Rotate(r.pool, all, all, r.positions))
	}
	if r.QueryScale != 0 && r.err == nil {
		r.try(r.pool.Run(rows, (*queryScaler)(r)))
	}
	return q, k, v
}

// normValues norms values, if the model does so. They are the keys if they have no matrix.
func (r *runner) normValues(l *decoderLayer, v, k attn.Tensor) {
	if !r.ValueNorm || l.kvHeads == 0 || r.err != nil {
		return
	}
	from := v
	if l.v.Matrix == nil {
		from = k
	}
	r.try(nn.RMSNorm(r.pool, v, from, nil, float32(r.Epsilon)))
}

// queryScaler multiplies queries by a number that grows with their positions.
type queryScaler runner

func (s *queryScaler) Work(row int) {
	x := s.qk[row*(s.Heads+s.KVHeads)*s.HeadDim:][:s.Heads*s.HeadDim]
	if by := s.queryScale(s.positions[row]); by != 1 {
		scale(x, by)
	}
}

// normHeads norms queries or keys, of a width and a distance between rows: rows of as many elements
// as there are weights.
func (r *runner) normHeads(x []float32, width, pitch int, weight []float32) {
	n := len(weight)
	rows := attn.Rows(x, 1, len(r.normed)/r.Dim, width/n, n, pitch)
	r.try(nn.RMSNorm(r.pool, rows, rows, weight, float32(r.Epsilon)))
}

// feedForward adds to each row the output of the layer's network.
func (r *runner) feedForward(i int) {
	l := &r.layers[i]
	switch {
	case l.experts == nil:
		r.dense(&r.hidden, l)
	case l.experts.parallel != nil:
		r.mixBeside(l)
	default:
		r.mix(l.experts, r.normed)
	}
	var next []float32
	if i+1 < len(r.layers) {
		next = r.layers[i+1].attentionNorm
	}
	if l.input == nil && l.scale == nil {
		r.join(l.ffnAfter, next)
		return
	}
	r.join(l.ffnAfter, nil)
	r.finishLayer(i, l, next)
}

// dense computes a network of the normed rows.
func (r *runner) dense(to *[]float32, l *decoderLayer) {
	if r.Ungated {
		r.multiply(r.normed, product{&r.up, &l.up})
		r.activate(&r.active, r.up)
	} else {
		r.multiply(r.normed, product{&r.gate, &l.gate}, product{&r.up, &l.up})
		r.gated(&r.active, r.gate, r.up)
	}
	r.multiply(r.active, product{to, &l.down})
}

// computeLogits computes the logits that are wanted: after the last rows of each piece.
func (r *runner) computeLogits(pieces []piece, wanted []int) {
	r.last = r.last[:0]
	end := 0
	for i, p := range pieces {
		rows := 1
		if wanted != nil {
			rows = wanted[i]
		}
		end += len(p.tokens) * r.Dim
		r.last = append(r.last, r.x[end-rows*r.Dim:end]...)
	}
	r.normRows(&r.last, r.last, r.norm)
	r.multiply(r.last, product{&r.logits, &r.head})
	r.bound(r.logits, r.LogitCap)
	for i := range r.logits {
		if r.LogitDivisor != 0 {
			r.logits[i] /= r.LogitDivisor
		}
	}
}

// product is a product with a matrix: dst becomes rows of its outputs.
type product struct {
	dst *[]float32
	by  *weights.Linear
}

// multiply computes dst = a·Wᵀ + bias for some matrices, together with the products of also. attn
// computes an element by one chain of multiply-adds in a fixed order, whatever rows are around it.
func (r *runner) multiply(a []float32, products ...product) {
	for _, p := range products {
		rows := len(a) / p.by.In
		*p.dst = resize(*p.dst, rows*p.by.Out)
		r.also(attn.BHLD(*p.dst, 1, 1, rows, p.by.Out), p.by)
	}
	_, _, in, _ := r.matrices[0].Dims()
	r.try(r.pool.MulMatrices(r.dsts, rowsOf(a, in), r.matrices, r.biases))
	for i, by := range r.linears {
		if r.err == nil {
			r.try(by.Rescale(r.pool, r.dsts[i]))
		}
	}
	r.dsts, r.linears = r.dsts[:0], r.linears[:0]
	r.matrices, r.biases = r.matrices[:0], r.biases[:0]
}

// also adds a product to the next multiply.
func (r *runner) also(dst attn.Tensor, by *weights.Linear) {
	r.dsts, r.linears = append(r.dsts, dst), append(r.linears, by)
	r.matrices, r.biases = append(r.matrices, by.Matrix), append(r.biases, by.ProductBias())
}

// try keeps the first error.
func (r *runner) try(err error) {
	if r.err == nil {
		r.err = err
	}
}
