package main

// tensorNames is how a kind of file calls a model's tensors, without .weight and .bias.
type tensorNames struct {
	embedding, norm, head string
	layer                 string // with a place for the number
	layerNames
	factors     string // of rotations; "" for none
	short, long string // of rotations, for texts of as many tokens as in training, and for longer ones
}

// layerNames are those of a layer's tensors, after the layer's own; "" for what it has not.
type layerNames struct {
	attentionNorm, q, k, v, qNorm, kNorm, out string
	attentionAfter                            string // norm of what attention returns
	ffnNorm, gate, up, down                   string
	ffnAfter                                  string // norm of what the network returns
	qkv, gateUp                               string // one tensor for several matrices
}

// folderNames are those of folders with config.json.
var folderNames = tensorNames{embedding: "model.embed_tokens", norm: "model.norm", head: "lm_head",
	layer: "model.layers.%d.", layerNames: layerNames{attentionNorm: "input_layernorm",
		q: "self_attn.q_proj", k: "self_attn.k_proj", v: "self_attn.v_proj",
		qNorm: "self_attn.q_norm", kNorm: "self_attn.k_norm", out: "self_attn.o_proj",
		ffnNorm: "post_attention_layernorm", gate: "mlp.gate_proj", up: "mlp.up_proj",
		down: "mlp.down_proj"}}

// ggufNames are those of GGUF files.
var ggufNames = tensorNames{embedding: "token_embd", norm: "output_norm", head: "output",
	layer: "blk.%d.", layerNames: layerNames{attentionNorm: "attn_norm", q: "attn_q", k: "attn_k",
		v: "attn_v", qNorm: "attn_q_norm", kNorm: "attn_k_norm", out: "attn_output",
		ffnNorm: "ffn_norm", gate: "ffn_gate", up: "ffn_up", down: "ffn_down"}, factors: "rope_freqs"}

var (
	gemmaNames = folderNames.with(func(n *tensorNames) {
		n.attentionAfter, n.ffnNorm = "post_attention_layernorm", "pre_feedforward_layernorm"
		n.ffnAfter = "post_feedforward_layernorm"
	})
	ggufGemmaNames = ggufNames.with(func(n *tensorNames) {
		n.attentionAfter, n.ffnAfter, n.factors = "post_attention_norm", "post_ffw_norm", ""
	})
	phiNames = folderNames.with(func(n *tensorNames) {
		n.qkv, n.gateUp = "self_attn.qkv_proj", "mlp.gate_up_proj"
	})
	ggufPhiNames = ggufNames.with(func(n *tensorNames) {
		n.qkv, n.gateUp, n.factors = "attn_qkv", "ffn_up", ""
		n.short, n.long = "rope_factors_short", "rope_factors_long"
	})
)

// with are names of which some are others.
func (n tensorNames) with(change func(*tensorNames)) tensorNames {
	change(&n)
	return n
}
