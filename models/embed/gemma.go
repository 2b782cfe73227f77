package embed

import (
	"errors"
	"fmt"
	"math"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// gemmaNames are the tensor names of Gemma3TextModel.
var gemmaNames = names{
	prefixes: []string{"", "model."}, words: "embed_tokens", final: "norm", layer: "layers.%d.",
	input:  []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
	output: "self_attn.o_proj", attentionNorm: "input_layernorm",
	outputNorm: "post_attention_layernorm", up: []string{"mlp.gate_proj", "mlp.up_proj"},
	down: "mlp.down_proj", ffnNorm: "pre_feedforward_layernorm",
	downNorm: "post_feedforward_layernorm", queryNorm: "self_attn.q_norm",
	keyNorm: "self_attn.k_norm", firstNorm: true,
}

// The usual bases of rotations, and layers from one that sees all keys to the next.
const gemmaBase, gemmaLocalBase, gemmaPattern = 1000000, 10000, 6

// readGemma describes EmbeddingGemma: a Gemma 3 whose tokens see the ones after them, too.
func readGemma(l *weights.Loader, kind string) *description {
	c := struct {
		Activation string    `json:"hidden_activation"`
		Hidden     int       `json:"hidden_size"`
		Layers     int       `json:"num_hidden_layers"`
		Heads      int       `json:"num_attention_heads"`
		KeyHeads   int       `json:"num_key_value_heads"`
		Width      int       `json:"head_dim"`
		FFN        int       `json:"intermediate_size"`
		Vocab      int       `json:"vocab_size"`
		Positions  int       `json:"max_position_embeddings"`
		Epsilon    float32   `json:"rms_norm_eps"`
		Scalar     float64   `json:"query_pre_attn_scalar"`
		Window     int       `json:"sliding_window"`
		Pattern    int       `json:"sliding_window_pattern"`
		Types      []string  `json:"layer_types"`
		Base       float64   `json:"rope_theta"`
		LocalBase  float64   `json:"rope_local_base_freq"`
		Ropes      rotations `json:"rope_parameters"`
		BothSides  bool      `json:"use_bidirectional_attention"`
	}{"gelu_pytorch_tanh", 2304, 26, 8, 4, 256, 9216, 262208, 131072, 1e-6, 256, 4096, gemmaPattern,
		nil, gemmaBase, gemmaLocalBase, rotations{}, false}
	l.JSON(configJSON, &c, idleWith(strictjson.Idle{"attention_bias": {"false"},
		"attn_logit_softcapping": {"null"}, "final_logit_softcapping": nil, "pad_token_id": nil,
		"rope_scaling": {"null"}, "cache_implementation": nil, "_sliding_window_pattern": nil}))
	d := &description{kind: kind, layers: c.Layers, hidden: c.Hidden, ffn: c.FFN, vocab: c.Vocab,
		heads: c.Heads, keyHeads: c.KeyHeads, width: c.Width, longest: c.Positions, epsilon: c.Epsilon}
	l.Check(configJSON, d.setActivation("hidden_activation", c.Activation))
	keys := usualKeys
	keys.epsilon = "rms_norm_eps"
	l.Check(configJSON, d.check(keys))
	l.Check(configJSON, weights.Sizes([]string{"sliding_window", "sliding_window_pattern"}, c.Window,
		c.Pattern))
	if !c.BothSides {
		l.Check(configJSON, errors.New("use_bidirectional_attention is false or not there, want true: "+
			"only EmbeddingGemma is read, and package lm reads language models"))
	}
	if !(c.Scalar > 0 && c.Scalar < 1<<24) {
		l.Check(configJSON, fmt.Errorf("query_pre_attn_scalar is %v, want more than 0", c.Scalar))
	}
	if !l.Exists("modules.json") {
		l.Check("modules.json", errors.New("it is not there, want it: EmbeddingGemma's vectors need its "+
			"Dense modules"))
	}
	if l.Err != nil {
		return d
	}
	base, err := c.Ropes.Full.base("full_attention", c.Base, gemmaBase)
	l.Check(configJSON, err)
	local, err := c.Ropes.Sliding.base("sliding_attention", c.LocalBase, gemmaLocalBase)
	l.Check(configJSON, err)
	d.setGemma(c.Window, base, local)
	d.scale, d.names, d.lessOne, d.stored = float32(1/math.Sqrt(c.Scalar)), gemmaNames, true, true
	d.locals = gemmaLocals(c.Layers, c.Pattern)
	if c.Types != nil {
		d.locals, err = localLayers(c.Layers, 1, c.Types)
		l.Check(configJSON, err)
	}
	return d
}

// setGemma sets what all EmbeddingGemmas have. A window of n tokens is as many on each side as n/2.
func (d *description) setGemma(window int, base, local float64) {
	d.pad, d.rms, d.preNorm, d.gated = -1, true, true, true
	d.wordScale = float32(math.Sqrt(float64(d.hidden)))
	side := window/2 + 1 // includes the query's own key
	d.local = attn.Window{Left: side, Right: side}
	d.rope = &nn.RopeConfig{Dim: d.width, Base: base}
	d.localRope = &nn.RopeConfig{Dim: d.width, Base: local}
}

// gemmaLocals reports which layers are local: all but every pattern-th.
func gemmaLocals(layers, pattern int) []bool {
	local := make([]bool, layers)
	for i := range local {
		local[i] = (i+1)%pattern != 0
	}
	return local
}
