package attn

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// ratio times two ways in turns and reports the median of one over the median of the other, and
// that of their minima.
func ratio(b *testing.B, way, other func() error) { ratioInTurns(b, 1, way, other) }

// ratioInTurns is ratio with turns of some calls.
func ratioInTurns(b *testing.B, calls int, way, other func() error) {
	var times [2][]float64
	for i := 0; b.Loop(); i++ {
		for j := range 2 * calls {
			at := (i + j/calls) % 2
			call := []func() error{way, other}[at]
			start := time.Now()
			if err := call(); err != nil {
				b.Fatal(err)
			}
			times[at] = append(times[at], float64(time.Since(start)))
		}
	}
	median := func(x []float64) float64 { slices.Sort(x); return x[len(x)/2] }
	b.ReportMetric(median(times[0])/median(times[1]), "median-ratio")
	b.ReportMetric(slices.Min(times[0])/slices.Min(times[1]), "min-ratio")
	b.ReportMetric(median(times[0]), "median-ns")
}

// filledSequence is a sequence with n random tokens.
func filledSequence(b *testing.B, s *Sequence, n int) *Sequence {
	g := &s.store.config
	must(b, s.Append(tensor(random("k"), normal, 1, g.KVHeads, n, g.HeadDim),
		tensor(random("v"), normal, 1, g.KVHeads, n, g.ValueDim)))
	return s
}

// BenchmarkSequencesOverCache is a call over one sequence, over the same call of a Cache.
func BenchmarkSequencesOverCache(b *testing.B) {
	for _, kind := range allFormats {
		for _, c := range []struct{ heads, kv, lq, lk int }{{32, 32, 1, 4096}, {32, 8, 1, 4096},
			{8, 8, 512, 1024}, {8, 8, 1, 100}} {
			b.Run(fmt.Sprintf("type=%v/H=%d/KVH=%d/Lq=%d/Lk=%d", kind, c.heads, c.kv, c.lq, c.lk),
				func(b *testing.B) {
					cache, err := NewCache(CacheConfig{Batch: 1, KVHeads: c.kv, HeadDim: 128, ValueDim: 128,
						Capacity: c.lk, Format: kind})
					must(b, err)
					store, err := NewStore(StoreConfig{KVHeads: c.kv, HeadDim: 128, ValueDim: 128,
						Pages: (c.lk + Block - 1) / Block, Format: kind})
					must(b, err)
					s := filledSequence(b, store.NewSequence(), c.lk)
					x := tensor(random("k"), normal, 1, c.kv, c.lk, 128)
					must(b, cache.Append(x, x))
					q, dst := tensor(random("q"), normal, 1, c.heads, c.lq, 128), zeros(1, c.heads, c.lq, 128)
					opt, seqs := Options{Causal: BottomRight, QueryLens: []int{c.lq}}, []*Sequence{s}
					ratio(b, func() error { return AttendSequences(dst, q, seqs, &opt) },
						func() error { return cache.Attend(dst, q, &Options{Causal: BottomRight}) })
				})
		}
	}
}

// BenchmarkSequencesShared is one new token each for 16 sequences that share 4096 tokens and have
// 64 of their own, over the same without sharing: one call for each sequence.
func BenchmarkSequencesShared(b *testing.B) {
	const n, shared, own, heads = 16, 4096, 64, 32
	for _, way := range []struct {
		kind Format
		int8 bool
	}{{F32, false}, {I8, false}, {I8, true}} {
		b.Run(fmt.Sprintf("type=%v/int8=%v", way.kind, way.int8), func(b *testing.B) {
			store, err := NewStore(StoreConfig{KVHeads: heads, HeadDim: 128, ValueDim: 128,
				Pages: shared/Block + 2*n, Format: way.kind})
			must(b, err)
			prompt, seqs := filledSequence(b, store.NewSequence(), shared), []*Sequence{}
			for range n {
				seqs = append(seqs, filledSequence(b, prompt.Fork(), own+1))
			}
			q, dst := tensor(random("q"), normal, 1, heads, n, 128), zeros(1, heads, n, 128)
			opt := Options{Causal: BottomRight, Integers: way.int8}
			ratio(b, func() error { return AttendSequences(dst, q, seqs, &opt) }, func() error {
				for i := range seqs {
					if err := AttendSequences(rowsOf(dst, i, 1), rowsOf(q, i, 1), seqs[i:][:1], &opt); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// BenchmarkSequencesTwoWorkers is one new token each for 8 sequences of 180 to 700 keys, on one
// worker over two: in turns of one call, for which the second worker has to be woken each time, and
// of several.
func BenchmarkSequencesTwoWorkers(b *testing.B) {
	pool := NewPool(2)
	defer pool.Close()
	for _, kind := range allFormats {
		for _, calls := range []int{1, 10} {
			b.Run(fmt.Sprintf("type=%v/turns=%d", kind, calls), func(b *testing.B) {
				store, err := NewStore(StoreConfig{KVHeads: 8, HeadDim: 128, ValueDim: 128, Pages: 100,
					Format: kind})
				must(b, err)
				var seqs []*Sequence
				for i := range 8 {
					seqs = append(seqs, filledSequence(b, store.NewSequence(), 180+520*i/7))
				}
				q, dst := tensor(random("q"), normal, 1, 16, 8, 128), zeros(1, 16, 8, 128)
				opt := Options{Causal: BottomRight}
				ratioInTurns(b, calls, func() error {
					return AttendSequences(dst, q, seqs, &opt)
				}, func() error { return pool.AttendSequences(dst, q, seqs, &opt) })
			})
		}
	}
}
