package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn"
)

// tinyModel is random, with more than a page of tokens in mind.
func tinyModel(t *testing.T, kind attn.CacheType, seed uint64) *model {
	t.Helper()
	o := &options{size: "tiny", weights: kind, seed: seed}
	o.shape.Layers, o.shape.Dim, o.shape.FFN, o.shape.Vocab = 2, 64, 96, 300
	m, _, err := o.open()
	must(t, err)
	return m
}

func countUp(n int) []int {
	x := make([]int, n)
	for i := range x {
		x[i] = i * 7 % 300
	}
	return x
}

// TestSameBits runs all trials for weights and caches of each type.
func TestSameBits(t *testing.T) {
	for _, kind := range []attn.CacheType{attn.F32, attn.F16, attn.BF16, attn.I8} {
		t.Run(kind.String(), func(t *testing.T) {
			var out bytes.Buffer
			different, err := prove(&out, tinyModel(t, kind, 1), settings{kind: kind}, countUp(150))
			must(t, err)
			if n := strings.Count(out.String(), "OK, same bits\n"); different != 0 || n != len(trials)-1 {
				t.Errorf("%d of %d trials have the same bits:\n%s", n, len(trials)-1, &out)
			}
		})
	}
}

// TestDifferencesAreSeen makes sure that a proof can fail.
func TestDifferencesAreSeen(t *testing.T) {
	one, err := trials[0].run(tinyModel(t, attn.F32, 1), settings{}, countUp(70))
	must(t, err)
	other, err := trials[0].run(tinyModel(t, attn.F32, 1), settings{kind: attn.F16}, countUp(70))
	must(t, err)
	if n := differences(one, other); n < 500 {
		t.Errorf("only %d of %d logits differ for another type of cache", n, len(one)*300)
	}
	if len(one) != proofSteps || differences(one, one[1:]) == 0 || differences(one, one) != 0 {
		t.Errorf("%d steps, %d differences from fewer, %d from themselves", len(one), differences(one, one[1:]), differences(one, one))
	}
	changed := [][]float32{slices.Clone(one[0])}
	changed[0][7] = math.Nextafter32(changed[0][7], 9)
	if n := differences(one[:1], changed); n != 1 {
		t.Errorf("%d differences, want 1", n)
	}
}

// TestTextbookAgrees compares both ways of attention in the engine's hardest case.
func TestTextbookAgrees(t *testing.T) {
	m := tinyModel(t, attn.F32, 2)
	trial := trials[len(trials)-1]
	ours, err := trial.run(m, settings{}, countUp(150))
	must(t, err)
	textbook, err := trial.run(m, settings{textbook: true}, countUp(150))
	must(t, err)
	for i, x := range ours[0] {
		if d := math.Abs(float64(x - textbook[0][i])); !(d < 1e-4) {
			t.Fatalf("logit %d is %v, and %v by the textbook", i, x, textbook[0][i])
		}
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
			must(t, e.submit(&job{prompt: append(slices.Clone(prefix), i), most: 3, choose: greedy, made: func(int) {}, ended: func() {}}))
		}
		must(t, e.run())
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

// TestJoins makes sure that prompts of later jobs are read while others decode, and that answers come in order.
func TestJoins(t *testing.T) {
	m := tinyModel(t, attn.F32, 1)
	e, err := newEngine(m, settings{workers: 1, places: 2, chunk: 10, context: 100})
	must(t, err)
	defer e.close()
	var out bytes.Buffer
	s := &stream{out: &out, text: numbers(300), prompts: []string{"a", "b", "c"}, answers: make([][]int, 3), done: make([]bool, 3)}
	for i, most := range []int{12, 2, 3} {
		must(t, e.submit(&job{prompt: countUp(25), most: most, choose: func([]float32) int { return i },
			made: func(token int) { s.made(i, token) }, ended: func() { s.end(i) }}))
	}
	must(t, e.run())
	if want := "[1] a" + strings.Repeat(" 0", 12) + "\n\n[2] b 1 1\n\n[3] c 2 2 2\n\n"; out.String() != want {
		t.Errorf("printed %q, want %q", &out, want)
	}
	if e.read != 75 || e.beside < 5 || e.made+e.beside+3 != 12+2+3 {
		t.Errorf("%d tokens of prompts, %d decoded beside them, %d alone", e.read, e.beside, e.made)
	}
}

// TestPromptIsThePrefix computes a prompt that is all shared again, as nobody kept its logits.
func TestPromptIsThePrefix(t *testing.T) {
	m := tinyModel(t, attn.F32, 1)
	e, err := newEngine(m, settings{workers: 1, places: 1, chunk: 10, context: 100})
	must(t, err)
	defer e.close()
	must(t, e.share(countUp(20)))
	j := &job{prompt: countUp(20), most: 2, choose: greedy, made: func(int) {}, ended: func() {}}
	must(t, e.submit(j))
	for range 3 {
		must(t, e.step())
	}
	if len(j.tokens) != 22 {
		t.Errorf("there are %d tokens after three steps, want 22", len(j.tokens))
	}
}

// TestStops ends an answer at the model's token for that.
func TestStops(t *testing.T) {
	m := tinyModel(t, attn.F32, 1)
	m.Stop = []int{5, 9}
	e, err := newEngine(m, settings{workers: 1, places: 1, chunk: 10, context: 100})
	must(t, err)
	defer e.close()
	j := &job{prompt: []int{1}, most: 50, made: func(int) {}, ended: func() {}}
	j.choose = func([]float32) int { return 3 + 2*len(j.tokens) }
	must(t, e.submit(j))
	must(t, e.run())
	if want := []int{1, 5}; !slices.Equal(j.tokens, want) {
		t.Errorf("the tokens are %v, want %v", j.tokens, want)
	}
}

func TestMisuse(t *testing.T) {
	m := tinyModel(t, attn.F32, 1)
	if _, err := newEngine(m, settings{}); err == nil || !strings.Contains(err.Error(), "want at least 1") {
		t.Errorf("no workers: %v", err)
	}
	if _, err := newEngine(m, settings{workers: 1, places: 1, chunk: 1, context: math.MaxInt / 4}); err == nil {
		t.Error("there is a cache for all tokens that can be counted")
	}
	e, err := newEngine(m, settings{workers: 1, places: 1, chunk: 1, context: 8})
	must(t, err)
	defer e.close()
	if err := e.share(countUp(9)); err == nil || !strings.Contains(err.Error(), "9 tokens, want at most 8") {
		t.Errorf("a long prefix: %v", err)
	}
	for want, j := range map[string]*job{"no tokens": {}, "want at most 8": {prompt: countUp(5), most: 4}, "token 300": {prompt: []int{300}}, "token -1": {prompt: []int{-1}}} {
		if err := e.submit(j); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want it to say %q", err, want)
		}
	}
}

// TestSampler draws tokens as often as they are likely.
func TestSampler(t *testing.T) {
	logits := []float32{0, float32(math.Log(2)), float32(math.Inf(-1)), float32(math.Log(5))}
	counts := make([]int, 4)
	for choose := sampler(1, 3, 0); counts[0]+counts[1]+counts[3] < 8000; {
		counts[choose(logits)]++
	}
	for i, want := range []int{1000, 2000, 0, 5000} {
		if counts[i] < want*9/10 || counts[i] > want*11/10 {
			t.Errorf("token %d was drawn %d times, want about %d", i, counts[i], want)
		}
	}
	if got := sampler(0, 3, 0)(logits); got != 3 {
		t.Errorf("greedy takes %d, want 3", got)
	}
}

// TestCommand runs what people type.
func TestCommand(t *testing.T) {
	folder := newFake("BF16").write(t)
	for _, c := range []struct {
		args string
		want []string // in the output, or in the error
	}{
		{"-layers 1 -dim 32 -heads 2 -kv 1 -ffn 40 -vocab 256 -n 3", []string{"1 layers of 32", "[1] The capital of France is ", "[3] Once", "prefill: ", "decode:  ", "joins 15 others that decode            OK, same bits"}},
		{"-layers 1 -dim 32 -heads 2 -kv 1 -n 3 -textbook hello", []string{"[1] hello ", "keys and values: "}},
		{"-model " + folder + " -n 5 -cache i8 -weights i8 -temperature 2 -prompt abc -shared ab", []string{"2 layers of 24", "[1] abc", "prefill: 3 tokens"}},
		{"-model " + folder + " -prove abc", []string{"OK, same bits"}},
		{"-model " + folder + " x", []string{`no token for "x"`}},
		{"-model " + folder + " -shared x a", []string{`no token for "x"`}},
		{"-model " + folder + " a\xff", []string{"not UTF-8"}},
		{"-model nowhere", []string{"nowhere", "config.json"}},
		{"-model " + folder, []string{"no prompt"}},
		{"-size 1t", []string{`"1t", want tiny`}},
		{"-dim 30 -heads 4", []string{"head_dim is 7"}},
		{"-cache f64", []string{"want f32, f16, bf16 or i8"}},
		{"-context 10 hello-hello", []string{"prompt 1", "want at most 10"}},
		{"-workers 0 x", []string{"workers, batch"}},
		{"-bench (", []string{"-bench"}},
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
		must(t, run(append([]string{"-layers", "2", "-dim", "64", "-heads", "4", "-kv", "2", "-vocab", "500", "-temperature", "1", "-n", "40"}, args...), &out, &out))
		text := out.String()
		return text[strings.Index(text, "[1]"):strings.Index(text, "prefill")]
	}
	prompts := []string{"one", "two and three", "four"}
	want := answers(append([]string{"-batch", "1", "-workers", "1"}, prompts...)...)
	if got := answers(append([]string{"-batch", "3", "-workers", "2", "-chunk", "5"}, prompts...)...); got != want {
		t.Errorf("in a batch of three:\n%s\none by one:\n%s", got, want)
	}
}

// TestBench runs some cases for a model that is too small to wait for.
func TestBench(t *testing.T) {
	var out bytes.Buffer
	must(t, run([]string{"-layers", "1", "-dim", "32", "-heads", "2", "-kv", "1", "-vocab", "256", "-bench", "prefill|shared"}, &out, &out))
	if text := out.String(); !strings.Contains(text, "prefill of 512 tokens ") || !strings.Contains(text, "shared") || strings.Contains(text, "Inf") {
		t.Errorf("printed\n%s", text)
	}
}

// TestErrorsOfACall closes what an engine needs, so that its calls fail.
func TestErrorsOfACall(t *testing.T) {
	for name, end := range map[string]func(*engine){
		"cache": func(e *engine) { e.cache.close() },
		"pool":  func(e *engine) { must(t, e.pool.Close()) },
	} {
		e, err := newEngine(tinyModel(t, attn.F32, 1), settings{workers: 1, places: 1, chunk: 10, context: 100})
		must(t, err)
		must(t, e.submit(&job{prompt: countUp(20), most: 2, choose: greedy, made: func(int) {}, ended: func() {}}))
		end(e)
		if err := e.run(); !errors.Is(err, attn.ErrClosed) {
			t.Errorf("the error of a call with a closed %s is %v", name, err)
		}
		if err := e.share(countUp(5)); !errors.Is(err, attn.ErrClosed) {
			t.Errorf("the error of a prefix with a closed %s is %v", name, err)
		}
	}
}
