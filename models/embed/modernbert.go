package embed

import (
	"fmt"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// modernNames are the tensor names of ModernBertModel.
var modernNames = names{
	prefixes: []string{"", "model."}, words: "embeddings.tok_embeddings", norm: "embeddings.norm",
	final: "final_norm", layer: "layers.%d.", input: []string{"attn.Wqkv"}, output: "attn.Wo",
	attentionNorm: "attn_norm", up: []string{"mlp.Wi"}, down: "mlp.Wo", ffnNorm: "mlp_norm",
	idle: []string{"head.*", "decoder.*", "classifier.*"},
	head: modernHead, tokenHead: modernHead,
}

// modernHead is the head for texts and for tokens. classifier_activation names its activation.
var modernHead = headNames{dense: "head.dense", norm: "head.norm", out: "classifier",
	noBias: true}

// modernIdle are keys without effect: settings of training and of implementations.
var modernIdle = strictjson.Idle{
	"attention_bias": {"false"}, "classifier_bias": {"false"}, "decoder_bias": nil,
	"deterministic_flash_attn": nil, "embedding_dropout": nil, "initializer_cutoff_factor": nil,
	"layer_norm_eps": nil, "mlp_bias": {"false"}, "mlp_dropout": nil, "norm_bias": {"false"},
	"pad_token_id": nil, "reference_compile": nil, "repad_logits_with_grad": nil,
	"sparse_pred_ignore_index": nil, "sparse_prediction": nil,
	"position_embedding_type": {`"absolute"`, `"sans_pos"`}, // and neither has any
}

// readModernBERT describes a ModernBERT: most layers see few keys on each side.
func readModernBERT(l *weights.Loader, kind string) *description {
	c := struct {
		Activation string    `json:"hidden_activation"`
		HeadOf     string    `json:"classifier_activation"`
		Hidden     int       `json:"hidden_size"`
		Layers     int       `json:"num_hidden_layers"`
		Heads      int       `json:"num_attention_heads"`
		FFN        int       `json:"intermediate_size"`
		Vocab      int       `json:"vocab_size"`
		Positions  int       `json:"max_position_embeddings"`
		Epsilon    float32   `json:"norm_eps"`
		Every      int       `json:"global_attn_every_n_layers"`
		Local      int       `json:"local_attention"`
		Base       float64   `json:"global_rope_theta"`
		LocalBase  *float64  `json:"local_rope_theta"`
		Pooling    string    `json:"classifier_pooling"`
		Types      []string  `json:"layer_types"`
		Ropes      rotations `json:"rope_parameters"`
	}{"gelu", "gelu", 768, 22, 12, 1152, 50368, 8192, 1e-5, 3, 128, modernBase, new(float64), "cls",
		nil, rotations{}}
	*c.LocalBase = modernLocalBase
	l.JSON(configJSON, &c, idleWith(modernIdle))
	d := &description{kind: kind, pad: -1, preNorm: true, gated: true, names: modernNames,
		layers: c.Layers, hidden: c.Hidden, ffn: c.FFN, vocab: c.Vocab, heads: c.Heads,
		longest: c.Positions, epsilon: c.Epsilon, headPooling: c.Pooling}
	l.Check(configJSON, d.setActivation("hidden_activation", c.Activation))
	keys := usualKeys
	keys.epsilon = "norm_eps"
	l.Check(configJSON, d.check(keys))
	l.Check(configJSON, weights.Sizes([]string{"global_attn_every_n_layers", "local_attention"},
		c.Every, c.Local))
	ofHead, err := activationOf("classifier_activation", c.HeadOf)
	l.Check(configJSON, err)
	d.names.head.activation, d.names.tokenHead.activation = ofHead, ofHead
	if c.Pooling != "cls" && c.Pooling != "mean" {
		l.Check(configJSON, fmt.Errorf("classifier_pooling is %q, want cls or mean", c.Pooling))
	}
	if c.LocalBase == nil {
		c.LocalBase = &c.Base
	}
	side := c.Local/2 + 1 // includes the query's own key
	d.local = attn.Window{Left: side, Right: side}
	base, err := c.Ropes.Full.base("full_attention", c.Base, modernBase)
	l.Check(configJSON, err)
	local, err := c.Ropes.Sliding.base("sliding_attention", *c.LocalBase, modernLocalBase)
	l.Check(configJSON, err)
	d.rope = &nn.RopeConfig{Dim: d.width, Base: base}
	d.localRope = &nn.RopeConfig{Dim: d.width, Base: local}
	if l.Err == nil {
		d.locals, err = localLayers(c.Layers, c.Every, c.Types)
		l.Check(configJSON, err)
	}
	return d
}

// The usual bases of rotations.
const modernBase, modernLocalBase = 160000, 10000

// localLayers reports which layers are local: by layer_types, or without it all but each every-th,
// counted from layer 0.
func localLayers(layers, every int, types []string) ([]bool, error) {
	if types != nil && len(types) != layers {
		return nil, fmt.Errorf("layer_types has %d layers, want num_hidden_layers, %d", len(types),
			layers)
	}
	local := make([]bool, layers)
	for i := range local {
		local[i] = i%every != 0
		if types == nil {
			continue
		}
		if types[i] != "full_attention" && types[i] != "sliding_attention" {
			return nil, fmt.Errorf("layer_types[%d] is %q, want full_attention or sliding_attention", i,
				types[i])
		}
		local[i] = types[i] == "sliding_attention"
	}
	return local, nil
}

// rotations has rope_parameters, a key of newer files, for global and local layers.
type rotations struct {
	Full    rotation `json:"full_attention"`
	Sliding rotation `json:"sliding_attention"`
}

// rotation is an entry of rope_parameters.
type rotation struct {
	Type string   `json:"rope_type"`
	Base *float64 `json:"rope_theta"`
}

// base returns the base of the rotation: by rope_parameters or, if that has none, by the older key.
// Both may be set if they agree or the older key has its usual value.
func (r *rotation) base(of string, older, usual float64) (float64, error) {
	switch {
	case r.Type != "" && r.Type != "default":
		return 0, fmt.Errorf("rope_parameters: rope_type of %s is %q, want default", of, r.Type)
	case r.Base == nil:
		return older, nil
	case older != usual && older != *r.Base:
		return 0, fmt.Errorf("rope_parameters: rope_theta of %s is %v, and an older key says %v, want "+
			"the same", of, *r.Base, older)
	}
	return *r.Base, nil
}
