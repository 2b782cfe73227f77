package attn
import "testing"
func BenchmarkZZ(b *testing.B) {
	for _, f := range []Format{F32, F16, I8} {
		for _, d := range []int{16, 128} {
		b.Run(f.String()+map[int]string{16: "/16", 128: "/128"}[d], func(b *testing.B) {
			c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: d, ValueDim: d, Capacity: 1024, Format: f})
			if err != nil { b.Fatal(err) }
			r := random("zz")
			k := tensor(r, normal, 1, 1, 1024, d)
			c.Append(k, k)
			q, o := tensor(r, normal, 1, 1, 1, d), zeros(1, 1, 1, d)
			b.ResetTimer()
			for range b.N { c.Attend(o, q, nil) }
		})
		}
	}
}
