package serve

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/models/chat"
	"github.com/seed-1415985d/attn/models/lm"
)

// spend returns a hook that adds a bias, as requests do.
func spend(bias map[int32]float32) func([]int32, []float32) error {
	return func(_ []int32, logits []float32) error {
		for token, b := range bias {
			logits[token] += b
		}
		return nil
	}
}

// TestObeyed compares answers with package lm's, field by field.
func TestObeyed(t *testing.T) {
	x := start(t, Config{})
	prompt := []int32{72, 105, 33}
	never := float32(math.Inf(-1))
	usual := lm.Generation{MaxTokens: 16, Sampling: lm.Sampling{Temperature: 1, TopP: 1, Seed: 5}}
	for body, change := range map[string]func(g *lm.Generation){
		``: func(*lm.Generation) {},
		`"temperature": null, "top_p": null, "n": null, "stop": null, "logit_bias": null`: func(
			*lm.Generation) {
		},
		`"seed": 5`:                    func(*lm.Generation) {},
		`"seed": -1`:                   func(g *lm.Generation) { g.Sampling.Seed = math.MaxUint64 },
		`"seed": 18446744073709551615`: func(g *lm.Generation) { g.Sampling.Seed = math.MaxUint64 },
		`"seed": -9223372036854775808`: func(g *lm.Generation) { g.Sampling.Seed = 1 << 63 },
		`"temperature": 0`:             func(g *lm.Generation) { g.Sampling.Temperature = 0 },
		`"temperature": 0.1`:           func(g *lm.Generation) { g.Sampling.Temperature = 0.1 },
		`"temperature": 1e38`:          func(g *lm.Generation) { g.Sampling.Temperature = 1e38 },
		`"top_p": 0.3`:                 func(g *lm.Generation) { g.Sampling.TopP = 0.3 },
		`"top_p": 0`:                   func(g *lm.Generation) { g.Sampling.Temperature = 0 },
		`"top_p": 1e-60`:               func(g *lm.Generation) { g.Sampling.Temperature = 0 },
		`"top_k": 3`:                   func(g *lm.Generation) { g.Sampling.TopK = 3 },
		`"top_k": -1`:                  func(*lm.Generation) {},
		`"top_k": 0`:                   func(*lm.Generation) {},
		`"min_p": 0.5`:                 func(g *lm.Generation) { g.Sampling.MinP = 0.5 },
		`"repetition_penalty": 1.7`:    func(g *lm.Generation) { g.Sampling.Repetition = 1.7 },
		`"frequency_penalty": 1.5`:     func(g *lm.Generation) { g.Sampling.Frequency = 1.5 },
		`"presence_penalty": -1.5`:     func(g *lm.Generation) { g.Sampling.Presence = -1.5 },
		`"max_tokens": 3`:              func(g *lm.Generation) { g.MaxTokens = 3 },
		`"max_completion_tokens": 4`:   func(g *lm.Generation) { g.MaxTokens = 4 },
		`"max_tokens": 5, "max_completion_tokens": 5`: func(g *lm.Generation) { g.MaxTokens = 5 },
		`"max_tokens": 100000, "logit_bias": {"257": -100, "258": -100}`: func(g *lm.Generation) {
			g.MaxTokens, g.Logits = 0, spend(map[int32]float32{257: never, 258: never})
		},
		`"logit_bias": {"65": 100}`: func(g *lm.Generation) { g.Logits = spend(map[int32]float32{65: 100}) },
		`"temperature": 0, "logit_bias": {"65": 100, "66": 100, "67": -100}`: func(g *lm.Generation) {
			g.Sampling.Temperature = 0
			g.Logits = spend(map[int32]float32{65: 100, 66: 100, 67: never})
		},
	} {
		g := usual
		change(&g)
		want, text := generated(t, x.Model, prompt, g)
		if body != "" {
			body = ", " + body
		}
		if !strings.Contains(body, `"seed"`) {
			body += `, "seed": 5`
		}
		got := x.ok("/v1/completions", `{"prompt": [72, 105, 33], "return_token_ids": true`+body+`}`)
		if c := got.Choices[0]; !slices.Equal(c.Tokens, want) || value(c.Text) != text ||
			!slices.Equal(c.Prompt, prompt) {
			t.Errorf("%s: %v, %q, want %v, %q", body, c.Tokens, value(c.Text), want, text)
		}
		if u := got.Usage; u.Prompt != 3 || u.Completion != len(want) || u.Total != 3+len(want) {
			t.Errorf("%s: the usage is %+v", body, u)
		}
	}
}

// TestChat compares an answer to a conversation with package lm's.
func TestChat(t *testing.T) {
	x := start(t, Config{})
	got := x.ok("/v1/chat/completions", `{"messages": [{"role": "developer", "content": "s"},
		{"role": "user", "content": "Hi"}], "seed": 8, "top_k": 9, "max_tokens": 30,
		"return_token_ids": true}`)
	messages := []chat.Message{{Role: "system", Content: "s"}, {Role: "user", Content: "Hi"}}
	prompt, err := x.Model.Prompt(messages, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, text := generated(t, x.Model, prompt, lm.Generation{MaxTokens: 30,
		Sampling: lm.Sampling{Temperature: 1, TopK: 9, Seed: 8}})
	c := got.Choices[0]
	if !slices.Equal(c.Tokens, want) || value(c.Message.Content) != text ||
		!slices.Equal(got.Prompt, prompt) || got.Usage.Prompt != len(prompt) {
		t.Errorf("%+v, want %v, %q", got, want, text)
	}
}

// TestSeedIsRandom: without a seed answers differ.
func TestSeedIsRandom(t *testing.T) {
	x := start(t, Config{})
	seen := map[string]bool{}
	for range 4 {
		seen[value(x.ok("/v1/completions", `{"prompt": "Hi", "max_tokens": 30}`).Choices[0].Text)] = true
	}
	if len(seen) < 2 {
		t.Errorf("four answers are %v", seen)
	}
}

// TestStop ends answers at texts.
func TestStop(t *testing.T) {
	x := start(t, Config{Model: scripted(t, "", []string{"<end>"}, "a", "b", "c", "d", "<end>")})
	for stop, want := range map[string]string{`"c"`: "b", `["d", "c"]`: "b", `["x"]`: "bcd",
		`null`: "bcd", `[]`: "bcd", `"cd"`: "b"} {
		c := x.ok("/v1/completions", `{"prompt": "a", "temperature": 0, "stop": `+stop+`}`).Choices[0]
		if value(c.Text) != want || value(c.Reason) != "stop" {
			t.Errorf("%s: %q, %q, want %q", stop, value(c.Text), value(c.Reason), want)
		}
	}
	c := x.ok("/v1/completions", `{"prompt": "a", "temperature": 0, "max_tokens": 2}`).Choices[0]
	if value(c.Text) != "bc" || value(c.Reason) != "length" {
		t.Errorf("%q, %q", value(c.Text), value(c.Reason))
	}
}

// TestChoices: choice i of all prompts draws with the seed + i, and streams have the same choices.
func TestChoices(t *testing.T) {
	x := start(t, Config{})
	for _, c := range []struct {
		prompt string
		tokens [][]int32
	}{{`"Hi"`, [][]int32{{72, 105}}}, {`["Hi", "y"]`, [][]int32{{72, 105}, {121}}},
		{`[72, 105]`, [][]int32{{72, 105}}}, {`[[72, 105], [121]]`, [][]int32{{72, 105}, {121}}},
		{`"<|im_end|>"`, [][]int32{{60, 124, 105, 109, 95, 101, 110, 100, 124, 62}}}} {
		body := `{"prompt": ` + c.prompt + `, "n": 3, "seed": -2, "return_token_ids": true, "max_tokens": 9`
		got := x.ok("/v1/completions", body+`}`)
		if len(got.Choices) != 3*len(c.tokens) {
			t.Fatalf("%s: %d choices", c.prompt, len(got.Choices))
		}
		for i, choice := range got.Choices {
			want, _ := generated(t, x.Model, c.tokens[i/3], lm.Generation{MaxTokens: 9,
				Sampling: lm.Sampling{Temperature: 1, Seed: uint64(i) - 2}})
			if !slices.Equal(choice.Tokens, want) || choice.Index != i ||
				!slices.Equal(choice.Prompt, c.tokens[i/3]) {
				t.Errorf("%s: choice %d is %v, want %v", c.prompt, i, choice.Tokens, want)
			}
		}
		all := 0
		for _, tokens := range c.tokens {
			all += len(tokens)
		}
		if got.Usage.Prompt != all {
			t.Errorf("%s: the prompts have %d tokens, want %d", c.prompt, got.Usage.Prompt, all)
		}
	}
}

// neutralFields have no effect.
var neutralFields = []string{`"user": "x"`, `"user": null`, `"metadata": {"a": "b"}`,
	`"metadata": null`, `"store": true`, `"store": false`, `"service_tier": "auto"`,
	`"safety_identifier": "x"`, `"prompt_cache_key": "x"`, `"tools": null`, `"tools": []`,
	`"tools": [ ]`, `"tool_choice": "none"`, `"tool_choice": null`, `"functions": []`,
	`"functions": null`, `"response_format": {"type": "text"}`, `"response_format": null`,
	`"audio": null`, `"modalities": []`, `"modalities": ["text"]`, `"modalities": null`,
	`"prediction": null`, `"reasoning_effort": "none"`, `"reasoning_effort": null`, `"suffix": null`,
	`"echo": null`, `"echo": false`, `"best_of": null`, `"best_of": 1`, `"stream": false`,
	`"stream_options": null`, `"model": "m"`, `"model": null`}

// refusedFields need features that the server lacks.
var refusedFields = []string{`"tools": [{"type": "function"}]`, `"tools": {}`,
	`"tool_choice": "auto"`, `"tool_choice": "required"`, `"tool_choice": []`, `"functions": [{}]`,
	`"response_format": {"type": "json_object"}`, `"response_format": "text"`,
	`"response_format": {"type": "text", "x": 1}`, `"audio": {}`, `"audio": []`,
	`"modalities": ["audio"]`, `"modalities": ["text", "audio"]`, `"prediction": {}`,
	`"reasoning_effort": "low"`, `"reasoning_effort": ""`, `"suffix": "x"`, `"suffix": "none"`,
	`"echo": true`, `"best_of": 2`, `"best_of": 0`}

// wrongFields have invalid values.
var wrongFields = []string{`"temperature": -1`, `"temperature": "1"`, `"temperature": 1e39`,
	`"temperature": 1e999`, `"temperature": [1]`, `"top_p": 1.1`, `"top_p": -0.1`, `"top_p": true`,
	`"top_k": -2`, `"top_k": 1.5`, `"top_k": 1e1`, `"min_p": 2`, `"min_p": -1`,
	`"repetition_penalty": 0`, `"repetition_penalty": -1`, `"repetition_penalty": 1e-60`,
	`"frequency_penalty": 1e39`, `"presence_penalty": "x"`, `"presence_penalty": {}`, `"seed": 1.5`,
	`"seed": 1e3`, `"seed": 18446744073709551616`, `"seed": -9223372036854775809`, `"seed": "1"`,
	`"n": 0`, `"n": 129`, `"n": -1`, `"n": 1.0`, `"n": true`, `"max_tokens": 0`, `"max_tokens": -1`,
	`"max_tokens": 1.5`, `"max_completion_tokens": 0`, `"stop": ""`, `"stop": [""]`, `"stop": 1`,
	`"stop": [1]`, `"stop": [null]`, `"stop": ["a", ""]`, `"stream": 1`, `"stream": "true"`,
	`"return_token_ids": 1`, `"logit_bias": []`, `"logit_bias": {"x": 1}`, `"logit_bias": {"1": 101}`,
	`"logit_bias": {"1": -100.5}`, `"logit_bias": {"1": null}`, `"logit_bias": {"01": 1}`,
	`"logit_bias": {"-1": 1}`, `"logit_bias": {"260": 1}`, `"logit_bias": {"1": "2"}`, `"model": 1`,
	`"stream_options": {"include_usage": true}`, `"logprobs": "x"`, `"logprobs": -1`}

// TestFields has all kinds of fields on both routes.
func TestFields(t *testing.T) {
	x := start(t, Config{})
	for path, own := range map[string]string{"/v1/completions": `"prompt": "Hi"`,
		"/v1/chat/completions": `"messages": [{"role": "user", "content": "Hi"}]`} {
		body := `{"seed": 3, "max_tokens": 4, "return_token_ids": true, ` + own
		want := x.ok(path, body+`}`).Choices[0].Tokens
		for _, field := range neutralFields {
			if got := x.ok(path, body+`, `+field+`}`).Choices[0].Tokens; !slices.Equal(got, want) {
				t.Errorf("%s: %s changes %v to %v", path, field, want, got)
			}
		}
		for _, field := range append(slices.Clone(refusedFields), wrongFields...) {
			name := strings.Split(field, `"`)[1]
			a := x.post(path, `{`+own+`, `+field+`}`)
			x.refuses(a, 400, name, "", name)
		}
		for _, name := range []string{"Seed", "TEMPERATURE", "temperaturE", "seeds", "max-tokens",
			"parallel_tool_calls", "guided_json", "", "logits", "\\u0073eeds"} {
			given := strings.ReplaceAll(name, "\\u0073", "s")
			a := x.post(path, `{`+own+`, "`+name+`": null}`)
			x.refuses(a, 400, given, "unknown_parameter", given)
		}
		for twice, name := range map[string]string{`"seed": 1, "seed": 1`: "seed",
			`"seed": 1, "s\u0065ed": 2`: "seed", own + `, ` + own: strings.Split(own, `"`)[1],
			own + `, "metadata": {"a": {"b": 1, "b": 2}}`:  "metadata.a.b",
			own + `, "logit_bias": {"1": 1, "1": 2}`:       "logit_bias.1",
			own + `, "stop": [{"a": 1}, {"a": 1, "a": 2}]`: "stop[1].a"} {
			x.refuses(x.post(path, `{`+twice+`}`), 400, name, "", "is there twice")
		}
	}
}

// TestBodies refuses bodies that are no requests.
func TestBodies(t *testing.T) {
	x := start(t, Config{})
	for body, want := range map[string]string{"": "no", "{": "no", "null": "want an object",
		"[]": "want an object", `"x"`: "want an object", `{"prompt": "x"} {}`: "not JSON",
		`{"prompt": "x",}`: "not JSON", "{\"prompt\": \"\xff\"}": "UTF-8",
		`{"prompt": "\ud800"}`: "surrogate", `{"prompt": 'x'}`: "not JSON", `{}`: "prompt is not there",
		`{"prompt": NaN}`: "not JSON", strings.Repeat("[", 100000): "not JSON",
		"\ufeff{}": "not JSON"} {
		a := x.post("/v1/completions", body)
		if want == "no" {
			want = "not JSON"
		}
		x.refuses(a, 400, map[bool]string{true: "prompt"}[body == "{}"], "", want)
		if body != "{}" && !strings.Contains(string(a.body), "the body is ") {
			t.Errorf("%q: %s does not name the body", body, a.body)
		}
	}
	for _, prompt := range []string{`""`, `[]`, `[[]]`, `[""]`, `1`, `{}`, `true`, `["x", 1]`,
		`[1, "x"]`, `[1.5]`, `[null]`, `[[1], [null]]`, `[[1], 2]`, `[-1]`, `[260]`, `[4294967296]`,
		`["x", null]`, `[[1], []]`} {
		a := x.post("/v1/completions", `{"prompt": `+prompt+`}`)
		x.refuses(a, 400, "prompt", "", "prompt ")
	}
}

// TestContext refuses prompts that leave no room, and accepts as many tokens as there is room for.
func TestContext(t *testing.T) {
	x := start(t, Config{Model: randomModel(t, testSizes, lm.Options{Context: 64}), Tokens: 40})
	long := strings.Repeat("x", 64)
	x.refuses(x.post("/v1/completions", `{"prompt": "`+long+`"}`), 400, "prompt",
		"context_length_exceeded", "64 tokens")
	x.refuses(x.post("/v1/chat/completions", `{"stream": true, "messages": [{"role": "user", "content": "`+
		long+`"}]}`), 400, "messages", "context_length_exceeded", "tokens")
	const no = `"logit_bias": {"257": -100, "258": -100}`
	for most, want := range map[string]int{"30": 30, "40": 40} {
		got := x.ok("/v1/completions", `{"prompt": "x", `+no+`, "max_tokens": `+most+`}`)
		if n := got.Usage.Completion; n != want || value(got.Choices[0].Reason) != "length" {
			t.Errorf("%s: %d tokens", most, n)
		}
	}
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		x.refuses(x.post("/v1/completions", `{"prompt": "x", "`+name+`": 41}`), 400, name, "", "40")
	}
	chat := `{"messages": [{"role": "user", "content": "x"}], ` + no
	if n := x.ok("/v1/chat/completions", chat+`}`).Usage.Completion; n != 40 {
		t.Errorf("a chat has %d tokens, want 40, the bound", n)
	}
	got := x.ok("/v1/completions", `{"prompt": "`+long[:50]+`", "max_tokens": 40, `+no+`}`)
	if got.Usage.Completion != 14 || value(got.Choices[0].Reason) != "length" {
		t.Errorf("%d tokens, want the 14 that the context leaves", got.Usage.Completion)
	}
	x.refuses(x.post("/v1/completions", `{"prompt": "x", "max_tokens": 2, "max_completion_tokens": 3}`),
		400, "max_tokens", "", "max_completion_tokens")
}

// TestMessages has all kinds of messages.
func TestMessages(t *testing.T) {
	x := start(t, Config{})
	tokens := func(messages string) string {
		a := x.post("/v1/tokenize", `{"messages": `+messages+`}`)
		var made struct{ Tokens []int32 }
		a.into(t, &made)
		text := ""
		for _, token := range made.Tokens {
			text += x.Model.Tokenizer().Text(token)
		}
		if a.status != 200 {
			return fmt.Sprintf("%d %s", a.status, a.body)
		}
		return strings.NewReplacer("Ċ", "\n").Replace(text)
	}
	const want = "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na\nb<|im_end|>\n" +
		"<|im_start|>assistant\nc<|im_end|>\n<|im_start|>user\nd<|im_end|>\n<|im_start|>assistant\n"
	for _, system := range []string{"system", "developer"} {
		got := tokens(`[{"role": "` + system + `", "content": "s"}, {"role": "user", "content":
			[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": null},
			{"role": "assistant", "content": "c", "refusal": null, "tool_calls": null, "annotations": [],
			"function_call": null, "audio": null, "reasoning_content": "thought"},
			{"content": "d", "role": "user"}]`)
		if got != want {
			t.Errorf("%s: %q, want %q", system, got, want)
		}
	}
	for messages, where := range map[string]string{`[]`: "messages", `{}`: "messages",
		`"x"`: "messages", `[1]`: "messages[0]", `[null]`: "messages",
		`[{"role": "user"}]`:                                           "messages[0].content",
		`[{"role": "user", "content": null}]`:                          "messages[0].content",
		`[{"role": "user", "content": 1}]`:                             "messages[0].content",
		`[{"role": "user", "content": []}]`:                            "messages[0].content",
		`[{"role": "user", "content": ["x"]}]`:                         "messages[0].content[0]",
		`[{"role": "user", "content": [{"type": "text"}]}]`:            "messages[0].content[0]",
		`[{"role": "user", "content": [{"text": "x"}]}]`:               "messages[0].content[0]",
		`[{"role": "user", "content": [{"type": "image_url"}]}]`:       "messages[0].content[0]",
		`[{"role": "user", "content": [{"type": "text", "T": 1}]}]`:    "messages[0].content[0].T",
		`[{"content": "x"}]`:                                           "messages[0].role",
		`[{"role": "tool", "content": "x"}]`:                           "messages[0].role",
		`[{"role": "User", "content": "x"}]`:                           "messages[0].role",
		`[{"role": 1, "content": "x"}]`:                                "messages[0].role",
		`[{"role": "user", "content": "x", "name": "y"}]`:              "messages[0].name",
		`[{"role": "user", "content": "x", "Role": "y"}]`:              "messages[0].Role",
		`[{"role": "user", "content": "x", "role": "user"}]`:           "messages[0].role",
		`[{"role": "user", "content": "x", "reasoning_content": "y"}]`: "messages[0].reasoning_content",
		`[{"role": "assistant", "content": "x", "tool_calls": [{}]}]`:  "messages[0].tool_calls",
	} {
		a := x.post("/v1/chat/completions", `{"messages": `+messages+`}`)
		var s shape
		a.into(t, &s)
		if a.status != 400 || s.Error == nil || value(s.Error.Param) != where ||
			!strings.Contains(s.Error.Message, where) {
			t.Errorf("%s: %d, %s, want %s", messages, a.status, a.body, where)
		}
	}
	x.refuses(x.post("/v1/chat/completions", `{}`), 400, "messages", "", "is not there")
}

// TestVariables passes variables to the template.
func TestVariables(t *testing.T) {
	template := "{{ messages[0].content }}{{ shown }}{% if deep %}{{ deep.n[1] + 1 }}{% endif %}" +
		"{% if bad %}{{ raise_exception('no') }}{% endif %}"
	x := start(t, Config{Model: scripted(t, template, []string{"<end>"}, "a", "b", "<end>")})
	const begin = `{"messages": [{"role": "user", "content": "q"}], "chat_template_kwargs": `
	a := x.post("/v1/tokenize", begin+`{"shown": "<x>", "deep": {"n": [1, 41]}}}`)
	var made struct {
		Tokens []int32
		Count  int
	}
	a.into(t, &made)
	if text := x.Model.Tokenizer().Decode(made.Tokens); text != "q<x>42" || made.Count != 6 {
		t.Errorf("%q, %s", text, a.body)
	}
	for kwargs, param := range map[string]string{`[]`: "chat_template_kwargs",
		`{"messages": []}`: "chat_template_kwargs", `{"bad": true}`: "messages",
		`{"a": {"b": 1, "b": 1}}`: "chat_template_kwargs.a.b", `"x"`: "chat_template_kwargs"} {
		a := x.post("/v1/chat/completions", begin+kwargs+`}`)
		x.refuses(a, 400, param, "", "")
	}
}
