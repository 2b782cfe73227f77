package lm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
)

// draftAnswers returns tokens and logits of some simultaneous jobs, and the engine's counts.
func draftAnswers(t *testing.T, m *model, s settings, how Sampling,
	prepare ...func(*engine)) (string, *tester) {
	t.Helper()
	s.workers, s.places, s.chunk, s.context = 2, 3, 9, 100
	e, err := newTester(m, s)
	must(t, err)
	defer e.close()
	for _, f := range prepare {
		f(e.engine)
	}
	var logits [4]bytes.Buffer
	var jobs []*call
	for i, n := range []int{3, 30, 11, 40} {
		j := &call{prompt: archPrompt[:n], most: 30 - 4*i}
		d := newSampler(how, wide(j.prompt))
		d.Seed += uint64(i)
		j.choose = func(x []float32) int {
			must(t, binary.Write(&logits[i], binary.LittleEndian, x))
			x = slices.Clone(x)
			d.penalize(x)
			token := d.choose(x, len(j.tokens))
			d.chose(token)
			return int(token)
		}
		jobs = append(jobs, j)
		e.queue(j)
	}
	must(t, e.answer())
	text := ""
	e.answers = map[int][]int{}
	for _, j := range jobs {
		text += fmt.Sprintln(j.tokens)
		e.answers[len(j.prompt)] = j.tokens
	}
	for i := range logits {
		text += logits[i].String()
	}
	return text, e
}

// TestDraft compares tokens and the bits of logits with those without a second model: with one that
// is always right, and one that hardly ever is.
func TestDraft(t *testing.T) {
	open := func(change func(*fake)) *model {
		f := newFake("F32")
		change(f)
		m, _, err := (&options{model: f.write(t), weights: asStored}).open()
		must(t, err)
		m.Stop = nil
		return m
	}
	other := open(func(f *fake) {
		for i := range f.tensors["lm_head.weight"].data {
			f.tensors["lm_head.weight"].data[i] *= float32(i%7) - 3
		}
	})
	rows := func(n int) *model {
		return open(func(f *fake) {
			for _, name := range []string{"model.embed_tokens.weight", "lm_head.weight"} {
				more := slices.Concat(f.tensors[name].data, slices.Repeat([]float32{0.5}, max(0, n-20)*24))
				f.tensors[name] = fakeTensor{[]int{n, 24}, more[:n*24]}
			}
			f.config["vocab_size"], f.config["eos_token_id"] = n, nil
		})
	}
	for name, m := range map[string]*model{
		"llama":   open(func(*fake) {}),
		"windows": open(func(f *fake) { gemmaFolder(f, &reference{}, "gemma2") }),
		"states":  open(func(f *fake) { addStates(f, &reference{}, "qwen3_5_text") }),
		"Mamba":   open(func(f *fake) { mambaFolder(f, &reference{}) }),
		"convolutions": open(func(f *fake) {
			lfm2Folder(f, &reference{})
			f.config["full_attn_idxs"], f.config["block_auto_adjust_ff_dim"] = []int{1}, false
		}),
	} {
		for _, how := range []Sampling{{},
			{Repetition: 1.2, Temperature: 1, TopK: 5, TopP: 0.9, Seed: 3}} {
			s := settings{keys: attn.F16, guesses: 4}
			want, _ := draftAnswers(t, m, s, how)
			for _, draft := range []*model{m, other, rows(17), rows(30)} {
				s.draft = draft
				got, e := draftAnswers(t, m, s, how)
				if got != want {
					t.Errorf("%s, %+v: with guesses tokens or logits are others", name, how)
				}
				made, right := e.drafter.made, e.meter.right
				if made == 0 || draft == m && how.Temperature == 0 && right != made ||
					draft == other && right >= made {
					t.Errorf("%s, %+v: of %d guesses %d were chosen", name, how, made, right)
				}
				if most := 30 + 26 + 22 + 18 - 4; e.meter.made+e.meter.beside+right != most {
					t.Errorf("%s: %d tokens are counted, want %d", name, e.meter.made+e.meter.beside+right, most)
				}
				if draft == m && how.Temperature == 0 && e.meter.steps > 20 {
					t.Errorf("%s: %d steps, want a few, as all guesses are right", name, e.meter.steps)
				}
			}
		}
	}
}

// TestOtherTokens refuses a second model with other tokens, and accepts one that has fewer rows.
func TestOtherTokens(t *testing.T) {
	open := func(change func(*fake)) *Model {
		f := newFake("F32")
		change(f)
		m, err := Open(f.write(t), Options{Context: 64})
		must(t, err)
		t.Cleanup(func() { _ = m.Close() })
		return m
	}
	fewer := open(func(f *fake) {
		f.config["vocab_size"], f.config["eos_token_id"] = 21, 19
		f.add("model.embed_tokens.weight", 21, 24)
		f.add("lm_head.weight", 21, 24)
	})
	path := newFake("F32").write(t)
	m, err := Open(path, Options{Context: 64, Draft: fewer})
	must(t, err)
	must(t, m.Close())
	other := open(func(f *fake) { f.rename("d", "xyz") })
	if _, err := Open(path, Options{Context: 64, Draft: other}); err == nil ||
		!strings.Contains(err.Error(), "of Options.Draft is") {
		t.Errorf("a model of other tokens: %v", err)
	}
}

// TestDraftWithoutGuesses: an answer with room for no guess is read by the second model all the
// same, and the next one goes on with what they have in common.
func TestDraftWithoutGuesses(t *testing.T) {
	alone := small(t, Options{})
	m := small(t, Options{Draft: alone})
	for i, n := range []int{40, 50, 45, 60} {
		prompt := prompt32(n)
		prompt[30+i] = 5
		for _, most := range []int{2, 9} {
			g := Generation{MaxTokens: most}
			got, want := collect(t, m, prompt, g), collect(t, alone, prompt, g)
			if !slices.Equal(got, want) {
				t.Errorf("prompt %d: the answer is %v, want %v", i, got, want)
			}
		}
	}
	if c := m.engine.counts(); c.right != m.engine.drafter.made {
		t.Errorf("%d of %d guesses of the same model were right", c.right, m.engine.drafter.made)
	}
}
