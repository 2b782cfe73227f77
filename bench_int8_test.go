package attn

import (
	"fmt"
	"testing"
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
				return Attend(dst, p.q, p.k, p.v, &Options{Causal: s.causal, Int8: true})
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
			ratio(b, func() error { return caches[I8].Attend(dst, p.q, &Options{Int8: true}) },
				func() error { return caches[F32].Attend(dst, p.q, nil) })
		})
	}
	w := tensor(r, normal, 1, 1, 4096, 4096)
	floats, err := PackMatrix(w, MatrixConfig{Transposed: true})
	must(b, err)
	ints, err := PackMatrix(w, MatrixConfig{Format: I8, Int8: true, Transposed: true})
	must(b, err)
	for _, rows := range []int{1, 4, 128, 512} {
		dst, a := zeros(1, 1, rows, 4096), tensor(r, normal, 1, 1, rows, 4096)
		b.Run(fmt.Sprintf("matrix/rows=%d", rows), func(b *testing.B) {
			ratio(b, func() error { return ints.MatMul(dst, a, nil) },
				func() error { return floats.MatMul(dst, a, nil) })
		})
	}
}
