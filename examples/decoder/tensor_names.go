package main

// tensorNames is how a kind of file calls a model's tensors, without .weight and .bias.
type tensorNames struct {
	embedding, norm, head string
	layer                 string // with a place for the number
	layerNames
	factors string // of rotations; "" for none
}

// layerNames are those of a layer's tensors, after the layer's own.
type layerNames struct {
	attentionNorm, q, k, v, qNorm, kNorm, out string
	ffnNorm, gate, up, down                   string
}

// folderNames are those of folders with config.json.
var folderNames = tensorNames{"model.embed_tokens", "model.norm", "lm_head", "model.layers.%d.",
	layerNames{"input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
		"self_attn.q_norm", "self_attn.k_norm", "self_attn.o_proj", "post_attention_layernorm",
		"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}, ""}

// ggufNames are those of GGUF files.
var ggufNames = tensorNames{"token_embd", "output_norm", "output", "blk.%d.",
	layerNames{"attn_norm", "attn_q", "attn_k", "attn_v", "attn_q_norm", "attn_k_norm", "attn_output",
		"ffn_norm", "ffn_gate", "ffn_up", "ffn_down"}, "rope_freqs"}
