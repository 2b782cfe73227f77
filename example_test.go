package attn_test

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/sanitize"
	"github.com/seed-1415985d/attn/nn"
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

// Attend computes what the formula says, for sizes in whole and ragged tiles, blocks and segments.
func TestAttendIsTheFormula(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range [][4]int{{1, 1, 1, 1}, {3, 5, 4, 2}, {13, 65, 8, 24}, {40, 200, 64, 64},
		{2, 1100, 33, 17}} {
		queries, keys, d, dv := n[0], n[1], n[2], n[3]
		random := func(l, d int) (x attn.Tensor, rows [][]float32) {
			x = matrix(l, make([]float32, l*d)...)
			for i := range x.Data {
				x.Data[i] = float32(r.NormFloat64())
			}
			return x, slices.Collect(slices.Chunk(x.Data, d))
		}
		q, qRows := random(queries, d)
		k, kRows := random(keys, d)
		v, vRows := random(keys, dv)
		dst := matrix(queries, make([]float32, queries*dv)...)
		check(attn.Attend(dst, q, k, v, nil))
		want := slices.Concat(attention(qRows, kRows, vRows)...)
		for i, e := range dst.Data {
			if !(math.Abs(float64(e-want[i])) <= 1e-5) {
				t.Fatalf("%v: element %d is %v, by the formula %v", n, i, e, want[i])
			}
		}
	}
}

// Dot-product attention of two queries over two keys: with a causal mask the
// first query sees the first key only.
func ExampleAttend() {
	q := matrix(2, 1, 0, 0, 0, 1, 0)
	k := matrix(2, 1, 2, 3, 4, 5, 6)
	v := matrix(2, 0, 1, 0, 1, 0, 1)
	dst := matrix(2, make([]float32, 6)...)

	for _, opt := range []*attn.Options{nil, {Causal: attn.TopLeft},
		{Causal: attn.TopLeft, Scale: 1}} {
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
	if err := attn.Attend(dst, q, k, v, &attn.Options{Mask: mask}); err != nil {
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
	if err := attn.Attend(dst, q, k, v, &attn.Options{Bias: bias}); err != nil {
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
	if err := attn.Attend(dst, q, k, v, &attn.Options{Scale: 1, Weights: weights}); err != nil {
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
	q, k, v, out := sequence(heads), sequence(kvHeads), sequence(kvHeads), sequence(heads)

	pool := attn.NewPool(2)
	defer pool.Close()
	cache, err := attn.NewCache(attn.CacheConfig{Batch: 1, KVHeads: kvHeads, HeadDim: dim,
		ValueDim: dim, Capacity: length})
	check(err)
	defer cache.Close()
	causal := &attn.Options{Causal: attn.BottomRight} // the last query sees the last key
	for from, to := 0, prompt; from < length; from, to = to, to+1 {
		check(cache.Append(k.Slice(from, to), v.Slice(from, to)))
		check(pool.AttendCache(out.Slice(from, to), q.Slice(from, to), cache, causal))
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

// A prompt that many requests begin with is computed once and kept on disk. Two requests fork it,
// and go on by themselves.
func ExampleSequence_Save() {
	config := attn.StoreConfig{KVHeads: 1, HeadDim: 2, ValueDim: 2, Pages: 8, Format: attn.BF16}
	prompt := matrix(3,
		1, 0,
		0, 1,
		1, 1)

	file, err := os.CreateTemp("", "prompt")
	check(err)
	defer os.Remove(file.Name())
	defer file.Close()
	{ // one process
		store, err := attn.NewStore(config)
		check(err)
		defer store.Close()
		s := store.NewSequence()
		check(s.Append(prompt, prompt))
		_, err = s.Save(file)
		check(err)
	}
	_, err = file.Seek(0, io.SeekStart)
	check(err)

	// Another one, perhaps on another machine.
	store, err := attn.NewStore(config)
	check(err)
	defer store.Close()
	cached := store.NewSequence()
	_, err = cached.Load(file)
	check(err)
	fmt.Println(cached.Len(), "tokens,", config.Pages-store.FreePages(), "page")

	requests := []*attn.Sequence{cached.Fork(), cached.Fork()}
	for i, token := range []attn.Tensor{matrix(1, 4, 0), matrix(1, 0, 4)} {
		check(requests[i].Append(token, token))
	}
	q, out := matrix(2, 8, 0, 8, 0), matrix(2, make([]float32, 4)...) // one query of each
	check(attn.AttendSequences(out, q, requests, &attn.Options{Causal: attn.BottomRight}))
	printRows(out, "%.3f")
	// Output:
	// 3 tokens, 1 page
	// 4.000 0.000
	// 0.997 0.507
}

// Context parallelism: four workers each hold a quarter of the keys and values
// of one sequence, as four machines would. Each runs the queries over its own
// quarter and sends its state; the states merge to exactly what one machine
// with all keys computes.
func Example_contextParallel() {
	const (
		heads, queries, dim = 2, 5, 16
		quarter             = 4 * attn.Segment // parts of 2ᵏ segments are exact, and travel as one state
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
	config := attn.StateConfig{Batch: 1, Heads: heads, Queries: queries, ValueDim: dim}
	var workers sync.WaitGroup
	for i := range messages {
		workers.Go(func() {
			mine := func(x attn.Tensor) attn.Tensor { return x.Slice(i*quarter, (i+1)*quarter) }
			state, err := attn.NewState(config)
			check(err)
			// The worker's first key has position 0 in its state.
			check(state.Update(q, mine(k), mine(v), &attn.Options{Causal: attn.TopLeft,
				Offset: position - i*quarter}))
			messages[i], err = state.MarshalBinary()
			check(err)
		})
	}
	workers.Wait()

	// The receiver: merge in the order of the keys.
	whole, err := attn.NewState(config)
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
	// keys: 16384 bytes sent by each worker: 768
	// output identical: true
	// LSE identical: true
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// The weights of a Linear layer have a row for each output. They are packed as they are, or in
// fewer bits.
func ExamplePackMatrix_transposed() {
	weights := matrix(2, // 2 outputs of 3 inputs
		1, 2, 3,
		4, 5, 6)
	bias := []float32{0.5, -0.5}
	x := matrix(1, 1, 0, 2)
	y := matrix(1, make([]float32, 2)...)

	layer, err := attn.PackMatrix(weights, attn.MatrixConfig{Transposed: true})
	if err != nil {
		panic(err)
	}
	if err := layer.MatMul(y, x, bias); err != nil {
		panic(err)
	}
	printRows(y, "%g")

	small, err := attn.PackMatrix(weights, attn.MatrixConfig{Format: attn.BF16, Transposed: true})
	if err != nil {
		panic(err)
	}
	if err := small.MatMul(y, x, bias); err != nil {
		panic(err)
	}
	printRows(y, "%g")
	fmt.Println(layer.MemoryUse() / small.MemoryUse())
	// Output:
	// 7.5 15.5
	// 7.5 15.5
	// 2
}

// A model with tied weights keeps one matrix: its rows are the embeddings of tokens, and products
// by it are logits.
func ExampleMatrix_Rows() {
	weights := matrix(4, // 4 tokens, of 2 numbers each
		1, 0,
		0, 1,
		0.5, 2,
		3, -1)
	c := attn.MatrixConfig{Format: attn.BF16, Transposed: true}
	m, err := attn.PackMatrix(weights, c)
	check(err)
	_, _, width, tokens := m.Dims()

	x := matrix(3, make([]float32, 3*width)...)
	check(m.Rows(x, []int32{2, 0, 2}))
	printRows(x, "%g")

	logits := matrix(3, make([]float32, 3*tokens)...)
	check(m.MatMul(logits, x, nil))
	printRows(logits, "%g")
	// Output:
	// 0.5 2
	// 1 0
	// 0.5 2
	// 0.5 2 4.25 -0.5
	// 1 0 0.5 3
	// 0.5 2 4.25 -0.5
}

// Whoever gets a matrix from a file can ask what it is made of.
func ExampleMatrix_BlockType() {
	tensor := make([]byte, 3*34) // of a GGUF file: 3 outputs, each a block of 32 inputs
	m, err := attn.PackBlocks(tensor, attn.Q8_0, 3, 32, attn.MatrixConfig{Integers: true})
	check(err)
	fmt.Println(m.Format())
	if t, ok := m.BlockType(); ok {
		fmt.Println(t)
	}
	// Output:
	// Blocks
	// Q8_0
}

// Weights are packed once and kept in a file. A program that maps it starts at once, and its
// products have the same bits.
func ExampleMapMatrix() {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("up_proj.%d.attn", os.Getpid()))
	defer os.Remove(path)
	{ // once
		weights := matrix(2, // 2 outputs of 3 inputs
			1, 2, 3,
			4, 5, 6)
		packed, err := attn.PackMatrix(weights, attn.MatrixConfig{Format: attn.BF16, Transposed: true})
		check(err)
		file, err := os.Create(path)
		check(err)
		_, err = packed.Save(file)
		check(err)
		check(file.Close())
	}

	layer, err := attn.MapMatrix(path)
	check(err)
	defer layer.Close()
	_, _, inputs, outputs := layer.Dims()
	fmt.Println(inputs, "inputs,", outputs, "outputs")

	y := matrix(1, make([]float32, outputs)...)
	check(layer.MatMul(y, matrix(1, 1, 0, 2), nil))
	printRows(y, "%g")
	// Output:
	// 3 inputs, 2 outputs
	// 7 16
}

// Options of a call to a Pool cost no allocation.
func ExamplePool_Attend() {
	pool := attn.NewPool(0)
	defer pool.Close()
	q := attn.BHLD([]float32{0, 0, 0}, 1, 1, 3, 1)
	v := attn.BHLD([]float32{1, 2, 3}, 1, 1, 3, 1)
	dst := attn.BHLD(make([]float32, 3), 1, 1, 3, 1)
	for _, keys := range []int{1, 2} { // the query's own among them
		err := pool.Attend(dst, q, q, v, &attn.Options{
			Causal: attn.TopLeft, Window: attn.Window{Left: keys}})
		if err != nil {
			fmt.Println(err)
		}
		fmt.Println(dst.Data)
	}
	// Output:
	// [1 2 3]
	// [1 1.5 2.5]
}

// rows is an engine's own step, by rows of a matrix: here each row becomes what attn.Softmax makes
// of it.
type rows struct{ x attn.Tensor }

func (r *rows) Work(part int) {
	row := r.x.Row(0, 0, part)
	attn.Softmax(row, row)
}

// A loop of the engine itself on the workers that compute attention and products.
func ExamplePool_Run() {
	pool := attn.NewPool(0)
	defer pool.Close()
	step := &rows{matrix(2, // a pointer, which is kept: Run does not allocate
		0, 0, 0, 0,
		3, 3, -90, -90)}
	check(pool.Run(step.x.L, step))
	printRows(step.x, "%.2f")
	// Output:
	// 0.25 0.25 0.25 0.25
	// 0.50 0.50 0.00 0.00
}

// An indexer gives each query scores of all keys, the query sees the best of them: scores, [TopK],
// ascending positions, Keys. Heads that share an indexer share the list.
func ExampleOptions_keys() {
	const heads, d, tokens, n = 2, 2, 6, 3
	cache, err := attn.NewCache(attn.CacheConfig{
		Batch: 1, KVHeads: 1, HeadDim: d, ValueDim: 1, Capacity: tokens})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cache.Close()
	k := attn.BHLD(make([]float32, tokens*d), 1, 1, tokens, d)
	v := attn.BHLD([]float32{1, 2, 4, 8, 16, 32}, 1, 1, tokens, 1)
	if err := cache.Append(k, v); err != nil {
		fmt.Println(err)
	}

	scores := []float32{0.5, -1, 1, 2, 0.1, 2} // of the index, for each key
	list := slices.Repeat([]int32{-1}, n)
	slices.Sort(list[:attn.TopK(list, scores)])

	q := attn.BHLD(make([]float32, heads*d), 1, heads, 1, d)
	dst := attn.BHLD(make([]float32, heads), 1, heads, 1, 1)
	weights := attn.BHLD(make([]float32, heads*n), 1, heads, 1, n)
	err = cache.Attend(dst, q, &attn.Options{
		Causal: attn.BottomRight, Keys: attn.BHLD(list, 1, 1, 1, n), Weights: weights})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(list, dst.Data, weights.Row(0, 0, 0))
	// Output:
	// [2 3 5] [14.666667 14.666667] [0.33333334 0.33333334 0.33333334]
}

// A query is to see the keys with the largest scores only, in ascending order of their positions.
func ExampleTopK() {
	scores := []float32{0.5, -1, 1, 2, 0.1, 2}
	var best [3]int32
	n := attn.TopK(best[:], scores)
	fmt.Println(best[:n]) // by score, equal ones by position
	slices.Sort(best[:n])
	fmt.Println(best[:n]) // by position
	// Output:
	// [3 5 2]
	// [2 3 5]
}

// Experts is the feed-forward part of a layer: each token goes through a few of its experts.
type Experts struct {
	router         *attn.Matrix
	gate, up, down []*attn.Matrix
	each           int // experts of a token
}

// Forward adds to dst what the experts of each of the tokens give. A router chooses them by the
// token's logits, one for each expert, and says how much each counts.
func (m *Experts) Forward(pool *attn.Pool, dst, x attn.Tensor,
	router func(chosen []int32, weights, logits []float32)) error {
	_, _, model, hidden := m.gate[0].Dims()
	tokens, n := x.L, m.each
	logits := make([]float32, tokens*len(m.gate)) // a server keeps such buffers
	chosen := attn.BHLD(make([]int32, tokens*n), 1, 1, tokens, n)
	weights := make([]float32, tokens*n)
	rows := func(d int) attn.Tensor {
		return attn.BLHD(make([]float32, tokens*n*d), 1, tokens, n, d) // n rows a token
	}
	gate, up, down := rows(hidden), rows(hidden), rows(model)

	err := pool.MulMatrix(attn.BHLD(logits, 1, 1, tokens, len(m.gate)), x, m.router, nil)
	if err != nil {
		return err
	}
	for t := range tokens {
		router(chosen.Row(0, 0, t), weights[t*n:][:n], logits[t*len(m.gate):][:len(m.gate)])
	}
	if err := pool.MulExperts(gate, x, m.gate, chosen, nil); err != nil {
		return err
	}
	if err := pool.MulExperts(up, x, m.up, chosen, nil); err != nil {
		return err
	}
	if err := nn.Gate(pool, gate, gate, up, nn.SiLU); err != nil {
		return err
	}
	if err := pool.MulExperts(down, gate, m.down, chosen, nil); err != nil {
		return err
	}
	sum := attn.BHLD(make([]float32, tokens*model), 1, 1, tokens, model)
	if err := nn.Combine(pool, sum, down, attn.BHLD(weights, 1, 1, tokens, n)); err != nil {
		return err
	}
	return nn.Add(pool, dst, dst, sum)
}

// softmaxRouter chooses the experts with the largest softmax, which is their weight, as of all
// experts in Qwen2-MoE, or as of those that are chosen in Qwen3-MoE, Mixtral and gpt-oss.
func softmaxRouter(normalised bool) func(chosen []int32, weights, logits []float32) {
	return func(chosen []int32, weights, logits []float32) {
		attn.TopK(chosen, logits)
		slices.Sort(chosen) // the order of sums does not depend on weights
		if !normalised {
			attn.Softmax(logits, logits)
		}
		for j, expert := range chosen {
			weights[j] = logits[expert]
		}
		if normalised {
			attn.Softmax(weights, weights)
		}
	}
}

// sigmoidRouter is that of DeepSeek-V3 and GLM-4.5: a bias, which keeps experts equally busy,
// counts in what is chosen but not in the weights, whose sum is a factor of the model.
func sigmoidRouter(bias []float32, factor float32) func(chosen []int32, weights,
	logits []float32) {
	scores, biased := make([]float32, len(bias)), make([]float32, len(bias))
	return func(chosen []int32, weights, logits []float32) {
		n := len(logits)
		err := nn.Activate(nil, attn.BHLD(scores, 1, 1, 1, n), attn.BHLD(logits, 1, 1, 1, n),
			nn.Sigmoid)
		check(err)
		for i, score := range scores {
			biased[i] = score + bias[i]
		}
		attn.TopK(chosen, biased)
		slices.Sort(chosen)
		sum := float32(0)
		for j, expert := range chosen {
			weights[j] = scores[expert]
			sum += weights[j]
		}
		for j := range weights {
			weights[j] = weights[j] / sum * factor
		}
	}
}

// newExperts returns four experts for tokens of two numbers. Each gives the token's sum of squares,
// roughly, times its number.
func newExperts() *Experts {
	pack := func(weights attn.Tensor) *attn.Matrix {
		m, err := attn.PackMatrix(weights, attn.MatrixConfig{Transposed: true})
		check(err)
		return m
	}
	m := &Experts{each: 2}
	m.router = pack(matrix(4,
		1, 0,
		0, 1,
		-1, 0,
		0.5, 0.5))
	for i := range 4 {
		number := float32(i + 1)
		m.gate = append(m.gate, pack(matrix(2, 8, 0, 0, 8)))
		m.up = append(m.up, pack(matrix(2, 1, 0, 0, 1)))
		m.down = append(m.down, pack(matrix(2, number/8, number/8, 0, number)))
	}
	return m
}

// A mixture of experts: a router chooses two of four for each token, by the softmax of its scores.
func ExampleMulExperts() {
	m := newExperts()
	x := matrix(3, 4, 1, -1, 2, 1, 4)
	for _, normalised := range []bool{true, false} {
		y := matrix(3, make([]float32, 6)...)
		check(m.Forward(nil, y, x, softmaxRouter(normalised)))
		printRows(y, "%.3f")
	}
	// Output:
	// 26.303 12.374
	// 9.077 72.606
	// 40.202 302.701
	// 25.268 11.887
	// 7.567 60.529
	// 38.426 289.330
}

// Routers of DeepSeek-V3 and GLM-4.5 add a bias to sigmoids before they choose.
func ExampleMulExperts_sigmoid() {
	m := newExperts()
	x := matrix(3, 4, 1, -1, 2, 1, 4)
	y := matrix(3, make([]float32, 6)...)
	check(m.Forward(nil, y, x, sigmoidRouter([]float32{0, 0, 0.6, 0}, 2.5)))
	printRows(y, "%.3f")
	// Output:
	// 104.312 49.073
	// 24.538 196.284
	// 126.207 950.285
}

// Experts that every token goes through are a matrix like others: what the chosen ones give is
// added to what it gives, in Qwen2-MoE times the sigmoid of one more score of the token.
func ExampleMulExperts_shared() {
	m := newExperts()
	x := matrix(3, 4, 1, -1, 2, 1, 4)
	y := matrix(3, make([]float32, 6)...)
	shared, err := attn.PackMatrix(matrix(2, 1, 0, 0, 1), attn.MatrixConfig{Transposed: true})
	check(err)
	check(shared.MatMul(y, x, nil)) // of a model: by its gate, up and down
	score := matrix(3, 0, 0, 4)
	check(nn.Activate(nil, score, score, nn.Sigmoid))
	for t := range 3 {
		row := y.Row(0, 0, t)
		for i := range row {
			row[i] *= score.Row(0, 0, t)[0]
		}
	}
	check(m.Forward(nil, y, x, softmaxRouter(true)))
	printRows(y, "%.3f")
	// Output:
	// 28.303 12.874
	// 8.577 73.606
	// 41.184 306.629
}

// Example_multiHead says that its Forward does not allocate.
func TestNoAllocationInMultiHead(t *testing.T) {
	if sanitize.Enabled {
		return // its calls allocate
	}
	m, err := newMultiHead(3)
	check(err)
	n := testing.AllocsPerRun(20, func() {
		var x, dst [3 * 4]float32
		check(m.Forward(dst[:], x[:], 3))
	})
	if n != 0 {
		t.Errorf("%v allocations per call, want 0", n)
	}
}
