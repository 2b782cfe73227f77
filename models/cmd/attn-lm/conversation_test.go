package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// chatFile is a model whose template has a token between messages.
func chatFile(t *testing.T, change func(*fakeGGUF)) string {
	f, path := newShapedGGUF(smallGGUF, "llama", one("Q8_0")), at(t, "fake.gguf")
	f.Set("tokenizer.chat_template", "{% for m in messages %}{{ m.content }}{{ bos_token }}"+
		"{% endfor %}")
	change(f)
	f.Write(t, path)
	return path
}

// talk is what a conversation prints.
func talk(t *testing.T, path, lines string, args ...string) (string, error) {
	t.Helper()
	o, err := parse(append([]string{"-chat", "-model", path, "-n", "5"}, args...), io.Discard)
	must(t, err)
	m, text, err := o.open()
	must(t, err)
	var out bytes.Buffer
	err = o.converse(strings.NewReader(lines), &out, &out, m, text)
	return out.String(), err
}

// TestConversation compares each answer with that to all messages at once, of which it has read
// only those that are new.
func TestConversation(t *testing.T) {
	for name, change := range map[string]func(*fakeGGUF){
		"full": func(*fakeGGUF) {},
		"a window": func(f *fakeGGUF) {
			f.Set("llama.attention.sliding_window", uint32(7))
		},
	} {
		path := chatFile(t, change)
		args := []string{"-system", "abc", "-chat", "-model", path, "-n", "5", "abc abc"}
		o, err := parse(args, io.Discard)
		must(t, err)
		m, text, err := o.open()
		must(t, err)
		e, err := newEngine(m, o.settings)
		must(t, err)
		defer e.close()
		c := &conversation{options: o, engine: e, text: text, out: io.Discard, errs: io.Discard}
		for _, message := range []string{"abc abc abc", "a b", "abcabcabc", "ddd"} {
			must(t, c.answer(message))
			alone, err := newEngine(m, o.settings)
			must(t, err)
			j := o.job(text, c.last.prompt, c.turns-1)
			must(t, alone.submit(j))
			must(t, alone.run(func() {}))
			if alone.close(); !slices.Equal(j.tokens, c.last.tokens) {
				t.Errorf("%s: %q: tokens are %v, want %v", name, message, c.last.tokens, j.tokens)
			}
		}
		if all := len(c.last.prompt); e.read >= all+5 || e.read < all-25 {
			t.Errorf("%s: %d tokens of prompts were read, where the last has %d", name, e.read, all)
		}
	}
}

// TestLines reads messages, says what the context has no room for, and what cannot be read.
func TestLines(t *testing.T) {
	path := chatFile(t, func(*fakeGGUF) {})
	out, err := talk(t, path, "abc\n\n  ab \nbbb\n", "-context", "24", "aa")
	if err != nil || !strings.HasPrefix(out, "[1] aa\n") || strings.Count(out, "\n\n") < 4 ||
		!strings.Contains(out, "(The context of 24 tokens is full: the oldest 2 messages are") ||
		!strings.Contains(out, "memory: ") {
		t.Errorf("%v:\n%s", err, out)
	}
	for lines, want := range map[string]string{
		"":                                "no prompt, want one as an argument, or a line of the",
		strings.Repeat("abc ", 30):        "and its answer of -n 5 may have 37, want at most -context 24",
		"z":                               `no token for "z"`,
		strings.Repeat("abcabcab", 1<<18): "the standard input: ",
	} {
		if out, err := talk(t, path, lines, "-context", "24"); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%.20q: %v, want %q\n%.300s", lines, err, want, out)
		}
	}
	o, err := parse([]string{"-chat", "-model", path}, io.Discard)
	must(t, err)
	m, text, err := o.open()
	must(t, err)
	o.workers = 0
	in := iotest.ErrReader(errors.New("none"))
	if err := o.converse(in, io.Discard, io.Discard, m, text); err == nil {
		t.Error("there is an engine without workers")
	}
	if err := o.converse(in, io.Discard, io.Discard, m, numbers(3)); err == nil {
		t.Error("there is an engine without workers")
	}
}

// TestMessagesThatCannotBeAnswered are left out, and the conversation goes on as without them.
func TestMessagesThatCannotBeAnswered(t *testing.T) {
	path := chatFile(t, func(f *fakeGGUF) {
		f.Set("tokenizer.chat_template", "{% for m in messages %}{% if m.content == 'bad' %}"+
			"{{ raise_exception('no') }}{% endif %}{{ m.content }}{{ bos_token }}{% endfor %}")
	})
	long := strings.Repeat("abc ", 30)
	tooLong := strings.Repeat("abcabcab", 1<<18)
	want, err := talk(t, path, "abc\nab\nd\ne\n", "-context", "24")
	must(t, err)
	lines := strings.Join([]string{"bad", "abc", long, "ab", "z", tooLong, "d", "bad", "e"}, "\n")
	got, err := talk(t, path, lines, "-context", "24")
	must(t, err)
	for _, note := range []string{"decoder: chat: the template: line 1: it refuses the conversation: no",
		"decoder: a prompt of 32 tokens and its answer of -n 5 may have 37, want at most -context 24",
		`decoder: the vocabulary has no token for "z", nor one for what is unknown`,
		"decoder: the standard input: a line has more than 1048576 bytes, want at most these",
		"decoder: chat: the template: line 1: it refuses the conversation: no"} {
		note += "; the message is left out\n"
		before, after, ok := strings.Cut(got, note)
		if !ok {
			t.Fatalf("want %q in\n%s", note, got)
		}
		got = before + after
	}
	want, _, _ = strings.Cut(want, "prefill: ")
	if got, _, _ = strings.Cut(got, "prefill: "); got != want {
		t.Errorf("without the notes it prints\n%s\nwant\n%s", got, want)
	}
	got, err = talk(t, path, "ab\n", "bad")
	if note := "decoder: prompt 1: chat: the template: "; err != nil || !strings.Contains(got, note) {
		t.Errorf("after a bad prompt: %v, want %q in\n%s", err, note, got)
	}
}

// TestStopFlag ends answers of the command.
func TestStopFlag(t *testing.T) {
	answer := func(args ...string) string {
		var out bytes.Buffer
		must(t, run(append(args, "-n", "9", "hello"), &out, io.Discard))
		_, text, _ := strings.Cut(out.String(), "[1] hello")
		text, _, _ = strings.Cut(text, "\n")
		return text
	}
	all := answer()
	stop := strings.Fields(all)[4]
	before, _, _ := strings.Cut(all, stop)
	if got := answer("-stop", "none", "-stop", stop); got != before {
		t.Errorf("the answer is %q, of %q, want it to end before %q", got, all, stop)
	}
}

// TestAnswerThatIsNoUTF8 has tokens of single bytes: each answer is as that to all messages at
// once, and a conversation is the same in a run for each message.
func TestAnswerThatIsNoUTF8(t *testing.T) {
	path := chatFile(t, func(f *fakeGGUF) {
		for i, letter := range []string{"Ü", "Ý", "Þ", "ß", "à", "ï", "¿", "½"} {
			f.rename(4+i, letter)
		}
	})
	o, err := parse([]string{"-chat", "-model", path, "-n", "5", "-temperature", "2"}, io.Discard)
	must(t, err)
	m, text, err := o.open()
	must(t, err)
	e, err := newEngine(m, o.settings)
	must(t, err)
	defer e.close()
	c := &conversation{options: o, engine: e, text: text, out: io.Discard, errs: io.Discard}
	lines, said := []string{"abc abc abc", "a b", "abcabcabc", "ddd"}, ""
	for _, message := range lines {
		must(t, c.answer(message))
		alone, err := newEngine(m, o.settings)
		must(t, err)
		j := o.job(text, c.last.prompt, c.turns-1)
		must(t, alone.submit(j))
		must(t, alone.run(func() {}))
		if alone.close(); !slices.Equal(j.tokens, c.last.tokens) {
			t.Errorf("%q: tokens are %v, want %v", message, c.last.tokens, j.tokens)
		}
		said += c.messages[len(c.messages)-1].Content
	}
	if !strings.Contains(said, "\uFFFD") {
		t.Errorf("answers are %q, want some that are not UTF-8", said)
	}
	how := []string{"-temperature", "2"}
	want, err := talk(t, path, strings.Join(lines, "\n"), how...)
	must(t, err)
	want, _, _ = strings.Cut(want, "prefill: ")
	how, got := append(how, "-session", at(t, "session")), ""
	for _, line := range lines {
		more, err := talk(t, path, line, how...)
		must(t, err)
		more, _, _ = strings.Cut(more, "prefill: ")
		got += more
	}
	if got != want {
		t.Errorf("a run for each message prints\n%s\none for all\n%s", got, want)
	}
}

// TestConversationThatBreaksOff has a file of the turns before.
func TestConversationThatBreaksOff(t *testing.T) {
	path, file := chatFile(t, func(*fakeGGUF) {}), at(t, "session")
	how := []string{"-temperature", "2"}
	want, err := talk(t, path, "abc\na b\n", how...)
	must(t, err)
	o, err := parse(append([]string{"-chat", "-model", path, "-n", "5", "-session", file}, how...),
		io.Discard)
	must(t, err)
	m, text, err := o.open()
	must(t, err)
	var out bytes.Buffer
	in := io.MultiReader(strings.NewReader("abc\n"), iotest.ErrReader(errors.New("none")))
	if err := o.converse(in, &out, &out, m, text); err == nil {
		t.Error("no error of the standard input")
	}
	more, err := talk(t, path, "a b\n", append(how, "-session", file)...)
	must(t, err)
	want, _, _ = strings.Cut(want, "prefill: ")
	more, _, _ = strings.Cut(more, "prefill: ")
	if got := out.String() + more; got != want {
		t.Errorf("it prints\n%s\nwant\n%s", got, want)
	}
}

// Templates as those of gpt-oss and Qwen3 are: the first refuses an answer with channels as content,
// the second cuts off what the model thought.
const (
	channelTemplate = `{%- for m in messages %}{%- if m.role == 'assistant' %}` +
		`{%- if "<|channel|>analysis<|message|>" in m.content or ` +
		`"<|channel|>final<|message|>" in m.content %}{{- raise_exception("channels") }}{%- endif %}` +
		`{{- "<|start|>assistant<|channel|>final<|message|>" + m.content + "<|end|>" }}` +
		`{%- else %}{{- "<|start|>" + m.role + "<|message|>" + m.content + "<|end|>" }}{%- endif %}` +
		`{%- endfor %}<|start|>assistant`
	thinkTemplate = `{%- for m in messages %}{%- set content = m.content %}` +
		`{%- if m.role == 'assistant' %}{%- if m.reasoning_content is defined %}` +
		`{%- set thought = m.reasoning_content %}{%- elif '</think>' in content %}` +
		`{%- set content = content.split('</think>')[-1].lstrip('\n') %}{%- endif %}{%- endif %}` +
		`{{- '<|im_start|>' + m.role + '\n' + content + '<|im_end|>\n' }}{%- endfor %}` +
		`{{- '<|im_start|>assistant\n' }}`
	beginsTemplate = `{%- for m in messages %}{%- set content = m.content %}` +
		`{%- if m.role == 'assistant' %}` +
		`{%- set content = content.split('</think>')[-1].lstrip('\n') %}{%- endif %}` +
		`{{- '<|im_start|>' + m.role + '\n' + content + '<|im_end|>\n' }}{%- endfor %}` +
		`{{- '<|im_start|>assistant\n<think>\n' }}`
)

// Models that think say the same to everything, after the last letter of their prompt.
var (
	channelControl = []string{"<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>",
		"<|call|>"}
	channelScript = []string{"t", "<|channel|>", "analysis", "<|message|>", "They greet.", "<|end|>",
		"<|start|>", "assistant<|channel|>final<|message|>", "Hi", " there.", "<|return|>"}
	thinkControl = []string{"<|im_start|>", "<|im_end|>", "<think>", "</think>"}
	thinkScript  = []string{"\n", "<think>", "\n\n", "They greet.", "\n ", "</think>", "\n\n\n", "Hi",
		" there.", "<|im_end|>"}
	beginsScript = []string{"\n", "They greet.", "\n ", "</think>", "\n\n\n", "Hi", " there.",
		"<|im_end|>"}
)

// TestThinking has chats of three turns with models that think: what they think is not part of the
// answer, nor of what they read of it later.
func TestThinking(t *testing.T) {
	for name, c := range map[string]struct {
		template        string
		control, script []string
		turn, answered  string // as the model reads them
	}{
		"channels": {channelTemplate, channelControl, channelScript, "<|start|>user<|message|>%s<|end|>",
			"<|start|>assistant<|channel|>final<|message|>Hi there.<|end|>"},
		"think": {thinkTemplate, thinkControl, thinkScript, "<|im_start|>user\n%s<|im_end|>\n",
			"<|im_start|>assistant\nHi there.<|im_end|>\n"},
		"begun": {beginsTemplate, thinkControl, beginsScript, "<|im_start|>user\n%s<|im_end|>\n",
			"<|im_start|>assistant\nHi there.<|im_end|>\n"},
	} {
		path := at(t, "fake.gguf")
		scriptGGUF(t, c.template, c.control, c.script...).Write(t, path)
		o, err := parse([]string{"-chat", "-model", path, "-n", "20"}, io.Discard)
		must(t, err)
		m, text, err := o.open()
		must(t, err)
		e, err := newEngine(m, o.settings)
		must(t, err)
		defer e.close()
		var out, errs bytes.Buffer
		one := &conversation{options: o, engine: e, text: text, out: &out, errs: &errs}
		read := ""
		for _, message := range []string{"Hello", "Again", "Bye"} {
			must(t, one.answer(message))
			read += fmt.Sprintf(c.turn, message)
			said := ""
			for _, token := range one.last.prompt {
				said += text.Decode(token)
			}
			if !strings.HasPrefix(said, read) || strings.Contains(said, "They greet.") {
				t.Errorf("%s: the model has read %q, want %q", name, said, read)
			}
			read += c.answered
		}
		if got, want := out.String(), strings.Repeat("Hi there.\n\n", 3); got != want {
			t.Errorf("%s: it says %q, want %q", name, got, want)
		}
		if want := strings.Repeat("(Thinking: They greet.)\n\n", 3); errs.String() != want {
			t.Errorf("%s: it thinks %q, want %q", name, errs.String(), want)
		}
	}
}

// TestThinkingOfSeveral has conversations of one message each, and one that goes on in another run.
func TestThinkingOfSeveral(t *testing.T) {
	path, file := at(t, "fake.gguf"), at(t, "session")
	scriptGGUF(t, channelTemplate, channelControl, channelScript...).Write(t, path)
	var out, errs bytes.Buffer
	must(t, run([]string{"-chat", "-model", path, "-n", "20", "A", "B"}, &out, &errs))
	if want := "\n\n[1] A\nHi there.\n\n[2] B\nHi there.\n\nprefill"; !strings.Contains(out.String(),
		want) {
		t.Errorf("it says %q, want %q", out.String(), want)
	}
	if want := strings.Repeat("(Thinking: They greet.)\n\n", 2); errs.String() != want {
		t.Errorf("it thinks %q, want %q", errs.String(), want)
	}
	for range 3 {
		got, err := talk(t, path, "A\n", "-n", "20", "-session", file)
		if want := "(Thinking: They greet.)\n\nHi there.\n\n"; err != nil ||
			!strings.HasPrefix(got, want) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// TestThinkingWithoutEnd has answers that end while the model thinks: nothing is said.
func TestThinkingWithoutEnd(t *testing.T) {
	path := at(t, "fake.gguf")
	scriptGGUF(t, beginsTemplate, thinkControl, beginsScript...).Write(t, path)
	got, err := talk(t, path, "A\nB\n", "-n", "2")
	if want := strings.Repeat("(Thinking: They greet.)\n\n\n\n", 2); err != nil ||
		!strings.HasPrefix(got, want) {
		t.Errorf("%v: %q, want %q", err, got, want)
	}
}
