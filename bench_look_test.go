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

// BenchmarkDocuments compares documents with what they are instead of, in turns: calls of their own,
// a call without documents, and a batch that is padded to its longest text.
func BenchmarkDocuments(b *testing.B) {
	r := random("documents")
	const heads, d = 12, 64
	for _, n := range []int{8, 16, 32, 64, 256} {
		x := tensor(r, normal, 1, 1, 16*n, 4*heads*d).Data // rows of q, k, v and outputs side by side
		columns := func(i int) Tensor { return Rows(x[i*heads*d:], 1, 16*n, heads, d, 4*heads*d) }
		side := [4]Tensor{columns(3), columns(0), columns(1), columns(2)}
		p := newProblem(r, normal, shape{1, heads, 1, 16 * n, 16 * n, d, d})
		apart := [4]Tensor{zeros(1, heads, 16*n, d), p.q, p.k, p.v}
		for layout, t := range map[string][4]Tensor{"side by side": side, "apart": apart} {
			lens := make([]int, 16)
			fillWith(lens, n)
			by := func() error { return Attend(t[0], t[1], t[2], t[3], &Options{Documents: lens}) }
			b.Run(fmt.Sprintf("16 of %d %s, over 16 calls", n, layout), func(b *testing.B) {
				ratio(b, by, func() error {
					for i := range 16 {
						s := func(x Tensor) Tensor { return x.Slice(i*n, i*n+n) }
						if err := Attend(s(t[0]), s(t[1]), s(t[2]), s(t[3]), nil); err != nil {
							return err
						}
					}
					return nil
				})
			})
			b.Run(fmt.Sprintf("16 of %d %s, over one of all", n, layout), func(b *testing.B) {
				ratio(b, by, func() error { return Attend(t[0], t[1], t[2], t[3], nil) })
			})
		}
	}
}
