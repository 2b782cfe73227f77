package chat

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Templates as published, with what they do with answers: harmony refuses content with channels,
// chatML reads the thought from a field or cuts it off, r1 cuts it off and begins the next thought,
// whole keeps it, and plain knows nothing of it.
const (
	harmonyTemplate = `{%- for m in messages %}{%- if m.role == 'assistant' %}` +
		`{%- if "content" in m and "<|channel|>final<|message|>" in m.content %}` +
		`{{- raise_exception("channels in content") }}{%- endif %}` +
		`{%- if "thinking" in m and "<|channel|>analysis<|message|>" in m.thinking %}` +
		`{{- raise_exception("channels in thinking") }}{%- endif %}` +
		`{%- if loop.last and not add_generation_prompt and "thinking" in m %}` +
		`{{- "<|start|>assistant<|channel|>analysis<|message|>" + m.thinking + "<|end|>" }}` +
		`{%- endif %}` +
		`{{- "<|start|>assistant<|channel|>final<|message|>" + m.content + "<|end|>" }}` +
		`{%- else %}{{- "<|start|>" + m.role + "<|message|>" + m.content + "<|end|>" }}{%- endif %}` +
		`{%- endfor %}{%- if add_generation_prompt %}<|start|>assistant{%- endif %}`
	fieldTemplate = `{%- for m in messages %}{%- set content = m.content %}{%- set thought = '' %}` +
		`{%- if m.role == 'assistant' %}` +
		`{%- if m.reasoning_content is defined and m.reasoning_content is not none %}` +
		`{%- set thought = m.reasoning_content %}{%- elif '</think>' in m.content %}` +
		`{%- set content = m.content.split('</think>')[-1].lstrip('\n') %}{%- endif %}{%- endif %}` +
		`{{- '<|im_start|>' + m.role + '\n' + content + '<|im_end|>\n' }}{%- endfor %}` +
		`{{- '<|im_start|>assistant\n' }}`
	keepTemplate = `{%- for m in messages %}{{- m.role + ':' }}` +
		`{%- if m.reasoning_content is defined %}` +
		`{{- '<seed:think>' + m.reasoning_content + '</seed:think>' }}{%- endif %}` +
		`{{- m.content + ';' }}{%- endfor %}`
	r1Template = `{% for m in messages %}{% set content = m['content'] %}` +
		`{% if m['role'] == 'assistant' and '</think>' in content %}` +
		`{% set content = content.split('</think>')[-1] %}{% endif %}` +
		`{{ '<' + m['role'] + '>' + content }}{% endfor %}{{ '<assistant><think>\n' }}`
	wholeTemplate = `{% for m in messages %}{{ '[' + m.role + ']' + m.content }}{% endfor %}` +
		`{% if false %}[THINK][/THINK]{% endif %}`
	framedTemplate = plainTemplate + `{% if false %}<think></think><response></response>{% endif %}`
	alwaysTemplate = `{% for m in messages %}{% if m.role == 'assistant' %}` +
		`{{ '<|START_RESPONSE|>' + m.content + '<|END_RESPONSE|>' }}` +
		`{% else %}{{ m.content + ';' }}{% endif %}{% endfor %}<|START_THINKING|><|END_THINKING|>`
	plainTemplate = `{% for m in messages %}{{ '[' + m.role + ']' + m.content }}{% endfor %}`
)

// TestEarlierAnswers checks what templates write for an answer with a thought.
func TestEarlierAnswers(t *testing.T) {
	const harmonyStarts = "<|start|>user<|message|>A<|end|><|start|>assistant<|channel|>final" +
		"<|message|>"
	const harmonyEnds = "<|end|><|start|>user<|message|>B<|end|><|start|>assistant"
	const chatStarts = "<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\n"
	const chatEnds = "<|im_end|>\n<|im_start|>user\nB<|im_end|>\n<|im_start|>assistant\n"
	for _, c := range []struct{ name, template, answer, want string }{
		{"harmony", harmonyTemplate, "<|channel|>analysis<|message|>x<|end|><|start|>assistant" +
			"<|channel|>final<|message|>y", harmonyStarts + "y" + harmonyEnds},
		{"harmony, a preamble", harmonyTemplate, "<|channel|>analysis<|message|>x<|end|><|start|>" +
			"assistant<|channel|>commentary<|message|>z<|end|><|start|>assistant<|channel|>final" +
			"<|message|>y", harmonyStarts + "y" + harmonyEnds},
		{"harmony, its end is in it", harmonyTemplate, "<|channel|>final<|message|>y<|end|>",
			harmonyStarts + "y" + harmonyEnds},
		{"harmony without starts", harmonyTemplate, "<|channel|>analysis<|message|>x<|channel|>final" +
			"<|message|>y", harmonyStarts + "y" + harmonyEnds},
		{"harmony without an end", harmonyTemplate, "<|channel|>analysis<|message|>x",
			harmonyStarts + harmonyEnds},
		{"harmony, a part of a header", harmonyTemplate, "<|channel|>analysis<|message|>x<|end|>" +
			"<|start|>assistant<|chan", harmonyStarts + harmonyEnds},
		{"harmony, plain", harmonyTemplate, "y", harmonyStarts + "y" + harmonyEnds},
		{"field", fieldTemplate, "<think>\nx\n</think>\n\ny", chatStarts + "y" + chatEnds},
		{"field, begun in the prompt", fieldTemplate, "x\n</think>\n\ny", chatStarts + "y" + chatEnds},
		{"field without an end", fieldTemplate, "<think>\nx", chatStarts + chatEnds},
		{"field, nothing thought", fieldTemplate, "<think>\n\n</think>\n\ny",
			chatStarts + "y" + chatEnds},
		{"field, plain", fieldTemplate, "y", chatStarts + "y" + chatEnds},
		{"field, later", fieldTemplate, "y <think>x</think>z", chatStarts + "z" + chatEnds},
		{"field that is kept", keepTemplate, "<seed:think>x</seed:think> y",
			"user:A;assistant:<seed:think>x</seed:think>y;user:B;"},
		{"cut", r1Template, "<think>\nx\n</think>\n\ny",
			"<user>A<assistant>\n\ny<user>B<assistant><think>\n"},
		{"cut, begun in the prompt", r1Template, "x\n</think>\n\ny",
			"<user>A<assistant>\n\ny<user>B<assistant><think>\n"},
		{"cut without an end", r1Template, "<think>\nx", "<user>A<assistant><user>B<assistant><think>\n"},
		{"whole", wholeTemplate, "[THINK]x[/THINK]y", "[user]A[assistant][THINK]x[/THINK]y[user]B"},
		{"whole without an end", wholeTemplate, "[THINK]x",
			"[user]A[assistant][THINK]x[/THINK][user]B"},
		{"framed", alwaysTemplate, "<|START_RESPONSE|>y<|END_RESPONSE|>",
			"A;<|START_RESPONSE|>y<|END_RESPONSE|>B;<|START_THINKING|><|END_THINKING|>"},
		{"framed, a thought", alwaysTemplate, "<|START_THINKING|>x<|END_THINKING|>\n" +
			"<|START_RESPONSE|>y",
			"A;<|START_RESPONSE|>y<|END_RESPONSE|>B;<|START_THINKING|><|END_THINKING|>"},
		{"plain", plainTemplate, "<think>x</think>y", "[user]A[assistant]<think>x</think>y[user]B"},
		{"plain harmony", plainTemplate, "<|channel|>final<|message|>y",
			"[user]A[assistant]<|channel|>final<|message|>y[user]B"},
	} {
		got, err := render(&Template{Source: c.template}, Message{"user", "A"},
			Message{"assistant", c.answer}, Message{"user", "B"})
		if err != nil || got != c.want {
			t.Errorf("%s: %q (%v), want %q", c.name, got, err, c.want)
		}
	}
	// Text that a user wrote stays.
	const written = "<think>x</think>y"
	got, err := render(&Template{Source: fieldTemplate}, Message{"user", written})
	if want := "<|im_start|>user\n" + written + "<|im_end|>\n<|im_start|>assistant\n"; got != want {
		t.Errorf("a user's message: %q (%v), want %q", got, err, want)
	}
}

// TestParts divides answers, and finds the part of them in the prompt.
func TestParts(t *testing.T) {
	for _, c := range []struct {
		template, prompt, answer, want string
	}{
		{harmonyTemplate, "<|start|>assistant", "<|channel|>analysis<|message|>x<|end|><|start|>" +
			"assistant<|channel|>final<|message|>y", "(x)y"},
		{harmonyTemplate, "", "<|channel|>analysis<|message|>x", "(x)"},
		{harmonyTemplate, "", "<|channel|> analysis code<|message|>x<|end|><|start|>assistant" +
			"<|channel|>commentary<|message|>z<|end|><|start|>assistant<|channel|>analysis<|message|>v" +
			"<|end|><|start|>assistant<|channel|>final<|message|>y", "(x)z(v)y"},
		{harmonyTemplate, "", "y", "y"},
		{harmonyTemplate, "", "a<|channel|>analysis<|message|>b<|end|><|start|>assistantfinalc",
			"a(b)assistantfinalc"},
		{harmonyTemplate, "<|start|>assistant<|channel|>final<|message|>", "y", "y"},
		{harmonyTemplate, "<|start|>assistant<|channel|>analysis<|message|>", "x<|end|><|start|>" +
			"assistant<|channel|>final<|message|>y", "(x)y"},
		{harmonyTemplate, "<|start|>assistant<|channel|>final<|message|>z<|end|>", "y", "y"},
		{fieldTemplate, "assistant\n", "<think>\nx\n\nx\n</think>\n\ny\n", "(x\n\nx)y\n"},
		{fieldTemplate, "", "<think>\n\n</think>\n\ny", "y"},
		{fieldTemplate, "<think>\n\n</think>\n\n", "y", "y"},
		{fieldTemplate, "</think>", "y", "y"},
		{fieldTemplate, "", "\n<think>x", "(x)"},
		{fieldTemplate, "", "y <think>x</think>", "y <think>x</think>"},
		{fieldTemplate, "", "<thin", "<thin"},
		{r1Template, "<assistant><think>\n", "x\n</think>\n\ny", "(x)y"},
		{r1Template, "<assistant><think>", "x</think></think>y", "(x)</think>y"},
		{wholeTemplate, "", "[THINK]x[/THINK]y", "(x)y"},
		{plainTemplate, "<think>", "x</think>y", "x</think>y"},
		{framedTemplate, "", "<think>x</think>\n<response>\ny\n</response>", "(x)y\n"},
		{framedTemplate, "<think>", "x</think><response>y", "(x)y"},
		{framedTemplate, "", "<think>x</think>y<response>", "(x)y<response>"},
		{framedTemplate, "", "<response>y</response>", "<response>y</response>"},
		{fieldTemplate, "", "<think>x</think><response>y</response>", "(x)<response>y</response>"},
		{alwaysTemplate, "", "<|START_RESPONSE|>y<|END_RESPONSE|>", "y"},
		{alwaysTemplate, "<|START_THINKING|>", "x<|END_THINKING|><|START_RESPONSE|>y", "(x)y"},
		{alwaysTemplate, "", "y<|END_RESPONSE|>", "y<|END_RESPONSE|>"},
		{"<|channel>thought\n<channel|>", "", "<|channel>thought\nx<channel|>y", "(x)y"},
	} {
		template := &Template{Source: c.template}
		answer := template.Opening(c.prompt) + c.answer
		if got := shownParts(template.Parts(answer, true)); got != c.want {
			t.Errorf("after %q %q is %s, want %s", c.prompt, c.answer, got, c.want)
		}
		growing(t, template, strings.SplitAfter(answer, ""))
	}
}

// shownParts writes thoughts in brackets.
func shownParts(parts []Part) (all string) {
	for _, p := range parts {
		if p.Thinking {
			all += "(" + p.Text + ")"
		} else {
			all += p.Text
		}
	}
	return all
}

// growing fails if a part of the answer changes when more of the answer is known.
func growing(t *testing.T, template *Template, pieces []string) {
	t.Helper()
	answer := ""
	var before []Part
	for i := range len(pieces) + 1 {
		if i < len(pieces) {
			answer += pieces[i]
		}
		parts := template.Parts(answer, i == len(pieces))
		for j, p := range before {
			if len(parts) < len(before) || parts[j].Thinking != p.Thinking ||
				!strings.HasPrefix(parts[j].Text, p.Text) || j < len(before)-1 && parts[j] != p {
				t.Fatalf("the parts of %q are %q, of less %q", answer, fmt.Sprint(parts), fmt.Sprint(before))
			}
		}
		before = parts
	}
}

// TestPartsGrow has random answers.
func TestPartsGrow(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	pieces := slices.Concat(harmony{}.markers(), strings.SplitAfter("<|channel|></think>", ""),
		[]string{"<think>", "</think>", "<response>", "</response>", "<|START_RESPONSE|>",
			"<|END_RESPONSE|>", "<|END_THINKING|>", "analysis", "final", "assistant", "a", " ",
			"\n", "\xc2", "\xa0", "\x85", "é"})
	for range 20000 {
		var answer []string
		for range source.IntN(12) {
			answer = append(answer, pieces[source.IntN(len(pieces))])
		}
		for _, template := range []string{harmonyTemplate, fieldTemplate, framedTemplate,
			alwaysTemplate, plainTemplate} {
			growing(t, &Template{Source: template}, answer)
		}
	}
}

// FuzzParts has arbitrary answers: parts only grow, and no template refuses an answer.
func FuzzParts(f *testing.F) {
	f.Add("<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>y", 7)
	f.Add("<think>\nx\n</think>\n\ny", 3)
	f.Fuzz(func(t *testing.T, answer string, size int) {
		if len(answer) > 1000 {
			return
		}
		var pieces []string
		for rest := answer; rest != ""; {
			n := min(max(1, size&15), len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		for _, source := range []string{harmonyTemplate, fieldTemplate, r1Template, plainTemplate} {
			template := &Template{Source: source}
			growing(t, template, pieces)
			if !utf8.ValidString(answer) {
				continue
			}
			messages := []Message{{"user", "A"}, {"assistant", answer}}
			if _, err := template.Render(messages, nil); err != nil {
				t.Errorf("%q is refused: %v", answer, err)
			}
		}
	})
}
