package attn_test

import (
	"fmt"

	"github.com/seed-1415985d/attn"
)

// matrix views data as one matrix of l rows: one batch entry, one head.
func matrix(l int, data ...float32) attn.Tensor {
	return attn.BHLD(data, 1, 1, l, len(data)/l)
}

func printRows(t attn.Tensor, format string) {
	for i := range t.L {
		for x := range t.D {
			if x > 0 {
				fmt.Print(" ")
			}
			fmt.Printf(format, t.Data[i*t.SL+x])
		}
		fmt.Println()
	}
}

// Dot-product attention of two queries over two keys: with a causal mask the
// first query sees the first key only.
func ExampleAttend() {
	q := matrix(2, 1, 0, 0, 0, 1, 0)
	k := matrix(2, 1, 2, 3, 4, 5, 6)
	v := matrix(2, 0, 1, 0, 1, 0, 1)
	dst := matrix(2, make([]float32, 6)...)

	for _, opt := range []*attn.Options{nil, {Causal: attn.TopLeft}, {Causal: attn.TopLeft, Scale: 1}} {
		if err := attn.Attend(dst, q, k, v, opt); err != nil {
			fmt.Println(err)
			return
		}
		printRows(dst, "%.5f")
	}
	// Output:
	// 0.84967 0.15033 0.84967
	// 0.84967 0.15033 0.84967
	// 0.00000 1.00000 0.00000
	// 0.84967 0.15033 0.84967
	// 0.00000 1.00000 0.00000
	// 0.95257 0.04743 0.95257
}

// The causal mask as a boolean mask, true = may attend.
func ExampleAttend_mask() {
	q := matrix(2, 1, 0, 0, 0, 1, 0)
	k := matrix(2, 1, 2, 3, 4, 5, 6)
	v := matrix(2, 0, 1, 0, 1, 0, 1)
	dst := matrix(2, make([]float32, 6)...)

	mask := attn.BHLD([]bool{true, false, true, true}, 1, 1, 2, 2)
	if err := attn.Attend(dst, q, k, v, &attn.Options{Mask: &mask}); err != nil {
		fmt.Println(err)
		return
	}
	printRows(dst, "%.5f")
	// Output:
	// 0.00000 1.00000 0.00000
	// 0.84967 0.15033 0.84967
}

// A mask of ones and zeros as an additive bias (1 − mask)·(−1e9), as other libraries have it. It
// leaves a row without keys to see all of them; −Inf, or a Mask, hides them truly.
func ExampleAttend_bias() {
	q := matrix(2, 1, 0, 0, 0, 1, 0)
	k := matrix(2, 1, 2, 3, 4, 5, 6)
	v := matrix(2, 0, 1, 0, 1, 0, 1)
	dst := matrix(2, make([]float32, 6)...)

	bias := matrix(2, make([]float32, 4)...)
	for i, m := range []float32{1, 0, 1, 1} {
		bias.Data[i] = (1 - m) * -1e9
	}
	if err := attn.Attend(dst, q, k, v, &attn.Options{Bias: &bias}); err != nil {
		fmt.Println(err)
		return
	}
	printRows(dst, "%.5f")
	// Output:
	// 0.00000 1.00000 0.00000
	// 0.84967 0.15033 0.84967
}

// product returns a·b.
func product(a, b attn.Tensor) attn.Tensor {
	out := matrix(a.L, make([]float32, a.L*b.D)...)
	if err := attn.MatMul(out, a, b); err != nil {
		panic(err)
	}
	return out
}

// Self-attention step by step: project three tokens to queries, keys and
// values, attend, and look at the weights.
func ExampleAttend_projections() {
	x := matrix(3, 1, 0, 1, 0, 0, 2, 0, 2, 1, 1, 1, 1)
	q := product(x, matrix(4, 1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1))
	k := product(x, matrix(4, 0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0))
	v := product(x, matrix(4, 0, 2, 0, 0, 3, 0, 1, 0, 3, 1, 1, 0))
	fmt.Println("Q", q.Data, "K", k.Data, "V", v.Data)

	dst, weights := matrix(3, make([]float32, 9)...), matrix(3, make([]float32, 9)...)
	if err := attn.Attend(dst, q, k, v, &attn.Options{Scale: 1, Weights: &weights}); err != nil {
		fmt.Println(err)
		return
	}
	printRows(weights, "%.3e")
	printRows(dst, "%.4f")
	// Output:
	// Q [1 0 2 2 2 2 2 1 3] K [0 1 1 4 4 0 2 3 1] V [1 2 3 2 8 0 2 6 3]
	// 6.338e-02 4.683e-01 4.683e-01
	// 6.034e-06 9.820e-01 1.799e-02
	// 2.954e-04 8.805e-01 1.192e-01
	// 1.9366 6.6831 1.5951
	// 2.0000 7.9640 0.0540
	// 1.9997 7.7599 0.3584
}

// Eight heads of 64 columns each, written side by side: the output view
// concatenates them to one row of 512 a token, without a copy.
func ExampleBLHD() {
	const tokens, heads, width = 3, 8, 64
	q := make([]float32, tokens*heads*width)
	k := make([]float32, tokens*heads*width)
	v := make([]float32, tokens*heads*width)
	for i := range v {
		v[i] = float32(i % (heads * width) / width) // each head's values are its number
	}
	out := make([]float32, tokens*heads*width)
	view := func(data []float32) attn.Tensor { return attn.BLHD(data, 1, tokens, heads, width) }
	if err := attn.Attend(view(out), view(q), view(k), view(v), nil); err != nil {
		fmt.Println(err)
		return
	}
	row := out[:heads*width] // of the first token
	for h := range heads {
		fmt.Print(row[h*width], " ")
	}
	fmt.Println()
	// Output: 0 1 2 3 4 5 6 7
}

// Word embeddings and weight matrices: one word at a time and all at once agree bit for bit.
func ExampleAttend_embeddings() {
	words := matrix(4, 1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1)
	q := product(words, matrix(3, 2, 0, 2, 2, 0, 0, 2, 1, 2))
	k := product(words, matrix(3, 2, 2, 2, 0, 2, 1, 0, 1, 1))
	v := product(words, matrix(3, 1, 1, 0, 0, 1, 1, 0, 0, 0))

	all := matrix(4, make([]float32, 12)...)
	if err := attn.Attend(all, q, k, v, nil); err != nil {
		fmt.Println(err)
		return
	}
	printRows(all, "%.5f")

	one, same := matrix(1, make([]float32, 3)...), true
	for i := range words.L {
		if err := attn.Attend(one, matrix(1, q.Data[3*i:3*i+3]...), k, v, nil); err != nil {
			fmt.Println(err)
			return
		}
		for x, e := range one.Data {
			same = same && e == all.Data[3*i+x]
		}
	}
	fmt.Println("one at a time gives the same bits:", same)
	// Output:
	// 0.98522 1.74174 0.75652
	// 0.90965 1.40965 0.50000
	// 0.99851 1.75849 0.75998
	// 0.99560 1.90407 0.90847
	// one at a time gives the same bits: true
}

// Decoder states attend to encoder states, which are keys and values at once:
// the same view is passed twice.
func ExampleAttend_cross() {
	encoder := matrix(3, 1, 0, 0, 1, 1, 1)
	decoder := matrix(1, 2, 0)
	dst := matrix(1, make([]float32, 2)...)
	if err := attn.Attend(dst, decoder, encoder, encoder, nil); err != nil {
		fmt.Println(err)
		return
	}
	printRows(dst, "%.5f")
	// Output: 0.89162 0.55419
}
