package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/seed-1415985d/attn/internal/dev/gguftest"
)

// attnLM runs a command line with a standard input.
func attnLM(in string, args ...string) (status int, out, errs string) {
	return attnLMReads(strings.NewReader(in), args...)
}

func attnLMReads(in io.Reader, args ...string) (status int, out, errs string) {
	var o, e bytes.Buffer
	status = command(args, in, &o, &e)
	return status, o.String(), e.String()
}

// Templates like the published ones of gpt-oss and Qwen3: the first refuses an answer with channels
// as content, the others cut off what the model thought.
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

// Models that think, and give the same answer to each prompt, by its last letter.
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

// TestThinking has chats of three turns with models that think: thoughts are not part of the
// answer, nor of prompts of later turns, which these templates would refuse or cut.
func TestThinking(t *testing.T) {
	for name, c := range map[string]struct {
		template        string
		control, script []string
	}{
		"channels": {channelTemplate, channelControl, channelScript},
		"think":    {thinkTemplate, thinkControl, thinkScript},
		"begun":    {beginsTemplate, thinkControl, beginsScript},
	} {
		path := filepath.Join(t.TempDir(), "script.gguf")
		gguftest.Script(c.template, c.control, c.script...).Write(t, path)
		status, out, errs := attnLM("Again\nBye\n", "chat", "-model", path, "-n", "20", "Hello")
		_, said, _ := strings.Cut(out, "workers\n\n")
		if want := strings.Repeat("Hi there.\n\n", 3); status != 0 || said != want {
			t.Errorf("%s: status %d, it says %q, want %q\n%s", name, status, said, want, errs)
		}
		if want := strings.Repeat("(Thinking: They greet.)\n\n", 3); errs != want {
			t.Errorf("%s: it thinks %q, want %q", name, errs, want)
		}
		session := filepath.Join(t.TempDir(), "session")
		for range 3 {
			status, out, errs = attnLM("", "chat", "-model", path, "-n", "20", "-session", session, "Hello")
			if status != 0 || !strings.HasSuffix(out, "Hi there.\n\n") {
				t.Errorf("%s, with a session: status %d, %q\n%s", name, status, out, errs)
			}
		}
	}
}

// TestHarmonyEnds: where <|end|> ends a message of an answer, the answer continues up to the token
// that ends it; elsewhere <|end|> ends the answer.
func TestHarmonyEnds(t *testing.T) {
	const analysis, whole = "aanalysisb", "aanalysisbassistantfinalc"
	for _, c := range []struct {
		first, second string // control tokens; the model's answer ends with first
		one           bool   // the file names first as the end of text
		all           bool   // the file names both
		want          string
	}{
		{"<|return|>", "<|call|>", true, false, whole},
		{"<|return|>", "<|call|>", false, false, whole},
		{"<|flush|>", "<|calls|>", false, false, whole},
		{"<|other|>", "<|another|>", true, false, analysis},
		{"<|other|>", "<|another|>", false, true, whole},
	} {
		control := []string{"<|channel|>", "<|message|>", "<|start|>", "<|end|>", c.first, c.second}
		f := gguftest.Script("", control, "x", "a", "<|channel|>", "analysis", "<|message|>", "b",
			"<|end|>", "<|start|>", "assistant", "final", "c", c.first, "wrong", "wrong")
		const first = '~' - ' ' + 2 + 4 // the number of first, after letters and four other tokens
		f.Set("tokenizer.ggml.eos_token_id", nil)
		if c.one {
			f.Set("tokenizer.ggml.eos_token_id", uint32(first))
		}
		if c.all {
			f.Set("tokenizer.ggml.eos_token_ids", []uint32{first, first + 1})
		}
		path := filepath.Join(t.TempDir(), "script.gguf")
		f.Write(t, path)
		status, out, errs := attnLM("", "run", "-n", "20", "-model", path, "x")
		if status != 0 || !strings.Contains(out, "[1] x"+c.want+"\n") {
			t.Errorf("%+v: status %d, %q, want %q\n%s", c, status, out, c.want, errs)
		}
	}
}

// script writes the file of a model that counts.
func script(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "script.gguf")
	gguftest.Script("{% for m in messages %}{% if m.content == 'bad' %}{{ raise_exception('no') }}"+
		"{% endif %}{{ m.content }}{% endfor %}a", []string{"<end>"}, "a", "b", "c", "d", "e",
		"<end>").Write(t, path)
	return path
}

// TestRun continues texts.
func TestRun(t *testing.T) {
	path := script(t)
	for _, c := range []struct {
		args, want string
	}{
		{"xa", "[1] xabcde\n\n"}, {"xa yb", "[1] xabcde\n\n[2] ybcde\n\n"},
		{"-n 2 xa", "[1] xabc\n\n"}, {"-stop de xa", "[1] xabc\n\n"},
		{"-shared xa b", "[1] bcde\n\n"}, {"-temperature 1e-40 xa", "[1] xabcde\n\n"},
		{"-temperature 2 -top-k 1 xa", "[1] xabcde\n\n"},
	} {
		args := append([]string{"run", "-model", path}, strings.Fields(c.args)...)
		status, out, errs := attnLM("", args...)
		_, answers, _ := strings.Cut(out, "workers\n\n")
		if status != 0 || !strings.HasPrefix(answers, c.want) {
			t.Errorf("%s: status %d, %q, want %q\n%s", c.args, status, answers, c.want, errs)
		}
	}
	session := filepath.Join(t.TempDir(), "session")
	got := ""
	for _, text := range []string{"xa", "", ""} {
		args := []string{"run", "-model", path, "-session", session, "-n", "1"}
		if text != "" {
			args = append(args, text)
		}
		status, out, errs := attnLM("", args...)
		_, answer, _ := strings.Cut(out, "workers\n\n")
		if got += strings.TrimSpace(answer); status != 0 {
			t.Errorf("status %d: %s", status, errs)
		}
	}
	if got != "xabcd" {
		t.Errorf("three runs of a session say %q, want xabcd", got)
	}
}

// TestLeftOut: messages that cannot be answered are left out, and the conversation continues.
func TestLeftOut(t *testing.T) {
	long := strings.Repeat("x", 1<<20+1)
	in := "hi\nbad\n" + long + "\n" + strings.Repeat("y", 200) + "\nho\n"
	status, out, errs := attnLM(in, "chat", "-model", script(t), "-context", "100", "-n", "9")
	if status != 0 || strings.Count(out, "bcde\n\n") != 2 || strings.Count(errs, "is left out") != 3 {
		t.Errorf("status %d, %q\n%s", status, out, errs)
	}
	broken := io.MultiReader(strings.NewReader("hi\n"), iotest.ErrReader(errors.New("none")))
	if status, _, errs := attnLMReads(broken, "chat", "-model", script(t)); status != 1 ||
		!strings.Contains(errs, "the standard input: none") {
		t.Errorf("an input that breaks off: status %d, %s", status, errs)
	}
}

// TestMistakes: an error has one line and names the flag.
func TestMistakes(t *testing.T) {
	path := script(t)
	for line, want := range map[string]string{
		"run":                                   "there is no text",
		"run -n 0 x":                            "-n is 0, want 1 or more",
		"run -workers 0 x":                      "-workers is 0, want 1 or more",
		"run -size 1t x":                        `-size is "1t", want tiny or 0.5b`,
		"run -cache f64 x":                      "want f32, f16, bf16, i8 or i4",
		"run -weights i4 x":                     "want f32, f16, bf16 or i8, or file",
		"run -products fast x":                  "want floats, integers or bfloat16",
		"run -seed -1 x":                        "want a whole number of 0 or more",
		"run -temperature NaN x":                "-temperature is NaN, want 0 to ",
		"run -top-p 2 x":                        "-top-p is 2, want 0 to 1",
		"run -guesses 2 x":                      "-guesses is 2 without -draft, want 0: ",
		"run -size tiny -model " + path + " x":  "-size is tiny and -model",
		"run -model " + path + " -size":         "flag needs an argument",
		"run -session s a b":                    "-session is there with 2 texts",
		"chat a b":                              "there are 2 messages",
		"chat -set x":                           "want name=value",
		"accuracy a b":                          "there are 2 texts",
		"bench -prompt 0":                       "-prompt is 0, want 1 to 1048576",
		"bench -clients 1000000000":             "-clients is 1000000000, want 1 to 4096",
		"bench -for 2h":                         "-for is 2h0m0s, want 0 to 1h",
		"prove x":                               `unexpected argument "x"`,
		"serve-me":                              `unknown command "serve-me"`,
		"run -stop= x":                          "want a text that is not empty",
		"run x -n 3":                            "begins with -, want flags before texts",
		"run -draft nowhere x":                  "-draft and -pack want a -model",
		"run -model " + path + " -context -1 x": "-context is -1, want 1 or more",
		"run -workers 100000000 x":              "-workers is 100000000, want 0 to ",
		"run -sequences 100000000 x":            "-sequences is 100000000, want 0 to ",
		"run -chunk 999999999 x":                "-chunk is 999999999, want 0 to ",
		"bench -context 999999999":              "-context is 999999999, want 0 to ",
		"chat -context 999999999 x":             "-context is 999999999, want 0 to ",
		"accuracy -context 999999999":           "-context is 999999999, want 0 to ",
		"prove -guesses 2":                      "-guesses is 2 without -draft, want 0: ",
		"run -cache i8,f32 x":                   "want values of another format than f32",
		"run -weights f32 -products integers x": "-weights is f32 with -products integers, want i8",
		"run -weights i8 -products bfloat16 x":  "-weights is i8 with -products bfloat16, want f32",
		"run -frequency-penalty NaN x":          "-frequency-penalty is NaN, want -3.4",
		"run -presence-penalty Inf x":           "-presence-penalty is +Inf, want -3.4",
		"run -session no/such/folder/s x":       "the folder of -session: ",
		"chat -session no/such/folder/s x":      "the folder of -session: ",
		"chat -set messages=x y":                "want another name: messages are of the conversation",

		"run -pack no/such/folder/p -model " + path + " x":          "the folder of -pack: ",
		"run -guesses 99 -draft " + path + " -model " + path + " x": "-guesses is 99, want 0 to ",
		"run -chunk 1 -draft " + path + " -model " + path + " x":    "-chunk is 1 with -draft or -g",
	} {
		status, out, errs := attnLM("", strings.Fields(line)...)
		if status != 2 || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 || out != "" ||
			strings.Contains(errs, "Options.") {
			t.Errorf("%s: status %d, %q and %q, want 2 and %q", line, status, out, errs, want)
		}
	}
	untold := filepath.Join(t.TempDir(), "untold.gguf")
	gguftest.Script("", nil, "a", "b").Write(t, untold)
	if status, out, errs := attnLM("", "chat", "-model", untold, "x"); status != 1 || out != "" ||
		!strings.Contains(errs, "the model has no chat template, want one") ||
		strings.Count(errs, "\n") != 1 {
		t.Errorf("a chat without a template: status %d, %q and %q", status, out, errs)
	}
	for line, want := range map[string]string{
		"run -model nowhere x":                     "nowhere",
		"run -model " + path + " -draft nowhere x": "-draft: ",
		"run -model " + path + " -context 3 xxxx": "text 1: too many tokens for the context: the " +
			"prompt has 4 tokens, want at most 2, for an answer within -context of 3",
		"chat -model " + path + " bad":                    "no message was answered",
		"run -model " + path + " -session " + path + " x": "no session of attn-lm",
	} {
		status, _, errs := attnLM("", strings.Fields(line)...)
		if status != 1 || !strings.Contains(errs, want) {
			t.Errorf("%s: status %d, %q, want 1 and %q", line, status, errs, want)
		}
	}
	if status, out, errs := attnLM("", "-h"); status != 0 || !strings.Contains(out+errs, "Commands:") {
		t.Errorf("-h: status %d, %q", status, out+errs)
	}
}

// TestOthers runs the commands that measure and compare, with a small model.
func TestOthers(t *testing.T) {
	if status, out, errs := attnLM("", "prove"); status != 0 ||
		strings.Count(out, "the same bits") != len(trials)-1 {
		t.Errorf("prove: status %d\n%s%s", status, out, errs)
	}
	status, out, errs := attnLM("", "bench", "-prompt", "20", "-n", "3", "-clients", "2")
	if status != 0 || strings.Count(out, "tokens/s") != 3 {
		t.Errorf("bench: status %d\n%s%s", status, out, errs)
	}
	if testing.Short() {
		t.Skip("accuracy opens eleven models")
	}
	status, out, errs = attnLM("", "accuracy", "some text")
	if rows := strings.Count(out, " %\n") + strings.Count(out, " % |\n"); status != 0 ||
		rows != len(accuracyWays)-1 {
		t.Errorf("accuracy: status %d, %d rows\n%s%s", status, rows, out, errs)
	}
}

// TestNoControlCharacters checks what reaches a terminal.
func TestNoControlCharacters(t *testing.T) {
	folder := t.TempDir()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(filepath.Join(folder, "config.json"), []byte(`{"a\u001b[2J": 1}`), 0o600))
	for want, args := range map[string][]string{
		"[1] x␛[2Jy␍": {"run", "-n", "1", "x\x1b[2Jy\r"}, "a": {"run", "-model", folder, "abc"},
	} {
		_, out, errs := attnLM("", args...)
		if all := out + errs; !strings.Contains(all, want) || strings.ContainsAny(all, "\x1b\r\u009b") {
			t.Errorf("printed %q, want %q in it", all, want)
		}
	}
}

// TestDraft compares an answer with the answer that uses a second model's guesses.
func TestDraft(t *testing.T) {
	path := script(t)
	_, want, _ := attnLM("", "run", "-model", path, "xa")
	status, got, errs := attnLM("", "run", "-model", path, "-draft", path, "-guesses", "3", "xa")
	cut := func(s string) string { s, _, _ = strings.Cut(s, "tokens in"); return s }
	if status != 0 || cut(got) != cut(want) {
		t.Errorf("status %d, %q, want %q\n%s", status, got, want, fmt.Sprint(errs))
	}
}

// TestBenchFor lets clients send requests for a moment.
func TestBenchFor(t *testing.T) {
	status, out, errs := attnLM("", "bench", "-prompt", "8", "-n", "4", "-clients", "5", "-sequences",
		"2", "-for", "200ms")
	if status != 0 || !strings.Contains(out, "5 clients, a prompt and an answer at a time") ||
		!strings.Contains(out, "the queue and prompts") {
		t.Errorf("status %d, %q and %q", status, out, errs)
	}
}
