package attn

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// coldBytes is how many bytes of keys and values a benchmark goes through in each layout before it
// comes to the same ones again: in turns with two other layouts, several times what an L3 cache
// holds.
const coldBytes = 96 << 20

// coldCopies calls a function for one token over copies of a problem's keys and values in turn.
type coldCopies struct {
	name string
	n    int
	call func(i int) error
	took []time.Duration
}

// BenchmarkCold decodes a token over keys and values that are in no cache, from the layouts that
// callers may have. These take turns, so that they meet the same machine; each has the median of
// its rates, of bytes of keys and values, and views the medians of their ratios.
func BenchmarkCold(b *testing.B) {
	for _, s := range []shape{
		{1, 8, 2, 1, 2048, 128, 128},
		{1, 32, 1, 1, 2048, 128, 128},
		{1, 4, 4, 1, 4096, 64, 64},
	} {
		b.Run(fmt.Sprintf("H=%d/KVH=%d/Lk=%d/D=%d", s.kvh*s.group, s.kvh, s.lk, s.d), func(b *testing.B) {
			p := newProblem(random("cold"), normal, s)
			layouts := []*coldCopies{
				p.coldViews("BHLD", BHLD[float32]),
				p.coldViews("BLHD", func(x []float32, b, h, l, d int) Tensor { return BLHD(x, b, l, h, d) }),
				p.coldCaches(b),
			}
			for i := 0; b.Loop(); i++ {
				for _, l := range layouts {
					start := time.Now()
					if err := l.call(i % l.n); err != nil {
						b.Fatal(err)
					}
					l.took = append(l.took, time.Since(start))
				}
			}
			b.ReportMetric(0, "ns/op") // of all layouts together: says nothing
			for _, l := range layouts {
				b.ReportMetric(p.coldTokenBytes()/float64(median(l.took)), l.name+"-GB/s")
			}
			b.ReportMetric(ratioOfRates(layouts[1], layouts[0]), "BLHD/BHLD")
			b.ReportMetric(ratioOfRates(layouts[0], layouts[2]), "BHLD/Cache")
			b.ReportMetric(ratioOfRates(layouts[1], layouts[2]), "BLHD/Cache")
		})
	}
}

func (p *problem) coldTokenBytes() float64 { return 4 * float64(len(p.k.Data)+len(p.v.Data)) }

// coldCopiesOf is how many copies of keys and values are more than the caches hold.
func (p *problem) coldCopiesOf() int { return 1 + int(coldBytes/p.coldTokenBytes()) }

func (p *problem) coldViews(name string, view func(x []float32, b, h, l,
	d int) Tensor) *coldCopies {
	c := &coldCopies{name: name, n: p.coldCopiesOf()}
	var keys, values []Tensor
	for range c.n {
		keys = append(keys, view(slices.Clone(p.k.Data), p.k.B, p.k.H, p.k.L, p.k.D))
		values = append(values, view(slices.Clone(p.v.Data), p.v.B, p.v.H, p.v.L, p.v.D))
	}
	dst := zeros(p.q.B, p.q.H, p.q.L, p.v.D)
	c.call = func(i int) error { return Attend(dst, p.q, keys[i], values[i], &p.opt) }
	return c
}

func (p *problem) coldCaches(b *testing.B) *coldCopies {
	c := &coldCopies{name: "Cache", n: p.coldCopiesOf()}
	var caches []*Cache
	for range c.n {
		cache := p.benchCache(b, F32)
		if err := cache.Append(p.k, p.v); err != nil {
			b.Fatal(err)
		}
		caches = append(caches, cache)
	}
	dst := zeros(p.q.B, p.q.H, p.q.L, p.v.D)
	c.call = func(i int) error { return caches[i].Attend(dst, p.q, &p.opt) }
	return c
}

func median(x []time.Duration) time.Duration {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}

// ratioOfRates is the median of the ratios of a's rates to b's, turn by turn.
func ratioOfRates(a, b *coldCopies) float64 {
	ratios := make([]float64, len(a.took))
	for i := range ratios {
		ratios[i] = float64(b.took[i]) / float64(a.took[i])
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}
