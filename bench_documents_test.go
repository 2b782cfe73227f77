package attn

import (
	"errors"
	"fmt"
	"math"
	"testing"
)

// BenchmarkDocuments compares documents with calls of their own, and with a call of all queries and
// keys, in turns. Heads of a token are side by side, as projections make them, or apart.
func BenchmarkDocuments(b *testing.B) {
	const heads, d = 12, 64
	for _, c := range [][2]int{{16, 8}, {16, 16}, {16, 32}, {16, 64}, {16, 256}, {500, 8}} {
		n, each := c[0]*c[1], c[1]
		r := random("documents")
		x := tensor(r, normal, 1, 1, n, 4*heads*d).Data
		columns := func(i int) Tensor { return Rows(x[i*heads*d:], 1, n, heads, d, 4*heads*d) }
		p := newProblem(r, normal, shape{1, heads, 1, n, n, d, d})
		lens := make([]int, c[0])
		fillWith(lens, each)
		for layout, t := range map[string][4]Tensor{
			"side by side": {columns(3), columns(0), columns(1), columns(2)},
			"apart":        {zeros(1, heads, n, d), p.q, p.k, p.v},
		} {
			by := func() error { return Attend(t[0], t[1], t[2], t[3], &Options{Documents: lens}) }
			b.Run(fmt.Sprintf("%d of %d %s, over as many calls", c[0], each, layout),
				func(b *testing.B) {
					ratio(b, by, func() error {
						for i := range c[0] {
							one := func(j int) Tensor { return t[j].Slice(i*each, i*each+each) }
							if err := Attend(one(0), one(1), one(2), one(3), nil); err != nil {
								return err
							}
						}
						return nil
					})
				})
			if c[0] == 16 {
				b.Run(fmt.Sprintf("16 of %d %s, over a call of all", each, layout), func(b *testing.B) {
					ratio(b, by, func() error { return Attend(t[0], t[1], t[2], t[3], nil) })
				})
			}
		}
	}
}

// BenchmarkEncoderBatch compares texts of log-uniform length by Documents with a batch that is
// padded to the longest of them: attention with KeyLens and QueryLens, and a whole layer of a BERT
// of 768 channels, whose products have a row for each token of padding.
func BenchmarkEncoderBatch(b *testing.B) {
	const texts, most, heads, d = 16, 512, 12, 64
	r := random("texts")
	lens := make([]int, texts)
	total := 0
	for i := range lens {
		lens[i] = int(8 * math.Pow(most/8, r.Float64()))
		total += lens[i]
	}
	lens[0], total = most, total+most-lens[0]
	const channels = heads * d
	var weights [4]*Matrix // Q, K and V; what joins heads; up; down
	for i, s := range [4][2]int{{channels, 3 * channels}, {channels, channels},
		{channels, 4 * channels}, {4 * channels, channels}} {
		m, err := PackMatrix(tensor(r, normal, 1, 1, s[0], s[1]), MatrixConfig{})
		must(b, err)
		weights[i] = m
	}
	x := tensor(r, normal, 1, 1, texts*most, channels).Data
	qkv, joined, wide := zeros(1, 1, texts*most, 3*channels).Data,
		zeros(1, 1, texts*most, channels).Data, zeros(1, 1, texts*most, 4*channels).Data
	attention := func(batch, n int, opt *Options) error {
		part := func(i int) Tensor { return Rows(qkv[i*channels:], batch, n, heads, d, 3*channels) }
		return Attend(BLHD(joined, batch, n, heads, d), part(0), part(1), part(2), opt)
	}
	layer := func(batch, n int, opt *Options) error {
		rows := func(x []float32, width int) Tensor { return BHLD(x, 1, 1, batch*n, width) }
		return errors.Join(
			weights[0].MatMul(rows(qkv, 3*channels), rows(x, channels), nil),
			attention(batch, n, opt),
			weights[1].MatMul(rows(qkv, channels), rows(joined, channels), nil),
			weights[2].MatMul(rows(wide, 4*channels), rows(qkv, channels), nil),
			weights[3].MatMul(rows(joined, channels), rows(wide, 4*channels), nil))
	}
	for name, call := range map[string]func(batch, n int, opt *Options) error{
		"attention": attention, "a layer": layer,
	} {
		b.Run(name, func(b *testing.B) {
			ratio(b, func() error { return call(texts, most, &Options{KeyLens: lens, QueryLens: lens}) },
				func() error { return call(1, total, &Options{Documents: lens}) })
		})
	}
	b.Run("attention, over calls of each text", func(b *testing.B) {
		ratio(b, func() error { return attention(1, total, &Options{Documents: lens}) }, func() error {
			at := 0
			for _, n := range lens {
				part := func(i int) Tensor {
					return Rows(qkv[at*3*channels+i*channels:], 1, n, heads, d, 3*channels)
				}
				err := Attend(BLHD(joined[at*channels:], 1, n, heads, d), part(0), part(1), part(2), nil)
				if at += n; err != nil {
					return err
				}
			}
			return nil
		})
	})
}
