package lm

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/dev/gguftest"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
	"github.com/seed-1415985d/attn/internal/limits"
	"github.com/seed-1415985d/attn/internal/measure"
)

// BenchmarkGGUF decodes one token at a time with published files, and reports tokens a second, and
// how many the memory's bandwidth allows if each token reads all matrices once.
func BenchmarkGGUF(b *testing.B) {
	for _, size := range []string{"0.5b", "1.5b", "3b"} {
		for _, kind := range []string{"Q4_K_M", "Q4_0", "Q8_0"} {
			b.Run(size+"/"+kind, func(b *testing.B) {
				path := filepath.Join(b.TempDir(), "published.gguf")
				gguftest.Published[size].File(kind).Write(b, path)
				for _, integers := range []bool{true, false} {
					o := &options{model: path, weights: asStored}
					o.integers = integers
					m, _, err := o.open()
					must(b, err)
					for _, workers := range []int{1, 2} {
						for _, kind := range []attn.Format{attn.F16, attn.I8} {
							for _, tokens := range []int{64, 4096} {
								name := fmt.Sprintf("integers=%v/threads=%d/cache=%v/tokens=%d", integers, workers,
									kind, tokens)
								b.Run(name, func(b *testing.B) { decodes(b, m, workers, integers, kind, tokens) })
							}
						}
					}
				}
			})
		}
	}
}

// BenchmarkStart opens models, also from packed matrices, and reports seconds of all processors.
func BenchmarkStart(b *testing.B) {
	for _, size := range []string{"0.5b", "1.5b"} {
		path := filepath.Join(b.TempDir(), "published.gguf")
		gguftest.Published[size].File("Q4_K_M").Write(b, path)
		for _, pack := range []string{"", path + ".packed"} {
			o := &options{model: path, pack: pack, weights: asStored}
			o.integers = true
			b.Run(fmt.Sprintf("%s/pack=%t", size, pack != ""), func(b *testing.B) {
				used := time.Duration(0)
				for b.Loop() {
					start, _ := kerneltest.ProcessorTime()
					m, _, err := o.open()
					must(b, err)
					end, _ := kerneltest.ProcessorTime()
					used += end - start
					runtime.KeepAlive(m)
				}
				b.ReportMetric(used.Seconds()/float64(b.N), "processor-s/op")
			})
		}
	}
}

// fill gives all layers random tokens up to a length.
func fill(b *testing.B, seq paged, heads, dim, tokens int) {
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, heads*64*dim)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	k := attn.BHLD(x, 1, heads, 64, dim)
	for _, layer := range seq.layers {
		for layer.Len() < tokens {
			must(b, layer.Append(k, k))
		}
	}
}

// decodes measures steps of one sequence after some tokens, at least 64, and the memory's
// bandwidth.
func decodes(b *testing.B, m *model, workers int, integers bool, kind attn.Format, tokens int) {
	s := settings{workers: workers, places: 1, chunk: 64, context: 8192, integers: integers,
		keys: kind}
	e, err := newTester(m, s)
	must(b, err)
	defer e.close()
	seq, err := e.pages.newSequence()
	must(b, err)
	p := []piece{{seq: seq, tokens: make([]int32, 64)}}
	must(b, e.forward(p, nil))
	fill(b, seq.(paged), m.KVHeads, m.HeadDim, tokens)
	p[0].tokens = []int32{1}
	var seconds []float64
	for b.Loop() {
		start := time.Now()
		err := e.forward(p, nil)
		seconds = append(seconds, time.Since(start).Seconds())
		must(b, err)
	}
	memory, speed := limits.NewMemory(limits.For(attn.Implementation()), workers, limits.DRAM()), 0.0
	for range 5 {
		speed = max(speed, memory.Read(), memory.ReadStreams())
	}
	b.ReportMetric(1/measure.Median(seconds), "tokens/s")
	b.ReportMetric(speed/float64(m.packed), "memory-tokens/s")
	b.ReportMetric(float64(m.packed)/1e6, "MB")
	b.ReportMetric(speed/1e9, "GB/s")
	b.ReportMetric(0, "ns/op")
}
