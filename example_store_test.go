package attn_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/seed-1415985d/attn"
)

// The shape of the model that the examples over a Store make up.
const storeHeads, storeKVHeads, storeDim = 4, 2, 8

// projected makes up what the projections of a model would give for tokens [from, from+n) of a
// text: the same numbers for the same text and position.
func projected(text uint64, heads, from, n int) attn.Tensor {
	x := attn.BLHD(make([]float32, n*heads*storeDim), 1, n, heads, storeDim)
	for i := range n {
		r := rand.New(rand.NewPCG(text, uint64(from+i)))
		row := x.Data[i*heads*storeDim:][:heads*storeDim]
		for j := range row {
			row[j] = float32(r.NormFloat64())
		}
	}
	return x
}

// extend appends n tokens of a text to a sequence. A text's tokens are keys, values and queries at
// once, to keep the example short.
func extend(s *attn.Sequence, text uint64, n int) error {
	x := projected(text, storeKVHeads, s.Len(), n)
	return s.Append(x, x)
}

func newStore(pages int) *attn.Store {
	store, err := attn.NewStore(attn.StoreConfig{KVHeads: storeKVHeads, HeadDim: storeDim,
		ValueDim: storeDim, Pages: pages})
	if err != nil {
		panic(err)
	}
	return store
}

// A server takes requests as they come. Each step is one call: the prompt of a request that has
// just joined, in chunks, beside one new token of each of the others. A request's outputs have the
// bits that it has alone.
func ExampleStore_continuousBatching() {
	store, pool := newStore(16), attn.NewPool(0)
	defer pool.Close()
	type request struct {
		text             uint64
		joins, prompt, n int // the step in which it joins, the lengths of its prompt and of its answer
		s                *attn.Sequence
		last             []float32 // the outputs of its last token
	}
	requests := []*request{{text: 1, joins: 0, prompt: 100, n: 4},
		{text: 2, joins: 1, prompt: 5, n: 6}, {text: 3, joins: 3, prompt: 30, n: 2}}
	const chunk = 64 // tokens of a prompt in one step, so that the others need not wait long
	for step := 0; len(requests) > 0; step++ {
		var running []*request
		var seqs []*attn.Sequence
		var lens []int
		var q []float32
		for _, r := range requests {
			if step < r.joins {
				continue
			}
			n := 1
			if r.s == nil {
				r.s = store.NewSequence()
			}
			if left := r.prompt - r.s.Len(); left > 0 {
				n = min(left, chunk)
			}
			x := projected(r.text, storeHeads, r.s.Len(), n)
			if err := extend(r.s, r.text, n); err != nil {
				// a server compares PagesFor with FreePages before the step, and lets requests wait
				fmt.Println(err)
				return
			}
			running, seqs, lens, q = append(running, r), append(seqs, r.s), append(lens, n), append(q,
				x.Data...)
		}
		total := len(q) / storeHeads / storeDim
		dst := attn.BLHD(make([]float32, len(q)), 1, total, storeHeads, storeDim)
		err := pool.AttendSequences(dst, attn.BLHD(q, 1, total, storeHeads, storeDim), seqs,
			&attn.Options{Causal: attn.BottomRight, QueryLens: lens})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("step %d: queries %v, %d pages free\n", step, lens, store.FreePages())
		end := 0
		for i, r := range running {
			end += lens[i]
			r.last = dst.Data[(end-1)*storeHeads*storeDim:][:storeHeads*storeDim]
			if r.s.Len() == r.prompt+r.n {
				fmt.Printf("        text %d is done; the bits of one call alone: %t\n", r.text,
					slices.Equal(r.last, lastAlone(r.text, r.s.Len())))
				r.s.Release()
			}
		}
		requests = slices.DeleteFunc(requests, func(r *request) bool {
			return r.s != nil && r.s.Len() == 0
		})
	}
	// Output:
	// step 0: queries [64], 15 pages free
	// step 1: queries [36 5], 13 pages free
	// step 2: queries [1 1], 13 pages free
	// step 3: queries [1 1 30], 12 pages free
	// step 4: queries [1 1 1], 12 pages free
	// step 5: queries [1 1 1], 12 pages free
	//         text 1 is done; the bits of one call alone: true
	//         text 3 is done; the bits of one call alone: true
	// step 6: queries [1], 15 pages free
	// step 7: queries [1], 15 pages free
	//         text 2 is done; the bits of one call alone: true
}

// lastAlone is the outputs of the last of n tokens of a text, from one call of Attend over all of
// them.
func lastAlone(text uint64, n int) []float32 {
	x, q := projected(text, storeKVHeads, 0, n), projected(text, storeHeads, 0, n)
	dst := attn.BLHD(make([]float32, len(q.Data)), 1, n, storeHeads, storeDim)
	if err := attn.Attend(dst, q, x, x, &attn.Options{Causal: attn.TopLeft}); err != nil {
		panic(err)
	}
	return dst.Slice(n-1, n).Data
}

// Requests that begin with the same system prompt are forks of one sequence. Its pages are kept
// once, and read once for all of them.
func ExampleSequence_Fork() {
	store := newStore(16)
	system := store.NewSequence()
	if err := extend(system, 1, 200); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("pages of the prompt:", 16-store.FreePages())
	var seqs []*attn.Sequence
	var q []float32
	for text := range uint64(5) {
		s := system.Fork()
		q = append(q, projected(text, storeHeads, s.Len(), 1).Data...)
		if err := extend(s, text, 1); err != nil {
			fmt.Println(err)
			return
		}
		seqs = append(seqs, s)
	}
	// each has a copy of the last page, which was not full
	fmt.Println("pages with five requests:", 16-store.FreePages())
	dst := attn.BLHD(make([]float32, len(q)), 1, 5, storeHeads, storeDim)
	if err := attn.AttendSequences(dst, attn.BLHD(q, 1, 5, storeHeads, storeDim), seqs,
		&attn.Options{Causal: attn.BottomRight}); err != nil {
		fmt.Println(err)
		return
	}
	alone, same := attn.BLHD(make([]float32, storeHeads*storeDim), 1, 1, storeHeads, storeDim), 0
	for i, s := range seqs {
		one := attn.BLHD(q[i*storeHeads*storeDim:], 1, 1, storeHeads, storeDim)
		if err := attn.AttendSequences(alone, one, []*attn.Sequence{s},
			&attn.Options{Causal: attn.BottomRight}); err != nil {
			fmt.Println(err)
			return
		}
		if slices.Equal(alone.Data, dst.Data[i*storeHeads*storeDim:][:storeHeads*storeDim]) {
			same++
		}
		s.Release()
	}
	fmt.Println("requests with the bits that they have alone:", same)
	fmt.Println("pages after they left:", 16-store.FreePages())
	// Output:
	// pages of the prompt: 4
	// pages with five requests: 9
	// requests with the bits that they have alone: 5
	// pages after they left: 4
}

// Speculative decoding: a small model proposes tokens, the large one looks at all of them in one
// call, and what it does not accept is rolled back. Several proposals may be tried at once, each in
// a fork.
func ExampleSequence_Truncate() {
	store := newStore(16)
	s := store.NewSequence()
	if err := extend(s, 1, 70); err != nil {
		fmt.Println(err)
		return
	}
	const proposed = 4
	var seqs []*attn.Sequence
	var q []float32
	for proposal := range uint64(2) {
		try := s.Fork()
		q = append(q, projected(10+proposal, storeHeads, try.Len(), proposed).Data...)
		if err := extend(try, 10+proposal, proposed); err != nil {
			fmt.Println(err)
			return
		}
		seqs = append(seqs, try)
	}
	dst := attn.BLHD(make([]float32, len(q)), 1, 2*proposed, storeHeads, storeDim)
	err := attn.AttendSequences(dst, attn.BLHD(q, 1, 2*proposed, storeHeads, storeDim), seqs,
		&attn.Options{Causal: attn.BottomRight, QueryLens: []int{proposed, proposed}})
	if err != nil {
		fmt.Println(err)
		return
	}
	// The model's verdict would come from dst. Say that it accepts two tokens of the second proposal.
	seqs[0].Release()
	s.Release()
	s = seqs[1]
	if err := s.Truncate(70 + 2); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Len(), "tokens,", 16-store.FreePages(), "pages")
	// Output: 72 tokens, 2 pages
}

// A sliding window: what no query will see again is dropped, and its pages are free, while
// positions go on.
func ExampleSequence_DropBefore() {
	store := newStore(4)
	s := store.NewSequence()
	const window = 128
	opt := attn.Options{Causal: attn.BottomRight, Window: attn.Window{Left: window}}
	dst := attn.BLHD(make([]float32, storeHeads*storeDim), 1, 1, storeHeads, storeDim)
	most := 0
	for range 10_000 {
		q := projected(1, storeHeads, s.Len(), 1)
		if err := extend(s, 1, 1); err != nil {
			fmt.Println(err)
			return
		}
		if err := attn.AttendSequences(dst, q, []*attn.Sequence{s}, &opt); err != nil {
			fmt.Println(err)
			return
		}
		if err := s.DropBefore(max(0, s.Len()-window)); err != nil {
			fmt.Println(err)
			return
		}
		most = max(most, 4-store.FreePages())
	}
	fmt.Printf("position %d, tokens from %d on, at most %d pages\n", s.Len(), s.First(), most)
	// Output: position 10000, tokens from 9872 on, at most 3 pages
}
