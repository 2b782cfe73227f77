package lm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/chat"
)

// within fails if f does not return soon.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s does not end", what)
	}
}

// full returns all tokens of an answer, and its error.
func full(ctx context.Context, m *Model, prompt []int32, g Generation) (all []Token, err error) {
	for token, failed := range m.Generate(ctx, prompt, g) {
		if err != nil {
			return all, errors.New("an element follows an error")
		}
		if err = failed; err == nil {
			token.Top = slices.Clone(token.Top)
			all = append(all, token)
		} else if token.ID != 0 || token.Text != "" {
			return all, fmt.Errorf("with the error %w comes the token %+v", err, token)
		}
	}
	return all, err
}

// TestGenerateRefuses has invalid arguments: an error names them, and no step runs.
func TestGenerateRefuses(t *testing.T) {
	m, other := small(t, Options{Memory: 1 << 20}), small(t, Options{})
	theirs, err := other.NewSession()
	must(t, err)
	used, err := m.NewSession()
	must(t, err)
	_, err = used.Append(context.Background(), 1, 2, 3)
	must(t, err)
	empty, err := m.NewSession()
	must(t, err)
	steps := m.engine.counts()
	for _, c := range []struct {
		prompt []int32
		g      Generation
		is     error
		says   string
	}{
		{nil, Generation{}, attn.ErrOption, "no tokens"},
		{nil, Generation{Session: empty}, attn.ErrOption, "no tokens"},
		{[]int32{1, -1}, Generation{}, attn.ErrOption, "token 1 of the prompt is -1"},
		{[]int32{300}, Generation{}, attn.ErrOption, "want 0 to 299"},
		{[]int32{300}, Generation{Session: used}, attn.ErrOption, "want 0 to 299"},
		{make([]int32, 512), Generation{}, ErrContext, "512 tokens, want at most 511"},
		{make([]int32, 509), Generation{Session: used}, ErrContext,
			"the session and the prompt have 512 tokens, want at most 511"},
		{[]int32{1}, Generation{MaxTokens: -1}, attn.ErrOption, "MaxTokens is -1"},
		{[]int32{1}, Generation{Top: -1}, attn.ErrOption, "Top is -1"},
		{[]int32{1}, Generation{Top: 301}, attn.ErrOption, "Top is 301"},
		{[]int32{1}, Generation{Stop: []string{"a", ""}}, attn.ErrOption, "Stop[1]"},
		{[]int32{1}, Generation{Stop: []string{"a", "b\xff"}}, attn.ErrOption, `Stop[1] is "b\xff", want UTF`},
		{[]int32{1}, Generation{Session: theirs}, attn.ErrOption, "Session is of another model"},
		{[]int32{1}, Generation{Sampling: Sampling{TopP: float32(math.NaN())}}, attn.ErrOption,
			"Sampling.TopP is NaN"},
	} {
		all, err := full(context.Background(), m, c.prompt, c.g)
		if len(all) > 0 || !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d tokens, %+v: %d tokens and %v, want %v that says %q", len(c.prompt), c.g,
				len(all), err, c.is, c.says)
		}
	}
	if used.Len() != 3 || empty.Len() != 0 {
		t.Errorf("the sessions have %d and %d tokens, want 3 and 0", used.Len(), empty.Len())
	}
	if now := m.engine.counts(); now.steps != steps.steps || now.read != steps.read {
		t.Errorf("%d tokens were read, want none", now.read-steps.read)
	}
}

// TestAnswersThatDoNotFit: an answer that exceeds Options.Memory is an error, and leaves its
// session unchanged.
func TestAnswersThatDoNotFit(t *testing.T) {
	m := small(t, Options{Memory: 200 << 10})
	s, err := m.NewSession()
	must(t, err)
	_, err = s.Append(context.Background(), 1, 2, 3)
	must(t, err)
	for _, g := range []Generation{{}, {Session: s}} {
		if _, err := full(context.Background(), m, prompt32(300), g); !errors.Is(err, attn.ErrMemory) {
			t.Errorf("the error is %v, want ErrMemory", err)
		}
	}
	if s.Len() != 3 {
		t.Errorf("the session has %d tokens, want 3", s.Len())
	}
	long := strings.Repeat("word ", 200)
	for _, err := range m.Chat(context.Background(), []chat.Message{{Role: "user", Content: long}},
		Generation{Session: s}) {
		if !errors.Is(err, ErrContext) || s.Len() != 3 {
			t.Errorf("a conversation that is too long: %v, and the session has %d tokens", err, s.Len())
		}
	}
}

// TestPenaltiesThatOverflow: penalties that make a logit infinite or NaN are an error, as from a
// hook.
func TestPenaltiesThatOverflow(t *testing.T) {
	m := small(t, Options{})
	for _, s := range []Sampling{{Repetition: 1e-45}, {Frequency: -3e38, Presence: -3e38},
		{Frequency: math.MaxFloat32, Presence: -math.MaxFloat32, Temperature: 1},
		{Repetition: 1e-45, Temperature: 1}, {Repetition: 1e-45, Temperature: 1, TopP: 0.5}} {
		all, err := full(context.Background(), m, prompt32(200), Generation{MaxTokens: 20, Sampling: s})
		if err != nil &&
			(!errors.Is(err, attn.ErrOption) || !strings.Contains(err.Error(), "Repetition")) {
			t.Errorf("%+v: after %d tokens %v", s, len(all), err)
		}
		if s.Presence >= 0 && err == nil {
			t.Errorf("%+v: no error", s)
		}
	}
	d := newSampler(Sampling{Repetition: math.MaxFloat32}, []int32{0, 1})
	logits := []float32{-3, -2}
	d.penalize(logits)
	if err := d.checkPenalized(logits); !errors.Is(err, attn.ErrOption) {
		t.Errorf("with -Inf for all the error is %v", err)
	}
}

// TestHooks: the logits that a hook returns count, and invalid ones are an error.
func TestHooks(t *testing.T) {
	m, nan, inf := small(t, Options{}), float32(math.NaN()), float32(math.Inf(1))
	failed := errors.New("the hook's")
	for _, c := range []struct {
		f    func(logits []float32) error
		is   error
		says string
	}{
		{func(x []float32) error { x[7] = nan; return nil }, attn.ErrOption, "NaN for token 7"},
		{func(x []float32) error { x[8] = inf; return nil }, attn.ErrOption, "+Inf for token 8"},
		{func(x []float32) error {
			for i := range x {
				x[i] = -inf
			}
			return nil
		}, attn.ErrOption, "-Inf for all tokens"},
		{func([]float32) error { return failed }, failed, "the hook's"},
	} {
		_, err := full(context.Background(), m, []int32{1}, Generation{
			Logits: func(_ []int32, logits []float32) error { return c.f(logits) }})
		if !errors.Is(err, c.is) || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("the error is %v, want %q in it", err, c.says)
		}
	}
	var seen [][]int32
	all, err := full(context.Background(), m, []int32{4, 5}, Generation{MaxTokens: 3,
		Logits: func(tokens []int32, logits []float32) error {
			seen = append(seen, slices.Clone(tokens))
			for i := range logits {
				logits[i] = -inf
			}
			logits[60+len(tokens)] = 2
			return nil
		}})
	must(t, err)
	if want := [][]int32{{4, 5}, {4, 5, 62}, {4, 5, 62, 63}}; !slices.EqualFunc(seen, want,
		slices.Equal[[]int32]) || all[2].ID != 64 || all[2].LogProb != 0 {
		t.Errorf("the hook saw %v, and the answer is %+v", seen, all)
	}
}

// TestPanics: a panic of a hook, of a reader or of Score's function reaches its caller and frees
// the place.
func TestPanics(t *testing.T) {
	m := small(t, Options{Sequences: 1})
	s, err := m.NewSession()
	must(t, err)
	ctx, g := context.Background(), Generation{MaxTokens: 4, Session: s}
	for name, f := range map[string]func(){
		"a hook": func() {
			_, _ = full(ctx, m, []int32{1}, Generation{Session: s,
				Logits: func([]int32, []float32) error { panic("mine") }})
		},
		"a reader": func() {
			for range m.Generate(ctx, []int32{1}, g) {
				panic("mine")
			}
		},
		"Score": func() {
			_ = s.Score(ctx, []int32{1, 2}, func(int, []float32) error { panic("mine") })
		},
	} {
		within(t, "a panic of "+name, func() {
			defer func() {
				if got := recover(); got != "mine" {
					t.Errorf("%s: recovered %v", name, got)
				}
			}()
			f()
		})
		before := s.Len()
		within(t, "an answer after that", func() {
			if all, err := full(ctx, m, []int32{1}, g); err != nil || s.Len() != before+1+len(all) {
				t.Errorf("%s: afterwards %d tokens and %v", name, len(all), err)
			}
		})
	}
	if s.Len() > 3*6 {
		t.Errorf("the session has %d tokens: Score's panic left some", s.Len())
	}
}

// TestRangesAreAnswers: each range over one iterator is an answer, also two at the same time, and
// nothing happens before the range.
func TestRangesAreAnswers(t *testing.T) {
	m := small(t, Options{})
	answer := m.Complete(context.Background(), "twice", Generation{MaxTokens: 9,
		Sampling: Sampling{Temperature: 1, Seed: 3}})
	if n := m.engine.counts(); n.read != 0 {
		t.Errorf("%d tokens were read before the range", n.read)
	}
	var all [4][]Token
	var wait sync.WaitGroup
	for i := range all {
		read := func() {
			for token, err := range answer {
				must(t, err)
				all[i] = append(all[i], token)
			}
		}
		if i < 2 {
			read()
		} else {
			wait.Go(read)
		}
	}
	wait.Wait()
	for i := range all {
		if len(all[i]) == 0 || fmt.Sprint(all[i]) != fmt.Sprint(all[0]) {
			t.Errorf("range %d is %v, want %v", i, all[i], all[0])
		}
	}
}

// script returns a hook that makes an answer out of bytes, one a token, and then a token.
func script(m *Model, texts string, then int32) func([]int32, []float32) error {
	at := 0
	return func(_ []int32, logits []float32) error {
		for i := range logits {
			logits[i] = float32(math.Inf(-1))
		}
		next := then
		if at < len(texts) {
			next = int32(texts[at])
		}
		at++
		logits[next] = 1
		return nil
	}
}

// TestTextsOfAnswers: whole characters, texts that end an answer, ends and lengths.
func TestTextsOfAnswers(t *testing.T) {
	m := small(t, Options{})
	end := m.Tokenizer().Ends()[0]
	for _, c := range []struct {
		script string
		then   int32
		stop   []string
		most   int
		prompt string
		text   string
		tokens int
		end    End
	}{
		{"hello", end, nil, 9, "x", "hello", 6, Stopped},
		{"hello", end, nil, 3, "x", "hel", 3, Length},
		{"grün", 'z', nil, 5, "x", "grün", 5, Length},
		{"gr\xc3", 'z', nil, 3, "x", "gr�", 3, Length},  // the rest is flushed
		{"gr\xc3", end, nil, 9, "x", "gr�", 4, Stopped}, // likewise
		{"€\xff", end, nil, 9, "x", "€�", 5, Stopped},   // no UTF-8
		{"abcdef", end, []string{"cd"}, 9, "x", "ab", 4, Stopped},
		{"abcdef", end, []string{"ef", "cd"}, 9, "x", "ab", 4, Stopped},
		{"abcdef", end, []string{"cde", "d"}, 9, "x", "abc", 4, Stopped}, // the first that is complete
		{"abcd", end, []string{"cdx"}, 9, "x", "abcd", 5, Stopped},       // held back, then shown
		{"abcd", 'z', []string{"cdx"}, 4, "x", "abcd", 4, Length},
		{"bcd", end, []string{"ab"}, 9, "a", "bcd", 4, Stopped}, // begins in the prompt
		{"aab", end, []string{"ab"}, 9, "a", "a", 3, Stopped},
		{"a\xc3", 'z', []string{"�"}, 2, "x", "a", 2, Stopped},
		{"a\xc3", end, []string{"�"}, 9, "x", "a", 3, Stopped},
	} {
		text, s := "", m.session(t)
		var all []Token
		for token, err := range m.Complete(context.Background(), c.prompt, Generation{Stop: c.stop,
			MaxTokens: c.most, Session: s, Logits: script(m, c.script, c.then)}) {
			must(t, err)
			all, text = append(all, token), text+token.Text
		}
		last := all[len(all)-1]
		if text != c.text || len(all) != c.tokens || last.End != c.end {
			t.Errorf("%q with %q: %q of %d tokens, %v, want %q of %d, %v", c.script, c.stop, text,
				len(all), last.End, c.text, c.tokens, c.end)
		}
		kept := s.Tokens()
		if len(kept) != len(c.prompt)+len(all) || kept[len(kept)-1] != last.ID {
			t.Errorf("%q: the session has %v", c.script, kept)
		}
		for _, token := range all[:len(all)-1] {
			if token.End != NotEnded {
				t.Errorf("%q: a token before the last is the end: %+v", c.script, token)
			}
		}
	}
}

// session returns a new session.
func (m *Model) session(t testing.TB) *Session {
	t.Helper()
	s, err := m.NewSession()
	must(t, err)
	return s
}

// TestLogProbs compares log-probabilities and candidates with their definition.
func TestLogProbs(t *testing.T) {
	m := small(t, Options{})
	var logits []float32
	all, err := full(context.Background(), m, prompt32(9), Generation{MaxTokens: 1, Top: 300,
		Sampling: Sampling{Temperature: 1.5, TopK: 4, Seed: 9, Presence: 0.5, Repetition: 1.1},
		Logits: func(_ []int32, x []float32) error {
			x[11] = float32(math.Inf(-1))
			logits = slices.Clone(x)
			return nil
		}})
	must(t, err)
	sum := attn.LogSumExp(logits)
	for _, c := range append(all[0].Top, Candidate{all[0].ID, all[0].LogProb}) {
		if want := logits[c.ID] - sum; c.LogProb != want {
			t.Errorf("token %d has %v, want %v", c.ID, c.LogProb, want)
		}
	}
	if !slices.IsSortedFunc(all[0].Top, func(a, b Candidate) int {
		if a.LogProb != b.LogProb {
			return -int(math.Copysign(1, float64(a.LogProb-b.LogProb)))
		}
		return int(a.ID - b.ID)
	}) || len(all[0].Top) != 300 {
		t.Errorf("candidates are not ranked: %v", all[0].Top[:9])
	}
}

// TestCancelled ends answers at every moment: they end within a step, with ctx's error, and free
// the place.
func TestCancelled(t *testing.T) {
	m := small(t, Options{Sequences: 1, Chunk: 3})
	for at := range 40 {
		within(t, "a cancelled answer", func() {
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			mine, n := errors.New("mine"), 0
			g := Generation{MaxTokens: 9, Logits: func([]int32, []float32) error {
				if n++; n == at/2 && at%2 == 0 {
					cancel(mine)
				}
				return nil
			}}
			if at == 39 {
				cancel(mine) // before anything
			}
			after := 0
			var last error
			for _, err := range m.Generate(ctx, prompt32(20), g) {
				if last = err; ctx.Err() != nil && err == nil {
					after++
				}
				if n == at/2 && at%2 == 1 {
					cancel(mine)
				}
			}
			if ctx.Err() != nil && (after > 1 || n < 9 && !errors.Is(last, mine)) {
				t.Errorf("at %d: %d tokens came after it, and the error is %v", at, after, last)
			}
		})
	}
	timed, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	within(t, "an answer after its time", func() {
		for i := 0; ; i++ {
			if _, err := full(timed, m, prompt32(400), Generation{MaxTokens: 100}); err != nil {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				return
			}
		}
	})
}

// TestCloseLeavesNothing closes models while answers are in all phases: each ends with ErrClosed,
// and no goroutine is left.
func TestCloseLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	for round := range 20 {
		m := small(t, Options{Sequences: 3, Chunk: 7})
		var wait sync.WaitGroup
		for i := range 12 {
			wait.Go(func() {
				_, err := full(context.Background(), m, prompt32(5+7*i), Generation{MaxTokens: 400})
				if err != nil && !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Duration(round) * time.Millisecond)
		within(t, "Close", func() { must(t, m.Close()) })
		within(t, "the answers", wait.Wait)
		if err := m.Close(); !errors.Is(err, ErrClosed) {
			t.Errorf("a second Close is %v", err)
		}
		if _, err := m.NewSession(); !errors.Is(err, ErrClosed) {
			t.Errorf("NewSession of a closed model is %v", err)
		}
		if _, err := full(context.Background(), m, []int32{1}, Generation{}); !errors.Is(err, ErrClosed) {
			t.Errorf("an answer of a closed model is %v", err)
		}
	}
	for wait := 0; runtime.NumGoroutine() > before && wait < 200; wait++ {
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("there are %d goroutines, want %d as before", n, before)
	}
}

// TestCloseWithin closes a model in its own callbacks.
func TestCloseWithin(t *testing.T) {
	ctx := context.Background()
	for name, f := range map[string]func(m *Model, s *Session) error{
		"hook": func(m *Model, s *Session) error {
			_, err := full(ctx, m, []int32{1}, Generation{Session: s,
				Logits: func([]int32, []float32) error { _ = m.Close(); return nil }})
			return err
		},
		"hook without a session": func(m *Model, _ *Session) error {
			_, err := full(ctx, m, []int32{1},
				Generation{Logits: func([]int32, []float32) error { _ = m.Close(); return nil }})
			return err
		},
		"reader": func(m *Model, s *Session) error {
			for _, err := range m.Generate(ctx, []int32{1}, Generation{Session: s}) {
				if err != nil {
					return err
				}
				_ = m.Close()
			}
			return nil
		},
		"Score": func(m *Model, s *Session) error {
			return s.Score(ctx, prompt32(200), func(i int, _ []float32) error {
				if i == 50 {
					return m.Close()
				}
				return nil
			})
		},
		"Trace": func(m *Model, s *Session) error {
			s.Trace(func(layer, first int, _ attn.Tensor) {
				if layer == 0 && first == 0 {
					_ = m.Close()
				}
			})
			_, err := full(ctx, m, prompt32(20), Generation{Session: s})
			return err
		},
	} {
		m := small(t, Options{Chunk: 30})
		s := m.session(t)
		within(t, name, func() {
			if err := f(m, s); !errors.Is(err, ErrClosed) {
				t.Errorf("%s: the error is %v, want ErrClosed", name, err)
			}
			if _, err := s.Append(ctx, 1); !errors.Is(err, ErrClosed) {
				t.Errorf("%s: Append of a session of a closed model is %v", name, err)
			}
			if err := s.Truncate(0); !errors.Is(err, ErrClosed) {
				t.Errorf("%s: Truncate of a session of a closed model is %v", name, err)
			}
			if err := s.Close(); !errors.Is(err, ErrClosed) {
				t.Errorf("%s: Close of a session of a closed model is %v", name, err)
			}
			if !m.engine.freed {
				t.Errorf("%s: the engine's memory is not freed", name)
			}
		})
	}
}

// TestHookWritesTokens: what a hook does to the tokens that it gets changes no answer, session or
// prefix.
func TestHookWritesTokens(t *testing.T) {
	m := small(t, Options{})
	zeros := make([]int32, 200)
	s := m.session(t)
	g := Generation{MaxTokens: 8, Sampling: Sampling{Repetition: 1.3}}
	for _, of := range []*Session{nil, s} {
		hooked := g
		hooked.Session = of
		hooked.Logits = func(tokens []int32, _ []float32) error {
			clear(tokens)
			return nil
		}
		if got, want := collect(t, m, prompt32(150), hooked),
			collect(t, m, prompt32(150), g); !slices.Equal(got, want) {
			t.Errorf("the answer is %v, want %v", got, want)
		}
	}
	if got := s.Tokens()[:150]; !slices.Equal(got, prompt32(150)) {
		t.Errorf("the session has the tokens %v", got)
	}
	got, want := collect(t, m, zeros, g), collect(t, small(t, Options{}), zeros, g)
	if !slices.Equal(got, want) {
		t.Errorf("another answer is %v, want %v", got, want)
	}
}

// TestLogitsEnd: what is appended to logits overwrites no others, of guesses or of other answers.
func TestLogitsEnd(t *testing.T) {
	draft := small(t, Options{})
	m := small(t, Options{Draft: draft})
	check := func(logits []float32) error {
		if len(logits) != cap(logits) {
			return fmt.Errorf("there are %d logits with room for %d", len(logits), cap(logits))
		}
		return nil
	}
	ctx, g := context.Background(), Generation{MaxTokens: 10}
	g.Logits = func(_ []int32, logits []float32) error { return check(logits) }
	_, err := full(ctx, m, prompt32(9), g)
	must(t, err)
	must(t, m.session(t).Score(ctx, prompt32(9), func(_ int, logits []float32) error {
		return check(logits)
	}))
}
