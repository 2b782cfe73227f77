package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// tinyModel is random.
func tinyModel(t *testing.T, kind attn.Format, seed uint64) *model {
	t.Helper()
	return tinyModelOf(t, &weights.Loader{Random: weights.Chance(seed)}, kind)
}

// tinyModelOf is a small model of a loader's weights.
func tinyModelOf(t *testing.T, l *weights.Loader, kind attn.Format) *model {
	t.Helper()
	f := configFile{ModelType: "llama", Activation: "silu", Layers: 2, Dim: 64, Heads: 8,
		KVHeads: new(2), FFN: 96, Vocab: 300}
	c, err := f.config()
	must(t, err)
	m := newModel(l, &c, &folderNames, kind)
	must(t, l.Err)
	return m
}

func countUp(n int) []int {
	x := make([]int, n)
	for i := range x {
		x[i] = i * 7 % 300
	}
	return x
}

// TestSameBits runs all trials for weights and caches of each type, and in integers.
func TestSameBits(t *testing.T) {
	same := func(name string, m *model, s settings) {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := prove(&out, m, s)
			if n := strings.Count(out.String(), "OK, same bits\n"); err != nil || n != len(trials)-1 {
				t.Errorf("%d of %d trials have the same bits (%v):\n%s", n, len(trials)-1, err, &out)
			}
		})
	}
	for _, kind := range []attn.Format{attn.F32, attn.F16, attn.BF16, attn.I8} {
		same(kind.String(), tinyModel(t, kind, 1), settings{kind: kind})
	}
	for _, kind := range []attn.Format{attn.F32, attn.F16, attn.I8} {
		l := &weights.Loader{Random: weights.Chance(1), Integers: true}
		same("integers, cache "+kind.String(), tinyModelOf(t, l, attn.I8),
			settings{kind: kind, integers: true})
	}
}

// TestIntegersAreClose compares logits in integers, and those of i8 alone, with float32's.
func TestIntegersAreClose(t *testing.T) {
	logits := func(kind attn.Format, integers bool) [][]float32 {
		m := tinyModelOf(t, &weights.Loader{Random: weights.Chance(1), Integers: integers}, kind)
		x, err := sampleLogits(m, settings{workers: 1, kind: kind, integers: integers})
		must(t, err)
		return x
	}
	exact := logits(attn.F32, false)
	stored, _ := distance(exact, logits(attn.I8, false))
	ints, _ := distance(exact, logits(attn.I8, true))
	t.Logf("mean difference of logits: %.4f of their deviation stored in i8, %.4f in integers", stored,
		ints)
	if !(stored > 0 && stored < 0.05 && ints > stored && ints < 0.05) {
		t.Errorf("differences are %v and %v, want both below 0.05, and more in integers", stored, ints)
	}
}

// TestAccuracyTable reads the table of -accuracy: both ways of 8 bits are close to float32.
func TestAccuracyTable(t *testing.T) {
	var out bytes.Buffer
	must(t, run([]string{"-accuracy", "-size", "tiny"}, &out, io.Discard))
	for _, way := range []string{"weights and cache i8", "integers, cache i8",
		"integers, cache f16"} {
		_, row, _ := strings.Cut(out.String(), "| "+way+" | ")
		var difference, equal float64
		if _, err := fmt.Sscanf(row, "%f %% | %f %% |", &difference, &equal); err != nil ||
			!(difference > 0 && difference < 5) || !(equal > 50 && equal <= 100) {
			t.Errorf("%s: %v; want a difference below 5 %% and most tokens equal in\n%s", way, err, &out)
		}
	}
}

// TestIntegersFlag says which other types it allows.
func TestIntegersFlag(t *testing.T) {
	for args, want := range map[string]string{
		"-integers": "", "-integers -cache i8": "", "-weights i8 -integers": "",
		"-integers -cache f16": "", "-integers -cache i8,f16": "",
		"-weights f32 -integers ": "-weights is f32 with -integers, want i8, for a GGUF file also " +
			"file, or none",
		"-weights file -integers": "-weights is file with -integers, want i8, for a GGUF file also " +
			"file, or none",
	} {
		o, err := parse(strings.Fields(args), io.Discard)
		if got := fmt.Sprint(err); want == "" && (err != nil || o.weights != attn.I8 || !o.integers) ||
			want != "" && got != want {
			t.Errorf("%s: the error is %v and options are %+v, want %q", args, err, o, want)
		}
	}
}

// TestCacheFlag: the types of the cache are chosen by their own flag, and attention multiplies
// integers where they are integers and -integers says so.
func TestCacheFlag(t *testing.T) {
	for args, want := range map[string]struct {
		cache    string
		integers bool
	}{
		"": {"f32", false}, "-integers": {"f32", false}, "-integers -cache f16": {"f16", false},
		"-integers -cache i8": {"i8", true}, "-integers -cache i4": {"i4", true},
		"-integers -cache i8,i4": {"i8,i4", true}, "-integers -cache i8,bf16": {"i8,bf16", false},
		"-integers -cache f16,i8": {"f16,i8", false}, "-cache i8": {"i8", false},
	} {
		o, err := parse(strings.Fields(args), io.Discard)
		if err != nil || o.cacheTypes() != want.cache || o.attendsInIntegers() != want.integers {
			t.Errorf("%s: %v: the cache is %s, in integers: %v; want %+v", args, err, o.cacheTypes(),
				o.attendsInIntegers(), want)
		}
		var out bytes.Buffer
		if err := run(append(strings.Fields(args), "-n", "2", "hello"), &out, io.Discard); err != nil ||
			!strings.Contains(out.String(), "[1] hello ") {
			t.Errorf("%s: %v\n%s", args, err, &out)
		}
	}
}

// TestIntegersOfGGUF says when blocks of a file are multiplied in integers, and over which cache.
func TestIntegersOfGGUF(t *testing.T) {
	type choice struct {
		integers bool
		cache    string
	}
	for args, want := range map[string]choice{
		"": {true, "f16"}, "-integers": {true, "f16"}, "-weights file": {true, "f16"},
		"-cache i4": {true, "i4"}, "-cache i8,i4": {true, "i8,i4"}, "-integers=false": {false, "f16"},
		"-cache f16": {true, "f16"}, "-cache i8,bf16": {true, "i8,bf16"}, "-cache f32": {true, "f32"},
		"-weights f32": {false, "f16"}, "-weights i8": {false, "f16"},
		"-integers=false -cache i8": {false, "i8"}, "-weights i8 -integers": {true, "f16"},
	} {
		o, err := parse(append(strings.Fields(args), "-model", "x.gguf"), io.Discard)
		if got := (choice{o.integers, o.cacheTypes()}); err != nil || got != want {
			t.Errorf("%s: the error is %v and integers and cache are %v, want %v", args, err, got, want)
		}
	}
}

// writerFunc is called by who prints.
type writerFunc func(text []byte)

func (w writerFunc) Write(text []byte) (int, error) { w(text); return len(text), nil }

// TestDifferencesAreSeen makes sure that a proof can fail: after the first trial one weight becomes
// the next number.
func TestDifferencesAreSeen(t *testing.T) {
	m, text := tinyModel(t, attn.F32, 1), ""
	err := prove(writerFunc(func(more []byte) {
		if text += string(more); text == string(more) {
			m.norm[3] = math.Nextafter32(m.norm[3], 9)
		}
	}), m, settings{})
	if err == nil || !strings.Contains(err.Error(), "other bits") || strings.Contains(text, "OK") ||
		strings.Count(text, " different\n") != len(trials)-1 {
		t.Errorf("the error is %v:\n%s", err, text)
	}
}

// TestShareSavesPages compares the pages that are in use, and makes sure that all are given back.
func TestShareSavesPages(t *testing.T) {
	m, prefix := tinyModel(t, attn.F32, 1), countUp(64*4)
	peak := func(share bool) int {
		e, err := newEngine(m, settings{workers: 1, places: 8, chunk: 3000, context: 300})
		must(t, err)
		defer e.close()
		if share {
			must(t, e.share(prefix))
		}
		before := e.cache.inUse()
		for i := range 8 {
			must(t, e.submit(&job{prompt: append(slices.Clone(prefix), i), most: 3, choose: greedy}))
		}
		must(t, e.run(func() {}))
		if after := e.cache.inUse(); after != before {
			t.Errorf("share %v: %d bytes are in use at the end, %d before", share, after, before)
		}
		return e.peak
	}
	page := peak(true) / (4 + 8)
	if got, want := peak(false), 8*5*page; got != want {
		t.Errorf("%d bytes in use without sharing, want %d: 5 pages for each of 8", got, want)
	}
}

// TestJoins makes sure that prompts of later jobs are read while others decode, and that answers
// come in order.
func TestJoins(t *testing.T) {
	m := tinyModel(t, attn.F32, 1)
	e, err := newEngine(m, settings{workers: 1, places: 2, chunk: 10, context: 100})
	must(t, err)
	defer e.close()
	var out bytes.Buffer
	s := &stream{out: &out, prompts: []string{"a", "b", "c"}}
	for i, most := range []int{12, 2, 3} {
		s.jobs = append(s.jobs, &job{prompt: countUp(25), most: most,
			words: words{decode: numbers(300).Decode}, choose: func([]float32) int { return i }})
		must(t, e.submit(s.jobs[i]))
	}
	printed := []int{}
	must(t, e.run(func() {
		s.print()
		printed = append(printed, out.Len())
	}))
	if n := len(slices.Compact(printed)); n < 12 {
		t.Errorf("%d pieces were printed, want one for each token of the first answer at least", n)
	}
	if want := "[1] a" + strings.Repeat(" 0", 12) +
		"\n\n[2] b 1 1\n\n[3] c 2 2 2\n\n"; out.String() != want {
		t.Errorf("printed %q, want %q", &out, want)
	}
	if e.read != 75 || e.beside < 5 || e.made+e.beside+3 != 12+2+3 {
		t.Errorf("%d tokens of prompts, %d decoded beside them, %d alone", e.read, e.beside, e.made)
	}
}

// TestPromptIsThePrefix computes the last token of a prompt that is all shared again, as nobody
// kept its logits.
func TestPromptIsThePrefix(t *testing.T) {
	m := tinyModel(t, attn.F32, 1)
	e, err := newEngine(m, settings{workers: 1, places: 1, chunk: 10, context: 100})
	must(t, err)
	defer e.close()
	must(t, e.share(countUp(20)))
	j := &job{prompt: countUp(20), most: 2, choose: greedy}
	must(t, e.submit(j))
	for range 2 {
		must(t, e.step())
	}
	if len(j.tokens) != 22 || e.read != 21 {
		t.Errorf("there are %d tokens after two steps, and %d of prompts were read, want 22 and 21",
			len(j.tokens), e.read)
	}
}

// TestPartOfThePrefix compares the logits of prompts that begin with some of the prefix's tokens
// with those of the same prompts alone.
func TestPartOfThePrefix(t *testing.T) {
	m := tinyModel(t, attn.F32, 1)
	logits := func(prefix, prompt []int) (all []float32, read int) {
		e, err := newEngine(m, settings{workers: 1, places: 1, chunk: 1000, context: 200})
		must(t, err)
		defer e.close()
		if prefix != nil {
			must(t, e.share(prefix))
		}
		must(t, e.submit(&job{prompt: prompt, most: 2, choose: func(x []float32) int {
			all = append(all, x...)
			return greedy(x)
		}}))
		must(t, e.run(func() {}))
		return all, e.read
	}
	prefix := countUp(150)
	for _, n := range []int{0, 1, 63, 64, 65, 149, 150} {
		prompt := append(slices.Clone(prefix[:n]), 299, 7, 8)
		want, _ := logits(nil, prompt)
		got, read := logits(prefix, prompt)
		if !slices.Equal(got, want) || read != len(prefix)+3 {
			t.Errorf("%d tokens in common: the same logits %v, and %d tokens were read, want %d", n,
				slices.Equal(got, want), read, len(prefix)+3)
		}
	}
}

// TestStops ends an answer at the model's token for that.
func TestStops(t *testing.T) {
	m := tinyModel(t, attn.F32, 1)
	m.Stop = []int{5, 9}
	e, err := newEngine(m, settings{workers: 1, places: 1, chunk: 10, context: 100})
	must(t, err)
	defer e.close()
	j := &job{prompt: []int{1}, most: 50}
	j.choose = func([]float32) int { return 3 + 2*len(j.tokens) }
	must(t, e.submit(j))
	must(t, e.run(func() {}))
	if want := []int{1, 5}; !slices.Equal(j.tokens, want) {
		t.Errorf("the tokens are %v, want %v", j.tokens, want)
	}
}

func TestMisuse(t *testing.T) {
	m := tinyModel(t, attn.F32, 1)
	if _, err := newEngine(m, settings{}); err == nil ||
		!strings.Contains(err.Error(), "want at least 1") {
		t.Errorf("no workers: %v", err)
	}
	if _, err := newEngine(m, settings{workers: 1, places: 1, chunk: 1,
		context: math.MaxInt / 4}); err == nil {
		t.Error("there is a cache for all tokens that can be counted")
	}
	e, err := newEngine(m, settings{workers: 1, places: 1, chunk: 1, context: 8})
	must(t, err)
	defer e.close()
	if err := e.share(countUp(9)); err == nil ||
		!strings.Contains(err.Error(), "9 tokens may have 9, want at most -context 8") {
		t.Errorf("a long prefix: %v", err)
	}
	for want, j := range map[string]*job{"no tokens": {},
		"token 300, want 0 to 299": {prompt: []int{1, 300}}, "token -1, want": {prompt: []int{-1}},
		"want at most -context 8": {prompt: countUp(5), most: 4}} {
		if err := e.submit(j); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want it to say %q", err, want)
		}
	}
}

// TestCommand runs what people type.
func TestCommand(t *testing.T) {
	model := "-model " + newFake("BF16").write(t)
	for _, c := range []struct {
		args string
		want []string // in the output, or in the error
	}{
		{"-n 3", []string{"4 layers of 256", "[1] The capital of France is ", "[3] Once", "prefill: ",
			"decode:  ", "joins 15 others that decode            OK, same bits"}},
		{"-n 3 hello", []string{"[1] hello ", "keys and values: "}},
		{model + " -n 5 -cache i8 -weights i8 -temperature 2 -shared ab abc",
			[]string{"2 layers of 24", "[1] abc", "prefill: 3 tokens"}},
		{model + " -prove abc", []string{"OK, same bits"}},
		{model + " x", []string{`no token for "x"`}},
		{model + " -shared x a", []string{`no token for "x"`}},
		{model + " a\xff", []string{"not UTF-8"}},
		{"-model nowhere", []string{"nowhere", "config.json"}},
		{model, []string{"no prompt"}},
		{"-size 1t", []string{`"1t", want tiny`}},
		{"-cache f64", []string{"want f32, f16, bf16, i8 or i4"}},
		{"-cache i8,f64", []string{"want f32, f16, bf16, i8 or i4"}},
		{"-cache i8,f32", []string{"want values of another type than f32"}},
		{"-weights i4", []string{"want f32, f16, bf16 or i8, or file"}},
		{"-n 3 -cache i4 hello", []string{"[1] hello ", "keys and values: "}},
		{"-n 3 -integers -cache i8,i4 hello", []string{"[1] hello ", "keys and values: "}},
		{"-context 10 hello-hello", []string{"prompt 1", "want at most -context 10"}},
		{"-workers 0 -model nowhere x", []string{"-workers is 0, want at least 1"}},
		{"-batch 0 -model nowhere x", []string{"-batch is 0, want at least 1"}},
		{"-chunk -1 -model nowhere x", []string{"-chunk is -1, want at least 1"}},
		{"-workers 4097 -model nowhere x", []string{"-workers is 4097, want at most 4096"}},
		{"-context 0 -model nowhere x", []string{"-context is 0, want at least 1"}},
		{"-context 3 hi", []string{"prompt 1: a prompt of 2 tokens and its answer of -n 64 may have 66" +
			", want at most -context 3"}},
		{"-context 3 -shared hello x", []string{"the shared text: a prompt of 5 tokens may have 5, " +
			"want at most -context 3"}},
		{"-seed -1 x", []string{`"-1" for flag -seed: want a whole number of 0 or more`}},
		{"-temperature x x", []string{`"x" for flag -temperature: want a number`}},
		{"-n 0 x", []string{"-n is 0, want at least 1"}},
		{"-temperature NaN x", []string{"-temperature is NaN, want 0 or more"}},
	} {
		var out, help bytes.Buffer
		err := run(strings.Fields(c.args), &out, &help)
		for _, want := range c.want {
			if all := fmt.Sprint(&out, err); !strings.Contains(all, want) {
				t.Errorf("decoder %s: want %q in:\n%s", c.args, want, all)
			}
		}
	}
}

// TestAnswersInAnyBatch draws tokens, which show any difference sooner or later.
func TestAnswersInAnyBatch(t *testing.T) {
	answers := func(args ...string) string {
		var out bytes.Buffer
		must(t, run(append([]string{"-temperature", "1", "-n", "40"}, args...), &out, &out))
		text := out.String()
		return text[strings.Index(text, "[1]"):strings.Index(text, "prefill")]
	}
	prompts := []string{"one", "two and three", "four"}
	want := answers(append([]string{"-batch", "1", "-workers", "1"}, prompts...)...)
	if got := answers(append([]string{"-batch", "3", "-workers", "2", "-chunk", "5"},
		prompts...)...); got != want {
		t.Errorf("in a batch of three:\n%s\none by one:\n%s", got, want)
	}
}

// TestErrorsOfACall closes what an engine needs, so that its calls fail.
func TestErrorsOfACall(t *testing.T) {
	for name, end := range map[string]func(*engine){
		"cache": func(e *engine) { e.cache.close() },
		"pool":  func(e *engine) { must(t, e.pool.Close()) },
	} {
		e, err := newEngine(tinyModel(t, attn.F32, 1),
			settings{workers: 1, places: 1, chunk: 10, context: 100})
		must(t, err)
		must(t, e.submit(&job{prompt: countUp(20), most: 2, choose: greedy}))
		end(e)
		if err := e.run(func() {}); !errors.Is(err, attn.ErrClosed) {
			t.Errorf("the error of a call with a closed %s is %v", name, err)
		}
		if err := e.share(countUp(5)); !errors.Is(err, attn.ErrClosed) {
			t.Errorf("the error of a prefix with a closed %s is %v", name, err)
		}
	}
}

// TestWindowsTakeFewPages: a layer with a window needs pages for that, and has the logits of any
// other way, forks of a prefix that others go on with among them.
func TestWindowsTakeFewPages(t *testing.T) {
	f := newFake("F32")
	f.config["model_type"], f.config["sliding_window"] = "qwen2", 70
	f.config["use_sliding_window"], f.config["max_window_layers"] = true, 1
	addBiases(f, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
	m, _, err := (&options{model: f.write(t), weights: -1}).open()
	must(t, err)
	prompt := make([]int, 700)
	for i := range prompt {
		prompt[i] = i * i % m.Vocab
	}
	whole := settings{workers: 1, places: 1, chunk: 1 << 20, context: 800}
	want := firstLogits(t, m, whole, true, prompt)
	e, err := newEngine(m, settings{workers: 2, places: 3, chunk: 40, context: 800})
	must(t, err)
	defer e.close()
	for i, n := range []int{4 * pagesOf(800), pagesOf(800) + 3*3} {
		if got := e.cache.(*pages).stores[i].Config().Pages; got != n {
			t.Errorf("layer %d has %d pages, want %d", i, got, n)
		}
	}
	must(t, e.share(prompt[:200]))
	var got [3][]float32
	for i := range got {
		tokens := slices.Clone(prompt)
		tokens[i*80] += i // has less and less of the prefix
		tokens[i*80] %= m.Vocab
		must(t, e.submit(&job{prompt: tokens, most: 1 + 30*i, choose: func(x []float32) int {
			if got[i] == nil {
				got[i] = slices.Clone(x)
			}
			return 0
		}}))
	}
	must(t, e.run(func() {}))
	for i, x := range want {
		if d := got[0][i] - x; !(d < 1e-4 && d > -1e-4) {
			t.Fatalf("logit %d is %v, want %v", i, got[0][i], x)
		}
	}
	for i := range got {
		tokens := slices.Clone(prompt)
		tokens[i*80] += i
		tokens[i*80] %= m.Vocab
		if alone := firstLogits(t, m, whole, false, tokens); !slices.Equal(got[i], alone) {
			t.Errorf("prompt %d has other logits than alone", i)
		}
	}
}
