package embed

import (
	"fmt"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// bertConfig has the keys of config.json for BERT and similar models.
type bertConfig struct {
	Activation string  `json:"hidden_act"`
	Hidden     int     `json:"hidden_size"`
	Layers     int     `json:"num_hidden_layers"`
	Heads      int     `json:"num_attention_heads"`
	FFN        int     `json:"intermediate_size"`
	Vocab      int     `json:"vocab_size"`
	Positions  int     `json:"max_position_embeddings"`
	Types      int     `json:"type_vocab_size"`
	Epsilon    float32 `json:"layer_norm_eps"`
	Pad        *int    `json:"pad_token_id"`
}

// commonIdle are keys of config.json without effect on an encoder: names, and settings of training
// and of text generation. Labels are read elsewhere (labelsFile).
var commonIdle = strictjson.Idle{
	"_attn_implementation_autoset": nil, "_name_or_path": nil, "_num_labels": nil,
	"add_cross_attention": {"false"}, "architectures": nil, "attention_dropout": nil,
	"attention_probs_dropout_prob": nil, "bad_words_ids": nil, "bos_token_id": nil,
	"chunk_size_feed_forward": nil, "classifier_dropout": nil, "cross_attention_hidden_size": nil,
	"decoder_start_token_id": nil, "directionality": nil, "do_sample": nil, "dtype": nil,
	"eos_token_id": nil, "finetuning_task": nil, "gradient_checkpointing": nil,
	"hidden_dropout_prob": nil, "id2label": nil, "initializer_range": nil,
	"is_decoder": {"false"}, "is_encoder_decoder": {"false"}, "label2id": nil, "language": nil,
	"matryoshka_dimensions": nil, "max_length": nil, "model_max_length": nil, "model_type": nil,
	"num_labels":        nil,
	"output_attentions": nil, "output_hidden_states": nil, "output_past": nil,
	"pooler_fc_size": nil, "pooler_num_attention_heads": nil, "pooler_num_fc_layers": nil,
	"pooler_size_per_head": nil, "pooler_type": nil, "position_embedding_type": {`"absolute"`},
	"prefix": nil, "problem_type": nil, "pruned_heads": {"{}"}, "return_dict": nil,
	"sentence_transformers": nil, "sep_token_id": nil, "cls_token_id": nil,
	"sbert_ce_default_activation_function": nil, "task_specific_params": nil,
	"tie_encoder_decoder": nil, "tie_word_embeddings": nil,
	"tokenizer_class": tokenizerClasses, "torch_dtype": nil, "torchscript": nil,
	"transformers_version": nil, "use_bfloat16": nil, "use_cache": nil,
}

// tokenizerClasses are the tokenizers that are supported. Others would split texts differently.
var tokenizerClasses = []string{`"BertTokenizer"`, `"BertTokenizerFast"`,
	`"PreTrainedTokenizerFast"`, `"DistilBertTokenizer"`, `"DistilBertTokenizerFast"`,
	`"RobertaTokenizer"`, `"RobertaTokenizerFast"`, `"XLMRobertaTokenizer"`,
	`"XLMRobertaTokenizerFast"`, `"CamembertTokenizer"`, `"CamembertTokenizerFast"`,
	`"MPNetTokenizer"`, `"MPNetTokenizerFast"`, `"Qwen2Tokenizer"`, `"Qwen2TokenizerFast"`,
	`"T5Tokenizer"`, `"T5TokenizerFast"`, `"DebertaV2Tokenizer"`, `"DebertaV2TokenizerFast"`}

// idleWith returns commonIdle without some keys and with more.
func idleWith(more strictjson.Idle, but ...string) strictjson.Idle {
	all := strictjson.Idle{}
	for key, values := range commonIdle {
		all[key] = values
	}
	for _, key := range but {
		delete(all, key)
	}
	for key, values := range more {
		all[key] = values
	}
	return all
}

// bertNames are the tensor names of PyTorch's BertModel.
var bertNames = names{
	prefixes: []string{"", "bert."}, words: "embeddings.word_embeddings",
	positions: "embeddings.position_embeddings", segments: "embeddings.token_type_embeddings",
	norm: "embeddings.LayerNorm", layer: "encoder.layer.%d.",
	input:  []string{"attention.self.query", "attention.self.key", "attention.self.value"},
	output: "attention.output.dense", attentionNorm: "attention.output.LayerNorm",
	up: []string{"intermediate.dense"}, down: "output.dense", ffnNorm: "output.LayerNorm",
	inputBias: true, outputBias: true, upBias: true, downBias: true, normBias: true,
	firstNorm: true,
	idle: []string{"embeddings.position_ids", "embeddings.token_type_ids", "pooler.dense.*",
		"cls.*", "classifier.*", "lm_head.*", "qa_outputs.*"},
	head: bertHead, tokenHead: labelHead,
}

// readBERT describes a BERT, a RoBERTa or an XLM-RoBERTa.
func readBERT(l *weights.Loader, kind string) *description {
	if isJina(l, kind) {
		return readJina(l)
	}
	c := bertConfig{Activation: "gelu", Positions: 512, Types: 2, Epsilon: 1e-12}
	idle, own := idleWith(nil), bertNames
	d := &description{kind: kind, pad: -1, headPooling: "cls"}
	if kind != "bert" {
		c.Epsilon, c.Types = 1e-5, 1
		own.prefixes, own.head = []string{"", "roberta."}, robertaHead
	}
	l.JSON(configJSON, &c, idle)
	d.setSizes(&c)
	if kind != "bert" {
		d.countFromPad(l, c.Pad, 1)
	}
	d.names = own
	l.Check(configJSON, d.setActivation("hidden_act", c.Activation))
	l.Check(configJSON, d.check(usualKeys))
	return d
}

// setSizes sets the sizes that BERT and similar models have.
func (d *description) setSizes(c *bertConfig) {
	d.layers, d.hidden, d.ffn, d.vocab, d.heads = c.Layers, c.Hidden, c.FFN, c.Vocab, c.Heads
	d.positions, d.longest, d.segments, d.epsilon = c.Positions, c.Positions, c.Types, c.Epsilon
}

// countFromPad sets the first position to the padding token's number plus one. The padding token
// itself has its number as position.
func (d *description) countFromPad(l *weights.Loader, pad *int, usual int) {
	d.pad = usual
	if pad != nil {
		d.pad = *pad
	}
	if d.pad < 0 || d.pad >= d.positions {
		l.Check(configJSON, fmt.Errorf("pad_token_id is %d, want 0 to %d, a position", d.pad,
			d.positions-1))
	}
	d.firstPosition = d.pad + 1
	d.longest = d.positions - d.firstPosition
}

// distilNames are the tensor names of DistilBertModel.
var distilNames = names{
	prefixes: []string{"", "distilbert."}, words: "embeddings.word_embeddings",
	positions: "embeddings.position_embeddings", norm: "embeddings.LayerNorm",
	layer:  "transformer.layer.%d.",
	input:  []string{"attention.q_lin", "attention.k_lin", "attention.v_lin"},
	output: "attention.out_lin", attentionNorm: "sa_layer_norm", up: []string{"ffn.lin1"},
	down: "ffn.lin2", ffnNorm: "output_layer_norm",
	inputBias: true, outputBias: true, upBias: true, downBias: true, normBias: true,
	firstNorm: true,
	idle: []string{"embeddings.position_ids", "vocab_*", "qa_outputs.*", "pre_classifier.*",
		"classifier.*"},
	head:      headNames{dense: "pre_classifier", out: "classifier", activation: nn.ReLU},
	tokenHead: labelHead,
}

func readDistilBERT(l *weights.Loader, kind string) *description {
	c := struct {
		Activation string `json:"activation"`
		Hidden     int    `json:"dim"`
		Layers     int    `json:"n_layers"`
		Heads      int    `json:"n_heads"`
		FFN        int    `json:"hidden_dim"`
		Vocab      int    `json:"vocab_size"`
		Positions  int    `json:"max_position_embeddings"`
	}{"gelu", 768, 6, 12, 3072, 30522, 512}
	l.JSON(configJSON, &c, idleWith(strictjson.Idle{"dropout": nil, "pad_token_id": nil,
		"qa_dropout": nil, "seq_classif_dropout": nil, "sinusoidal_pos_embds": nil,
		"tie_weights_": nil}))
	d := &description{kind: kind, pad: -1, headPooling: "cls", names: distilNames, epsilon: 1e-12}
	d.setSizes(&bertConfig{Hidden: c.Hidden, Layers: c.Layers, Heads: c.Heads, FFN: c.FFN,
		Vocab: c.Vocab, Positions: c.Positions, Epsilon: 1e-12})
	l.Check(configJSON, d.setActivation("activation", c.Activation))
	l.Check(configJSON, d.check(sizeKeys{hidden: "dim", layers: "n_layers", heads: "n_heads",
		ffn: "hidden_dim", vocab: "vocab_size", positions: "max_position_embeddings"}))
	return d
}

// mpNames are the tensor names of MPNetModel.
var mpNames = names{
	prefixes: []string{"", "mpnet."}, words: "embeddings.word_embeddings",
	positions: "embeddings.position_embeddings", norm: "embeddings.LayerNorm",
	distances: "encoder.relative_attention_bias", layer: "encoder.layer.%d.",
	input:  []string{"attention.attn.q", "attention.attn.k", "attention.attn.v"},
	output: "attention.attn.o", attentionNorm: "attention.LayerNorm",
	up: []string{"intermediate.dense"}, down: "output.dense", ffnNorm: "output.LayerNorm",
	inputBias: true, outputBias: true, upBias: true, downBias: true, normBias: true,
	firstNorm: true,
	idle: []string{"embeddings.position_ids", "pooler.dense.*", "lm_head.*", "qa_outputs.*",
		"classifier.*"},
	head: robertaHead, tokenHead: labelHead,
}

func readMPNet(l *weights.Loader, kind string) *description {
	c := struct {
		bertConfig
		Buckets int `json:"relative_attention_num_buckets"`
	}{bertConfig{Activation: "gelu", Hidden: 768, Layers: 12, Heads: 12, FFN: 3072, Vocab: 30527,
		Positions: 512, Epsilon: 1e-12}, 32}
	l.JSON(configJSON, &c, idleWith(nil))
	d := &description{kind: kind, headPooling: "cls", names: mpNames, buckets: c.Buckets}
	d.setSizes(&c.bertConfig)
	d.segments = 0
	d.countFromPad(l, nil, 1) // MPNet ignores pad_token_id
	l.Check(configJSON, checkBuckets(d.buckets))
	l.Check(configJSON, d.setActivation("hidden_act", c.Activation))
	l.Check(configJSON, d.check(usualKeys))
	return d
}
