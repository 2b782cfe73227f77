package lm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// mixture is the experts of a layer in place of a feed-forward network. Each token uses the experts
// with the router's largest scores.
type mixture struct {
	router          weights.Linear
	gate, up, down  weights.Experts
	shared          *decoderLayer  // a network that all tokens also use; nil for none
	share           weights.Linear // its weight, the sigmoid of one output; 1 without a matrix
	bias            []float32      // added to choose experts; nil for none
	expertsOfAToken int
}

// mixture loads a layer's experts.
func (b *layerBuilder) mixture(n *layerNames) *mixture {
	e := &b.Experts
	m := &mixture{expertsOfAToken: e.Used}
	m.router = b.linear(b.part(n.router, e.Count), b.Dim, e.Biased)
	before := b.Packed
	if n.microDown != "" && b.Random == nil {
		pair := b.at + n.microGateUp
		m.gate = b.MicroMatrices(b.kind, pair, b.Dim, e.Count, 2*e.FFN, weights.Rows{Step: 2, Out: e.FFN})
		m.up = b.MicroMatrices(b.kind, pair, b.Dim, e.Count, 2*e.FFN,
			weights.Rows{First: 1, Step: 2, Out: e.FFN})
		m.down = b.MicroMatrices(b.kind, b.at+n.microDown, e.FFN, e.Count, b.Dim,
			weights.Rows{Step: 1, Out: b.Dim})
	} else {
		m.gate = b.experts(n.gates, n.gateUps, b.Dim, e.FFN, 0, 2*e.FFN)
		m.up = b.experts(n.ups, n.gateUps, b.Dim, e.FFN, e.FFN, 2*e.FFN)
		m.down = b.experts(n.downs, n.allDowns, e.FFN, b.Dim, 0, b.Dim)
	}
	// A step of one token reads only some of them.
	b.unread += (b.Packed - before) / e.Count * (e.Count - e.Used)
	if e.Shared > 0 {
		m.shared = &decoderLayer{
			gate: b.linear(b.part(n.sharedGate, e.Shared), b.Dim, false),
			up:   b.linear(b.part(n.sharedUp, e.Shared), b.Dim, false),
			down: b.linear(b.part(n.sharedDown, b.Dim), e.Shared, false),
		}
		if n.share != "" {
			m.share = b.linear(b.part(n.share, 1), b.Dim, false)
		}
	}
	if e.Choosing {
		m.bias = b.Tensor(b.at+n.choice, e.Count)
	}
	return m
}

// experts loads matrices, each of which is a tensor or part of a tensor of all experts. If the file
// has a fused tensor, the matrices are outputs from first on, of all outputs of an expert there.
func (b *layerBuilder) experts(name, fused string, in, out, first, all int) weights.Experts {
	count := b.Experts.Count
	var parts []weights.Part
	for i := range count {
		p := b.part(name, out)
		switch {
		case fused != "" && b.Has(b.at+fused):
			p = b.part(strings.TrimSuffix(fused, ".weight"), out)
			p.From, p.Of, p.Experts = i*all+first, count*all, count
			p.Bare = !strings.HasSuffix(fused, ".weight")
		case strings.Contains(name, "%d"):
			p.Name = fmt.Sprintf(p.Name, i)
		default:
			p.From, p.Of, p.Experts = i*out, count*out, count
		}
		parts = append(parts, p)
	}
	return b.ExpertMatrices(b.kind, in, b.Experts.Biased, parts...)
}

// mixing is the buffers of a runner for a mixture.
type mixing struct {
	scores, ranks, shares, outputs, portion, common []float32
	chosen                                          []int32
	experts                                         int // of a token
}

// mix computes the hidden rows of the experts from the normed rows.
func (r *runner) mix(m *mixture) {
	x, n := &r.mixing, m.expertsOfAToken
	r.multiply(r.normed, product{&x.scores, &m.router})
	rows := len(r.normed) / r.Dim
	r.choose(m, rows)
	chosen := attn.BHLD(x.chosen, 1, 1, rows, n)
	r.apply(&r.gate, &m.gate, attn.BHLD(r.normed, 1, 1, rows, r.Dim), chosen)
	r.apply(&r.up, &m.up, attn.BHLD(r.normed, 1, 1, rows, r.Dim), chosen)
	r.gated(&r.active, r.gate, r.up)
	r.apply(&x.outputs, &m.down, attn.BHLD(r.active, 1, n, rows, m.down.In), chosen)
	x.portion = x.portion[:0]
	if m.shared != nil {
		r.dense(&x.common, m.shared)
		r.weighShared(m, rows)
	}
	r.hidden = resize(r.hidden, rows*r.Dim)
	if r.err == nil {
		r.try(r.pool.Run(rows, (*combiner)(r)))
	}
}

// weighShared computes the weight of the shared network for each row.
func (r *runner) weighShared(m *mixture, rows int) {
	x := &r.mixing
	if m.share.Matrix == nil {
		x.portion = append(x.portion, slices.Repeat([]float32{1}, rows)...)
		return
	}
	r.multiply(r.normed, product{&x.portion, &m.share})
	r.try(nn.Activate(r.pool, rowsOf(x.portion, 1), rowsOf(x.portion, 1), nn.Sigmoid))
}

// choose finds the experts of each row, and their weights.
func (r *runner) choose(m *mixture, rows int) {
	x, n, all := &r.mixing, m.expertsOfAToken, m.router.Out
	x.experts = n
	if cap(x.chosen) < rows*n {
		x.chosen = make([]int32, rows*n)
	}
	x.chosen, x.shares = x.chosen[:rows*n], resize(x.shares, rows*n)
	if r.Experts.Sigmoid {
		r.try(nn.Activate(r.pool, rowsOf(x.scores, all), rowsOf(x.scores, all), nn.Sigmoid))
	}
	for i := range rows {
		scores, chosen, shares := x.scores[i*all:][:all], x.chosen[i*n:][:n], x.shares[i*n:][:n]
		attn.TopK(chosen, r.ranks(m, scores))
		if !r.Experts.Normalized && !r.Experts.Sigmoid {
			attn.Softmax(scores, scores)
		}
		for j, e := range chosen {
			shares[j] = scores[e]
		}
		if r.Experts.Sigmoid {
			r.weigh(shares)
		} else if r.Experts.Normalized {
			attn.Softmax(shares, shares) // over all, divided by the sum of these, is over these
		}
		scale(shares, r.Experts.Scale)
	}
}

// ranks returns the numbers whose largest ones choose experts.
func (r *runner) ranks(m *mixture, scores []float32) []float32 {
	if m.bias == nil {
		return scores
	}
	x := &r.mixing
	x.ranks = resize(x.ranks, len(scores))
	for i, s := range scores {
		x.ranks[i] = s + m.bias[i]
	}
	return x.ranks
}

// weigh divides weights by their sum if the model does so.
func (r *runner) weigh(shares []float32) {
	if !r.Experts.Normalized {
		return
	}
	sum := float32(0)
	for _, s := range shares {
		sum += s
	}
	for i := range shares {
		shares[i] /= sum + r.Experts.Least
	}
}

// apply multiplies rows by the matrices of their experts: [experts of a token][rows].
func (r *runner) apply(to *[]float32, by *weights.Experts, a attn.Tensor,
	chosen attn.View[int32]) {
	*to = resize(*to, chosen.D*chosen.L*by.Out)
	if r.err == nil {
		r.try(by.Multiply(r.pool, attn.BHLD(*to, 1, chosen.D, chosen.L, by.Out), a, chosen))
	}
}

// combiner adds up the outputs of a row's experts, in the order of their scores.
type combiner runner

func (c *combiner) Work(row int) {
	x, n, rows := &c.mixing, c.mixing.experts, len(c.hidden)/c.Dim
	to := c.hidden[row*c.Dim:][:c.Dim]
	clear(to)
	for j := range n {
		addTimes(to, x.outputs[(j*rows+row)*c.Dim:][:c.Dim], x.shares[row*n+j])
	}
	if len(x.portion) > 0 {
		addTimes(to, x.common[row*c.Dim:][:c.Dim], x.portion[row])
	}
}

// addTimes computes to += x·by, with the product rounded on every CPU.
func addTimes(to, x []float32, by float32) {
	for i, e := range x {
		to[i] += float32(e * by)
	}
}
