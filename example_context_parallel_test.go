package attn_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/seed-1415985d/attn"
)

// Context parallelism: four workers each hold a quarter of the keys and values
// of one sequence, as four machines would. Each runs the queries over its own
// quarter and sends its state; the states merge to exactly what one machine
// with all keys computes.
func Example_contextParallel() {
	const (
		heads, queries, dim = 2, 5, 16
		quarter             = 1 * attn.Segment // a multiple of Segment keys: exact
		keys                = 4 * quarter
		position            = keys - queries // of query 0: these are the last tokens
	)
	random := func(b, h, l, d int) attn.Tensor {
		data := make([]float32, b*h*l*d)
		for i := range data {
			data[i] = rand.Float32() - 0.5
		}
		return attn.BHLD(data, b, h, l, d)
	}
	q, k, v := random(1, heads, queries, dim), random(1, heads, keys, dim), random(1, heads, keys, dim)

	// Each worker: a state over its keys, sent in binary form.
	messages := make([][]byte, 4)
	var workers sync.WaitGroup
	for i := range messages {
		workers.Go(func() {
			mine := func(x attn.Tensor) attn.Tensor {
				x.Data, x.L = x.Data[i*quarter*x.SL:], quarter
				return x
			}
			state, err := attn.NewState(1, heads, queries, dim)
			check(err)
			// The worker's first key has position 0 in its state.
			check(state.Update(q, mine(k), mine(v), &attn.Options{Causal: attn.TopLeft, Offset: position - i*quarter}))
			messages[i], err = state.MarshalBinary()
			check(err)
		})
	}
	workers.Wait()

	// The receiver: merge in the order of the keys.
	whole, err := attn.NewState(1, heads, queries, dim)
	check(err)
	for _, message := range messages {
		var state attn.State
		check(state.UnmarshalBinary(message))
		check(whole.Merge(&state))
	}
	merged := make([]float32, heads*queries*dim)
	mergedLSE := make([]float32, heads*queries)
	check(whole.Finish(attn.BHLD(merged, 1, heads, queries, dim), mergedLSE))

	// One machine with all keys.
	alone := make([]float32, heads*queries*dim)
	aloneLSE := make([]float32, heads*queries)
	check(attn.Attend(attn.BHLD(alone, 1, heads, queries, dim), q, k, v,
		&attn.Options{Causal: attn.BottomRight, LSE: aloneLSE}))

	fmt.Println("keys:", whole.Keys(), "bytes sent by each worker:", len(messages[0]))
	fmt.Println("output identical:", slices.Equal(merged, alone))
	fmt.Println("LSE identical:", slices.Equal(mergedLSE, aloneLSE))
	// Output:
	// keys: 4096 bytes sent by each worker: 756
	// output identical: true
	// LSE identical: true
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
