package embed

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nlpodyssey/safetensors"
)

// TestRefusedConfigs changes a key of the config of each kind.
func TestRefusedConfigs(t *testing.T) {
	changes := map[string][][3]any{
		"bert": {{"layer_norm_eps", -1.0, "layer_norm_eps is -1"},
			{"num_attention_heads", 7, "hidden_size is 30, want a multiple of num_attention_heads, 7"},
			{"type_vocab_size", -1, "type_vocab_size is -1"},
			{"relative_attention_num_buckets", 32, `key "relative_attention_num_buckets" is 32`},
			{"vocab_size", 1, "vocab_size is 1, and by max_position_embeddings texts have at most 20"}},
		"xlm-roberta": {{"lora_adaptations", []string{"retrieval.query"}, `key "lora_adaptations" is`},
			{"position_embedding_type", "rotary", `position_embedding_type is "rotary"`}},
		"roberta":    {{"pad_token_id", 25, "pad_token_id is 25, want 0 to 24"}},
		"distilbert": {{"activation", "x", `activation is "x"`}, {"dim", 0, "dim is 0"}},
		"mpnet": {{"relative_attention_num_buckets", 6, "buckets is 6, want a multiple of 4"},
			{"hidden_act", 3, "cannot unmarshal"}},
		"t5": {{"feed_forward_proj", "gated-x", `feed_forward_proj is "x", want gelu`},
			{"feed_forward_proj", "x-gelu", `feed_forward_proj is "x-gelu"`},
			{"dense_act_fn", "gelu", `dense_act_fn is "gelu", want "relu"`},
			{"is_gated_act", true, "is_gated_act is true, want false"}, {"d_kv", 0, "d_kv is 0"},
			{"relative_attention_num_buckets", 30, "relative_attention_num_buckets is 30, want a mult"},
			{"relative_attention_max_distance", 64, "relative_attention_max_distance is 64, want 128"},
			{"is_decoder", true, "is_decoder is true"}, {"num_layers", 0, "num_layers is 0"},
			{"layer_norm_epsilon", 1, "layer_norm_epsilon is 1"}},
		"deberta-v2": {{"conv_kernel_size", 4, "conv_kernel_size is 4, want 0 or an odd number"},
			{"conv_groups", 2, "conv_groups is 2, want 1"},
			{"relative_attention", nil, "relative_attention is false, want true"},
			{"pos_att_type", "p2p|c2p", `pos_att_type is ["p2p" "c2p"], want c2p, p2c`},
			{"pos_att_type", 7, "cannot unmarshal"},
			{"norm_rel_ebd", "batch_norm", `norm_rel_ebd is "batch_norm", want layer_norm or none`},
			{"position_buckets", 7, "position_buckets is 7, want an even number"},
			{"position_buckets", 22, "is 12, want 13 to 1048576, more than half of position_buckets"},
			{"max_relative_positions", 1 << 21, "is 2097152, want 6 to 1048576"},
			{"pooler_hidden_act", "x", `pooler_hidden_act is "x", want gelu`},
			{"pooler_hidden_size", 7, "pooler_hidden_size is 7, want hidden_size, 30"},
			{"attention_head_size", 0, "attention_head_size is 0"},
			{"embedding_size", -1, "embedding_size is -1"},
			{"relative_attention_num_buckets", 32, `key "relative_attention_num_buckets" is 32`},
			{"type_vocab_size", -1, "type_vocab_size is -1"}},
		"modernbert": {{"classifier_pooling", "max", `classifier_pooling is "max", want cls or mean`},
			{"classifier_activation", "x", `classifier_activation is "x", want gelu`},
			{"local_attention", 0, "local_attention is 0"}, {"norm_bias", true, "norm_bias is true"},
			{"global_rope_theta", 0.5, "rotation of positions"},
			{"layer_types", []string{"full_attention"}, "layer_types has 1 layers"},
			{"layer_types", []string{"full_attention", "x", "x", "x"}, `layer_types[1] is "x"`},
			{"rope_parameters", map[string]any{"full_attention": map[string]any{"rope_type": "yarn"}},
				`rope_type of full_attention is "yarn"`},
			{"rope_parameters", map[string]any{"sliding_attention": map[string]any{"factor": 2}},
				"rope_parameters.sliding_attention.factor"}},
		"nomic_bert": {{"activation_function", "relu", `activation_function is "relu", want swiglu`},
			{"rotary_emb_fraction", 0.0, "rotary_emb_fraction is 0"}, {"prenorm", true, "prenorm is true"},
			{"rotary_scaling_factor", 2.0, "rotary_scaling_factor is 2"}},
		"new": {{"rope_scaling", map[string]any{"type": "linear", "factor": 2.0}, `type "linear"`},
			{"rope_scaling", map[string]any{"type": "ntk", "factor": 0.5}, "factor 0.5"},
			{"pack_qkv", false, "pack_qkv is false"}},
		jinaGGUF: {{"feed_forward_type", "original", `feed_forward_type is "original", want geglu or`},
			{"auto_map", map[string]any{"AutoModel": "jinaai/jina-bert-v2-qk-post-norm--m.JinaBertModel"},
				"auto_map names code with qk-post-norm"},
			{"hidden_act", "relu", `hidden_act is "relu", want "gelu"`}},
		"nomic_bert with experts": {{"moe_top_k", 6, "num_experts is 5 and moe_top_k 6, want 1 to"},
			{"moe_every_n_layers", 1, "moe_every_n_layers is 1, want 0 or at least 2"},
			{"activation_function", "swiglu", "moe_every_n_layers is 2, want 0 for the activation_fun"},
			{"moe_normalize_expert_weights", true, "moe_normalize_expert_weights is true"},
			{"num_shared_experts", 1, "num_shared_experts is 1"}},
		"gemma3_text": {{"use_bidirectional_attention", false, "is false or not there, want true"},
			{"query_pre_attn_scalar", 0, "query_pre_attn_scalar is 0"},
			{"sliding_window", 0, "sliding_window is 0"}, {"num_key_value_heads", 3, "want a divisor"},
			{"attn_logit_softcapping", 50, "attn_logit_softcapping"},
			{"rope_scaling", map[string]any{"type": "x"}, "rope_scaling"},
			{"layer_types", []string{"full_attention"}, "layer_types has 1 layers"}},
		"qwen3": {{"num_key_value_heads", 3, "num_key_value_heads is 3, want a divisor"},
			{"head_dim", -8, "head_dim is -8"}, {"use_sliding_window", true, "use_sliding_window is true"},
			{"hidden_act", "gelu_x", `hidden_act is "gelu_x"`},
			{"layer_types", []string{"full_attention", "sliding_attention"}, "want full_attention for all"},
			{"rope_parameters", map[string]any{"rope_theta": 7.0}, "an older key says"}},
	}
	for _, k := range kindTests() {
		for _, c := range changes[k.kind] {
			k := k
			k.config = maps.Clone(k.config)
			k.config[c[0].(string)] = c[1]
			path, _ := writeKind(t, &k, safetensors.F32)
			if err := openError(path); err == nil || !strings.Contains(err.Error(), "config.json") &&
				!strings.Contains(err.Error(), "rotation") || !strings.Contains(err.Error(), c[2].(string)) {
				t.Errorf("%s with %v: %v, want it to say %v", k.kind, c[:2], err, c[2])
			}
		}
		k.config = maps.Clone(k.config)
		k.config["unheard_of"] = 7
		path, _ := writeKind(t, &k, safetensors.F32)
		if err := openError(path); err == nil || !strings.Contains(err.Error(), `"unheard_of" is 7`) {
			t.Errorf("%s with an unknown key: %v", k.kind, err)
		}
		delete(k.config, "unheard_of")
		k.shapes = maps.Clone(k.shapes)
		k.shapes["encoder.layer.9.extra.weight"] = []int{3}
		path, _ = writeKind(t, &k, safetensors.F32)
		if err := openError(path); err == nil ||
			!strings.Contains(err.Error(), "tensor encoder.layer.9.extra.weight") {
			t.Errorf("%s with an unknown tensor: %v", k.kind, err)
		}
	}
}

// TestGates has the gates of nomic_bert, and a base for all layers of modernbert.
func TestGates(t *testing.T) {
	for _, k := range kindTests() {
		k.config = maps.Clone(k.config)
		switch k.kind {
		case "nomic_bert":
			k.config["activation_function"] = "geglu"
		case "modernbert":
			k.config["local_rope_theta"] = nil
		default:
			continue
		}
		path, _ := writeKind(t, &k, safetensors.F16)
		mustEncode(t, mustOpen(t, path, Options{Integers: true}), "cat")
	}
}

// TestModelWithoutType reads a config without model_type as BERT's, unless it names another class.
func TestModelWithoutType(t *testing.T) {
	for _, k := range kindTests() {
		if k.kind != "bert" {
			continue
		}
		for architecture, want := range map[string]string{"": "", "BertModel": "",
			"RobertaModel": `architectures is ["RobertaModel"] and model_type is not there`} {
			path, _ := writeKind(t, &k, safetensors.F32)
			file := filepath.Join(path, configJSON)
			text, err := os.ReadFile(file)
			var config map[string]any
			if err = errors.Join(err, json.Unmarshal(text, &config)); err != nil {
				t.Fatal(err)
			}
			delete(config, "model_type")
			if delete(config, "architectures"); architecture != "" {
				config["architectures"] = []string{architecture}
			}
			if text, err = json.Marshal(config); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := openError(path); (err == nil) != (want == "") ||
				err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("architecture %q: %v, want %q", architecture, err, want)
			}
		}
	}
}
