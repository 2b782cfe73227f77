package attn

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkInt8 compares calls in integers with those in float32, in turns.
func BenchmarkInt8(b *testing.B) {
	r := random(b.Name())
	for _, s := range []struct {
		name   string
		shape  shape
		causal Causal
	}{
		{"prefill/d=64", shape{1, 8, 1, 1024, 1024, 64, 64}, Full},
		{"prefill/d=64/causal", shape{1, 8, 1, 1024, 1024, 64, 64}, BottomRight},
		{"prefill/d=128", shape{1, 8, 1, 2048, 2048, 128, 128}, Full},
		{"bert", shape{8, 12, 1, 128, 128, 64, 64}, Full},
	} {
		p := newProblem(r, normal, s.shape)
		dst, _, _ := p.results()
		b.Run(s.name, func(b *testing.B) {
			ratio(b, func() error {
				return Attend(dst, p.q, p.k, p.v, &Options{Causal: s.causal, Integers: true})
			}, func() error { return Attend(dst, p.q, p.k, p.v, &Options{Causal: s.causal}) })
		})
	}
	for _, group := range []int{1, 4} {
		p := newProblem(r, normal, shape{1, 32 / group, group, 1, 4096, 128, 128})
		caches := map[Format]*Cache{}
		for _, f := range []Format{F32, I8} {
			c, err := filledIn(f, p.k, p.v)
			must(b, err)
			caches[f] = c
		}
		dst, _, _ := p.results()
		b.Run(fmt.Sprintf("decode/group=%d", group), func(b *testing.B) {
			ratio(b, func() error { return caches[I8].Attend(dst, p.q, &Options{Integers: true}) },
				func() error { return caches[F32].Attend(dst, p.q, nil) })
		})
	}
	w := tensor(r, normal, 1, 1, 4096, 4096)
	floats, err := PackMatrix(w, MatrixConfig{Transposed: true})
	must(b, err)
	ints, err := PackMatrix(w, MatrixConfig{Format: I8, Integers: true, Transposed: true})
	must(b, err)
	for _, rows := range []int{1, 4, 128, 512} {
		dst, a := zeros(1, 1, rows, 4096), tensor(r, normal, 1, 1, rows, 4096)
		b.Run(fmt.Sprintf("matrix/rows=%d", rows), func(b *testing.B) {
			ratio(b, func() error { return ints.MatMul(dst, a, nil) },
				func() error { return floats.MatMul(dst, a, nil) })
		})
	}
}

// BenchmarkInt8TwoWorkers is one worker over two.
func BenchmarkInt8TwoWorkers(b *testing.B) {
	pool := NewPool(2)
	defer pool.Close()
	r := random(b.Name())
	for _, c := range []struct {
		shape  shape
		causal Causal
	}{{shape{1, 8, 1, 1024, 1024, 64, 64}, Full}, {shape{1, 8, 1, 1024, 1024, 64, 64}, TopLeft},
		{shape{1, 8, 1, 2048, 2048, 128, 128}, Full}, {shape{8, 12, 1, 128, 128, 64, 64}, Full}} {
		p := newProblem(r, normal, c.shape)
		dst, _, _ := p.results()
		opt := &Options{Causal: c.causal, Integers: true}
		b.Run(fmt.Sprint(c.shape, c.causal), func(b *testing.B) {
			ratio(b, func() error { return Attend(dst, p.q, p.k, p.v, opt) },
				func() error { return pool.Attend(dst, p.q, p.k, p.v, opt) })
		})
	}
	m, err := PackMatrix(tensor(r, normal, 1, 1, 4096, 4096), MatrixConfig{Format: I8, Integers: true})
	must(b, err)
	dst, a := zeros(1, 1, 128, 4096), tensor(r, normal, 1, 1, 128, 4096)
	b.Run("matrix/rows=128", func(b *testing.B) {
		ratio(b, func() error { return m.MatMul(dst, a, nil) },
			func() error { return pool.MulMatrix(dst, a, m, nil) })
	})
}

// BenchmarkLongPrompts is the rate of a long prompt over that of one of 1024 tokens.
func BenchmarkLongPrompts(b *testing.B) {
	r := random(b.Name())
	for _, int8 := range []bool{false, true} {
		for _, d := range []int{64, 128} {
			short := newProblem(r, normal, shape{1, 4, 1, 1024, 1024, d, d})
			to, _, _ := short.results()
			for _, n := range []int{8192, 16384} {
				b.Run(fmt.Sprintf("int8=%v/d=%d/L=%d", int8, d, n), func(b *testing.B) {
					long := newProblem(r, normal, shape{1, 4, 1, n, n, d, d})
					dst, _, _ := long.results()
					opt := &Options{Integers: int8}
					times := float64(n) / 1024 * float64(n) / 1024
					var best [2]float64
					for b.Loop() {
						best[0] = leastTime(b, best[0], func() error {
							return Attend(dst, long.q, long.k, long.v, opt)
						})
						for range 10 {
							best[1] = leastTime(b, best[1], func() error {
								return Attend(to, short.q, short.k, short.v, opt)
							})
						}
					}
					b.ReportMetric(times*best[1]/best[0], "rate-ratio")
					b.ReportMetric(4*4*float64(n)*float64(n)*float64(d)/best[0]/1e9, "GOP/s")
				})
			}
		}
	}
}

// leastTime is the seconds of a call, or the least so far.
func leastTime(b *testing.B, least float64, call func() error) float64 {
	start := time.Now()
	must(b, call())
	if took := time.Since(start).Seconds(); least == 0 || took < least {
		return took
	}
	return least
}
