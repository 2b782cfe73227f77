package lm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-1415985d/attn/models/chat"
)

// small is a small random model.
func small(t testing.TB, o Options) *Model {
	t.Helper()
	if o.Context == 0 {
		o.Context = 512
	}
	m, err := Random(Sizes{Layers: 2, Hidden: 64, Heads: 4, KVHeads: 2, FFN: 96, Vocab: 300,
		Seed: 1}, o)
	must(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// collect returns the tokens of an answer.
func collect(t testing.TB, m *Model, prompt []int32, g Generation) (ids []int32) {
	t.Helper()
	for token, err := range m.Generate(context.Background(), prompt, g) {
		if err != nil {
			t.Error(err)
			return ids
		}
		ids = append(ids, token.ID)
	}
	return ids
}

func prompt32(n int) []int32 {
	x := make([]int32, n)
	for i := range x {
		x[i] = int32(i * 7 % 256)
	}
	return x
}

func TestGenerate(t *testing.T) {
	m := small(t, Options{})
	ids := collect(t, m, prompt32(70), Generation{MaxTokens: 20})
	if len(ids) == 0 || len(ids) > 20 {
		t.Fatalf("%d tokens, want 1 to 20", len(ids))
	}
	again := collect(t, m, prompt32(70), Generation{MaxTokens: 20})
	if !slices.Equal(ids, again) {
		t.Errorf("the second answer is %v, want %v", again, ids)
	}
	if n := m.engine.counts().shared; n < 64 {
		t.Errorf("%d tokens of the second prompt were shared, want 64 at least", n)
	}
}

// TestCompany compares answers of many simultaneous callers with the same answers alone.
func TestCompany(t *testing.T) {
	const callers = 64
	prompt := func(i int) []int32 {
		x := append(prompt32(100), int32(i), int32(i/2))
		if i%3 == 0 {
			x = x[i:]
		}
		return x
	}
	generation := func(i int) Generation {
		return Generation{MaxTokens: 10 + i%7, Sampling: Sampling{Temperature: 0.9, Seed: uint64(i),
			TopP: 0.9}}
	}
	// answer returns tokens and the bits of their log-probabilities.
	answer := func(m *Model, i int) (text string) {
		all, err := full(context.Background(), m, prompt(i), generation(i))
		if err != nil {
			t.Error(err)
		}
		for _, token := range all {
			text += fmt.Sprintf("%d %x %v\n", token.ID, math.Float32bits(token.LogProb), token.End)
		}
		return text
	}
	var want [callers]string
	for i := range want {
		m := small(t, Options{Workers: 1})
		want[i] = answer(m, i)
		must(t, m.Close())
	}
	for _, o := range []Options{{}, {Sequences: 3, Chunk: 20}, {Memory: 1 << 20},
		{Workers: 1, Chunk: 1}, {Draft: small(t, Options{}), Guesses: 3}} {
		m := small(t, o)
		var wait sync.WaitGroup
		for i := range want {
			wait.Go(func() {
				if got := answer(m, i); got != want[i] {
					t.Errorf("%+v: answer %d is\n%s, want\n%s", o, i, got, want[i])
				}
			})
		}
		wait.Wait()
		if peak := m.engine.counts().peak; o.Memory > 0 && int64(peak) > o.Memory {
			t.Errorf("%d bytes were in use, want at most Options.Memory of %d", peak, o.Memory)
		}
		must(t, m.Close())
	}
}

func TestSession(t *testing.T) {
	m := small(t, Options{})
	ctx := context.Background()
	s, err := m.NewSession()
	must(t, err)
	whole := prompt32(150)
	logits, err := s.Append(ctx, whole[:100]...)
	must(t, err)
	first := slices.Clone(logits)
	_, err = s.Append(ctx, whole[100:]...)
	must(t, err)
	must(t, s.Truncate(100))
	logits, err = s.Append(ctx)
	must(t, err)
	if !slices.Equal(first, logits) {
		t.Error("logits after Truncate and Append differ from those of before")
	}
	var saved strings.Builder
	n, err := s.Save(&saved)
	must(t, err)
	if n != int64(saved.Len()) {
		t.Errorf("Save says %d bytes, want %d", n, saved.Len())
	}
	other, err := m.NewSession()
	must(t, err)
	n, err = other.Load(strings.NewReader(saved.String() + "more"))
	must(t, err)
	if n != int64(saved.Len()) || !slices.Equal(other.Tokens(), s.Tokens()) {
		t.Errorf("Load read %d bytes, want %d", n, saved.Len())
	}
	logits, err = other.Append(ctx)
	must(t, err)
	if !slices.Equal(first, logits) {
		t.Error("logits of a loaded session differ")
	}
	g := Generation{MaxTokens: 12, Session: s}
	a := collect(t, m, nil, g)
	g.Session = other
	b := collect(t, m, nil, g)
	if !slices.Equal(a, b) || !slices.Equal(s.Tokens(), append(slices.Clone(whole[:100]), a...)) {
		t.Errorf("answers are %v and %v, tokens %v", a, b, s.Tokens()[100:])
	}
	var scored int
	third, err := m.NewSession()
	must(t, err)
	must(t, third.Score(ctx, whole[:101], func(i int, logits []float32) error {
		scored++
		if i == 100 && !slices.Equal(logits, first) {
			t.Error("Score's logits differ from Append's")
		}
		return nil
	}))
	if scored != 100 {
		t.Errorf("%d tokens were scored, want 100", scored)
	}
}

func TestLeaveEarly(t *testing.T) {
	m := small(t, Options{Sequences: 2})
	for i := range 50 {
		n := rand.IntN(5)
		ctx, cancel := context.WithCancel(context.Background())
		for _, err := range m.Complete(ctx, fmt.Sprint("some text ", i), Generation{MaxTokens: 50}) {
			if errors.Is(err, context.Canceled) {
				break
			}
			must(t, err)
			if n--; n < 0 {
				if i%2 == 0 {
					break
				}
				cancel()
			}
		}
		cancel()
	}
	for _, err := range m.Chat(context.Background(), []chat.Message{{Role: "user", Content: "x"}},
		Generation{MaxTokens: 3}) {
		must(t, err)
	}
}
