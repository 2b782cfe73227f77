package embed

import (
	"fmt"
	"slices"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// qwen3Names are the tensor names of Qwen3Model.
var qwen3Names = names{
	prefixes: []string{"", "model."}, words: "embed_tokens", final: "norm", layer: "layers.%d.",
	input:  []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
	output: "self_attn.o_proj", attentionNorm: "input_layernorm",
	up: []string{"mlp.gate_proj", "mlp.up_proj"}, down: "mlp.down_proj",
	ffnNorm: "post_attention_layernorm", queryNorm: "self_attn.q_norm", keyNorm: "self_attn.k_norm",
	firstNorm: true,
}

// qwen3Base is the default base of Qwen3's rotation.
const qwen3Base = 10000

// readQwen3 describes Qwen3-Embedding and Qwen3-Reranker, which are decoders.
func readQwen3(l *weights.Loader, kind string) *description {
	c := struct {
		Activation string   `json:"hidden_act"`
		Hidden     int      `json:"hidden_size"`
		Layers     int      `json:"num_hidden_layers"`
		Heads      int      `json:"num_attention_heads"`
		KeyHeads   int      `json:"num_key_value_heads"`
		Width      int      `json:"head_dim"`
		FFN        int      `json:"intermediate_size"`
		Vocab      int      `json:"vocab_size"`
		Positions  int      `json:"max_position_embeddings"`
		Epsilon    float32  `json:"rms_norm_eps"`
		Base       float64  `json:"rope_theta"`
		Types      []string `json:"layer_types"`
		Rope       rotation `json:"rope_parameters"`
	}{Activation: "silu", KeyHeads: 32, Width: 128, Positions: 32768, Epsilon: 1e-6, Base: qwen3Base}
	l.JSON(configJSON, &c, idleWith(strictjson.Idle{"attention_bias": {"false"},
		"max_window_layers": nil, "pad_token_id": nil, "rope_scaling": {"null"},
		"sliding_window": nil, "use_sliding_window": {"false"}}))
	d := &description{kind: kind, pad: -1, rms: true, preNorm: true, causal: true, gated: true,
		stored: true, answers: true, names: qwen3Names, layers: c.Layers, hidden: c.Hidden, ffn: c.FFN,
		vocab: c.Vocab, heads: c.Heads, keyHeads: c.KeyHeads, width: c.Width, longest: c.Positions,
		epsilon: c.Epsilon}
	keys := usualKeys
	keys.epsilon = "rms_norm_eps"
	l.Check(configJSON, d.setActivation("hidden_act", c.Activation))
	l.Check(configJSON, d.check(keys))
	base, err := c.Rope.base("all layers", c.Base, qwen3Base)
	l.Check(configJSON, err)
	d.rope = &nn.RopeConfig{Dim: d.width, Base: base}
	if c.Types != nil && l.Err == nil {
		local, err := localLayers(c.Layers, 1, c.Types)
		if err == nil && slices.Contains(local, true) {
			err = fmt.Errorf("layer_types is %q, want full_attention for all", c.Types)
		}
		l.Check(configJSON, err)
	}
	return d
}
