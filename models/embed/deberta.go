package embed

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// debertaNames are the tensor names of DebertaV2Model.
var debertaNames = names{
	prefixes: []string{"", "deberta."}, words: "embeddings.word_embeddings",
	positions: "embeddings.position_embeddings", segments: "embeddings.token_type_embeddings",
	project: "embeddings.embed_proj", norm: "embeddings.LayerNorm", layer: "encoder.layer.%d.",
	input: []string{"attention.self.query_proj", "attention.self.key_proj",
		"attention.self.value_proj"},
	relative: "encoder.rel_embeddings", relativeNorm: "encoder.LayerNorm",
	convolution: "encoder.conv.conv", convolutionNorm: "encoder.conv.LayerNorm",
	relativeQuery: "attention.self.pos_query_proj", relativeKey: "attention.self.pos_key_proj",
	output: "attention.output.dense", attentionNorm: "attention.output.LayerNorm",
	up: []string{"intermediate.dense"}, down: "output.dense", ffnNorm: "output.LayerNorm",
	inputBias: true, outputBias: true, upBias: true, downBias: true, normBias: true,
	firstNorm: true,
	idle: []string{"embeddings.position_ids", "pooler.dense.*", "classifier.*", "qa_outputs.*",
		"cls.*", "lm_predictions.*", "mask_predictions.*"},
	head: headNames{dense: "pooler.dense", out: "classifier"}, tokenHead: labelHead,
}

// debertaIdle are keys without effect: settings of training.
var debertaIdle = strictjson.Idle{
	"cls_dropout": nil, "conv_groups": {"1"}, "legacy": nil,
	"pooler_dropout": nil, "summary_activation": nil, "summary_last_dropout": nil,
	"summary_type": nil, "summary_use_proj": nil,
}

// debertaConfig has the keys of config.json.
type debertaConfig struct {
	bertConfig
	Width      *int   `json:"attention_head_size"`
	Embedding  *int   `json:"embedding_size"`
	Biased     bool   `json:"position_biased_input"`
	Relative   bool   `json:"relative_attention"`
	Most       int    `json:"max_relative_positions"`
	Buckets    int    `json:"position_buckets"`
	Terms      terms  `json:"pos_att_type"`
	Shared     bool   `json:"share_att_key"`
	Norm       string `json:"norm_rel_ebd"`
	Kernel     int    `json:"conv_kernel_size"`
	KernelAct  string `json:"conv_act"`
	PoolerAct  string `json:"pooler_hidden_act"`
	PoolerSize *int   `json:"pooler_hidden_size"`
}

// terms are the terms of a score in addition to the product of query and key.
type terms []string

// UnmarshalJSON reads a list, or a text with | between its parts.
func (t *terms) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) != nil || string(data) == "null" {
		return json.Unmarshal(data, (*[]string)(t))
	}
	*t = barred(one)
	return nil
}

// barred returns the parts of a text between |, in lower case.
func barred(text string) []string {
	list := strings.Split(strings.ToLower(text), "|")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

// readDeBERTa describes a DeBERTa of version 2 or 3: scores have terms of a query and the relative
// position of a key, and of a key and the relative position of a query.
func readDeBERTa(l *weights.Loader, kind string) *description {
	c := debertaConfig{bertConfig: bertConfig{Activation: "gelu", Hidden: 1536, Layers: 24, Heads: 24,
		FFN: 6144, Vocab: 128100, Positions: 512, Epsilon: 1e-7}, Biased: true, Most: -1, Buckets: -1,
		Norm: "none", KernelAct: "tanh", PoolerAct: "gelu"}
	l.JSON(configJSON, &c, idleWith(debertaIdle))
	d := &description{kind: kind, pad: -1, headPooling: "cls", names: debertaNames}
	d.setSizes(&c.bertConfig)
	for _, of := range []struct {
		key  string
		size *int
		into *int
	}{{"attention_head_size", c.Width, &d.width}, {"embedding_size", c.Embedding, &d.embedding}} {
		if of.size != nil {
			*of.into = *of.size
			l.Check(configJSON, weights.Sizes([]string{of.key}, *of.size))
		}
	}
	if !c.Biased {
		d.positions = 0
		d.names.idle = append(slices.Clone(d.names.idle), d.names.positions+".*")
	}
	l.Check(configJSON, d.setActivation("hidden_act", c.Activation))
	l.Check(configJSON, d.check(usualKeys))
	l.Check(configJSON, d.setPooler(&c))
	l.Check(configJSON, d.setRelative(&c))
	l.Check(configJSON, d.setConvolution(c.Kernel, c.KernelAct))
	return d
}

// setPooler sets the activation of the head for texts.
func (d *description) setPooler(c *debertaConfig) (err error) {
	if c.PoolerSize != nil && *c.PoolerSize != d.hidden {
		return fmt.Errorf("pooler_hidden_size is %d, want hidden_size, %d", *c.PoolerSize, d.hidden)
	}
	d.names.head.activation, err = activationOf("pooler_hidden_act", c.PoolerAct)
	return err
}

// setRelative sets the terms of scores by relative positions, and the scale of all terms.
func (d *description) setRelative(c *debertaConfig) error {
	p := &relative{span: c.Most, most: c.Most, shared: c.Shared,
		keys: slices.Contains(c.Terms, "c2p"), queries: slices.Contains(c.Terms, "p2c")}
	if c.Most < 1 {
		p.span, p.most = c.Positions, c.Positions
	}
	if c.Buckets > 0 {
		p.span, p.buckets = c.Buckets, c.Buckets
	}
	for _, part := range barred(c.Norm) {
		p.norm = p.norm || part == "layer_norm"
		if part != "layer_norm" && part != "none" {
			return fmt.Errorf("norm_rel_ebd is %q, want layer_norm or none", c.Norm)
		}
	}
	for _, term := range c.Terms {
		if term != "c2p" && term != "p2c" {
			return fmt.Errorf("pos_att_type is %q, want c2p, p2c, both or none", c.Terms)
		}
	}
	switch least := p.buckets/2 + 2; {
	case !c.Relative:
		return errors.New("relative_attention is false, want true")
	case p.buckets%2 != 0:
		return fmt.Errorf("position_buckets is %d, want an even number, or none", c.Buckets)
	case p.most < least || p.most > 1<<20:
		return fmt.Errorf("max_relative_positions, or else max_position_embeddings, is %d, want %d to "+
			"%d, more than half of position_buckets", p.most, least, 1<<20)
	}
	d.relative = p
	d.scale = float32(1 / math.Sqrt(float64(d.width*(1+p.terms()))))
	return nil
}
