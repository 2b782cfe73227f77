package lm

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/models/internal/weights/foldertest"
)

// TestUnknownKeys adds a key to each object of each file that is read.
func TestUnknownKeys(t *testing.T) {
	f := newFake("F32")
	f.shards = 2
	f.config["rope_scaling"] = map[string]any{"type": "linear", "factor": 2}
	path := f.write(t)
	write("generation_config.json", `{"eos_token_id": [18, 19], "temperature": 0.6}`)(t, path)
	for file, objects := range map[string]int{"config.json": 2, "generation_config.json": 1,
		"model.safetensors.index.json": 1} {
		n := foldertest.UnknownKeys(t, filepath.Join(path, file), func(at string) bool {
			return at == "weight_map"
		}, func() error {
			_, _, err := (&options{model: path}).open()
			return err
		})
		if n != objects {
			t.Errorf("%s: %d objects were changed, want %d", file, n, objects)
		}
	}
}

// configs are the keys of published models' folders, except sizes, which are the fake's.
var configs = map[string]string{
	"Llama 2": `{"_name_or_path": "x", "architectures": ["LlamaForCausalLM"], "bos_token_id": 1,
		"eos_token_id": 2, "hidden_act": "silu", "initializer_range": 0.02, "max_length": 4096,
		"max_position_embeddings": 2048, "model_type": "llama", "pad_token_id": 0, "pretraining_tp": 1,
		"rope_scaling": null, "tie_word_embeddings": false, "torch_dtype": "float16",
		"transformers_version": "4.31.0.dev0", "use_cache": true}`,
	"Llama 3.2": `{"architectures": ["LlamaForCausalLM"], "attention_bias": false,
		"attention_dropout": 0.0, "bos_token_id": 18, "eos_token_id": [17, 18, 19],
		"hidden_act": "silu", "initializer_range": 0.02, "max_position_embeddings": 131072,
		"mlp_bias": false, "model_type": "llama", "pretraining_tp": 1, "rope_scaling": {"factor": 32.0,
		"high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
		"rope_type": "llama3"}, "rope_theta": 500000.0, "tie_word_embeddings": true,
		"torch_dtype": "bfloat16", "transformers_version": "4.45.0.dev0", "use_cache": true}`,
	"SmolLM2": `{"architectures": ["LlamaForCausalLM"], "attention_bias": false,
		"attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
		"initializer_range": 0.041666666666666664, "is_llama_config": true,
		"max_position_embeddings": 8192, "mlp_bias": false, "model_type": "llama", "pad_token_id": 2,
		"pretraining_tp": 1, "rope_interleaved": false, "rope_scaling": null, "rope_theta": 100000,
		"tie_word_embeddings": true, "torch_dtype": "bfloat16",
		"transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}},
		"transformers_version": "4.42.3", "use_cache": true}`,
	"Falcon 3": `{"activation": "swiglu", "architectures": ["LlamaForCausalLM"],
		"attention_bias": false, "attention_dropout": 0.0, "eos_token_id": 11, "head_dim": 8,
		"hidden_act": "silu", "initializer_range": 0.02, "max_position_embeddings": 8192,
		"mlp_bias": false, "model_type": "llama", "pretraining_tp": 1, "rope_scaling": null,
		"rope_theta": 1000042, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
		"transformers_version": "4.46.1", "use_cache": true}`,
	"Mistral 0.3": `{"architectures": ["MistralForCausalLM"], "attention_dropout": 0.0,
		"bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "initializer_range": 0.02,
		"max_position_embeddings": 32768, "model_type": "mistral", "rope_theta": 1000000.0,
		"sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
		"transformers_version": "4.42.0.dev0", "use_cache": true}`,
	"Qwen 2.5": `{"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
		"bos_token_id": 17, "eos_token_id": 19, "hidden_act": "silu", "initializer_range": 0.02,
		"max_position_embeddings": 32768, "max_window_layers": 21, "model_type": "qwen2",
		"rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true,
		"torch_dtype": "bfloat16", "transformers_version": "4.43.1", "use_cache": true,
		"use_mrope": false, "use_sliding_window": false}`,
	"Qwen 3": `{"architectures": ["Qwen3ForCausalLM"], "attention_bias": false,
		"attention_dropout": 0.0, "bos_token_id": 17, "eos_token_id": 19, "head_dim": 8,
		"hidden_act": "silu", "initializer_range": 0.02, "max_position_embeddings": 40960,
		"max_window_layers": 28, "model_type": "qwen3", "rope_scaling": null, "rope_theta": 1000000,
		"sliding_window": null, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
		"transformers_version": "4.51.0", "use_cache": true, "use_sliding_window": false}`,
	"newer": `{"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
		"bos_token_id": null, "dtype": "bfloat16", "eos_token_id": null, "hidden_act": "silu",
		"initializer_range": 0.02, "layer_types": ["full_attention", "full_attention"],
		"max_position_embeddings": 32768, "max_window_layers": 28, "model_type": "qwen2",
		"pad_token_id": null, "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
		"sliding_window": null, "tie_word_embeddings": true, "transformers_version": "5.0.0",
		"use_cache": true, "use_sliding_window": false}`,
}

// TestPublishedConfigs reads files of real folders.
func TestPublishedConfigs(t *testing.T) {
	generation := `{"_from_model_config": true, "bos_token_id": 17, "pad_token_id": 18,
		"do_sample": true, "eos_token_id": [18, 19], "repetition_penalty": 1.1, "temperature": 0.7,
		"top_p": 0.8, "top_k": 20, "max_length": 4096, "transformers_version": "4.37.0"}`
	for name, text := range configs {
		f := newFake("F32")
		for _, key := range []string{"rope_theta", "eos_token_id", "torch_dtype",
			"max_position_embeddings"} {
			delete(f.config, key)
		}
		must(t, json.Unmarshal([]byte(text), &f.config))
		if f.config["model_type"] == "qwen2" {
			addBiases(f, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
		} else if f.config["model_type"] == "qwen3" {
			for _, at := range []string{"model.layers.0.", "model.layers.1."} {
				f.add(at+"self_attn.q_norm.weight", 8)
				f.add(at+"self_attn.k_norm.weight", 8)
			}
		}
		path := f.write(t)
		write("generation_config.json", generation)(t, path)
		if m, _, err := (&options{model: path}).open(); err != nil ||
			!slices.Equal(m.Stop, []int{18, 19}) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// otherConfigs are whole files of kinds whose tensors have other names and shapes.
var otherConfigs = map[string]string{
	"Command R7B": `{"architectures": ["Cohere2ForCausalLM"], "attention_bias": false,
		"attention_dropout": 0.0, "bos_token_id": 5, "cache_implementation": "hybrid",
		"eos_token_id": 255001, "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096,
		"initializer_range": 0.02, "intermediate_size": 14336, "layer_norm_eps": 1e-05,
		"layer_switch": 4, "logit_scale": 0.25, "max_position_embeddings": 8192,
		"model_type": "cohere2", "num_attention_heads": 32, "num_hidden_layers": 32,
		"num_key_value_heads": 8, "order_of_interleaved_layers": "local_attn_first",
		"pad_token_id": 0, "position_embedding_type": "rope_gptj", "rope_scaling": null,
		"rope_theta": 50000, "rotary_pct": 1.0, "sliding_window": 4096, "sliding_window_pattern": 4,
		"torch_dtype": "bfloat16", "transformers_version": "4.48.0.dev0", "use_cache": true,
		"use_embedding_sharing": true, "use_gated_activation": true, "use_parallel_block": true,
		"use_parallel_embedding": false, "use_qk_norm": false, "vocab_size": 256000}`,
	"StarCoder 2": `{"activation_function": "gelu", "architectures": ["Starcoder2ForCausalLM"],
		"attention_dropout": 0.1, "attention_softmax_in_fp32": true, "bos_token_id": 0,
		"embedding_dropout": 0.1, "eos_token_id": 0, "hidden_act": "gelu_pytorch_tanh",
		"hidden_size": 3072, "initializer_range": 0.018042, "intermediate_size": 12288,
		"layer_norm_epsilon": 1e-05, "max_position_embeddings": 16384, "mlp_type": "default",
		"model_type": "starcoder2", "norm_epsilon": 1e-05, "norm_type": "layer_norm",
		"num_attention_heads": 24, "num_hidden_layers": 30, "num_key_value_heads": 2,
		"residual_dropout": 0.1, "rope_theta": 999999.4420358813,
		"scale_attention_softmax_in_fp32": true, "scale_attn_weights": true, "sliding_window": 4096,
		"torch_dtype": "bfloat16", "transformers_version": "4.39.0.dev0", "use_bias": true,
		"use_cache": true, "vocab_size": 49152}`,
	"Arcee AFM": `{"architectures": ["ArceeForCausalLM"], "attention_bias": false,
		"attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": 128001, "head_dim": 128,
		"hidden_act": "relu2", "hidden_size": 2560, "initializer_range": 0.02,
		"intermediate_size": 18432, "max_position_embeddings": 65536, "mlp_bias": false,
		"model_type": "arcee", "num_attention_heads": 20, "num_hidden_layers": 36,
		"num_key_value_heads": 4, "rms_norm_eps": 1e-05, "rope_scaling": {"beta_fast": 32.0,
		"beta_slow": 1.0, "factor": 20.0, "mscale": 1.0, "original_max_position_embeddings": 4096,
		"rope_type": "yarn", "type": "yarn"}, "rope_theta": 10000.0, "tie_word_embeddings": false,
		"torch_dtype": "bfloat16", "transformers_version": "4.53.2", "use_cache": true,
		"vocab_size": 128005}`,
	"Olmo 2": `{"architectures": ["Olmo2ForCausalLM"], "attention_bias": false,
		"attention_dropout": 0.0, "eos_token_id": 100257, "hidden_act": "silu", "hidden_size": 2048,
		"initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 4096,
		"model_type": "olmo2", "num_attention_heads": 16, "num_hidden_layers": 16,
		"num_key_value_heads": 16, "pad_token_id": 100277, "rms_norm_eps": 1e-06,
		"rope_scaling": null, "rope_theta": 500000, "tie_word_embeddings": false,
		"torch_dtype": "bfloat16", "transformers_version": "4.47.0", "use_cache": false,
		"vocab_size": 100352}`,
	"Olmo 3": `{"architectures": ["Olmo3ForCausalLM"], "attention_bias": false,
		"attention_dropout": 0.0, "dtype": "bfloat16", "eos_token_id": 100257, "hidden_act": "silu",
		"hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008,
		"layer_types": ["sliding_attention", "sliding_attention", "sliding_attention",
		"full_attention"], "max_position_embeddings": 65536, "model_type": "olmo3",
		"num_attention_heads": 32, "num_hidden_layers": 4, "num_key_value_heads": 32,
		"pad_token_id": 100277, "rms_norm_eps": 1e-06, "rope_scaling": {"attention_factor":
		1.2079441541679836, "beta_fast": 32.0, "beta_slow": 1.0, "factor": 8.0,
		"original_max_position_embeddings": 8192, "rope_type": "yarn"}, "rope_theta": 500000,
		"sliding_window": 4096, "tie_word_embeddings": false, "transformers_version": "4.57.0",
		"use_cache": false, "vocab_size": 100278}`,
	"SmolLM3": `{"architectures": ["SmolLM3ForCausalLM"], "attention_bias": false,
		"attention_dropout": 0.0, "eos_token_id": 128012, "hidden_act": "silu", "hidden_size": 2048,
		"initializer_range": 0.02, "intermediate_size": 11008, "layer_types": ["full_attention",
		"full_attention", "full_attention", "full_attention"], "max_position_embeddings": 65536,
		"max_window_layers": 28, "mlp_bias": false, "model_type": "smollm3",
		"no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0], "num_attention_heads": 16,
		"num_hidden_layers": 4, "num_key_value_heads": 4, "pad_token_id": 128004,
		"pretraining_tp": 2, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 5000000.0,
		"sliding_window": null, "torch_dtype": "bfloat16", "transformers_version": "4.54.0.dev0",
		"use_cache": false, "use_sliding_window": false, "vocab_size": 128256}`,
	"Seed OSS": `{"architectures": ["SeedOssForCausalLM"], "attention_bias": true,
		"attention_dropout": 0.1, "attention_out_bias": false, "bos_token_id": 0, "eos_token_id": 2,
		"head_dim": 128, "hidden_act": "silu", "hidden_size": 5120, "initializer_range": 0.02,
		"intermediate_size": 27648, "max_position_embeddings": 524288, "mlp_bias": false,
		"model_type": "seed_oss", "num_attention_heads": 80, "num_hidden_layers": 64,
		"num_key_value_heads": 8, "pad_token_id": 1, "residual_dropout": 0.1, "rms_norm_eps": 1e-06,
		"rope_scaling": {"rope_type": "default"}, "rope_theta": 10000000.0,
		"tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.55.0",
		"use_cache": true, "vocab_size": 155136}`,
	"Mixtral": `{"architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0,
		"bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096,
		"initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 32768,
		"model_type": "mixtral", "num_attention_heads": 32, "num_experts_per_tok": 2,
		"num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8,
		"output_router_logits": false, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
		"router_aux_loss_coef": 0.02, "sliding_window": null, "tie_word_embeddings": false,
		"torch_dtype": "bfloat16", "transformers_version": "4.36.0.dev0", "use_cache": true,
		"vocab_size": 32000}`,
	"ERNIE 4.5": `{"architectures": ["Ernie4_5ForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
		"head_dim": 128, "hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02,
		"intermediate_size": 3072, "max_position_embeddings": 131072, "model_type": "ernie4_5",
		"num_attention_heads": 16, "num_hidden_layers": 18, "num_key_value_heads": 2,
		"pad_token_id": 0, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 500000.0,
		"tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.54.0",
		"use_bias": false, "use_cache": true, "vocab_size": 103424}`,
	"GLM-4-0414": `{"architectures": ["Glm4ForCausalLM"], "attention_bias": false,
		"attention_dropout": 0.0, "eos_token_id": [151329, 151336, 151338], "head_dim": 128,
		"hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
		"intermediate_size": 13696, "max_position_embeddings": 32768, "model_type": "glm4",
		"num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 2,
		"pad_token_id": 151329, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-05,
		"rope_theta": 10000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
		"transformers_version": "4.52.0.dev0", "use_cache": true, "vocab_size": 151552}`,
	"GLM-4.5-Air": `{"architectures": ["Glm4MoeForCausalLM"], "attention_bias": true,
		"attention_dropout": 0.0, "eos_token_id": [151329, 151336, 151338], "first_k_dense_replace": 1,
		"head_dim": 128, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
		"intermediate_size": 10944, "max_position_embeddings": 131072, "model_type": "glm4_moe",
		"moe_intermediate_size": 1408, "n_group": 1, "n_routed_experts": 128, "n_shared_experts": 1,
		"norm_topk_prob": true, "num_attention_heads": 96, "num_experts_per_tok": 8,
		"num_hidden_layers": 46, "num_key_value_heads": 8, "num_nextn_predict_layers": 1,
		"pad_token_id": 151329, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-05,
		"rope_scaling": null, "rope_theta": 1000000, "routed_scaling_factor": 1.0,
		"tie_word_embeddings": false, "topk_group": 1, "torch_dtype": "bfloat16",
		"transformers_version": "4.54.0", "use_cache": true, "use_qk_norm": false,
		"vocab_size": 151552}`,
	"Ministral 3": `{"architectures": ["Mistral3ForConditionalGeneration"], "dtype": "bfloat16",
		"image_token_index": 10, "model_type": "mistral3", "multimodal_projector_bias": false,
		"projector_hidden_act": "gelu", "spatial_merge_size": 2, "text_config": {
		"attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu", "hidden_size": 3072,
		"initializer_range": 0.02, "intermediate_size": 9216, "max_position_embeddings": 262144,
		"model_type": "ministral3", "num_attention_heads": 32, "num_hidden_layers": 26,
		"num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_parameters": {"beta_fast": 32.0,
		"beta_slow": 1.0, "factor": 16.0, "llama_4_scaling_beta": 0.1, "mscale": 1.0,
		"mscale_all_dim": 1.0, "original_max_position_embeddings": 16384, "rope_theta": 1000000.0,
		"rope_type": "yarn", "type": "yarn"}, "sliding_window": null, "tie_word_embeddings": true,
		"use_cache": true, "vocab_size": 131072}, "transformers_version": "5.0.0.dev0",
		"vision_config": {"hidden_size": 1024}, "vision_feature_layer": -1}`,
	"LFM2": `{"architectures": ["Lfm2ForCausalLM"], "block_auto_adjust_ff_dim": true,
		"block_dim": 2048, "block_ff_dim": 12288, "block_ffn_dim_multiplier": 1.0,
		"block_mlp_init_scale": 1.0, "block_multiple_of": 256, "block_norm_eps": 1e-05,
		"block_out_init_scale": 1.0, "block_use_swiglu": true, "block_use_xavier_init": true,
		"bos_token_id": 1, "conv_L_cache": 3, "conv_bias": false, "conv_dim": 2048,
		"conv_dim_out": 2048, "conv_use_xavier_init": true, "eos_token_id": 7,
		"full_attn_idxs": [2, 5, 8, 10, 12, 14], "hidden_size": 2048, "initializer_range": 0.02,
		"max_position_embeddings": 128000, "model_type": "lfm2", "norm_eps": 1e-05,
		"num_attention_heads": 32, "num_heads": 32, "num_hidden_layers": 16,
		"num_key_value_heads": 8, "pad_token_id": 0, "rope_theta": 1000000.0, "theta": 1000000.0,
		"tie_embedding": true, "torch_dtype": "bfloat16", "transformers_version": "4.54.0.dev0",
		"use_cache": true, "use_pos_enc": true, "vocab_size": 65536}`,
	"LFM2 with experts": `{"architectures": ["Lfm2MoeForCausalLM"], "bos_token_id": 1,
		"conv_L_cache": 3, "conv_bias": false, "dtype": "bfloat16", "eos_token_id": 7,
		"hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 7168,
		"layer_types": ["conv", "conv", "full_attention", "conv"], "max_position_embeddings": 128000,
		"model_type": "lfm2_moe", "moe_intermediate_size": 1792, "norm_eps": 1e-05,
		"norm_topk_prob": true, "num_attention_heads": 32, "num_dense_layers": 2, "num_experts": 32,
		"num_experts_per_tok": 4, "num_hidden_layers": 4, "num_key_value_heads": 8,
		"pad_token_id": 0, "rope_theta": 1000000.0, "routed_scaling_factor": 1.0,
		"transformers_version": "4.57.0.dev0", "use_cache": true, "use_expert_bias": true,
		"vocab_size": 65536}`,
	"Granite 3.3": `{"architectures": ["GraniteForCausalLM"], "attention_bias": false,
		"attention_dropout": 0.0, "attention_multiplier": 0.015625, "bos_token_id": 0,
		"embedding_multiplier": 12.0, "eos_token_id": 0, "hidden_act": "silu", "hidden_size": 2048,
		"initializer_range": 0.02, "intermediate_size": 8192, "logits_scaling": 8.0,
		"max_position_embeddings": 131072, "mlp_bias": false, "model_type": "granite",
		"num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8,
		"pad_token_id": 0, "residual_multiplier": 0.22, "rms_norm_eps": 1e-05, "rope_scaling": null,
		"rope_theta": 10000000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
		"transformers_version": "4.49.0", "use_cache": true, "vocab_size": 49159}`,
	"Granite 4 micro": `{"architectures": ["GraniteMoeHybridForCausalLM"], "attention_bias": false,
		"attention_dropout": 0.0, "attention_multiplier": 0.015625, "bos_token_id": 100257,
		"embedding_multiplier": 12, "eos_token_id": 100257, "hidden_act": "silu",
		"hidden_size": 2560, "init_method": "mup", "initializer_range": 0.1,
		"intermediate_size": 8192, "layer_types": ["attention", "attention"], "logits_scaling": 10,
		"mamba_chunk_size": 256, "mamba_conv_bias": true, "mamba_d_conv": 4, "mamba_d_head": 40,
		"mamba_d_state": 256, "mamba_expand": 2, "mamba_n_groups": 1, "mamba_n_heads": 128,
		"mamba_proj_bias": false, "max_position_embeddings": 131072,
		"model_type": "granitemoehybrid", "normalization_function": "rmsnorm",
		"num_attention_heads": 40, "num_experts_per_tok": 0, "num_hidden_layers": 2,
		"num_key_value_heads": 8, "num_local_experts": 0, "output_router_logits": false,
		"pad_token_id": 100256, "position_embedding_type": "rope", "residual_multiplier": 0.22,
		"rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000000,
		"router_aux_loss_coef": 0.01, "shared_intermediate_size": 8192,
		"tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.56.0",
		"use_cache": true, "vocab_size": 100352}`,
	"Granite 4 H micro": `{"architectures": ["GraniteMoeHybridForCausalLM"],
		"attention_bias": false, "attention_dropout": 0.0, "attention_multiplier": 0.015625,
		"bos_token_id": 100257, "embedding_multiplier": 12, "eos_token_id": 100257,
		"hidden_act": "silu", "hidden_size": 2048, "init_method": "mup", "initializer_range": 0.1,
		"intermediate_size": 8192, "layer_types": ["mamba", "mamba", "attention"],
		"logits_scaling": 8, "mamba_chunk_size": 256, "mamba_conv_bias": true, "mamba_d_conv": 4,
		"mamba_d_head": 64, "mamba_d_state": 128, "mamba_expand": 2, "mamba_n_groups": 1,
		"mamba_n_heads": 64, "mamba_proj_bias": false, "max_position_embeddings": 131072,
		"model_type": "granitemoehybrid", "normalization_function": "rmsnorm",
		"num_attention_heads": 32, "num_experts_per_tok": 0, "num_hidden_layers": 3,
		"num_key_value_heads": 8, "num_local_experts": 0, "output_router_logits": false,
		"pad_token_id": 100256, "position_embedding_type": "nope", "residual_multiplier": 0.22,
		"rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000,
		"router_aux_loss_coef": 0.01, "shared_intermediate_size": 8192,
		"tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.56.0",
		"use_cache": true, "vocab_size": 100352}`,
	"EXAONE 4.0": `{"architectures": ["Exaone4ForCausalLM"], "hidden_size": 2048,
		"intermediate_size": 4096, "max_position_embeddings": 65536, "model_type": "exaone4",
		"num_attention_heads": 32, "num_hidden_layers": 30, "num_key_value_heads": 8,
		"rms_norm_eps": 1e-05, "rope_scaling": {"factor": 16.0, "high_freq_factor": 4.0,
		"low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
		"rope_theta": 1000000, "sliding_window_pattern": "LLLG", "vocab_size": 102400}`,
	"Devstral 2": `{"architectures": ["Ministral3ForCausalLM"], "head_dim": 128, "hidden_size": 12288,
		"intermediate_size": 28672, "max_position_embeddings": 262144, "model_type": "ministral3",
		"num_attention_heads": 96, "num_hidden_layers": 88, "num_key_value_heads": 8,
		"rms_norm_eps": 1e-05, "rope_parameters": {"beta_fast": 4.0, "beta_slow": 1.0, "factor": 64.0,
		"mscale": 1.0, "mscale_all_dim": 0.0, "original_max_position_embeddings": 4096,
		"llama_4_scaling_beta": 0.0, "rope_theta": 1000000.0, "rope_type": "yarn", "type": "yarn"},
		"sliding_window": null, "tie_word_embeddings": false, "vocab_size": 131072}`,
	"LFM2.5 with experts": `{"architectures": ["Lfm2MoeForCausalLM"], "conv_L_cache": 3,
		"conv_bias": false, "head_dim": 64, "hidden_size": 2048, "intermediate_size": 7168,
		"layer_types": ["conv", "conv", "full_attention"], "max_position_embeddings": 128000,
		"model_type": "lfm2_moe", "moe_intermediate_size": 1792, "norm_eps": 1e-05,
		"norm_topk_prob": true, "num_attention_heads": 32, "num_dense_layers": 2, "num_experts": 32,
		"num_experts_per_tok": 4, "num_hidden_layers": 3, "num_key_value_heads": 8,
		"rope_parameters": {"rope_theta": 5000000, "rope_type": "default"},
		"routed_scaling_factor": 1.0, "tie_word_embeddings": true, "use_expert_bias": true,
		"vocab_size": 128000}`,
	"Qwen 3.6 with experts": `{"architectures": ["Qwen3_5MoeForConditionalGeneration"],
		"dtype": "bfloat16", "image_token_id": 248056, "model_type": "qwen3_5_moe",
		"text_config": {"attention_bias": false, "attention_dropout": 0.0, "attn_output_gate": true,
		"dtype": "bfloat16", "eos_token_id": 248044, "full_attention_interval": 4, "head_dim": 256,
		"hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
		"layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
		"linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
		"linear_num_value_heads": 32, "linear_value_head_dim": 128, "max_position_embeddings": 262144,
		"model_type": "qwen3_5_moe_text", "moe_intermediate_size": 512, "mtp_num_hidden_layers": 1,
		"num_attention_heads": 16, "num_experts": 256, "num_experts_per_tok": 8,
		"num_hidden_layers": 4, "num_key_value_heads": 2, "output_router_logits": false,
		"pad_token_id": 248044, "partial_rotary_factor": 0.25, "rms_norm_eps": 1e-06,
		"rope_parameters": {"mrope_interleaved": true, "mrope_section": [11, 11, 10],
		"partial_rotary_factor": 0.25, "rope_theta": 10000000, "rope_type": "default"},
		"shared_expert_intermediate_size": 512, "tie_word_embeddings": false, "use_cache": true,
		"vocab_size": 248320}, "tie_word_embeddings": false, "transformers_version": "5.4.0",
		"video_token_id": 248057, "vision_config": {"depth": 27}, "vision_end_token_id": 248054,
		"vision_start_token_id": 248053}`,
	"Granite 4 of newer files": `{"architectures": ["GraniteMoeHybridForCausalLM"],
		"attention_multiplier": 0.015625, "embedding_multiplier": 12, "hidden_size": 512,
		"intermediate_size": 1024, "layer_types": ["mamba", "attention"], "logits_scaling": 2,
		"mamba_chunk_size": 256, "mamba_conv_bias": true, "mamba_d_conv": 4, "mamba_d_head": 128,
		"mamba_d_state": 128, "mamba_expand": 2, "mamba_n_groups": 1, "mamba_n_heads": 8,
		"model_type": "granitemoehybrid", "num_attention_heads": 8, "num_experts_per_tok": 2,
		"num_hidden_layers": 2, "num_key_value_heads": 8, "num_local_experts": 8,
		"position_embedding_type": "rope", "residual_multiplier": 0.22, "rms_norm_eps": 1e-05,
		"rope_parameters": {"rope_theta": 10000000, "rope_type": "default"},
		"shared_intermediate_size": 512, "tie_word_embeddings": true,
		"time_step_limit": [0.0, {"__float__": "Infinity"}], "vocab_size": 49152}`,
	"ERNIE 4.5 with experts": `{"architectures": ["Ernie4_5_MoeForCausalLM"], "bos_token_id": 1,
		"dtype": "bfloat16", "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 8192,
		"intermediate_size": 28672, "is_quantized": false, "max_position_embeddings": 131072,
		"model_type": "ernie4_5_moe", "moe_capacity": [64, 64, 64], "moe_gate": "topk",
		"moe_intermediate_size": 3584, "moe_k": 4, "moe_layer_interval": 1, "moe_layer_start_index": 1,
		"moe_num_experts": 64, "moe_use_aux_free": true, "num_attention_heads": 64,
		"num_hidden_layers": 5, "num_key_value_heads": 8, "num_nextn_predict_layers": 1,
		"pad_token_id": 0, "rms_norm_eps": 1e-05, "rope_theta": 500000, "tie_word_embeddings": false,
		"use_bias": false, "use_cache": false, "use_rmsnorm": true, "vocab_size": 103424}`,
	"Granite 3.1 with experts": `{"architectures": ["GraniteMoeForCausalLM"], "attention_bias": false,
		"attention_dropout": 0.1, "attention_multiplier": 0.015625, "bos_token_id": 0,
		"embedding_multiplier": 12.0, "eos_token_id": 0, "hidden_act": "silu", "hidden_size": 1536,
		"initializer_range": 0.02, "intermediate_size": 512, "logits_scaling": 6.0,
		"max_position_embeddings": 131072, "model_type": "granitemoe", "num_attention_heads": 24,
		"num_experts_per_tok": 8, "num_hidden_layers": 32, "num_key_value_heads": 8,
		"num_local_experts": 40, "output_router_logits": false, "pad_token_id": 0,
		"residual_multiplier": 0.22, "rms_norm_eps": 1e-06, "rope_scaling": null,
		"rope_theta": 10000000.0, "router_aux_loss_coef": 0.001, "tie_word_embeddings": true,
		"torch_dtype": "bfloat16", "transformers_version": "4.47.0.dev0", "use_cache": true,
		"vocab_size": 49155}`,
	"Gemma 4 31B": gemma4Config(`"attention_k_eq_v": true, "enable_moe_block": false,
		"expert_intermediate_size": null, "hidden_size": 5376, "hidden_size_per_layer_input": 0,
		"intermediate_size": 21504, "moe_intermediate_size": null, "num_attention_heads": 32,
		"num_experts": null, "num_global_key_value_heads": 4, "num_key_value_heads": 16,
		"num_kv_shared_layers": 0, "top_k_experts": null, "use_bidirectional_attention": "vision",
		"use_double_wide_mlp": false`),
	"Gemma 4 26B-A4B": gemma4Config(`"attention_k_eq_v": true, "enable_moe_block": true,
		"hidden_size": 2816, "hidden_size_per_layer_input": 0, "intermediate_size": 2112,
		"moe_intermediate_size": 704, "num_attention_heads": 16, "num_experts": 128,
		"num_global_key_value_heads": 2, "num_key_value_heads": 8, "num_kv_shared_layers": 0,
		"top_k_experts": 8, "use_bidirectional_attention": "vision", "use_double_wide_mlp": false`),
	"Gemma 4 E2B": gemma4Config(`"attention_k_eq_v": false, "enable_moe_block": false,
		"expert_intermediate_size": null, "hidden_size": 1536, "hidden_size_per_layer_input": 256,
		"intermediate_size": 6144, "num_attention_heads": 8, "num_experts": null,
		"num_global_key_value_heads": null, "num_key_value_heads": 1, "num_kv_shared_layers": 2,
		"top_k_experts": null, "use_bidirectional_attention": null, "use_double_wide_mlp": true`),
}

// gemma4Config returns a config.json of Gemma 4, with some keys of a model.
func gemma4Config(keys string) string {
	return `{"architectures": ["Gemma4ForConditionalGeneration"], "audio_config": null,
		"audio_token_id": 258881, "boa_token_id": 256000, "boi_token_id": 255999, "dtype": "bfloat16",
		"eoa_token_id": 258883, "eoa_token_index": 258883, "eoi_token_id": 258882,
		"eos_token_id": [1, 106], "image_token_id": 258880, "initializer_range": 0.02,
		"model_type": "gemma4", "text_config": {"attention_bias": false, "attention_dropout": 0.0,
		"bos_token_id": 2, "dtype": "bfloat16", "eos_token_id": 1, "final_logit_softcapping": 30.0,
		"global_head_dim": 512, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
		"initializer_range": 0.02, "layer_types": ["sliding_attention", "full_attention",
		"sliding_attention", "full_attention"], "max_position_embeddings": 262144,
		"model_type": "gemma4_text", "num_hidden_layers": 4, "pad_token_id": 0,
		"rms_norm_eps": 1e-06, "rope_parameters": {
		"full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0,
		"rope_type": "proportional"}, "sliding_attention": {"rope_theta": 10000.0,
		"rope_type": "default"}}, "sliding_window": 1024, "tie_word_embeddings": true,
		"use_cache": true, "vocab_size": 262144, "vocab_size_per_layer_input": 262144` + ", " + keys + `},
		"tie_word_embeddings": true, "transformers_version": "5.5.0.dev0", "video_token_id": 258884,
		"vision_config": {"model_type": "gemma4_vision"}, "vision_soft_tokens_per_image": 280}`
}

// TestOtherConfigs reads files of real folders, without their tensors.
func TestOtherConfigs(t *testing.T) {
	for name, text := range otherConfigs {
		path := t.TempDir()
		must(t, os.WriteFile(filepath.Join(path, "config.json"), []byte(text), 0o666))
		l := &weights.Loader{Path: path}
		if readConfig(l); l.Err != nil {
			t.Errorf("%s: %v", name, l.Err)
		}
	}
}

// TestStopTokens says which file's tokens end answers.
func TestStopTokens(t *testing.T) {
	for _, c := range []struct {
		model, config, generation string
		want                      []int
	}{
		{"llama", `{"eos_token_id": 5}`, "", []int{5}},
		{"llama", `{"eos_token_id": 5}`, `{"eos_token_id": [6, 7]}`, []int{6, 7}},
		{"llama", `{"eos_token_id": 5}`, `{"eos_token_id": null}`, []int{5}},
		{"llama", `{"eos_token_id": 5}`, `{}`, []int{5}},
		{"llama", `{}`, "", []int{2}},
		{"mistral", `{}`, "", []int{2}},
		{"qwen2", `{}`, "", nil},
		{"llama", `{"eos_token_id": null}`, "", nil},
		{"llama", `{"eos_token_id": null}`, `{"eos_token_id": 4}`, []int{4}},
	} {
		f := newFake("F32")
		delete(f.config, "eos_token_id")
		f.config["model_type"], f.config["sliding_window"] = c.model, nil
		must(t, json.Unmarshal([]byte(c.config), &f.config))
		path := f.write(t)
		if c.generation != "" {
			write("generation_config.json", c.generation)(t, path)
		}
		l := &weights.Loader{Path: path}
		if got, _ := readConfig(l); l.Err != nil || !slices.Equal(got.Stop, c.want) {
			t.Errorf("%+v: answers stop at %v (%v)", c, got.Stop, l.Err)
		}
	}
}

// TestEndsOfFolders: answers end at the tokens that the tokenizer names for it, and at tokens whose
// texts say so unless a list of several tokens omits them.
func TestEndsOfFolders(t *testing.T) {
	for _, c := range []struct {
		text, config, generation string
		want                     []int
	}{
		{"<|im_end|>", `{}`, `{}`, []int{7, 19}},
		{"<|end|>", `{}`, `{"eos_token_id": 8}`, []int{8, 19}},
		{"<|end|>", `{}`, `{"eos_token_id": [8]}`, []int{8, 19}},
		{"<|end|>", `{}`, `{"eos_token_id": [8, 9]}`, []int{8, 9}},
		{"<|end|>", `{"eos_token": "<|end|>"}`, `{"eos_token_id": [8, 9]}`, []int{8, 9, 19}},
		{"<|other|>", `{}`, `{}`, []int{7}},
		{"<|other|>", `{"eos_token": "<|other|>"}`, `{}`, []int{7, 19}},
		{"<|other|>", `{"eos_token": {"content": "<|other|>", "__type": "AddedToken"}}`, `{}`,
			[]int{7, 19}},
	} {
		f := newFake("F32")
		f.config["eos_token_id"] = 7
		f.rename("<|end|>", c.text)
		path := f.write(t)
		write("tokenizer_config.json", c.config)(t, path)
		write("generation_config.json", c.generation)(t, path)
		m, _, err := (&options{model: path, weights: asStored}).open()
		must(t, err)
		if !slices.Equal(m.Stop, c.want) {
			t.Errorf("%+v: answers stop at %v", c, m.Stop)
		}
	}
}

// TestIdleKeys gives each key an unknown value: it is refused if only some values are without
// effect, and a folder with one of those is read.
func TestIdleKeys(t *testing.T) {
	f := newFake("F32")
	path := f.write(t)
	for file, idle := range map[string]strictjson.Idle{"config.json": idleConfig,
		"generation_config.json": idleGeneration} {
		for key, values := range idle {
			object := map[string]any{}
			if file == "config.json" {
				object = maps.Clone(f.config)
			}
			read := func(value any) error {
				if above, below, ok := strings.Cut(key, "."); ok && above != "transformers" {
					object[above] = map[string]any{below: value}
				} else {
					object[key] = value
				}
				writeJSON(t, filepath.Join(path, file), object)
				l := &weights.Loader{Path: path}
				readConfig(l)
				return l.Err
			}
			err := read("unheard")
			if got := fmt.Sprint(err); (err == nil) != (values == nil) || err != nil &&
				!strings.Contains(got, file+": "+key+` is "unheard", want `) {
				t.Errorf("%s: %s: the error is %v", file, key, err)
			}
			for _, value := range append(values, "null") {
				if err := read(json.RawMessage(value)); err != nil {
					t.Errorf("%s: %s is %s: %v", file, key, value, err)
				}
			}
		}
		must(t, os.RemoveAll(filepath.Join(path, file)))
		writeJSON(t, filepath.Join(path, "config.json"), f.config)
	}
}

// FuzzReadConfig reads any config.json. It gives an error or a valid model, and one more key makes
// it an error.
func FuzzReadConfig(f *testing.F) {
	for _, all := range []map[string]string{configs, otherConfigs} {
		for _, text := range all {
			f.Add(text)
		}
	}
	sized, err := json.Marshal(newFake("F32").config)
	must(f, err)
	f.Add(string(sized))
	path := f.TempDir()
	read := func(t *testing.T, text string) (config, error) {
		must(t, os.WriteFile(filepath.Join(path, "config.json"), []byte(text), 0o666))
		l := &weights.Loader{Path: path}
		c, _ := readConfig(l)
		return c, l.Err
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := read(t, text)
		if err != nil {
			return
		}
		if min(c.Layers, c.Dim, c.Heads, c.KVHeads, c.HeadDim, c.FFN, c.Vocab) < 1 ||
			c.Heads%c.KVHeads != 0 || c.HeadDim%2 != 0 {
			t.Errorf("%s: the sizes are %+v", text, c)
		}
		c.HeadDim = min(c.HeadDim, 1<<12) // for time
		if rope, err := c.rotation(nil); (rope == nil) != (err != nil) {
			t.Fatalf("%s: a rotation %v with error %v", text, rope, err)
		}
		if _, err := read(t, strings.Replace(text, "{", `{"unheard": 1, `, 1)); err == nil {
			t.Errorf("%s: one more key is no error", text)
		}
	})
}
