package main

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/embed/folder"
	"github.com/seed-1415985d/attn/strictjson"
)

// config is what is needed of config.json.
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
	// Architectures are the classes that the model was saved as.
	Architectures []string `json:"architectures"`
}

// configIdle are keys of config.json that change nothing of what the encoder computes: names, what
// training and heads need, and what generating text would.
var configIdle = strictjson.Idle{
	"_attn_implementation_autoset": nil, "_name_or_path": nil, "_num_labels": nil,
	"add_cross_attention": {"false"}, "attention_probs_dropout_prob": nil,
	"bad_words_ids": nil, "bos_token_id": nil, "chunk_size_feed_forward": nil,
	"classifier_dropout": nil, "cross_attention_hidden_size": nil, "decoder_start_token_id": nil,
	"directionality": nil, "do_sample": nil, "dtype": nil, "eos_token_id": nil,
	"finetuning_task": nil, "gradient_checkpointing": nil, "hidden_dropout_prob": nil,
	"id2label": nil, "initializer_range": nil, "is_decoder": {"false"},
	"is_encoder_decoder": {"false"}, "label2id": nil, "language": nil, "max_length": nil,
	"model_max_length": nil, "num_labels": nil, "output_attentions": nil,
	"output_hidden_states": nil, "output_past": nil, "pad_token_id": nil, "pooler_fc_size": nil,
	"pooler_num_attention_heads": nil, "pooler_num_fc_layers": nil,
	"pooler_size_per_head": nil, "pooler_type": nil, "position_embedding_type": {`"absolute"`},
	"prefix": nil, "problem_type": nil, "pruned_heads": {"{}"}, "return_dict": nil,
	"sep_token_id": nil, "task_specific_params": nil, "tie_encoder_decoder": nil,
	"tie_word_embeddings": nil, "tokenizer_class": bertClasses, "torch_dtype": nil, "torchscript": nil,
	"transformers_version": nil, "use_bfloat16": nil, "use_cache": nil,
}

// bertClasses are tokenizers whose files are read. Others would cut texts into other words.
var bertClasses = []string{`"BertTokenizer"`, `"BertTokenizerFast"`, `"PreTrainedTokenizerFast"`}

// tensorsIdle are heads, which have no part in embeddings, and the numbers of positions.
var tensorsIdle = []string{"embeddings.position_ids", "embeddings.token_type_ids",
	"pooler.dense.weight", "pooler.dense.bias", "bert.embeddings.position_ids",
	"bert.embeddings.token_type_ids", "bert.pooler.dense.weight", "bert.pooler.dense.bias",
	"cls.*", "classifier.*", "qa_outputs.*"}

// standard is what config.json may leave out.
var standard = config{Type: "bert", GELU: "gelu", Positions: 512, Types: 2, Epsilon: 1e-12}

// model is a BERT encoder, with the matrices packed for the kernels.
type model struct {
	config
	sentence
	words, positions, types []float32 // a row for each token, position and type
	norm                    layerNorm
	layers                  []layer
	packed                  int  // bytes of matrices
	integers, random        bool // matrices and attention multiply integers; weights mean nothing
}

// layer is attention and a feed-forward network, each with a sum and a LayerNorm after it.
type layer struct {
	qkv, join, up, down folder.Linear
	norm, ffnNorm       layerNorm
}

type layerNorm struct{ weight, bias []float32 }

// load returns the model of a folder, or a random one of sizes c. With integers its matrices have 8
// bits, and all products are of integers.
func load(path string, c config, integers bool) (*model, *folder.WordPiece, error) {
	if path == "" {
		l := &folder.Loader{Random: random(rand.New(rand.NewPCG(1, 1))), Integers: integers}
		if err := c.check(); err != nil {
			return nil, nil, err
		}
		m := newModel(l, c, usual())
		m.random = true
		return m, folder.HashedWords(c.Vocab, c.Positions), l.Err
	}
	l := folder.Of(path, integers)
	c = standard
	l.JSON("config.json", &c, configIdle)
	l.Check("config.json", c.check())
	s := readSentence(l, c.Hidden)
	l.Open()
	defer l.Close()
	t := l.WordPiece(c.Vocab, s.longest, c.Positions)
	l.Check("config.json", s.checkHead(l, &c))
	m := newModel(l, c, s)
	l.CheckUsed(tensorsIdle...)
	return m, t, l.Err
}

// scoring are classes that answer with scores of texts, or of pairs of them.
var scoring = []string{"ForSequenceClassification", "ForTokenClassification",
	"ForMultipleChoice", "ForNextSentencePrediction", "ForQuestionAnswering"}

// checkHead refuses cross-encoders and their like: they have learned to score, and the rows below
// the score are no embeddings. A modules.json says that they are.
func (s *sentence) checkHead(l *folder.Loader, c *config) error {
	const scores = "scores texts or pairs of texts, as cross-encoders do, and has no embeddings, " +
		"want a BertModel, or a modules.json that says how to make embeddings"
	if s.listed {
		return nil
	}
	for _, name := range c.Architectures {
		for _, suffix := range scoring {
			if strings.HasSuffix(name, suffix) {
				return fmt.Errorf("architectures is %q, which %s", c.Architectures, scores)
			}
		}
	}
	if l.Has("classifier.weight") {
		return fmt.Errorf("tensor classifier.weight is of a model that %s", scores)
	}
	return nil
}

// check refuses what this encoder would compute wrongly.
func (c *config) check() error {
	err := folder.Sizes([]string{"hidden_size", "num_hidden_layers", "num_attention_heads",
		"intermediate_size", "vocab_size", "type_vocab_size",
		"max_position_embeddings"}, c.Hidden, c.Layers, c.Heads, c.FFN, c.Vocab, c.Types, c.Positions)
	switch {
	case err != nil:
		return err
	case c.Type != "bert" || c.GELU != "gelu":
		return fmt.Errorf("model_type is %q and hidden_act %q, want a bert with gelu", c.Type, c.GELU)
	case c.Hidden%c.Heads != 0:
		return fmt.Errorf("hidden_size is %d, want a multiple of num_attention_heads, %d", c.Hidden,
			c.Heads)
	case min(c.Vocab, c.Positions) < 2:
		return fmt.Errorf("texts have at most %d tokens of %d, want at least 2", c.Positions, c.Vocab)
	case !(c.Epsilon >= 0):
		return fmt.Errorf("layer_norm_eps is %v, want 0 or more", c.Epsilon)
	}
	return nil
}

// newModel takes tensors by their names in PyTorch's BertModel, or in TensorFlow's. A model with a
// head has the encoder in a part of its own.
func newModel(l *folder.Loader, c config, s sentence) *model {
	d, at, kind := c.Hidden, "", attn.F32
	if l.Integers {
		kind = attn.I8
	}
	if l.Has("bert.embeddings.word_embeddings.weight") {
		at = "bert."
	}
	norm := func(name string) layerNorm {
		if name = at + name; l.Has(name + ".gamma") {
			return layerNorm{l.Tensor(name+".gamma", d), l.Tensor(name+".beta", d)}
		}
		return layerNorm{l.Tensor(name+".weight", d), l.Tensor(name+".bias", d)}
	}
	linear := func(in, out int, names ...string) folder.Linear {
		var parts []folder.Part
		for _, name := range names {
			parts = append(parts, folder.Part{Name: at + name, Out: out})
		}
		return l.Linear(kind, in, true, parts...)
	}
	m := &model{config: c, sentence: s, integers: l.Integers, norm: norm("embeddings.LayerNorm"),
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
