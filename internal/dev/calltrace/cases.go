package main

import "github.com/seed-1415985d/attn"

// tracedCall runs on the calling goroutine.
type tracedCall struct {
	name string
	run  func()
}

// cases are those of the benchmarks, and keys and values in the layout that kernels find hardest to
// read. Decoding is after a token that leaves the last block half full, as nearly always.
func cases() []tracedCall {
	const prefill, heads, kv, keys, d = 1024, 32, 8, 4096 - 31, 128
	x := attn.BHLD(take(8*prefill*64), 1, 8, prefill, 64)
	out := attn.BHLD(take(8*prefill*64), 1, 8, prefill, 64)
	q, one := attn.BHLD(take(heads*d), 1, heads, 1, d), attn.BHLD(take(heads*d), 1, heads, 1, d)
	k, v := attn.BLHD(take(keys*kv*d), 1, keys, kv, d), attn.BLHD(take(keys*kv*d), 1, keys, kv, d)
	views := func() { must(attn.Attend(one, q, k, v, nil)) }
	return []tracedCall{
		{"prefill", func() { must(attn.Attend(out, x, x, x, nil)) }},
		{"prefill, causal", func() {
			must(attn.Attend(out, x, x, x, &attn.Options{Causal: attn.TopLeft}))
		}},
		{"decode, F32 cache", decodeCache(attn.F32, one, q, k, v)},
		{"decode, I8 cache", decodeCache(attn.I8, one, q, k, v)},
		{"decode, BLHD views", views},
		{"AttendSequences", sequences()},
	}
}

// decodeCache attends over a cache of the tokens k, v.
func decodeCache(f attn.Format, dst, q, k, v attn.Tensor) func() {
	c, err := attn.NewCache(attn.CacheConfig{
		Batch: 1, KVHeads: k.H, HeadDim: k.D, ValueDim: v.D, Capacity: k.L, Format: f})
	must(err)
	must(c.Append(k, v))
	return func() { must(c.Attend(dst, q, &attn.Options{Causal: attn.BottomRight})) }
}

// sequences decodes sequences of different lengths, of which some share their first pages.
func sequences() func() {
	const heads, kv, d, shared, n = 8, 2, 64, 1200, 4
	store, err := attn.NewStore(attn.StoreConfig{KVHeads: kv, HeadDim: d, ValueDim: d, Pages: 200})
	must(err)
	token := func(l int) attn.Tensor { return attn.BLHD(take(l*kv*d), 1, l, kv, d) }
	first, alone := store.NewSequence(), store.NewSequence()
	must(first.Append(token(shared), token(shared)))
	must(alone.Append(token(100), token(100)))
	seqs := []*attn.Sequence{first, alone}
	for len(seqs) < n {
		s := first.Fork()
		must(s.Append(token(10*len(seqs)), token(10*len(seqs))))
		seqs = append(seqs, s)
	}
	q, dst := attn.BHLD(take(heads*n*d), 1, heads, n, d), attn.BHLD(take(heads*n*d), 1, heads, n, d)
	return func() {
		must(attn.AttendSequences(dst, q, seqs, &attn.Options{Causal: attn.BottomRight}))
	}
}

// memory is for all operands, so that their order, which decides how they are checked, is the same
// in each run.
var memory = make([]float32, 12<<20)

// take returns a part of memory, in which values differ.
func take(n int) (x []float32) {
	x, memory = memory[:n:n], memory[n:]
	for i := range x {
		x[i] = float32(i*7919%1021)/1021 - 0.5
	}
	return x
}
