package attn

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkLatent decodes one token over 8192 of multi-head latent attention, one key/value head of
// 576 and 512 channels, from a cache whose values are part of its keys, and from one with values.
// They take turns; ratio is the median time of the first by that of the second.
func BenchmarkLatent(b *testing.B) {
	for _, kind := range allFormats {
		for _, heads := range []int{128, 16, 1} {
			name := fmt.Sprintf("heads=%d/%v", heads, kind)
			b.Run(name, func(b *testing.B) { benchmarkLatent(b, kind, heads, false) })
			if kind == I8 {
				b.Run(name+"/int8", func(b *testing.B) { benchmarkLatent(b, kind, heads, true) })
			}
		}
	}
}

func benchmarkLatent(b *testing.B, kind Format, heads int, int8 bool) {
	const tokens, d, dv = 8192, 576, 512
	r := random("latent")
	k := tensor(r, normal, 1, 1, tokens, d)
	q, dst := tensor(r, normal, 1, heads, 1, d), zeros(1, heads, 1, dv)
	var caches [2]*Cache
	for i := range caches {
		c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: d, ValueDim: dv, Capacity: tokens,
			Format: kind, ValuesInKeys: i == 0})
		must(b, err)
		defer c.Close()
		v := firstOf(k, dv)
		if i == 0 {
			v = Tensor{}
		}
		must(b, c.Append(k, v))
		caches[i] = c
	}
	opt := Options{Causal: BottomRight, Integers: int8}
	var times [2][]time.Duration
	for b.Loop() {
		for i, c := range caches {
			begin := time.Now()
			must(b, c.Attend(dst, q, &opt))
			times[i] = append(times[i], time.Since(begin))
		}
	}
	var median [2]float64
	for i, x := range times {
		slices.Sort(x)
		median[i] = float64(x[len(x)/2])
	}
	flops := 2 * float64(heads) * tokens * (d + dv)
	b.ReportMetric(median[0], "ns/latent")
	b.ReportMetric(median[1], "ns/values")
	b.ReportMetric(median[0]/median[1], "ratio")
	b.ReportMetric(flops/median[0], "Gflop/s")
}
