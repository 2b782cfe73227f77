package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
)

// sessionModels are models whose layers keep different things of a sequence.
func sessionModels(t *testing.T) map[string]string {
	t.Helper()
	models := map[string]string{}
	for name, change := range map[string]func(*fake){
		"llama":   func(*fake) {},
		"windows": func(f *fake) { gemmaFolder(f, &reference{}, "gemma2") },
		"states": func(f *fake) {
			addStates(f, &reference{}, "qwen3_5_text")
			delete(f.config, "eos_token_id")
		},
	} {
		f := newFake("F32")
		change(f)
		models[name] = f.write(t)
	}
	return models
}

// runSession is what a run computes that goes on from a file, if there is one: its tokens, the
// bytes of their logits, and how many tokens of the prompt were computed.
func runSession(t *testing.T, prompt []int, most int, args ...string) ([]int, []byte, int) {
	t.Helper()
	o, err := parse(args, io.Discard)
	must(t, err)
	m, text, err := o.open()
	must(t, err)
	m.Stop = nil
	e, err := newEngine(m, o.settings)
	must(t, err)
	defer e.close()
	prompts := [][]int{}
	if prompt != nil {
		prompts = append(prompts, prompt)
	}
	if o.session != "" {
		prompts, err = o.continued(prompts, e)
		must(t, err)
	} else if prompt == nil {
		t.Fatal("no prompt")
	}
	o.most = most
	j := o.job(text, prompts[0], 0)
	var logits []byte
	j.choose = func(x []float32) int {
		logits, _ = binary.Append(logits, binary.LittleEndian, x) // which cannot fail
		return greedy(x)
	}
	must(t, e.submit(j))
	must(t, e.run(func() {}))
	if o.session != "" {
		must(t, o.closeSession(e, j, 0, nil))
	}
	return j.tokens, logits, e.read
}

// TestSession cuts a text into runs, each of which goes on from the file of the one before, and
// compares tokens and the bits of logits with those of one run.
func TestSession(t *testing.T) {
	for name, path := range sessionModels(t) {
		for _, how := range []string{"", "-cache i8", "-cache i8,i4 -weights i8 -integers"} {
			t.Run(name+how, func(t *testing.T) {
				base := append([]string{"-model", path, "-chunk", "13", "-context", "100"},
					strings.Fields(how)...)
				all, want, _ := runSession(t, archPrompt, 30, base...)
				file := at(t, "session")
				args := append(base, "-session", file)
				var got []byte
				// a prompt, nothing, all so far with more after it, and nothing again
				_, logits, read := runSession(t, archPrompt, 5, args...)
				got = append(got, logits...)
				if read != len(archPrompt) {
					t.Errorf("%d tokens were computed of %d", read, len(archPrompt))
				}
				_, logits, read = runSession(t, nil, 9, args...)
				got = append(got, logits...)
				if read != 1 {
					t.Errorf("without a prompt %d tokens were computed, want that of the last answer", read)
				}
				_, logits, read = runSession(t, all[:len(archPrompt)+16], 4, args...)
				got = append(got, make([]byte, 2*4*20)...) // logits in the middle of the prompt
				if got = append(got, logits...); read != 3 {
					t.Errorf("%d tokens of a prompt were computed, want the 3 that are new", read)
				}
				tokens, logits, _ := runSession(t, nil, 10, args...)
				got = append(got, logits...)
				hole := 14 * 4 * 20
				copy(got[hole:], want[hole:hole+2*4*20])
				if !slices.Equal(tokens, all) || !bytes.Equal(got, want) {
					t.Errorf("tokens are %v, want %v; the bits of logits are the same: %t", tokens, all,
						bytes.Equal(got, want))
				}
				// what differs early, or is the same to the last token
				for _, prompt := range [][]int{slices.Concat(all[:21], archPrompt), all[:len(all)-1], {3}} {
					_, want, _ := runSession(t, prompt, 3, base...)
					if _, got, _ := runSession(t, prompt, 3, args...); !bytes.Equal(got, want) {
						t.Errorf("after a prompt of %d tokens logits have other bits", len(prompt))
					}
				}
				if left, _ := filepath.Glob(file + ".*"); left != nil {
					t.Errorf("%v is left", left)
				}
			})
		}
	}
}

// TestSessionCommand is what people type.
func TestSessionCommand(t *testing.T) {
	path, file := newFake("BF16").write(t), at(t, "session")
	answer := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		must(t, run(append([]string{"-model", path}, args...), &out, io.Discard))
		_, text, _ := strings.Cut(out.String(), "[1] ")
		text, _, _ = strings.Cut(text, "\n")
		return text
	}
	want := answer("-n", "12", "-shared", "ab", "abc")
	first := answer("-n", "7", "-session", file, "-shared", "ab", "abc")
	second := answer("-n", "5", "-session", file)
	second, found := strings.CutPrefix(second, "…")
	if first+second != want || !found {
		t.Errorf("runs print %q and %q, one run %q", first, second, want)
	}
	random := at(t, "random")
	must(t, run([]string{"-n", "2", "-session", random, "hello"}, io.Discard, io.Discard))
	must(t, run([]string{"-n", "2", "-session", random}, io.Discard, io.Discard))
	const without = "-session wants one prompt or none, and no -cluster"
	for args, want := range map[string]string{
		"-session x a b":                        without,
		"-session x -prove a":                   without,
		"-session x -accuracy":                  without,
		"-session x -steps":                     without,
		"-session x -draft y":                   without,
		"-session x -cluster nats:":             without,
		"-session x -shared a":                  "-shared is there with a -session and no prompt",
		"-session nowhere":                      "nowhere is not there",
		"-session " + t.TempDir():               "is a directory",
		"-session " + t.TempDir() + "/none/x a": "the folder of -session: ",
		"-pack " + t.TempDir() + "/none/x a":    "the folder of -pack: ",
		"-nkey x a":                             "-nkey is there without -cluster",
		"a -n 5":                                `the prompt "-n" begins with -, want flags before`,
		"-session " + random + " -seed 2":       "of another model",
	} {
		args := "-n 1 -model " + path + " " + args
		if strings.Contains(args, random) {
			args = strings.Replace(args, "-model "+path, "", 1)
		}
		err := run(strings.Fields(args), io.Discard, io.Discard)
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: error %v, want %q", args, err, want)
		}
	}
}

// TestSessionEnds: an answer that a token has ended goes on before that token.
func TestSessionEnds(t *testing.T) {
	m, file := tinyModel(t, attn.F32, 1), at(t, "session")
	m.Stop = []int{7}
	o := &options{session: file, most: 5, settings: settings{workers: 1, places: 1, chunk: 9,
		context: 50}}
	e, err := newEngine(m, o.settings)
	must(t, err)
	defer e.close()
	j := &job{prompt: countUp(9), most: 5, choose: func([]float32) int { return 7 }, keep: true}
	must(t, e.submit(j))
	must(t, e.run(func() {}))
	must(t, o.closeSession(e, j, 0, nil))
	if prompts, err := o.continued(nil, e); err != nil || !slices.Equal(prompts[0], countUp(9)) {
		t.Errorf("it goes on from %v, error %v", prompts, err)
	}
}

// TestSessionStops: an answer that a text has ended goes on before that text, wherever it begins in
// a token, as one run without it. What is not said in tokens is left out.
func TestSessionStops(t *testing.T) {
	answer := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		must(t, run(append([]string{"-seed", "3"}, args...), &out, io.Discard))
		_, text, _ := strings.Cut(out.String(), "[1] ")
		text, _, _ = strings.Cut(text, "\n")
		return strings.TrimPrefix(text, "…")
	}
	saved := func(file string) []int {
		t.Helper()
		data, err := os.ReadFile(file)
		must(t, err)
		var d description
		must(t, json.NewDecoder(bytes.NewReader(data[len(sessionMagic)+4:])).Decode(&d))
		return d.Tokens
	}
	whole := 0 // cuts between tokens
	for name, path := range sessionModels(t) {
		file := at(t, "session")
		base := []string{"-model", path, "-context", "100", "-n", "40", "-session", file}
		prompt := strings.Repeat("ab c", 5)
		all := answer(append(base, prompt)...)
		tokens, said := saved(file), strings.TrimPrefix(all, prompt)
		o, err := parse(base, io.Discard)
		must(t, err)
		_, text, err := o.open()
		must(t, err)
		for _, at := range []int{0, 1, len(said) / 3, len(said) / 2} {
			for at < len(said) && strings.Contains("s>", said[at:at+1]) { // of <s>: no token says <
				at++
			}
			if at == len(said) {
				continue // an answer of control tokens
			}
			must(t, os.Remove(file))
			stop := said[at:min(at+9, len(said))]
			shown, _, _ := strings.Cut(all[len(prompt):], stop)
			if shown = prompt + shown; answer(append(base, "-stop", stop, prompt)...) != shown {
				t.Fatalf("%s: no answer ends before %q", name, stop)
			}
			kept := ""
			for _, token := range saved(file) {
				kept += text.Decode(token)
			}
			if !strings.HasSuffix(kept, shown) {
				t.Errorf("%s: before %q the session is %q, want %q", name, stop, kept, shown)
			}
			next := answer(base...)
			if slices.Equal(saved(file)[:len(tokens)], tokens) {
				whole++
				if !strings.HasPrefix(shown+next, all) {
					t.Errorf("%s: before %q it goes on with %q, want all of %q", name, stop, next, all)
				}
			}
		}
	}
	if whole < 3 {
		t.Errorf("%d cuts are between tokens, want more", whole)
	}
	texts := []string{"one", " t", "wo", " two", "x", " ", "", " th"}
	for stopped, want := range map[string][]int{"one two": {4, 0, 3}, "one t": {4, 0, 1}, "": {4},
		"one two tw": {4, 0, 3, 1}, "one two ": {4, 0, 3, 5}} {
		m := tinyModel(t, attn.F32, 1)
		e, err := newEngine(m, settings{workers: 1, places: 1, chunk: 9, context: 50})
		must(t, err)
		defer e.close()
		answers := []int{0, 3, 3, 4}
		j := &job{prompt: []int{4}, most: 4, keep: true, words: words{stops: []string{"two x"},
			decode: func(token int) string { return texts[token%len(texts)] }}}
		j.choose = func([]float32) int { return answers[len(j.tokens)-1] }
		must(t, e.submit(j))
		must(t, e.run(func() {}))
		j.words.text = stopped
		if got, err := j.untilStop(len(texts)); err != nil || !slices.Equal(got, want) ||
			j.seq.length() > len(got) {
			t.Errorf("%q is tokens %v, want %v; of them %d are read (%v)", stopped, got, want,
				j.seq.length(), err)
		}
	}
}

// TestSessionOfConversation has a message a run, beside one run that has all.
func TestSessionOfConversation(t *testing.T) {
	path, file := chatFile(t, func(*fakeGGUF) {}), at(t, "session")
	lines := []string{"abc abc", "a b", "abcabcabc", "ddd"}
	how := []string{"-temperature", "2", "-context", "60", "-system", "ab"}
	answers := func(text string, err error) string {
		t.Helper()
		must(t, err)
		text, _, _ = strings.Cut(text, "prefill: ")
		return text
	}
	want := answers(talk(t, path, strings.Join(lines, "\n"), how...))
	got := ""
	for i, line := range lines {
		args := append(slices.Clone(how), "-session", file)
		if i > 1 {
			args = args[:4]
			args = append(args, "-session", file) // the session says what the system says
		}
		got += answers(talk(t, path, line, args...))
	}
	if got != want {
		t.Errorf("a run for each message prints\n%s\none for all\n%s", got, want)
	}
	for args, want := range map[string]string{
		"-chat -system abc":   `the system says "ab" in the session, want -system to say the same`,
		"abc":                 "the session is a conversation, want -chat",
		"-chat -cache i8 abc": "the session is of -cache f16, want f32",
	} {
		if strings.Contains(args, "cache") {
			want = "the session is of -cache f16, want i8"
		}
		err := run(append([]string{"-model", path, "-session", file}, strings.Fields(args)...),
			io.Discard, io.Discard)
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: error %v, want %q", args, err, want)
		}
	}
	if _, err := talk(t, path, "", "-session", file); !strings.Contains(fmt.Sprint(err), "no prompt") {
		t.Errorf("without a message: %v", err)
	}
	text := at(t, "text")
	must(t, run([]string{"-model", path, "-n", "2", "-session", text, "abc"}, io.Discard, io.Discard))
	if _, err := talk(t, path, "a", "-session", text); !strings.Contains(fmt.Sprint(err),
		"the session is no conversation, want no -chat") {
		t.Errorf("a text that becomes a conversation: %v", err)
	}
}

// TestSessionOfOther has long prompts that begin like nothing in the session: layers with windows
// have no room for two contexts. The file is reached by a link, which stays one.
func TestSessionOfOther(t *testing.T) {
	file, link := at(t, "session"), at(t, "link")
	must(t, os.Symlink(file, link))
	path := sessionModels(t)["windows"]
	for i, words := range []string{"a b", "d e", "a b"} {
		must(t, run([]string{"-model", path, "-context", "500", "-batch", "1", "-chunk", "13", "-n", "2",
			"-session", []string{file, link}[min(i, 1)], strings.Repeat(words, 160)}, io.Discard,
			io.Discard))
	}
	if to, err := os.Readlink(link); err != nil || to != file {
		t.Errorf("the link leads to %q (%v), want %s", to, err, file)
	}
}

// TestDamagedSessions flips and cuts bytes: errors name the file, and nothing changes.
func TestDamagedSessions(t *testing.T) {
	for name, path := range sessionModels(t) {
		file := at(t, "session")
		args := []string{"-model", path, "-session", file, "-cache", "i8", "-context", "50"}
		_, _, _ = runSession(t, archPrompt[:3], 1, args...)
		whole, err := os.ReadFile(file)
		must(t, err)
		var damaged [][]byte
		for i := 0; i < len(whole); i += max(1, len(whole)/97) {
			flipped := slices.Clone(whole)
			flipped[i] ^= 1 << (i % 8)
			damaged = append(damaged, flipped, whole[:i])
		}
		damaged = append(damaged, whole[:len(whole)-1], append(slices.Clone(whole), 0), []byte("GGUF"),
			bytes.Repeat([]byte{255}, 100))
		o, err := parse(append(args, "abc"), io.Discard)
		must(t, err)
		m, text, err := o.open()
		must(t, err)
		e, err := newEngine(m, o.settings)
		must(t, err)
		defer e.close()
		shared, used := e.shared, e.cache.inUse()
		for i, data := range damaged {
			must(t, os.WriteFile(file, data, 0o600))
			if _, err := o.begin(e, text); err == nil || !strings.Contains(err.Error(), file+": ") {
				t.Fatalf("%s: damage %d: error %v, want one that names the file", name, i, err)
			}
			if e.prefix != nil || e.cache.inUse() != used || e.shared.length() != shared.length() {
				t.Fatalf("%s: damage %d: the engine has changed", name, i)
			}
		}
		for data, want := range map[string]string{
			"":             `the file begins with "", want "attnSes\x01": it is no session`,
			"a text":       `the file begins with "a text", want "attnSes\x01": it is no session`,
			"a long text":  `the file begins with "a long t", want "attnSes\x01": it is no session`,
			"attnS":        "the file ends early: it is damaged",
			"attnSes\x01a": "the file ends early: it is damaged",
		} {
			must(t, os.WriteFile(file, []byte(data), 0o600))
			if _, err := o.begin(e, text); !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%q: error %v, want %s", data, err, want)
			}
		}
		must(t, os.WriteFile(file, damaged[len(damaged)-1], 0o600))
		if err := run(append(args, "-n", "1", "abc"), io.Discard, io.Discard); err == nil {
			t.Fatalf("%s: a run has no error", name)
		}
		if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, damaged[len(damaged)-1]) {
			t.Fatalf("%s: the file is changed (%v)", name, err)
		}
	}
}

// TestWrongSessions has files with checksums that are right, and contents that are not.
func TestWrongSessions(t *testing.T) {
	path, file := newFake("F32").write(t), at(t, "session")
	start := func(args ...string) error {
		return run(append([]string{"-model", path, "-n", "1", "-session", file, "abc abc"}, args...),
			io.Discard, io.Discard)
	}
	must(t, start())
	whole, err := os.ReadFile(file)
	must(t, err)
	table, at := crc32.MakeTable(crc32.Castagnoli), len(sessionMagic)+4
	size := int(binary.LittleEndian.Uint32(whole[at-4:]))
	text := string(whole[at:][:size])
	for old, c := range map[string][2]string{
		`"Model":"`:  {`"Model":"0`, "of another model"},
		`"Cache":"`:  {`"Cache":"x`, "is of -cache xf32, want f32"},
		"file":       {"i8", "is of -weights i8 -integers=false, want -weights file"},
		`"Read":3`:   {`"Read":2`, "layer 0: it has 3 and 3 tokens, want 2"},
		`"Read":3,`:  {`"Read":0,`, "of which layers have 0"},
		`"Turns":`:   {`"Turns":-1`, "-10 turns"},
		`"Tokens":[`: {`"Tokens":[20,`, "has token 20, want 0 to 19"},
		`{"Model"`:   {`["Model"`, "invalid character"},
		`,"Read"`:    {`,"Later":1,"Read"`, `unknown field "Later"`},
	} {
		changed := strings.Replace(text, old, c[0], 1)
		if changed == text {
			t.Fatalf("no %s in %s", old, text)
		}
		data := binary.LittleEndian.AppendUint32([]byte(sessionMagic), uint32(len(changed)))
		data = append(data, changed...)
		sum := crc32.Checksum(data, table)
		rest := whole[at+size+4 : len(whole)-4]
		last := crc32.Update(sum, table, rest)
		data = append(binary.LittleEndian.AppendUint32(data, sum), rest...)
		must(t, os.WriteFile(file, binary.LittleEndian.AppendUint32(data, last), 0o600))
		if err := start(); !strings.Contains(fmt.Sprint(err), c[1]) {
			t.Errorf("%s: error %v, want %q", c[0], err, c[1])
		}
	}
	must(t, os.WriteFile(file, whole, 0o600))
	other := newFake("F32")
	other.tensors["lm_head.weight"].data[5]++
	theta := newFake("F32")
	theta.config["rope_theta"] = 501
	for i, c := range []struct{ path, want string }{
		{other.write(t), "of another model"}, {theta.write(t), "of another model"},
	} {
		path = c.path
		if err := start(); !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("model %d: error %v, want %q", i, err, c.want)
		}
	}
}

// TestPromptsBehindFlags: behind -- anything is a prompt.
func TestPromptsBehindFlags(t *testing.T) {
	o, err := parse([]string{"-n", "5", "--", "-n", "a", "--"}, io.Discard)
	must(t, err)
	if want := []string{"-n", "a", "--"}; !slices.Equal(o.prompts, want) {
		t.Errorf("prompts %q, want %q", o.prompts, want)
	}
}
