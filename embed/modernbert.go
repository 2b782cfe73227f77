package embed

import (
	"fmt"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/embed/folder"
	"github.com/seed-1415985d/attn/nn"
	"github.com/seed-1415985d/attn/strictjson"
)

// modernNames are those of ModernBertModel.
var modernNames = names{
	prefixes: []string{"", "model."}, words: "embeddings.tok_embeddings", norm: "embeddings.norm",
	final: "final_norm", layer: "layers.%d.", input: []string{"attn.Wqkv"}, output: "attn.Wo",
	attentionNorm: "attn_norm", up: []string{"mlp.Wi"}, down: "mlp.Wo", ffnNorm: "mlp_norm",
	idle: []string{"head.*", "decoder.*", "classifier.*"},
	head: headNames{dense: "head.dense", norm: "head.norm", out: "classifier", activation: nn.GELU,
		noBias: true},
}

// modernIdle are keys for training, and for programs that do the same in several ways.
var modernIdle = strictjson.Idle{
	"attention_bias": {"false"}, "classifier_bias": {"false"}, "decoder_bias": nil,
	"deterministic_flash_attn": nil, "embedding_dropout": nil, "initializer_cutoff_factor": nil,
	"layer_norm_eps": nil, "mlp_bias": {"false"}, "mlp_dropout": nil, "norm_bias": {"false"},
	"pad_token_id": nil, "reference_compile": nil, "repad_logits_with_grad": nil,
	"sparse_pred_ignore_index": nil, "sparse_prediction": nil,
	"position_embedding_type": {`"absolute"`, `"sans_pos"`}, // and neither has any
}

// readModernBERT describes a ModernBERT: most layers see few keys on each side.
func readModernBERT(l *folder.Loader, kind string) *description {
	c := struct {
		Activation string   `json:"hidden_activation"`
		HeadOf     string   `json:"classifier_activation"`
		Hidden     int      `json:"hidden_size"`
		Layers     int      `json:"num_hidden_layers"`
		Heads      int      `json:"num_attention_heads"`
		FFN        int      `json:"intermediate_size"`
		Vocab      int      `json:"vocab_size"`
		Positions  int      `json:"max_position_embeddings"`
		Epsilon    float32  `json:"norm_eps"`
		Every      int      `json:"global_attn_every_n_layers"`
		Local      int      `json:"local_attention"`
		Base       float64  `json:"global_rope_theta"`
		LocalBase  *float64 `json:"local_rope_theta"`
		Pooling    string   `json:"classifier_pooling"`
	}{"gelu", "gelu", 768, 22, 12, 1152, 50368, 8192, 1e-5, 3, 128, 160000, new(float64), "cls"}
	*c.LocalBase = 10000
	l.JSON(configJSON, &c, idleWith(modernIdle))
	d := &description{kind: kind, pad: -1, preNorm: true, gated: true, names: modernNames,
		layers: c.Layers, hidden: c.Hidden, ffn: c.FFN, vocab: c.Vocab, heads: c.Heads,
		longest: c.Positions, epsilon: c.Epsilon, every: c.Every, headPooling: c.Pooling}
	l.Check(configJSON, d.activate("hidden_activation", c.Activation))
	l.Check(configJSON, d.check(sizeKeys{"hidden_size", "num_hidden_layers", "num_attention_heads",
		"intermediate_size", "vocab_size", "max_position_embeddings", "norm_eps"}))
	l.Check(configJSON, folder.Sizes([]string{"global_attn_every_n_layers", "local_attention"},
		c.Every, c.Local))
	if c.HeadOf != c.Activation {
		l.Check(configJSON, fmt.Errorf("classifier_activation is %q, want that of the layers, %q",
			c.HeadOf, c.Activation))
	}
	if c.Pooling != "cls" && c.Pooling != "mean" {
		l.Check(configJSON, fmt.Errorf("classifier_pooling is %q, want cls or mean", c.Pooling))
	}
	if c.LocalBase == nil {
		c.LocalBase = &c.Base
	}
	side := c.Local/2 + 1 // the query's own key among them
	d.local = attn.Window{Left: side, Right: side}
	d.rope = &nn.RopeConfig{Dim: d.width, Base: c.Base}
	d.localRope = &nn.RopeConfig{Dim: d.width, Base: *c.LocalBase}
	return d
}
