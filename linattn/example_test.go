package linattn_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/linattn"
	"github.com/seed-1415985d/attn/nn"
)

// What a gated delta rule has around it, as Qwen3-Next: queries and keys of length 1, decays of
// projections, and a norm that is gated by SiLU. Everything is in place.
func ExampleDecay() {
	const heads, keys, values, n = 1, 2, 2, 2
	layer, err := linattn.NewState(linattn.Config{Heads: heads, KeyDim: keys, ValueDim: values,
		Rule: linattn.GatedDelta})
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
	done := func(result error) bool { err = result; return err == nil }
	_ = done(nn.L2Norm(p, q, q, 1e-6)) && // && stops at the first error
		done(nn.L2Norm(p, k, k, 1e-6)) &&
		done(linattn.Decay(p, decay, decay, aLog, dtBias)) &&
		done(nn.Activate(p, beta, beta, nn.Sigmoid)) &&
		done(layer.Append(p, dst, q, k, v, decay, beta)) &&
		done(nn.RMSNorm(p, dst, dst, weight, 1e-6)) &&
		done(nn.Gate(p, dst, gate, dst, nn.SiLU)) // silu(gate)·norm; Mamba-2: Gate, and then RMSNorm
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.4f\n%.4f\n", decay.Data, dst.Data)
	// Output:
	// [-0.2093 -2.1652]
	// [0.4624 -0.1701 1.4896 0.1764]
}

// Gated DeltaNet-2: gates for each channel say what is erased, read keys b⊙k, and what is written,
// values w⊙v.
func ExampleConfig_readKeys() {
	const heads, keys, values, n = 1, 2, 2, 3
	layer, err := linattn.NewState(linattn.Config{Heads: heads, KeyDim: keys, ValueDim: values,
		Rule: linattn.GatedDelta, ReadKeys: true, Scale: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer layer.Close()
	half := func(k []float32) attn.Tensor { // rows of written keys or of read keys
		return attn.Tensor{Data: k, B: 1, H: heads, L: n, D: keys, SB: 1, SH: n * 2 * keys, SL: 2 * keys}
	}
	both := []float32{1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0} // k, and room for b⊙k
	b := attn.BHLD([]float32{1, 1, 1, 1, 0.5, 1}, 1, heads, n, keys)
	w := attn.BHLD([]float32{1, 1, 1, 0.5, 1, 1}, 1, heads, n, values)
	q := attn.BHLD([]float32{1, 0, 0, 1, 1, 0}, 1, heads, n, keys)
	v := attn.BHLD([]float32{1, 2, 3, 4, 5, 6}, 1, heads, n, values)
	decay := attn.BHLD(make([]float32, n), 1, heads, n, 1) // nothing is forgotten
	one := attn.BHLD([]float32{1, 1, 1}, 1, heads, n, 1)
	dst := attn.BHLD(make([]float32, n*values), 1, heads, n, values)
	done := func(result error) bool { err = result; return err == nil }
	_ = done(nn.Gate(nil, half(both[keys:]), half(both), b, nn.None)) && // a product
		done(nn.Gate(nil, v, v, w, nn.None)) &&
		done(layer.Append(nil, dst, q, attn.BHLD(both, 1, heads, n, 2*keys), v, decay, one))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(dst.Data)
	// Output:
	// [1 2 3 2 5.5 7]
}

// A prompt and a token after it, of a layer with one head of two channels.
func ExampleState_Append() {
	layer, err := linattn.NewState(linattn.Config{Heads: 1, KeyDim: 2, ValueDim: 2,
		Rule: linattn.GatedDelta, Scale: 1})
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

// Wrong guesses of the next tokens are removed by going back to a checkpoint, and several
// answers go on from the same tokens.
func ExampleState_Checkpoint() {
	layer, err := linattn.NewState(linattn.Config{Heads: 1, KeyDim: 2, ValueDim: 2, Scale: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer layer.Close()
	append20 := func(s *linattn.State, value float32) []float32 { // 20 tokens of one kind
		key := attn.View[float32]{Data: []float32{1, 0}, B: 1, H: 1, L: 20, D: 2, SB: 2, SH: 2,
			SL: attn.Broadcast}
		values := key
		values.Data = []float32{0, value}
		dst := attn.BHLD(make([]float32, 40), 1, 1, 20, 2)
		if err := s.Append(nil, dst, key, key, values, attn.Tensor{}, attn.Tensor{}); err != nil {
			log.Fatal(err)
		}
		return dst.Row(0, 0, 19)
	}
	fmt.Println(append20(layer, 1), layer.Len())

	layer.Checkpoint()
	fmt.Println(append20(layer, 3), "is wrong")
	if err := layer.Truncate(20); err != nil { // tokens of before the chunk at hand: to there only
		log.Fatal(err)
	}
	other := layer.Fork()
	defer other.Close()
	fmt.Println(append20(layer, 2), append20(other, -1), other.Len())
	// Output:
	// [0 20] 20
	// [0 80] is wrong
	// [0 60] [0 0] 40
}

// A conversation that is not needed for a while goes to a file.
func ExampleState_Save() {
	c := linattn.Config{Heads: 1, KeyDim: 2, ValueDim: 2, Rule: linattn.Delta, Scale: 1}
	layer, err := linattn.NewState(c)
	if err != nil {
		log.Fatal(err)
	}
	row := func(x ...float32) attn.Tensor { return attn.BHLD(x, 1, 1, 1, len(x)) }
	dst, key, beta := row(0, 0), row(1, 0), row(1)
	err = layer.Append(nil, dst, key, key, row(3, 4), attn.Tensor{}, beta)
	if err != nil {
		log.Fatal(err)
	}
	var file bytes.Buffer
	if _, err := layer.Save(&file); err != nil {
		log.Fatal(err)
	}
	_ = layer.Close()

	later, err := linattn.NewState(c)
	if err != nil {
		log.Fatal(err)
	}
	defer later.Close()
	if _, err := later.Load(&file); err != nil {
		log.Fatal(err)
	}
	memory := attn.BHLD(make([]float32, 4), 1, 1, 2, 2)
	if err := later.Read(memory); err != nil {
		log.Fatal(err)
	}
	fmt.Println(later.Len(), memory.Data)
	// Output:
	// 1 [3 4 0 0]
}
