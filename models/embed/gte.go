package embed

import (
	"fmt"
	"math"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// gteNames are the tensor names of NewModel, the class of GTE 1.5 and mGTE.
var gteNames = names{
	prefixes: []string{"", "new."}, words: "embeddings.word_embeddings",
	segments: "embeddings.token_type_embeddings", norm: "embeddings.LayerNorm",
	layer: "encoder.layer.%d.", input: []string{"attention.qkv_proj"}, output: "attention.o_proj",
	attentionNorm: "attn_ln", up: []string{"mlp.up_gate_proj"}, down: "mlp.down_proj",
	ffnNorm: "mlp_ln", inputBias: true, outputBias: true, downBias: true, normBias: true,
	firstNorm: true,
	idle:      []string{"embeddings.position_ids", "pooler.dense.*", "lm_head.*", "classifier.*"},
	head:      bertHead,
}

// gteIdle are keys without effect: settings of training and of implementations.
var gteIdle = strictjson.Idle{
	"auto_map": nil, "layer_norm_type": {`"layer_norm"`}, "logn_attention_clip1": nil,
	"logn_attention_scale": {"false"}, "pack_qkv": {"true"}, "pad_token_id": nil,
	"position_embedding_type": {`"rope"`}, "unpad_inputs": nil,
	"use_memory_efficient_attention": nil,
}

// readGTE describes a BERT with rotated positions and a gate, with other scaling and names than
// Nomic.
func readGTE(l *weights.Loader, kind string) *description {
	c := struct {
		bertConfig
		Base    float64 `json:"rope_theta"`
		Scaling *struct {
			Type   string  `json:"type"`
			Factor float64 `json:"factor"`
		} `json:"rope_scaling"`
	}{bertConfig{Activation: "gelu", Positions: 2048, Types: 1, Epsilon: 1e-12}, 10000, nil}
	l.JSON(configJSON, &c, idleWith(gteIdle))
	d := &description{kind: kind, pad: -1, gated: true, gateLast: true, names: gteNames,
		headPooling: "cls"}
	d.setSizes(&c.bertConfig)
	d.positions = 0 // they are rotated and have no table
	l.Check(configJSON, d.setActivation("hidden_act", c.Activation))
	l.Check(configJSON, d.check(usualKeys))
	if l.Err != nil {
		return d
	}
	d.rope = &nn.RopeConfig{Dim: d.width, Base: c.Base}
	if s := c.Scaling; s != nil {
		pairs := d.width / 2
		if s.Type != "ntk" || !(s.Factor >= 1 && s.Factor <= 1e6) || pairs&(pairs-1) != 0 {
			l.Check(configJSON, fmt.Errorf("rope_scaling is of type %q with factor %v for %d pairs, want "+
				"ntk, a factor of 1 or more, and a power of two of pairs", s.Type, s.Factor, pairs))
		}
		// As Su (kexue.fm/archives/9706) has it: the base times the factor, and frequencies divided by
		// its root that makes the slowest one as slow as the factor wants it. Square roots are exact.
		factor := s.Factor
		for ; pairs > 1; pairs /= 2 {
			factor = math.Sqrt(factor)
		}
		d.rope.Base *= s.Factor
		d.rope.Scaling = nn.RopeScaling{Type: nn.LinearScaling, Factor: factor}
	}
	return d
}
