package lm

import (
	"fmt"
	"math"
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
	scales          []float32      // of each expert's weight, after all else; nil for none
	parallel        *parallelNorms // nil if there is no other network in the layer
	expertsOfAToken int
}

// mixture loads a layer's experts.
func (b *layerBuilder) mixture(n *layerNames) *mixture {
	e := &b.Experts
	m := &mixture{expertsOfAToken: e.Used}
	router := b.part(n.router, e.Count)
	router.Unscaled = e.Beside
	m.router = b.linear(router, b.Dim, e.Biased)
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
		parts := b.parts(n.sharedGateUp, []string{n.sharedGate, n.sharedUp}, e.Shared, e.Shared)
		m.shared = &decoderLayer{
			gate: b.linear(parts[0], b.Dim, false),
			up:   b.linear(parts[1], b.Dim, false),
			down: b.linear(b.part(n.sharedDown, b.Dim), e.Shared, false),
		}
		if n.share != "" {
			m.share = b.linear(b.part(n.share, 1), b.Dim, false)
		}
	}
	if e.Choosing {
		m.bias = b.Tensor(b.at+n.choice, e.Count)
	}
	if e.Beside {
		m.parallel = b.parallelNorms(n)
	}
	if n.expertScale != "" {
		m.scales = b.Tensor(b.at+n.expertScale, e.Count)
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
	scores, ranks, portion []float32
	shares                 []float32 // [rows][experts of a token, the shared one last]
	outputs                []float32 // [experts of a token, the shared one last][rows][Dim]
	routed, common         []float32 // the parts of outputs
	network, asked         []float32 // of layers with experts and a network
	chosen                 []int32
}

// mix computes the hidden rows of the experts from the normed rows. routed are the rows by which
// the router chooses.
func (r *runner) mix(m *mixture, routed []float32) {
	x, n := &r.mixing, m.expertsOfAToken
	r.multiply(routed, product{&x.scores, &m.router})
	rows := len(r.normed) / r.Dim
	r.choose(m, rows)
	chosen := attn.BHLD(x.chosen, 1, 1, rows, n)
	r.apply(&r.gate, &m.gate, attn.BHLD(r.normed, 1, 1, rows, r.Dim), chosen)
	r.apply(&r.up, &m.up, attn.BHLD(r.normed, 1, 1, rows, r.Dim), chosen)
	r.gated(&r.active, r.gate, r.up)
	all := m.rowsOfAToken()
	x.outputs = resize(x.outputs, all*rows*r.Dim)
	x.routed, x.common = x.outputs[:n*rows*r.Dim], x.outputs[n*rows*r.Dim:]
	r.apply(&x.routed, &m.down, attn.BHLD(r.active, 1, n, rows, m.down.In), chosen)
	if m.shared != nil {
		r.mixShared(m)
	}
	r.hidden = resize(r.hidden, rows*r.Dim)
	if r.err == nil {
		r.try(nn.Combine(r.pool, attn.BHLD(r.hidden, 1, 1, rows, r.Dim),
			attn.BHLD(x.outputs, 1, all, rows, r.Dim), attn.BHLD(x.shares, 1, 1, rows, all)))
	}
}

// mixShared computes the rows and weights of the network that all tokens use.
func (r *runner) mixShared(m *mixture) {
	x, all := &r.mixing, m.rowsOfAToken()
	r.dense(&x.common, m.shared)
	if x.portion = x.portion[:0]; m.share.Matrix == nil {
		x.portion = append(x.portion, slices.Repeat([]float32{1}, len(x.shares)/all)...)
	} else {
		r.multiply(r.normed, product{&x.portion, &m.share})
		r.try(nn.Activate(r.pool, rowsOf(x.portion, 1), rowsOf(x.portion, 1), nn.Sigmoid))
	}
	if r.err != nil {
		return
	}
	for i, e := range x.portion {
		x.shares[i*all+all-1] = e
	}
}

// rowsOfAToken returns how many rows are added up for a token: of its experts, and the shared one.
func (m *mixture) rowsOfAToken() int {
	if m.shared != nil {
		return m.expertsOfAToken + 1
	}
	return m.expertsOfAToken
}

// choose finds the experts of each row, and their weights. A shared one's weight is left out.
func (r *runner) choose(m *mixture, rows int) {
	x, n, all := &r.mixing, m.expertsOfAToken, m.router.Out
	width := m.rowsOfAToken()
	if cap(x.chosen) < rows*n {
		x.chosen = make([]int32, rows*n)
	}
	x.chosen, x.shares = x.chosen[:rows*n], resize(x.shares, rows*width)
	apart := r.Experts.Sigmoid || r.Experts.Floor > 0 // biases only choose
	if r.Experts.Sigmoid {
		r.try(nn.Activate(r.pool, rowsOf(x.scores, all), rowsOf(x.scores, all), nn.Sigmoid))
	}
	for i := range rows {
		scores, chosen, shares := x.scores[i*all:][:all], x.chosen[i*n:][:n], x.shares[i*width:][:n]
		if r.Experts.Floor > 0 {
			attn.Softmax(scores, scores)
		}
		attn.TopK(chosen, r.ranks(m, scores))
		if !r.Experts.Normalized && !apart {
			attn.Softmax(scores, scores)
		}
		for j, e := range chosen {
			shares[j] = scores[e]
		}
		if apart {
			r.weigh(shares)
		} else if r.Experts.Normalized {
			attn.Softmax(shares, shares) // over all, divided by the sum of these, is over these
		}
		scale(shares, r.Experts.Scale)
		for j, e := range chosen {
			if m.scales != nil {
				shares[j] *= m.scales[e]
			}
		}
	}
}

// parallelNorms is the norms of a layer that adds up a network and experts, each with a norm of its
// inputs and of its outputs.
type parallelNorms struct {
	networkAfter, before, after []float32
	router                      []float32 // weights of the norm of the router's inputs
}

// parallelNorms loads the norms of a layer.
func (b *layerBuilder) parallelNorms(n *layerNames) *parallelNorms {
	router := b.Tensor(b.at+n.routerScale, b.Dim)
	scale(router, float32(1/math.Sqrt(float64(b.Dim))))
	return &parallelNorms{b.norm(n.networkAfter, b.Dim), b.norm(n.expertsBefore, b.Dim),
		b.norm(n.expertsAfter, b.Dim), router}
}

// mixBeside computes the hidden rows of a network and of experts.
func (r *runner) mixBeside(l *decoderLayer) {
	x, m := &r.mixing, l.experts
	r.dense(&x.common, l)
	r.normRows(&x.network, x.common, m.parallel.networkAfter)
	r.normRows(&x.asked, r.x, m.parallel.router)
	r.normRows(&r.normed, r.x, m.parallel.before)
	r.mix(m, x.asked)
	r.normRows(&r.hidden, r.hidden, m.parallel.after)
	r.add(r.hidden, x.network)
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
		shares[i] /= max(sum+r.Experts.Least, r.Experts.Floor)
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
