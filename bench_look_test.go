package attn

import (
	"fmt"
	"testing"
)

// BenchmarkLook compares calls whose masks or blocks show part of the keys with calls that read as
// many without them, in turns: the ratio of their times.
func BenchmarkLook(b *testing.B) {
	r := random("look")
	const d = 64
	p := newProblem(r, normal, shape{1, 8, 1, 1024, 4096, d, d})
	dst := zeros(1, 8, 1024, d)
	run := func(q, k, v, o Tensor, opt *Options) func() error {
		return func() error { return Attend(o, q, k, v, opt) }
	}
	row := make([]bool, 4096)
	fillWith(row[:256], true)
	b.Run("one row shows 256 of 4096, over KeyLens", func(b *testing.B) {
		m := Mask{row, 1, 1, 1024, 4096, 1, 1, Broadcast}
		ratio(b, run(p.q, p.k, p.v, dst, &Options{Mask: m}),
			run(p.q, p.k, p.v, dst, &Options{KeyLens: []int{256}}))
	})
	p = newProblem(r, normal, shape{1, 8, 1, 1024, 1024, d, d})
	mask := func(see func(i, j int) bool) Mask {
		m := BHLD(make([]bool, 1024*1024), 1, 1, 1024, 1024)
		for i := range 1024 {
			for j := range 1024 {
				m.Data[i*1024+j] = see(i, j)
			}
		}
		return m
	}
	whole := run(p.q, p.k, p.v, dst, nil)
	for name, see := range map[string]func(i, j int) bool{
		"all false, over no mask":            func(i, j int) bool { return false },
		"all true, over no mask":             func(i, j int) bool { return true },
		"16 documents by Mask, over no mask": func(i, j int) bool { return i/64 == j/64 },
		"16 ragged documents, over no mask":  func(i, j int) bool { return (i+7)/65 == (j+7)/65 },
		"half of the pairs, over no mask":    func(i, j int) bool { return r.IntN(2) == 0 },
	} {
		m := mask(see)
		b.Run(name, func(b *testing.B) { ratio(b, run(p.q, p.k, p.v, dst, &Options{Mask: m}), whole) })
	}
	b.Run("64 keys by KeyLens, over no mask", func(b *testing.B) {
		ratio(b, run(p.q, p.k, p.v, dst, &Options{KeyLens: []int{64}}), whole)
	})
	causal := mask(func(i, j int) bool { return j <= i })
	b.Run("causal by Mask, over Causal", func(b *testing.B) {
		ratio(b, run(p.q, p.k, p.v, dst, &Options{Mask: causal}),
			run(p.q, p.k, p.v, dst, &Options{Causal: TopLeft}))
	})
	long := newProblem(r, normal, shape{1, 1, 1, 8192, 8192, d, d})
	out := zeros(1, 1, 8192, d)
	blocks := BHLD(make([]bool, 128*128), 1, 1, 128, 128)
	for i := range blocks.Data {
		blocks.Data[i] = r.IntN(8) == 0
	}
	b.Run("an eighth of the blocks, over all", func(b *testing.B) {
		ratio(b, run(long.q, long.k, long.v, out, &Options{Blocks: blocks}),
			run(long.q, long.k, long.v, out, nil))
	})
	token := newProblem(r, normal, shape{1, 8, 1, 1, 4096, 128, 128})
	c, err := filled(token.k, token.v)
	must(b, err)
	one, _, _ := token.results()
	clear(row)
	fillWith(row[640:704], true)
	m := BHLD(row, 1, 1, 1, 4096)
	short := newProblem(r, normal, shape{1, 8, 1, 1, 64, 128, 128})
	c64, err := filled(short.k, short.v)
	must(b, err)
	b.Run("decoding with one block of 64, over KeyLens", func(b *testing.B) {
		ratio(b, func() error { return c.Attend(one, token.q, &Options{Mask: m}) },
			func() error { return c64.Attend(one, token.q, &Options{KeyLens: []int{64}}) })
	})
}

// BenchmarkTree compares trees of queries with as many causal ones: the ratio of their times.
func BenchmarkTree(b *testing.B) {
	r := random("trees")
	for _, c := range []struct{ heads, kv, lq, lk int }{{8, 8, 64, 8192}, {32, 8, 64, 8192},
		{8, 8, 8, 4096}, {32, 8, 8, 4096}, {2, 2, 4096, 4096}} {
		p := newProblem(r, normal, shape{1, c.kv, c.heads / c.kv, c.lq, c.lk, 128, 128})
		dst, causal := zeros(1, c.heads, c.lq, 128), &Options{Causal: BottomRight}
		branches := make([]int, c.lq) // two of each
		for i := range branches {
			branches[i] = (i - 1) / 2
		}
		branches[0] = -1
		slopes := make([]float32, c.heads)
		cache, err := filled(p.k, p.v)
		must(b, err)
		for _, t := range []struct {
			name string
			opt  Options
		}{{"branches", Options{Tree: branches}}, {"chain", Options{Tree: stretch(-1, c.lq-1)}},
			{"branches with slopes", Options{Tree: branches, Slopes: slopes}}} {
			name := fmt.Sprintf("%s/H=%d/KVH=%d/Lq=%d/Lk=%d", t.name, c.heads, c.kv, c.lq, c.lk)
			other := *causal
			other.Slopes = t.opt.Slopes
			b.Run("views/"+name, func(b *testing.B) {
				ratio(b, func() error { return Attend(dst, p.q, p.k, p.v, &t.opt) },
					func() error { return Attend(dst, p.q, p.k, p.v, &other) })
			})
			b.Run("cache/"+name, func(b *testing.B) {
				ratio(b, func() error { return cache.Attend(dst, p.q, &t.opt) },
					func() error { return cache.Attend(dst, p.q, &other) })
			})
		}
		must(b, cache.Close())
	}
}
