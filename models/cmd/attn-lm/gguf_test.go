package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/dev/gguftest"
)

var ggufPrompt = []int{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 17, 19}

// openGGUF opens a file as the command does.
func openGGUF(t *testing.T, path string) *model {
	t.Helper()
	m, _, err := (&options{model: path, weights: -1}).open()
	must(t, err)
	return m
}

// TestBlockTypes compares logits with those of float64 over what the blocks of a file mean: in
// float32, and in integers, with keys and values of 8 and of 4 bits.
func TestBlockTypes(t *testing.T) {
	for _, kind := range allBlockTypes {
		t.Run(kind, func(t *testing.T) {
			f, r := newGGUF("llama", one(kind)), ggufReference()
			path := at(t, "fake.gguf")
			f.Write(t, path)
			r.f = f.fake
			want := r.logits(ggufPrompt)
			compareLogits(t, openGGUF(t, path), false, ggufPrompt, want)
			decoded, _, err := (&options{model: path, weights: attn.F32}).open()
			must(t, err)
			compareLogits(t, decoded, true, ggufPrompt, want)
			m, _, err := (&options{model: path, weights: asStored,
				settings: settings{integers: true}}).open()
			must(t, err)
			for _, c := range []struct {
				kind, values attn.Format
				most         float64
			}{{attn.I8, 0, 0.03}, {attn.I8, attn.I4, 0.2}, {attn.I4, 0, 0.25}} {
				s := settings{workers: 2, places: 1, chunk: 16, context: 64, kind: c.kind, values: c.values,
					integers: true}
				got := distanceTo(firstLogits(t, m, s, false, ggufPrompt), want)
				if !(got > 0 && got < c.most) {
					t.Errorf("in integers, keys of %v: logits differ by %.4f of their deviation, want less than "+
						"%v", c.kind, got, c.most)
				}
			}
		})
	}
}

// distanceTo is the mean difference of logits as a share of their deviation.
func distanceTo(got []float32, want []float64) float64 {
	exact := make([]float32, len(want))
	for i, x := range want {
		exact[i] = float32(x)
	}
	mean, _ := distance([][]float32{exact}, [][]float32{got})
	return mean
}

// TestProveGGUF compares the bits of logits in any batch, for blocks in integers.
func TestProveGGUF(t *testing.T) {
	f, path := newShapedGGUF(smallGGUF, "qwen3", one("IQ4_NL")), at(t, "fake.gguf")
	f.Write(t, path)
	for _, args := range []string{"-integers -cache i8,i4"} {
		var out bytes.Buffer
		err := run(append(strings.Fields(args), "-prove", "-n", "2", "-model", path, "abc abc"), &out,
			io.Discard)
		if text := out.String(); err != nil || strings.Count(text, "OK, same bits") != len(trials)-1 ||
			!strings.Contains(text, "[1] abc abc") || !strings.Contains(text, "prefill: 3 tokens") {
			t.Errorf("%s: %v\n%s", args, err, &out)
		}
	}
}

// TestAccuracyGGUF compares blocks in integers with what they mean.
func TestAccuracyGGUF(t *testing.T) {
	f, path := newShapedGGUF(smallGGUF, "llama", one("Q4_0")), at(t, "fake.gguf")
	f.Write(t, path)
	var out bytes.Buffer
	must(t, run([]string{"-accuracy", "-model", path}, &out, io.Discard))
	if n := strings.Count(out.String(), " %"); n != 2*(len(accuracyWays)-1) {
		t.Errorf("there are %d numbers, want two for each way but the first:\n%s", n, &out)
	}
}

// TestGGUF reads what else files may have.
func TestGGUF(t *testing.T) {
	for _, c := range []struct {
		name, architecture string
		change             func(*fakeGGUF, *reference)
	}{
		{"biases of qwen2", "qwen2", func(*fakeGGUF, *reference) {}},
		{"tied", "llama", func(f *fakeGGUF, r *reference) {
			f.without("output.weight")
			r.tied = true
		}},
		{"what changes nothing", "qwen2", func(f *fakeGGUF, _ *reference) {
			f.Set("qwen2.attention.head_count", []uint32{4, 4})
			f.Set("qwen2.attention.head_count_kv", []int32{2, 2})
			f.Set("qwen2.feed_forward_length", []uint32{uint32(f.ffn), uint32(f.ffn)})
			f.Set("general.parameter_count", uint64(1)<<40)
			f.Set("general.description", "caf\xe9")
			f.Set("general.tags", []string{"\xff"})
			f.Set("quantize.imatrix.file", "\xff")
			f.Tensors = slices.Insert(f.Tensors, 2, gguftest.Tensor{Name: "none", Shape: []int{0, 64}})
			for i, x := range f.Tensors {
				if len(x.Shape) == 1 {
					f.Tensors[i].Shape = []int{1, 1, x.Shape[0]}
				}
			}
		}},
		{"queries, keys and values in one tensor", "llama", func(f *fakeGGUF, _ *reference) {
			f.fuse("attn_qkv", "attn_q", "attn_k", "attn_v")
		}},
		{"their biases, too", "qwen2", func(f *fakeGGUF, _ *reference) {
			f.fuse("attn_qkv", "attn_q", "attn_k", "attn_v")
		}},
		{"another alignment", "llama", func(f *fakeGGUF, _ *reference) { f.Align = 128 }},
		{"what is usual", "llama", func(f *fakeGGUF, r *reference) {
			for _, key := range []string{"rope.freq_base", "rope.dimension_count", "vocab_size"} {
				f.Set("llama."+key, nil)
			}
			r.theta = 10000
		}},
		{"sizes of heads", "llama", func(f *fakeGGUF, _ *reference) {
			f.Set("llama.attention.key_length", uint32(f.head))
			f.Set("llama.attention.value_length", uint32(f.head))
		}},
		{"a window", "llama", func(f *fakeGGUF, r *reference) {
			f.Set("llama.attention.sliding_window", uint32(5))
			r.windows = map[int]int{0: 5, 1: 5}
		}},
		{"no window", "llama", func(f *fakeGGUF, r *reference) {
			f.Set("llama.attention.sliding_window", uint32(0))
		}},
		{"a window of each other layer", "qwen3", func(f *fakeGGUF, r *reference) {
			f.Set("qwen3.attention.sliding_window", uint32(5))
			f.Set("qwen3.attention.sliding_window_pattern", uint32(2))
			r.windows = map[int]int{0: 5}
		}},
		{"a window of some layers", "qwen2", func(f *fakeGGUF, r *reference) {
			f.Set("qwen2.attention.sliding_window", uint32(5))
			f.Set("qwen2.attention.sliding_window_pattern", []bool{false, true})
			r.windows = map[int]int{1: 5}
		}},
		{"YaRN", "qwen3", func(f *fakeGGUF, r *reference) {
			f.Set("qwen3.rope.scaling.type", "yarn")
			f.Set("qwen3.rope.scaling.factor", float32(4))
			f.Set("qwen3.rope.scaling.original_context_length", uint32(64))
			r.yarn, r.factor, r.original = true, 4, 64
		}},
		{"YaRN of pairs", "llama", func(f *fakeGGUF, r *reference) {
			f.Set("llama.rope.scaling.type", "yarn")
			f.Set("llama.rope.scaling.factor", float32(2))
			f.Set("llama.rope.scaling.yarn_beta_fast", float32(32))
			f.Set("llama.rope.scaling.yarn_beta_slow", float32(1))
			f.Set("llama.rope.scaling.attn_factor", float32(1))
			r.yarn, r.factor, r.original = true, 2, 512
		}},
		{"linear rotations", "llama", func(f *fakeGGUF, r *reference) {
			f.Set("llama.rope.scaling.type", "linear")
			f.Set("llama.rope.scaling.factor", float32(2.5))
			r.factor, r.linear = 2.5, true
		}},
		{"linear rotations of older files", "llama", func(f *fakeGGUF, r *reference) {
			f.Set("llama.rope.scale_linear", float32(2.5))
			r.factor, r.linear = 2.5, true
		}},
		{"rotations that are not stretched", "llama", func(f *fakeGGUF, r *reference) {
			f.Set("llama.rope.scaling.type", "none")
			f.Set("llama.rope.scaling.factor", float32(8))
		}},
		{"a factor of nothing", "llama", func(f *fakeGGUF, r *reference) {
			f.Set("llama.rope.scaling.factor", float32(0))
		}},
		{"factors of Llama 3.1", "llama", func(f *fakeGGUF, r *reference) {
			f.tensor("rope_freqs.weight", one("F32"), f.head/2)
			x := make([]float32, f.head/2)
			for i := range x {
				x[i] = 1 + float32(i)/4
			}
			f.setData("rope_freqs.weight", x)
			f.tensors["factors"] = fakeTensor{[]int{len(x)}, x}
		}},
		{"several types, as in Q4_K_M", "llama", func(f *fakeGGUF, _ *reference) {
			*f = *newGGUF("llama", func(name string) string {
				return cmp.Or(map[string]string{"model.embed_tokens.weight": "Q6_K", "lm_head.weight": "Q6_K",
					"model.layers.0.self_attn.v_proj.weight": "Q6_K",
					"model.layers.1.mlp.down_proj.weight":    "Q5_K",
					"model.layers.1.self_attn.k_proj.weight": "F16",
					"model.layers.1.mlp.up_proj.weight":      "F32"}[name], "Q4_K")
			})
		}},
		{"other types", "llama", func(f *fakeGGUF, _ *reference) {
			*f = *newGGUF("llama", func(name string) string {
				return cmp.Or(map[string]string{"model.embed_tokens.weight": "IQ4_XS",
					"lm_head.weight":                         "NVFP4",
					"model.layers.0.self_attn.v_proj.weight": "Q2_K",
					"model.layers.1.mlp.down_proj.weight":    "TQ1_0",
					"model.layers.1.self_attn.k_proj.weight": "TQ2_0"}[name], "Q3_K")
			})
		}},
		{"rows of part of 256, as in Q4_K_M", "qwen2", func(f *fakeGGUF, _ *reference) {
			*f = *newShapedGGUF(ggufShape{2, 96, 256, 4, 2, 64, 20}, "qwen2", func(name string) string {
				return cmp.Or(map[string]string{"model.embed_tokens.weight": "Q8_0", "lm_head.weight": "Q8_0",
					"model.layers.0.self_attn.v_proj.weight": "Q8_0",
					"model.layers.0.mlp.down_proj.weight":    "Q6_K",
					"model.layers.1.mlp.down_proj.weight":    "Q3_K",
					"model.layers.1.self_attn.k_proj.weight": "Q5_1",
					"model.layers.1.self_attn.v_proj.weight": "Q4_1"}[name], "Q5_0")
			})
			f.Set("qwen2.attention.key_length", uint32(f.head))
			f.Set("qwen2.attention.value_length", uint32(f.head))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, r := newGGUF(c.architecture, one("Q8_0")), ggufReference()
			c.change(f, &r)
			r.f = f.fake
			path, want := at(t, "fake.gguf"), r.logits(ggufPrompt)
			f.Write(t, path)
			compareLogits(t, openGGUF(t, path), false, ggufPrompt, want)
			compareLogits(t, openGGUF(t, f.writeSplit(t, 3)), false, ggufPrompt, want)
		})
	}
}

// TestChat asks as a user, after what the system says once.
func TestChat(t *testing.T) {
	f, path := newGGUF("llama", one("Q8_0")), at(t, "fake.gguf")
	f.Set("tokenizer.chat_template", "{{ bos_token }}{% for m in messages %}"+
		"{% if m.role == 'system' %}{{ m.content + 'abc' }}"+
		"{% else %}{{ m.content }}{% endif %}{% endfor %}{% if "+
		"add_generation_prompt %}{{ eos_token }}{% endif %}")
	f.Write(t, path)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"a", "bb"}, []string{"[1] a\n", "[2] bb\n", "prefill: 7 tokens"}},
		{[]string{"-integers=false", "a"}, []string{"[1] a\n",
			"-integers is many"}},
		{[]string{"-shared", "dd", "a", "bb"}, // 1 + 2 + 1 in common, and 2 and 3 for each
			[]string{"[1] a\n", "[2] bb\n", "prefill: 9 tokens"}},
		{[]string{"-shared", "dd", "a"}, []string{"[1] a\n", "prefill: 6 tokens"}},
		{[]string{"z"}, []string{`prompt 1: the vocabulary has no token for "z"`}},
	} {
		var out bytes.Buffer
		err := run(append([]string{"-chat", "-n", "2", "-model", path}, c.args...), &out, io.Discard)
		for _, want := range c.want {
			if all := fmt.Sprint(&out, err); !strings.Contains(all, want) {
				t.Errorf("%v: want %q in:\n%s", c.args, want, all)
			}
		}
	}
	folder := newFake("F32").write(t)
	write("tokenizer_config.json", `{"bos_token": "<s>", "chat_template": "{{ bos_token }}`+
		`{% for m in messages %}{{ m.content }}{% endfor %}<|end|>"}`)(t, folder)
	var out bytes.Buffer
	if err := run([]string{"-chat", "-n", "2", "-model", folder, "-shared", "d", "abc"}, &out,
		io.Discard); err != nil || !strings.Contains(out.String(), "prefill: 4 tokens") {
		t.Errorf("of a folder: %v\n%s", err, &out)
	}
	folder = newFake("F32").write(t)
	for _, args := range [][]string{{"abc"}, {"-model", folder, "abc"}} {
		if err := run(append([]string{"-chat"}, args...), io.Discard, io.Discard); err == nil ||
			!strings.Contains(err.Error(), " chat template") {
			t.Errorf("%v: the error is %v", args, err)
		}
	}
}

// TestAnswersEnd: tokens that end a turn end an answer, whether a key names them or not, and are
// not printed.
func TestAnswersEnd(t *testing.T) {
	const template = "{% for m in messages %}{{ m.content }}{% endfor %}"
	answer := func(f *fakeGGUF) string {
		path := at(t, "fake.gguf")
		f.Write(t, path)
		var out bytes.Buffer
		must(t, run([]string{"-chat", "-n", "900", "-temperature", "3", "-model", path, "a", "bb"}, &out,
			io.Discard))
		return out.String()
	}
	for _, text := range []string{"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|eom_id|>",
		"<|endoftext|>"} {
		f := newShapedGGUF(smallGGUF, "llama", one("Q8_0"))
		f.Set("tokenizer.chat_template", template)
		f.Set("tokenizer.ggml.eos_token_id", nil)
		f.rename(19, text)
		if got := answer(f); strings.Contains(got, text) || strings.Contains(got, "no token ends") ||
			len(got) > 5000 || !strings.Contains(got, "[2] bb\n") {
			t.Errorf("with %s: %d bytes, that contain it: %v\n%.2000s", text, len(got),
				strings.Contains(got, text), got)
		}
	}
	f := newShapedGGUF(smallGGUF, "llama", one("Q8_0"))
	f.Set("tokenizer.chat_template", template)
	f.Set("tokenizer.ggml.eos_token_id", nil)
	f.rename(19, "<|other|>")
	if got := answer(f); !strings.Contains(got, "<|other|>") ||
		!strings.Contains(got, "no token ends") {
		t.Errorf("a token of another text ends answers:\n%.2000s", got)
	}
	f.Set("tokenizer.ggml.eos_token_ids", []uint32{18, 19})
	if got := answer(f); strings.Contains(got, "<|other|>") || strings.Contains(got, "no token ends") {
		t.Errorf("a token of eos_token_ids does not end answers:\n%.2000s", got)
	}
}

// TestHarmonyEnds: where messages of an answer end with <|end|>, the answer goes on, up to the token
// that ends it; elsewhere it ends.
func TestHarmonyEnds(t *testing.T) {
	control := []string{"<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|return|>", "<|call|>"}
	script := []string{"x", "a", "<|channel|>", "analysis", "<|message|>", "b", "<|end|>", "<|start|>",
		"assistant", "final", "c", "<|return|>", "wrong", "wrong"}
	const whole = "a<|channel|>analysis<|message|>b<|end|><|start|>assistantfinalc\n"
	for _, c := range []struct {
		others, end string // control tokens in the place of return and call
		ends        []string
		want        string
	}{
		{"", "<|return|>", nil, whole},
		{"", "", nil, whole},
		{"<|flush|> <|calls|>", "", nil, whole},
		{"<|other|> <|another|>", "<|other|>", nil, "a<|channel|>analysis<|message|>b\n"},
		{"<|other|> <|another|>", "", []string{"<|other|>", "<|another|>"}, whole},
	} {
		replaced := strings.NewReplacer()
		if first, second, ok := strings.Cut(c.others, " "); ok {
			replaced = strings.NewReplacer("<|return|>", first, "<|call|>", second)
		}
		each := func(list []string) (made []string) {
			for _, text := range list {
				made = append(made, replaced.Replace(text))
			}
			return made
		}
		f := scriptGGUF(t, "", each(control), each(script)...)
		if c.end != "" {
			f.setID("eos_token_id", c.end)
		}
		f.setIDs("eos_token_ids", c.ends...)
		path := at(t, "fake.gguf")
		f.Write(t, path)
		var out bytes.Buffer
		must(t, run([]string{"-n", "20", "-model", path, "x"}, &out, io.Discard))
		if !strings.Contains(out.String(), "[1] x"+c.want) {
			t.Errorf("%+v: want %q in\n%s", c, c.want, &out)
		}
	}
}

// TestControl: what is written like a control token is one only if -control says so.
func TestControl(t *testing.T) {
	f, path := newShapedGGUF(smallGGUF, "llama", one("Q8_0")), at(t, "fake.gguf")
	f.Set("tokenizer.chat_template", "{% for m in messages %}<s>{{ m.content }}{% endfor %}")
	kinds := slices.Repeat([]int32{1}, 20)
	kinds[17], kinds[19] = 3, 3
	f.rename(16, "<")
	f.rename(11, ">")
	f.rename(10, "s")
	f.Set("tokenizer.ggml.merges", []string{"a b", "ab c", "Ġ a"})
	f.Write(t, path)
	note := "Prompts have the texts of control tokens, which they do not become without -control: " +
		"<s>\n"
	for _, c := range []struct {
		args string
		read int // tokens of the prompt
		note bool
	}{
		{"a<s>a", 6, true}, // with <s> before it
		{"-control a<s>a", 4, false},
		{"a", 2, false},
		{"-chat a<s>a", 6, true},
		{"-chat -control a<s>a", 4, false},
		{"-shared <s> a", 5, true},
		{"-shared <s> -control a", 3, false},
		{"-chat -shared <s> a", 6, true},
	} {
		var out bytes.Buffer
		args := append([]string{"-n", "1", "-model", path}, strings.Fields(c.args)...)
		err := run(args, &out, io.Discard)
		if err != nil || strings.Contains(out.String(), note) != c.note ||
			!strings.Contains(out.String(), fmt.Sprintf("prefill: %d tokens", c.read)) {
			t.Errorf("%s: %v, want the note %v, and %d tokens:\n%s", c.args, err, c.note, c.read, &out)
		}
	}
}

// TestReportMemory reads what a step of decode could take at the memory's speed.
func TestReportMemory(t *testing.T) {
	m := tinyModel(t, attn.F32, 1)
	e, err := newEngine(m, settings{workers: 2, places: 1, chunk: 16, context: 64})
	must(t, err)
	defer e.close()
	var out bytes.Buffer
	e.packed = 2e9 // more than any cache that is measured around
	e.steps, e.making = 30, 10*time.Second
	e.report(&out)
	var steps, most, size, speed float64
	_, line, _ := strings.Cut(out.String(), "decode:  0 tokens, 0.0 a second\n")
	if _, err := fmt.Sscanf(line, " %f steps a second; %f read the %f GB of all matrices at the "+
		"memory's %f GB/s\n", &steps, &most, &size, &speed); err != nil || steps != 3 || size != 2 ||
		math.Abs(2*most-speed) > 0.16 || speed < 0.1 {
		t.Errorf("%v in %q", err, &out)
	}
}
