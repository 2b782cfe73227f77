package embed

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// relative describes attention by relative positions as in DeBERTa. A table has a row for each
// relative position, or for each bucket of positions. Projected as a key, a row adds its product
// with the query to the score; projected as a query, its product with the key.
type relative struct {
	span          int  // half of the rows of the table
	buckets       int  // buckets of positions, 0 for none
	most          int  // distance from which on all pairs have the last row
	keys, queries bool // rows are projected as keys, as queries
	shared        bool // rows are projected as tokens are, without layers of their own
	norm          bool // rows are normalized before

	rows []int32 // row of each distance, key − query, from −most to most
}

// row returns the row for d, the distance key − query.
func (p *relative) row(d int) int { return min(max(p.bucket(-d)+p.span, 0), 2*p.span-1) }

// bucket returns the bucket of a position, query − key. The first half of buckets on either side
// have one position each; the others divide positions up to most−1 on a logarithmic scale.
func (p *relative) bucket(position int) int {
	side, n := p.buckets/2, max(position, -position)
	if side == 0 || n <= side {
		return position
	}
	part := math.Log(float64(n)/float64(side)) / math.Log(float64(p.most-1)/float64(side))
	n = int(math.Ceil(part*float64(side-1))) + side
	if position < 0 {
		return -n
	}
	return n
}

// within returns the rows of all distances within a text of some tokens, and the first and the last
// of them. Rows fall as the distance grows.
func (p *relative) within(tokens int) (rows []int32, first, last int) {
	far := min(tokens-1, p.most)
	rows = p.rows[p.most-far : p.most+far+1]
	return rows, int(rows[2*far]), int(rows[0])
}

// products returns how many products with rows each token of a text has in a head.
func (p *relative) products(tokens int) int {
	_, first, last := p.within(tokens)
	return p.terms() * (last - first + 1)
}

// terms returns how many terms by positions a score has.
func (p *relative) terms() (n int) {
	for _, has := range []bool{p.keys, p.queries} {
		if has {
			n++
		}
	}
	return n
}

// loadRelative loads the table of relative positions, and projects it for each layer.
func (m *Model) loadRelative(b *builder) {
	p := m.relative
	if p == nil || b.Err != nil {
		return
	}
	table := b.Tensor(b.at+b.names.relative+".weight", 2*p.span, b.hidden)
	var n *norm
	if p.norm {
		n = b.loadNorm(b.names.relativeNorm)
	}
	if b.Err != nil {
		return
	}
	x := attn.BHLD(table, 1, 1, 2*p.span, b.hidden)
	if n != nil {
		b.Err = nn.LayerNorm(nil, x, x, n.weight, n.bias, b.epsilon)
	}
	packed := b.Packed
	for i := range m.all {
		l := &m.all[i]
		at := strings.ReplaceAll(b.names.layer, "%d", fmt.Sprint(i))
		if p.queries {
			l.relativeQueries = b.projectRelative(x, &l.input[0], at+b.names.relativeQuery)
		}
		if p.keys {
			l.relativeKeys = b.projectRelative(x, &l.input[1], at+b.names.relativeKey)
		}
	}
	b.Packed = packed // layers for the table are not kept
	for d := -p.most; d <= p.most; d++ {
		p.rows = append(p.rows, int32(p.row(d)))
	}
}

// projectRelative returns the rows of the table, projected and scaled for all heads. tokens is the
// projection of tokens, name that of the table's own one.
func (b *builder) projectRelative(x attn.Tensor, tokens *weights.Linear, name string) []float32 {
	by := *tokens
	if !b.relative.shared {
		by = b.loadLinear(b.hidden, true, name, by.Out)
	}
	if b.Err != nil {
		return nil
	}
	rows := make([]float32, x.L*by.Out)
	b.Err = by.Multiply(nil, attn.BHLD(rows, 1, 1, x.L, by.Out), x)
	for i := range rows {
		rows[i] *= b.scale
	}
	return rows
}

// distances returns the position biases of a layer. For relative positions they are products of the
// batch's queries and keys with the rows that its texts are long enough for.
func (r *runner) distances(l *layer, q, k attn.Tensor) attn.Distance {
	p := r.relative
	if p == nil {
		return r.distance
	}
	rows, first, last := p.within(slices.Max(r.lens))
	r.buckets = resize(r.buckets, len(rows))
	for i, row := range rows {
		r.buckets[i] = row - int32(first)
	}
	x := attn.Distance{Buckets: r.buckets}
	r.byKeys = r.relate(&x.Query, r.byKeys, q, l.relativeKeys, first, last)
	r.byQueries = r.relate(&x.Key, r.byQueries, k, l.relativeQueries, first, last)
	if x.Query.Data == nil && x.Key.Data == nil {
		return attn.Distance{}
	}
	return x
}

// relate multiplies the tokens of all heads by rows first to last of a projected table. It returns
// the memory of the products, to which to is a view, unless there is no table.
func (r *runner) relate(to *attn.Tensor, memory []float32, tokens attn.Tensor, table []float32,
	first, last int) []float32 {
	if table == nil {
		return memory
	}
	n, pitch := last-first+1, r.heads*r.width
	memory = resize(memory, r.heads*r.tokens*n)
	*to = attn.BHLD(memory, 1, r.heads, r.tokens, n)
	r.try(r.pool.MatMulTransposed(*to, tokens,
		attn.Rows(table[first*pitch:], 1, n, r.heads, r.width, pitch)))
	return memory
}
