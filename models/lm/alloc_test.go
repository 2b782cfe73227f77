package lm

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestNoAllocationInSteps: answers allocate where they begin and end, and for texts, but not in
// their steps.
func TestNoAllocationInSteps(t *testing.T) {
	const steps, company = 300, 2
	kinds := sessionKinds(t)
	guessing, _ := furtherCases[0].write(t)
	glm, _ := furtherCases[3].write(t)
	for name, open := range map[string]func() *Model{
		"floats":   func() *Model { return small(t, Options{Workers: 2}) },
		"integers": func() *Model { return small(t, Options{Weights: I8, Products: Integers, Keys: I8}) },
		"windows":  func() *Model { return opened(t, kinds["windows"], Options{Context: 512}) },
		"states":   func() *Model { return opened(t, kinds["states"], Options{Context: 512}) },
		"guesses":  func() *Model { return opened(t, guessing, Options{Context: 512, Guesses: 3}) },
		"experts":  func() *Model { return opened(t, glm, Options{Context: 512, Guesses: 3}) },
	} {
		m := open()
		if m.engine.guesser != nil {
			m.engine.guesser.pace.steady = true
		}
		g := Generation{MaxTokens: steps + 60, Top: 3, Sampling: Sampling{Temperature: 1, TopP: 0.9,
			Repetition: 1.1, Frequency: 0.1}, Logits: func(_ []int32, logits []float32) error {
			first := 128
			if m.net.Vocab < first {
				first = 12
			}
			for token := first; token < len(logits); token++ {
				logits[token] = -1e9 // so that each text is a letter, and the answer does not end
			}
			return nil
		}}
		var wait sync.WaitGroup
		var before, after runtime.MemStats
		var tokens, made atomic.Int64
		for i := range company {
			wait.Go(func() {
				n := 0
				for _, err := range m.Generate(context.Background(), []int32{1, 2, int32(i)}, g) {
					if err != nil {
						t.Error(err)
					}
					tokens.Add(1)
					if n++; i == 0 && n == 30 {
						runtime.ReadMemStats(&before)
						tokens.Store(0)
					} else if i == 0 && n == 30+steps {
						runtime.ReadMemStats(&after)
						made.Store(tokens.Load())
					}
				}
			})
		}
		wait.Wait()
		// Each text is an allocation. Slices and maps grow now and then.
		if got := float64(after.Mallocs-before.Mallocs) / float64(made.Load()); got > 1.6 {
			t.Errorf("%s: %.2f allocations a token, want one for its text", name, got)
		}
	}
}
