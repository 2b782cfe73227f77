package lm

import (
	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// shortConv is the weights of a layer with a short convolution in place of attention, as LFM2 has
// it: out·(after ⊙ conv(before ⊙ x)), where before, after and x are products of the normed rows.
type shortConv struct {
	before, after, x, out weights.Linear
	conv                  nn.ConvConfig
}

// shortConv loads a layer with a short convolution.
func (b *layerBuilder) shortConv(n *layerNames) *shortConv {
	d, s := b.Dim, &shortConv{}
	for i, to := range []*weights.Linear{&s.before, &s.after, &s.x} {
		*to = b.linear(weights.Part{Name: b.at + n.convIn, Out: d, From: i * d, Of: 3 * d}, d, false)
	}
	s.out = b.linear(b.part(n.convOut, d), d, false)
	shape := []int{d, b.States.Width}
	if !b.AnyBias { // folders have another dimension
		shape = []int{d, 1, b.States.Width}
	}
	s.conv = nn.ConvConfig{Channels: d, Width: b.States.Width,
		Weight: b.Tensor(b.at+n.conv, shape...)}
	return s
}

// shortConv computes the hidden rows from the normed rows in a layer with a short convolution.
func (r *runner) shortConv(i int, c *shortConv, pieces []piece) {
	s := &r.stateful
	r.multiply(r.normed, product{&s.z, &c.before}, product{&s.outputs, &c.after},
		product{&s.mixed, &c.x})
	convs, _, err := r.cache.states(i, pieces)
	if r.try(err); r.err != nil {
		return
	}
	n := max(1, len(s.mixed))
	x := rowsOf(s.mixed, n)
	r.try(nn.Gate(r.pool, x, rowsOf(s.z, n), x, nn.None))
	s.queries = queriesOf(pieces, s.queries)
	all := attn.BHLD(s.mixed, 1, 1, len(s.mixed)/r.Dim, r.Dim)
	r.try(nn.AppendConvs(r.pool, all, all, convs, s.queries))
	r.try(nn.Gate(r.pool, x, rowsOf(s.outputs, n), x, nn.None))
	r.multiply(s.mixed, product{&r.hidden, &c.out})
}
