package embed

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// builder loads the tensors of a description.
type builder struct {
	*weights.Loader
	*description
	at string // prefix of all names
}

// newBuilder returns a builder with the prefix that the tensors have.
func newBuilder(l *weights.Loader, d *description) *builder {
	b := &builder{Loader: l, description: d}
	for _, prefix := range d.names.prefixes {
		if l.Has(prefix + d.names.words + ".weight") {
			b.at = prefix
		}
	}
	return b
}

// loadNorm loads a norm's weight and bias, which TensorFlow calls gamma and beta. It returns nil if
// name is empty.
func (b *builder) loadNorm(name string) *norm {
	if name == "" || b.Err != nil {
		return nil
	}
	name = b.at + name
	weight, bias := name+".weight", name+".bias"
	if b.Has(name + ".gamma") {
		weight, bias = name+".gamma", name+".beta"
	}
	n := &norm{weight: b.normWeight(weight, b.hidden)}
	if b.names.normBias {
		n.bias = b.Tensor(bias, b.hidden)
	}
	return n
}

// normWeight loads the weight of an RMSNorm or LayerNorm of n channels.
func (b *builder) normWeight(name string, n int) []float32 {
	weight := b.Tensor(name, n)
	if b.lessOne {
		for i := range weight {
			weight[i]++
		}
	}
	return weight
}

// loadLinear packs a linear layer: in the file's type, in float32, or in 8-bit integers.
func (b *builder) loadLinear(in int, bias bool, name string, out int) weights.Linear {
	kind := attn.F32
	switch {
	case b.blocks || b.stored && !b.Integers:
		kind = -1
	case b.Integers:
		kind = attn.I8
	}
	return b.Linear(kind, in, bias, weights.Part{Name: b.at + name, Out: out})
}

// loadLinears packs linear layers that share an input: one for each name, or a single fused one.
func (b *builder) loadLinears(in int, bias bool, at string, list []string,
	sizes ...int) (all []weights.Linear) {
	if len(list) == 1 {
		sum := 0
		for _, n := range sizes {
			sum += n
		}
		return []weights.Linear{b.loadLinear(in, bias, at+list[0], sum)}
	}
	for i, name := range list {
		all = append(all, b.loadLinear(in, bias, at+name, sizes[i]))
	}
	return all
}

// loadTables loads the embedding tables and their norm.
func (b *builder) loadTables() (t tables) {
	width := cmp.Or(b.embedding, b.hidden)
	table := func(name string, rows int) *weights.Table {
		if name == "" || rows == 0 {
			return nil
		}
		return b.Table(b.at+name+".weight", rows, width, nil)
	}
	t.words = table(b.names.words, b.vocab)
	if again := b.at + b.names.sameWords + ".weight"; b.Has(again) {
		b.CheckEqual(again, b.at+b.names.words+".weight", b.vocab, width)
	}
	if b.wordScale != 0 && t.words != nil {
		t.words.Scale(b.wordScale)
	}
	t.positions = table(b.names.positions, b.positions)
	t.segments = table(b.names.segments, b.segments)
	if width != b.hidden {
		loaded := b.loadLinear(width, false, b.names.project, b.hidden)
		t.project = &loaded
	}
	t.norm = b.loadNorm(b.names.norm)
	return t
}

// loadLayers loads all layers.
func (b *builder) loadLayers() (all []layer) {
	global, local := b.ropeOf(b.rope), b.ropeOf(b.localRope)
	for i := 0; i < b.layers && b.Err == nil; i++ {
		l := b.loadLayer(i)
		l.rope = global
		if b.locals != nil && b.locals[i] {
			l.rope, l.window = local, b.local
		}
		all = append(all, l)
	}
	return all
}

// ropeOf returns the rotation of a configuration, nil for none.
func (b *builder) ropeOf(c *nn.RopeConfig) *nn.Rope {
	if c == nil || b.Err != nil {
		return nil
	}
	r, err := nn.NewRope(*c)
	if err != nil {
		b.Fail("%s: rotation of positions: %w", b.Path, err)
	}
	return r
}

// scaleOutputs multiplies the outputs of a layer by factors of each (LayerScale), if name is not
// empty.
func (b *builder) scaleOutputs(l *weights.Linear, at, name string) {
	if name == "" {
		return
	}
	if l.Scales = b.Tensor(b.at+at+name, l.Out); b.Err != nil {
		return
	}
	for i := range l.Bias {
		l.Bias[i] *= l.Scales[i]
	}
}

func (b *builder) loadLayer(i int) layer {
	at := strings.ReplaceAll(b.names.layer, "%d", fmt.Sprint(i))
	named := func(name string) string {
		if name == "" {
			return ""
		}
		return at + name
	}
	heads, keys, input := b.heads*b.width, b.keyHeads*b.width, b.names.input
	if all := b.names.inputs; all != "" && b.Has(b.at+at+all+".weight") {
		input = []string{all}
	}
	up := []int{b.ffn}
	if b.gated {
		up = []int{b.ffn, b.ffn}
	}
	l := layer{
		input:   b.loadLinears(b.hidden, b.names.inputBias, at, input, heads, keys, keys),
		output:  b.loadLinear(heads, b.names.outputBias, at+b.names.output, b.hidden),
		ffnNorm: b.loadNorm(named(b.names.ffnNorm)),
	}
	if b.mixture.has(i) {
		l.experts = b.loadExperts(at)
	} else {
		l.up = b.loadLinears(b.hidden, b.names.upBias, at, b.names.up, up...)
		l.down = b.loadLinear(b.ffn, b.names.downBias, at+b.names.down, b.hidden)
	}
	if i > 0 || b.names.firstNorm {
		l.attentionNorm = b.loadNorm(named(b.names.attentionNorm))
	}
	l.outputNorm = b.loadNorm(named(b.names.outputNorm))
	l.downNorm = b.loadNorm(named(b.names.downNorm))
	b.scaleOutputs(&l.output, at, b.names.outputScale)
	b.scaleOutputs(&l.down, at, b.names.downScale)
	if b.names.queryNorm != "" {
		l.queryNorm = b.normWeight(b.at+at+b.names.queryNorm+".weight", b.width)
		l.keyNorm = b.normWeight(b.at+at+b.names.keyNorm+".weight", b.width)
	}
	return l
}
