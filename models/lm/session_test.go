package lm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
)

// TestSessionInUse: while one call uses a session, others return ErrBusy, and methods without an
// error are safe.
func TestSessionInUse(t *testing.T) {
	m := small(t, Options{})
	ctx, s := context.Background(), m.session(t)
	g := Generation{MaxTokens: 3, Session: s}
	none := func(int, []float32) error { return nil }
	calls := map[string]func() error{
		"Generate": func() error { _, err := full(ctx, m, []int32{1}, g); return err },
		"Append":   func() error { _, err := s.Append(ctx, 1); return err },
		"Score":    func() error { return s.Score(ctx, []int32{1}, none) },
		"Truncate": func() error { return s.Truncate(0) },
		"Fork":     func() error { _, err := s.Fork(); return err },
		"Save":     func() error { _, err := s.Save(io.Discard); return err },
		"Load":     func() error { _, err := s.Load(strings.NewReader("")); return err },
		"Close":    s.Close,
	}
	ends := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() { // during the answer
		for i := 0; ; i++ {
			select {
			case <-ends:
				return
			default:
			}
			if n := s.Len(); n > 0 && len(s.Tokens()) < 1 {
				t.Error("there are no tokens")
			}
			s.Trace([]func(int, int, attn.Tensor){nil, func(int, int, attn.Tensor) {}}[i%2])
			time.Sleep(time.Microsecond)
		}
	})
	within(t, "calls in a range", func() {
		for token, err := range m.Generate(ctx, prompt32(9), g) {
			must(t, err)
			for name, call := range calls {
				if err := call(); !errors.Is(err, ErrBusy) {
					t.Errorf("%s during an answer, at token %d: %v, want ErrBusy", name, token.ID, err)
				}
			}
		}
	})
	close(ends)
	wait.Wait()
	if s.Len() != 12 {
		t.Errorf("the session has %d tokens, want 12", s.Len())
	}
	s.Trace(nil)
	for name, call := range calls {
		if err := call(); err != nil && name != "Load" && !errors.Is(err, ErrClosed) {
			t.Errorf("%s afterwards: %v", name, err)
		}
	}
	_ = s.Close() // if it was not the last
	for name, call := range calls {
		if err := call(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s of a closed session: %v, want ErrClosed", name, err)
		}
	}
}

// TestIdleSessionsGiveWay: sessions without a call give their pages to others and compute their
// tokens again, with the same bits.
func TestIdleSessionsGiveWay(t *testing.T) {
	m := small(t, Options{Memory: 300 << 10})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	sessions := make([]*Session, 12)
	var first [12][]float32
	for round := range 2 {
		for i := range sessions {
			if round == 0 {
				sessions[i] = m.session(t)
				_, err := sessions[i].Append(ctx, append(prompt32(150), int32(i))...)
				must(t, err)
			}
			logits, err := sessions[i].Append(ctx)
			must(t, err)
			if round == 0 {
				first[i] = slices.Clone(logits)
			} else if !slices.Equal(logits, first[i]) {
				t.Errorf("session %d has other logits after others had its pages", i)
			}
		}
	}
	lost := 0
	for _, s := range sessions {
		if s.seq == nil {
			lost++
		}
	}
	if lost == 0 || lost == len(sessions) {
		t.Errorf("%d of %d sessions have no pages, want some", lost, len(sessions))
	}
	if peak := m.engine.counts().peak; peak > 300<<10 {
		t.Errorf("%d bytes were in use, want at most Options.Memory", peak)
	}
}

// TestWaitsForSession: an answer that waits for the pages of a session begins when the session's
// call has ended.
func TestWaitsForSession(t *testing.T) {
	m := small(t, Options{Memory: 150 << 10})
	ctx, s := context.Background(), m.session(t)
	var wait sync.WaitGroup
	n := 0
	for _, err := range m.Generate(ctx, prompt32(100), Generation{MaxTokens: 20, Session: s}) {
		must(t, err)
		if n++; n == 1 {
			wait.Go(func() {
				_, err := full(ctx, m, append([]int32{9}, prompt32(100)...), Generation{MaxTokens: 20})
				if err != nil {
					t.Error(err)
				}
			})
			time.Sleep(20 * time.Millisecond)
		}
	}
	within(t, "an answer that waits", wait.Wait)
}

// TestWaitingSessionsGiveWay: of calls that wait for the pages of each other's sessions, each runs.
func TestWaitingSessionsGiveWay(t *testing.T) {
	m := small(t, Options{Memory: 300 << 10})
	ctx := context.Background()
	pages := m.engine.pages.groups[0].store.Config().Pages
	for round := range 20 {
		var wait sync.WaitGroup
		var sessions []*Session
		for i := range pages / 2 {
			s := m.session(t)
			_, err := s.Append(ctx, append([]int32{int32(i)}, prompt32(attn.Block+9)...)...)
			must(t, err)
			sessions = append(sessions, s)
		}
		for _, s := range sessions {
			wait.Go(func() {
				if _, err := s.Append(ctx, prompt32(attn.Block*(pages-4))...); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		within(t, "sessions that wait", wait.Wait)
	}
}

// sessionKinds are folders of models that go back in different ways.
func sessionKinds(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, change := range map[string]func(*fake){
		"llama":   func(*fake) {},
		"windows": func(f *fake) { gemmaFolder(f, &reference{}, "gemma2") },
		"states":  func(f *fake) { addStates(f, &reference{}, "qwen3_5_text") },
		"Mamba":   func(f *fake) { mambaFolder(f, &reference{}) },
		"convolutions": func(f *fake) {
			lfm2Folder(f, &reference{})
			f.config["full_attn_idxs"], f.config["block_auto_adjust_ff_dim"] = []int{1}, false
		},
	} {
		f := newFake("F32")
		change(f)
		all[name] = f.write(t)
	}
	return all
}

// opened is a model that is closed after the test.
func opened(t *testing.T, path string, o Options) *Model {
	t.Helper()
	m, err := Open(path, o)
	must(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// TestInterleavings makes calls of sessions in any order, and compares their logits with a session
// that got the same tokens at once.
func TestInterleavings(t *testing.T) {
	ctx := context.Background()
	for name, path := range sessionKinds(t) {
		m := opened(t, path, Options{Context: 300, Chunk: 40, Sequences: 2})
		fresh := opened(t, path, Options{Context: 300, Workers: 1, Sequences: 1})
		r := rand.New(rand.NewPCG(1, 2))
		some := func(most int) []int32 {
			x := make([]int32, 1+r.IntN(most))
			for i := range x {
				x[i] = r.Int32N(19)
			}
			return x
		}
		sessions := []*Session{m.session(t)}
		for step := range 250 {
			i := r.IntN(len(sessions))
			s := sessions[i]
			want := s.Tokens()
			did := ""
			switch what := r.IntN(8); {
			case len(want) > 200 || what == 0 && len(want) > 0:
				n := r.IntN(len(want) + 1)
				did = fmt.Sprintf("Truncate(%d of %d)", n, len(want))
				must(t, s.Truncate(n))
				want = want[:n]
			case what == 1 && len(sessions) < 6:
				did = "Fork"
				f, err := s.Fork()
				must(t, err)
				sessions = append(sessions, f)
				s = f
			case what == 2 && len(want) > 0:
				did = "Save and Load"
				var file bytes.Buffer
				n, err := s.Save(&file)
				must(t, err)
				if int(n) != file.Len() {
					t.Errorf("Save says %d bytes, want %d", n, file.Len())
				}
				must(t, s.Close())
				s = m.session(t)
				n, err = s.Load(&file)
				must(t, err)
				if file.Len() > 0 || n == 0 {
					t.Errorf("Load leaves %d bytes of %d", file.Len(), n)
				}
				sessions[i] = s
			case what == 3:
				did = "Score"
				x := some(30)
				want = append(want, x...)
				must(t, s.Score(ctx, x, func(int, []float32) error { return nil }))
			case what == 4:
				x := some(9)
				did = fmt.Sprintf("Generate after %d", len(want)+len(x))
				all, err := full(ctx, m, x, Generation{MaxTokens: 1 + r.IntN(9), Session: s,
					Sampling: Sampling{Temperature: 1, Seed: uint64(step)}})
				must(t, err)
				want = append(want, x...)
				for _, token := range all {
					want = append(want, token.ID)
				}
			case what == 5:
				did = "a cancelled Append"
				ended, cancel := context.WithCancel(ctx)
				if r.IntN(2) == 0 {
					cancel()
				} else {
					time.AfterFunc(time.Duration(r.IntN(300))*time.Microsecond, cancel)
				}
				x := some(60)
				if _, err := s.Append(ended, x...); err == nil {
					want = append(want, x...)
				}
				cancel()
			default:
				x := some(70)
				did = fmt.Sprintf("Append of %d to %d", len(x), len(want))
				want = append(want, x...)
				_, err := s.Append(ctx, x...)
				must(t, err)
			}
			if !slices.Equal(s.Tokens(), want) {
				t.Fatalf("%s, step %d: after %s there are %d tokens, want %d, or other ones", name, step, did,
					s.Len(), len(want))
			}
			if len(want) == 0 || r.IntN(3) == 0 {
				continue
			}
			got, err := s.Append(ctx)
			must(t, err)
			alone := fresh.session(t)
			logits, err := alone.Append(ctx, want...)
			must(t, err)
			if !slices.Equal(got, logits) {
				t.Fatalf("%s, step %d: after %s the logits differ", name, step, did)
			}
			must(t, alone.Close())
		}
	}
}

// TestDamagedSessions flips every byte of a saved session and cuts it everywhere: Load returns an
// error, and the session is unchanged and usable.
func TestDamagedSessions(t *testing.T) {
	ctx := context.Background()
	for name, path := range sessionKinds(t) {
		m := opened(t, path, Options{Context: 64, Keys: F16})
		s := m.session(t)
		_, err := s.Append(ctx, 1, 2, 3, 4, 5)
		must(t, err)
		var file bytes.Buffer
		_, err = s.Save(&file)
		must(t, err)
		whole := file.Bytes()
		into := m.session(t)
		load := func(what string, x []byte) {
			t.Helper()
			n, err := into.Load(bytes.NewReader(x))
			if !errors.Is(err, attn.ErrFormat) || into.Len() != 0 || into.seq != nil || n > int64(len(x)) {
				t.Fatalf("%s, %s: %d bytes and %v, want ErrFormat; the session has %d tokens", name, what, n,
					err, into.Len())
			}
		}
		step := 1
		for i := 0; i < len(whole); i += step {
			if i > 500 && os.Getenv("ATTN_TEST_FULL") == "" {
				step = 13
			}
			x := slices.Clone(whole)
			x[i] ^= 1 << (i % 8)
			load(fmt.Sprintf("byte %d of %d", i, len(x)), x)
			load(fmt.Sprintf("cut at %d", i), whole[:i])
		}
		failed := errors.New("the reader's")
		_, err = into.Load(io.MultiReader(bytes.NewReader(whole[:len(whole)-9]), failing{failed}))
		if !errors.Is(err, failed) || errors.Is(err, attn.ErrFormat) {
			t.Errorf("%s: the error of a reader that fails is %v", name, err)
		}
		func() {
			defer func() { _ = recover() }()
			_, _ = into.Load(io.MultiReader(bytes.NewReader(whole[:len(whole)-9]), failing{}))
			t.Error("a reader's panic is gone")
		}()
		within(t, "Load after all that", func() {
			n, err := into.Load(bytes.NewReader(append(slices.Clone(whole), 7)))
			if err != nil || int(n) != len(whole) || into.Len() != 5 {
				t.Errorf("%s: Load read %d bytes of %d: %v", name, n, len(whole), err)
			}
		})
		if _, err := into.Load(bytes.NewReader(whole)); !errors.Is(err, attn.ErrLength) {
			t.Errorf("%s: Load into a session with tokens: %v", name, err)
		}
	}
}

// failing is a reader that returns an error, or panics if it has none.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		panic("no error")
	}
	return 0, f.err
}

// TestSessionsOfOthers: a saved session belongs to a model, to options that change bits, and to a
// context.
func TestSessionsOfOthers(t *testing.T) {
	m, ctx := small(t, Options{}), context.Background()
	s := m.session(t)
	_, err := s.Append(ctx, prompt32(40)...)
	must(t, err)
	var file bytes.Buffer
	_, err = s.Save(&file)
	must(t, err)
	for what, c := range map[string]struct {
		o  Options
		is error
	}{
		"the same":            {Options{Workers: 1, Sequences: 3, Chunk: 9, Context: 100}, nil},
		"a shorter context":   {Options{Context: 39}, ErrContext},
		"other keys":          {Options{Keys: F16}, attn.ErrOption},
		"other values":        {Options{Values: F16}, attn.ErrOption},
		"other weights":       {Options{Weights: I8}, attn.ErrOption},
		"products":            {Options{Products: Integers}, attn.ErrOption},
		"a context that fits": {Options{Context: 40}, nil},
	} {
		into := small(t, c.o).session(t)
		if _, err := into.Load(bytes.NewReader(file.Bytes())); !errors.Is(err, c.is) {
			t.Errorf("%s: the error is %v, want %v", what, err, c.is)
		}
		if want := map[bool]int{true: 40}[c.is == nil]; into.Len() != want {
			t.Errorf("%s: the session has %d tokens, want %d", what, into.Len(), want)
		}
	}
	other, err := Random(Sizes{Layers: 2, Hidden: 64, Heads: 4, KVHeads: 2, FFN: 96, Vocab: 300,
		Seed: 2},
		Options{Context: 512})
	must(t, err)
	defer other.Close()
	if _, err := other.session(t).Load(&file); !errors.Is(err, attn.ErrOption) {
		t.Errorf("other weights: the error is %v", err)
	}
}

// TestSessionRefuses has invalid arguments of a session's methods.
func TestSessionRefuses(t *testing.T) {
	m, ctx := small(t, Options{Context: 20}), context.Background()
	s := m.session(t)
	calls := func(want int, all map[string]error) {
		t.Helper()
		is := map[string]error{"ErrOption": attn.ErrOption, "ErrContext": ErrContext,
			"ErrLength": attn.ErrLength}
		for name, err := range all {
			if kind, _, _ := strings.Cut(name, ":"); !errors.Is(err, is[kind]) {
				t.Errorf("%s is %v", name, err)
			}
		}
		if s.Len() != want {
			t.Errorf("the session has %d tokens, want %d", s.Len(), want)
		}
	}
	try := func(tokens ...int32) error { _, err := s.Append(ctx, tokens...); return err }
	score := func(tokens ...int32) error {
		return s.Score(ctx, tokens, func(int, []float32) error { return nil })
	}
	calls(0, map[string]error{"ErrOption: no token": try(), "ErrOption: token −1": try(1, -1),
		"ErrOption: token 300": try(300), "ErrOption: nothing to score": score(),
		"ErrOption: scored token": score(1, 300), "ErrOption: f": s.Score(ctx, nil, nil),
		"ErrContext: 21 tokens": try(make([]int32, 21)...),
		"ErrContext: 21 scored": score(make([]int32, 21)...), "ErrLength: −1": s.Truncate(-1),
		"ErrLength: 1 of 0": s.Truncate(1)})
	must(t, try(make([]int32, 20)...))
	calls(20, map[string]error{"ErrContext: one more": try(1), "ErrContext: one more scored": score(1),
		"ErrLength: 21 of 20": s.Truncate(21)})
	failed := errors.New("mine")
	must(t, s.Truncate(5))
	if err := s.Score(ctx, make([]int32, 9), func(i int, _ []float32) error {
		if i == 3 {
			return failed
		}
		return nil
	}); !errors.Is(err, failed) || s.Len() != 5 {
		t.Errorf("Score whose function fails is %v, and leaves %d tokens", err, s.Len())
	}
}

// TestTraceRows: each row that is kept comes once, in order, and equals the row of a session that
// shares no prefix.
func TestTraceRows(t *testing.T) {
	draft := small(t, Options{})
	m := small(t, Options{Chunk: 30, Draft: draft})
	ctx, s := context.Background(), m.session(t)
	_, err := full(ctx, m, prompt32(100), Generation{MaxTokens: 1}) // leaves an unused prefix
	must(t, err)
	var next, layer int
	rows := map[int][]float32{}
	s.Trace(func(l, first int, x attn.Tensor) {
		if l != layer || first != next || x.D != 64 {
			t.Errorf("rows of layer %d from %d on, %d elements, want layer %d from %d", l, first, x.D, layer,
				next)
		}
		for i := range x.L {
			if l == 1 {
				rows[first+i] = slices.Clone(x.Data[i*64:][:64])
			}
		}
		if layer = 1 - layer; layer == 0 {
			next = first + x.L
		}
	})
	shared := m.engine.counts().shared
	_, err = s.Append(ctx, prompt32(100)...)
	must(t, err)
	all, err := full(ctx, m, []int32{5}, Generation{MaxTokens: 20, Session: s})
	must(t, err)
	if want := 101 + len(all) - 1; next != want || len(rows) != want {
		t.Errorf("rows of %d tokens came, up to %d, want %d", len(rows), next, want)
	}
	if m.engine.counts().shared != shared {
		t.Error("a session with Trace shares a prefix")
	}
	ended, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, err := range m.Generate(ended, []int32{6}, Generation{Session: s}) {
		if err != nil {
			break
		}
		cancel() // while rows of the next token come
		time.Sleep(10 * time.Millisecond)
	}
	must(t, s.Truncate(50))
	next = 50
	_, err = s.Append(ctx, 1, 2)
	must(t, err)
	if next != 52 {
		t.Errorf("rows of tokens up to %d, want 52", next)
	}
}

// TestTokensThatSessionsRefuse: the error speaks of the call's tokens, not of a prompt.
func TestTokensThatSessionsRefuse(t *testing.T) {
	m, err := Random(Sizes{Layers: 1, Hidden: 8, Heads: 1, FFN: 8, Vocab: 300}, Options{Context: 8})
	must(t, err)
	defer m.Close()
	s := m.session(t)
	const want = "token 2 of the tokens is 300, want 0 to 299"
	if _, err := s.Append(context.Background(), 1, 2, 300); !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("the error is %v, want %q", err, want)
	}
}
