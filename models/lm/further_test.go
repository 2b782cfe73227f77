package lm

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/dev/gguftest"
)

// addMTP gives a folder of Qwen a layer that guesses further tokens.
func addMTP(f *fake, r *reference) {
	copyLayer(f, "mtp.layers.0.")
	f.add("mtp.fc.weight", 24, 48)
	for _, name := range []string{"mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.norm"} {
		f.add(name+".weight", 24)
	}
	r.further = mtpNames
}

// addNextN gives a folder of GLM such a layer, with an embedding and a head of its own.
func addNextN(f *fake, r *reference) {
	const at = "model.layers.2."
	copyLayer(f, at)
	f.tensors[at+"mlp.gate.e_score_correction_bias"] = decisive
	f.add(at+"eh_proj.weight", 24, 48)
	for _, name := range []string{"enorm", "hnorm", "shared_head.norm"} {
		f.add(at+name+".weight", 24)
	}
	f.add(at+"shared_head.head.weight", 20, 24)
	f.add(at+"embed_tokens.weight", 20, 24)
	f.config["num_nextn_predict_layers"] = 1
	r.further = furtherNames{layer: at, join: at + "eh_proj", tokenNorm: at + "enorm",
		rowNorm: at + "hnorm", norm: at + "shared_head.norm", embedding: at + "embed_tokens",
		head: at + "shared_head.head"}
}

// copyLayer adds a layer of the shapes of the second one.
func copyLayer(f *fake, to string) {
	const from = "model.layers.1."
	for _, name := range slices.Sorted(maps.Keys(f.tensors)) {
		if strings.HasPrefix(name, from) {
			f.add(to+strings.TrimPrefix(name, from), f.tensors[name].shape...)
		}
	}
}

// addNextNGGUF gives a GGUF file such a layer, with the numbers of the second one. Without own it
// has no norm, embedding and head of its own.
func addNextNGGUF(f *fakeGGUF, r *reference, kind string, own bool) {
	const at = "model.layers.2."
	for name, x := range maps.Clone(f.tensors) {
		if rest, ok := strings.CutPrefix(name, "model.layers.1."); ok {
			f.tensors[at+rest] = x
		}
	}
	for _, x := range slices.Clone(f.Tensors) {
		if rest, ok := strings.CutPrefix(x.Name, "blk.1."); ok {
			x.Name = "blk.2." + rest
			f.Tensors = append(f.Tensors, x)
		}
	}
	r.further = furtherNames{layer: at, join: "eh_proj", tokenNorm: "enorm", rowNorm: "hnorm",
		norm: "model.norm"}
	shapes := map[string][]int{"eh_proj": {f.dim, 2 * f.dim}, "enorm": {f.dim}, "hnorm": {f.dim}}
	if own {
		r.further.norm = "shared_head_norm"
		r.further.embedding, r.further.head = "embed_tokens", "shared_head_head"
		maps.Copy(shapes, map[string][]int{"shared_head_norm": {f.dim},
			"embed_tokens": {f.vocab, f.dim}, "shared_head_head": {f.vocab, f.dim}})
	}
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		f.tensor(name+".weight", one("Q8_0"), shapes[name]...)
		f.Tensors[len(f.Tensors)-1].Name = "blk.2.nextn." + name + ".weight"
	}
	f.Set(kind+".block_count", uint32(3))
	f.Set(kind+".nextn_predict_layers", uint32(1))
	slices.SortFunc(f.Tensors, func(a, b gguftest.Tensor) int {
		return strings.Compare(a.Name, b.Name)
	})
}

// furtherCases are models with a layer that guesses further tokens.
var furtherCases = []archCase{
	{name: "qwen3.5", folder: func(f *fake, r *reference) {
		addStates(f, r, "qwen3_5_text")
		addMTP(f, r)
		f.config["mtp_num_hidden_layers"], f.config["mtp_use_dedicated_embeddings"] = 1, false
	}},
	{name: "qwen3.5 with experts beside images", folder: func(f *fake, r *reference) {
		qwen35MoEFolder(f, r)
		addMTP(f, r)
		f.config["mtp_num_hidden_layers"] = 1
		wrap(f, "qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "model.language_model.")
	}},
	{name: "qwen3-next", folder: func(f *fake, r *reference) {
		qwen35MoEFolder(f, r)
		f.config["model_type"], f.config["intermediate_size"] = "qwen3_next", 40
		interlace(f)
		addMTP(f, r)
	}},
	{name: "glm4_moe", folder: func(f *fake, r *reference) {
		glmMoEFolder(f, r)
		f.config["attention_bias"] = true
		addBiases(f, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
		addNextN(f, r)
	}},
	{name: "qwen3.5 of GGUF", gguf: func(r *reference) *fakeGGUF {
		f := newShapedGGUF(ggufShape{2, 64, 64, 4, 2, 16, 20}, "qwen35", one("Q8_0"))
		statesGGUF(f, r, "qwen35")
		f.Set("qwen35.rope.dimension_sections", []int32{2, 1, 1, 0})
		r.tiled = true
		addNextNGGUF(f, r, "qwen35", false)
		return f
	}},
	{name: "qwen3.5 of GGUF with experts", gguf: func(r *reference) *fakeGGUF {
		f := qwen35MoEGGUF(r)
		addNextNGGUF(f, r, "qwen35moe", true)
		return f
	}},
	{name: "qwen3-next of GGUF", gguf: func(r *reference) *fakeGGUF {
		f := qwenNextGGUF(r)
		addNextNGGUF(f, r, "qwen3next", true)
		return f
	}},
	{name: "glm4_moe of GGUF", gguf: func(r *reference) *fakeGGUF {
		f := glmMoEGGUF(r)
		addNextNGGUF(f, r, "glm4moe", true)
		return f
	}},
}

// write writes the model of a case, and returns its path and the reference that computes it.
func (c *archCase) write(t *testing.T) (string, *reference) {
	t.Helper()
	if c.gguf != nil {
		r, path := ggufReference(), at(t, "fake.gguf")
		f := c.gguf(&r)
		r.f = f.fake
		f.Write(t, path)
		return path, &r
	}
	r := reference{layers: 2, heads: 4, kv: 2, head: 8, epsilon: 1e-5, theta: 500, f: newFake("F32")}
	c.folder(r.f, &r)
	return r.f.write(t), &r
}

// TestFurtherLogits compares the logits of chains of guesses with the textbook's, in answers some
// of whose guesses are right.
func TestFurtherLogits(t *testing.T) {
	for _, c := range furtherCases {
		t.Run(c.name, func(t *testing.T) {
			path, r := c.write(t)
			s := settings{workers: 2, places: 1, chunk: 5, context: 128, guesses: 4, steady: true}
			m, _, err := (&options{model: path, weights: asStored, settings: s}).open()
			must(t, err)
			m.Stop = nil
			e, err := newTester(m, s)
			must(t, err)
			defer e.close()
			answer := furtherAnswer(t, m, s)
			compared := 0
			e.guesser.change = func(j *job, i int, _ int32) int32 {
				want := r.furtherLogits(narrow(j.tokens), narrow(j.guesses))
				if got := distanceTo(e.guesser.logits[:m.Vocab], want); !(got < 1e-4) {
					t.Errorf("after %d tokens guess %d differs by %v of its deviation", len(j.tokens), i, got)
				}
				right := int32(answer[len(j.tokens)+len(j.guesses)])
				if compared++; compared%5 == 0 {
					return (right + 1) % 20
				}
				return right
			}
			e.queue(&call{prompt: archPrompt[:7], most: 12, choose: greedy})
			must(t, e.answer())
			if compared < 8 || e.meter.right < 5 || e.meter.right == e.guesser.made {
				t.Errorf("%d guesses, and %d of %d are right", compared, e.meter.right, e.guesser.made)
			}
		})
	}
}

// TestFurtherSessions compares answers of sessions, which are continued, shortened, forked, saved
// and loaded, with and without guesses, and of prompts that begin alike.
func TestFurtherSessions(t *testing.T) {
	for _, c := range furtherCases {
		t.Run(c.name, func(t *testing.T) {
			path, _ := c.write(t)
			o := Options{Context: 400, Chunk: 40, Sequences: 3, Keys: F16}
			plain := opened(t, path, o)
			o.Guesses = 3
			m := opened(t, path, o)
			mark, err := m.Fingerprint()
			must(t, err)
			if other, _ := plain.Fingerprint(); mark != other || m.ReadBytes() != plain.ReadBytes() {
				t.Errorf("bytes of a step or fingerprints differ")
			}
			want, got := talkOf(t, plain, plain), talkOf(t, m, plain)
			if !slices.EqualFunc(got, want, slices.Equal) || len(want[0]) < 60 {
				t.Errorf("answers are %v, want %v", got, want)
			}
			if e := m.engine; e.guesser.made == 0 {
				t.Errorf("nothing was guessed")
			}
			if open := m.engine.pages.pairs; open.FreePages() == open.Config().Pages {
				t.Errorf("the layer keeps nothing")
			}
		})
	}
}

// talkOf returns answers of a conversation with a model, which another one continues.
func talkOf(t *testing.T, m, later *Model) (all [][]int32) {
	t.Helper()
	how := Sampling{Temperature: 0.7, Seed: 5}
	g := func(s *Session, most int) Generation {
		return Generation{MaxTokens: most, Session: s, Sampling: how,
			Logits: func(_ []int32, logits []float32) error {
				logits[19] = -1e9 // the answer does not end
				return nil
			}}
	}
	prompt := make([]int32, 70)
	for i := range prompt {
		prompt[i] = int32(i * i % 19)
	}
	s := m.session(t)
	all = append(all, collect(t, m, prompt, g(s, 70)), collect(t, m, prompt, g(nil, 20)))
	must(t, s.Truncate(101))
	fork, err := s.Fork()
	must(t, err)
	all = append(all, collect(t, m, []int32{3, 4}, g(s, 9)), collect(t, m, nil, g(fork, 9)),
		collect(t, m, append(slices.Clone(prompt[:66]), 1, 2), g(nil, 9)))
	var file bytes.Buffer
	_, err = s.Save(&file)
	must(t, err)
	for _, m := range []*Model{m, later} {
		again := m.session(t)
		_, err = again.Load(bytes.NewReader(file.Bytes()))
		must(t, err)
		all = append(all, collect(t, m, []int32{7}, g(again, 20)))
	}
	var wait sync.WaitGroup
	company := make([][]int32, 4)
	for i := range company {
		wait.Go(func() { company[i] = collect(t, m, prompt[:10+9*i], g(nil, 30+i)) })
	}
	wait.Wait()
	return append(all, company...)
}

// TestFurtherMemory lets answers and sessions compete for few pages: none fails, and each is as
// without guesses.
func TestFurtherMemory(t *testing.T) {
	for _, i := range []int{0, 3} {
		path, _ := furtherCases[i].write(t)
		o := Options{Context: 256, Chunk: 40, Sequences: 3, Keys: F16}
		plain := opened(t, path, o)
		o.Guesses, o.Memory = 3, memoryOf(t, plain, 6)
		m := opened(t, path, o)
		m.engine.guesser.pace.steady = true
		r := rand.New(rand.NewPCG(3, 4))
		base := prompt32(130)
		for j := range base {
			base[j] %= 19
		}
		var sessions [5]*Session
		for range 12 {
			var wait sync.WaitGroup
			for k := range sessions {
				prompt := append(slices.Clone(base[:1+r.IntN(129)]), r.Int32N(19))
				g := Generation{MaxTokens: 1 + r.IntN(70), Sampling: Sampling{Temperature: 1, Seed: 3}}
				again := r.IntN(3) > 0 && sessions[k] != nil && sessions[k].Len()+len(prompt) < 170
				wait.Go(func() {
					if !again {
						sessions[k] = m.session(t)
					} else if n := sessions[k].Len(); n > 5 {
						must(t, sessions[k].Truncate(n-5))
					}
					g.Session = sessions[k]
					all := append(sessions[k].Tokens(), prompt...)
					got := collect(t, m, prompt, g)
					g.Session = nil
					if want := collect(t, plain, all, g); !slices.Equal(got, want) {
						t.Errorf("after %d tokens the answer is %v, want %v", len(all), got, want)
					}
				})
			}
			wait.Wait()
		}
		if m.engine.guesser.made == 0 {
			t.Error("nothing was guessed")
		}
	}
}

// memoryOf returns bytes that hold some pages in each layer, and states of a few sequences.
func memoryOf(t *testing.T, m *Model, pages int) int64 {
	t.Helper()
	page, err := pageBytes(m.net, &m.engine.settings, 0)
	must(t, err)
	states, layers := 0, 1
	for i := range m.net.Layers {
		if m.net.States.of(i) {
			states++
		} else {
			layers++
		}
	}
	if states == 0 {
		return int64(layers * pages * page)
	}
	each, err := m.net.States.memoryUse()
	must(t, err)
	return 2 * int64(max(5*states*each, layers*pages*page)) // halves are for states and for pages
}

// TestFurtherPack uses packed matrices that were written with the layer, and refuses others.
func TestFurtherPack(t *testing.T) {
	path, _ := furtherCases[0].write(t)
	for _, c := range []struct {
		first, then int
		says        string
	}{{2, 2, ""}, {2, 0, ""}, {0, 2, "no matrix is mtp."}} {
		pack := at(t, "packed")
		must(t, opened(t, path, Options{Context: 64, Pack: pack, Guesses: c.first}).Close())
		m, err := Open(path, Options{Context: 64, Pack: pack, Guesses: c.then})
		if err == nil {
			must(t, m.Close())
		}
		if got := fmt.Sprint(err); c.says == "" && err != nil || !strings.Contains(got, c.says) {
			t.Errorf("%+v: the error is %v", c, err)
		}
	}
}

// TestFurtherRefuses has models and options that do not fit.
func TestFurtherRefuses(t *testing.T) {
	of := func(change func(*fake)) string {
		f := newFake("F32")
		addStates(f, &reference{}, "qwen3_5_text")
		addMTP(f, &reference{})
		change(f)
		return f.write(t)
	}
	nextN := func(layers int) string {
		f, path := qwen35MoEGGUF(&reference{}), at(t, "fake.gguf")
		addNextNGGUF(f, &reference{}, "qwen35moe", true)
		f.Set("qwen35moe.block_count", uint32(2+layers))
		f.Set("qwen35moe.nextn_predict_layers", uint32(layers))
		f.Write(t, path)
		return path
	}
	for _, c := range []struct {
		path, says string
		guesses    int
	}{
		{of(func(f *fake) { f.config["mtp_num_hidden_layers"] = 2 }),
			"is 3 without Options.Draft and mtp_num_hidden_layers 2, want 0 guesses, or 1 layer", 3},
		{of(func(f *fake) { f.config["mtp_num_hidden_layers"] = 0 }), "the model has no layer", 3},
		{of(func(f *fake) { f.config["mtp_num_hidden_layers"] = -1 }),
			"mtp_num_hidden_layers is -1, want 0 or more", 0},
		{of(func(f *fake) { f.config["mtp_use_dedicated_embeddings"] = true }),
			"and mtp_use_dedicated_embeddings true, want 0, or false", 3},
		{of(func(f *fake) { delete(f.tensors, "mtp.fc.weight") }), "want 0: the model has no layer", 3},
		{of(func(f *fake) { delete(f.tensors, "mtp.layers.0.self_attn.k_norm.weight") }),
			"no safetensors file has tensor mtp.layers.0.self_attn.k_norm.weight", 3},
		{of(func(f *fake) { f.add("mtp.fc.weight", 24, 24) }),
			"mtp.fc.weight has shape [24 24], want [24 48]", 3},
		{of(func(f *fake) { f.add("mtp.layers.1.input_layernorm.weight", 24) }),
			"mtp.layers.1.input_layernorm.weight", 3},
		{of(func(*fake) {}), "Options.Guesses is 9 without Options.Draft, want 0 to 8", 9},
		{newFake("F32").write(t), "want 0: the model has no layer", 1},
		{nextN(2), "and qwen35moe.nextn_predict_layers 2, want 0 guesses, or 1 ", 3},
		{nextN(0), "want 0: the model has no layer", 3},
	} {
		_, err := Open(c.path, Options{Context: 64, Guesses: c.guesses})
		if got := fmt.Sprint(err); !strings.Contains(got, c.says) {
			t.Errorf("the error is %q, want it to say %q", got, c.says)
		}
	}
	path := of(func(*fake) {})
	none := func(CacheConfig) (Cache, error) { return nil, nil }
	for says, o := range map[string]Options{
		"Options.Guesses is 3 and Options.Chunk 1":                          {Guesses: 3, Chunk: 1},
		"Options.Guesses is 3 without Options.Draft and with Options.Cache": {Guesses: 3, Cache: none},
	} {
		o.Context = 64
		if _, err := Open(path, o); !errors.Is(err, attn.ErrOption) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("the error is %v, want ErrOption that says %q", err, says)
		}
	}
	must(t, opened(t, path, Options{Context: 64}).Close())
}

// furtherAnswer returns the tokens of a prompt and its answer without guesses.
func furtherAnswer(t *testing.T, m *model, s settings) []int {
	t.Helper()
	plain := *m
	plain.further, s.guesses = nil, 0
	e, err := newTester(&plain, s)
	must(t, err)
	defer e.close()
	c := &call{prompt: archPrompt[:7], most: 20, choose: greedy}
	e.queue(c)
	must(t, e.answer())
	return c.tokens
}

func narrow(tokens []int32) (x []int) {
	for _, token := range tokens {
		x = append(x, int(token))
	}
	return x
}

// TestFurtherAnswers compares answers, and the bits of their logits, with those without guesses.
func TestFurtherAnswers(t *testing.T) {
	for _, c := range furtherCases {
		t.Run(c.name, func(t *testing.T) {
			path, _ := c.write(t)
			s := settings{keys: attn.F16, guesses: 3, steady: true}
			m, _, err := (&options{model: path, weights: asStored, settings: s}).open()
			must(t, err)
			m.Stop = nil
			plain := *m
			plain.further = nil
			for _, how := range []Sampling{{},
				{Repetition: 1.2, Temperature: 1, TopK: 5, TopP: 0.9, Seed: 3}} {
				want, alone := draftAnswers(t, &plain, settings{keys: attn.F16}, how)
				for _, chance := range []float64{0, 0.5, 1} {
					r := rand.New(rand.NewPCG(1, 2))
					got, e := draftAnswers(t, m, s, how, func(e *engine) {
						e.guesser.change = func(j *job, i int, token int32) int32 {
							if r.Float64() < chance {
								token = int32(alone.answers[j.given][len(j.tokens)+len(j.guesses)])
							}
							return token
						}
					})
					if got != want {
						t.Errorf("%+v: with %v of the guesses right, tokens or logits are others", how, chance)
					}
					made, right := e.guesser.made, e.meter.right
					if made == 0 || chance == 0.5 && right < made/9 {
						t.Errorf("%+v: of %d guesses %d were chosen", how, made, right)
					}
				}
			}
		})
	}
}
