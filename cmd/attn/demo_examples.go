package main

import (
	"math"
	"math/rand/v2"

	"github.com/seed-1415985d/attn"
)

// one is a single head of a single batch entry.
func one(x []float32, cols int) attn.Tensor { return attn.BHLD(x, 1, 1, len(x)/cols, cols) }

// The sources of the walk-throughs.
const (
	courseTrax = "DeepLearning.AI, Natural Language Processing with Attention Models, week 2"
	courseTF   = "the same course in its edition for TensorFlow"
	karim      = "Raimi Karim, Illustrated: Self-Attention, Towards Data Science, 2019"
	cristina   = "Stefania Cristina, The Attention Mechanism from Scratch, Machine Learning Mastery"
)

// The inputs of walk-throughs A and B.
var (
	twoQ = []float32{1, 0, 0, 0, 1, 0}
	twoK = []float32{1, 2, 3, 4, 5, 6}
	twoV = []float32{0, 1, 0, 1, 0, 1}

	twoCausal = []float64{0, 1, 0, 0.84967455, 0.15032545, 0.84967455}
	twoFull   = []float64{0.84967455, 0.15032545, 0.84967455, 0.84967455, 0.15032545, 0.84967455}
)

func (d *demo) dotProduct() {
	d.chapter("A. Dot-product attention, two tokens of dimension 3", courseTrax)
	q, k, v := one(twoQ, 3), one(twoK, 3), one(twoV, 3)
	d.matrix("q", twoQ, 3)
	d.matrix("k", twoK, 3)
	d.matrix("v", twoV, 3)

	d.example("every token sees every token", "none: the scale is 1/√3 unless given")
	d.compare(d.attend(q, k, v, nil), twoFull, 3)

	d.example("causal: a token sees itself and what came before", "Causal: TopLeft")
	d.compare(d.attend(q, k, v, &attn.Options{Causal: attn.TopLeft}), twoCausal, 3)

	d.example("causal and unscaled", "Causal: TopLeft, Scale: 1")
	d.compare(d.attend(q, k, v, &attn.Options{Causal: attn.TopLeft, Scale: 1}),
		[]float64{0, 1, 0, 0.95257413, 0.04742587, 0.95257413}, 3)

	d.example("the same triangle as a boolean mask, true = may attend",
		"Mask: [true false] [true true]")
	lower := attn.BHLD([]bool{true, false, true, true}, 1, 1, 2, 2)
	d.compare(d.attend(q, k, v, &attn.Options{Mask: lower}), twoCausal, 3)

	d.example("and as an additive mask", "Bias: [0 -1e9] [0 0]")
	bias := attn.BHLD([]float32{0, -1e9, 0, 0}, 1, 1, 2, 2)
	d.compare(d.attend(q, k, v, &attn.Options{Bias: bias}), twoCausal, 3)

	d.example("cross attention: one query (the first), two keys", "none")
	d.compare(d.attend(one(twoQ[:3], 3), k, v, nil), twoFull[:3], 3)

	d.example("one mask for a whole batch, here the tokens twice",
		"Mask: [true false] [true true] of batch 1")
	twice := func(x []float32) attn.Tensor {
		return attn.View[float32]{Data: x, B: 2, H: 1, L: 2, D: 3, SB: attn.Broadcast, SL: 3}
	}
	d.compare(d.attend(twice(twoQ), twice(twoK), twice(twoV), &attn.Options{Mask: lower}),
		append(twoCausal[:6:6], twoCausal...), 3)
}

func (d *demo) floatMask() {
	d.chapter("B. A mask of ones and zeros", courseTF)
	d.say("A mask m of 1 (may attend) and 0 enters as an additive bias, (1 − m)·(−1e9).")
	var bias [4]float32
	for i, m := range []float32{1, 0, 1, 1} {
		bias[i] = float32((1 - m) * -1e9)
	}
	b := attn.BHLD(bias[:], 1, 1, 2, 2)

	d.example("the inputs of A", "Bias: from the mask [1 0] [1 1]")
	d.compare(d.attend(one(twoQ, 3), one(twoK, 3), one(twoV, 3), &attn.Options{Bias: b}),
		[]float64{0, 1, 0, 0.8496746, 0.15032543, 0.8496746}, 3)

	d.example("values of another dimension than keys: the first two columns of v", "as before")
	narrow := attn.Rows(twoV, 1, 2, 1, 2, 3)
	d.compare(d.attend(one(twoQ, 3), one(twoK, 3), narrow, &attn.Options{Bias: b}),
		[]float64{0, 1, 0.8496746, 0.15032543}, 2)
}

func (d *demo) multiHead() {
	d.chapter("C. From tokens to queries, keys and values, step by step", karim)
	x := []float32{1, 0, 1, 0, 0, 2, 0, 2, 1, 1, 1, 1}
	d.matrix("x", x, 4)
	d.say("  q, k, v are x times a matrix of weights each:")
	q := project(x, 4, []float32{1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1}, 3)
	k := project(x, 4, []float32{0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0}, 3)
	v := project(x, 4, []float32{0, 2, 0, 0, 3, 0, 1, 0, 3, 1, 1, 0}, 3)
	d.matrix("q", q, 3)
	d.matrix("k", k, 3)
	d.matrix("v", v, 3)

	d.example("output, unscaled", "Scale: 1, Weights: where to put them")
	weights := attn.BHLD(make([]float32, 9), 1, 1, 3, 3)
	out := d.attend(one(q, 3), one(k, 3), one(v, 3), &attn.Options{Scale: 1, Weights: weights})
	d.compare(out, []float64{
		1.93662106, 6.68310531, 1.59506841,
		1.99999397, 7.96399160, 0.05397641,
		1.99970461, 7.75989225, 0.35838929}, 3)

	d.example("the attention weights: how much each token takes from each", "")
	d.compare(weights.Data, []float64{
		0.06337894, 0.46831053, 0.46831053,
		6.0336649e-06, 0.98200786, 0.017986101,
		0.00029538722, 0.88053690, 0.11916771}, 3)

	d.eightHeads()
}

// eightHeads writes heads side by side through the output's view.
func (d *demo) eightHeads() {
	const length, heads, dim = 3, 8, 64
	d.example("eight heads of 64, concatenated to rows of 512 by the view of the output",
		"dst: BLHD(out, 1, 3, 8, 64)")
	random := rand.New(rand.NewPCG(1, 2))
	input := func() attn.Tensor {
		x := make([]float32, length*heads*dim)
		for i := range x {
			x[i] = random.Float32() - 0.5
		}
		return attn.BLHD(x, 1, length, heads, dim)
	}
	q, k, v := input(), input(), input()
	concatenated := make([]float32, length*heads*dim)
	if err := attn.Attend(attn.BLHD(concatenated, 1, length, heads, dim), q, k, v, nil); err != nil &&
		d.err == nil {
		d.err = err
	}
	var single []float32
	for i := range length {
		for h := range heads {
			all := d.attend(q.Heads(h, h+1), k.Heads(h, h+1), v.Heads(h, h+1), nil)
			single = append(single, all[i*dim:][:dim]...)
		}
	}
	d.same("the same bits as each head by itself", concatenated, single)
}

func (d *demo) embeddings() {
	d.chapter("D. Attention over word embeddings", cristina)
	words := []float32{1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1}
	d.matrix("words", words, 3)
	q := project(words, 3, []float32{2, 0, 2, 2, 0, 0, 2, 1, 2}, 3)
	k := project(words, 3, []float32{2, 2, 2, 0, 2, 1, 0, 1, 1}, 3)
	v := project(words, 3, []float32{1, 1, 0, 0, 1, 1, 0, 0, 0}, 3)
	d.matrix("q", q, 3)
	d.matrix("k", k, 3)
	d.matrix("v", v, 3)

	d.example("all words at once", "none")
	all := d.attend(one(q, 3), one(k, 3), one(v, 3), nil)
	d.compare(all, []float64{
		0.98522025, 1.74174051, 0.75652026,
		0.90965265, 1.40965265, 0.5,
		0.99851226, 1.75849334, 0.75998108,
		0.99560386, 1.90407309, 0.90846923}, 3)

	d.example("one word at a time against all keys", "none")
	var single []float32
	for i := range 4 {
		single = append(single, d.attend(one(q[i*3:][:3], 3), one(k, 3), one(v, 3), nil)...)
	}
	d.same("the same bits as all at once", single, all)

	d.example("decoder states (q) look at encoder states: keys and values are one matrix", "Scale: 1")
	decoder := []float32{0.5, -1, 2, 1, 1, 0}
	d.matrix("q", decoder, 3)
	d.matrix("k = v", words, 3)
	d.compare(d.attend(one(decoder, 3), one(words, 3), one(words, 3), &attn.Options{Scale: 1}),
		textbook(decoder, words, 3), 3)
}

// project returns x·w for rows of n numbers and a weight matrix with cols columns.
func project(x []float32, n int, w []float32, cols int) []float32 {
	y := make([]float32, len(x)/n*cols)
	for i := range y {
		for t := range n {
			y[i] += float32(x[i/cols*n+t] * w[t*cols+i%cols])
		}
	}
	return y
}

// textbook is unscaled attention in float64, straight from the formula; the keys are the values.
func textbook(q, kv []float32, cols int) []float64 {
	out := make([]float64, len(q))
	for i := 0; i < len(q); i += cols {
		sum, weighted := 0.0, make([]float64, cols)
		for j := 0; j < len(kv); j += cols {
			s := 0.0
			for x := range cols {
				s += float64(q[i+x]) * float64(kv[j+x])
			}
			sum += math.Exp(s)
			for x := range cols {
				weighted[x] += math.Exp(s) * float64(kv[j+x])
			}
		}
		for x := range cols {
			out[i+x] = weighted[x] / sum
		}
	}
	return out
}
