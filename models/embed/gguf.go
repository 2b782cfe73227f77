package embed

import (
	"errors"
	"fmt"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/tokenize"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// ggufKeys are the keys of a BERT in a GGUF file, under its architecture's name.
type ggufKeys struct {
	Layers    int      `json:"block_count"`
	Positions int      `json:"context_length"`
	Hidden    int      `json:"embedding_length"`
	FFN       int      `json:"feed_forward_length"`
	Heads     int      `json:"attention.head_count"`
	Epsilon   float32  `json:"attention.layer_norm_epsilon"`
	Pooling   *int     `json:"pooling_type"`
	Base      *float64 `json:"rope.freq_base"`
	Vocab     *int     `json:"vocab_size"`
	Labels    []string `json:"classifier.output_labels"`
}

// ggufMixtureKeys are further keys of a Nomic with experts.
type ggufMixtureKeys struct {
	ggufKeys
	Every   int `json:"moe_every_n_layers"`
	Experts int `json:"expert_count"`
	Top     int `json:"expert_used_count"`
}

// ggufGeneralIdle are keys under "general." without effect: the file's name, origin and authors.
var ggufGeneralIdle = strictjson.Idle{
	"type": {`"model"`}, "quantization_version": {"2"}, "alignment": nil, "file_type": nil,
	"name": nil, "basename": nil, "author": nil, "version": nil, "organization": nil,
	"finetune": nil, "description": nil, "quantized_by": nil, "size_label": nil, "license": nil,
	"license.*": nil, "url": nil, "doi": nil, "uuid": nil, "repo_url": nil, "source.*": nil,
	"base_model.*": nil, "dataset.*": nil, "tags": nil, "languages": nil, "datasets": nil,
	"sampling.*": nil, "parameter_count": nil, "hf_repo": nil,
}

// ggufPoolings maps numbers of pooling_type to poolings. 0 means none.
var ggufPoolings = []string{1: "mean", 2: "cls", 3: "lasttoken"}

// ggufNames are the tensor names of a BERT in a GGUF file.
var ggufNames = names{
	prefixes: []string{""}, words: "token_embd", positions: "position_embd",
	segments: "token_types", norm: "token_embd_norm", layer: "blk.%d.",
	input: []string{"attn_q", "attn_k", "attn_v"}, inputs: "attn_qkv", output: "attn_output",
	attentionNorm: "attn_output_norm", up: []string{"ffn_up"}, down: "ffn_down",
	ffnNorm: "layer_output_norm", inputBias: true, outputBias: true, upBias: true, downBias: true,
	normBias: true, firstNorm: true,
	experts: expertNames{router: "ffn_gate_inp", up: "ffn_up_exps", down: "ffn_down_exps"},
	head:    headNames{dense: "cls", out: "cls.output", activation: nn.Tanh},
}

// rankPooling is the number of pooling_type for models that score.
const rankPooling = 4

// jinaGGUF is the architecture of version 2 of Jina's embeddings.
const jinaGGUF = "jina-bert-v2"

// nomicGGUF and nomicMoEGGUF are the architectures of Nomic, the second one with experts.
const nomicGGUF, nomicMoEGGUF = "nomic-bert", "nomic-bert-moe"

// openGGUF reads a BERT, a Nomic, a Jina, a Qwen3 or an EmbeddingGemma from a GGUF file.
func (m *Model) openGGUF(l *weights.Loader) {
	var general struct {
		Architecture string `json:"architecture"`
	}
	l.Metadata("general", &general, ggufGeneralIdle)
	if l.Err != nil {
		return
	}
	kind := general.Architecture
	switch kind {
	case "qwen3":
		m.openGGUFQwen3(l)
		return
	case gemmaGGUF:
		m.openGGUFGemma(l)
		return
	case "bert", nomicGGUF, nomicMoEGGUF, jinaGGUF:
	default:
		l.Check("", fmt.Errorf("general.architecture is %q, want bert, %s, "+jinaGGUF+", "+nomicGGUF+", "+
			nomicMoEGGUF+" or qwen3, or a folder whose model_type is one of %s", kind, gemmaGGUF,
			knownKinds()))
		return
	}
	k := ggufMixtureKeys{ggufKeys: ggufKeys{Epsilon: 1e-12}}
	var into any = &k.ggufKeys
	if kind == nomicMoEGGUF {
		into = &k
	}
	l.Metadata(kind, into, strictjson.Idle{"attention.causal": {"false"},
		"rope.scaling.type": {`"none"`}})
	d := &description{kind: kind, pad: -1, activation: nn.GELU, blocks: true, names: ggufNames,
		layers: k.Layers, hidden: k.Hidden, ffn: k.FFN, heads: k.Heads, positions: k.Positions,
		longest: k.Positions, epsilon: k.Epsilon, headPooling: "cls"}
	m.texts, d.segments = tokenize.ReadTextsGGUF(l, k.Positions)
	if !l.Has(ggufNames.segments + ".weight") { // DistilBERT has none, though its file has a count
		d.segments = 0
	}
	l.CheckMetadata(strictjson.Idle{"quantize.imatrix.*": nil})
	if l.Err != nil {
		return
	}
	d.vocab = m.texts.Size()
	l.Check("", d.check(ggufSizes(kind)))
	if k.Vocab != nil && *k.Vocab != d.vocab {
		l.Check("", fmt.Errorf("%s.vocab_size is %d, want %d, as there are tokens", kind, *k.Vocab,
			d.vocab))
	}
	switch {
	case kind == nomicGGUF || kind == nomicMoEGGUF:
		d.setNomic(k.Base)
		d.mixture = mixture{k.Every, k.Experts, k.Top}
		l.Check("", d.mixture.check(kind+".moe_every_n_layers", kind+".expert_count",
			kind+".expert_used_count"))
	case k.Base != nil:
		l.Check("", fmt.Errorf("%s.rope.freq_base is %v, want none: positions have a table or ALiBi",
			kind, *k.Base))
	case kind == jinaGGUF:
		d.setJina()
		d.names.up = []string{"ffn_gate", "ffn_up"}
	}
	m.description, m.sentence = d, usualSentence()
	if p := k.Pooling; p != nil {
		if *p == rankPooling {
			m.scored = append([]string{}, k.Labels...)
			m.noVector = errors.New("pooling_type is 4, so that it scores pairs of texts, and has no " +
				"embeddings, want Rerank")
			return
		}
		if *p < 1 || *p >= len(ggufPoolings) {
			l.Check("", fmt.Errorf("%s.pooling_type is %d, want 1 to %d", kind, *p, rankPooling))
			return
		}
		m.modes = pooling{ggufPoolings[*p]}
	}
}

// ggufSizes returns the names of sizes in the metadata.
func ggufSizes(kind string) sizeKeys {
	return sizeKeys{hidden: kind + ".embedding_length", layers: kind + ".block_count",
		heads: kind + ".attention.head_count", ffn: kind + ".feed_forward_length",
		vocab: "tokenizer.ggml.tokens", positions: kind + ".context_length",
		epsilon: kind + ".attention.layer_norm_epsilon", segments: "tokenizer.ggml.token_type_count"}
}

// setNomic changes a BERT's description to Nomic's: rotated positions, and without experts a gate
// and no biases.
func (d *description) setNomic(base *float64) {
	d.positions = 0
	d.rope = &nn.RopeConfig{Dim: d.width, Base: 10000}
	if base != nil {
		d.rope.Base = *base
	}
	n := &d.names
	if n.positions = ""; d.kind == nomicMoEGGUF {
		return
	}
	d.gated, d.activation, n.up = true, nn.SiLU, []string{"ffn_gate", "ffn_up"}
	n.inputBias, n.outputBias, n.upBias, n.downBias = false, false, false, false
}
