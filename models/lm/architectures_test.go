package lm

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/dev/gguftest"
)

// archPrompt has more tokens than the windows, and than the original positions, of the models
// below.
var archPrompt = []int{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4, 3, 3,
	8, 3, 2, 7, 9, 5, 0, 2, 8, 8, 4, 1, 9, 7}

// archCase is a model of a kind, in a folder or in a GGUF file.
type archCase struct {
	name    string
	context int // of Options
	folder  func(*fake, *reference)
	gguf    func(*reference) *fakeGGUF
}

// gemmaFolder makes a folder of gemma2 or gemma3.
func gemmaFolder(f *fake, r *reference, kind string) {
	f.config["model_type"], f.config["hidden_activation"] = kind, "gelu_pytorch_tanh"
	f.config["hidden_act"], f.config["sliding_window"] = "gelu_pytorch_tanh", 5
	f.config["query_pre_attn_scalar"], f.config["tie_word_embeddings"] = 12, true
	f.config["cache_implementation"] = "hybrid"
	for _, at := range []string{"model.layers.0.", "model.layers.1."} {
		f.add(at+"pre_feedforward_layernorm.weight", 24)
		f.add(at+"post_feedforward_layernorm.weight", 24)
	}
	delete(f.tensors, "lm_head.weight")
	r.gelu, r.after, r.lessOne, r.tied = true, true, true, true
	r.embeddings, r.scalar, r.windows = float64(float32(math.Sqrt(24))), 12, map[int]int{0: 5}
}

func gemmaGGUF(r *reference, kind string) *fakeGGUF {
	f := newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, kind, one("Q8_0"))
	f.Set(kind+".attention.sliding_window", uint32(5))
	f.Set(kind+".attention.key_length", uint32(16))
	f.Set(kind+".attention.value_length", uint32(16))
	f.without("output.weight")
	r.gelu, r.after, r.tied, r.head = true, true, true, 16
	r.embeddings, r.windows = 8, map[int]int{0: 5}
	return f
}

// phiFolder fuses tensors.
func phiFolder(f *fake, r *reference) {
	f.config["model_type"], f.config["original_max_position_embeddings"] = "phi3", 32
	f.fuse("self_attn.qkv_proj", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
	f.fuse("mlp.gate_up_proj", "mlp.gate_proj", "mlp.up_proj")
}

var shortFactors, longFactors = []float64{1, 1.25, 1.5}, []float64{1, 2, 4}

// phiScaled has rotations of six of eight channels, with factors.
func phiScaled(f *fake, r *reference, kind string) {
	phiFolder(f, r)
	f.config["partial_rotary_factor"] = 0.75
	f.config["rope_scaling"] = map[string]any{"type": kind, "short_factor": shortFactors,
		"long_factor": longFactors}
	r.rotated, r.factors = 6, shortFactors
	r.magnitude = math.Sqrt(1 + math.Log(512.0/32)/math.Log(32))
}

func phiGGUF(r *reference, factors []float64) *fakeGGUF {
	f := newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, "phi3", one("Q4_0"))
	f.fuse("attn_qkv", "attn_q", "attn_k", "attn_v")
	f.fuse("ffn_up", "ffn_gate", "ffn_up")
	f.Set("phi3.rope.dimension_count", uint32(6))
	f.Set("phi3.rope.scaling.original_context_length", uint32(32))
	f.Set("phi3.rope.scaling.attn_factor", float32(1.25))
	for name, x := range map[string][]float64{"short": shortFactors, "long": longFactors} {
		name = "rope_factors_" + name + ".weight"
		f.tensor(name, one("F32"), len(x))
		data := []float32{}
		for _, e := range x {
			data = append(data, float32(e))
		}
		f.setData(name, data)
	}
	r.head, r.rotated, r.factors, r.magnitude = 16, 6, factors, 1.25
	return f
}

var archCases = []archCase{
	{name: "gemma2", folder: func(f *fake, r *reference) {
		gemmaFolder(f, r, "gemma2")
		f.config["attn_logit_softcapping"], f.config["final_logit_softcapping"] = 2, 3
		r.scoreCap, r.logitCap = 2, 3
	}},
	{name: "gemma2, what is usual", folder: func(f *fake, r *reference) {
		gemmaFolder(f, r, "gemma2")
		f.config["layer_types"] = []string{"sliding_attention", "full_attention"}
		delete(f.config, "tie_word_embeddings")
		r.scoreCap, r.logitCap = 50, 30
	}},
	{name: "gemma2 of GGUF", gguf: func(r *reference) *fakeGGUF {
		f := gemmaGGUF(r, "gemma2")
		f.Set("gemma2.attn_logit_softcapping", float32(2))
		f.Set("gemma2.final_logit_softcapping", float32(3))
		r.scoreCap, r.logitCap = 2, 3
		return f
	}},
	{name: "gemma3", folder: func(f *fake, r *reference) {
		gemmaFolder(f, r, "gemma3_text")
		f.config["sliding_window_pattern"], f.config["rope_local_base_freq"] = 2, 30
		f.config["rope_scaling"] = map[string]any{"rope_type": "linear", "factor": 4}
		f.config["final_logit_softcapping"] = nil
		addHeadNorms(f)
		r.localTheta, r.factor, r.linear = 30, 4, true
	}},
	{name: "gemma3 of newer files", folder: func(f *fake, r *reference) {
		gemmaFolder(f, r, "gemma3_text")
		f.config["layer_types"] = []string{"full_attention", "sliding_attention"}
		delete(f.config, "rope_theta")
		f.config["rope_parameters"] = map[string]any{
			"full_attention":    map[string]any{"rope_type": "linear", "factor": 4, "rope_theta": 500},
			"sliding_attention": map[string]any{"rope_type": "default", "rope_theta": 30}}
		addHeadNorms(f)
		r.windows = map[int]int{1: 5}
		r.localTheta, r.factor, r.linear = 30, 4, true
	}},
	{name: "gemma3 of GGUF", gguf: func(r *reference) *fakeGGUF {
		f := gemmaGGUF(r, "gemma3")
		f.Set("gemma3.attention.sliding_window_pattern", uint32(2))
		f.Set("gemma3.rope.scaling.type", "linear")
		f.Set("gemma3.rope.scaling.factor", float32(4))
		f.Set("gemma3.rope.freq_base_swa", float32(30))
		r.localTheta, r.factor, r.linear = 30, 4, true
		return f
	}},
	{name: "gemma3 without a pattern", gguf: func(r *reference) *fakeGGUF {
		r.localTheta, r.windows = 10000, map[int]int{0: 5, 1: 5}
		f := gemmaGGUF(r, "gemma3")
		r.windows = map[int]int{0: 5, 1: 5}
		return f
	}},
	{name: "phi3", folder: phiFolder},
	{name: "phi3 with a window", folder: func(f *fake, r *reference) {
		phiFolder(f, r)
		f.config["sliding_window"], r.windows = 5, map[int]int{0: 5, 1: 5}
	}},
	{name: "phi3 for short texts", context: 32, folder: func(f *fake, r *reference) {
		phiScaled(f, r, "su")
	}},
	{name: "phi3 for long texts", context: 33, folder: func(f *fake, r *reference) {
		phiScaled(f, r, "longrope")
		r.factors = longFactors
	}},
	{name: "phi3 of GGUF for short texts", context: 32, gguf: func(r *reference) *fakeGGUF {
		return phiGGUF(r, shortFactors)
	}},
	{name: "phi3 of GGUF for long texts", context: 33, gguf: func(r *reference) *fakeGGUF {
		return phiGGUF(r, longFactors)
	}},
	{name: "arcee", folder: func(f *fake, r *reference) {
		f.config["model_type"], f.config["hidden_act"] = "arcee", "relu2"
		f.config["mlp_bias"], f.config["attention_bias"] = true, true
		addBiases(f, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
			"mlp.up_proj", "mlp.down_proj")
		f.withoutGates()
	}},
	{name: "arcee of GGUF", gguf: func(r *reference) *fakeGGUF {
		f := newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, "arcee", one("Q8_0"))
		f.withoutGates()
		f.without("blk.0.ffn_gate.weight", "blk.1.ffn_gate.weight")
		f.pair()
		r.head = 16
		return f
	}},
	{name: "starcoder2", folder: func(f *fake, r *reference) {
		starCoderFolder(f, r)
		f.config["sliding_window"], r.windows = 5, map[int]int{0: 5, 1: 5}
	}},
	{name: "starcoder2 of GGUF", gguf: func(r *reference) *fakeGGUF {
		f := newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, "starcoder2", one("Q8_0"))
		f.withoutGates()
		f.without("blk.0.ffn_gate.weight", "blk.1.ffn_gate.weight", "output.weight")
		f.tensor("model.norm.bias", one("F32"), 64)
		for _, at := range []string{"model.layers.0.", "model.layers.1."} {
			for name, out := range map[string]int{"input_layernorm": 64, "post_attention_layernorm": 64,
				"self_attn.q_proj": 64, "self_attn.k_proj": 32, "self_attn.v_proj": 32,
				"self_attn.o_proj": 64, "mlp.up_proj": 64, "mlp.down_proj": 64} {
				f.tensor(at+name+".bias", one("F32"), out)
			}
		}
		f.Set("starcoder2.attention.layer_norm_rms_epsilon", nil)
		f.Set("starcoder2.attention.layer_norm_epsilon", float32(1e-5))
		f.Set("tokenizer.ggml.pre", "starcoder")
		r.head, r.gelu, r.tied = 16, true, true
		return f
	}},
	{name: "cohere2", folder: func(f *fake, r *reference) {
		cohereFolder(f, r)
		f.config["logit_scale"], r.divisor = 0.25, 4
	}},
	{name: "cohere2 without windows", folder: func(f *fake, r *reference) {
		cohereFolder(f, r)
		f.config["layer_types"] = []string{"full_attention", "full_attention"}
		r.divisor, r.windows, r.unrotated = 16, nil, "all"
	}},
	{name: "cohere2 of GGUF", gguf: func(r *reference) *fakeGGUF {
		f := newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, "cohere2", one("Q8_0"))
		f.without("blk.0.ffn_norm.weight", "blk.1.ffn_norm.weight", "output.weight")
		f.Set("cohere2.attention.layer_norm_rms_epsilon", nil)
		for key, value := range map[string]any{"attention.layer_norm_epsilon": float32(1e-5),
			"attention.sliding_window": uint32(5), "attention.sliding_window_pattern": uint32(2),
			"logit_scale": float32(0.25), "rope.scaling.type": "none"} {
			f.Set("cohere2."+key, value)
		}
		f.Set("tokenizer.ggml.pre", "command-r")
		r.head, r.tied, r.pairs, r.parallel, r.divisor = 16, true, true, true, 4
		r.windows, r.unrotated = map[int]int{0: 5}, "model.layers.1."
		return f
	}},
	{name: "exaone of GGUF", gguf: func(r *reference) *fakeGGUF {
		f := newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, "exaone", one("Q8_0"))
		f.Set("tokenizer.ggml.pre", "exaone")
		f.tensor("rope_freqs.weight", one("F32"), 8)
		f.setData("rope_freqs.weight", []float32{1, 1, 1.5, 2, 4, 8, 8, 8})
		r.head, r.magnitude, r.factors = 16, 1, []float64{1, 1, 1.5, 2, 4, 8, 8, 8}
		return f
	}},
	{name: "internlm2 of GGUF", gguf: func(r *reference) *fakeGGUF {
		f := newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, "internlm2", one("Q8_0"))
		f.pair()
		r.head = 16
		return f
	}},
	{name: "qwen2moe", folder: func(f *fake, r *reference) { moeFolder(f, r, "qwen2_moe", 0, 1) }},
	{name: "qwen2moe, shares of one", folder: func(f *fake, r *reference) {
		moeFolder(f, r, "qwen2_moe", 1)
		f.config["norm_topk_prob"], f.config["decoder_sparse_step"] = true, 2
		r.normalized = true
	}},
	{name: "qwen3moe", folder: func(f *fake, r *reference) {
		moeFolder(f, r, "qwen3_moe", 0)
		f.config["norm_topk_prob"], f.config["mlp_only_layers"] = true, []int{1}
		r.normalized = true
	}},
	{name: "qwen3moe of newer files", folder: func(f *fake, r *reference) {
		moeFolder(f, r, "qwen3_moe", 0, 1)
		delete(f.config, "num_experts")
		f.config["num_local_experts"] = 5
	}},
	{name: "qwen2moe of GGUF", gguf: func(r *reference) *fakeGGUF {
		return moeGGUF(r, "qwen2moe", "Q8_0", func(f *fakeGGUF) {
			f.Set("qwen2moe.expert_shared_feed_forward_length", uint32(96))
		})
	}},
	{name: "qwen3moe of GGUF", gguf: func(r *reference) *fakeGGUF {
		r.normalized = true
		return moeGGUF(r, "qwen3moe", "Q4_0", func(*fakeGGUF) {})
	}},
	{name: "qwen3.5", folder: func(f *fake, r *reference) {
		addStates(f, r, "qwen3_5_text")
		f.config["layer_types"] = []string{"linear_attention", "full_attention"}
		f.config["attn_output_gate"] = true
		delete(f.config, "rope_theta")
		delete(f.config, "partial_rotary_factor")
		f.config["rope_parameters"] = map[string]any{"rope_type": "default", "rope_theta": 500,
			"partial_rotary_factor": 0.5, "mrope_section": []int{1, 1, 0}, "mrope_interleaved": true}
	}},
	{name: "qwen3.5 beside images", folder: func(f *fake, r *reference) {
		addStates(f, r, "qwen3_5_text")
		wrap(f, "qwen3_5", "Qwen3_5ForConditionalGeneration", "model.language_model.")
	}},
	{name: "gemma3 beside images", folder: func(f *fake, r *reference) {
		gemmaFolder(f, r, "gemma3_text")
		f.config["sliding_window_pattern"], f.config["rope_local_base_freq"] = 2, 30
		addHeadNorms(f)
		r.localTheta = 30
		f.add("vision_tower.something", 3)
		delete(f.config, "model_type")
		wrap(f, "gemma3", "Gemma3ForConditionalGeneration", "language_model.model.")
	}},
	{name: "qwen3next", folder: func(f *fake, r *reference) {
		moeFolder(f, r, "qwen2_moe", 0, 1)
		addStates(f, r, "qwen3_next")
		interlace(f)
		for _, at := range []string{"model.layers.0.", "model.layers.1."} {
			for _, name := range []string{"q", "k", "v"} {
				delete(f.tensors, at+"self_attn."+name+"_proj.bias")
			}
		}
		r.normalized = true
	}},
	{name: "qwen3.5 of GGUF", gguf: func(r *reference) *fakeGGUF {
		f := newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, "qwen35", one("Q8_0"))
		statesGGUF(f, r, "qwen35")
		f.Set("qwen35.rope.dimension_sections", []int32{2, 1, 1, 0})
		r.tiled = true
		return f
	}},
	{name: "qwen3next of GGUF", gguf: func(r *reference) *fakeGGUF {
		f := qwenNextGGUF(r)
		f.Set("qwen3next.attention.recurrent_layers", []bool{true, false})
		return f
	}},
	{name: "gpt-oss", folder: gptFolder},
	{name: "gpt-oss of GGUF", gguf: gptGGUF},
	{name: "olmo2", folder: func(f *fake, r *reference) {
		olmoFolder(f, r, "olmo2")
		f.config["attention_bias"] = true
		addBiases(f, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
	}},
	{name: "olmo3", folder: olmo3Folder},
	{name: "olmo3, kinds of layers", folder: func(f *fake, r *reference) {
		olmo3Folder(f, r)
		f.config["layer_types"] = []string{"full_attention", "sliding_attention"}
		r.windows = map[int]int{1: 5}
	}},
	{name: "olmo2 of GGUF", gguf: func(r *reference) *fakeGGUF { return olmoGGUF(r) }},
	{name: "olmo3 of GGUF", gguf: func(r *reference) *fakeGGUF {
		r.layers = 4
		f := olmoGGUF(r)
		f.Set("olmo2.attention.sliding_window", uint32(5))
		f.Set("olmo2.attention.sliding_window_pattern", []bool{true, true, true, false})
		f.Set("olmo2.rope.scaling.type", "yarn")
		f.Set("olmo2.rope.scaling.factor", float32(8))
		f.Set("olmo2.rope.scaling.original_context_length", uint32(64))
		f.Set("olmo2.rope.scaling.attn_factor", float32(0.1*math.Log(8)+1))
		r.windows, r.localTheta = map[int]int{0: 5, 1: 5, 2: 5}, 500
		r.yarn, r.factor, r.original = true, 8, 64
		return f
	}},
	{name: "exaone4", folder: exaoneFolder},
	{name: "exaone4 without windows", folder: func(f *fake, r *reference) {
		exaoneFolder(f, r)
		f.config["sliding_window"], f.config["sliding_window_pattern"] = nil, 0
		r.windows, r.unrotated = nil, ""
	}},
	{name: "exaone4 of GGUF", gguf: func(r *reference) *fakeGGUF { return exaoneGGUF(r, 4) }},
	{name: "smollm3", folder: func(f *fake, r *reference) {
		f.config["model_type"], f.config["no_rope_layer_interval"] = "smollm3", 2
		f.config["use_sliding_window"], f.config["tie_word_embeddings"] = false, false
		r.unrotated = "model.layers.1."
	}},
	{name: "smollm3, a list of layers", folder: func(f *fake, r *reference) {
		f.config["model_type"], f.config["no_rope_layers"] = "smollm3", []int{0, 1}
		delete(f.tensors, "lm_head.weight")
		r.unrotated, r.tied = "model.layers.0.", true
	}},
	{name: "smollm3 of GGUF", gguf: func(r *reference) *fakeGGUF {
		f := newShapedGGUF(ggufShape{4, 64, 64, 4, 2, 16, 20}, "smollm3", one("Q8_0"))
		f.pair()
		r.head, r.layers, r.unrotated = 16, 4, "model.layers.3."
		return f
	}},
	{name: "seed_oss", folder: func(f *fake, _ *reference) {
		f.config["model_type"], f.config["residual_dropout"] = "seed_oss", 0.1
		addBiases(f, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
	}},
	{name: "seed_oss, other biases", folder: func(f *fake, _ *reference) {
		f.config["model_type"], f.config["attention_bias"] = "seed_oss", false
		f.config["attention_out_bias"], f.config["mlp_bias"] = true, true
		addBiases(f, "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
	}},
	{name: "seed_oss of GGUF", gguf: func(r *reference) *fakeGGUF {
		f := newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, "seed_oss", one("Q8_0"))
		for i, at := range []string{"model.layers.0.", "model.layers.1."} {
			f.tensorNamed(fmt.Sprintf("blk.%d.ffn_norm.weight", i)).Name =
				fmt.Sprintf("blk.%d.post_attention_norm.weight", i)
			f.tensor(at+"self_attn.q_proj.bias", one("F32"), 64)
		}
		r.head = 16
		return f
	}},
	{name: "mixtral", folder: mixtralFolder},
	{name: "mixtral with a window", folder: func(f *fake, r *reference) {
		mixtralFolder(f, r)
		f.config["sliding_window"], r.windows = 5, map[int]int{0: 5, 1: 5}
	}},
	{name: "mixtral of GGUF", gguf: func(r *reference) *fakeGGUF {
		r.normalized = true
		f := moeGGUF(r, "llama", "Q4_0", func(*fakeGGUF) {})
		f.Set("llama.expert_feed_forward_length", nil)
		f.Set("llama.feed_forward_length", uint32(32))
		return f
	}},
	{name: "ernie4_5", folder: func(f *fake, r *reference) {
		f.config["model_type"], f.config["tie_word_embeddings"] = "ernie4_5", false
		r.pairs = true
	}},
	{name: "ernie4_5 with biases", folder: func(f *fake, r *reference) {
		f.config["model_type"], f.config["use_bias"] = "ernie4_5", true
		delete(f.tensors, "lm_head.weight")
		addBiases(f, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
			"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
		r.pairs, r.tied = true, true
	}},
	{name: "ernie4_5 of GGUF", gguf: func(r *reference) *fakeGGUF {
		r.head, r.pairs = 16, true
		return newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, "ernie4_5", one("Q8_0"))
	}},
	{name: "ernie4_5_moe", folder: ernieMoEFolder},
	{name: "ernie4_5_moe, the first layers", folder: func(f *fake, r *reference) {
		ernieMoEFolder(f, r)
		f.config["moe_layer_start_index"], f.config["moe_layer_end_index"] = 0, 0
		for name, x := range f.tensors {
			if other, ok := strings.CutPrefix(name, "model.layers.1.mlp."); ok {
				f.tensors["model.layers.0.mlp."+other] = x
				delete(f.tensors, name)
			}
		}
		f.hide("model.layers.0.mlp.gate.e_score_correction_bias")
		for _, name := range []string{"gate", "up", "down"} {
			name = "model.layers.%d.mlp." + name + "_proj.weight"
			f.tensors[fmt.Sprintf(name, 1)] = f.tensors[fmt.Sprintf(name, 0)]
			delete(f.tensors, fmt.Sprintf(name, 0))
		}
	}},
	{name: "ernie4_5_moe of GGUF", gguf: func(r *reference) *fakeGGUF {
		f := moeGGUF(r, "ernie4_5-moe", "Q8_0", decide)
		for key, value := range map[string]any{"leading_dense_block_count": uint32(1),
			"expert_shared_count": uint32(3), "expert_shared_feed_forward_length": uint32(96),
			"interleave_moe_layer_step": uint32(1)} {
			f.Set("ernie4_5-moe."+key, value)
		}
		r.normalized, r.routeScale, r.softmaxed, r.pairs = true, 1, true, true
		return f
	}},
	{name: "glm4", folder: func(f *fake, r *reference) {
		glm4Folder(f, r)
		addBiases(f, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
	}},
	{name: "glm4 without biases", folder: func(f *fake, r *reference) {
		glm4Folder(f, r)
		f.config["attention_bias"], f.config["partial_rotary_factor"] = false, 0.25
		r.rotated = 2
	}},
	{name: "glm4 of GGUF", gguf: glm4GGUF},
	{name: "glm4_moe", folder: func(f *fake, r *reference) {
		glmMoEFolder(f, r)
		f.config["attention_bias"] = true
		addBiases(f, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
	}},
	{name: "glm4_moe with other keys", folder: func(f *fake, r *reference) {
		glmMoEFolder(f, r)
		fuseExperts(f)
		f.config["use_qk_norm"], f.config["norm_topk_prob"] = true, false
		f.config["num_nextn_predict_layers"] = 1
		f.add("model.layers.2.eh_proj.weight", 3)
		addHeadNorms(f)
		r.normalized = false
	}},
	{name: "glm4_moe of GGUF", gguf: func(r *reference) *fakeGGUF { return glmMoEGGUF(r) }},
	{name: "glm4_moe of GGUF with norms of heads", gguf: func(r *reference) *fakeGGUF {
		f := glmMoEGGUF(r)
		for _, at := range []string{"model.layers.0.", "model.layers.1."} {
			f.tensor(at+"self_attn.q_norm.weight", one("F32"), 16)
			f.tensor(at+"self_attn.k_norm.weight", one("F32"), 16)
		}
		f.Set("glm4moe.expert_weights_norm", nil)
		r.normalized = false
		return f
	}},
	{name: "ministral3", folder: ministralFolder},
	{name: "ministral3 beside images", folder: func(f *fake, r *reference) {
		ministralFolder(f, r)
		wrap(f, "mistral3", "Mistral3ForConditionalGeneration", "language_model.model.")
		f.config["spatial_merge_size"], f.config["vision_feature_layer"] = 2, -1
	}},
	{name: "mistral beside images", folder: func(f *fake, r *reference) {
		f.config["model_type"], f.config["sliding_window"] = "mistral", nil
		wrap(f, "mistral3", "Mistral3ForConditionalGeneration", "language_model.model.")
	}},
	{name: "ministral3, what is usual", folder: func(f *fake, r *reference) {
		f.config["model_type"] = "ministral3"
		delete(f.config, "rope_theta")
		r.theta, r.yarn, r.factor, r.original, r.magnitude = 1e6, true, 16, 16384, 1
	}},
	{name: "ministral3 of GGUF", gguf: func(r *reference) *fakeGGUF {
		f := newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, "mistral3", one("Q8_0"))
		f.pair()
		f.Set("mistral3.attention.key_length", uint32(16))
		f.Set("mistral3.attention.value_length", uint32(16))
		f.Set("mistral3.attention.temperature_scale", float32(0.5))
		f.Set("mistral3.attention.temperature_length", uint32(16))
		f.Set("mistral3.rope.scaling.type", "yarn")
		f.Set("mistral3.rope.scaling.factor", float32(4))
		f.Set("mistral3.rope.scaling.original_context_length", uint32(16))
		f.Set("mistral3.rope.scaling.yarn_log_multiplier", float32(1))
		r.head, r.queryScale = 16, 0.5
		r.yarn, r.factor, r.original, r.magnitude = true, 4, 16, 1
		return f
	}},
	{name: "lfm2", folder: func(f *fake, r *reference) {
		lfm2Folder(f, r)
		f.config["layer_types"], f.config["conv_bias"] = []string{"conv", "full_attention"}, false
		f.config["block_auto_adjust_ff_dim"], f.config["rms_norm_eps"] = false, 1e-3
		f.config["norm_eps"] = 1e-5
	}},
	{name: "lfm2 of older keys", folder: func(f *fake, r *reference) {
		lfm2Folder(f, r)
		delete(f.config, "intermediate_size")
		delete(f.config, "rope_theta")
		for key, value := range map[string]any{"full_attn_idxs": []int{1}, "block_ff_dim": 54,
			"block_multiple_of": 8, "theta": 500.0, "tie_embedding": true, "num_heads": 4} {
			f.config[key] = value // ⅔ of 54 is 36, and 40 the next multiple of 8
		}
	}},
	{name: "lfm2 of GGUF", gguf: func(r *reference) *fakeGGUF {
		f := newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, "lfm2", one("Q8_0"))
		lfm2GGUFOf(f, r, "lfm2")
		return f
	}},
	{name: "lfm2_moe", folder: lfm2MoEFolder},
	{name: "lfm2_moe without biases", folder: func(f *fake, r *reference) {
		lfm2MoEFolder(f, r)
		const bias = "model.layers.1.mlp.gate.e_score_correction_bias"
		delete(f.tensors, bias)
		delete(f.tensors, "model.layers.1.feed_forward.expert_bias")
		f.config["use_expert_bias"], f.config["norm_topk_prob"] = false, false
		r.normalized, r.least = false, 0
	}},
	{name: "lfm2_moe of GGUF", gguf: func(r *reference) *fakeGGUF {
		f := moeGGUF(r, "lfm2moe", "Q8_0", decide)
		lfm2GGUFOf(f, r, "lfm2moe")
		f.Set("lfm2moe.leading_dense_block_count", uint32(1))
		f.Set("lfm2moe.expert_gating_func", uint32(2))
		r.normalized, r.routeScale, r.least = true, 1, 1e-6
		return f
	}},
	{name: "granite", folder: graniteFolder},
	{name: "granitemoehybrid", folder: func(f *fake, r *reference) {
		graniteHybridFolder(f, r)
		f.config["position_embedding_type"] = "rope"
	}},
	{name: "granitemoehybrid without rotations", folder: func(f *fake, r *reference) {
		graniteHybridFolder(f, r)
		f.config["position_embedding_type"] = "nope"
		r.unrotated = "all"
	}},
	{name: "granitemoehybrid with Mamba", folder: mambaFolder},
	{name: "granitemoehybrid with Mamba without biases", folder: func(f *fake, r *reference) {
		mambaFolder(f, r)
		delete(f.tensors, "model.layers.0.mamba.conv1d.bias")
		f.config["mamba_conv_bias"] = false
	}},
	{name: "granitehybrid of GGUF", gguf: mambaGGUF},
	{name: "granitemoehybrid with experts", folder: graniteMoEFolder},
	{name: "granitehybrid of GGUF with experts", gguf: func(r *reference) *fakeGGUF {
		f := moeGGUF(r, "granitehybrid", "Q8_0", func(*fakeGGUF) {})
		f.pair()
		f.addMamba(r)
		for key, value := range map[string]any{"feed_forward_length": uint32(32),
			"expert_shared_feed_forward_length": uint32(96), "expert_feed_forward_length": nil,
			"embedding_scale": float32(12), "attention.scale": float32(0.25),
			"residual_scale": float32(0.25), "logit_scale": float32(8),
			"rope.scaling.finetuned": false} {
			f.Set("granitehybrid."+key, value)
		}
		r.embeddings, r.scalar, r.residual, r.divisor, r.unrotated = 12, 16, 0.25, 8, "all"
		r.normalized = true
		return f
	}},
	{name: "granitemoe", folder: func(f *fake, r *reference) { graniteOldMoE(f, r, "granitemoe") }},
	{name: "granitemoeshared", folder: func(f *fake, r *reference) {
		graniteOldMoE(f, r, "granitemoeshared")
	}},
	{name: "granitemoe of GGUF", gguf: func(r *reference) *fakeGGUF {
		f := moeGGUF(r, "granitemoe", "Q8_0", func(*fakeGGUF) {})
		f.pair()
		for key, value := range map[string]any{"feed_forward_length": uint32(32),
			"expert_feed_forward_length": nil, "embedding_scale": float32(12),
			"attention.scale": float32(0.25), "residual_scale": float32(0.25),
			"logit_scale": float32(8)} {
			f.Set("granitemoe."+key, value)
		}
		r.embeddings, r.scalar, r.residual, r.divisor, r.normalized = 12, 16, 0.25, 8, true
		return f
	}},
	{name: "granite of GGUF", gguf: func(r *reference) *fakeGGUF { return graniteGGUF(r) }},
	{name: "granite of GGUF without rotations", gguf: func(r *reference) *fakeGGUF {
		f := graniteGGUF(r)
		f.Set("granite.rope.scaling.finetuned", false)
		r.unrotated = "all"
		return f
	}},
	{name: "phi3 of GGUF without factors", gguf: func(r *reference) *fakeGGUF {
		f := phiGGUF(r, []float64{1, 1, 1})
		f.without("rope_factors_short.weight", "rope_factors_long.weight")
		return f
	}},
}

// widen gives rows between layers more elements.
func (f *fake) widen(dim int) {
	for name, x := range f.tensors {
		shape := slices.Clone(x.shape)
		for i := range shape {
			if shape[i] == 24 {
				shape[i] = dim
			}
		}
		f.add(name, shape...)
	}
}

// olmoFolder has norms after attention and networks only, and norms of all heads.
func olmoFolder(f *fake, r *reference, kind string) {
	f.config["model_type"] = kind
	delete(f.config, "head_dim")
	f.config["hidden_size"] = 32
	f.widen(32)
	for _, at := range []string{"model.layers.0.", "model.layers.1."} {
		delete(f.tensors, at+"input_layernorm.weight")
		f.add(at+"post_feedforward_layernorm.weight", 32)
		f.add(at+"self_attn.q_norm.weight", 32)
		f.add(at+"self_attn.k_norm.weight", 16)
	}
	r.after = true
}

// olmo3Folder has a window in the first layer, whose rotations are not stretched.
func olmo3Folder(f *fake, r *reference) {
	olmoFolder(f, r, "olmo3")
	f.config["layer_types"] = []string{"sliding_attention", "full_attention"}
	f.config["sliding_window"] = 5
	f.config["rope_scaling"] = map[string]any{"rope_type": "yarn", "factor": 8, "beta_fast": 32,
		"beta_slow": 1, "original_max_position_embeddings": 64,
		"attention_factor": 0.1*math.Log(8) + 1}
	r.windows, r.localTheta = map[int]int{0: 5}, 500
	r.yarn, r.factor, r.original = true, 8, 64
}

// exaoneFolder has a window in the first layer, which alone has rotations.
func exaoneFolder(f *fake, r *reference) {
	for _, at := range []string{"model.layers.0.", "model.layers.1."} {
		delete(f.tensors, at+"input_layernorm.weight")
		f.add(at+"post_feedforward_layernorm.weight", 24)
	}
	addHeadNorms(f)
	f.config["model_type"], f.config["sliding_window"] = "exaone4", 5
	f.config["sliding_window_pattern"] = "LG"
	r.after, r.windows, r.unrotated = true, map[int]int{0: 5}, "model.layers.1."
}

// exaoneGGUF has a window and rotations in all layers except the last of each four.
func exaoneGGUF(r *reference, layers int) *fakeGGUF {
	r.layers, r.windows, r.unrotated = layers, map[int]int{0: 5, 1: 5, 2: 5}, "model.layers.3."
	f := afterGGUF(r, "exaone4", 16, 16)
	f.Set("exaone4.attention.sliding_window", uint32(5))
	f.Set("exaone4.attention.sliding_window_pattern",
		slices.Repeat([]bool{true, true, true, false}, layers/4))
	return f
}

func olmoGGUF(r *reference) *fakeGGUF { return afterGGUF(r, "olmo2", 64, 32) }

// afterGGUF has no norms before attention and networks, and norms of queries and keys of a size.
func afterGGUF(r *reference, kind string, queries, keys int) *fakeGGUF {
	f := newShapedGGUF(ggufShape{r.layers, 64, 64, 4, 2, 16, 20}, kind, one("Q8_0"))
	for i := range r.layers {
		at := fmt.Sprintf("model.layers.%d.", i)
		delete(f.tensors, at+"input_layernorm.weight")
		delete(f.tensors, at+"pre_feedforward_layernorm.weight")
		f.without(fmt.Sprintf("blk.%d.attn_norm.weight", i), fmt.Sprintf("blk.%d.ffn_norm.weight", i))
		f.tensor(at+"self_attn.q_norm.weight", one("F32"), queries)
		f.tensor(at+"self_attn.k_norm.weight", one("F32"), keys)
	}
	r.head, r.after = 16, true
	return f
}

// mixtralFolder has experts of the width of networks.
func mixtralFolder(f *fake, r *reference) {
	addExperts(f, 5, 40, 24, 0, 1)
	f.config["model_type"], f.config["num_local_experts"] = "mixtral", 5
	f.config["num_experts_per_tok"], f.config["router_aux_loss_coef"] = 2, 0.02
	names := strings.NewReplacer("mlp.", "block_sparse_moe.", "gate_proj", "w1", "up_proj", "w3",
		"down_proj", "w2")
	for name, x := range maps.Clone(f.tensors) {
		if strings.Contains(name, "mlp.") {
			f.tensors[names.Replace(name)] = x
			f.hide(name)
		}
	}
	r.used, r.normalized = 2, true
}

// starCoderFolder has LayerNorm, biases everywhere, and networks without gates.
func starCoderFolder(f *fake, r *reference) {
	f.config["model_type"], f.config["norm_epsilon"] = "starcoder2", 1e-5
	f.config["hidden_act"], f.config["rms_norm_eps"] = "gelu_pytorch_tanh", 1
	f.withoutGates()
	addBiases(f, "input_layernorm", "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj",
		"self_attn.v_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj")
	f.add("model.norm.bias", 24)
	f.hide("lm_head.weight")
	names := strings.NewReplacer("up_proj", "c_fc", "down_proj", "c_proj")
	for name, x := range maps.Clone(f.tensors) {
		if strings.Contains(name, "mlp.") {
			f.tensors[names.Replace(name)] = x
			f.hide(name)
		}
	}
	r.gelu, r.tied = true, true
}

// cohereFolder has a window and rotations in the first layer, of neighbours.
func cohereFolder(f *fake, r *reference) {
	f.config["model_type"], f.config["layer_norm_eps"] = "cohere2", 1e-5
	f.config["sliding_window"], f.config["sliding_window_pattern"] = 5, 2
	f.config["use_qk_norm"], f.config["position_embedding_type"] = false, "rope_gptj"
	f.hide("lm_head.weight")
	for _, at := range []string{"model.layers.0.", "model.layers.1."} {
		delete(f.tensors, at+"post_attention_layernorm.weight")
	}
	r.tied, r.pairs, r.parallel = true, true, true
	r.windows, r.unrotated = map[int]int{0: 5}, "model.layers.1."
}

// withoutGates removes the gates of networks.
func (f *fake) withoutGates() {
	for name := range f.tensors {
		if strings.Contains(name, "mlp.gate_proj") {
			delete(f.tensors, name)
		}
	}
}

// glm4Folder has norms before and after attention and networks, and one tensor of gate and up.
func glm4Folder(f *fake, r *reference) {
	f.config["model_type"] = "glm4"
	for _, at := range []string{"model.layers.0.", "model.layers.1."} {
		f.add(at+"post_self_attn_layernorm.weight", 24)
		f.add(at+"post_mlp_layernorm.weight", 24)
	}
	f.fuse("mlp.gate_up_proj", "mlp.gate_proj", "mlp.up_proj")
	r.rotated, r.pairs = 4, true
}

func glm4GGUF(r *reference) *fakeGGUF {
	f := newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, "glm4", one("Q8_0"))
	for i, at := range []string{"model.layers.0.", "model.layers.1."} {
		for name, to := range map[string]string{"self_attn": "attention", "mlp": "ffw"} {
			f.tensor(at+"post_"+name+"_layernorm.weight", one("F32"), 64)
			f.Tensors[len(f.Tensors)-1].Name = fmt.Sprintf("blk.%d.post_%s_norm.weight", i, to)
		}
		for name, out := range map[string]int{"q": 64, "k": 32, "v": 32} {
			f.tensor(at+"self_attn."+name+"_proj.bias", one("F32"), out)
		}
	}
	f.fuse("ffn_up", "ffn_gate", "ffn_up")
	f.Set("glm4.rope.dimension_count", uint32(8))
	r.head, r.rotated, r.pairs = 16, 8, true
	return f
}

// decisive are biases that choose the second and the last expert, whatever their sigmoids are.
var decisive = fakeTensor{[]int{5}, []float32{0, 2, 0, 0, 2}}

// decide gives the second layer of a GGUF file these biases.
func decide(f *fakeGGUF) {
	f.tensors["model.layers.1.mlp.gate.e_score_correction_bias"] = decisive
	f.setData("blk.1.exp_probs_b.bias", decisive.data)
}

// glmMoEFolder has experts in the second layer.
func glmMoEFolder(f *fake, r *reference) {
	addExperts(f, 5, 16, 24, 1)
	const at = "model.layers.1.mlp."
	f.tensors[at+"gate.e_score_correction_bias"] = decisive
	for name, shape := range map[string][]int{"gate": {32, 24}, "up": {32, 24}, "down": {24, 32}} {
		f.add(at+"shared_experts."+name+"_proj.weight", shape...)
	}
	for key, value := range map[string]any{"model_type": "glm4_moe", "n_routed_experts": 5,
		"num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_shared_experts": 2,
		"routed_scaling_factor": 1.5, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1} {
		f.config[key] = value
	}
	r.used, r.normalized, r.routeScale, r.rotated = 2, true, 1.5, 4
}

// ernieMoEFolder has the same with softmax, and other keys and names.
func ernieMoEFolder(f *fake, r *reference) {
	glmMoEFolder(f, r)
	const at = "model.layers.1.mlp."
	f.tensors[at+"moe_statics.e_score_correction_bias"] = fakeTensor{[]int{1, 5}, decisive.data}
	f.hide(at + "gate.e_score_correction_bias")
	for _, key := range []string{"n_routed_experts", "num_experts_per_tok", "n_shared_experts",
		"routed_scaling_factor", "first_k_dense_replace", "n_group", "topk_group"} {
		delete(f.config, key)
	}
	for key, value := range map[string]any{"model_type": "ernie4_5_moe", "moe_num_experts": 5,
		"moe_k": 2, "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_end_index": -1,
		"moe_layer_interval": 1, "moe_norm_min": 1e-12, "use_bias": false, "moe_capacity": []int{5},
		"num_nextn_predict_layers": 1, "tie_word_embeddings": false} {
		f.config[key] = value
	}
	f.add("model.mtp_block.0.mlp.something", 3)
	r.rotated, r.routeScale, r.softmaxed, r.pairs = 0, 1, true, true
}

func glmMoEGGUF(r *reference) *fakeGGUF {
	f := moeGGUF(r, "glm4moe", "Q8_0", decide)
	for key, value := range map[string]any{"leading_dense_block_count": uint32(1),
		"expert_shared_count": uint32(3), "expert_weights_scale": float32(1.5),
		"expert_weights_norm": true, "expert_gating_func": uint32(2),
		"rope.dimension_count": uint32(8)} {
		f.Set("glm4moe."+key, value)
	}
	r.normalized, r.routeScale, r.rotated = true, 1.5, 8
	return f
}

// ministralFolder has queries that grow with their positions.
func ministralFolder(f *fake, r *reference) {
	f.config["model_type"] = "ministral3"
	delete(f.config, "rope_theta")
	f.config["rope_parameters"] = map[string]any{"type": "yarn", "rope_type": "yarn",
		"rope_theta": 500, "factor": 4, "original_max_position_embeddings": 16, "beta_fast": 32,
		"beta_slow": 1, "mscale": 1, "mscale_all_dim": 1, "llama_4_scaling_beta": 0.5}
	r.queryScale, r.yarn, r.factor, r.original, r.magnitude = 0.5, true, 4, 16, 1
}

// lfm2Folder has a short convolution in the first layer, and other names.
func lfm2Folder(f *fake, r *reference) {
	delete(f.tensors, "lm_head.weight")
	for _, name := range []string{"q", "k", "v", "o"} {
		delete(f.tensors, "model.layers.0.self_attn."+name+"_proj.weight")
	}
	const at = "model.layers.0.conv."
	f.add(at+"in_proj.weight", 72, 24)
	f.add(at+"conv.weight", 24, 1, 3)
	f.add(at+"out_proj.weight", 24, 24)
	f.add("model.layers.1.self_attn.q_norm.weight", 8)
	f.add("model.layers.1.self_attn.k_norm.weight", 8)
	for name, x := range maps.Clone(f.tensors) {
		if other := lfm2TensorNames.Replace(name); other != name {
			f.tensors[other] = x
			f.hide(name)
		}
	}
	f.config["model_type"], f.config["conv_L_cache"] = "lfm2", 3
	r.tied = true
}

// lfm2MoEFolder has experts in the second layer.
func lfm2MoEFolder(f *fake, r *reference) {
	addExperts(f, 5, 16, 24, 1)
	f.tensors["model.layers.1.mlp.gate.e_score_correction_bias"] = decisive
	lfm2Folder(f, r)
	for key, value := range map[string]any{"model_type": "lfm2_moe", "num_experts": 5,
		"num_experts_per_tok": 2, "moe_intermediate_size": 16, "num_dense_layers": 1,
		"routed_scaling_factor": 1.5, "use_expert_bias": true, "norm_topk_prob": true,
		"layer_types": []string{"conv", "full_attention"}} {
		f.config[key] = value
	}
	r.used, r.normalized, r.routeScale, r.least = 2, true, 1.5, 1e-6
}

var lfm2TensorNames = strings.NewReplacer("model.norm", "model.embedding_norm",
	"input_layernorm", "operator_norm", "post_attention_layernorm", "ffn_norm",
	"mlp.gate.e_score_correction_bias", "feed_forward.expert_bias", "mlp.", "feed_forward.",
	"gate_proj", "w1", "up_proj", "w3", "down_proj", "w2", "self_attn.o_proj", "self_attn.out_proj",
	"q_norm", "q_layernorm", "k_norm", "k_layernorm")

// lfm2GGUFOf has a short convolution in the first layer.
func lfm2GGUFOf(f *fakeGGUF, r *reference, kind string) {
	f.without("blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight",
		"blk.0.attn_output.weight", "output.weight")
	const at = "model.layers.0.conv."
	f.tensor(at+"in_proj.weight", one("Q8_0"), 192, 64)
	f.tensor(at+"conv.weight", one("F32"), 64, 3)
	f.tensor(at+"out_proj.weight", one("Q4_0"), 64, 64)
	for i := range f.Tensors {
		x := &f.Tensors[i]
		x.Name = strings.Replace(x.Name, ".conv.", ".shortconv.", 1)
		x.Name = strings.Replace(x.Name, "output_norm", "token_embd_norm", 1)
	}
	f.tensor("model.layers.1.self_attn.q_norm.weight", one("F32"), 16)
	f.tensor("model.layers.1.self_attn.k_norm.weight", one("F32"), 16)
	f.Set(kind+".attention.head_count_kv", []uint32{0, 2})
	f.Set(kind+".shortconv.l_cache", uint32(3))
	r.head, r.tied = 16, true
}

// graniteFolder has multipliers.
func graniteFolder(f *fake, r *reference) {
	for key, value := range map[string]any{"model_type": "granite", "embedding_multiplier": 12,
		"attention_multiplier": 0.25, "residual_multiplier": 0.22, "logits_scaling": 8} {
		f.config[key] = value
	}
	r.embeddings, r.scalar, r.residual, r.divisor = 12, 16, 0.22, 8
}

// graniteHybridFolder has these, and one tensor of gate and up.
func graniteHybridFolder(f *fake, r *reference) {
	graniteFolder(f, r)
	f.fuse("shared_mlp.input_linear", "mlp.gate_proj", "mlp.up_proj")
	for _, at := range []string{"model.layers.0.", "model.layers.1."} {
		f.tensors[at+"shared_mlp.output_linear.weight"] = f.tensors[at+"mlp.down_proj.weight"]
		f.hide(at + "mlp.down_proj.weight")
	}
	for key, value := range map[string]any{"model_type": "granitemoehybrid",
		"shared_intermediate_size": 40, "intermediate_size": 99, "num_local_experts": 0,
		"num_experts_per_tok": 0, "mamba_chunk_size": 256,
		"layer_types": []string{"attention", "attention"}} {
		f.config[key] = value
	}
}

// mambaFolder has a Mamba layer of six heads of 8 with states of 16.
func mambaFolder(f *fake, r *reference) {
	graniteHybridFolder(f, r)
	for _, name := range []string{"q", "k", "v", "o"} {
		delete(f.tensors, "model.layers.0.self_attn."+name+"_proj.weight")
	}
	const at = "model.layers.0.mamba."
	f.add(at+"in_proj.weight", 48+80+6, 24)
	f.add(at+"conv1d.weight", 80, 1, 4)
	f.add(at+"conv1d.bias", 80)
	f.add(at+"out_proj.weight", 24, 48)
	f.add(at+"norm.weight", 48)
	for _, name := range []string{"dt_bias", "A_log", "D"} {
		f.add(at+name, 6)
	}
	for key, value := range map[string]any{"layer_types": []string{"mamba", "attention"},
		"mamba_n_heads": 6, "mamba_d_head": 8, "mamba_d_state": 16, "mamba_d_conv": 4,
		"mamba_expand": 2, "position_embedding_type": "nope"} {
		f.config[key] = value
	}
	r.unrotated = "all"
}

func mambaGGUF(r *reference) *fakeGGUF {
	f := graniteOf(r, "granitehybrid")
	f.addMamba(r)
	return f
}

// addMamba makes the first layer of a GGUF file one of Mamba.
func (f *fakeGGUF) addMamba(r *reference) {
	f.without("blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight",
		"blk.0.attn_output.weight")
	const at = "model.layers.0.mamba."
	f.tensor(at+"in_proj.weight", one("Q8_0"), 128+160+8, 64)
	f.tensor(at+"conv1d.weight", one("F32"), 160, 4)
	f.tensor(at+"conv1d.bias", one("F32"), 160)
	f.tensor(at+"out_proj.weight", one("Q8_0"), 64, 128)
	f.tensor(at+"norm.weight", one("F32"), 128)
	f.tensor(at+"dt_bias", one("F32"), 8)
	f.tensor(at+"A_log", one("F32"), 8, 1)
	f.tensor(at+"D", one("F32"), 8, 1)
	decays := f.tensors[at+"A_log"]
	decays.data = slices.Clone(decays.data) // other models share them
	for i, x := range decays.data {
		decays.data[i] = -x - 0.25
	}
	f.tensors[at+"A_log"] = decays
	f.setData("blk.0.mamba.A_log", decays.data)
	names := strings.NewReplacer("mamba.in_proj", "ssm_in", "mamba.conv1d", "ssm_conv1d",
		"mamba.out_proj", "ssm_out", "mamba.norm", "ssm_norm", "mamba.dt_bias", "ssm_dt.bias",
		"mamba.A_log", "ssm_a", "mamba.D", "ssm_d")
	for i := range f.Tensors {
		f.Tensors[i].Name = names.Replace(f.Tensors[i].Name)
	}
	f.Set("granitehybrid.attention.head_count_kv", []uint32{0, 2})
	for key, value := range map[string]uint32{"conv_kernel": 4, "inner_size": 128,
		"state_size": 16, "time_step_rank": 8, "group_count": 1} {
		f.Set("granitehybrid.ssm."+key, value)
	}
	r.negated = true
}

// graniteMoEFolder has experts, and a network that all tokens use.
func graniteMoEFolder(f *fake, r *reference) {
	mambaFolder(f, r)
	addExperts(f, 5, 16, 24, 0, 1)
	fuseExperts(f)
	for i := range 2 {
		at := fmt.Sprintf("model.layers.%d.", i)
		for name, shape := range map[string][]int{"gate": {40, 24}, "up": {40, 24}, "down": {24, 40}} {
			f.add(at+"mlp.shared_experts."+name+"_proj.weight", shape...)
			f.hide(at + "mlp.shared_experts." + name + "_proj.weight")
		}
		f.tensors[at+"shared_mlp.output_linear.weight"] =
			f.tensors[at+"mlp.shared_experts.down_proj.weight"]
		for name, to := range map[string]string{"gate.weight": "router.layer.weight",
			"experts.gate_up_proj": "input_linear.weight",
			"experts.down_proj":    "output_linear.weight"} {
			f.tensors[at+"block_sparse_moe."+to] = f.tensors[at+"mlp."+name]
			f.hide(at + "mlp." + name)
		}
	}
	f.fuse("shared_mlp.input_linear", "mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj")
	f.config["num_local_experts"], f.config["num_experts_per_tok"] = 5, 2
	f.config["intermediate_size"] = 16
	r.used, r.normalized = 2, true
}

// graniteOldMoE has experts of the same names in layers of attention, as Granite 3 has.
func graniteOldMoE(f *fake, r *reference, kind string) {
	attention := maps.Clone(f.tensors)
	graniteMoEFolder(f, r)
	for name := range f.tensors {
		if strings.Contains(name, ".mamba.") {
			delete(f.tensors, name)
		}
		if strings.Contains(name, "shared_") && kind == "granitemoe" {
			delete(f.tensors, name)
		}
	}
	for name, x := range attention {
		if strings.Contains(name, "layers.0.self_attn.") {
			f.tensors[name] = x
		}
	}
	for key := range f.config {
		if strings.HasPrefix(key, "mamba_") || key == "layer_types" ||
			key == "position_embedding_type" || key == "shared_intermediate_size" {
			delete(f.config, key)
		}
	}
	if f.config["model_type"] = kind; kind == "granitemoeshared" {
		f.config["shared_intermediate_size"] = 40
	}
	r.unrotated = ""
}

func graniteGGUF(r *reference) *fakeGGUF { return graniteOf(r, "granite") }

func graniteOf(r *reference, kind string) *fakeGGUF {
	f := newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, kind, one("Q8_0"))
	f.pair()
	for key, value := range map[string]float32{"embedding_scale": 12, "attention.scale": 0.25,
		"residual_scale": 0.25, "logit_scale": 8} {
		f.Set(kind+"."+key, value)
	}
	r.head, r.embeddings, r.scalar, r.residual, r.divisor = 16, 12, 16, 0.25, 8
	return f
}

// addExperts replaces the networks of some layers of a folder by experts.
func addExperts(f *fake, experts, ffn, dim int, layers ...int) {
	for _, i := range layers {
		at := fmt.Sprintf("model.layers.%d.mlp.", i)
		for _, name := range []string{"gate_proj", "up_proj", "down_proj"} {
			delete(f.tensors, at+name+".weight")
		}
		f.add(at+"gate.weight", experts, dim)
		for e := range experts {
			one := fmt.Sprintf("%sexperts.%d.", at, e)
			f.add(one+"gate_proj.weight", ffn, dim)
			f.add(one+"up_proj.weight", ffn, dim)
			f.add(one+"down_proj.weight", dim, ffn)
		}
	}
}

func moeFolder(f *fake, r *reference, kind string, layers ...int) {
	addExperts(f, 5, 16, 24, layers...)
	f.config["model_type"], f.config["num_experts"] = kind, 5
	f.config["num_experts_per_tok"], f.config["moe_intermediate_size"] = 2, 16
	f.config["router_aux_loss_coef"], f.config["decoder_sparse_step"] = 0.001, 1
	r.used = 2
	if kind == "qwen3_moe" {
		addHeadNorms(f)
		return
	}
	addBiases(f, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
	f.config["shared_expert_intermediate_size"] = 32
	for _, i := range layers {
		at := fmt.Sprintf("model.layers.%d.mlp.shared_expert", i)
		f.add(at+"_gate.weight", 1, 24)
		f.add(at+".gate_proj.weight", 32, 24)
		f.add(at+".up_proj.weight", 32, 24)
		f.add(at+".down_proj.weight", 24, 32)
	}
}

func qwenNextGGUF(r *reference) *fakeGGUF {
	f := moeGGUF(r, "qwen3next", "Q8_0", func(f *fakeGGUF) { statesGGUF(f, r, "qwen3next") })
	beta, alpha := f.tensorNamed("blk.0.ssm_beta.weight"), f.tensorNamed("blk.0.ssm_alpha.weight")
	both, row := *beta, len(beta.Data)/4
	both.Name, both.Shape = "blk.0.ssm_ba.weight", []int{8, 64}
	both.Data = slices.Concat(beta.Data[:2*row], alpha.Data[:2*row], beta.Data[2*row:],
		alpha.Data[2*row:])
	f.without("blk.0.ssm_beta.weight", "blk.0.ssm_alpha.weight")
	f.Tensors = append(f.Tensors, both)
	r.normalized = true
	return f
}

// moeGGUF has experts in all layers.
func moeGGUF(r *reference, kind, of string, names func(*fakeGGUF)) *fakeGGUF {
	f := newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, kind, one("Q8_0"))
	for i := range 2 {
		at := fmt.Sprintf("model.layers.%d.mlp.", i)
		if (kind == "glm4moe" || kind == "lfm2moe" || kind == "ernie4_5-moe") && i == 0 {
			continue
		}
		f.without(fmt.Sprintf("blk.%d.ffn_gate.weight", i), fmt.Sprintf("blk.%d.ffn_up.weight", i),
			fmt.Sprintf("blk.%d.ffn_down.weight", i))
		f.tensor(at+"gate.weight", one("F32"), 5, 64)
		for e := range 5 {
			for name, shape := range map[string][]int{"gate_proj": {32, 64}, "up_proj": {32, 64},
				"down_proj": {64, 32}} {
				name = fmt.Sprintf("%sexperts.%d.%s", at, e, name)
				f.tensor(name+".weight", one(of), shape...)
				if kind == "gpt-oss" {
					f.tensor(name+".bias", one("F32"), shape[0])
				}
			}
		}
		if kind == "lfm2moe" {
			f.tensor(at+"gate.e_score_correction_bias", one("F32"), 5)
		} else if kind == "glm4moe" || kind == "granitehybrid" || kind == "ernie4_5-moe" {
			if kind != "granitehybrid" {
				f.tensor(at+"gate.e_score_correction_bias", one("F32"), 5)
			}
			f.tensor(at+"shared_experts.gate_proj.weight", one("Q4_0"), 96, 64)
			f.tensor(at+"shared_experts.up_proj.weight", one("Q4_0"), 96, 64)
			f.tensor(at+"shared_experts.down_proj.weight", one("Q4_0"), 64, 96)
		} else if kind != "qwen3moe" && kind != "gpt-oss" && kind != "llama" && kind != "granitemoe" {
			f.tensor(at+"shared_expert_gate.weight", one("F32"), 1, 64)
			f.tensor(at+"shared_expert.gate_proj.weight", one("Q4_0"), 96, 64)
			f.tensor(at+"shared_expert.up_proj.weight", one("Q4_0"), 96, 64)
			f.tensor(at+"shared_expert.down_proj.weight", one("Q4_0"), 64, 96)
		}
	}
	for _, name := range []string{"gate", "up", "down"} {
		f.stack("ffn_"+name+"_exps.weight", "mlp.experts.%d."+name+"_proj.weight", 5)
		if kind == "gpt-oss" {
			f.stack("ffn_"+name+"_exps.bias", "mlp.experts.%d."+name+"_proj.bias", 5)
		}
	}
	f.Set(kind+".expert_count", uint32(5))
	f.Set(kind+".expert_used_count", uint32(2))
	f.Set(kind+".expert_feed_forward_length", uint32(32))
	f.Set(kind+".attention.key_length", uint32(16))
	f.Set(kind+".attention.value_length", uint32(16))
	if kind == "qwen3next" || kind == "qwen35moe" {
		f.Set(kind+".expert_shared_feed_forward_length", uint32(96))
	}
	r.head, r.used = 16, 2
	for i := range f.Tensors {
		f.Tensors[i].Name = moeNames.Replace(f.Tensors[i].Name)
		if kind == "glm4moe" {
			x := &f.Tensors[i]
			x.Name = strings.Replace(x.Name, "ffn_norm", "post_attention_norm", 1)
		}
	}
	names(f)
	return f
}

var moeNames = strings.NewReplacer("mlp.gate.e_score_correction_bias", "exp_probs_b.bias",
	"mlp.shared_experts.gate_proj", "ffn_gate_shexp", "mlp.shared_experts.up_proj", "ffn_up_shexp",
	"mlp.shared_experts.down_proj", "ffn_down_shexp", "mlp.gate.", "ffn_gate_inp.",
	"mlp.shared_expert_gate.", "ffn_gate_inp_shexp.", "mlp.shared_expert.gate_proj", "ffn_gate_shexp",
	"mlp.shared_expert.up_proj", "ffn_up_shexp", "mlp.shared_expert.down_proj", "ffn_down_shexp",
	"self_attn.sinks", "attn_sinks.weight")

// gptFolder is gpt-oss: its experts' weights are blocks of MXFP4, in which rows of gate and up
// alternate.
func gptFolder(f *fake, r *reference) {
	const dim, ffn, experts = 32, 64, 5
	f.widen(dim)
	addExperts(f, experts, ffn, dim, 0, 1)
	addBiases(f, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
	for i := range 2 {
		at := fmt.Sprintf("model.layers.%d.", i)
		f.add(at+"self_attn.sinks", 4)
		f.add(at+"mlp.gate.bias", experts)
		f.tensors[at+"mlp.router.weight"] = f.tensors[at+"mlp.gate.weight"]
		f.tensors[at+"mlp.router.bias"] = f.tensors[at+"mlp.gate.bias"]
		f.hide(at + "mlp.gate.weight")
		f.hide(at + "mlp.gate.bias")
		var pair, down microTensor
		for e := range experts {
			one := fmt.Sprintf("%smlp.experts.%d.", at, e)
			for _, name := range []string{"gate_proj", "up_proj", "down_proj"} {
				f.add(one+name+".bias", f.tensors[one+name+".weight"].shape[0])
				f.hide(one + name + ".weight")
				f.hide(one + name + ".bias")
			}
			for row := range ffn {
				pair.row(f, one+"gate_proj", row)
				pair.row(f, one+"up_proj", row)
			}
			for row := range dim {
				down.row(f, one+"down_proj", row)
			}
		}
		pair.add(f, at+"mlp.experts.gate_up_proj", experts, 2*ffn, dim/32)
		down.add(f, at+"mlp.experts.down_proj", experts, dim, ffn/32)
	}
	delete(f.config, "rope_theta")
	for key, value := range map[string]any{"model_type": "gpt_oss", "hidden_size": dim,
		"intermediate_size": ffn, "num_local_experts": experts, "num_experts_per_tok": 2,
		"experts_per_token": 2, "sliding_window": 5, "initial_context_length": 4096,
		"quantization_config": map[string]any{"quant_method": "mxfp4",
			"modules_to_not_convert": []string{"model.layers.*.self_attn"}},
		"layer_types": []string{"sliding_attention", "full_attention"}} {
		f.config[key] = value
	}
	r.used, r.normalized, r.limit, r.windows = 2, true, 7, map[int]int{0: 5}
	r.theta, r.yarn, r.untruncated, r.factor, r.original = 150000, true, true, 32, 4096
}

// microTensor is rows in MXFP4 in the layout of folders.
type microTensor struct{ codes, scales, biases []float32 }

// row encodes a row of a tensor and sets the tensor to the decoded values.
func (m *microTensor) row(f *fake, name string, row int) {
	t := f.tensors[name+".weight"]
	x := t.data[row*t.shape[1]:][:t.shape[1]]
	data, exact := gguftest.Encode("MXFP4", x)
	for block := range slices.Chunk(data, 17) {
		m.scales = append(m.scales, float32(block[0]))
		codes := make([]byte, 32)
		for i, b := range block[1:] {
			codes[i], codes[i+16] = b&15, b>>4
		}
		for i := 0; i < 32; i += 2 {
			m.codes = append(m.codes, float32(codes[i]+16*codes[i+1]))
		}
	}
	for i, e := range exact {
		x[i] = float32(e)
	}
	m.biases = append(m.biases, f.tensors[name+".bias"].data[row])
}

func (m *microTensor) add(f *fake, name string, experts, all, blocks int) {
	f.tensors[name+"_blocks"] = fakeTensor{[]int{experts, all, blocks, 16}, m.codes}
	f.tensors[name+"_scales"] = fakeTensor{[]int{experts, all, blocks}, m.scales}
	f.tensors[name+"_bias"] = fakeTensor{[]int{experts, all}, m.biases}
	if f.kinds == nil {
		f.kinds = map[string]string{}
	}
	f.kinds[name+"_blocks"], f.kinds[name+"_scales"] = "U8", "U8"
}

func gptGGUF(r *reference) *fakeGGUF {
	f := moeGGUF(r, "gpt-oss", "MXFP4", func(f *fakeGGUF) {
		for i := range 2 {
			at := fmt.Sprintf("model.layers.%d.", i)
			f.tensor(at+"self_attn.sinks", one("F32"), 4)
			f.tensor(at+"mlp.gate.bias", one("F32"), 5)
			for name, out := range map[string]int{"q": 64, "k": 32, "v": 32, "o": 64} {
				f.tensor(at+"self_attn."+name+"_proj.bias", one("F32"), out)
			}
		}
		for i := range f.Tensors {
			name := moeNames.Replace(f.Tensors[i].Name)
			f.Tensors[i].Name = strings.Replace(name, "ffn_norm", "post_attention_norm", 1)
		}
	})
	f.Set("gpt-oss.attention.sliding_window", uint32(5))
	f.Set("gpt-oss.rope.scaling.type", "yarn")
	f.Set("gpt-oss.rope.scaling.factor", float32(32))
	f.Set("gpt-oss.rope.scaling.original_context_length", uint32(64))
	r.normalized, r.limit, r.windows = true, 7, map[int]int{0: 5}
	r.yarn, r.untruncated, r.factor, r.original = true, true, 32, 64
	return f
}

// addStates makes the first layer of a folder one with four states of [8, 6] and two heads of keys,
// and gates attention of the second.
func addStates(f *fake, r *reference, kind string) {
	at := "model.layers.0."
	for _, name := range []string{"q", "k", "v", "o"} {
		delete(f.tensors, at+"self_attn."+name+"_proj.weight")
	}
	for name, out := range map[string]int{"qkv": 56, "z": 24, "b": 4, "a": 4} {
		f.add(at+"linear_attn.in_proj_"+name+".weight", out, 24)
	}
	f.add(at+"linear_attn.conv1d.weight", 56, 1, 4)
	f.add(at+"linear_attn.A_log", 4)
	f.add(at+"linear_attn.dt_bias", 4)
	f.add(at+"linear_attn.norm.weight", 6)
	f.add(at+"linear_attn.out_proj.weight", 24, 24)
	f.add("model.layers.1.self_attn.q_proj.weight", 64, 24)
	f.add("model.layers.1.self_attn.q_norm.weight", 8)
	f.add("model.layers.1.self_attn.k_norm.weight", 8)
	for key, value := range map[string]any{"model_type": kind, "linear_conv_kernel_dim": 4,
		"linear_key_head_dim": 8, "linear_value_head_dim": 6, "linear_num_key_heads": 2,
		"linear_num_value_heads": 4, "full_attention_interval": 2, "partial_rotary_factor": 0.5} {
		f.config[key] = value
	}
	r.lessOne, r.gate, r.stateKeys, r.rotated = true, true, 2, 4
}

// interlace makes tensors of qwen3next: for each head of keys its query, key, values and gates.
func interlace(f *fake) {
	at := "model.layers.0.linear_attn.in_proj_"
	var wide, narrow []float32
	rows := func(name string, from, n int) []float32 {
		return f.tensors[at+name+".weight"].data[from*24:][:n*24]
	}
	for g := range 2 {
		wide = slices.Concat(wide, rows("qkv", 8*g, 8), rows("qkv", 16+8*g, 8), rows("qkv", 32+12*g, 12),
			rows("z", 12*g, 12))
		narrow = slices.Concat(narrow, rows("b", 2*g, 2), rows("a", 2*g, 2))
	}
	f.tensors[at+"qkvz.weight"] = fakeTensor{[]int{80, 24}, wide}
	f.tensors[at+"ba.weight"] = fakeTensor{[]int{8, 24}, narrow}
	for _, name := range []string{"qkv", "z", "b", "a"} {
		f.hide(at + name + ".weight")
	}
}

// statesGGUF has states in the first layer.
func statesGGUF(f *fakeGGUF, r *reference, kind string) {
	at, key := "model.layers.0.linear_attn.", cmp.Or(r.stateKey, 16)
	f.without("blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight",
		"blk.0.attn_output.weight", "blk.1.attn_q.weight")
	for name, out := range map[string]int{"in_proj_qkv": 4*key + 128, "in_proj_z": 128, "in_proj_b": 4,
		"in_proj_a": 4, "out_proj": 64} {
		in := 64
		if name == "out_proj" {
			in = 128
		}
		f.tensor(at+name+".weight", one("Q8_0"), out, in)
	}
	f.tensor(at+"conv1d.weight", one("F32"), 4*key+128, 4)
	f.tensor(at+"A_log", one("F32"), 4)
	f.tensor(at+"dt_bias", one("F32"), 4)
	f.tensor(at+"norm.weight", one("F32"), 32)
	f.tensor("model.layers.1.self_attn.q_proj.weight", one("Q8_0"), 128, 64)
	for _, name := range []string{"q", "k"} {
		f.tensor("model.layers.1.self_attn."+name+"_norm.weight", one("F32"), 16)
	}
	for i := range f.Tensors {
		x := &f.Tensors[i]
		x.Name = strings.Replace(statesNames.Replace(x.Name), "ffn_norm", "post_attention_norm", 1)
	}
	decays := f.tensors[at+"A_log"]
	decays.data = slices.Clone(decays.data) // other models share them
	for i, x := range decays.data {
		decays.data[i] = -x - 0.25
	}
	f.tensors[at+"A_log"] = decays
	f.setData("blk.0.ssm_a", decays.data)
	for key, value := range map[string]uint32{"ssm.conv_kernel": 4, "ssm.inner_size": 128,
		"ssm.state_size": uint32(key), "ssm.time_step_rank": 4, "ssm.group_count": 2,
		"full_attention_interval": 2, "rope.dimension_count": 8, "attention.key_length": 16,
		"attention.value_length": 16} {
		f.Set(kind+"."+key, value)
	}
	r.gate, r.stateKeys, r.rotated, r.head, r.negated = true, 2, 8, 16, true
}

var statesNames = strings.NewReplacer("linear_attn.in_proj_qkv", "attn_qkv",
	"linear_attn.in_proj_z", "attn_gate", "linear_attn.in_proj_b", "ssm_beta",
	"linear_attn.in_proj_a", "ssm_alpha", "linear_attn.out_proj", "ssm_out",
	"linear_attn.conv1d", "ssm_conv1d", "linear_attn.A_log", "ssm_a",
	"linear_attn.dt_bias", "ssm_dt.bias", "linear_attn.norm", "ssm_norm")

// wrap makes a folder one that also has a model for images.
func wrap(f *fake, kind, class, prefix string) {
	for name, x := range maps.Clone(f.tensors) {
		if inner, ok := strings.CutPrefix(name, "model."); ok {
			f.tensors[prefix+inner] = x
			f.hide(name)
		} else if name == "lm_head.weight" && strings.HasPrefix(prefix, "language") {
			f.tensors["language_model."+name] = x
			f.hide(name)
		}
	}
	stop := f.config["eos_token_id"]
	delete(f.config, "eos_token_id")
	f.config = map[string]any{"model_type": kind, "architectures": []string{class},
		"text_config": f.config, "vision_config": map[string]any{"hidden_size": 7},
		"image_token_id": 3, "eos_token_id": stop,
		"tie_word_embeddings": f.config["tie_word_embeddings"]}
}

func addHeadNorms(f *fake) {
	for _, at := range []string{"model.layers.0.", "model.layers.1."} {
		f.add(at+"self_attn.q_norm.weight", 8)
		f.add(at+"self_attn.k_norm.weight", 8)
	}
}

// TestArchitectures compares logits and greedy tokens with float64 for models of each kind, and the
// bits of logits between all ways to compute them.
func TestArchitectures(t *testing.T) {
	for _, c := range slices.Concat(archCases, fileCases, layeredCases) {
		t.Run(c.name, func(t *testing.T) {
			var r reference
			var path string
			if c.gguf != nil {
				r = ggufReference()
				f := c.gguf(&r)
				r.f, path = f.fake, at(t, "fake.gguf")
				f.Write(t, path)
			} else {
				r = reference{layers: 2, heads: 4, kv: 2, head: 8, epsilon: 1e-5, theta: 500}
				r.f = newFake("F32")
				c.folder(r.f, &r)
				path = r.f.write(t)
			}
			m, _, err := (&options{model: path, weights: asStored,
				settings: settings{context: c.context}}).open()
			must(t, err)
			compareLogits(t, m, false, archPrompt, r.logits(archPrompt))
			if r.layered != nil {
				compareLogits(t, m, true, archPrompt, r.logits(archPrompt))
			}
			compareTokens(t, m, &r)
			prove(t, m, settings{keys: attn.F16})
		})
	}
}

// TestExpertsInOtherTypes packs the blocks of gpt-oss as they are, for integers, and decoded, and
// opens packed matrices.
func TestExpertsInOtherTypes(t *testing.T) {
	r := reference{layers: 2, heads: 4, kv: 2, head: 8, epsilon: 1e-5, theta: 500, f: newFake("F32")}
	gptFolder(r.f, &r)
	path, want := r.f.write(t), r.logits(archPrompt)
	pack := at(t, "packed")
	for _, c := range []struct {
		weights  attn.Format
		integers bool
		most     float64
		pack     string
	}{{asStored, false, 1e-5, pack}, {asStored, false, 1e-5, pack}, {attn.F32, false, 1e-5, ""},
		{attn.I8, true, 0.1, ""}} {
		m, _, err := (&options{model: path, weights: c.weights, pack: c.pack,
			settings: settings{integers: c.integers}}).open()
		must(t, err)
		s := settings{workers: 2, places: 1, chunk: 16, context: 64, integers: c.integers}
		if got := distanceTo(firstLogits(t, m, s, false, archPrompt), want); !(got < c.most) {
			t.Errorf("%+v: logits differ by %v of their deviation", c, got)
		}
		if m.packed >= m.memory-m.embedding.MemoryUse() {
			t.Errorf("%+v: a step reads %d bytes of %d, want fewer", c, m.packed, m.memory)
		}
	}
}

// TestDamagedExperts has tensors of wrong shapes and types.
func TestDamagedExperts(t *testing.T) {
	const codes = "model.layers.1.mlp.experts.down_proj_blocks"
	for want, change := range map[string]func(*fake){
		"no safetensors file has tensor " + codes: func(f *fake) { delete(f.tensors, codes) },
		codes + " has dtype U8 and shape [5 32 32]": func(f *fake) {
			f.tensors[codes] = fakeTensor{[]int{5, 32, 32}, f.tensors[codes].data}
		},
		codes + " has dtype F32": func(f *fake) { f.kinds[codes] = "F32" },
		"down_proj of expert 0, outputs from 0": func(f *fake) {
			f.tensors["model.layers.1.mlp.experts.down_proj_scales"].data[1] = 255
		},
	} {
		f := newFake("F32")
		gptFolder(f, &reference{})
		change(f)
		_, _, err := (&options{model: f.write(t), weights: asStored}).open()
		if got := fmt.Sprint(err); !strings.Contains(got, want) {
			t.Errorf("the error is %v, want it to say %q", err, want)
		}
	}
}

// TestStatesOfSequences: sequences free their states and can go back only a few tokens; a remote
// cache refuses such models.
func TestStatesOfSequences(t *testing.T) {
	t.Run("states", func(t *testing.T) {
		f := newFake("F32")
		addStates(f, &reference{}, "qwen3_5_text")
		checkStates(t, f)
	})
	t.Run("short convolutions", func(t *testing.T) {
		f := newFake("F32")
		lfm2Folder(f, &reference{})
		f.config["full_attn_idxs"], f.config["block_auto_adjust_ff_dim"] = []int{1}, false
		checkStates(t, f)
	})
	if _, _, err := (&remote{}).states(0, nil); err == nil {
		t.Error("there are states in a cache elsewhere")
	}
}

func checkStates(t *testing.T, f *fake) {
	t.Helper()
	m, _, err := (&options{model: f.write(t), weights: asStored}).open()
	must(t, err)
	if _, err := newRemote(m, &settings{}); err == nil ||
		!strings.Contains(err.Error(), "has layers that keep states") {
		t.Errorf("with a cache elsewhere: %v", err)
	}
	e, err := newTester(m, settings{workers: 1, places: 2, chunk: 50, context: 100})
	must(t, err)
	defer e.close()
	before := e.pages.inUse()
	seq, err := e.pages.newSequence()
	must(t, err)
	must(t, e.forward([]piece{{seq: seq, tokens: wide(archPrompt[:20])}}, nil))
	for n, want := range map[int]int{20: 20, 17: 17, 16: 16, 15: 0, 3: 0} {
		if got := seq.reach(n); got != want {
			t.Errorf("of 20 tokens, a fork can have %d of %d, want %d", got, n, want)
		}
		fork, err := seq.fork(n)
		must(t, err)
		if got := fork.length(); got != want {
			t.Errorf("of 20 tokens, a sequence that forks %d has %d, want %d", n, got, want)
		}
		fork.release()
	}
	seq.release()
	if after := e.pages.inUse(); after > before {
		t.Errorf("%d bytes are in use at the end, %d before", after, before)
	}
}

// compareTokens compares greedy answers.
func compareTokens(t *testing.T, m *model, r *reference) {
	t.Helper()
	e, err := newTester(m, settings{workers: 2, places: 1, chunk: 7, context: 64})
	must(t, err)
	defer e.close()
	j := &call{prompt: archPrompt, most: 4, choose: greedy}
	e.queue(j)
	m.Stop = nil
	must(t, e.answer())
	want := slices.Clone(archPrompt)
	for range 4 {
		logits := r.logits(want)
		want = append(want, slices.Index(logits, slices.Max(logits)))
	}
	if !slices.Equal(j.tokens, want) {
		t.Errorf("tokens are %v, want %v", j.tokens[len(archPrompt):], want[len(archPrompt):])
	}
}

// TestKeysOfArchitectures gives kinds keys of other kinds, and invalid values.
func TestKeysOfArchitectures(t *testing.T) {
	gemma := func(f *fake) { gemmaFolder(f, &reference{}, "gemma2") }
	cohere := func(f *fake) { cohereFolder(f, &reference{}) }
	starCoder := func(f *fake) { starCoderFolder(f, &reference{}) }
	arcee := func(f *fake) { f.config["model_type"] = "arcee" }
	gemma3 := func(f *fake) { gemmaFolder(f, &reference{}, "gemma3_text") }
	phi := func(f *fake) { phiFolder(f, &reference{}) }
	moe := func(f *fake) { moeFolder(f, &reference{}, "qwen2_moe", 0, 1) }
	gpt := func(f *fake) { gptFolder(f, &reference{}) }
	glmMoE := func(f *fake) { glmMoEFolder(f, &reference{}) }
	ministral := func(f *fake) { ministralFolder(f, &reference{}) }
	lfm2MoE := func(f *fake) { lfm2MoEFolder(f, &reference{}) }
	lfm2 := func(f *fake) { lfm2Folder(f, &reference{}) }
	granite := func(f *fake) { graniteFolder(f, &reference{}) }
	hybrid := func(f *fake) { graniteHybridFolder(f, &reference{}) }
	mambas := func(f *fake) { mambaFolder(f, &reference{}) }
	mixtral := func(f *fake) { mixtralFolder(f, &reference{}) }
	ernie := func(f *fake) { ernieMoEFolder(f, &reference{}) }
	gemma4 := func(f *fake) { small4.folder(f, &reference{}, false) }
	smollm3 := func(f *fake) {
		f.config["model_type"], f.config["sliding_window"] = "smollm3", 5
	}
	olmo2 := func(f *fake) { olmoFolder(f, &reference{}, "olmo2") }
	olmo3 := func(f *fake) { olmo3Folder(f, &reference{}) }
	qwen35 := func(f *fake) { addStates(f, &reference{}, "qwen3_5_text") }
	qwen35MoE := func(f *fake) { qwen35MoEFolder(f, &reference{}) }
	wrapped := func(f *fake) {
		qwen35(f)
		wrap(f, "qwen3_5", "Qwen3_5ForConditionalGeneration", "model.language_model.")
	}
	for _, c := range []struct {
		kind  func(*fake)
		key   string
		value any
		want  string
	}{
		{nil, "attn_logit_softcapping", 50, "is 50, want no such key for model_type llama"},
		{nil, "final_logit_softcapping", 30, "is 30, want no such key"},
		{nil, "query_pre_attn_scalar", 256, "is 256, want no such key"},
		{nil, "sliding_window_pattern", 2, "is 2, want no such key"},
		{nil, "_sliding_window_pattern", 2, "is 2, want no such key"},
		{nil, "rope_local_base_freq", 1e4, "is 10000, want no such key"},
		{nil, "original_max_position_embeddings", 32, "is 32, want no such key"},
		{cohere, "use_qk_norm", true, "is true, want no such key"},
		{cohere, "logit_scale", 0, "is 0, want a number above 0"},
		{cohere, "position_embedding_type", "nope", "is nope, want no such key"},
		{cohere, "use_parallel_block", false, "use_parallel_block is false, want true"},
		{nil, "logit_scale", 0.25, "is 0.25, want no such key"},
		{nil, "layer_norm_eps", 1e-5, "is 1e-05, want no such key"},
		{starCoder, "hidden_act", "gelu", `is "gelu", want gelu_pytorch_tanh`},
		{starCoder, "norm_type", "rms_norm", `norm_type is "rms_norm", want "layer_norm"`},
		{nil, "norm_epsilon", 1e-5, "is 1e-05, want no such key"},
		{arcee, "hidden_act", "silu", `is "silu", want relu2`},
		{nil, "hidden_activation", "silu", `is "silu", want it only for gemma`},
		{nil, "global_head_dim", 512, "is 512, want no such key"},
		{nil, "num_kv_shared_layers", 2, "is 2, want no such key"},
		{nil, "enable_moe_block", true, "is true, want no such key"},
		{nil, "rope_scaling", map[string]any{"rope_type": "proportional", "factor": 1},
			"is of type proportional with factor 1, want it for gemma4 only"},
		{gemma4, "num_kv_shared_layers", 6, "is 6 and hidden_size_per_layer_input 32, want 0 to 5"},
		{gemma4, "num_kv_shared_layers", 5, "is 5, want an earlier layer of the kind of layer 1"},
		{gemma4, "hidden_size_per_layer_input", -1, "is 2 and hidden_size_per_layer_input -1, want 0 to"},
		{gemma4, "vocab_size_per_layer_input", 7, "is 7, want vocab_size, 20"},
		{gemma4, "global_head_dim", 7, "num_global_key_value_heads is 2 and global_head_dim 7, want a"},
		{gemma4, "num_experts", 4, "is 4, want no such key for model_type gemma4_text"},
		{gemma4, "enable_moe_block", true, "num_experts is 0 and shared_expert_intermediate_size 0"},
		{gemma4, "layer_types", []string{"full_attention", "full_attention", "full_attention",
			"full_attention", "full_attention", "sliding_attention"}, "layer_types ends with sliding"},
		{gemma4, "use_bidirectional_attention", "all", `use_bidirectional_attention is "all", want `},
		{gemma3, "sliding_window_pattern", "LGL", `is "LGL", want a number, or G after some L`},
		{nil, "moe_k", 2, "is 2, want no such key"},
		{ernie, "use_bias", true, "is true, want no such key"},
		{ernie, "moe_k", 9, "moe_k is 9, want at most moe_num_experts, 5"},
		{ernie, "moe_layer_interval", 0, "moe_layer_interval 0 and moe_norm_min 1e-12, want -1"},
		{ernie, "moe_norm_min", 0, "moe_layer_interval 1 and moe_norm_min 0, want -1"},
		{ernie, "num_experts_per_tok", 2, "is 2, want no such key for model_type ernie4_5_moe"},
		{gemma4, "rope_local_base_freq", 1e4, "is 10000, want no such key"},
		{gemma, "hidden_activation", "silu", `is "silu", want gelu_pytorch_tanh`},
		{gemma, "rope_local_base_freq", 1e4, "is 10000, want no such key for model_type gemma2"},
		{gemma, "attn_logit_softcapping", 0, "is 0, want a number above 0"},
		{gemma, "query_pre_attn_scalar", -1, "is -1, want a number above 0"},
		{gemma, "sliding_window_pattern", 0, "is 0, want 1 or more"},
		{gemma, "use_bidirectional_attention", true, `is true, want false or "vision" or null`},
		{gemma3, "rope_local_base_freq", 0.5, "is 0.5, want 1 or more"},
		{gemma3, "rope_parameters", map[string]any{"full_attention": map[string]any{}},
			"has full_attention or sliding_attention, want both"},
		{gemma3, "rope_parameters", map[string]any{"full_attention": map[string]any{},
			"sliding_attention": map[string]any{"rope_type": "yarn"}},
			`sliding_attention is of type "yarn", want default`},
		{nil, "num_experts", 8, "is 8, want no such key for model_type llama"},
		{nil, "num_experts_per_tok", 8, "is 8, want no such key"},
		{nil, "qkv_bias", true, "is true, want no such key"},
		{nil, "quantization_config", map[string]any{"quant_method": "awq"}, "want no such key"},
		{moe, "num_experts", 0, "is 0 and shared_expert_intermediate_size 32, want 1 or more"},
		{moe, "num_experts_per_tok", 6, "is 6, want at most num_experts, 5"},
		{moe, "num_local_experts", 5, "is 5, want no such key for model_type qwen2_moe"},
		{moe, "moe_intermediate_size", 0, "is 0, want 1 to"},
		{moe, "decoder_sparse_step", 0, "is 0, want 1 or more"},
		{moe, "use_sliding_window", true, "sliding_window is 4096, want null"},
		{gpt, "swiglu_limit", 0, "is 0 and swiglu_alpha 1.702, want numbers above 0"},
		{gpt, "quantization_config", nil, "or not there, want experts in that type"},
		{mixtral, "num_experts_per_tok", 6, "is 6, want at most num_local_experts, 5"},
		{mixtral, "num_experts", 5, "is 5, want no such key for model_type mixtral"},
		{mixtral, "norm_topk_prob", true, "is true, want no such key for model_type mixtral"},
		{gpt, "intermediate_size", 33, "intermediate_size 33, want multiples of 32"},
		{gpt, "norm_topk_prob", true, "is true, want no such key for model_type gpt_oss"},
		{nil, "linear_num_key_heads", 2, "is 2, want no such key for model_type llama"},
		{nil, "rope_scaling", map[string]any{"type": "linear", "factor": 2, "mrope_section": []int{4}},
			"rope_scaling has mrope_section [4], want it only for qwen3_5_text"},
		{qwen35, "linear_num_key_heads", 3, "linear_num_value_heads is 4, want a multiple of"},
		{qwen35, "linear_num_key_heads", nil, "linear_num_key_heads is 0, want 1 to"},
		{qwen35, "linear_conv_kernel_dim", 5000, "is 5000, want at most 4096"},
		{qwen35, "full_attention_interval", 0, "is 0 and attn_output_gate true, want 1 or more"},
		{qwen35, "attn_output_gate", false, "attn_output_gate false, want 1 or more, and true"},
		{qwen35, "layer_types", []string{"linear_attention"}, "has 1 layers, want num_hidden_layers, 2"},
		{qwen35, "layer_types", []string{"linear_attention", "sliding_attention"},
			`has "sliding_attention", want full_attention or linear_attention`},
		{wrapped, "text_config", nil, "text_config is not there"},
		{wrapped, "text_config", map[string]any{"model_type": "llama"}, `or of model_type "llama"`},
		{wrapped, "text_config", map[string]any{"unheard": 1}, `key "text_config.unheard" is 1`},
		{qwen35, "mamba_ssm_dtype", "float16", `is "float16", want "float32"`},
		{qwen35MoE, "norm_topk_prob", false, "norm_topk_prob is false, decoder_sparse_step 1 and mlp"},
		{qwen35MoE, "decoder_sparse_step", 2, "decoder_sparse_step 2 and mlp_only_layers [], want"},
		{qwen35MoE, "mlp_only_layers", []int{1}, "mlp_only_layers [1], want true, 1 and none"},
		{olmo2, "sliding_window", 5, "is 5, want null"},
		{olmo3, "layer_types", []string{"conv", "conv"}, `has "conv", want full_attention`},
		{nil, "use_bias", true, "is true, want no such key for model_type llama"},
		{nil, "attention_out_bias", true, "is true, want no such key for model_type llama"},
		{glmMoE, "n_group", 8, "is 8 and topk_group 1, want 1"},
		{lfm2MoE, "n_routed_experts", 5, "is 5, want no such key for model_type lfm2_moe"},
		{lfm2MoE, "block_ff_dim", 5, "is 5, want no such key for model_type lfm2_moe"},
		{lfm2MoE, "num_dense_layers", -1, "layers without experts are -1, n_shared_experts 0"},
		{glmMoE, "num_dense_layers", 1, "is 1, want no such key for model_type glm4_moe"},
		{glmMoE, "routed_scaling_factor", 0, "is 0, want a number above 0"},
		{glmMoE, "n_shared_experts", -1, "n_shared_experts -1 and num_nextn_predict_layers 0, want 0"},
		{glmMoE, "n_routed_experts", 0, "the number of experts is 0, want 1 or more"},
		{glmMoE, "num_experts_per_tok", 6, "is 6, want at most n_routed_experts, 5"},
		{glmMoE, "num_experts", 5, "is 5, want no such key for model_type glm4_moe"},
		{moe, "routed_scaling_factor", 2, "is 2, want no such key for model_type qwen2_moe"},
		{nil, "rope_parameters", map[string]any{"llama_4_scaling_beta": 0.1},
			"has llama_4_scaling_beta 0.1, want it only for ministral3"},
		{ministral, "rope_parameters", map[string]any{"rope_type": "default",
			"llama_4_scaling_beta": 0.1}, "llama_4_scaling_beta is 0.1, and original_max_pos"},
		{nil, "conv_L_cache", 3, "is 3, want no such key for model_type llama"},
		{nil, "full_attn_idxs", []int{1}, "is [1], want no such key for model_type llama"},
		{nil, "tie_embedding", true, "is true, want no such key for model_type llama"},
		{lfm2, "conv_L_cache", 1, "is 1, want 2 to 4096"},
		{lfm2, "layer_types", []string{"conv"}, "has 1 layers, want num_hidden_layers, 2"},
		{lfm2, "layer_types", []string{"conv", "mamba"}, `has "mamba", want full_attention or conv`},
		{lfm2, "block_ff_dim", 0, "block_ff_dim is 0, want 1 to"},
		{hybrid, "shared_intermediate_size", 0, "shared_intermediate_size is 0, want 1 to"},
		{lfm2, "block_multiple_of", 0, "block_multiple_of 0 and the width of networks 40, want"},
		{lfm2, "block_ffn_dim_multiplier", -1, "is -1, block_multiple_of 256 and the width"},
		{lfm2, "conv_bias", true, "is true, want false"},
		{nil, "residual_multiplier", 0.5, "is 0.5, want no such key for model_type llama"},
		{nil, "position_embedding_type", "rope", "is rope, want no such key for model_type llama"},
		{granite, "attention_multiplier", 0, "is 0, want a number above 0"},
		{hybrid, "layer_types", []string{"attention", "conv"}, `has "conv", want mamba or attention`},
		{hybrid, "layer_types", []string{"mamba"}, "has 1 layers, want num_hidden_layers, 2"},
		{nil, "mamba_d_state", 16, "is 16, want no such key for model_type llama"},
		{mambas, "mamba_n_groups", 2, "is 2, want 1"},
		{mambas, "mamba_expand", 3, "want a product of mamba_expand times hidden_size, 72"},
		{mambas, "mamba_d_conv", 0, "mamba_d_conv is 0, want 1 to"},
		{mambas, "mamba_proj_bias", true, "is true, want false"},
		{hybrid, "num_local_experts", 4, "num_experts_per_tok is 0, want 1 to"},
		{hybrid, "num_local_experts", -1, "num_local_experts is -1 and shared_intermediate_size 40"},
		{nil, "no_rope_layers", []int{1, 1}, "is [1 1], want no such key for model_type llama"},
		{nil, "no_rope_layer_interval", 4, "is 4, want no such key for model_type llama"},
		{smollm3, "no_rope_layer_interval", 0, "is 0 and no_rope_layers has 0 layers, want 1 or more"},
		{smollm3, "no_rope_layers", []int{1}, "no_rope_layers has 1 layers, want 1 or more, and num"},
		{smollm3, "no_rope_layers", []int{1, 2}, "has 2, want 0 or 1"},
		{smollm3, "use_sliding_window", true, "sliding_window is 5, want null"},
		{phi, "partial_rotary_factor", 0.2, "is 0.2, want a part of head_dim, 8"},
		{phi, "rope_scaling", map[string]any{"type": "longrope", "short_factor": []int{1}},
			"1 numbers in short_factor and 0 in long_factor, want 4"},
		{phi, "rope_scaling", map[string]any{"type": "longrope", "factor": 2},
			"original_max_position_embeddings 32 and factor 2"},
		{phi, "rope_scaling", map[string]any{"type": "longrope", "attention_factor": -1},
			"attention_factor -1, want a number above 0"},
		{nil, "rope_scaling", map[string]any{"type": "linear", "factor": 2,
			"short_factor": []int{1}}, "short_factor or long_factor, want these for longrope only"},
		{nil, "rope_scaling", map[string]any{"type": "longrope"}, "original_max_position_embeddings 0"},
	} {
		f := newFake("F32")
		if c.kind != nil {
			c.kind(f)
		}
		f.config[c.key] = c.value
		_, _, err := (&options{model: f.write(t), weights: asStored}).open()
		if got := fmt.Sprint(err); !strings.Contains(got, c.want) {
			t.Errorf("%s is %v: the error is %v, want it to say %q", c.key, c.value, err, c.want)
		}
	}
	f, path := phiGGUF(&reference{}, nil), at(t, "fake.gguf")
	f.without("rope_factors_short.weight")
	f.Write(t, path)
	if _, _, err := (&options{model: path, weights: asStored}).open(); err == nil ||
		!strings.Contains(err.Error(), "only one of the tensors rope_factors_short") {
		t.Errorf("with factors for long texts only: %v", err)
	}
	for _, c := range []struct {
		kind, key string
		value     any
		want      string
	}{
		{"llama", "attn_logit_softcapping", float32(50), "is 50, want a number, 0 or more, and only"},
		{"gemma2", "final_logit_softcapping", float32(-1), "is -1, want a number, 0 or more"},
		{"gemma2", "rope.freq_base_swa", float32(1e4), "is 10000, want 1 or more, and only for gemma3"},
		{"gemma3", "rope.freq_base_swa", float32(0), "is 0, want 1 or more"},
		{"gemma3", "rope.dimension_count", uint32(8), "is 8, want 16"},
		{"qwen3", "expert_count", uint32(8), "qwen3.expert_count is 8, expert_used_count 0"},
		{"llama", "expert_count", uint32(8), "llama.expert_used_count is not there, want 1 to"},
		{"llama", "expert_used_count", uint32(2), "llama.expert_count is 0, expert_used_count 2"},
		{"qwen3moe", "expert_used_count", uint32(2), "qwen3moe.expert_count is 0, want 1 or more"},
		{"qwen3moe", "expert_shared_feed_forward_length", uint32(2), "_length is 2, want 0"},
		{"qwen3moe", "expert_gating_func", uint32(2), "is 2, expert_weights_scale 1, expert_shared_c"},
		{"qwen3moe", "expert_weights_norm", true, "or expert_weights_norm is there, want 1, 1, 0, 0"},
		{"glm4moe", "expert_gating_func", uint32(1), "expert_gating_func is 1, expert_shared_count 0"},
		{"glm4moe", "expert_weights_scale", float32(-1), "expert_weights_scale is -1, want a number"},
		{"lfm2moe", "expert_shared_count", uint32(1), "expert_shared_count 1, leading_dense_block_"},
		{"glm4moe", "leading_dense_block_count", int32(-1), "leading_dense_block_count -1 and"},
		{"llama", "attention.temperature_scale", float32(0.1), "attention.temperature_scale 0.1, or at"},
		{"mistral3", "attention.temperature_length", uint32(7), "is 7, want the same as rope.scaling"},
		{"phi3", "attention.temperature_length", uint32(7), "or attention.temperature_length is"},
		{"mistral3", "rope.scaling.yarn_log_multiplier", float32(1), "is 1, want 0, or with yarn"},
		{"mistral3", "attention.temperature_scale", float32(-1), "is -1, and original_max_position"},
		{"llama", "shortconv.l_cache", uint32(3), "is 3, want none for this architecture"},
		{"lfm2", "shortconv.l_cache", uint32(1), "is 1, want 2 to 4096"},
		{"lfm2", "ssm.conv_kernel", uint32(4), "lfm2.ssm.conv_kernel is 4, or other keys of ssm"},
		{"llama", "logit_scale", float32(2), "logit_scale is 2, want it only for granite"},
		{"llama", "attention.shared_kv_layers", uint32(1), "shared_kv_layers is 1 and embedding_length_"},
		{"llama", "interleave_moe_layer_step", uint32(2), "is 2, want 0 or 1 for this architecture"},
		{"gemma4", "embedding_length_per_layer_input", uint32(1), "attention.key_length or"},
		{"granitehybrid", "ssm.inner_size", uint32(7), "is 7, want a multiple of ssm.time_step_rank, 0"},
		{"granitehybrid", "expert_count", uint32(8), "granitehybrid.expert_used_count is not there"},
		{"granite", "residual_scale", float32(-1), "residual_scale is -1, want a number above 0"},
		{"llama", "ssm.conv_kernel", uint32(4), "llama.ssm.conv_kernel is 4, or other keys of ssm"},
		{"qwen35", "full_attention_interval", uint32(0), "full_attention_interval is 0 and attention"},
		{"qwen35", "ssm.group_count", uint32(2), "qwen35.ssm.conv_kernel is not there, want 1"},
		{"qwen35", "attention.recurrent_layers", []bool{}, "recurrent_layers has 0, want 1 or more"},
		{"gemma3", "attention.sliding_window_pattern", []bool{}, "has 0 layers, want block_count, 1"},
		{"phi3", "rope.dimension_count", uint32(7), "is 7, want 16"},
		{"phi3", "rope.scaling.type", "linear", `is "linear" and its factor 1, want longrope`},
		{"phi3", "rope.scaling.factor", float32(2), "factor 2, want longrope, and 1"},
		{"phi3", "rope.scaling.attn_factor", float32(0), "is 0, want a number above 0"},
	} {
		f := newShapedGGUF(smallGGUF, c.kind, one("Q8_0"))
		f.Set(c.kind+"."+c.key, c.value)
		path := at(t, "fake.gguf")
		f.Write(t, path)
		_, _, err := (&options{model: path, weights: asStored}).open()
		if got := fmt.Sprint(err); !strings.Contains(got, c.want) {
			t.Errorf("%s.%s is %v: the error is %v, want it to say %q", c.kind, c.key, c.value, err,
				c.want)
		}
	}
}
