package linear_test

import (
	"fmt"
	"log"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/linear"
	"github.com/seed-1415985d/attn/nn"
)

// What a gated delta rule has around it, as Qwen3-Next: queries and keys of length 1, decays of
// projections, and a norm that is gated by SiLU. Everything is in place.
func ExampleDecay() {
	const heads, keys, values, n = 1, 2, 2, 2
	layer, err := linear.NewState(linear.Config{Heads: heads, KeyDim: keys, ValueDim: values,
		Rule: linear.GatedDelta})
	if err != nil {
		log.Fatal(err)
	}
	defer layer.Close()
	q := attn.BHLD([]float32{3, 4, 1, 1}, 1, heads, n, keys)
	k := attn.BHLD([]float32{2, 0, 1, 2}, 1, heads, n, keys)
	v := attn.BHLD([]float32{1, 2, 3, 4}, 1, heads, n, values)
	decay := attn.BHLD([]float32{-1, 2}, 1, heads, n, 1)
	beta := attn.BHLD([]float32{0, 1}, 1, heads, n, 1)
	gate := attn.BHLD([]float32{1, -1, 2, 0.5}, 1, heads, n, values)
	aLog, dtBias, weight := []float32{0.5}, []float32{-1}, []float32{1, 0.5}
	dst := attn.BHLD(make([]float32, n*values), 1, heads, n, values)
	var p *attn.Pool // nil: on this goroutine
	for _, err := range []error{
		nn.L2Norm(p, q, q, 1e-6),
		nn.L2Norm(p, k, k, 1e-6),
		linear.Decay(p, decay, decay, aLog, dtBias),
		nn.Activate(p, beta, beta, nn.Sigmoid),
		layer.Append(p, dst, q, k, v, decay, beta),
		nn.RMSNorm(p, dst, dst, weight, 1e-6),
		nn.Gate(p, dst, gate, dst, nn.SiLU), // silu(gate)·norm; Mamba-2: Gate, and then RMSNorm
	} {
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Printf("%.4f\n%.4f\n", decay.Data, dst.Data)
	// Output:
	// [-0.2093 -2.1652]
	// [0.4624 -0.1701 1.4896 0.1764]
}

// A prompt and a token after it, of a layer with one head of two channels.
func ExampleState_Append() {
	layer, err := linear.NewState(linear.Config{Heads: 1, KeyDim: 2, ValueDim: 2,
		Rule: linear.GatedDelta, Scale: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer layer.Close()
	keys := attn.BHLD([]float32{1, 0, 0, 1}, 1, 1, 2, 2)
	values := attn.BHLD([]float32{1, 2, 3, 4}, 1, 1, 2, 2)
	decay := attn.BHLD([]float32{0, 0}, 1, 1, 2, 1) // nothing is forgotten
	beta := attn.BHLD([]float32{1, 1}, 1, 1, 2, 1)
	dst := attn.BHLD(make([]float32, 4), 1, 1, 2, 2)
	if err := layer.Append(nil, dst, keys, keys, values, decay, beta); err != nil {
		log.Fatal(err)
	}
	fmt.Println(dst.Data)

	// The next token asks for what is stored with the first key, and stores another value there.
	query := attn.BHLD([]float32{1, 0}, 1, 1, 1, 2)
	value := attn.BHLD([]float32{5, 6}, 1, 1, 1, 2)
	out := dst.Slice(0, 1)
	if err := layer.Append(nil, out, query, query, value, decay.Slice(0, 1),
		beta.Slice(0, 1)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Row(0, 0, 0), layer.Len())
	// Output:
	// [1 2 3 4]
	// [5 6] 3
}
