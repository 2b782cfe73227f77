package lm

import (
	"fmt"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// furtherNames are the names of the tensors of a layer that guesses further tokens, some with a
// verb for the number of layers before it; join is "" for kinds without such a layer.
type furtherNames struct {
	layer                    string // before the names of a layer's tensors
	join, tokenNorm, rowNorm string
	norm, embedding, head    string // if the file has them; otherwise the model's are used
}

// at returns a name for a model of some layers.
func (n *furtherNames) at(name string, layers int) string {
	if strings.Contains(name, "%d") {
		return fmt.Sprintf(name, layers)
	}
	return name
}

// furtherLayer is the layer of a model that guesses further tokens (multi-token prediction, MTP).
// From the model's last row of a token, normed, and the embedding of the next token it computes a
// row from which the model's head computes logits of the token after that.
type furtherLayer struct {
	*model             // of this layer, with its norm, and its embedding and head or the model's
	join               weights.Linear
	tokenNorm, rowNorm []float32 // of the two parts of join's input, in this order
}

// mostFurther bounds the tokens that a model's own layer guesses at a time.
const mostFurther = 8

// useGuesses lets the model load its own layer for guesses if the options ask for guesses and have
// no second model for them.
func (c *config) useGuesses(l *weights.Loader, names *tensorNames, o *Options) error {
	if o.Guesses == 0 || o.Draft != nil {
		return nil
	}
	n, key := c.GuessLayers, c.GuessKey
	if n < 0 { // the configuration does not say
		if n = 0; l.Has(names.further.join + ".weight") {
			n = 1
		}
	}
	refused := fmt.Errorf("%w: Options.Guesses is %d without Options.Draft", attn.ErrOption, o.Guesses)
	switch {
	case names.further.join == "" || n == 0:
		return fmt.Errorf("%w, want 0: the model has no layer that guesses further tokens", refused)
	case n != 1:
		return fmt.Errorf("%w and %s %d, want 0 guesses, or 1 layer for them", refused, key, n)
	case c.OwnEmbedding:
		return fmt.Errorf("%w and mtp_use_dedicated_embeddings true, want 0, or false", refused)
	case o.Guesses > mostFurther:
		return fmt.Errorf("%w, want 0 to %d", refused, mostFurther)
	case o.Cache != nil:
		return fmt.Errorf("%w and with Options.Cache, want one of them", refused)
	}
	c.Guesses = o.Guesses
	return nil
}

// further loads the layer that guesses further tokens. Its layer attends to all tokens.
func (m *model) loadFurther(b *layerBuilder, names *tensorNames, rope *nn.Rope) *furtherLayer {
	c, n, layers := m.config, &names.further, m.Layers
	c.Layers, c.Windows, c.Unrotated, c.States, c.Experts.Dense = 1, []int{0}, nil, states{}, nil
	one := &layerBuilder{Loader: b.Loader, config: &c, kind: b.kind, at: n.at(n.layer, layers)}
	f := &furtherLayer{model: &model{config: c, embedding: m.embedding, norm: m.norm,
		residual: m.residual, head: m.head}}
	f.layers = []decoderLayer{one.layer(0, &names.layerNames)}
	f.layers[0].rope = rope
	one.at = ""
	f.join = one.linear(one.part(n.at(n.join, layers), c.Dim), 2*c.Dim, false)
	f.tokenNorm = one.norm(n.at(n.tokenNorm, layers), c.Dim)
	f.rowNorm = one.norm(n.at(n.rowNorm, layers), c.Dim)
	if name := n.at(n.norm, layers); b.Has(name + ".weight") {
		f.norm = one.norm(name, c.Dim)
	}
	if name := n.at(n.embedding, layers) + ".weight"; b.Has(name) {
		f.embedding = b.Table(name, c.Vocab, c.Dim, nil)
	}
	if name := n.at(n.head, layers); b.Has(name + ".weight") {
		f.head = one.linear(one.part(name, c.Vocab), c.Dim, false)
	}
	return f
}
