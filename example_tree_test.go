package attn_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/seed-1415985d/attn"
)

// The model that this example makes up has one layer with one head. A token's vector is its query,
// its key and its value.
const modelTokens, modelDim = 20, 16

func tokenVector(table uint64, token int) []float32 {
	r, x := rand.New(rand.NewPCG(table, uint64(token))), make([]float32, modelDim)
	for c := range x {
		x[c] = float32(r.NormFloat64())
	}
	return x
}

// follow appends tokens to a cache and returns which one the model lets follow each of them: after
// the tokens before, the token itself and its ancestors.
func follow(cache *attn.Cache, tokens, tree []int) []int {
	var x []float32
	for _, token := range tokens {
		x = append(x, tokenVector(1, token)...)
	}
	in := attn.BHLD(x, 1, 1, len(tokens), modelDim)
	out := attn.BHLD(make([]float32, len(x)), 1, 1, len(tokens), modelDim)
	check(cache.Append(in, in))
	check(cache.Attend(out, in, &attn.Options{Tree: tree}))
	next := make([]int, len(tokens))
	for i := range next {
		best := float32(math.Inf(-1))
		for token := range modelTokens {
			if score := attn.Dot(out.Row(0, 0, i), tokenVector(2, token)); score > best {
				next[i], best = token, score
			}
		}
	}
	return next
}

// propose guesses how a text goes on after its last token, the first of the tree: as it went on
// after the same tokens before.
func propose(text []int, most int) (tokens, tree []int) {
	tokens, tree = []int{text[len(text)-1]}, []int{-1}
	for at := 0; at < len(tokens); at++ {
		for i := len(text) - 2; i >= 0 && len(tokens) < most; i-- {
			if text[i] == tokens[at] {
				tokens, tree = append(tokens, text[i+1]), append(tree, at)
			}
		}
	}
	return tokens, tree
}

// Speculative decoding with a tree: something cheap proposes how the text may go on, in several
// ways. One call verifies all of them, the cache keeps the path that the model agrees with, and the
// text is that of one token at a time.
func ExampleCache_Keep() {
	write := func(length, proposed int) (text []int, calls int) {
		cache, err := attn.NewCache(attn.CacheConfig{Batch: 1, KVHeads: 1, HeadDim: modelDim,
			ValueDim: modelDim, Capacity: length + proposed})
		check(err)
		defer cache.Close()
		for text = []int{7}; len(text) < length; calls++ {
			tokens, tree := propose(text, proposed)
			first, next := cache.Len(), follow(cache, tokens, tree)
			at, kept := 0, []int{first} // the last token of the text is right, and what follows it, too
			text = append(text, next[0])
			for i := 1; i < len(tokens); i++ {
				if tree[i] == at && tokens[i] == next[at] {
					at, kept = i, append(kept, first+i)
					text = append(text, next[i])
				}
			}
			check(cache.Keep(kept))
		}
		return text[:length], calls
	}
	plain, calls := write(100, 1)
	fmt.Println(len(plain), "tokens in", calls, "calls")
	speculative, calls := write(100, 12)
	fmt.Println("in", calls, "calls with trees, the same text:", slices.Equal(plain, speculative))
	// Output:
	// 100 tokens in 99 calls
	// in 45 calls with trees, the same text: true
}
