package lm

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
)

// byHand is an engine whose steps a test runs.
func byHand(t *testing.T, s settings) *engine {
	t.Helper()
	m := tinyModel(t, attn.F32, 1)
	e := &engine{runner: runner{model: m, pool: attn.NewPool(s.workers)}, settings: s,
		wake: make(chan struct{}, 1), ended: make(chan struct{}), late: time.NewTimer(time.Hour)}
	must(t, e.open())
	t.Cleanup(e.free)
	return e
}

// step runs a step, after which all callers choose a token. It returns what the step computed: for
// each job its name and its number of tokens.
func (e *engine) step(t *testing.T, names map[*job]string) (did []string) {
	t.Helper()
	e.prepare()
	b := &e.batch
	if b.read > e.settings.chunk {
		t.Errorf("a step reads %d tokens of prompts, want at most %d", b.read, e.settings.chunk)
	}
	for i, j := range b.jobs {
		did = append(did, fmt.Sprint(names[j], len(b.pieces[i].tokens)))
	}
	err := e.compute()
	must(t, err)
	e.deliver(err, time.Millisecond)
	for _, j := range slices.Clone(e.active) {
		if j.phase == choosing {
			must(t, e.await(context.Background(), j))
			e.chose(j, 7, j.valid, len(j.tokens)+1 < j.limit)
			if len(j.tokens) == j.limit {
				e.endJob(j)
			}
		}
	}
	return did
}

// TestChunks: answers continue in each step while long prompts are read in chunks, in the order of
// their arrival.
func TestChunks(t *testing.T) {
	e := byHand(t, settings{workers: 1, places: 4, chunk: 16, context: 200})
	names := map[*job]string{}
	submit := func(name string, tokens, most int) {
		x := prompt32(tokens)
		x[0] = int32(len(names) + 1)
		j := newJob(x, tokens+most)
		names[j] = name
		must(t, e.submit(j))
	}
	submit("a", 3, 20)
	var got []string
	next := func() { got = append(got, fmt.Sprint(e.step(t, names))) }
	next()
	submit("b", 50, 2)
	submit("c", 20, 2)
	for range 7 {
		next()
	}
	want := []string{"[a3]", "[a1 b16]", "[a1 b16]", "[a1 b16]", "[a1 b2 c14]", "[a1 b1 c6]",
		"[a1 c1]",
		"[a1]"}
	if !slices.Equal(got, want) {
		t.Errorf("steps are %v, want %v", got, want)
	}
}

// TestPlacesInOrder: jobs get places in the order of arrival, also where a later one would fit.
func TestPlacesInOrder(t *testing.T) {
	for name, s := range map[string]settings{
		"places": {workers: 1, places: 2, chunk: 64, context: 200},
		"memory": {workers: 1, places: 9, chunk: 64, context: 200, memory: 180 << 10},
	} {
		e := byHand(t, s)
		names := map[*job]string{}
		for i, tokens := range []int{90, 70, 150, 2, 60, 120, 3} {
			x := prompt32(tokens)
			x[0] = int32(i + 1)
			j := newJob(x, tokens+4)
			names[j] = fmt.Sprint(i)
			must(t, e.submit(j))
		}
		var began []string
		for range 200 {
			e.step(t, names)
			for _, j := range e.active {
				if !slices.Contains(began, names[j]) {
					began = append(began, names[j])
				}
			}
			if peak := e.counts().peak; s.memory > 0 && int64(peak) > s.memory {
				t.Fatalf("%s: %d bytes are in use, want at most %d", name, peak, s.memory)
			}
		}
		if want := []string{"0", "1", "2", "3", "4", "5", "6"}; !slices.Equal(began, want) {
			t.Errorf("%s: answers began in the order %v", name, began)
		}
	}
}

// TestConversationIsComputedOnce: without a session, turns of a conversation compute only new
// tokens.
func TestConversationIsComputedOnce(t *testing.T) {
	m := small(t, Options{Context: 2500})
	const turns, message = 20, 50
	var talk []int32
	made := 0
	for turn := range turns {
		for i := range message {
			talk = append(talk, int32((turn*31+i*7)%250))
		}
		all, err := full(context.Background(), m, talk, Generation{MaxTokens: message,
			Logits: func(_ []int32, logits []float32) error {
				logits[257], logits[258] = -1e9, -1e9
				return nil
			}})
		must(t, err)
		for _, token := range all {
			talk = append(talk, token.ID)
		}
		made += len(all)
	}
	n := m.engine.counts()
	// The last token of an answer was chosen and not computed.
	if want := turns*(message+1) - 1; n.read != want || made != turns*message {
		t.Errorf("%d tokens of prompts were computed, want %d: what is new", n.read, want)
	}
}
