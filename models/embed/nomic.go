package embed

import (
	"fmt"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// nomicNames are the tensor names of NomicBertModel as its authors published it.
var nomicNames = names{
	prefixes: []string{""}, words: "embeddings.word_embeddings",
	segments: "embeddings.token_type_embeddings", norm: "emb_ln", layer: "encoder.layers.%d.",
	input: []string{"attn.Wqkv"}, output: "attn.out_proj", attentionNorm: "norm1",
	up: []string{"mlp.fc12", "mlp.fc11"}, down: "mlp.fc2", ffnNorm: "norm2", normBias: true,
	firstNorm: true,
	idle:      []string{"pooler.dense.*", "cls.*"},
	experts: expertNames{router: "mlp.router.layer", up: "mlp.experts.mlp.w1",
		down: "mlp.experts.mlp.w2", bias: "mlp.experts.bias"},
}

// nomicIdle are keys without effect: settings of training, of heads and of implementations.
var nomicIdle = strictjson.Idle{
	"attn_pdrop": nil, "auto_map": nil, "causal": {"false"}, "dense_seq_output": nil,
	"embd_pdrop": nil, "fused_bias_fc": nil, "fused_dropout_add_ln": nil,
	"last_layer_subset": {"false"}, "add_pooling_layer": nil, "expert_choice_router": {"false"},
	"ffn_div": {"1"}, "moe_impl": nil, "moe_normalize_expert_weights": {"false"},
	"moe_resid_pdrop": nil, "num_shared_experts": {"0"}, "router_aux_loss_coef": nil,
	"pad_token_id": nil, "pad_vocab_size_multiple": nil, "parallel_block": {"false"},
	"parallel_block_tied_norm": nil, "prenorm": {"false"},
	"reorder_and_upcast_attn": nil, "resid_pdrop": nil, "rotary_emb_interleaved": {"false"},
	"rotary_emb_scale_base": {"null"}, "rotary_scaling_factor": {"null"},
	"scale_attn_by_inverse_layer_idx": {"false"}, "scale_attn_weights": {"true"},
	"summary_activation": nil, "summary_first_dropout": nil, "summary_proj_to_labels": nil,
	"summary_type": nil, "summary_use_proj": nil, "use_flash_attn": nil,
	"use_rms_norm": {"false", "null"}, "use_xentropy": nil, "max_trained_positions": nil,
}

// readNomic describes a BERT with rotated positions, and a gate or experts.
func readNomic(l *weights.Loader, kind string) *description {
	c := struct {
		Activation string  `json:"activation_function"`
		Hidden     int     `json:"n_embd"`
		Layers     int     `json:"n_layer"`
		Heads      int     `json:"n_head"`
		FFN        int     `json:"n_inner"`
		Vocab      int     `json:"vocab_size"`
		Positions  int     `json:"n_positions"`
		Types      int     `json:"type_vocab_size"`
		Epsilon    float32 `json:"layer_norm_epsilon"`
		Base       float64 `json:"rotary_emb_base"`
		Fraction   float64 `json:"rotary_emb_fraction"`
		InputBias  bool    `json:"qkv_proj_bias"`
		UpBias     bool    `json:"mlp_fc1_bias"`
		DownBias   bool    `json:"mlp_fc2_bias"`
		Every      int     `json:"moe_every_n_layers"`
		Experts    int     `json:"num_experts"`
		Top        int     `json:"moe_top_k"`
	}{Activation: "swiglu", Positions: 2048, Types: 2, Epsilon: 1e-12, Base: 10000, Fraction: 1}
	l.JSON(configJSON, &c, idleWith(nomicIdle))
	d := &description{kind: kind, pad: -1, gated: true, names: nomicNames, layers: c.Layers,
		hidden: c.Hidden, ffn: c.FFN, vocab: c.Vocab, heads: c.Heads, longest: c.Positions,
		segments: c.Types, epsilon: c.Epsilon, headPooling: "cls"}
	n := &d.names
	n.inputBias, n.outputBias, n.upBias, n.downBias = c.InputBias, c.InputBias, c.UpBias, c.DownBias
	d.mixture = mixture{c.Every, c.Experts, c.Top}
	l.Check(configJSON, d.mixture.check("moe_every_n_layers", "num_experts",
		"moe_top_k"))
	gates := map[string]nn.Activation{"swiglu": nn.SiLU, "geglu": nn.GELU, "glu": nn.Sigmoid}
	var ok bool
	switch d.activation, ok = gates[c.Activation]; {
	case c.Activation == "gelu":
		d.gated, d.activation, n.up = false, nn.GELU, []string{"mlp.fc1"}
	case !ok:
		l.Check(configJSON, fmt.Errorf("activation_function is %q, want swiglu, geglu, glu or gelu",
			c.Activation))
	case c.Every != 0:
		l.Check(configJSON, fmt.Errorf("moe_every_n_layers is %d, want 0 for the activation_function %s",
			c.Every, c.Activation))
	}
	l.Check(configJSON, d.check(sizeKeys{hidden: "n_embd", layers: "n_layer", heads: "n_head",
		ffn: "n_inner", vocab: "vocab_size", positions: "n_positions", epsilon: "layer_norm_epsilon"}))
	dim := int(c.Fraction * float64(d.width))
	if !(c.Fraction > 0 && c.Fraction <= 1) || dim < 2 {
		l.Check(configJSON, fmt.Errorf("rotary_emb_fraction is %v, want more than 0, which is a BERT, "+
			"and at most 1", c.Fraction))
		return d
	}
	d.rope = &nn.RopeConfig{Dim: dim, Base: c.Base}
	return d
}
