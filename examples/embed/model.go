package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/examples/internal/folder"
)

// config is what is needed of config.json, and of two files that only models made for embeddings
// have.
type config struct {
	Type      string  `json:"model_type"`
	GELU      string  `json:"hidden_act"`
	Hidden    int     `json:"hidden_size"`
	Layers    int     `json:"num_hidden_layers"`
	Heads     int     `json:"num_attention_heads"`
	FFN       int     `json:"intermediate_size"`
	Vocab     int     `json:"vocab_size"`
	Positions int     `json:"max_position_embeddings"`
	Types     int     `json:"type_vocab_size"`
	Epsilon   float32 `json:"layer_norm_eps"`
	// the first token's row is the embedding, not the mean of all
	CLS     bool `json:"pooling_mode_cls_token"`
	Mean    bool `json:"pooling_mode_mean_tokens"`
	Longest int  `json:"max_seq_length"`
}

// standard is what the files may leave out.
var standard = config{Type: "bert", GELU: "gelu", Positions: 512, Types: 2, Epsilon: 1e-12,
	Mean: true, Longest: 512}

// model is a BERT encoder, with the matrices packed for the kernels.
type model struct {
	config
	words, positions, types []float32 // a row for each token, position and type
	norm                    layerNorm
	layers                  []layer
	packed                  int  // bytes of matrices
	int8                    bool // matrices and attention multiply integers
}

// layer is attention and a feed-forward network, each with a sum and a LayerNorm after it.
type layer struct {
	qkv, join, up, down folder.Linear
	norm, ffnNorm       layerNorm
}

type layerNorm struct{ weight, bias []float32 }

// load returns the model of a folder, or a random one of sizes c. With int8 its matrices have 8
// bits, and all products are of integers.
func load(path string, c config, int8 bool) (*model, *folder.WordPiece, error) {
	l := &folder.Loader{Path: path, Random: random(rand.New(rand.NewPCG(1, 1))), Int8: int8}
	if path != "" {
		l.Random, c = nil, standard
		l.JSON("config.json", &c, folder.AnyKey)
		l.OptionalJSON("1_Pooling/config.json", &c, folder.AnyKey)
		l.OptionalJSON("sentence_bert_config.json", &c, folder.AnyKey)
		l.Open()
		defer l.Close()
	}
	if l.Check("config.json", c.check()); l.Err != nil {
		return nil, nil, l.Err
	}
	t := folder.HashedWords(c.Vocab, min(c.Longest, c.Positions))
	if path != "" {
		t = l.WordPiece(t.Size, t.Longest)
	}
	m := newModel(l, c)
	return m, t, l.Err
}

// check refuses what this encoder would compute wrongly.
func (c *config) check() error {
	err := folder.Sizes([]string{"hidden_size", "num_hidden_layers", "num_attention_heads",
		"intermediate_size", "vocab_size", "type_vocab_size",
		"max_position_embeddings", "max_seq_length"}, c.Hidden, c.Layers, c.Heads, c.FFN, c.Vocab,
		c.Types, c.Positions, c.Longest)
	switch {
	case err != nil:
		return err
	case c.Type != "bert" || c.GELU != "gelu":
		return fmt.Errorf("model_type is %q and hidden_act %q, want a bert with gelu", c.Type, c.GELU)
	case c.CLS == c.Mean:
		return fmt.Errorf("pooling_mode_cls_token and pooling_mode_mean_tokens are both %v, want "+
			"pooling by the mean or the cls token", c.CLS)
	case c.Hidden%c.Heads != 0:
		return fmt.Errorf("hidden_size is %d, want a multiple of num_attention_heads, %d", c.Hidden,
			c.Heads)
	case min(c.Vocab, c.Longest, c.Positions) < 2:
		return fmt.Errorf("texts have at most %d tokens of %d, want at least 2",
			min(c.Longest, c.Positions), c.Vocab)
	}
	return nil
}

// newModel takes tensors by their names in PyTorch's BertModel. A model with a head has the encoder
// in a part of its own.
func newModel(l *folder.Loader, c config) *model {
	d, at, kind := c.Hidden, "", attn.F32
	if l.Int8 {
		kind = attn.I8
	}
	if l.Has("bert.embeddings.LayerNorm.weight") {
		at = "bert."
	}
	norm := func(name string) layerNorm {
		return layerNorm{l.Tensor(at+name+".weight", d), l.Tensor(at+name+".bias", d)}
	}
	linear := func(in, out int, names ...string) folder.Linear {
		var parts []folder.Part
		for _, name := range names {
			parts = append(parts, folder.Part{Name: at + name, Out: out})
		}
		return l.Linear(kind, in, true, parts...)
	}
	m := &model{config: c, int8: l.Int8, norm: norm("embeddings.LayerNorm"),
		words:     l.Tensor(at+"embeddings.word_embeddings.weight", c.Vocab, d),
		positions: l.Tensor(at+"embeddings.position_embeddings.weight", c.Positions, d),
		types:     l.Tensor(at+"embeddings.token_type_embeddings.weight", c.Types, d)}
	for i := 0; i < c.Layers && l.Err == nil; i++ {
		in := fmt.Sprintf("encoder.layer.%d.", i)
		self := in + "attention.self."
		m.layers = append(m.layers, layer{
			qkv:     linear(d, d, self+"query", self+"key", self+"value"), // one product makes rows [Q K V]
			join:    linear(d, d, in+"attention.output.dense"),
			norm:    norm(in + "attention.output.LayerNorm"),
			up:      linear(d, c.FFN, in+"intermediate.dense"),
			down:    linear(c.FFN, d, in+"output.dense"),
			ffnNorm: norm(in + "output.LayerNorm"),
		})
	}
	m.packed = l.Packed
	return m
}

// random makes weights for a model that knows nothing.
func random(source *rand.Rand) func(name string, shape []int) []float32 {
	return func(name string, shape []int) []float32 {
		x := make([]float32, shape[0]*append(shape, 1)[1])
		for i := range x {
			x[i] = float32(0.1 * (source.Float32() - 0.5))
			if strings.HasSuffix(name, "LayerNorm.weight") {
				x[i]++
			}
		}
		return x
	}
}
