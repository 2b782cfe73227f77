package nn_test

import (
	"fmt"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/nn"
)

// A residual and the norm after it, in one pass: x becomes x + y.
func ExampleAddRMSNorm() {
	x := attn.BHLD([]float32{1, 2, 3, 4}, 1, 1, 2, 2)
	y := attn.BHLD([]float32{2, 2, 0, 0}, 1, 1, 2, 2)
	normed := attn.BHLD(make([]float32, 4), 1, 1, 2, 2)
	if err := nn.AddRMSNorm(nil, normed, x, x, y, []float32{1, 1}, 0); err != nil {
		panic(err)
	}
	fmt.Println(x.Data)
	fmt.Printf("%.3f\n", normed.Data)
	// Output:
	// [3 4 3 4]
	// [0.849 1.131 0.849 1.131]
}

// Queries and keys turn by their positions; here one pair of channels turns by 1 radian each.
func ExampleRope_Rotate() {
	rope, err := nn.NewRope(nn.RopeConfig{Dim: 2, Base: 10000})
	if err != nil {
		panic(err)
	}
	q := attn.BHLD([]float32{1, 0, 1, 0}, 1, 1, 2, 2)
	if err := rope.Rotate(nil, q, q, []int32{0, 1}); err != nil {
		panic(err)
	}
	fmt.Printf("%.4f\n", q.Data)
	// Output: [1.0000 0.0000 0.5403 0.8415]
}

// SwiGLU of a feed-forward layer, in place of the gate.
func ExampleGate() {
	gate := attn.BHLD([]float32{1, -1}, 1, 1, 1, 2)
	up := attn.BHLD([]float32{2, 2}, 1, 1, 1, 2)
	if err := nn.Gate(nil, gate, gate, up, nn.SiLU); err != nil {
		panic(err)
	}
	fmt.Printf("%.4f\n", gate.Data)
	// Output: [1.4621 -0.5379]
}

// A thousand documents of one to four tokens, of which the best for a query is looked for, as
// ColBERT does it.
func ExampleMaxSim() {
	const documents, d = 1000, 8
	var data []float32
	var lens []int
	for i := range documents {
		lens = append(lens, 1+i%4)
		for token := range lens[i] {
			vector := make([]float32, d)
			vector[(i+token)%d] = 1
			vector[0] += float32(i) / 1000
			data = append(data, vector...)
		}
	}
	query := attn.BHLD([]float32{0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0}, 1, 1, 2, d)
	scores := make([]float32, documents)
	all := attn.BHLD(data, 1, 1, len(data)/d, d)
	if err := nn.MaxSim(nil, scores, query, all, lens); err != nil {
		panic(err)
	}
	best := make([]int32, 3)
	for _, i := range best[:attn.TopK(best, scores)] {
		fmt.Printf("document %d of %d tokens scores %.1f\n", i, lens[i], scores[i])
	}
	// Output:
	// document 999 of 4 tokens scores 3.0
	// document 994 of 3 tokens scores 3.0
	// document 991 of 4 tokens scores 3.0
}
