package serve

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed-1415985d/attn/models/lm"
)

// gathered is what the chunks of a stream add to one choice.
type gathered struct {
	text, thought, role, reason string
	tokens                      []int32
	chat                        chatLogprobs
	texts                       textLogprobs
}

// gather joins the chunks of each choice, and checks their order.
func gather(t testing.TB, all []shape, n int, chat, usage bool) (made []gathered, u *shapeUsage) {
	t.Helper()
	made = make([]gathered, n)
	if usage {
		last := all[len(all)-1]
		if u = last.Usage; u == nil || len(last.Choices) != 0 {
			t.Fatalf("the last chunk is %+v", last)
		}
		all = all[:len(all)-1]
	}
	for i, s := range all {
		if len(s.Choices) != 1 || s.Usage != nil || s.ID != all[0].ID || s.Model != "m" ||
			!strings.HasPrefix(s.Fingerprint, "fp_") {
			t.Fatalf("chunk %d is %+v", i, s)
		}
		c := s.Choices[0]
		g := &made[c.Index]
		if g.reason != "" {
			t.Fatalf("choice %d goes on after its end", c.Index)
		}
		if chat != (c.Delta != nil) || chat == (c.Text != nil) {
			t.Fatalf("chunk %d has text %v and delta %v", i, c.Text, c.Delta)
		}
		text := value(c.Text)
		if chat {
			if g.role == "" && c.Delta.Role != "assistant" {
				t.Fatalf("choice %d begins with %+v", c.Index, c.Delta)
			}
			g.role += c.Delta.Role
			text = value(c.Delta.Content)
			g.thought += value(c.Delta.Thought)
		}
		g.text, g.tokens = g.text+text, append(g.tokens, c.Tokens...)
		if g.reason = value(c.Reason); g.reason != "" && (text != "" || c.Tokens != nil ||
			string(c.Logprobs) != "null") {
			t.Fatalf("the end of choice %d has %+v", c.Index, c)
		}
		addLogprobs(t, g, c.Logprobs, chat)
	}
	return made, u
}

func addLogprobs(t testing.TB, g *gathered, data json.RawMessage, chat bool) {
	t.Helper()
	var err error
	if chat {
		var one chatLogprobs
		err = json.Unmarshal(data, &one)
		g.chat.Content = append(g.chat.Content, one.Content...)
	} else {
		var one textLogprobs
		err = json.Unmarshal(data, &one)
		g.texts.Tokens = append(g.texts.Tokens, one.Tokens...)
		g.texts.Values = append(g.texts.Values, one.Values...)
		g.texts.Top = append(g.texts.Top, one.Top...)
		g.texts.Offsets = append(g.texts.Offsets, one.Offsets...)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestStreams compares streams with whole responses.
func TestStreams(t *testing.T) {
	x := start(t, Config{})
	for _, fields := range []string{"", `, "n": 3`, `, "logprobs": LOG, "return_token_ids": true`,
		`, "n": 2, "logprobs": LOG, "stop": ["a", "e", "\n", "0"], "return_token_ids": true`} {
		for _, chat := range []bool{false, true} {
			path, own, log := "/v1/completions", `"prompt": ["Hi", "you"]`, `3`
			if chat {
				path, own = "/v1/chat/completions", `"messages": [{"role": "user", "content": "Hi"}]`
				log = `true, "top_logprobs": 3`
			}
			body := `{"seed": 11, "max_tokens": 40, ` + own + strings.ReplaceAll(fields, "LOG", log)
			whole := x.ok(path, body+`}`)
			for _, usage := range []bool{false, true} {
				options := `, "stream": true, "stream_options": {"include_usage": true}}`
				if !usage {
					options = `, "stream": true}`
				}
				all := x.chunks(path, body+options)
				made, u := gather(t, all, len(whole.Choices), chat, usage)
				if u != nil && (u.Prompt != whole.Usage.Prompt || u.Completion != whole.Usage.Completion) {
					t.Errorf("%s: the usage is %+v, want %+v", body, u, whole.Usage)
				}
				for i, c := range whole.Choices {
					var want gathered
					if chat {
						want.text, want.role = value(c.Message.Content), c.Message.Role
					} else {
						want.text = value(c.Text)
					}
					want.reason, want.tokens = value(c.Reason), c.Tokens
					addLogprobs(t, &want, c.Logprobs, chat)
					if got, want := asJSON(t, made[i]), asJSON(t, want); got != want {
						t.Errorf("%s: choice %d is\n%s, want\n%s", body, i, got, want)
					}
				}
			}
		}
	}
}

func asJSON(t testing.TB, g gathered) string {
	t.Helper()
	chat, err := json.Marshal(g.chat)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := json.Marshal(g.texts)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%q %q %s %s %v %s %s", g.text, g.thought, g.role, g.reason, g.tokens, chat,
		texts)
}

// TestLogprobs compares log-probabilities with package lm's, in both forms.
func TestLogprobs(t *testing.T) {
	x := start(t, Config{})
	never := float32(math.Inf(-1))
	prompt, err := x.Model.Tokenizer().Prompt("Hi")
	if err != nil {
		t.Fatal(err)
	}
	g := lm.Generation{MaxTokens: 30, Top: 4, Sampling: lm.Sampling{Temperature: 1, Seed: 2},
		Logits: spend(map[int32]float32{257: never, 258: never, 259: never})}
	got := x.ok("/v1/completions", `{"prompt": "Hi", "seed": 2, "max_tokens": 30, "logprobs": 4,
		"logit_bias": {"257": -100, "258": -100, "259": -100}}`).Choices[0]
	var l textLogprobs
	if err := json.Unmarshal(got.Logprobs, &l); err != nil {
		t.Fatal(err)
	}
	i, decoder, offset := 0, x.Model.Tokenizer().NewDecoder(), 0
	for token, err := range x.Model.Generate(t.Context(), prompt, g) {
		if err != nil {
			t.Fatal(err)
		}
		if l.Values[i] != token.LogProb || l.Offsets[i] != offset ||
			l.Tokens[i] != spelled(x.Model.Tokenizer().Bytes(token.ID)) && token.ID < 256 {
			t.Errorf("token %d is %q, %v at %d, want %v at %d", i, l.Tokens[i], l.Values[i], l.Offsets[i],
				token, offset)
		}
		if l.Top[i][l.Tokens[i]] != token.LogProb {
			t.Errorf("token %d is not among %v", i, l.Top[i])
		}
		for _, c := range token.Top {
			text := x.Model.Tokenizer().Text(c.ID)
			if !x.Model.Tokenizer().Special(c.ID) {
				text = spelled(x.Model.Tokenizer().Bytes(c.ID))
			}
			if l.Top[i][text] != c.LogProb {
				t.Errorf("token %d: %q is not among %v", i, text, l.Top[i])
			}
		}
		offset += utf8.RuneCountInString(decoder.Next(token.ID))
		i++
	}
	if i != len(l.Tokens) || !strings.Contains(fmt.Sprint(l.Tokens), `bytes:\x`) {
		t.Errorf("there are %d tokens, want %d: %q", len(l.Tokens), i, l.Tokens)
	}
	// Zero candidates: only the tokens themselves.
	zero := x.ok("/v1/completions", `{"prompt": "Hi", "seed": 2, "max_tokens": 3, "logprobs": 0}`)
	if text := string(zero.Choices[0].Logprobs); !strings.Contains(text, `"top_logprobs":null`) {
		t.Errorf("without candidates they are %s", text)
	}
}

// TestForbiddenCandidates: tokens that can never be drawn have no log-probability, and are left
// out.
func TestForbiddenCandidates(t *testing.T) {
	x := start(t, Config{})
	bias := make([]string, 0, 258)
	for token := range 260 {
		if token != 65 && token != 66 {
			bias = append(bias, fmt.Sprintf(`"%d": -100`, token))
		}
	}
	fields := `"max_tokens": 3, "logit_bias": {` + strings.Join(bias, ", ") + `}`
	got := x.ok("/v1/chat/completions", `{"messages": [{"role": "user", "content": "Hi"}],
		"logprobs": true, "top_logprobs": 20, `+fields+`}`)
	var l chatLogprobs
	if err := json.Unmarshal(got.Choices[0].Logprobs, &l); err != nil {
		t.Fatal(err)
	}
	for _, p := range l.Content {
		sum := 0.0
		for _, c := range p.Top {
			sum += math.Exp(float64(c.LogProb))
			if c.Token != "A" && c.Token != "B" || !slices.Equal(c.Bytes, []int{int(c.Token[0])}) {
				t.Errorf("a candidate is %+v", c)
			}
		}
		if len(p.Top) != 2 || math.Abs(sum-1) > 1e-5 {
			t.Errorf("%d candidates have %v together", len(p.Top), sum)
		}
	}
	x.refuses(x.post("/v1/completions", `{"prompt": "x", "logit_bias": {"65": -100, "66": -100, `+
		strings.Join(bias, ", ")+`}}`), 400, "logit_bias", "", "logit_bias")
	x.refuses(x.post("/v1/chat/completions", `{"messages": [{"role": "user", "content": "Hi"}],
		"top_logprobs": 2}`), 400, "top_logprobs", "", "without logprobs")
	const many = `{"prompt": "x", "n": 128, "max_tokens": 500, "logprobs": 20`
	x.refuses(x.post("/v1/completions", many+`}`), 400, "logprobs", "", "or a stream")
	for _, wrong := range []string{`"logprobs": 5`, `"logprobs": true, "top_logprobs": 21`,
		`"logprobs": true, "top_logprobs": -1`} {
		if a := x.post("/v1/chat/completions", `{"messages": [{"role": "user", "content": "Hi"}], `+
			wrong+`}`); a.status != 400 {
			t.Errorf("%s: status %d", wrong, a.status)
		}
	}
	for _, wrong := range []string{`21`, `true`, `-1`} {
		x.refuses(x.post("/v1/completions", `{"prompt": "x", "logprobs": `+wrong+`}`), 400, "logprobs", "",
			"0 to 20")
	}
}

const (
	thinkTemplate = `{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' }}` +
		`{%- if m.reasoning_content %}{{- '<think>' + m.reasoning_content + '</think>' }}{% endif %}` +
		`{{- m.content + '<|im_end|>\n' }}{%- endfor %}{{- '<|im_start|>assistant\n' }}`
	channelTemplate = `{%- for m in messages %}{%- if "<|channel|>" in m.content %}` +
		`{{- raise_exception("channels") }}{%- endif %}{{- "<|start|>" + m.role + "<|message|>" + m.content + ` +
		`"<|end|>" }}{%- endfor %}<|start|>assistant`
)

// TestThinking separates thoughts from answers.
func TestThinking(t *testing.T) {
	for name, c := range map[string]struct {
		template        string
		control, script []string
		thought, said   string
	}{
		"think": {thinkTemplate, []string{"<|im_start|>", "<|im_end|>", "<think>", "</think>"},
			[]string{"\n", "<think>", "\n\n", "They", " greet.", "\n ", "</think>", "\n\n\n", "Hi",
				" there.", "<|im_end|>"}, "They greet.", "Hi there."},
		"begun": {thinkTemplate + `{{- '<think>\n' }}`, []string{"<|im_start|>", "<|im_end|>", "<think>",
			"</think>"}, []string{"\n", "They", " greet.", "\n ", "</think>", "\n\n\n", "Hi", " there.",
			"<|im_end|>"}, "They greet.", "Hi there."},
		"channels": {channelTemplate, []string{"<|start|>", "<|end|>", "<|message|>", "<|channel|>",
			"<|return|>", "<|call|>"}, []string{"t", "<|channel|>", "analysis", "<|message|>",
			"They greet.", "<|end|>", "<|start|>", "assistant<|channel|>final<|message|>", "Hi", " there.",
			"<|return|>"}, "They greet.", "Hi there."},
		"several": {channelTemplate, []string{"<|start|>", "<|end|>", "<|message|>", "<|channel|>",
			"<|return|>", "<|call|>"}, []string{"t", "<|channel|>analysis<|message|>They<|end|>" +
			"<|start|>assistant", "<|channel|>analysis<|message|>greet.<|end|><|start|>assistant",
			"<|channel|>final<|message|>Hi", " there.", "<|return|>"}, "They\n\ngreet.", "Hi there."},
		"unended": {thinkTemplate, []string{"<|im_start|>", "<|im_end|>", "<think>", "</think>"},
			[]string{"\n", "<think>", "They", " greet.", "<|im_end|>"}, "They greet.", ""},
	} {
		x := start(t, Config{Model: scripted(t, c.template, c.control, c.script...)})
		body := `{"temperature": 0, "messages": [{"role": "user", "content": "Hello"}], "logprobs": true`
		m := x.ok("/v1/chat/completions", body+`}`).Choices[0].Message
		if value(m.Content) != c.said || value(m.Thought) != c.thought {
			t.Errorf("%s: it says %q and thinks %q", name, value(m.Content), value(m.Thought))
		}
		made, _ := gather(t, x.chunks("/v1/chat/completions", body+`, "stream": true}`), 1, true, false)
		if made[0].text != c.said || made[0].thought != c.thought {
			t.Errorf("%s: the stream says %q and thinks %q", name, made[0].text, made[0].thought)
		}
		if n := len(made[0].chat.Content); n != len(c.script)-1 {
			t.Errorf("%s: %d tokens have probabilities, want %d", name, n, len(c.script)-1)
		}
		x.stop()
	}
}

// TestThoughtComesBack: the template gets the thought and the text of an assistant's message
// separately.
func TestThoughtComesBack(t *testing.T) {
	x := start(t, Config{Model: scripted(t, thinkTemplate, []string{"<|im_start|>", "<|im_end|>",
		"<think>", "</think>"}, "a", "<|im_end|>")})
	a := x.post("/v1/tokenize", `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant",
		"content": "said", "reasoning_content": "thought"}, {"role": "user", "content": "r"}]}`)
	var made struct{ Tokens []int32 }
	a.into(t, &made)
	var text strings.Builder
	for _, token := range made.Tokens {
		text.WriteString(x.Model.Tokenizer().Text(token))
	}
	if !strings.Contains(text.String(), "<think>thought</think>said<|im_end|>") {
		t.Errorf("the prompt is %q", text.String())
	}
}

// TestComments: a stream that waits for a place has comments, then its answer.
func TestComments(t *testing.T) {
	x := start(t, Config{Model: slowModel(t, lm.Options{Sequences: 1}),
		Comment: 20 * time.Millisecond})
	const no = `"logit_bias": {"257": -100, "258": -100}, "stream": true, "max_tokens": `
	first := make(chan int)
	go func() {
		a := x.post("/v1/completions", `{"prompt": "x", `+no+`60}`)
		all, _ := events(t, strings.NewReader(string(a.body)))
		first <- len(all)
	}()
	for x.answers.now() == 0 {
		time.Sleep(time.Millisecond)
	}
	a := x.post("/v1/completions", `{"prompt": "y", `+no+`2}`)
	all, comments := events(t, strings.NewReader(string(a.body)))
	if comments == 0 || all[len(all)-1] != "[DONE]" {
		t.Errorf("%d comments, %q", comments, all)
	}
	<-first
}
