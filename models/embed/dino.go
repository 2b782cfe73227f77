package embed

import (
	"fmt"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// backboneIdle are keys without effect on a picture's vector: settings of training, and outputs for
// other models that are built on it.
var backboneIdle = strictjson.Idle{"apply_layernorm": nil, "drop_path_rate": nil,
	"encoder_stride": nil, "layerscale_value": nil, "out_features": nil, "out_indices": nil,
	"pooler_act": nil, "pooler_output_size": nil, "reshape_hidden_states": nil, "stage_names": nil,
	"use_mask_token": nil, "pad_token_id": nil}

// openDINO reads a DINOv2, or one with registers.
func (m *Model) openDINO(l *weights.Loader) {
	c := struct {
		visionConfig
		Hidden     int     `json:"hidden_size"`
		Layers     int     `json:"num_hidden_layers"`
		Heads      int     `json:"num_attention_heads"`
		Ratio      float64 `json:"mlp_ratio"`
		Activation string  `json:"hidden_act"`
		Epsilon    float32 `json:"layer_norm_eps"`
		Bias       bool    `json:"qkv_bias"`
		SwiGLU     bool    `json:"use_swiglu_ffn"`
		Registers  *int    `json:"num_register_tokens"`
	}{visionConfig{oneOrTwo{224}, oneOrTwo{14}, 3}, 768, 12, 12, 4, "gelu", 1e-6, true, false, nil}
	l.JSON(configJSON, &c, idleWith(backboneIdle))
	if !(c.Ratio > 0 && c.Ratio < 1<<10) {
		l.Check(configJSON, fmt.Errorf("mlp_ratio is %v, want more than 0, and less than 1024", c.Ratio))
		return
	}
	ffn, resampled := int(float64(c.Hidden)*c.Ratio), cubicResampling
	if c.SwiGLU {
		ffn = (int(float64(ffn)*2/3) + 7) / 8 * 8
	}
	tensors := vitTensors
	if m.family == "dinov2_with_registers" {
		resampled, tensors.registers = smoothed, "embeddings.register_tokens"
	} else if c.Registers != nil {
		l.Check(configJSON, fmt.Errorf("num_register_tokens is %d, want it in a dinov2_with_registers",
			*c.Registers))
	}
	m.openTower(l, towerConfig{c.Hidden, ffn, c.Layers, c.Heads, c.Activation, c.Epsilon},
		&c.visionConfig, resampled, "Bit", []string{"", m.family + "."})
	m.names.attentionNorm, m.names.ffnNorm = "norm1", "norm2"
	m.names.up, m.names.down = []string{"mlp.fc1"}, "mlp.fc2"
	m.names.outputScale, m.names.downScale = "layer_scale1.lambda1", "layer_scale2.lambda1"
	m.names.inputBias = c.Bias
	if c.SwiGLU {
		m.names.up, m.names.down = []string{"mlp.weights_in"}, "mlp.weights_out"
		m.gated, m.activation = true, nn.SiLU
	}
	m.names.idle = []string{"embeddings.mask_token"}
	if v := m.description.vision; v != nil {
		v.tensors, v.registers = tensors, orElse(c.Registers, 4)
		if tensors.registers != "" {
			l.Check(configJSON, weights.Sizes([]string{"num_register_tokens"}, v.registers))
		}
		if v.image.h != v.image.w {
			l.Check(configJSON, fmt.Errorf("image_size is %d × %d, want a square", v.image.h, v.image.w))
		}
	}
}

// vitTensors are the tensors before the layers of ViT and DINOv2.
var vitTensors = visionTensors{class: "embeddings.cls_token",
	patches: "embeddings.patch_embeddings.projection", patchBias: true,
	positions: "embeddings.position_embeddings"}

// openViT reads a ViT.
func (m *Model) openViT(l *weights.Loader) {
	c := struct {
		towerConfig
		visionConfig
		Bias bool `json:"qkv_bias"`
	}{towerConfig{768, 3072, 12, 12, "gelu", 1e-12}, visionConfig{oneOrTwo{224}, oneOrTwo{16}, 3},
		true}
	l.JSON(configJSON, &c, idleWith(backboneIdle))
	m.openTower(l, c.towerConfig, &c.visionConfig, noResampling, "ViT", []string{"", "vit."})
	m.names.attentionNorm, m.names.ffnNorm = "layernorm_before", "layernorm_after"
	m.names.up, m.names.down = []string{"intermediate.dense"}, "output.dense"
	m.names.inputBias = c.Bias
	m.names.idle = []string{"pooler.dense.*", "embeddings.mask_token"}
	if v := m.description.vision; v != nil {
		v.tensors = vitTensors
	}
	m.project = func(b *builder) { m.loadImageHead(b) }
}

// openTower describes a model of pictures only.
func (m *Model) openTower(l *weights.Loader, c towerConfig, v *visionConfig, r gridResampling,
	class string, prefixes []string) {
	d := &description{kind: m.family, ofImages: true, names: names{prefixes: prefixes,
		words: vitTensors.patches,
		final: "layernorm", layer: "encoder.layer.%d.",
		input: []string{"attention.attention.query", "attention.attention.key",
			"attention.attention.value"}, output: "attention.output.dense", inputBias: true,
		outputBias: true, upBias: true, downBias: true, normBias: true, firstNorm: true}}
	m.description, m.images = d, m
	m.modes, m.withPrompt = pooling{"cls"}, true
	if p := readProcessor(l, class); l.Err == nil {
		d.vision = newVision(l, v, p, r)
	}
	c.describe(l, d, "")
}

// imageClasses is the suffix of classes that classify pictures.
const imageClasses = "ForImageClassification"

// loadImageHead loads the head of a ViT that classifies pictures.
func (m *Model) loadImageHead(b *builder) {
	var f labelsFile
	b.JSON(configJSON, &f, strictjson.AnyKey)
	if b.Err != nil || !f.is(imageClasses) {
		return
	}
	m.head = m.readHead(b, &f, labelHead)
}
