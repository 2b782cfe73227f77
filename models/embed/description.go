package embed

import (
	"cmp"
	"fmt"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// description is a kind of model as data, which one loop goes by (forward.go).
type description struct {
	kind                       string
	layers, hidden, ffn, vocab int
	heads, keyHeads, width     int // of attention; channels of a head
	positions, segments        int // rows of tables that are added to those of tokens; 0 for none
	longest                    int // of texts in tokens
	firstPosition              int
	pad                        int // the token that has position pad and does not count; −1 for none
	epsilon                    float32

	rms        bool // norms are RMSNorm, and not LayerNorm
	preNorm    bool // norms are of what attention and the network read, and not of sums
	causal     bool
	activation nn.Activation
	gated      bool // the activation multiplies a second part of the product
	gateLast   bool // in the file the part of the activation comes second
	buckets    int  // of the distances that have a bias (MPNet); 0 for none

	rope, localRope *nn.RopeConfig // nil for none
	local           attn.Window    // of layers that are not global
	locals          []bool         // which layers these are; nil for none

	stored      bool // matrices keep the type that they have in the file
	blocks      bool // as they do in GGUF files
	answers     bool // it says yes or no
	headPooling string
	names       names
}

// names are those of tensors, without .weight and .bias; "" for what there is not. Those of a layer
// stand behind its own.
type names struct {
	prefixes                   []string // one of which all have before them
	words, positions, segments string
	norm, final, distances     string
	layer                      string   // with a number
	input                      []string // queries, keys and values, or all in one
	inputs                     string   // the one that has all where the file has that
	output, attentionNorm      string
	up                         []string // with a gate that comes first, or all in one
	down, ffnNorm              string
	queryNorm, keyNorm         string
	inputBias, outputBias      bool
	upBias, downBias           bool
	normBias                   bool
	firstNorm                  bool // the first layer has a norm before attention
	idle                       []string
	head                       headNames
}

// norm is the weights of a LayerNorm, or of an RMSNorm, which has no bias.
type norm struct{ weight, bias []float32 }

// layer is attention and a feed-forward network.
type layer struct {
	attentionNorm, ffnNorm *norm            // nil for none
	input, up              []weights.Linear // side by side in a row
	output, down           weights.Linear
	queryNorm, keyNorm     []float32
	rope                   *nn.Rope
	window                 attn.Window
}

// tables are looked up for each token.
type tables struct {
	words, positions, segments *weights.Table
	norm                       *norm
}

// check refuses sizes that no model has, under the names that they have in its config.
func (d *description) check(keys sizeKeys) error {
	list := []struct {
		name string
		size int
	}{{keys.hidden, d.hidden}, {keys.layers, d.layers}, {keys.heads, d.heads}, {keys.ffn, d.ffn},
		{keys.vocab, d.vocab}, {keys.positions, d.longest}}
	for _, l := range list {
		if err := weights.Sizes([]string{l.name}, l.size); err != nil {
			return err
		}
	}
	if d.width == 0 {
		if d.hidden%d.heads != 0 {
			return fmt.Errorf("%s is %d, want a multiple of %s, %d", keys.hidden, d.hidden, keys.heads,
				d.heads)
		}
		d.width = d.hidden / d.heads
	}
	if d.keyHeads == 0 {
		d.keyHeads = d.heads
	}
	switch {
	case d.keyHeads < 1 || d.heads%d.keyHeads != 0:
		return fmt.Errorf("%s is %d, want a divisor of %s, %d",
			cmp.Or(keys.keyHeads, "num_key_value_heads"), d.keyHeads, keys.heads, d.heads)
	case d.width < 1 || d.width > 1<<16:
		return fmt.Errorf("%s is %d, want 1 to 65536", cmp.Or(keys.width, "head_dim"), d.width)
	case d.segments < 0 || d.segments > 1<<24:
		return fmt.Errorf("%s is %d, want 0 to %d", cmp.Or(keys.segments, "type_vocab_size"),
			d.segments, 1<<24)
	case min(d.vocab, d.longest) < 2:
		return fmt.Errorf("%s is %d, and by %s texts have at most %d tokens, want at least 2 of both",
			keys.vocab, d.vocab, keys.positions, d.longest)
	case !(d.epsilon >= 0 && d.epsilon < 1):
		return fmt.Errorf("%s is %v, want 0 or more, and less than 1", keys.epsilon, d.epsilon)
	}
	return nil
}

// sizeKeys are the names of sizes in a config; the last three are usual ones unless they are given.
type sizeKeys struct {
	hidden, layers, heads, ffn, vocab, positions, epsilon string
	keyHeads, width, segments                             string
}

// usualKeys are those of most kinds.
var usualKeys = sizeKeys{hidden: "hidden_size", layers: "num_hidden_layers",
	heads: "num_attention_heads", ffn: "intermediate_size", vocab: "vocab_size",
	positions: "max_position_embeddings", epsilon: "layer_norm_eps"}

// activations are those that configs name.
var activations = map[string]nn.Activation{"gelu": nn.GELU, "gelu_new": nn.GELUTanh,
	"gelu_pytorch_tanh": nn.GELUTanh, "gelu_python": nn.GELU, "relu": nn.ReLU, "silu": nn.SiLU,
	"swish": nn.SiLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "linear": nn.None}

// activate finds an activation by its name in a config.
func (d *description) activate(key, name string) error {
	a, ok := activations[name]
	if !ok {
		return fmt.Errorf("%s is %q, want gelu, gelu_new, gelu_python, gelu_pytorch_tanh, linear, relu, "+
			"sigmoid, silu, swish or tanh", key, name)
	}
	d.activation = a
	return nil
}

// idleTensors are the tensors without effect, with each prefix.
func (n *names) idleTensors() (all []string) {
	for _, prefix := range n.prefixes {
		for _, name := range n.idle {
			all = append(all, prefix+name)
		}
	}
	return all
}
