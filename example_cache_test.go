package attn_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/seed-1415985d/attn"
)

// A language model decodes: the prompt fills the cache in one call, then each new token is
// appended and attends to all before it. Workers share the calls that take long enough. The bits
// are those of one call over the whole sequence.
func ExampleCache() {
	const heads, kvHeads, dim, prompt, length = 8, 2, 64, 20, 30
	sequence := func(heads int) attn.Tensor {
		data := make([]float32, length*heads*dim)
		for i := range data {
			data[i] = rand.Float32() - 0.5
		}
		return attn.BLHD(data, 1, length, heads, dim)
	}
	tokens := func(x attn.Tensor, from, to int) attn.Tensor {
		x.Data, x.L = x.Data[from*x.SL:], to-from
		return x
	}
	q, k, v, out := sequence(heads), sequence(kvHeads), sequence(kvHeads), sequence(heads)

	pool := attn.NewPool(2)
	defer pool.Close()
	cache, err := attn.NewCache(attn.CacheConfig{Batch: 1, KVHeads: kvHeads, HeadDim: dim, ValueDim: dim, Capacity: length})
	check(err)
	causal := &attn.Options{Causal: attn.BottomRight} // the last query sees the last key
	for from, to := 0, prompt; from < length; from, to = to, to+1 {
		check(cache.Append(tokens(k, from, to), tokens(v, from, to)))
		check(pool.AttendCache(tokens(out, from, to), tokens(q, from, to), cache, causal))
	}

	whole := attn.BLHD(make([]float32, length*heads*dim), 1, length, heads, dim)
	check(attn.Attend(whole, q, k, v, causal))
	fmt.Println(cache.Len(), "tokens, the same bits:", slices.Equal(out.Data, whole.Data))

	// Speculative decoding takes back what was guessed wrong.
	check(cache.Truncate(length - 4))
	fmt.Println(cache.Len(), "tokens")
	// Output:
	// 30 tokens, the same bits: true
	// 26 tokens
}
