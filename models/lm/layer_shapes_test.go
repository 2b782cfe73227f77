package lm

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
)

// layered is a model of Gemma 4 in float64, from the formulas.
type layered struct {
	full          []bool // layers without a window
	window        int
	head, kv      int // of layers without a window
	turned        int // pairs of these that turn
	theta         float64
	shared        int
	keysAreValues bool
	used          int // experts of a token
}

// logits returns the logits after the last token.
func (l *layered) logits(r *reference, tokens []int) []float64 {
	var x [][]float64
	for _, token := range tokens {
		x = append(x, times(r.row("model.embed_tokens.weight", token), math.Sqrt(float64(l.dim(r)))))
	}
	inputs := l.inputs(r, x, tokens)
	kept := map[bool][2][][]float64{} // keys and values by kind of layer
	for i, full := range l.full {
		at := fmt.Sprintf("model.layers.%d.", i)
		for t, y := range l.attention(r, x, at, full, i < len(l.full)-l.shared, kept) {
			x[t] = sum(x[t], r.norm(y, at+"post_attention_layernorm.weight"))
			y = r.network(r.norm(x[t], at+"pre_feedforward_layernorm.weight"), at)
			if l.used > 0 {
				y = sum(r.norm(y, at+"post_feedforward_layernorm_1.weight"),
					r.norm(l.experts(r, x[t], at), at+"post_feedforward_layernorm_2.weight"))
			}
			x[t] = sum(x[t], r.norm(y, at+"post_feedforward_layernorm.weight"))
			if inputs != nil {
				gate := r.linearMap(x[t], at+"per_layer_input_gate")
				for j, g := range gate {
					gate[j] = r.activation(g) * inputs[t][i*len(gate)+j]
				}
				x[t] = sum(x[t], r.norm(r.linearMap(gate, at+"per_layer_projection"),
					at+"post_per_layer_input_norm.weight"))
			}
			if scalar, ok := r.f.tensors[at+"layer_scalar"]; ok {
				x[t] = times(x[t], float64(scalar.data[0]))
			}
		}
	}
	y := r.linearMap(r.norm(x[len(x)-1], "model.norm.weight"), "model.embed_tokens")
	for i := range y {
		y[i] = capped(y[i], r.logitCap)
	}
	return y
}

func (l *layered) dim(r *reference) int { return r.f.tensors["model.norm.weight"].shape[0] }

// inputs returns the inputs of all layers for each token.
func (l *layered) inputs(r *reference, x [][]float64, tokens []int) (all [][]float64) {
	norm, ok := r.f.tensors["model.per_layer_projection_norm.weight"]
	if !ok {
		return nil
	}
	for t, token := range tokens {
		row := r.row("model.embed_tokens_per_layer.weight", token)
		y := times(r.linearMap(x[t], "model.per_layer_model_projection"),
			1/math.Sqrt(float64(l.dim(r))))
		for i, part := range slices.Collect(slices.Chunk(y, norm.shape[0])) {
			for j, e := range r.norm(part, "model.per_layer_projection_norm.weight") {
				at := i*norm.shape[0] + j
				row[at] = (e + row[at]*math.Sqrt(float64(norm.shape[0]))) / math.Sqrt2
			}
		}
		all = append(all, row)
	}
	return all
}

// attention has scores without a scale, and values that are normed.
func (l *layered) attention(r *reference, x [][]float64, at string, full, keeps bool,
	kept map[bool][2][][]float64) (out [][]float64) {
	of := *r // rotates
	if of.theta = l.theta; full {
		of.theta, of.head, of.kv = r.theta, l.head, l.kv
		for i := range l.head / 2 {
			if of.factors = append(of.factors, 1); i >= l.turned {
				of.factors[i] = math.Inf(1)
			}
		}
	}
	var q, k, v [][]float64
	for t := range x {
		row := r.norm(x[t], at+"input_layernorm.weight")
		heads := of.headNorm(r.linearMap(row, at+"self_attn.q_proj"), at+"self_attn.q_norm")
		if q = append(q, of.rotate(heads, t)); !keeps {
			continue
		}
		key := r.linearMap(row, at+"self_attn.k_proj")
		value := key
		if !full || !l.keysAreValues {
			value = r.linearMap(row, at+"self_attn.v_proj")
		}
		k = append(k, of.rotate(of.headNorm(key, at+"self_attn.k_norm"), t))
		v = append(v, nil)
		for head := range slices.Chunk(value, of.head) {
			squares := r.epsilon
			for _, e := range head {
				squares += e * e / float64(of.head)
			}
			v[t] = append(v[t], times(slices.Clone(head), 1/math.Sqrt(squares))...)
		}
	}
	if keeps {
		kept[full] = [2][][]float64{k, v}
	}
	k, v = kept[full][0], kept[full][1]
	for t := range x {
		all := make([]float64, r.heads*of.head)
		for h := range r.heads {
			first, g, total := 0, h/(r.heads/of.kv)*of.head, 0.0
			if !full {
				first = max(0, t-l.window+1)
			}
			mixed := all[h*of.head:][:of.head]
			for j := first; j <= t; j++ {
				score := 0.0
				for d := range of.head {
					score += q[t][h*of.head+d] * k[j][g+d]
				}
				total += math.Exp(score)
				for d := range mixed {
					mixed[d] += math.Exp(score) * v[j][g+d]
				}
			}
			times(mixed, 1/total)
		}
		out = append(out, r.linearMap(all, at+"self_attn.o_proj"))
	}
	return out
}

// experts returns the sum of the experts that the router chooses.
func (l *layered) experts(r *reference, x []float64, at string) []float64 {
	scale := r.f.tensors[at+"router.scale"].data
	row, squares := slices.Clone(x), r.epsilon
	for _, e := range x {
		squares += e * e / float64(len(x))
	}
	for i := range row {
		row[i] *= float64(scale[i]) / math.Sqrt(squares*float64(len(x)))
	}
	p, total := r.linearMap(row, at+"router.proj"), 0.0
	ranked := slices.Sorted(slices.Values(p))
	least := ranked[len(p)-l.used]
	for i := range p {
		if p[i] >= least {
			total += math.Exp(p[i])
		}
	}
	in, y := r.norm(x, at+"pre_feedforward_layernorm_2.weight"), make([]float64, len(x))
	for i := range p {
		if p[i] >= least {
			by := math.Exp(p[i]) / total * float64(r.f.tensors[at+"router.per_expert_scale"].data[i])
			y = sum(y, times(r.gated(in, fmt.Sprintf("%sexperts.%d.", at, i)), by))
		}
	}
	return y
}

// layeredShape is what the tests' models of Gemma 4 have in common.
type layeredShape struct {
	layers, dim, heads, kv, fullKV, head, fullHead, ffn, shared, inputs, experts int
	doubled                                                                      bool
}

// fullLayers are every second one.
func (s *layeredShape) fullLayers() (full []bool) {
	for i := range s.layers {
		full = append(full, i%2 == 1)
	}
	return full
}

// eachTensor calls add for each tensor, under the name in a folder.
func (s *layeredShape) eachTensor(keysAreValues bool, add func(name string, shape ...int)) {
	add("model.embed_tokens.weight", 20, s.dim)
	add("model.norm.weight", s.dim)
	if s.inputs > 0 {
		add("model.embed_tokens_per_layer.weight", 20, s.layers*s.inputs)
		add("model.per_layer_model_projection.weight", s.layers*s.inputs, s.dim)
		add("model.per_layer_projection_norm.weight", s.inputs)
	}
	for i, full := range s.fullLayers() {
		at, head, kv, ffn := fmt.Sprintf("model.layers.%d.", i), s.head, s.kv, s.ffn
		if full {
			head, kv = s.fullHead, s.fullKV
		}
		shared := i >= s.layers-s.shared
		if shared && s.doubled {
			ffn *= 2
		}
		add(at+"self_attn.q_proj.weight", s.heads*head, s.dim)
		add(at+"self_attn.q_norm.weight", head)
		add(at+"self_attn.k_proj.weight", kv*head, s.dim) // without effect if it is shared
		add(at+"self_attn.k_norm.weight", head)
		if !full || !keysAreValues {
			add(at+"self_attn.v_proj.weight", kv*head, s.dim)
		}
		add(at+"self_attn.o_proj.weight", s.dim, s.heads*head)
		add(at+"mlp.gate_proj.weight", ffn, s.dim)
		add(at+"mlp.up_proj.weight", ffn, s.dim)
		add(at+"mlp.down_proj.weight", s.dim, ffn)
		norms := []string{"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
			"post_feedforward_layernorm"}
		if s.inputs > 0 {
			add(at+"per_layer_input_gate.weight", s.inputs, s.dim)
			add(at+"per_layer_projection.weight", s.dim, s.inputs)
			norms = append(norms, "post_per_layer_input_norm")
		}
		if s.experts > 0 {
			norms = append(norms, "post_feedforward_layernorm_1", "post_feedforward_layernorm_2",
				"pre_feedforward_layernorm_2")
			add(at+"router.proj.weight", s.experts, s.dim)
			add(at+"router.scale", s.dim)
			add(at+"router.per_expert_scale", s.experts)
			for e := range s.experts {
				one := fmt.Sprintf("%sexperts.%d.", at, e)
				add(one+"gate_proj.weight", 32, s.dim)
				add(one+"up_proj.weight", 32, s.dim)
				add(one+"down_proj.weight", s.dim, 32)
			}
		}
		for _, name := range norms {
			add(at+name+".weight", s.dim)
		}
		add(at+"layer_scalar", 1)
	}
}

// reference makes the reference compute a model.
func (s *layeredShape) reference(r *reference, keysAreValues bool) {
	r.heads, r.kv, r.head, r.gelu, r.logitCap = s.heads, s.kv, s.head, true, 3
	r.layered = &layered{full: s.fullLayers(), window: 5, head: s.fullHead, kv: s.fullKV,
		turned: s.fullHead / 8, theta: 30, shared: s.shared, keysAreValues: keysAreValues,
		used: min(2, s.experts)}
}

// folder makes a folder of Gemma 4.
func (s *layeredShape) folder(f *fake, r *reference, keysAreValues bool) {
	f.tensors = map[string]fakeTensor{}
	s.eachTensor(keysAreValues, f.add)
	kinds := []string{}
	for _, full := range s.fullLayers() {
		kinds = append(kinds, map[bool]string{true: fullLayer, false: slidingLayer}[full])
	}
	delete(f.config, "rope_theta")
	for key, value := range map[string]any{"model_type": "gemma4_text", "num_hidden_layers": s.layers,
		"hidden_size": s.dim, "num_attention_heads": s.heads, "num_key_value_heads": s.kv,
		"head_dim": s.head, "global_head_dim": s.fullHead, "intermediate_size": s.ffn,
		"hidden_activation": geluTanh, "layer_types": kinds, "sliding_window": 5,
		"final_logit_softcapping": 3, "num_kv_shared_layers": s.shared, "attention_k_eq_v": keysAreValues,
		"use_double_wide_mlp": s.doubled, "hidden_size_per_layer_input": s.inputs,
		"vocab_size_per_layer_input": 20, "num_global_key_value_heads": nil, "enable_moe_block": false,
		"use_bidirectional_attention": "vision", "expert_intermediate_size": nil, "num_experts": nil,
		"rope_parameters": map[string]any{
			"full_attention": map[string]any{"partial_rotary_factor": 0.25, "rope_theta": 500,
				"rope_type": "proportional"},
			"sliding_attention": map[string]any{"rope_theta": 30, "rope_type": "default"}}} {
		f.config[key] = value
	}
	if keysAreValues {
		f.config["num_global_key_value_heads"] = s.fullKV
	}
	if s.experts > 0 {
		f.config["enable_moe_block"], f.config["num_experts"] = true, s.experts
		f.config["top_k_experts"], f.config["moe_intermediate_size"] = 2, 32
		for i := range s.layers {
			f.fuseExpertsOf(fmt.Sprintf("model.layers.%d.experts.", i), s.experts)
		}
	}
	s.reference(r, keysAreValues)
}

// fuseExpertsOf replaces the matrices of a layer's experts by two tensors.
func (f *fake) fuseExpertsOf(at string, experts int) {
	for all, names := range map[string][]string{"gate_up_proj": {"gate_proj", "up_proj"},
		"down_proj": {"down_proj"}} {
		fused := fakeTensor{shape: []int{experts, 0, 0}}
		for e := range experts {
			fused.shape[1] = 0
			for _, name := range names {
				x := f.tensors[fmt.Sprintf("%s%d.%s.weight", at, e, name)]
				fused.shape[1], fused.shape[2] = fused.shape[1]+x.shape[0], x.shape[1]
				fused.data = append(fused.data, x.data...)
				f.hide(fmt.Sprintf("%s%d.%s.weight", at, e, name))
			}
		}
		f.tensors[at+all] = fused
	}
}

// layeredNamesOf maps names in folders to names in GGUF files.
var layeredNamesOf = strings.NewReplacer(slices.Concat([]string{
	"model.embed_tokens_per_layer", "per_layer_token_embd",
	"model.per_layer_model_projection", "per_layer_model_proj",
	"model.per_layer_projection_norm", "per_layer_proj_norm",
	"per_layer_input_gate", "inp_gate", "per_layer_projection", "proj",
	"post_per_layer_input_norm", "post_norm", "layer_scalar", "layer_output_scale.weight",
	"post_feedforward_layernorm_1", "post_ffw_norm_1", "post_feedforward_layernorm_2",
	"post_ffw_norm_2", "pre_feedforward_layernorm_2", "pre_ffw_norm_2", "router.proj", "ffn_gate_inp",
	"router.scale", "ffn_gate_inp.scale", "router.per_expert_scale", "ffn_down_exps.scale",
	"post_attention_layernorm", "post_attention_norm", "pre_feedforward_layernorm", "ffn_norm",
	"post_feedforward_layernorm", "post_ffw_norm"}, ggufNameList)...)

// gguf makes a GGUF file of Gemma 4.
func (s *layeredShape) gguf(r *reference, keysAreValues bool) *fakeGGUF {
	f := &fakeGGUF{fake: &fake{tensors: map[string]fakeTensor{}},
		ggufShape: ggufShape{s.layers, s.dim, s.ffn, s.heads, s.kv, s.head, 20}, names: layeredNamesOf}
	s.eachTensor(keysAreValues, func(name string, shape ...int) {
		f.tensor(name, one("Q8_0"), shape...)
		if strings.HasSuffix(name, "scalar") {
			f.tensors[name].data[0] = 0.75
			f.setData(f.names.Replace(name), []float32{0.75})
		}
	})
	factors := slices.Repeat([]float32{1e30}, s.fullHead/2)
	for i := range s.fullHead / 8 {
		factors[i] = 1
	}
	f.tensor("rope_freqs.weight", one("F32"), s.fullHead/2)
	f.setData("rope_freqs.weight", factors)
	f.metadata("gemma4")
	widths, heads := make([]int32, s.layers), make([]int32, s.layers)
	for i, full := range s.fullLayers() {
		if widths[i], heads[i] = int32(s.ffn), int32(s.kv); full {
			heads[i] = int32(s.fullKV)
		}
		if i >= s.layers-s.shared && s.doubled {
			widths[i] *= 2
		}
	}
	for key, value := range map[string]any{"attention.shared_kv_layers": uint32(s.shared),
		"embedding_length_per_layer_input": uint32(s.inputs),
		"attention.sliding_window":         uint32(5), "attention.key_length": uint32(s.fullHead),
		"attention.value_length": uint32(s.fullHead), "attention.key_length_swa": uint32(s.head),
		"attention.value_length_swa": uint32(s.head), "rope.dimension_count": uint32(s.fullHead),
		"rope.dimension_count_swa": uint32(s.head), "rope.freq_base_swa": float32(30),
		"final_logit_softcapping": float32(3), "attention.head_count_kv": heads,
		"feed_forward_length":              widths,
		"attention.sliding_window_pattern": slidingOf(s)} {
		f.Set("gemma4."+key, value)
	}
	if s.experts > 0 {
		f.stack("ffn_gate_exps.weight", "experts.%d.gate_proj.weight", s.experts)
		f.stack("ffn_up_exps.weight", "experts.%d.up_proj.weight", s.experts)
		f.stack("ffn_down_exps.weight", "experts.%d.down_proj.weight", s.experts)
		f.fuse("ffn_gate_up_exps", "ffn_gate_exps", "ffn_up_exps")
		f.Set("gemma4.expert_count", uint32(s.experts))
		f.Set("gemma4.expert_used_count", uint32(2))
		f.Set("gemma4.expert_feed_forward_length", uint32(32))
	}
	s.reference(r, keysAreValues)
	return f
}

func slidingOf(s *layeredShape) (x []bool) {
	for _, full := range s.fullLayers() {
		x = append(x, !full)
	}
	return x
}

// The models of Gemma 4: E2B with inputs of layers and shared caches, 31B, and A4B with experts.
var (
	small4 = layeredShape{layers: 6, dim: 64, heads: 4, kv: 2, fullKV: 2, head: 16, fullHead: 32,
		ffn: 64, shared: 2, inputs: 32, doubled: true}
	dense4 = layeredShape{layers: 2, dim: 64, heads: 4, kv: 2, fullKV: 1, head: 16, fullHead: 32,
		ffn: 64}
	experts4 = layeredShape{layers: 2, dim: 64, heads: 4, kv: 2, fullKV: 1, head: 16, fullHead: 32,
		ffn: 64, experts: 5}
)

var layeredCases = []archCase{
	{name: "gemma4", folder: func(f *fake, r *reference) { small4.folder(f, r, false) }},
	{name: "gemma4, large", folder: func(f *fake, r *reference) { dense4.folder(f, r, true) }},
	{name: "gemma4 with experts", folder: func(f *fake, r *reference) { experts4.folder(f, r, true) }},
	{name: "gemma4 beside images", folder: func(f *fake, r *reference) {
		small4.folder(f, r, false)
		wrap(f, "gemma4", "Gemma4ForConditionalGeneration", "model.language_model.")
		f.add("model.vision_tower.something", 3)
		f.add("model.embed_audio.something", 3)
	}},
	{name: "gemma4 of GGUF", gguf: func(r *reference) *fakeGGUF { return small4.gguf(r, false) }},
	{name: "gemma4 of GGUF, large", gguf: func(r *reference) *fakeGGUF {
		return dense4.gguf(r, true)
	}},
	{name: "gemma4 of GGUF with experts", gguf: func(r *reference) *fakeGGUF {
		return experts4.gguf(r, true)
	}},
}

// TestSessionsOfSharedCaches saves, loads, forks and truncates sessions of layers that read keys
// and values of other layers, next to a model that guesses: logits have the same bits.
func TestSessionsOfSharedCaches(t *testing.T) {
	f := newFake("F32")
	small4.folder(f, &reference{}, false)
	path := f.write(t)
	draft, err := Open(path, Options{Context: 64})
	must(t, err)
	defer func() { must(t, draft.Close()) }()
	m, err := Open(path, Options{Context: 64, Draft: draft, Chunk: 7})
	must(t, err)
	defer func() { must(t, m.Close()) }()
	fresh := func() *Session {
		s, err := m.NewSession()
		must(t, err)
		return s
	}
	logits := func(s *Session, tokens ...int32) []float32 {
		x, err := s.Append(t.Context(), tokens...)
		must(t, err)
		return slices.Clone(x)
	}
	prompt := wide(archPrompt)
	s := fresh()
	want := logits(s, prompt...)
	if draft, err := draft.NewSession(); err != nil || !slices.Equal(logits(draft, prompt...), want) {
		t.Errorf("in one chunk the logits have other bits (%v)", err)
	}
	var saved bytes.Buffer
	_, err = s.Save(&saved)
	must(t, err)
	loaded := fresh()
	_, err = loaded.Load(&saved)
	must(t, err)
	fork, err := s.Fork()
	must(t, err)
	must(t, s.Truncate(len(prompt)-9))
	if !slices.Equal(logits(s, prompt[len(prompt)-9:]...), want) {
		t.Error("after Truncate the logits have other bits")
	}
	want = logits(s, 5)
	for name, s := range map[string]*Session{"loaded": loaded, "forked": fork} {
		if !slices.Equal(logits(s, 5), want) {
			t.Errorf("%s: the logits have other bits", name)
		}
	}
	var answers [2][]int32
	for i, g := range []Generation{{MaxTokens: 12}, {MaxTokens: 12, Session: fresh()}} {
		for token, err := range m.Generate(t.Context(), prompt, g) {
			must(t, err)
			answers[i] = append(answers[i], token.ID)
		}
	}
	if !slices.Equal(answers[0], answers[1]) {
		t.Errorf("answers are %v, and %v in a session", answers[0], answers[1])
	}
	if _, err := newRemote(m.net, &settings{}); !errors.Is(err, attn.ErrOption) {
		t.Errorf("with a cache elsewhere: %v", err)
	}
}

// TestInputsStayInTheFile opens a model whose second table needs no memory. When the file has lost
// its rows, an answer ends with an error that names the tensor.
func TestInputsStayInTheFile(t *testing.T) {
	f := newFake("BF16")
	small4.folder(f, &reference{}, false)
	path := f.write(t)
	m, err := Open(path, Options{Workers: 1})
	must(t, err)
	defer m.Close()
	if table := m.net.table.table.MemoryUse(); table != 0 {
		t.Errorf("the table of inputs occupies %d bytes, want 0", table)
	}
	ask := func() (err error) {
		for _, err = range m.Generate(t.Context(), []int32{3, 1}, Generation{MaxTokens: 2}) {
		}
		return err
	}
	must(t, ask())
	must(t, os.Truncate(filepath.Join(path, "model.safetensors"), 8))
	if err := ask(); err == nil || !strings.Contains(err.Error(), "embed_tokens_per_layer") {
		t.Errorf("without rows: %v, want an error that names the tensor", err)
	}
}
