package lm

import (
	"fmt"
	"slices"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/linattn"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// mamba is the weights of a Mamba-2 layer (Dao and Gu, 2024) in place of attention. A token has a
// step for each head: its values are multiplied by the step, its decay is the step times decay.
type mamba struct {
	z, in, steps, out weights.Linear
	conv              nn.ConvConfig
	step, decay       []float32 // added to steps; −e^A
	skip              []float32 // of each head: values, times it, are added to outputs
	norm              []float32 // of a row of outputs
}

// mamba loads a Mamba-2 layer.
func (b *layerBuilder) mamba(n *layerNames) *mamba {
	s, m := &b.States, &mamba{}
	inner, channels := s.Heads*s.ValueDim, s.channels()
	from := 0
	for _, part := range []struct {
		to *weights.Linear
		n  int
	}{{&m.z, inner}, {&m.in, channels}, {&m.steps, s.Heads}} {
		*part.to = b.linear(weights.Part{Name: b.at + n.convIn, Out: part.n, From: from,
			Of: inner + channels + s.Heads}, b.Dim, false)
		from += part.n
	}
	m.out = b.linear(b.part(n.stateOut, b.Dim), inner, false)
	shape, heads := []int{channels, s.Width}, []int{s.Heads, 1}
	if !s.Negated { // folders
		shape, heads = []int{channels, 1, s.Width}, []int{s.Heads}
	}
	m.conv = nn.ConvConfig{Channels: channels, Width: s.Width, Activation: nn.SiLU,
		Weight: b.Tensor(b.at+n.conv, shape...)}
	if s.Biased {
		m.conv.Bias = b.Tensor(b.at+n.convBias, channels)
	}
	m.step, m.decay = b.Tensor(b.at+n.step, s.Heads), b.Tensor(b.at+n.decay, heads...)
	m.skip = b.Tensor(b.at+n.skip, heads...)
	m.norm = b.Tensor(b.at+n.stateNorm+".weight", inner)
	if !s.Negated && b.Err == nil {
		attn.Exp(m.decay, m.decay)
		for i := range m.decay {
			m.decay[i] = -m.decay[i]
		}
	}
	return m
}

// mamba computes the hidden rows from the normed rows in a Mamba-2 layer.
func (r *runner) mamba(i int, m *mamba, pieces []piece) {
	s, shape, rows := &r.stateful, &r.States, len(r.normed)/r.Dim
	r.multiply(r.normed, product{&s.z, &m.z}, product{&s.mixed, &m.in}, product{&s.decay, &m.steps})
	convs, kept, err := r.cache.states(i, pieces)
	if r.try(err); r.err != nil {
		return
	}
	s.queries = queriesOf(pieces, s.queries)
	all := attn.BHLD(s.mixed, 1, 1, rows, shape.channels())
	r.try(nn.AppendConvs(r.pool, all, all, convs, s.queries))
	each := func(row []float32) attn.Tensor {
		return attn.Tensor{Data: row, B: 1, H: 1, L: rows, D: shape.Heads, SB: 1, SH: 1,
			SL: attn.Broadcast}
	}
	decay := rowsOf(s.decay, shape.Heads)
	r.try(nn.Add(r.pool, decay, decay, each(m.step)))
	r.try(nn.Activate(r.pool, decay, decay, nn.Softplus))
	inner := shape.Heads * shape.ValueDim
	s.beta = append(s.beta[:0], s.decay...) // the steps
	s.values, s.outputs = resize(s.values, rows*inner), resize(s.outputs, rows*inner)
	r.try(nn.Gate(r.pool, decay, decay, each(m.decay), nn.None))
	if r.err != nil {
		return
	}
	r.try(r.pool.Run(rows, (*stepper)(r)))
	k := attn.Rows(s.mixed[inner:], 1, rows, shape.KeyHeads, shape.KeyDim, all.D)
	q := attn.Rows(s.mixed[inner+shape.KeyHeads*shape.KeyDim:], 1, rows, shape.KeyHeads, shape.KeyDim,
		all.D)
	dst := attn.BLHD(s.outputs, 1, rows, shape.Heads, shape.ValueDim)
	v := attn.BLHD(s.values, 1, rows, shape.Heads, shape.ValueDim)
	r.try(linattn.AppendStates(r.pool, dst, q, k, v, attn.BLHD(s.decay, 1, rows, shape.Heads, 1),
		attn.Tensor{}, kept, s.queries))
	if s.skip = m.skip; r.err == nil {
		r.try(r.pool.Run(rows, (*skipper)(r)))
	}
	outputs := rowsOf(s.outputs, inner)
	r.try(nn.Gate(r.pool, outputs, rowsOf(s.z, inner), outputs, nn.SiLU))
	r.try(nn.RMSNorm(r.pool, outputs, outputs, m.norm, float32(r.Epsilon)))
	r.multiply(s.outputs, product{&r.hidden, &m.out})
}

// stepper multiplies the values of a row's heads by their steps.
type stepper runner

func (s *stepper) Work(row int) {
	n := s.States.ValueDim
	for h := range s.States.Heads {
		at := row*s.States.channels() + h*n
		to := s.values[(row*s.States.Heads+h)*n:][:n]
		clear(to)
		addTimes(to, s.mixed[at:at+n], s.beta[row*s.States.Heads+h])
	}
}

// skipper adds to the outputs of a row's heads their values, times a number of the head.
type skipper runner

func (s *skipper) Work(row int) {
	n := s.States.ValueDim
	for h := range s.States.Heads {
		at := row*s.States.channels() + h*n
		addTimes(s.stateful.outputs[(row*s.States.Heads+h)*n:][:n], s.mixed[at:at+n], s.skip[h])
	}
}

// addTimes computes to += x·by, with the product rounded on every CPU.
func addTimes(to, x []float32, by float32) {
	for i, e := range x {
		to[i] += float32(e * by)
	}
}

// mambaShape sets which layers are Mamba-2 layers, and their shape. Its last arguments are the
// file's names of the keys.
func (c *config) mambaShape(s states, keys ...string) error {
	if !slices.Contains(s.Layers, true) {
		return nil
	}
	s.Mamba = true
	if c.States = s; s.KeyHeads != 1 {
		return fmt.Errorf("%s is %d, want 1", keys[3], s.KeyHeads)
	}
	return c.States.check(keys...)
}
