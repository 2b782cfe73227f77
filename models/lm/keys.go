package lm

import (
	"maps"

	"github.com/seed-1415985d/attn/internal/strictjson"
)

// idleConfig are the keys of config.json that do not change what a model computes in transformers.
// A key with a list is without effect with the listed values only.
var idleConfig = strictjson.Idle{
	// the file and its authors; transformers chooses a causal model by model_type alone
	"architectures": nil, "_name_or_path": nil, "_commit_hash": nil, "name_or_path": nil,
	"transformers_version":   nil,
	"transformers.js_config": nil, "unsloth_fixed": nil, "unsloth_version": nil, "leave_empty": nil,
	"is_llama_config": {"true"}, "activation": {`"swiglu"`}, "tokenizer_class": nil,
	// how other programs compute
	"torch_dtype": nil, "dtype": nil, "use_bfloat16": nil, "use_cache": nil, "pretraining_tp": nil,
	"_attn_implementation": nil, "attn_implementation": nil, "_attn_implementation_autoset": nil,
	"_attn_implementation_internal": nil, "_flash_attn_2_enabled": nil, "torchscript": nil,
	"tf_legacy_loss": nil, "chunk_size_feed_forward": nil, "output_attentions": nil,
	"output_hidden_states": nil, "return_dict": nil, "use_return_dict": nil,
	// training
	"router_aux_loss_coef": nil, "router_jitter_noise": nil, "output_router_logits": nil,
	"attention_dropout": nil, "attn_pdrop": nil, "embd_pdrop": nil, "resid_pdrop": nil,
	"hidden_dropout": nil, "residual_dropout": nil, "initializer_range": nil,
	"gradient_checkpointing": nil, "neftune_noise_alpha": nil,
	// other tasks than the next token
	"finetuning_task": nil, "id2label": nil, "label2id": nil, "num_labels": nil, "problem_type": nil,
	"task_specific_params": nil,
	// bounds that no program obeys, and tokens that the tokenizer has, too
	"max_sequence_length": nil, "model_max_length": nil,
	"bos_token_id": nil, "pad_token_id": nil, "sep_token_id": nil,
	"unk_token_id": nil,
	// how to draw tokens: the caller decides
	"do_sample": nil, "temperature": nil, "top_k": nil, "top_p": nil, "typical_p": nil,
	"repetition_penalty": nil, "max_length": nil, "max_new_tokens": nil, "num_return_sequences": nil,
	"return_dict_in_generate": nil, "output_scores": nil, "length_penalty": nil,
	"early_stopping": nil, "diversity_penalty": nil, "remove_invalid_values": nil,
	"prefix": {`""`}, "encoder_no_repeat_ngram_size": {"0"}, "decoder_start_token_id": {},
	"min_length": {"0"}, "no_repeat_ngram_size": {"0"}, "num_beams": {"1"}, "num_beam_groups": {"1"},
	"bad_words_ids": {}, "suppress_tokens": {}, "begin_suppress_tokens": {},
	"forced_bos_token_id": {}, "forced_eos_token_id": {}, "exponential_decay_length_penalty": {},
	// other models
	"compression_config": {}, "auto_map": {}, "pruned_heads": {"{}"},
	"is_decoder": {"false", "true"}, "is_encoder_decoder": {"false"}, "tie_encoder_decoder": {"false"},
	"add_cross_attention": {"false"}, "cross_attention_hidden_size": {},
	"rope_interleaved": {"false"}, "use_mrope": {"false"},
	// how a scaling was derived
	"rope_scaling.max_position_embeddings": nil, "rope_parameters.max_position_embeddings": nil,
	"rope_scaling.finetuned": nil, "rope_parameters.finetuned": nil,
	"dual_chunk_attention_config": {}, "per_layer_config": {"{}"},

	// of gemma and phi3: other keys say the same
	"cache_implementation": nil, "sliding_window_size": nil,
	"use_bidirectional_attention": {"false", `"vision"`}, "expert_intermediate_size": {},
	// of Cohere: the tensors and other keys say the same
	"layer_switch": nil, "order_of_interleaved_layers": {`"local_attn_first"`},
	"rotary_pct": {"1.0", "1"}, "use_embedding_sharing": {"true"}, "use_gated_activation": {"true"},
	"use_parallel_block": {"true"}, "use_parallel_embedding": {"false"},
	// of StarCoder 2: other keys say the same
	"activation_function": {`"gelu"`}, "attention_softmax_in_fp32": nil, "embedding_dropout": nil,
	"layer_norm_epsilon": nil, "mlp_type": {`"default"`}, "norm_type": {`"layer_norm"`},
	"scale_attention_softmax_in_fp32": nil, "scale_attn_weights": {"true"},
	// of qwen3.5: types of the states in other programs
	"mamba_ssm_dtype": {`"float32"`},
	// of Granite 4: how it was trained, and in which pieces other programs compute
	"init_method": nil, "normalization_function": {`"rmsnorm"`}, "mamba_chunk_size": nil,
	"mamba_proj_bias": {"false"}, "time_step_limit": {`[0.0,{"__float__":"Infinity"}]`},
	// of LFM2: other keys say the same, and how weights were made
	"block_dim": nil, "conv_dim": nil, "conv_dim_out": nil, "num_heads": nil, "block_norm_eps": nil,
	"block_mlp_init_scale": nil, "block_out_init_scale": nil, "block_use_xavier_init": nil,
	"conv_use_xavier_init": nil, "block_use_swiglu": {"true"}, "use_pos_enc": {"true"},
	"conv_bias": {"false"},
	// of ERNIE
	"use_rmsnorm": {"true"}, "moe_capacity": nil, "moe_gate": {`"topk"`}, "is_quantized": {"false"},
	"moe_use_aux_free": {"true"}, "moe_gate_act": {`"softmax"`},
	// of gpt-oss: other keys say the same
	"initial_context_length": nil, "experts_per_token": nil,
}

// idleWrapper are keys without effect of a file that has the model for texts in text_config.
func idleWrapper() strictjson.Idle {
	idle := maps.Clone(idleConfig)
	for key, values := range idleConfig {
		idle["text_config."+key] = values
	}
	for _, key := range []string{"vision_config", "image_token_id", "image_token_index",
		"video_token_id", "vision_start_token_id", "vision_end_token_id", "boi_token_index",
		"eoi_token_index", "boi_token_id", "eoi_token_id", "mm_tokens_per_image",
		"audio_config", "audio_token_id", "boa_token_id", "eoa_token_id", "eoa_token_index",
		"vision_soft_tokens_per_image",
		"multimodal_projector_bias", "projector_hidden_act", "spatial_merge_size",
		"vision_feature_layer"} {
		idle[key] = nil
	}
	return idle
}

// idleWrapperTensors are the tensors for images.
var idleWrapperTensors = []string{"vision_tower.*", "multi_modal_projector.*",
	"model.vision_tower.*", "model.multi_modal_projector.*", "model.visual.*",
	"model.audio_tower.*", "model.embed_vision.*", "model.embed_audio.*"}

// idleGeneration are keys of generation_config.json without effect: the caller decides how tokens
// are drawn.
var idleGeneration = strictjson.Idle{
	"_from_model_config": nil, "transformers_version": nil, "bos_token_id": nil, "pad_token_id": nil,
	"use_cache": nil, "cache_implementation": nil, "cache_config": nil, "return_legacy_cache": nil,
	"prefill_chunk_size": nil, "disable_compile": nil, "compile_config": nil, "low_memory": nil,
	"output_attentions": nil, "output_hidden_states": nil, "output_scores": nil, "output_logits": nil,
	"return_dict_in_generate": nil, "num_return_sequences": nil, "trust_remote_code": nil,

	"do_sample": nil, "temperature": nil, "top_k": nil, "top_p": nil, "min_p": nil, "top_h": nil,
	"typical_p": nil, "epsilon_cutoff": nil, "eta_cutoff": nil, "repetition_penalty": nil,
	"max_length": nil, "max_new_tokens": nil, "max_time": nil, "renormalize_logits": nil,
	"remove_invalid_values": nil, "length_penalty": nil, "early_stopping": nil,
	"diversity_penalty": nil, "user_token_id": nil, "assistant_token_id": nil, "max_window_size": nil,
	"chat_format": nil,

	"is_assistant": nil, "num_assistant_tokens": nil, "num_assistant_tokens_schedule": nil,
	"assistant_confidence_threshold": nil, "prompt_lookup_num_tokens": nil,
	"max_matching_ngram_size": nil, "assistant_lookbehind": nil, "target_lookbehind": nil,
	"assistant_early_exit": nil,

	"min_length": {"0"}, "min_new_tokens": {"0"}, "num_beams": {"1"}, "num_beam_groups": {"1"},
	"no_repeat_ngram_size": {"0"}, "encoder_no_repeat_ngram_size": {"0"},
	"encoder_repetition_penalty": {"1", "1.0"}, "guidance_scale": {"1", "1.0"}, "penalty_alpha": {"0"},
	"token_healing": {"false"}, "suppress_tokens": {"[]"}, "begin_suppress_tokens": {"[]"},
	"bad_words_ids": {"[]"}, "stop_strings": {"[]"}, "dola_layers": {}, "force_words_ids": {},
	"constraints": {}, "forced_bos_token_id": {}, "forced_eos_token_id": {}, "forced_decoder_ids": {},
	"exponential_decay_length_penalty": {}, "sequence_bias": {}, "watermarking_config": {},
	"decoder_start_token_id": {},
}

// idleTensors are tensors without effect: angles, which are computed here, a last matrix that is
// tied to the embedding, and ERNIE's layers that guess further tokens.
var idleTensors = []string{"model.*rotary_emb.inv_freq", "lm_head.weight", "model.mtp_*"}
