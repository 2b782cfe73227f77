package linear_test

import (
	"fmt"
	"log"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/linear"
)

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
