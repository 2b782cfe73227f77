package lm

import (
	"fmt"
	"slices"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// model is the weights of a decoder. It is immutable, so any number of engines may use it.
type model struct {
	config
	embedding *weights.Table // a row for each token
	layers    []decoderLayer
	norm      []float32
	residual  []float32      // ResidualScale for each element of a row
	head      weights.Linear // from the last layer's rows to a logit for each token
	table     *inputTable    // of the inputs of layers; nil for none
	further   *furtherLayer  // nil for none
	packed    int            // bytes of matrices,
	memory    int            // and of all weights
}

// decoderLayer is one block of the decoder.
type decoderLayer struct {
	attentionNorm, ffnNorm       []float32 // nil for none
	attentionAfter, ffnAfter     []float32 // norms of the outputs of these two; nil for none
	qNorm, kNorm                 []float32 // norms of a head, or of all heads; nil for none
	q, k, v, out, gate, up, down weights.Linear
	rope                         *nn.Rope       // nil for none
	sinks                        []float32      // of each head; nil for none
	experts                      *mixture       // in place of gate, up and down; nil for none
	share                        weights.Linear // of the gate of attention's output, if that is gated
	delta                        *delta         // in place of attention; nil for none
	short                        *shortConv     // likewise
	mamba                        *mamba         // likewise
	headDim, kvHeads             int            // no heads: see cachedBy
	input                        *layerInput    // nil for none
	scale                        []float32      // of rows; nil for none
}

// newModel loads a model. Its matrices have a format, or if kind is negative the format of the
// files.
func newModel(l *weights.Loader, c *config, names *tensorNames, kind attn.Format) *model {
	m := &model{config: *c, residual: slices.Repeat([]float32{c.ResidualScale}, c.Dim)}
	rope, local := m.ropes(l, names)
	m.norm = (&layerBuilder{Loader: l, config: c}).norm(names.norm, c.Dim)
	// The largest matrix comes first, so that its bytes of the file are freed before all is packed.
	head := weights.Part{Name: names.head, Out: c.Vocab}
	if c.Tied {
		head.Name = names.embedding
	}
	m.head = l.Linear(kind, c.Dim, false, head)
	var shared *weights.Linear
	if c.Tied {
		shared = &m.head
	}
	m.embedding = l.Table(names.embedding+".weight", c.Vocab, c.Dim, shared)
	b := layerBuilder{Loader: l, config: c, kind: kind}
	m.table = m.inputTable(&b, names)
	for i := 0; i < c.Layers && l.Err == nil; i++ {
		b.at = fmt.Sprintf(names.layer, i)
		m.layers = append(m.layers, b.layer(i, &names.layerNames))
		switch {
		case c.Unrotated != nil && c.Unrotated[i]:
		case c.Windows[i] > 0 && c.LocalTheta > 0:
			m.layers[i].rope = local
		default:
			m.layers[i].rope = rope
		}
	}
	m.packed = l.Packed - b.unread
	if c.Guesses > 0 && l.Err == nil {
		m.further = m.loadFurther(&b, names, rope)
	}
	l.WritePack()
	if l.Err == nil {
		if m.memory = m.embedding.MemoryUse() + l.Packed; m.table != nil {
			m.memory += m.table.table.MemoryUse()
		}
	}
	return m
}

// ropes returns the rotations of layers without a window, and of layers with one if they differ.
func (m *model) ropes(l *weights.Loader, names *tensorNames) (all, local *nn.Rope) {
	factors := m.factors(l, names)
	if l.Err != nil {
		return nil, nil
	}
	all, err := m.rotation(factors)
	if err == nil && m.LocalTheta > 0 {
		local, err = m.local()
	}
	l.Check("", err)
	return all, local
}

// factors returns the factors of rotations that a file has as tensors; nil for none.
func (m *model) factors(l *weights.Loader, names *tensorNames) []float32 {
	read := func(name string) []float32 {
		if name == "" || !l.Has(name+".weight") {
			return nil
		}
		return l.Tensor(name+".weight", m.Rotated/2)
	}
	s := &m.Scaling
	short, long := read(names.short), read(names.long)
	if short == nil && long == nil && s.Type == "" && s.Magnitude != nil && l.Err == nil {
		short = slices.Repeat([]float32{1}, m.Rotated/2) // the file has only a magnitude
		long = short
	}
	if short == nil && long == nil {
		return read(names.factors)
	}
	if short == nil || long == nil {
		l.Fail("%s: there is only one of the tensors %s and %s, want both", l.Path, names.short,
			names.long)
		return nil
	}
	s.Type, s.Short, s.Long = longRope, nil, nil
	for i := range short {
		s.Short, s.Long = append(s.Short, float64(short[i])), append(s.Long, float64(long[i]))
	}
	return nil
}

// layerBuilder loads a layer. The names of its tensors begin alike.
type layerBuilder struct {
	*weights.Loader
	*config
	kind attn.Format
	at   string
	// bytes of matrices that a step of one token does not read
	unread int
}

func (b *layerBuilder) layer(i int, n *layerNames) decoderLayer {
	l := decoderLayer{headDim: b.headDim(i), input: b.layerInput(n), scale: b.layerScale(n)}
	if !b.OnlyAfter {
		l.attentionNorm = b.norm(n.attentionNorm, b.Dim)
		if n.ffnNorm != "" { // otherwise both read the same rows
			l.ffnNorm = b.norm(n.ffnNorm, b.Dim)
		}
	}
	switch {
	case b.States.of(i) && b.States.Short > 0:
		l.short = b.shortConv(n)
	case b.States.of(i) && b.States.Mamba:
		l.mamba = b.mamba(n)
	case b.States.of(i):
		l.delta = b.delta(n)
	default:
		b.attention(&l, n, i)
		l.out = b.linear(b.part(n.out, b.Dim), b.Heads*l.headDim, b.OutBias)
	}
	if b.Sinks {
		l.sinks = b.Tensor(b.at+n.sinks, b.Heads)
	}
	if b.Experts.of(i) {
		l.experts = b.mixture(n)
	}
	if !b.Experts.of(i) || b.Experts.Beside {
		b.network(&l, n, b.width(i))
	}
	if b.NormsAfter {
		l.attentionAfter, l.ffnAfter = b.norm(n.attentionAfter, b.Dim), b.norm(n.ffnAfter, b.Dim)
	}
	if b.QKNorm && !b.States.of(i) {
		q, k := l.headDim, l.headDim
		if b.WideNorm {
			q, k = b.Heads*b.HeadDim, b.KVHeads*b.HeadDim
		}
		if l.qNorm = b.norm(n.qNorm, q); l.kvHeads > 0 {
			l.kNorm = b.norm(n.kNorm, k)
		}
	}
	return l
}

// norm loads the weights of a norm, and after them its biases if it has some.
func (b *layerBuilder) norm(name string, n int) []float32 {
	x := b.Tensor(b.at+name+".weight", n)
	for i := range x {
		if b.LessOne {
			x[i]++
		}
	}
	switch bias := b.at + name + ".bias"; {
	case b.Centered && b.Unbiased && !b.Has(bias):
		x = append(x, make([]float32, n)...)
	case b.Centered:
		x = append(x, b.Tensor(bias, n)...)
	}
	return x
}

// attention loads the matrices of queries, keys and values, which may be rows of one tensor. A
// layer that reads the keys and values of another one has no matrices of these.
func (b *layerBuilder) attention(l *decoderLayer, n *layerNames, i int) {
	q := b.Heads * l.headDim
	if b.cachedBy(i) != i {
		l.q = b.linear(b.part(n.q, q), b.Dim, b.QKVBias)
		return
	}
	l.kvHeads = b.kvHeads(i)
	kv := l.kvHeads * l.headDim
	rows := q
	if b.Gated {
		rows = 2 * q
	}
	parts := b.parts(n.qkv, []string{n.q, n.k, n.v}, rows, kv, kv)
	if b.Interleaved && !b.turnsNeighbours() {
		parts[0].Interleaved, parts[1].Interleaved = b.HeadDim, b.HeadDim
	}
	if b.Gated { // rows of queries and of gates alternate, a head of each
		turns := groupRows(b.Heads, b.HeadDim, b.HeadDim)
		parts[0].Out, parts[0].Of = q, max(rows, parts[0].Of)
		gates := parts[0]
		parts[0].Order, gates.Order = turns[0], turns[1]
		l.share = b.linear(gates, b.Dim, b.QKVBias)
	}
	for j, to := range []*weights.Linear{&l.q, &l.k, &l.v} {
		if j < 2 || !b.ByLayer.KeysAreValues || b.Windows[i] > 0 {
			*to = b.linear(parts[j], b.Dim, b.QKVBias)
		}
	}
}

// network loads the matrices of a feed-forward network. Gate and up may be rows of one tensor.
func (b *layerBuilder) network(l *decoderLayer, n *layerNames, width int) {
	if b.Ungated {
		l.up = b.linear(b.part(n.up, width), b.Dim, b.FFNBias)
	} else {
		parts := b.parts(n.gateUp, []string{n.gate, n.up}, width, width)
		l.gate = b.linear(parts[0], b.Dim, b.FFNBias)
		l.up = b.linear(parts[1], b.Dim, b.FFNBias)
	}
	l.down = b.linear(b.part(n.down, b.Dim), width, b.FFNBias)
}

func (b *layerBuilder) part(name string, out int) weights.Part {
	return weights.Part{Name: b.at + name, Out: out}
}

// parts returns tensors of some outputs each. They are rows of the tensor all if the file has it,
// or if they have no names.
func (b *layerBuilder) parts(all string, names []string, outs ...int) (parts []weights.Part) {
	has := func(name string) bool { return b.Has(b.at + name + ".weight") }
	fused, total := names[0] == "" || all != "" && has(all) && !has(names[0]), 0
	for i, out := range outs {
		p := b.part(names[i], out)
		if fused {
			p.Name, p.From = b.at+all, total
		}
		parts, total = append(parts, p), total+out
	}
	for i := range parts {
		if fused {
			parts[i].Of = total
		}
	}
	return parts
}

// linear loads a matrix, and its bias if it must have one, or if it may have one and the file does.
func (b *layerBuilder) linear(p weights.Part, in int, bias bool) weights.Linear {
	return b.Linear(b.kind, in, bias || b.AnyBias && b.Has(p.Name+".bias"), p)
}
