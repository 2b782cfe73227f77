package nn

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
)

// BenchmarkNN runs each function on rows of usual lengths, in the second-level cache and in memory,
// and copies the same rows for comparison.
func BenchmarkNN(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, shape := range [][2]int{{1, 64}, {512, 64}, {1, 4096}, {8, 4096}, {4096, 4096}} {
		rows, d := shape[0], shape[1]
		x, y, dst := randomTensor(r, 1, 1, rows, d), randomTensor(r, 1, 1, rows, d), zeros(1, 1, rows, d)
		list := append(calls(b, r, d, rows),
			call{"copy", func(_ *attn.Pool, dst, a, _ attn.Tensor) error {
				copy(dst.Data, a.Data)
				return nil
			}})
		for _, c := range list {
			b.Run(fmt.Sprintf("%s/rows=%d/d=%d", c.name, rows, d), func(b *testing.B) {
				for i := range x.Data { // sums are written to it
					x.Data[i] = y.Data[len(y.Data)-1-i] + 0.5
				}
				for b.Loop() {
					must(b, c.run(nil, dst, x, y))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows*d), "ns/element")
			})
		}
	}
}

// quickest is the shortest time of some calls of f.
func quickest(f func()) time.Duration {
	shortest := time.Hour
	for range 10 {
		start := time.Now()
		f()
		shortest = min(shortest, time.Since(start))
	}
	return shortest
}

// BenchmarkRows reports the overhead of a row: the time of 64 elements in a row of 64, less their
// time in rows of 4096, all in the second-level cache.
func BenchmarkRows(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	short, long := calls(b, r, 64, 512), calls(b, r, 4096, 8)
	for i := range short {
		b.Run(short[i].name, func(b *testing.B) {
			of := func(c *call, rows, d int) float64 {
				x, y := randomTensor(r, 1, 1, rows, d), randomTensor(r, 1, 1, rows, d)
				dst := zeros(1, 1, rows, d)
				return float64(quickest(func() { must(b, c.run(nil, dst, x, y)) }))
			}
			overhead := of(&short[i], 512, 64)/512 - of(&long[i], 8, 4096)/512
			for b.Loop() {
				overhead = min(overhead, of(&short[i], 512, 64)/512-of(&long[i], 8, 4096)/512)
			}
			b.ReportMetric(overhead, "ns/row")
		})
	}
}

// BenchmarkMemory reports the time to read and write 64 MiB as a fraction of the time of functions
// that do not wait for their arithmetic: 1 means no time on top.
func BenchmarkMemory(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	const rows, d = 4096, 4096
	x, y, dst := randomTensor(r, 1, 1, rows, d), randomTensor(r, 1, 1, rows, d), zeros(1, 1, rows, d)
	for _, c := range calls(b, r, d, rows) {
		reads, writes := 1, 1
		switch {
		case c.name == "AddRMSNorm":
			reads, writes = 2, 2
		case c.name == "Add", strings.HasPrefix(c.name, "Gate"):
			reads = 2
		case strings.HasPrefix(c.name, "Rope"):
			continue // waits for the angles of as many positions
		}
		b.Run(c.name, func(b *testing.B) {
			for i := range x.Data { // sums are written to it
				x.Data[i] = y.Data[len(y.Data)-1-i] + 0.5
			}
			for b.Loop() {
				reading := quickest(func() { attn.Max(x.Data) })
				writing := quickest(func() { copy(dst.Data, y.Data) }) - reading
				took := quickest(func() { must(b, c.run(nil, dst, x, y)) })
				limit := float64(reads)*float64(reading) + float64(writes)*float64(writing)
				b.ReportMetric(limit/float64(took), "of-limit")
			}
		})
	}
}
