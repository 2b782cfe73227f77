package attn

import (
	"math"
	"testing"
)

// Published walk-throughs of attention, as numbers: two tokens from DeepLearning.AI's course
// Natural Language Processing with Attention Models (week 2, for Trax and for TensorFlow), three
// tokens from Raimi Karim's Illustrated: Self-Attention (2019), four words from Stefania Cristina's
// The Attention Mechanism from Scratch.

// rows puts equally long rows into one slice.
func rows(r ...[]float32) (flat []float32) {
	for _, row := range r {
		flat = append(flat, row...)
	}
	return flat
}

// matrix is a single [l, d] matrix: one batch entry, one head.
func matrix(data []float32, l int) Tensor { return BHLD(data, 1, 1, l, len(data)/l) }

// projected is a·b, for projections.
func projected(a, b Tensor) Tensor {
	out := zeros(1, 1, a.L, b.D)
	if err := MatMul(out, a, b); err != nil {
		panic(err)
	}
	return out
}

func near(t *testing.T, what string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s has %d elements, want %d", what, len(got), len(want))
	}
	for i := range want {
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= 1e-6) {
			t.Errorf("%s[%d] = %v, want %v", what, i, got[i], want[i])
		}
	}
}

// worked is one call of a walk-through.
type worked struct {
	name    string
	q, k, v Tensor
	opt     *Options
	want    []float32
}

func (w *worked) run(t *testing.T) {
	dst := zeros(w.q.B, w.q.H, w.q.L, w.v.D)
	if err := Attend(dst, w.q, w.k, w.v, w.opt); err != nil {
		t.Fatal(err)
	}
	near(t, "output", dst.Data, w.want)
}

func testWorked(t *testing.T, cases []worked) {
	forEach(t, func(t *testing.T) {
		for _, w := range cases {
			t.Run(w.name, w.run)
		}
	})
}

var (
	numpyQ = matrix([]float32{1, 0, 0, 0, 1, 0}, 2)
	numpyK = matrix([]float32{1, 2, 3, 4, 5, 6}, 2)
	numpyV = matrix([]float32{0, 1, 0, 1, 0, 1}, 2)

	numpySecond = []float32{0.84967455, 0.15032545, 0.84967455}
	numpyCausal = rows([]float32{0, 1, 0}, numpySecond)
)

func TestWorkedDotProduct(t *testing.T) {
	lower := BHLD([]bool{true, false, true, true}, 1, 1, 2, 2)
	additive := matrix([]float32{0, -1e9, 0, 0}, 2)
	one := func(t Tensor, i int) Tensor { t.Data, t.L = t.Data[i*t.D:(i+1)*t.D], 1; return t }
	testWorked(t, []worked{
		{"causal", numpyQ, numpyK, numpyV, &Options{Causal: TopLeft}, numpyCausal},
		{"bidirectional", numpyQ, numpyK, numpyV, nil, rows(numpySecond, numpySecond)},
		{"causal unscaled", numpyQ, numpyK, numpyV, &Options{Causal: TopLeft, Scale: 1},
			[]float32{0, 1, 0, 0.95257413, 0.04742587, 0.95257413}},
		{"mask", numpyQ, numpyK, numpyV, &Options{Mask: lower}, numpyCausal},
		{"additive mask", numpyQ, numpyK, numpyV, &Options{Bias: additive}, numpyCausal},
		{"encoder and decoder", one(numpyQ, 1), numpyK, numpyV, nil, numpySecond},
		{"one key", numpyQ, one(numpyK, 1), one(numpyV, 1), nil, []float32{1, 0, 1, 1, 0, 1}},
	})
}

// A [1, L, L] mask stands for the masks of a whole batch.
func TestWorkedBroadcastMask(t *testing.T) {
	const batch = 3
	repeat := func(t Tensor) Tensor { t.B, t.SB = batch, Broadcast; return t }
	lower := BHLD([]bool{true, false, true, true}, 1, 1, 2, 2)
	testWorked(t, []worked{{"batch", repeat(numpyQ), repeat(numpyK), repeat(numpyV),
		&Options{Mask: lower},
		rows(numpyCausal, numpyCausal, numpyCausal)}})
}

// A mask of ones and zeros enters as an additive bias (1 − mask)·(−1e9).
func TestWorkedFloatMask(t *testing.T) {
	mask := []float32{1, 0, 1, 1}
	bias := matrix(make([]float32, 4), 2)
	for i, m := range mask {
		bias.Data[i] = (1 - m) * -1e9
	}
	wide := matrix([]float32{0, 1, 0, 5, 1, 0, 1, 5}, 2) // d_v differs from d
	testWorked(t, []worked{
		{"bias", numpyQ, numpyK, numpyV, &Options{Bias: bias},
			[]float32{0, 1, 0, 0.8496746, 0.15032543, 0.8496746}},
		{"wider values", numpyQ, numpyK, wide, &Options{Bias: bias},
			[]float32{0, 1, 0, 5, 0.8496746, 0.15032543, 0.8496746, 5}},
	})
}

var (
	tokenX = matrix([]float32{1, 0, 1, 0, 0, 2, 0, 2, 1, 1, 1, 1}, 3)
	tokenQ = projected(tokenX, matrix([]float32{1, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1}, 4))
	tokenK = projected(tokenX, matrix([]float32{0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0}, 4))
	tokenV = projected(tokenX, matrix([]float32{0, 2, 0, 0, 3, 0, 1, 0, 3, 1, 1, 0}, 4))

	tokenOut = []float32{
		1.93662106, 6.68310531, 1.59506841,
		1.99999397, 7.96399160, 0.05397641,
		1.99970461, 7.75989225, 0.35838929,
	}
)

func TestWorkedProjections(t *testing.T) {
	near(t, "Q", tokenQ.Data, []float32{1, 0, 2, 2, 2, 2, 2, 1, 3})
	near(t, "K", tokenK.Data, []float32{0, 1, 1, 4, 4, 0, 2, 3, 1})
	near(t, "V", tokenV.Data, []float32{1, 2, 3, 2, 8, 0, 2, 6, 3})
	near(t, "scores", projected(tokenQ, transposed(tokenK)).Data,
		[]float32{2, 4, 4, 4, 16, 12, 4, 12, 10})
	testWorked(t, []worked{{"attention", tokenQ, tokenK, tokenV, &Options{Scale: 1}, tokenOut}})
}

func transposed(a Tensor) Tensor {
	out := BHLD(make([]float32, a.L*a.D), 1, 1, a.D, a.L)
	for i := range a.L {
		for x := range a.D {
			out.Data[x*a.L+i] = a.Data[i*a.D+x]
		}
	}
	return out
}

func TestWorkedWeights(t *testing.T) {
	forEach(t, func(t *testing.T) {
		dst, weights := matrix(make([]float32, 9), 3), matrix(make([]float32, 9), 3)
		if err := Attend(dst, tokenQ, tokenK, tokenV, &Options{Scale: 1, Weights: weights}); err != nil {
			t.Fatal(err)
		}
		near(t, "weights", weights.Data, []float32{
			0.06337894, 0.46831053, 0.46831053,
			6.0336649e-06, 0.98200786, 0.017986101,
			0.00029538722, 0.88053690, 0.11916771,
		})
	})
}

// Eight heads of 64 side by side give one 512-wide row per token.
func TestWorkedHeadsSideBySide(t *testing.T) {
	const heads, width, count = 8, 64, 3
	forEach(t, func(t *testing.T) {
		r := random("heads")
		q, k, v := tensor(r, normal, 1, heads, count, width), tensor(r, normal, 1, heads, count,
			width), tensor(r, normal, 1, heads, count, width)
		wide := make([]float32, count*heads*width)
		if err := Attend(BLHD(wide, 1, count, heads, width), q, k, v, nil); err != nil {
			t.Fatal(err)
		}
		for h := range heads {
			dst := matrix(make([]float32, count*width), count)
			head := func(t Tensor) Tensor { return matrix(t.Data[h*count*width:][:count*width], count) }
			if err := Attend(dst, head(q), head(k), head(v), nil); err != nil {
				t.Fatal(err)
			}
			for i := range count {
				if at := firstDifference(wide[i*heads*width+h*width:], dst.row(0, 0, i)); at >= 0 {
					t.Fatalf("token %d, head %d: column %d of the wide row differs from the head's own result", i,
						h, at)
				}
			}
		}
	})
}

var (
	words = matrix([]float32{1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 1}, 4)
	wordQ = projected(words, matrix([]float32{2, 0, 2, 2, 0, 0, 2, 1, 2}, 3))
	wordK = projected(words, matrix([]float32{2, 2, 2, 0, 2, 1, 0, 1, 1}, 3))
	wordV = projected(words, matrix([]float32{1, 1, 0, 0, 1, 1, 0, 0, 0}, 3))

	wordOut = []float32{
		0.98522025, 1.74174051, 0.75652026,
		0.90965265, 1.40965265, 0.5,
		0.99851226, 1.75849334, 0.75998108,
		0.99560386, 1.90407309, 0.90846923,
	}
)

// One word at a time and all at once agree, bit for bit.
func TestWorkedEmbeddings(t *testing.T) {
	testWorked(t, []worked{{"all words", wordQ, wordK, wordV, nil, wordOut}})
	forEach(t, func(t *testing.T) {
		all := matrix(make([]float32, 12), 4)
		if err := Attend(all, wordQ, wordK, wordV, nil); err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			dst := matrix(make([]float32, 3), 1)
			if err := Attend(dst, matrix(wordQ.row(0, 0, i), 1), wordK, wordV, nil); err != nil {
				t.Fatal(err)
			}
			if firstDifference(dst.Data, all.row(0, 0, i)) >= 0 {
				t.Errorf("word %d alone gives %v, among all %v", i, dst.Data, all.row(0, 0, i))
			}
		}
	})
}

// The additive setting: decoder states attend to encoder states, which are
// keys and values at once.
func TestWorkedCrossAttention(t *testing.T) {
	encoder := matrix([]float32{1, 0, 0, 1, 1, 1}, 3)
	decoder := matrix([]float32{2, 0}, 1)
	e := math.Exp(2 / math.Sqrt2)
	total := 2*e + 1
	testWorked(t, []worked{{"shared keys and values", decoder, encoder, encoder, nil,
		[]float32{float32(2 * e / total), float32((e + 1) / total)}}})
}
