package embed

import (
	"cmp"
	"fmt"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// description describes a model as data for the one loop of all kinds (forward.go).
type description struct {
	kind                       string
	layers, hidden, ffn, vocab int
	heads, keyHeads, width     int // heads of queries and of keys, and channels of a head
	positions, segments        int // rows of the other embedding tables, 0 for no table
	embedding                  int // width of rows of all these tables, 0 for hidden
	longest                    int // maximum of tokens of a text
	firstPosition              int
	pad                        int // token with position pad that is not counted, −1 for none
	epsilon                    float32

	rms        bool // RMSNorm in place of LayerNorm
	preNorm    bool // attention and network read norms; otherwise sums are normalized
	lessOne    bool // files keep the weights of norms less 1
	causal     bool
	activation nn.Activation
	gated      bool      // up has a second half, which multiplies the activation's output
	gateLast   bool      // the activation's half comes second in the file
	buckets    int       // buckets of distances with a bias (MPNet, T5), 0 for none
	alibi      bool      // scores have a bias that falls with the distance
	scale      float32   // of scores, 0 for 1/√width
	wordScale  float32   // of embeddings of tokens, 0 for 1
	relative   *relative // nil for none

	convolution convolution // kernel 0 for none
	mixture     mixture     // every 0 for none

	rope, localRope *nn.RopeConfig // nil for none
	local           attn.Window    // window of local layers
	locals          []bool         // which layers are local, nil for none

	ofImages    bool    // it reads pictures in place of texts
	vision      *vision // nil for a model of texts
	endings     endings
	stored      bool // matrices keep the file's type
	blocks      bool // the file is GGUF, and its blocks are kept
	answers     bool // a decoder that may answer yes or no
	headPooling string
	names       names
}

// names are tensor names without .weight and .bias, "" for tensors that the kind does not have.
// Names within a layer follow the layer's.
type names struct {
	prefixes                   []string // a file has one of these before all names
	words, positions, segments string
	sameWords                  string // a second name of words: a tensor with the same numbers
	project                    string // widens the sum of embeddings
	norm, final, distances     string
	relative, relativeNorm     string
	convolution                string
	convolutionNorm            string
	relativeQuery, relativeKey string   // projections of relative in a layer
	layer                      string   // with %d for its number
	input                      []string // queries, keys and values, or all fused
	inputs                     string   // fused alternative to input
	output, attentionNorm      string
	up                         []string // gate and up, or both fused
	down, ffnNorm              string
	queryNorm, keyNorm         string
	outputNorm, downNorm       string // norms of attention's and of the network's outputs
	outputScale, downScale     string // factors of attention's and of the network's outputs
	inputBias, outputBias      bool
	upBias, downBias           bool
	normBias                   bool
	firstNorm                  bool // the first layer has a norm before attention
	idle                       []string
	experts                    expertNames
	head, tokenHead            headNames // tokenHead labels tokens
}

// norm has the weights of a LayerNorm or an RMSNorm. The latter has no bias.
type norm struct{ weight, bias []float32 }

// layer is attention and a feed-forward network.
type layer struct {
	attentionNorm, ffnNorm *norm            // nil for none
	outputNorm, downNorm   *norm            // of outputs before they are added, nil for none
	input, up              []weights.Linear // outputs are columns of a row
	output, down           weights.Linear
	experts                *experts // in place of up and down, nil for none
	queryNorm, keyNorm     []float32
	relativeQueries        []float32 // rows of relative as queries, all heads of a row together
	relativeKeys           []float32
	rope                   *nn.Rope
	window                 attn.Window
}

// tables are the embeddings of tokens, positions and segments.
type tables struct {
	words, positions, segments *weights.Table
	project                    *weights.Linear // nil for none
	norm                       *norm
}

// check validates the sizes and fills in defaults. keys has their names for errors.
func (d *description) check(keys sizeKeys) error {
	list := []struct {
		name string
		size int
	}{{keys.hidden, d.hidden}, {keys.layers, d.layers}, {keys.heads, d.heads}, {keys.ffn, d.ffn},
		{keys.vocab, d.vocab}, {keys.positions, d.longest}}
	if d.ofImages {
		list = list[:4]
	}
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
	case !d.ofImages && min(d.vocab, d.longest) < 2:
		return fmt.Errorf("%s is %d, and by %s texts have at most %d tokens, want at least 2 of both",
			keys.vocab, d.vocab, keys.positions, d.longest)
	case !(d.epsilon >= 0 && d.epsilon < 1):
		return fmt.Errorf("%s is %v, want 0 or more, and less than 1", keys.epsilon, d.epsilon)
	}
	return nil
}

// sizeKeys are the names of sizes in a config. The last three have defaults.
type sizeKeys struct {
	hidden, layers, heads, ffn, vocab, positions, epsilon string
	keyHeads, width, segments                             string
}

// usualKeys are the names in most kinds of models.
var usualKeys = sizeKeys{hidden: "hidden_size", layers: "num_hidden_layers",
	heads: "num_attention_heads", ffn: "intermediate_size", vocab: "vocab_size",
	positions: "max_position_embeddings", epsilon: "layer_norm_eps"}

// activations maps names in configs to activations.
var activations = map[string]nn.Activation{"gelu": nn.GELU, "gelu_new": nn.GELUTanh,
	"gelu_pytorch_tanh": nn.GELUTanh, "gelu_python": nn.GELU, "relu": nn.ReLU, "silu": nn.SiLU,
	"quick_gelu": nn.QuickGELU, "swish": nn.SiLU, "tanh": nn.Tanh,
	"sigmoid": nn.Sigmoid, "linear": nn.None}

// setActivation sets the activation by its name in a config.
func (d *description) setActivation(key, name string) error {
	a, err := activationOf(key, name)
	d.activation = a
	return err
}

// activationOf returns the activation that a key of a config names.
func activationOf(key, name string) (nn.Activation, error) {
	a, ok := activations[name]
	if !ok {
		return a, fmt.Errorf("%s is %q, want gelu, gelu_new, gelu_python, gelu_pytorch_tanh, linear, "+
			"quick_gelu, relu, sigmoid, silu, swish or tanh", key, name)
	}
	return a, nil
}

// idleTensors returns the names of tensors without effect, with each prefix.
func (n *names) idleTensors() (all []string) {
	for _, prefix := range n.prefixes {
		for _, name := range n.idle {
			all = append(all, prefix+name)
		}
	}
	return all
}
