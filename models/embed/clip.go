package embed

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/tokenize"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// endings says how texts end whose vector is that of their last token.
type endings struct {
	kind  endKind
	token int32 // ends texts, or pads them
	most  int   // the number of tokens to which texts are padded
}

type endKind int

const (
	anyEnd     endKind = iota
	firstEnd           // the first token of this number is the last one
	largestEnd         // the first of the largest number is the last one, as in early CLIP folders
	filledUp           // texts are padded, and all tokens are visible
)

// cut returns the tokens up to the last one, and how many padding tokens follow.
func (e *endings) cut(text []int32) (kept []int32, fill int) {
	last := 0
	switch e.kind {
	case anyEnd:
		return text, 0
	case filledUp:
		return text, max(0, e.most-len(text))
	}
	for i, id := range text {
		if e.kind == firstEnd && id == e.token {
			return text[:i+1], 0
		}
		if e.kind == largestEnd && id > text[last] {
			last = i
		}
	}
	return text[:last+1], 0 // without an end the first token, as with torch.argmax
}

// lengthOf returns the most tokens of a text that are computed.
func (e *endings) lengthOf(text []int32) int { return max(len(text), e.most) }

// towerNames returns the tensor names of both towers of CLIP and SigLIP.
func towerNames(prefix string) names {
	return names{prefixes: []string{prefix}, final: "post_layernorm", layer: "encoder.layers.%d.",
		input:  []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
		output: "self_attn.out_proj", attentionNorm: "layer_norm1", up: []string{"mlp.fc1"},
		down: "mlp.fc2", ffnNorm: "layer_norm2", inputBias: true, outputBias: true, upBias: true,
		downBias: true, normBias: true, firstNorm: true, idle: []string{"embeddings.position_ids"}}
}

// towerConfig has the keys of text_config and of vision_config.
type towerConfig struct {
	Hidden     int     `json:"hidden_size"`
	FFN        int     `json:"intermediate_size"`
	Layers     int     `json:"num_hidden_layers"`
	Heads      int     `json:"num_attention_heads"`
	Activation string  `json:"hidden_act"`
	Epsilon    float32 `json:"layer_norm_eps"`
}

// textConfig is text_config.
type textConfig struct {
	towerConfig
	Vocab     int    `json:"vocab_size"`
	Positions int    `json:"max_position_embeddings"`
	End       *int32 `json:"eos_token_id"`    // of CLIP
	Width     *int   `json:"projection_size"` // of SigLIP
}

// pictureConfig is vision_config.
type pictureConfig struct {
	towerConfig
	visionConfig
	Head *bool `json:"vision_use_head"` // of SigLIP
}

// sectionIdle are keys of text_config and vision_config without effect: mostly settings of text
// generation, which early folders have there.
var sectionIdle = idleWith(strictjson.Idle{"begin_suppress_tokens": nil, "diversity_penalty": nil,
	"dropout": nil, "early_stopping": nil, "encoder_no_repeat_ngram_size": nil,
	"exponential_decay_length_penalty": nil, "forced_bos_token_id": nil, "forced_eos_token_id": nil,
	"initializer_factor": nil, "length_penalty": nil, "min_length": nil, "no_repeat_ngram_size": nil,
	"num_beam_groups": nil, "num_beams": nil, "num_return_sequences": nil, "output_scores": nil,
	"pad_token_id": nil, "projection_dim": nil, "remove_invalid_values": nil,
	"repetition_penalty": nil, "return_dict_in_generate": nil, "suppress_tokens": nil,
	"temperature": nil, "tf_legacy_loss": nil, "top_k": nil, "top_p": nil, "typical_p": nil})

// section reads text_config or vision_config. In a folder that also has text_config_dict only that
// counts, as in transformers, which takes even defaults from there.
func section[T any](l *weights.Loader, key string, usual T, list ...json.RawMessage) T {
	last := usual
	for i, data := range list {
		if len(data) == 0 || string(data) == "null" {
			continue
		}
		last = usual
		if err := strictjson.Unmarshal(data, &last, sectionIdle); err != nil {
			l.Check(configJSON, fmt.Errorf("%s: %w", key+[]string{"", "_dict"}[i], err))
		}
	}
	return last
}

// pairConfig is config.json of a model with two towers.
type pairConfig struct {
	Text       json.RawMessage `json:"text_config"`
	TextDict   json.RawMessage `json:"text_config_dict"`
	Vision     json.RawMessage `json:"vision_config"`
	VisionDict json.RawMessage `json:"vision_config_dict"`
	Width      int             `json:"projection_dim"` // of CLIP
}

var pairIdle = idleWith(strictjson.Idle{"logit_scale_init_value": nil, "initializer_factor": nil,
	"_commit_hash": nil, "pad_token_id": nil, "text_model_type": nil, "vision_model_type": nil})

// describe sets the sizes that both towers have.
func (c *towerConfig) describe(l *weights.Loader, d *description, key string) {
	d.layers, d.hidden, d.ffn, d.heads, d.epsilon = c.Layers, c.Hidden, c.FFN, c.Heads, c.Epsilon
	d.preNorm, d.pad, d.headPooling = true, -1, "cls"
	err := cmp.Or(d.setActivation("hidden_act", c.Activation), d.check(usualKeys))
	if err != nil && key != "" {
		err = fmt.Errorf("%s: %w", key, err)
	}
	l.Check(configJSON, err)
}

// openCLIP reads a CLIP.
func (m *Model) openCLIP(l *weights.Loader) {
	var c pairConfig
	c.Width = 512
	l.JSON(configJSON, &c, pairIdle)
	text := section(l, "text_config", textConfig{towerConfig{512, 2048, 12, 8, "quick_gelu", 1e-5},
		49408, 77, new(int32(49407)), nil}, c.Text, c.TextDict)
	picture := section(l, "vision_config", pictureConfig{towerConfig{768, 3072, 12, 12, "quick_gelu",
		1e-5}, visionConfig{oneOrTwo{224}, oneOrTwo{32}, 3}, nil}, c.Vision, c.VisionDict)
	l.Check(configJSON, weights.Sizes([]string{"projection_dim"}, c.Width))
	if text.Width != nil || picture.Head != nil {
		l.Check(configJSON,
			fmt.Errorf("text_config has projection_size or vision_config vision_use_head, "+
				"which are SigLIP's, want neither"))
	}
	m.describeText(l, &text)
	m.causal = true
	m.endTexts(l, text.End)
	d := m.describePictures(l, &picture, "CLIP")
	d.names.norm = "pre_layrnorm"
	if d.vision != nil {
		d.vision.tensors = visionTensors{class: "embeddings.class_embedding",
			patches: "embeddings.patch_embedding", positions: "embeddings.position_embedding.weight"}
	}
	m.project = func(b *builder) {
		m.steps = []step{b.projection("text_projection", m.hidden, c.Width, false)}
		m.images.steps = []step{b.projection("visual_projection", d.hidden, c.Width, false)}
		m.loadScale(b, false)
	}
}

// openSigLIP reads a SigLIP, or a SigLIP 2 for pictures of one size.
func (m *Model) openSigLIP(l *weights.Loader) {
	var c pairConfig
	l.JSON(configJSON, &c, pairIdle)
	text := section(l, "text_config", textConfig{towerConfig{768, 3072, 12, 12, "gelu_pytorch_tanh",
		1e-6}, 32000, 64, nil, nil}, c.Text, c.TextDict)
	picture := section(l, "vision_config", pictureConfig{towerConfig{768, 3072, 12, 12,
		"gelu_pytorch_tanh", 1e-6}, visionConfig{oneOrTwo{224}, oneOrTwo{16}, 3}, nil}, c.Vision,
		c.VisionDict)
	if !orElse(picture.Head, true) {
		l.Check(configJSON, fmt.Errorf("vision_config: vision_use_head is false, want true"))
	}
	width := orElse(text.Width, text.Hidden)
	if width != picture.Hidden {
		l.Check(configJSON, fmt.Errorf("vectors of texts have %d numbers and those of pictures %d by "+
			"hidden_size and projection_size, want as many", width, picture.Hidden))
	}
	m.describeText(l, &text)
	m.endings = endings{kind: filledUp, token: m.padding(l), most: text.Positions}
	d := m.describePictures(l, &picture, "Siglip")
	if d.vision != nil {
		d.vision.tensors = visionTensors{patches: "embeddings.patch_embedding", patchBias: true,
			positions: "embeddings.position_embedding.weight", head: "head."}
	}
	m.project = func(b *builder) {
		m.steps = []step{b.projection("text_model.head", m.hidden, width, true)}
		m.images.steps = nil
		m.loadScale(b, true)
	}
}

// describeText describes the text tower and reads its tokenizer.
func (m *Model) describeText(l *weights.Loader, c *textConfig) {
	m.description = &description{kind: m.family, names: towerNames("text_model."), vocab: c.Vocab,
		positions: c.Positions, longest: c.Positions}
	m.names.words, m.names.positions = "embeddings.token_embedding", "embeddings.position_embedding"
	m.names.final = "final_layer_norm"
	c.describe(l, m.description, "text_config")
	if l.Err == nil {
		m.texts = tokenize.ReadTexts(l, c.Vocab, m.sentence.longest, c.Positions)
	}
	m.modes, m.withPrompt = pooling{"lasttoken"}, true
}

// endTexts sets the token that ends texts of CLIP. Without it all texts would have the vector of
// their first token.
func (m *Model) endTexts(l *weights.Loader, end *int32) {
	if l.Err != nil {
		return
	}
	if end == nil {
		l.Check(configJSON, errors.New("text_config: eos_token_id is null, want a token"))
		return
	}
	if m.endings = (endings{kind: firstEnd, token: *end}); *end == 2 {
		m.endings.kind = largestEnd
	}
	after := m.texts.Around(nil)[m.texts.Before():]
	if m.endings.kind == firstEnd && !slices.Contains(after, *end) || len(after) == 0 {
		l.Check(configJSON, fmt.Errorf("text_config: eos_token_id is %d, want 2 or a token that "+
			"tokenizer.json puts after texts, of %d", *end, after))
	}
}

// padding returns the token that pads texts.
func (m *Model) padding(l *weights.Loader) int32 { return tokenize.ReadPad(l, m.texts) }

// describePictures describes the tower of pictures.
func (m *Model) describePictures(l *weights.Loader, c *pictureConfig, class string) *description {
	d := &description{kind: m.family, ofImages: true, names: towerNames("vision_model.")}
	d.names.words = "embeddings.patch_embedding"
	m.images = &Model{description: d, path: m.path,
		sentence: sentence{modes: pooling{"cls"}, withPrompt: true, similarity: m.similarity}}
	if p := readProcessor(l, class); l.Err == nil {
		d.vision = newVision(l, &c.visionConfig, p, noResampling)
	}
	c.describe(l, d, "vision_config")
	return d
}

// projection loads a linear layer after the pooling.
func (b *builder) projection(name string, in, out int, bias bool) step {
	kind := attn.F32
	if b.Integers {
		kind = attn.I8
	}
	return step{&dense{Linear: b.Linear(kind, in, bias, weights.Part{Name: name, Out: out})}}
}

// loadScale loads the scale and the bias of cosines.
func (m *Model) loadScale(b *builder, bias bool) {
	scale := b.Tensor("logit_scale", 1)
	if bias {
		m.scaling[1] = append(b.Tensor("logit_bias", 1), 0)[0]
	}
	if b.Err != nil {
		return
	}
	attn.Exp(m.scaling[:1], scale)
	for _, x := range m.scaling {
		if math.IsNaN(float64(x - x)) {
			b.Fail("%s: logit_scale and logit_bias give %v, want finite numbers", b.Path, m.scaling)
		}
	}
}

// Scale returns the numbers that turn cosines of an image with texts, such as names of classes,
// into probabilities: CLIP uses the softmax of scale·cos over the texts, SigLIP for each text the
// sigmoid of scale·cos + bias. Both are 0 for other models.
func (m *Model) Scale() (scale, bias float32) { return m.scaling[0], m.scaling[1] }
