package attn

import (
	"fmt"
	"testing"
)

// BenchmarkInt4 is a call over a cache of I4, or of I8 with values in I4, over the same call over
// one of I8, in turns.
func BenchmarkInt4(b *testing.B) {
	for _, s := range []struct {
		name  string
		shape shape
	}{
		{"decode", shape{1, 32, 1, 1, 4096, 128, 128}},
		{"grouped", shape{1, 8, 4, 1, 4096, 128, 128}},
		{"short", shape{1, 8, 4, 1, 256, 128, 128}},
		{"prefill", shape{1, 8, 1, 1024, 1024, 128, 128}},
		{"prefill/d=64", shape{1, 8, 1, 1024, 1024, 64, 64}},
	} {
		p := newProblem(random(b.Name()), normal, s.shape)
		p.q, p.k, p.v = contiguous(p.q), contiguous(p.k), contiguous(p.v)
		bytes, err := formatPair{I8, I8}.filled(p.k, p.v)
		must(b, err)
		dst, _, _ := p.results()
		for _, f := range []formatPair{{I4, I4}, {I8, I4}} {
			c, err := f.filled(p.k, p.v)
			must(b, err)
			for _, integers := range []bool{true, false} {
				opt := &Options{Causal: BottomRight, Integers: integers}
				b.Run(fmt.Sprintf("%s/%v/integers=%v", s.name, f, integers), func(b *testing.B) {
					ratio(b, func() error { return c.Attend(dst, p.q, opt) },
						func() error { return bytes.Attend(dst, p.q, opt) })
				})
			}
			must(b, c.Close())
		}
		must(b, bytes.Close())
	}
}
