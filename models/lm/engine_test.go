package lm

import (
	"errors"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// tinyModel is a small random model.
func tinyModel(t *testing.T, kind attn.Format, seed uint64) *model {
	t.Helper()
	return tinyModelOf(t, &weights.Loader{Random: weights.Chance(seed)}, kind)
}

// tinyModelOf is a small model with a loader's weights.
func tinyModelOf(t *testing.T, l *weights.Loader, kind attn.Format) *model {
	t.Helper()
	f := configFile{ModelType: "llama", Activation: new("silu"), Layers: 2, Dim: 64, Heads: 8,
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

// TestStops ends an answer at the model's token for that.
func TestStops(t *testing.T) {
	m := tinyModel(t, attn.F32, 1)
	m.Stop = []int{5, 9} // the calls of the test obey them
	e, err := newTester(m, settings{workers: 1, places: 1, chunk: 10, context: 100})
	must(t, err)
	defer e.close()
	j := &call{prompt: []int{1}, most: 50}
	j.choose = func([]float32) int { return 3 + 2*len(j.tokens) }
	e.queue(j)
	must(t, e.answer())
	if want := []int{1, 5}; !slices.Equal(j.tokens, want) {
		t.Errorf("the tokens are %v, want %v", j.tokens, want)
	}
}

// TestErrorsOfACall closes parts that an engine needs, so that its calls fail.
func TestErrorsOfACall(t *testing.T) {
	for name, end := range map[string]func(*engine){
		"cache": func(e *engine) { e.pages.close() },
		"pool":  func(e *engine) { must(t, e.pool.Close()) },
	} {
		e, err := newTester(tinyModel(t, attn.F32, 1),
			settings{workers: 1, places: 1, chunk: 10, context: 100})
		must(t, err)
		e.queue(&call{prompt: countUp(20), most: 2, choose: greedy})
		end(e.engine)
		if err := e.answer(); !errors.Is(err, attn.ErrClosed) {
			t.Errorf("the error of a call with a closed %s is %v", name, err)
		}
		_ = e.pool.Close()
	}
}

// TestWindowsTakeFewPages: a layer with a window needs pages for the window only, and logits are
// the same as without paging, also for forks of a prefix that other sequences continue.
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
	e, err := newTester(m, settings{workers: 2, places: 3, chunk: 40, context: 800})
	must(t, err)
	defer e.close()
	for i, n := range []int{4 * (pagesOf(800) + 1), 8 * (3 + 1)} {
		if got := e.pages.stores[i].Config().Pages; got != n {
			t.Errorf("layer %d has %d pages, want %d", i, got, n)
		}
	}
	e.queue(&call{prompt: prompt[:200], most: 1, choose: greedy})
	must(t, e.answer())
	var got [3][]float32
	for i := range got {
		tokens := slices.Clone(prompt)
		tokens[i*80] += i // shares less and less of the prefix
		tokens[i*80] %= m.Vocab
		e.queue((&call{prompt: tokens, most: 1 + 30*i, choose: func(x []float32) int {
			if got[i] == nil {
				got[i] = slices.Clone(x)
			}
			return 0
		}}))
	}
	must(t, e.answer())
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

// TestPrefixes: prompts share the pages of tokens that they have in common with other prompts,
// running or done, and have the same logits as alone.
func TestPrefixes(t *testing.T) {
	m := tinyModel(t, attn.F32, 1)
	one := func(e *tester, prompt []int) (all []float32, shared int) {
		before := e.counts().shared
		e.queue(&call{prompt: prompt, most: 2, choose: func(x []float32) int {
			all = append(all, x...)
			return greedy(x)
		}})
		must(t, e.answer())
		return all, e.counts().shared - before
	}
	begin := func() *tester {
		e, err := newTester(m, settings{workers: 1, places: 1, chunk: 1000, context: 200})
		must(t, err)
		return e
	}
	prefix := countUp(150)
	for _, n := range []int{0, 1, 63, 64, 65, 149, 150} {
		prompt := append(slices.Clone(prefix[:n]), 299, 7, 8)
		alone, after := begin(), begin()
		want, _ := one(alone, prompt)
		one(after, prefix)
		got, shared := one(after, prompt)
		if !slices.Equal(got, want) || shared != n {
			t.Errorf("%d tokens in common: the same logits %v, and %d tokens were shared", n,
				slices.Equal(got, want), shared)
		}
		again := n + 2
		if len(prompt) < 64 {
			again = n // a sequence of less than a page is not kept
		}
		if got, shared = one(after, prompt); !slices.Equal(got, want) || shared != again {
			t.Errorf("the same prompt again: the same logits %v, and %d tokens were shared, want %d",
				slices.Equal(got, want), shared, again)
		}
		alone.close()
		after.close()
	}
}

// TestSharedAtOnce: simultaneous requests with a common prompt compute it once.
func TestSharedAtOnce(t *testing.T) {
	m := tinyModel(t, attn.F32, 1)
	e, err := newTester(m, settings{workers: 2, places: 16, chunk: 64, context: 1100})
	must(t, err)
	defer e.close()
	prefix := countUp(1000)
	for i := range 64 {
		e.queue(&call{prompt: append(slices.Clone(prefix), i, 3), most: 3, choose: greedy})
	}
	must(t, e.answer())
	if got := e.counts(); got.read != 1000+64*2 || got.shared != 63*1000 {
		t.Errorf("%d tokens of prompts were computed and %d shared, want %d and %d", got.read, got.shared,
			1000+64*2, 63*1000)
	}
	if page := e.pages.stores[0].MemoryUse() / e.pages.stores[0].Config().Pages; e.counts().peak >
		2*page*(16+2*64) {
		t.Errorf("%d bytes were in use, want pages of the common prompt once", e.counts().peak)
	}
}

// TestPagesAreGivenBack: prefixes are dropped when other sequences need their pages, and nothing is
// in use after the last is dropped.
func TestPagesAreGivenBack(t *testing.T) {
	m := tinyModel(t, attn.F32, 1)
	e, err := newTester(m, settings{workers: 1, places: 3, chunk: 50, context: 300, memory: 1 << 20})
	must(t, err)
	defer e.close()
	for round := range 20 {
		for i := range 5 {
			prompt := countUp(200)
			prompt[0] = (round*5 + i) % 300
			e.queue(&call{prompt: prompt, most: 5 + i, choose: greedy})
		}
		must(t, e.answer())
	}
	e.mu.Lock()
	e.applyDecisions()
	e.prefixes.clear()
	e.mu.Unlock()
	if n := e.pages.inUse(); n != 0 {
		t.Errorf("%d bytes are in use at the end", n)
	}
}
