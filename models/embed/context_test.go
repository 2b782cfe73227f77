package embed

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
)

// contextCalls are calls with a context, of a model of vectors, a cross-encoder and a ColBERT,
// which return rows.
func contextCalls(t *testing.T, o Options) map[string]func(ctx context.Context) ([][]float32,
	error) {
	sizes := Sizes{Hidden: 24, FFN: 40, Vocab: 50}
	texts := make([]string, 12)
	for i := range texts {
		texts[i] = strings.Repeat("a text of words. ", i)
	}
	rerank := func(m *Model) func(ctx context.Context) ([][]float32, error) {
		return func(ctx context.Context) ([][]float32, error) {
			scores, err := m.RerankContext(ctx, "a question", texts)
			if scores == nil {
				return nil, err
			}
			return [][]float32{scores}, err
		}
	}
	vectors := mustRandom(t, sizes, o)
	sizes.Labels = 1
	cross := mustRandom(t, sizes, o)
	sizes.Labels, sizes.TokenDimensions = 0, 8
	late := mustRandom(t, sizes, o)
	return map[string]func(ctx context.Context) ([][]float32, error){
		"vectors": func(ctx context.Context) ([][]float32, error) {
			return vectors.EncodeContext(ctx, texts)
		},
		"cross-encoder": rerank(cross), "ColBERT": rerank(late),
	}
}

// countdown is a context that is done after it was asked a number of times.
type countdown struct {
	context.Context
	looks atomic.Int64
}

func (c *countdown) Err() error {
	if c.looks.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// A call that is cancelled anywhere returns an error and no vectors. A call that finishes, and the
// next call, return the same vectors as always.
func TestCancelledAnywhere(t *testing.T) {
	for _, workers := range []int{1, 3} {
		for name, call := range contextCalls(t, Options{Workers: workers, BatchTokens: 64}) {
			want, err := call(t.Context())
			if err != nil || len(want) == 0 {
				t.Fatalf("%s: %v, error %v", name, want, err)
			}
			before, ended := runtime.NumGoroutine(), false
			for looks := int64(0); !ended; looks += 1 + looks/8 {
				ctx := &countdown{Context: context.Background()}
				ctx.looks.Store(looks)
				got, err := call(ctx)
				ended = err == nil
				switch {
				case ended && (looks < 10 || !sameBits(got, want)):
					t.Errorf("%s: after %d looks %v, want %v", name, looks, got, want)
				case !ended && (!errors.Is(err, context.Canceled) || got != nil):
					t.Errorf("%s: after %d looks %v, error %v, want context.Canceled", name, looks, got, err)
				}
			}
			if got, err := call(t.Context()); err != nil || !sameBits(got, want) {
				t.Errorf("%s: later %v, error %v, want %v", name, got, err, want)
			}
			if after := runtime.NumGoroutine(); after > before {
				t.Errorf("%s: there are %d goroutines, %d before", name, after, before)
			}
		}
	}
}

// The error is the context's, with its cause; with a context that is done already nothing is
// computed.
func TestContextErrors(t *testing.T) {
	computed := 0
	o := Options{Workers: 2, Progress: func(int, int) { computed++ }}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	gone := errors.New("the client has gone")
	caused, because := context.WithCancelCause(t.Context())
	because(gone)
	for name, call := range contextCalls(t, o) {
		for _, c := range []struct {
			ctx  context.Context
			want []error
		}{{cancelled, []error{context.Canceled}}, {late, []error{context.DeadlineExceeded}},
			{caused, []error{context.Canceled, gone}}, {nil, []error{attn.ErrOption}}} {
			got, err := call(c.ctx)
			for _, want := range c.want {
				if got != nil || !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "embed: ") {
					t.Errorf("%s: %v, error %v, want %v", name, got, err, want)
				}
			}
		}
	}
	if computed != 0 {
		t.Errorf("%d batches were computed, want 0", computed)
	}
}

// A call that is cancelled after a batch computes no further batch.
func TestEndsAfterABatch(t *testing.T) {
	batches := 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := mustRandom(t, Sizes{Hidden: 24, FFN: 40, Vocab: 50}, Options{Workers: 2, BatchTokens: 8,
		Progress: func(done, of int) { batches++; cancel() }})
	if _, err := m.EncodeContext(ctx, slices.Repeat([]string{"a b c d e f"}, 100)); err == nil ||
		!errors.Is(err, context.Canceled) || batches != 1 {
		t.Errorf("error %v after %d batches, want context.Canceled after one", err, batches)
	}
}

// Random makes models of each kind. Their answers are the same in any batch.
func TestRandomKinds(t *testing.T) {
	sizes := Sizes{Hidden: 24, FFN: 40, Vocab: 50}
	texts := []string{"a", "some words", strings.Repeat("b c ", 100)}
	for _, integers := range []bool{false, true} {
		for _, kind := range []Sizes{{Labels: 1}, {TokenDimensions: 8}} {
			sizes.Labels, sizes.TokenDimensions = kind.Labels, kind.TokenDimensions
			m := mustRandom(t, sizes, Options{Integers: integers})
			all, err := m.Rerank("a query", texts)
			if err != nil {
				t.Fatal(err)
			}
			for i, text := range texts {
				one, err := m.Rerank("a query", []string{text})
				if err != nil || !sameBits([][]float32{one}, [][]float32{all[i : i+1]}) {
					t.Errorf("%+v: text %d scores %v alone, error %v, and %v among others", kind, i, one, err,
						all[i])
				}
			}
			if all[0] == all[1] {
				t.Errorf("%+v: all texts score %v", kind, all[0])
			}
			if _, err := m.Encode(texts); err == nil {
				t.Errorf("%+v has vectors", kind)
			}
		}
	}
	sizes.Labels, sizes.TokenDimensions = 3, 0
	m := mustRandom(t, sizes, Options{})
	if rows, err := m.Scores("a query", texts); err != nil || len(rows) != 3 || len(rows[0]) != 3 ||
		fmt.Sprint(m.Labels()) != "[LABEL_0 LABEL_1 LABEL_2]" {
		t.Errorf("three labels: %v of %q, error %v", rows, m.Labels(), err)
	}
	sizes.Labels, sizes.TokenDimensions = 0, 8
	m = mustRandom(t, sizes, Options{})
	rows, lens, err := m.EncodeQueries([]string{"a query"})
	if err != nil || rows.D != 8 || m.Dimensions() != 8 || lens[0] != 32 {
		t.Errorf("vectors of tokens: %d of %d numbers, error %v, want 32 of 8", lens, rows.D, err)
	}
}
