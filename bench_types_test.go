package attn

import (
	"fmt"
	"testing"
)

// typedCacheShapes are the calls of BenchmarkTypes.
var typedCacheShapes = []struct {
	name                 string
	heads, kv, lq, lk, d int
}{
	{"decode", 32, 32, 1, 4096, 128},
	{"decode_gqa", 32, 8, 1, 4096, 128},
	{"prefill", 8, 8, 512, 2048, 128},
}

// randomCache is a cache of a type with random tokens.
func randomCache(b *testing.B, kind Format, kv, n, d int) *Cache {
	c, err := NewCache(CacheConfig{Batch: 1, KVHeads: kv, HeadDim: d, ValueDim: d, Capacity: n,
		Format: kind})
	must(b, err)
	b.Cleanup(func() { must(b, c.Close()) })
	must(b, c.Append(tensor(random("k"), normal, 1, kv, n, d),
		tensor(random("v"), normal, 1, kv, n, d)))
	return c
}

// BenchmarkTypes is a call over a cache of each type over the same call of a cache of float32, and
// a call of one thread over one of two.
func BenchmarkTypes(b *testing.B) {
	pool := NewPool(2)
	defer pool.Close()
	for _, s := range typedCacheShapes {
		for _, kind := range allFormats {
			c := randomCache(b, kind, s.kv, s.lk, s.d)
			q, dst := tensor(random("q"), normal, 1, s.heads, s.lq, s.d), zeros(1, s.heads, s.lq, s.d)
			call := func() error { return c.Attend(dst, q, &Options{Causal: BottomRight}) }
			if kind != F32 {
				f := randomCache(b, F32, s.kv, s.lk, s.d)
				b.Run(fmt.Sprintf("%s/type=%v/of=F32", s.name, kind), func(b *testing.B) {
					ratio(b, call, func() error { return f.Attend(dst, q, &Options{Causal: BottomRight}) })
				})
			}
			b.Run(fmt.Sprintf("%s/type=%v/of=2threads", s.name, kind), func(b *testing.B) {
				ratio(b, call, func() error {
					return pool.AttendCache(dst, q, c, &Options{Causal: BottomRight})
				})
			})
		}
	}
}
