package attn
import "testing"
func BenchmarkDec(b *testing.B) {
	r := random(b.Name())
	for _, h := range []int{1, 32} {
	L := 1024; if h > 1 { L = 4096 }
	p := newProblem(r, normal, shape{1, h, 1, 1, L, 128, 128})
	c, err := filledIn(I8, p.k, p.v); must(b, err)
	dst, _, _ := p.results()
	b.Run("int8", func(b *testing.B) { for b.Loop() { must(b, c.Attend(dst, p.q, &Options{Int8: true})) } })
	b.Run("i8", func(b *testing.B) { for b.Loop() { must(b, c.Attend(dst, p.q, nil)) } })
	}
}
