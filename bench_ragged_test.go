package attn

import (
	"slices"
	"testing"
	"time"
)

// BenchmarkRagged compares sizes that fill no vectors, panels, blocks or tiles with round ones near them: rate of
// multiply-adds to that of the round size, calls alternating, median.
func BenchmarkRagged(b *testing.B) {
	square := func(l, d int) shape { return shape{1, 2, 1, l, l, d, d} }
	for _, c := range []struct {
		name        string
		odd, nearby shape
	}{
		{"L=1000/of=1024", square(1000, 64), square(1024, 64)},
		{"L=1023/of=1024", square(1023, 64), square(1024, 64)},
		{"L=1025/of=1024", square(1025, 64), square(1024, 64)},
		{"L=77/of=64", shape{1, 6, 1, 77, 77, 64, 64}, shape{1, 8, 1, 64, 64, 64, 64}},
		{"L=77/of=80", shape{1, 6, 1, 77, 77, 64, 64}, shape{1, 6, 1, 80, 80, 64, 64}},
		{"D=40/of=32", square(512, 40), square(512, 32)},
		{"D=40/of=48", square(512, 40), square(512, 48)},
		{"D=80/of=64", square(512, 80), square(512, 64)},
		{"D=96/of=64", square(512, 96), square(512, 64)},
		{"D=96/of=128", square(512, 96), square(512, 128)},
		{"D=112/of=128", square(512, 112), square(512, 128)},
		{"D=256/of=128", square(512, 256), square(512, 128)},
		{"D=64,Dv=128/of=64", shape{1, 2, 1, 512, 512, 64, 128}, square(512, 64)},
		{"D=128,Dv=64/of=128", shape{1, 2, 1, 512, 512, 128, 64}, square(512, 128)},
	} {
		for _, causal := range []Causal{Full, TopLeft} {
			name := c.name + map[Causal]string{Full: "/causal=false", TopLeft: "/causal=true"}[causal]
			b.Run(name, func(b *testing.B) { b.ReportMetric(efficiency(b, c.odd, c.nearby, causal), "of-nearby") })
		}
	}
}

// efficiency is the rate of one shape to that of another.
func efficiency(b *testing.B, odd, nearby shape, causal Causal) float64 {
	perFlop := func(s shape) func() float64 {
		c := benchShape{"ragged", s, causal, 1}
		p := c.problem()
		dst := BHLD(make([]float32, len(p.q.Data)/s.d*s.dv), s.b, s.kvh, s.lq, s.dv)
		return func() float64 {
			start := time.Now()
			if err := Attend(dst, p.q, p.k, p.v, &p.opt); err != nil {
				b.Fatal(err)
			}
			return float64(time.Since(start)) / c.flops()
		}
	}
	x, y := perFlop(odd), perFlop(nearby)
	x()
	y()
	var ratios []float64
	for b.Loop() {
		a, b := x(), y()
		ratios = append(ratios, b/a)
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}
