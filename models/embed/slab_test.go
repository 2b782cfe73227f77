package embed

import (
	"math"
	"slices"
	"testing"
)

// Slabs cover all rows once. Each of several workers has some, or they share the steps of few rows.
func TestSlabs(t *testing.T) {
	for workers := 1; workers <= 5; workers++ {
		for tokens := 1; tokens < 1200; tokens += 7 {
			r := &runner{Model: &Model{options: Options{Workers: workers}}, tokens: tokens}
			s := &r.slabs
			s.divide(r)
			count := parts(tokens, s.each)
			few := workers > 1 && tokens < workers*leastSlab
			switch {
			case s.each%evenSlab != 0:
				t.Fatalf("%d tokens, %d workers: slabs of %d", tokens, workers, s.each)
			case few && (s.lanes != 1 || count != 1):
				t.Fatalf("%d tokens, %d workers: %d slabs for %d, want one", tokens, workers, count, s.lanes)
			case !few && (s.lanes != workers || s.each > mostSlab || count < workers):
				t.Fatalf("%d tokens, %d workers: %d slabs of %d for %d", tokens, workers, count, s.each,
					s.lanes)
			}
		}
	}
}

// Vectors have the same bits however tokens are divided into slabs.
func TestBitsOfSlabs(t *testing.T) {
	sizes := Sizes{Hidden: 48, FFN: 96, Vocab: 300}
	texts, _ := mixedTokens(6, sizes.Vocab)
	for _, integers := range []bool{false, true} {
		var want []float32
		for _, o := range []Options{{Workers: 1, BatchTokens: 1}, {Workers: 1}, {Workers: 2},
			{Workers: 3, BatchTokens: 2000}, {Workers: 9}} {
			o.Integers = integers
			m := mustRandom(t, sizes, o)
			got := make([]float32, len(texts)*sizes.Hidden)
			if err := m.EncodeTokens(got, texts); err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = got
			}
			if !slices.EqualFunc(got, want, func(a, b float32) bool {
				return math.Float32bits(a) == math.Float32bits(b)
			}) {
				t.Errorf("%+v: other vectors", o)
			}
		}
	}
}
