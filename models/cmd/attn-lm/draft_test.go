package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
)

// draftAnswers are tokens and logits of some jobs, beside each other, and the engine's counts.
func draftAnswers(t *testing.T, m *model, s settings, how sampling) (string, *engine) {
	t.Helper()
	s.workers, s.places, s.chunk, s.context = 2, 3, 9, 100
	e, err := newEngine(m, s)
	must(t, err)
	defer e.close()
	var all bytes.Buffer
	var jobs []*job
	for i, n := range []int{3, 30, 11, 40} {
		j := &job{prompt: archPrompt[:n], most: 30 - 4*i}
		choose := how.chooser(j, uint64(i))
		j.choose = func(x []float32) int {
			must(t, binary.Write(&all, binary.LittleEndian, int32(i)))
			must(t, binary.Write(&all, binary.LittleEndian, x))
			return choose(x)
		}
		jobs = append(jobs, j)
		must(t, e.submit(j))
	}
	must(t, e.run(func() {}))
	text := ""
	for _, j := range jobs {
		text += fmt.Sprintln(j.tokens)
	}
	// the order of jobs is another one where some are ahead
	rows := slices.Collect(slices.Chunk(all.Bytes(), 4+4*m.Vocab))
	slices.SortStableFunc(rows, func(a, b []byte) int { return int(a[0]) - int(b[0]) })
	return text + string(slices.Concat(rows...)), e
}

// TestDraft compares tokens and the bits of logits with those without a second model: one that is
// always right, and one that is hardly ever.
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
				x := f.tensors[name]
				more := slices.Concat(x.data, slices.Repeat([]float32{0.5}, max(0, n-20)*24))
				f.tensors[name] = fakeTensor{[]int{n, 24}, more[:n*24]}
			}
			f.config["vocab_size"] = n
			f.config["eos_token_id"] = nil
		})
	}
	for name, m := range map[string]*model{
		"llama":   open(func(*fake) {}),
		"windows": open(func(f *fake) { gemmaFolder(f, &reference{}, "gemma2") }),
		"states":  open(func(f *fake) { addStates(f, &reference{}, "qwen3_5_text") }),
	} {
		for _, how := range []sampling{{repetition: 1},
			{repetition: 1.2, temperature: 1, topK: 5, topP: 0.9, seed: 3}} {
			s := settings{kind: attn.F16, guesses: 4}
			want, _ := draftAnswers(t, m, s, how)
			for _, draft := range []*model{m, other, rows(17), rows(30)} {
				s.draft = draft
				got, e := draftAnswers(t, m, s, how)
				if got != want {
					t.Errorf("%s, %+v: with guesses tokens or logits are others", name, how)
				}
				d := e.drafter
				if d.made == 0 || draft == m && how.temperature == 0 && d.accepted != d.made ||
					draft == other && d.accepted >= d.made {
					t.Errorf("%s, %+v: of %d guesses %d were chosen", name, how, d.made, d.accepted)
				}
				if most := 30 + 26 + 22 + 18 - 4; e.made+e.beside != most {
					t.Errorf("%s: %d tokens are counted, want %d", name, e.made+e.beside, most)
				}
				if draft == m && how.temperature == 0 && e.steps > 20 {
					t.Errorf("%s: %d steps, want a few, as all guesses are right", name, e.steps)
				}
			}
		}
	}
}

// TestDraftFlag runs it as people do, in a conversation, too.
func TestDraftFlag(t *testing.T) {
	path := chatFile(t, func(*fakeGGUF) {})
	small := newFake("F32").write(t)
	answer := func(args ...string) (string, string) {
		var out bytes.Buffer
		must(t, run(append(args, "-n", "12", "-model", path, "abc", "ab"), &out, io.Discard))
		text, counts, _ := strings.Cut(out.String(), "prefill: ")
		return text, counts
	}
	want, _ := answer()
	got, counts := answer("-draft", small, "-guesses", "3")
	if got != want || !strings.Contains(counts, "guesses: ") {
		t.Errorf("with guesses it prints\n%s\nwant\n%s\n%s", got, want, counts)
	}
	plain, err := talk(t, path, "abc\nab\n")
	must(t, err)
	o, err := parse([]string{"-chat", "-model", path, "-n", "5", "-draft", path}, io.Discard)
	must(t, err)
	m, text, err := o.open()
	must(t, err)
	must(t, o.openDraft(m, text))
	var out bytes.Buffer
	must(t, o.converse(strings.NewReader("abc\nab\n"), &out, &out, m, text))
	plain, _, _ = strings.Cut(plain, "prefill: ")
	guessed, _, _ := strings.Cut(out.String(), "prefill: ")
	if plain != guessed {
		t.Errorf("a conversation with guesses is\n%s\nwant\n%s", guessed, plain)
	}
	for _, rows := range []int{17, 21, 40} {
		got, counts := answer("-draft", withVocab(t, rows), "-guesses", "3")
		if got != want || !strings.Contains(counts, "guesses: ") {
			t.Errorf("with guesses of %d tokens it prints\n%s\nwant\n%s\n%s", rows, got, want, counts)
		}
	}
	others := newFake("F32")
	others.rename("<s>", "<other>")
	others.tokenizer["post_processor"] = nil
	for args, want := range map[string]string{
		"-model " + path + " -draft " + others.write(t) + " abc": `-draft: token 17 is "<other>", want ` +
			`"<s>" as the model has it`,
		"-draft " + small:                                         "-draft wants a -model",
		"-model " + path + " -draft nowhere abc":                  "-draft: ",
		"-model " + path + " -guesses 3 abc":                      "-guesses is 3 without -draft",
		"-model " + path + " -size tiny abc":                      "-size is tiny, of a model",
		"-model " + path + " -guesses 0 -draft " + small + " abc": "-guesses is 0 and -chunk 256",
		"-model " + path + " -chunk 1 -draft " + small + " abc":   "-guesses is 4 and -chunk 1",
		"-model " + path + " -accuracy -draft " + small:           "-draft wants a -model",
	} {
		if err := run(strings.Fields(args), io.Discard, io.Discard); !strings.Contains(fmt.Sprint(err),
			want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	if err := (&far{}).back(0); err == nil {
		t.Error("a sequence on a cluster goes back")
	}
	(&far{}).mark()
}

// withVocab is a folder of a model with some tokens.
func withVocab(t *testing.T, n int) string {
	f := newFake("F32")
	f.config["vocab_size"], f.config["eos_token_id"] = n, nil
	f.add("model.embed_tokens.weight", n, 24)
	f.add("lm_head.weight", n, 24)
	return f.write(t)
}
