package embed

import (
	"fmt"
	"strings"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// t5Names are the tensor names of T5EncoderModel. A whole T5 has a decoder too.
var t5Names = names{
	prefixes: []string{""}, words: "shared", sameWords: "encoder.embed_tokens",
	final:     "encoder.final_layer_norm",
	distances: "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
	layer:     "encoder.block.%d.layer.",
	input:     []string{"0.SelfAttention.q", "0.SelfAttention.k", "0.SelfAttention.v"},
	output:    "0.SelfAttention.o", attentionNorm: "0.layer_norm",
	up: []string{"1.DenseReluDense.wi"}, down: "1.DenseReluDense.wo", ffnNorm: "1.layer_norm",
	firstNorm: true,
	idle:      []string{"decoder.*", "lm_head.*"},
}

// t5GatedUp are the names of the network's first layers if it has a gate.
var t5GatedUp = []string{"1.DenseReluDense.wi_0", "1.DenseReluDense.wi_1"}

// t5Idle are keys without effect: settings of the decoder and of training.
var t5Idle = strictjson.Idle{
	"dropout_rate": nil, "initializer_factor": nil, "is_encoder_decoder": nil, "n_positions": nil,
	"num_decoder_layers": nil, "pad_token_id": nil,
	"relative_attention_max_distance": {fmt.Sprint(farthest)}, "scale_decoder_outputs": nil,
}

// unlimited is the maximum of tokens of models without positions, which only other files limit.
const unlimited = 1 << 24

// readT5 describes the encoder of a T5: a bias by distance in place of positions, and scores that
// are not scaled.
func readT5(l *weights.Loader, kind string) *description {
	c := struct {
		Hidden     int     `json:"d_model"`
		Layers     int     `json:"num_layers"`
		Heads      int     `json:"num_heads"`
		Width      int     `json:"d_kv"`
		FFN        int     `json:"d_ff"`
		Vocab      int     `json:"vocab_size"`
		Buckets    int     `json:"relative_attention_num_buckets"`
		Epsilon    float32 `json:"layer_norm_epsilon"`
		Network    string  `json:"feed_forward_proj"`
		Activation *string `json:"dense_act_fn"`
		Gated      *bool   `json:"is_gated_act"`
	}{512, 6, 8, 64, 2048, 32128, 32, 1e-6, "relu", nil, nil}
	l.JSON(configJSON, &c, idleWith(t5Idle))
	d := &description{kind: kind, pad: -1, rms: true, preNorm: true, names: t5Names, scale: 1,
		layers: c.Layers, hidden: c.Hidden, ffn: c.FFN, vocab: c.Vocab, heads: c.Heads, width: c.Width,
		longest: unlimited, epsilon: c.Epsilon, buckets: c.Buckets}
	l.Check(configJSON, checkBuckets(c.Buckets))
	l.Check(configJSON, d.setT5Network(c.Network, c.Activation, c.Gated))
	l.Check(configJSON, weights.Sizes([]string{"d_kv"}, c.Width))
	l.Check(configJSON, d.check(sizeKeys{hidden: "d_model", layers: "num_layers", heads: "num_heads",
		ffn: "d_ff", vocab: "vocab_size", positions: "max_seq_length", epsilon: "layer_norm_epsilon",
		width: "d_kv"}))
	return d
}

// setT5Network sets activation and gate by feed_forward_proj: an activation, or gated- and an
// activation, of which gated-gelu is the approximation by tanh. Two newer keys repeat it.
func (d *description) setT5Network(network string, activation *string, isGated *bool) error {
	name, gated := strings.CutPrefix(network, "gated-")
	if gated {
		d.gated, d.names.up = true, t5GatedUp
		if name == "gelu" {
			name = "gelu_new"
		}
	}
	if err := d.setActivation("feed_forward_proj", name); err != nil {
		return err
	}
	if activation != nil && *activation != name {
		return fmt.Errorf("dense_act_fn is %q, want %q as feed_forward_proj, %q, has it", *activation,
			name, network)
	}
	if isGated != nil && *isGated != gated {
		return fmt.Errorf("is_gated_act is %v, want %v as feed_forward_proj, %q, has it", *isGated,
			gated, network)
	}
	return nil
}
