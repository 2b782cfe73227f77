package main

import (
	"fmt"
	"image"
	"math/rand/v2"
	"strings"
)

// Images are read by the tower of a CLIP or a SigLIP, whose tower of texts is small.

const (
	towerImages  = "vision_model."
	towerTexts   = "text_model."
	towerPatches = towerImages + "embeddings.patch_embedding"
	towerPlaces  = towerImages + "embeddings.position_embedding.weight"
	towerClass   = towerImages + "embeddings.class_embedding"
	towerFirst   = towerImages + "pre_layrnorm" // so spelled in CLIP
	towerLast    = towerImages + "post_layernorm"
	towerHead    = towerImages + "head."
	towerLayer   = "encoder.layers.%d."
	projection   = "visual_projection"
)

// textTower is the size of the tower of texts.
const textTower, textPositions = 8, 8

// layerName returns the name of a tensor of a layer.
func layerName(name string, layer int) string {
	return strings.ReplaceAll(name, "%d", fmt.Sprint(layer))
}

// patches returns the number of patches of an image.
func (s *encoder) patches() int { return (s.image / s.patch) * (s.image / s.patch) }

// rows returns the number of rows of an image.
func (s *encoder) rows() int {
	if s.sigmoid {
		return s.patches()
	}
	return s.patches() + 1
}

// vector returns the size of a CLIP's embedding.
func (s *encoder) vector() int { return s.Hidden * 2 / 3 }

// tower adds the tensors of the layers of a tower.
func (t tensors) tower(at string, layers, d, f int) {
	for i := range layers {
		in := func(name string) string { return at + layerName(towerLayer+name, i) }
		t.linear(d, d, in("self_attn.q_proj"), in("self_attn.k_proj"), in("self_attn.v_proj"),
			in("self_attn.out_proj"))
		t.linear(d, f, in("mlp.fc1"))
		t.linear(f, d, in("mlp.fc2"))
		t.norm(d, in("layer_norm1"), in("layer_norm2"))
	}
}

// imageTensors adds the tensors of both towers.
func (s *encoder) imageTensors(t tensors) {
	d := s.Hidden
	t.tower(towerImages, s.Layers, d, s.FFN)
	t.tower(towerTexts, 1, textTower, textTower)
	t[towerTexts+"embeddings.token_embedding.weight"] = []int{s.Vocab, textTower}
	t[towerTexts+"embeddings.position_embedding.weight"] = []int{textPositions, textTower}
	t.norm(textTower, towerTexts+"final_layer_norm")
	t[towerPatches+".weight"], t["logit_scale"] = []int{d, 3, s.patch, s.patch}, []int{1}
	t[towerPlaces] = []int{s.rows(), d}
	t.norm(d, towerLast)
	if !s.sigmoid {
		t[towerClass] = []int{d}
		t.norm(d, towerFirst)
		t[projection+".weight"] = []int{s.vector(), d}
		t["text_projection.weight"] = []int{s.vector(), textTower}
		return
	}
	t[towerPatches+".bias"], t["logit_bias"] = []int{d}, []int{1}
	t.linear(textTower, d, towerTexts+"head")
	t[towerHead+"probe"] = []int{1, 1, d}
	t[towerHead+"attention.in_proj_weight"] = []int{3 * d, d}
	t[towerHead+"attention.in_proj_bias"] = []int{3 * d}
	t.linear(d, d, towerHead+"attention.out_proj")
	t.norm(d, towerHead+"layernorm")
	t.linear(d, s.FFN, towerHead+"mlp.fc1")
	t.linear(s.FFN, d, towerHead+"mlp.fc2")
}

// imageConfig returns config.json.
func (s *encoder) imageConfig() map[string]any {
	tower := func(layers, d, f, heads int) map[string]any {
		act := map[bool]string{false: "quick_gelu", true: "gelu_pytorch_tanh"}[s.sigmoid]
		return map[string]any{"hidden_size": d, "num_hidden_layers": layers, "intermediate_size": f,
			"num_attention_heads": heads, "layer_norm_eps": epsilon, "hidden_act": act}
	}
	text, vision := tower(1, textTower, textTower, 1), tower(s.Layers, s.Hidden, s.FFN, s.Heads)
	text["vocab_size"], text["max_position_embeddings"] = s.Vocab, textPositions
	vision["image_size"], vision["patch_size"] = s.image, s.patch
	config := map[string]any{"model_type": "clip", "text_config": text, "vision_config": vision}
	if s.sigmoid {
		config["model_type"], text["projection_size"] = "siglip", s.Hidden
	} else {
		config["projection_dim"], text["eos_token_id"] = s.vector(), endToken
	}
	return config
}

// processor returns preprocessor_config.json: numbers of -1 to 1 for each byte.
func (s *encoder) processor() map[string]any {
	class := map[bool]string{false: "CLIPImageProcessor", true: "SiglipImageProcessor"}[s.sigmoid]
	size, half := map[string]int{"height": s.image, "width": s.image}, []float64{0.5, 0.5, 0.5}
	p := map[string]any{"image_processor_type": class, "size": size, "image_mean": half,
		"image_std": half}
	if !s.sigmoid {
		p["crop_size"] = size
	}
	return p
}

// picture returns the image of a case.
func (s *encoder) picture() *image.NRGBA {
	picture := image.NewNRGBA(image.Rect(0, 0, s.image, s.image))
	source := rand.New(rand.NewPCG(5, 6))
	for i := range picture.Pix {
		picture.Pix[i] = byte(source.Uint32())
	}
	return picture
}
