package attn

import (
	"fmt"
	"math/rand/v2"
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
	for _, n := range []int{1024, 4096} {
		lookAtPatterns(b, r, n)
	}
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

// lookAtPatterns measures masks of n queries and keys, and biases that say the same.
func lookAtPatterns(b *testing.B, r *rand.Rand, n int) {
	const heads = 8
	p := newProblem(r, normal, shape{1, heads, 1, n, n, 64, 64})
	dst := zeros(1, heads, n, 64)
	run := func(opt *Options) func() error {
		return func() error { return Attend(dst, p.q, p.k, p.v, opt) }
	}
	whole := run(nil)
	for _, c := range []struct {
		name string
		over func() error
		see  func(i, j int) bool
	}{
		{"all false, over no mask", whole, func(i, j int) bool { return false }},
		{"all true, over no mask", whole, func(i, j int) bool { return true }},
		{"16 documents, over no mask", whole, func(i, j int) bool { return i/(n/16) == j/(n/16) }},
		{"16 ragged documents, over no mask", whole,
			func(i, j int) bool { return (i+7)/(n/16+1) == (j+7)/(n/16+1) }},
		{"half of the pairs, over no mask", whole, func(i, j int) bool { return r.IntN(2) == 0 }},
		{"causal, over Causal", run(&Options{Causal: TopLeft}),
			func(i, j int) bool { return j <= i }},
	} {
		mask, bias := BHLD(make([]bool, n*n), 1, 1, n, n), zeros(1, 1, n, n)
		for at := range mask.Data {
			if mask.Data[at] = c.see(at/n, at%n); !mask.Data[at] {
				bias.Data[at] = negInf
			}
		}
		b.Run(fmt.Sprintf("%d: %s", n, c.name), func(b *testing.B) {
			ratio(b, run(&Options{Mask: mask}), c.over)
		})
		b.Run(fmt.Sprintf("%d: Bias, %s", n, c.name), func(b *testing.B) {
			ratio(b, run(&Options{Bias: bias}), c.over)
		})
	}
	b.Run(fmt.Sprintf("%d: 16th of the keys by KeyLens, over no mask", n), func(b *testing.B) {
		ratio(b, run(&Options{KeyLens: []int{n / 16}}), whole)
	})
}
