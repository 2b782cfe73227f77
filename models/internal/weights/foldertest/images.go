package foldertest

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/nlpodyssey/safetensors"
)

// Sizes of small models: rows, their heads, the inner rows of layers, the vocabulary, patches.
const Wide, Heads, Inner, Words, Side = 30, 3, 22, 12, 4

// Layered are tensors with a number of layers, whose names have %d.
func Layered(layers int, outside map[string][]int, inside map[string][]int) map[string][]int {
	all := maps.Clone(outside)
	for i := range layers {
		for name, shape := range inside {
			all[strings.ReplaceAll(name, "%d", fmt.Sprint(i))] = shape
		}
	}
	return all
}

// Linears adds matrices with a bias.
func Linears(shapes map[string][]int, in, out int, names ...string) {
	for _, name := range names {
		shapes[name+".weight"] = []int{out, in}
		shapes[name+".bias"] = []int{out}
	}
}

// Norms adds norms with a bias.
func Norms(shapes map[string][]int, names ...string) {
	for _, name := range names {
		shapes[name+".weight"], shapes[name+".bias"] = []int{Wide}, []int{Wide}
	}
}

// Images is a small model of images of 12 × 12 pixels.
type Images struct {
	Kind              string // model_type
	Config, Processor map[string]any
	Shapes            map[string][]int
	Tokenizer         string // "" for a model of images alone
}

// TowerShapes are tensors of both towers of CLIP and SigLIP.
func TowerShapes(prefix string) map[string][]int {
	in := map[string][]int{}
	at := prefix + "encoder.layers.%d."
	Linears(in, Wide, Wide, at+"self_attn.q_proj", at+"self_attn.k_proj", at+"self_attn.v_proj",
		at+"self_attn.out_proj")
	Linears(in, Wide, Inner, at+"mlp.fc1")
	Linears(in, Inner, Wide, at+"mlp.fc2")
	Norms(in, at+"layer_norm1", at+"layer_norm2")
	return Layered(2, map[string][]int{}, in)
}

// CLIP is a CLIP whose vocabulary has "cat" and "un".
func CLIP(activation string) Images {
	const width = 14
	shapes := TowerShapes("text_model.")
	maps.Copy(shapes, TowerShapes("vision_model."))
	Norms(shapes, "text_model.final_layer_norm", "vision_model.pre_layrnorm",
		"vision_model.post_layernorm")
	maps.Copy(shapes, map[string][]int{"text_model.embeddings.token_embedding.weight": {Words, Wide},
		"text_model.embeddings.position_embedding.weight":   {9, Wide},
		"vision_model.embeddings.class_embedding":           {Wide},
		"vision_model.embeddings.patch_embedding.weight":    {Wide, 3, Side, Side},
		"vision_model.embeddings.position_embedding.weight": {10, Wide},
		"text_projection.weight":                            {width, Wide},
		"visual_projection.weight":                          {width, Wide}, "logit_scale": {1}})
	section := map[string]any{"hidden_size": Wide, "intermediate_size": Inner, "num_hidden_layers": 2,
		"num_attention_heads": Heads, "hidden_act": activation, "layer_norm_eps": 1e-5}
	text := map[string]any{"vocab_size": Words, "max_position_embeddings": 9, "eos_token_id": 1,
		"num_beams": 1, "projection_dim": width}
	vision := map[string]any{"image_size": 12, "patch_size": Side, "num_channels": 3}
	maps.Copy(text, section)
	maps.Copy(vision, section)
	return Images{Kind: "clip", Shapes: shapes, Tokenizer: CLIPTokenizer,
		Config: map[string]any{"projection_dim": width, "text_config": text, "vision_config": vision,
			"logit_scale_init_value": 2.6592},
		Processor: map[string]any{"image_processor_type": "CLIPImageProcessorFast",
			"size": map[string]any{"shortest_edge": 12}, "crop_size": 12, "do_convert_rgb": true}}
}

// ViTShapes are tensors of ViT and DINOv2.
func ViTShapes(prefix string, positions int) map[string][]int {
	shapes := map[string][]int{prefix + "embeddings.cls_token": {1, 1, Wide},
		prefix + "embeddings.position_embeddings":                {1, positions, Wide},
		prefix + "embeddings.patch_embeddings.projection.weight": {Wide, 3, Side, Side},
		prefix + "embeddings.patch_embeddings.projection.bias":   {Wide}}
	Norms(shapes, prefix+"layernorm")
	in, at := map[string][]int{}, prefix+"encoder.layer.%d."
	for _, name := range []string{"query", "key", "value"} {
		Linears(in, Wide, Wide, at+"attention.attention."+name)
	}
	Linears(in, Wide, Wide, at+"attention.output.dense")
	return Layered(2, shapes, in)
}

// ViT is a ViT with labels cat, dog and bicycle.
func ViT() Images {
	const prefix = "vit."
	shapes := ViTShapes(prefix, 10)
	in, at := map[string][]int{}, prefix+"encoder.layer.%d."
	Linears(in, Wide, Inner, at+"intermediate.dense")
	Linears(in, Inner, Wide, at+"output.dense")
	Norms(in, at+"layernorm_before", at+"layernorm_after")
	maps.Copy(shapes, Layered(2, map[string][]int{}, in))
	Linears(shapes, Wide, 3, "classifier")
	return Images{Kind: "vit", Shapes: shapes,
		Config: map[string]any{"hidden_size": Wide, "intermediate_size": Inner, "num_hidden_layers": 2,
			"num_attention_heads": Heads, "image_size": 12, "patch_size": Side, "encoder_stride": 16,
			"architectures": []string{"ViTForImageClassification"},
			"id2label":      map[string]any{"0": "cat", "1": "dog", "2": "bicycle"}},
		Processor: map[string]any{"feature_extractor_type": "ViTFeatureExtractor", "size": 12}}
}

// Write writes the model to a folder.
func (m *Images) Write(t *testing.T, folder string) Weights {
	t.Helper()
	views, values := Tensors(t, safetensors.F32, m.Shapes)
	config := maps.Clone(m.Config)
	config["model_type"] = m.Kind
	Write(t, folder, "config.json", Encode(t, config))
	WriteTensors(t, folder, views)
	Write(t, folder, "preprocessor_config.json", Encode(t, m.Processor))
	if m.Tokenizer != "" {
		Write(t, folder, "tokenizer.json", []byte(m.Tokenizer))
		Write(t, folder, "tokenizer_config.json", []byte(`{"pad_token": "<pad>"}`))
	}
	return values
}

// WriteLabelled writes a BERT of a class with labels to a folder.
func WriteLabelled(t *testing.T, class string, labels ...string) (folder string) {
	t.Helper()
	folder, _ = WriteBERT(t, safetensors.F32)
	shapes, config, names := TinyShapes(), maps.Clone(Tiny), map[string]string{}
	Linears(shapes, Wide, len(labels), "classifier")
	if class == "BertForSequenceClassification" {
		Linears(shapes, Wide, Wide, "pooler.dense")
	}
	views, _ := Tensors(t, safetensors.F32, shapes)
	WriteTensors(t, folder, views)
	for i, label := range labels {
		names[fmt.Sprint(i)] = label
	}
	config["architectures"], config["id2label"] = []string{class}, names
	Write(t, folder, "config.json", Encode(t, config))
	return folder
}

// CLIPTokenizer is a tokenizer.json as CLIP has it.
const CLIPTokenizer = `{"added_tokens": [{"id": 0, "content": "<|startoftext|>", "special": true},
	{"id": 1, "content": "<|endoftext|>", "special": true},
	{"id": 11, "content": "<pad>", "special": true}],
	"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace",
		"pattern": {"Regex": "\\s+"}, "content": " "}, {"type": "Lowercase"}]},
	"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex":
		"'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+"}, "behavior": "Removed",
		"invert": true}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true}]},
	"post_processor": {"type": "RobertaProcessing", "sep": ["<|endoftext|>", 1],
		"cls": ["<|startoftext|>", 0], "trim_offsets": false, "add_prefix_space": false},
	"model": {"type": "BPE", "dropout": null, "unk_token": "<|endoftext|>",
		"continuing_subword_prefix": "", "end_of_word_suffix": "</w>", "fuse_unk": false,
		"vocab": {"<|startoftext|>": 0, "<|endoftext|>": 1, "c": 2, "a": 3, "t</w>": 4, "ca": 5,
		"cat</w>": 6, "u": 7, "n</w>": 8, "un</w>": 9, ",</w>": 10},
		"merges": ["c a", "ca t</w>", "u n</w>"]}}`
