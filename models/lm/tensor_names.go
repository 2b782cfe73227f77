package lm

import (
	"strings"

	"github.com/seed-1415985d/attn/models/internal/weights"
)

// tensorNames is how files of a kind name a model's tensors, without .weight and .bias.
type tensorNames struct {
	embedding, norm, head string
	layer                 string // with a verb for the number
	layerNames
	// of the inputs of layers: a table, a matrix for embeddings, and the norm of their products
	inputs, inputMatrix, inputNorm string

	further     furtherNames
	factors     string // of rotations; "" for none
	short, long string // factors for texts up to the length in training, and for longer ones
}

// layerNames are the names of a layer's tensors, after the layer's prefix; "" for none.
type layerNames struct {
	attentionNorm, q, k, v, qNorm, kNorm, out string
	attentionAfter                            string // norm of attention's output
	ffnNorm, gate, up, down                   string
	ffnAfter                                  string // norm of the network's output
	qkv, gateUp                               string // one tensor of several matrices
	sinks                                     string // with .weight, if the name ends so
	// of experts: a tensor for all of them, or with a verb for the number of one
	router, gates, ups, downs string
	// tensors of all experts, with .weight if the name ends so; the first has the outputs of gate,
	// then of up, for each expert
	gateUps, allDowns string
	choice            string // biases that choose experts, with .weight or .bias
	// of an expert that all tokens use, and of its weight
	sharedGate, sharedUp, sharedDown, share string
	sharedGateUp                            string // one tensor of the first two
	// of layers that keep states: queries, keys and values; gates; the rates of writing and of decay.
	// qkvz and ba are tensors of several of these, one group of heads after another
	mixed, z, beta, alpha, qkvz, ba string
	conv, step, decay               string // with .weight, if the name ends so
	stateNorm, stateOut             string
	convIn, convOut                 string // of short convolutions; the first also of Mamba
	convBias, skip                  string // of Mamba
	// of Gemma 4: matrices of a layer's input, the norm of what it adds, and the number of a layer's
	// rows, with .weight if the name ends so
	inputGate, inputOut, inputAfter, scale string
	// of experts in addition to a network: norms, the weights of the router's norm and of experts
	networkAfter, expertsBefore, expertsAfter, routerScale, expertScale string
	// tensors of all experts in MXFP4, in which rows of gate and up alternate
	microGateUp, microDown string
}

// folderNames are the names in folders with config.json.
var folderNames = tensorNames{embedding: "model.embed_tokens", norm: "model.norm", head: "lm_head",
	layer: "model.layers.%d.", layerNames: layerNames{attentionNorm: "input_layernorm",
		q: "self_attn.q_proj", k: "self_attn.k_proj", v: "self_attn.v_proj",
		qNorm: "self_attn.q_norm", kNorm: "self_attn.k_norm", out: "self_attn.o_proj",
		ffnNorm: "post_attention_layernorm", gate: "mlp.gate_proj", up: "mlp.up_proj",
		down: "mlp.down_proj"}}

// ggufNames are the names in GGUF files.
var ggufNames = tensorNames{embedding: "token_embd", norm: "output_norm", head: "output",
	layer: "blk.%d.", layerNames: layerNames{attentionNorm: "attn_norm", q: "attn_q", k: "attn_k",
		v: "attn_v", qkv: "attn_qkv", qNorm: "attn_q_norm", kNorm: "attn_k_norm", out: "attn_output",
		ffnNorm: "ffn_norm", gate: "ffn_gate", up: "ffn_up", down: "ffn_down"}, factors: "rope_freqs"}

var (
	gemmaNames = folderNames.with(func(n *tensorNames) {
		n.attentionAfter, n.ffnNorm = "post_attention_layernorm", "pre_feedforward_layernorm"
		n.ffnAfter = "post_feedforward_layernorm"
	})
	ggufGemmaNames = ggufNames.with(func(n *tensorNames) {
		n.attentionAfter, n.ffnAfter, n.factors = "post_attention_norm", "post_ffw_norm", ""
	})
	gemma4Names = gemmaNames.with(func(n *tensorNames) {
		n.inputs, n.inputMatrix = "model.embed_tokens_per_layer", "model.per_layer_model_projection"
		n.inputNorm, n.inputGate = "model.per_layer_projection_norm", "per_layer_input_gate"
		n.inputOut, n.inputAfter = "per_layer_projection", "post_per_layer_input_norm"
		n.scale = "layer_scalar"
	})
	gemma4MoENames = gemma4Names.with(func(n *tensorNames) {
		n.router, n.routerScale, n.expertScale = "router.proj", "router.scale", "router.per_expert_scale"
		// of random models
		n.gates, n.ups, n.downs = "experts.%d.gate", "experts.%d.up", "experts.%d.down"
		n.gateUps, n.allDowns = "experts.gate_up_proj", "experts.down_proj"
		n.networkAfter = "post_feedforward_layernorm_1"
		n.expertsBefore, n.expertsAfter = "pre_feedforward_layernorm_2", "post_feedforward_layernorm_2"
	})
	ggufGemma4Names = ggufGemmaNames.with(func(n *tensorNames) {
		n.factors, n.inputs = "rope_freqs", "per_layer_token_embd"
		n.inputMatrix, n.inputNorm = "per_layer_model_proj", "per_layer_proj_norm"
		n.inputGate, n.inputOut, n.inputAfter = "inp_gate", "proj", "post_norm"
		n.scale = "layer_output_scale.weight"
	})
	ggufGemma4MoENames = ggufGemma4Names.with(ggufExperts).with(func(n *tensorNames) {
		n.share, n.routerScale = "", "ffn_gate_inp.scale"
		n.networkAfter = "post_ffw_norm_1"
		n.expertsBefore, n.expertsAfter = "pre_ffw_norm_2", "post_ffw_norm_2"
	})
	olmoNames = gemmaNames.with(func(n *tensorNames) { n.attentionNorm, n.ffnNorm = "", "" })
	// the same in GGUF files
	ggufOlmoNames   = ggufGemmaNames.with(func(n *tensorNames) { n.attentionNorm, n.ffnNorm = "", "" })
	ggufExaoneNames = ggufOlmoNames.with(func(n *tensorNames) { n.factors = "rope_freqs" })
	ggufSeedNames   = ggufNames.with(func(n *tensorNames) { n.ffnNorm = "post_attention_norm" })
	glm4Names       = folderNames.with(func(n *tensorNames) {
		n.attentionAfter, n.ffnAfter = "post_self_attn_layernorm", "post_mlp_layernorm"
		n.gateUp, n.gate, n.up = "mlp.gate_up_proj", "", ""
	})
	ggufGLM4Names      = ggufGemmaNames.with(func(n *tensorNames) { n.gateUp = "ffn_up" })
	graniteHybridNames = folderNames.with(func(n *tensorNames) {
		n.gateUp, n.gate, n.up = "shared_mlp.input_linear", "", ""
		n.down, n.convIn, n.conv = "shared_mlp.output_linear", "mamba.in_proj", "mamba.conv1d.weight"
		n.convBias, n.step, n.decay = "mamba.conv1d.bias", "mamba.dt_bias", "mamba.A_log"
		n.skip, n.stateNorm, n.stateOut = "mamba.D", "mamba.norm", "mamba.out_proj"
	})
	ggufGraniteHybridNames = ggufNames.with(func(n *tensorNames) {
		n.convIn, n.conv, n.convBias = "ssm_in", "ssm_conv1d.weight", "ssm_conv1d.bias"
		n.step, n.decay, n.skip = "ssm_dt.bias", "ssm_a", "ssm_d"
		n.stateNorm, n.stateOut = "ssm_norm", "ssm_out"
	})
	cohereNames     = folderNames.with(func(n *tensorNames) { n.ffnNorm = "" })
	ggufCohereNames = ggufNames.with(func(n *tensorNames) { n.ffnNorm = "" })
	starCoderNames  = folderNames.with(func(n *tensorNames) {
		n.gate, n.up, n.down = "", "mlp.c_fc", "mlp.c_proj"
	})
	phiNames = folderNames.with(func(n *tensorNames) {
		n.qkv, n.gateUp = "self_attn.qkv_proj", "mlp.gate_up_proj"
		n.q, n.k, n.v, n.gate, n.up = "", "", "", "", ""
	})
	ggufPhiNames = ggufNames.with(func(n *tensorNames) {
		n.gateUp, n.factors = "ffn_up", ""
		n.short, n.long = "rope_factors_short", "rope_factors_long"
	})
)

var (
	qwenMoENames = folderNames.with(func(n *tensorNames) {
		n.router, n.gates = "mlp.gate", "mlp.experts.%d.gate_proj"
		n.ups, n.downs = "mlp.experts.%d.up_proj", "mlp.experts.%d.down_proj"
		n.gateUps, n.allDowns = "mlp.experts.gate_up_proj", "mlp.experts.down_proj"
		n.sharedGate, n.sharedUp = "mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj"
		n.sharedDown, n.share = "mlp.shared_expert.down_proj", "mlp.shared_expert_gate"
	})
	mixtralNames = folderNames.with(func(n *tensorNames) {
		n.router, n.gates = "block_sparse_moe.gate", "block_sparse_moe.experts.%d.w1"
		n.ups, n.downs = "block_sparse_moe.experts.%d.w3", "block_sparse_moe.experts.%d.w2"
	})
	ggufMoENames = ggufNames.with(ggufExperts).with(func(n *tensorNames) { n.factors = "" })
	glmMoENames  = qwenMoENames.with(folderNextN).with(func(n *tensorNames) {
		n.sharedGate, n.sharedUp = "mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj"
		n.sharedDown, n.share = "mlp.shared_experts.down_proj", ""
		n.choice = "mlp.gate.e_score_correction_bias"
	})
	ggufGLMMoENames = ggufMoENames.with(ggufNextN).with(func(n *tensorNames) {
		n.ffnNorm, n.share, n.choice = "post_attention_norm", "", "exp_probs_b.bias"
	})
	ernieMoENames = glmMoENames.with(func(n *tensorNames) {
		n.choice = "mlp.moe_statics.e_score_correction_bias"
	})
	ggufErnieMoENames = ggufMoENames.with(func(n *tensorNames) {
		n.share, n.choice = "", "exp_probs_b.bias"
	})
	graniteMoENames = graniteHybridNames.with(func(n *tensorNames) {
		n.router, n.gateUps = "block_sparse_moe.router.layer", "block_sparse_moe.input_linear.weight"
		n.gates, n.ups = "block_sparse_moe.%d.gate", "block_sparse_moe.%d.up" // of random models
		n.downs, n.allDowns = "block_sparse_moe.%d.down", "block_sparse_moe.output_linear.weight"
		n.sharedGateUp, n.sharedDown = "shared_mlp.input_linear", "shared_mlp.output_linear"
	})
	ggufGraniteMoENames = ggufGraniteHybridNames.with(ggufExperts).with(func(n *tensorNames) {
		n.share = ""
	})
	gptOSSNames = folderNames.with(func(n *tensorNames) {
		n.gates = "mlp.experts.%d.gate_proj" // of random models, as are the next two
		n.ups, n.downs = "mlp.experts.%d.up_proj", "mlp.experts.%d.down_proj"
		n.router, n.sinks = "mlp.router", "self_attn.sinks"
		n.microGateUp, n.microDown = "mlp.experts.gate_up_proj", "mlp.experts.down_proj"
	})
	ggufGPTOSSNames = ggufMoENames.with(func(n *tensorNames) {
		n.ffnNorm, n.sinks = "post_attention_norm", "attn_sinks.weight"
	})
)

var (
	qwen35Names     = folderNames.with(folderStates)
	qwen35MoENames  = qwenMoENames.with(folderStates)
	ggufQwen35Names = ggufNames.with(ggufStates).with(func(n *tensorNames) { n.factors = "" })
	// the same with experts
	ggufQwen35MoENames = ggufMoENames.with(ggufStates)

	qwenNextNames = qwenMoENames.with(folderStates).with(func(n *tensorNames) {
		n.mixed, n.z, n.beta, n.alpha = "", "", "", ""
		n.qkvz, n.ba = "linear_attn.in_proj_qkvz", "linear_attn.in_proj_ba"
	})
	ggufQwenNextNames = ggufMoENames.with(ggufStates).with(func(n *tensorNames) {
		n.beta, n.alpha, n.ba = "", "", "ssm_ba"
		n.qkvz = "ssm_in" // instead of two tensors, until 2026-02
	})
)

var (
	lfm2Names = folderNames.with(folderShort).with(func(n *tensorNames) {
		n.gate, n.up, n.down = "feed_forward.w1", "feed_forward.w3", "feed_forward.w2"
	})
	ggufLFM2Names = ggufNames.with(ggufShort).with(func(n *tensorNames) { n.factors = "" })
)

var (
	lfm2MoENames = lfm2Names.with(func(n *tensorNames) {
		n.router, n.choice = "feed_forward.gate", "feed_forward.expert_bias"
		n.gates, n.ups = "feed_forward.experts.%d.w1", "feed_forward.experts.%d.w3"
		n.downs, n.gateUps = "feed_forward.experts.%d.w2", "feed_forward.experts.gate_up_proj"
		n.allDowns = "feed_forward.experts.down_proj"
	})
	ggufLFM2MoENames = ggufMoENames.with(ggufShort).with(func(n *tensorNames) {
		n.share, n.choice = "", "exp_probs_b.bias"
	})
)

// folderShort sets the names of layers with short convolutions, and other ones of LFM2.
func folderShort(n *tensorNames) {
	n.norm, n.attentionNorm, n.ffnNorm = "model.embedding_norm", "operator_norm", "ffn_norm"
	n.out, n.qNorm, n.kNorm = "self_attn.out_proj", "self_attn.q_layernorm", "self_attn.k_layernorm"
	n.convIn, n.conv, n.convOut = "conv.in_proj", "conv.conv.weight", "conv.out_proj"
}

// ggufShort sets them for GGUF files.
func ggufShort(n *tensorNames) {
	n.norm = "token_embd_norm"
	n.convIn, n.conv, n.convOut = "shortconv.in_proj", "shortconv.conv.weight", "shortconv.out_proj"
}

// ggufExperts sets the names of experts in GGUF files.
func ggufExperts(n *tensorNames) {
	n.router, n.gates, n.ups, n.downs = "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps",
		"ffn_down_exps"
	n.gateUps = "ffn_gate_up_exps.weight"
	n.sharedGate, n.sharedUp, n.sharedDown = "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"
	n.share = "ffn_gate_inp_shexp"
}

// folderStates sets the names of layers that keep states.
func folderStates(n *tensorNames) {
	n.mixed, n.z = "linear_attn.in_proj_qkv", "linear_attn.in_proj_z"
	n.beta, n.alpha = "linear_attn.in_proj_b", "linear_attn.in_proj_a"
	n.conv, n.step = "linear_attn.conv1d.weight", "linear_attn.dt_bias"
	n.decay, n.stateNorm = "linear_attn.A_log", "linear_attn.norm"
	n.stateOut = "linear_attn.out_proj"
	n.further = mtpNames
}

// ggufStates sets them for GGUF files, where the norm before the network has another name, too.
func ggufStates(n *tensorNames) {
	n.ffnNorm = "post_attention_norm"
	n.mixed, n.z, n.beta, n.alpha = "attn_qkv", "attn_gate", "ssm_beta", "ssm_alpha"
	n.conv, n.step, n.decay = "ssm_conv1d.weight", "ssm_dt.bias", "ssm_a"
	n.stateNorm, n.stateOut = "ssm_norm", "ssm_out"
	ggufNextN(n)
}

// mtpNames are the names in folders of Qwen of a layer that guesses further tokens.
var mtpNames = furtherNames{layer: "mtp.layers.0.", join: "mtp.fc",
	tokenNorm: "mtp.pre_fc_norm_embedding", rowNorm: "mtp.pre_fc_norm_hidden", norm: "mtp.norm"}

// folderNextN sets them for folders where the layer follows the others.
func folderNextN(n *tensorNames) {
	at := n.layer
	n.further = furtherNames{layer: at, join: at + "eh_proj", tokenNorm: at + "enorm",
		rowNorm: at + "hnorm", norm: at + "shared_head.norm", embedding: at + "embed_tokens",
		head: at + "shared_head.head"}
}

// ggufNextN sets them for GGUF files.
func ggufNextN(n *tensorNames) {
	at := n.layer + "nextn."
	n.further = furtherNames{layer: n.layer, join: at + "eh_proj", tokenNorm: at + "enorm",
		rowNorm: at + "hnorm", norm: at + "shared_head_norm", embedding: at + "embed_tokens",
		head: at + "shared_head_head"}
}

// within returns the names in a file that also has a model for images.
func (n *tensorNames) within(l *weights.Loader) *tensorNames {
	for _, before := range []string{"model.language_model.", "language_model.model."} {
		if !l.Has(before + "embed_tokens.weight") {
			continue
		}
		inner := n.with(func(n *tensorNames) {
			for _, name := range []*string{&n.embedding, &n.norm, &n.layer, &n.inputs, &n.inputMatrix,
				&n.inputNorm} {
				*name = before + strings.TrimPrefix(*name, "model.")
			}
			if l.Has("language_model.lm_head.weight") {
				n.head = "language_model.lm_head"
			}
		})
		return &inner
	}
	return n
}

// with returns a changed copy.
func (n tensorNames) with(change func(*tensorNames)) tensorNames {
	change(&n)
	return n
}
