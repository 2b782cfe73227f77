package nn

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn"
)

// BenchmarkNN takes rows of usual lengths that stay in the second-level cache, and rows that come
// from memory, beside copies of as many.
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
