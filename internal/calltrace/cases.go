package main

import "github.com/seed-1415985d/attn"

// tracedCall runs on the calling goroutine.
type tracedCall struct {
	name string
	run  func()
}

// cases are those of the benchmarks, and keys and values in the layout that kernels find hardest to read.
func cases() []tracedCall {
	const prefill, heads, keys = 1024, 32, 4096
	x, out := attn.BHLD(take(8*prefill*64), 1, 8, prefill, 64), attn.BHLD(take(8*prefill*64), 1, 8, prefill, 64)
	q, one := attn.BHLD(take(heads*128), 1, heads, 1, 128), attn.BHLD(take(heads*128), 1, heads, 1, 128)
	k, v := attn.BLHD(take(keys*heads*128), 1, keys, heads, 128), attn.BLHD(take(keys*heads*128), 1, keys, heads, 128)
	cache, err := attn.NewCache(attn.CacheConfig{Batch: 1, KVHeads: heads, HeadDim: 128, ValueDim: 128, Capacity: keys})
	must(err)
	must(cache.Append(k, v))
	return []tracedCall{
		{"prefill B1 H8 L1024 D64", func() { must(attn.Attend(out, x, x, x, nil)) }},
		{"prefill, causal", func() { must(attn.Attend(out, x, x, x, &attn.Options{Causal: attn.TopLeft})) }},
		{"decode H32 KV32 Lk4096 D128, cache", func() { must(cache.Attend(one, q, nil)) }},
		{"decode, keys and values in BLHD views", func() { must(attn.Attend(one, q, k, v, nil)) }},
	}
}

// memory is for all operands, so that their order, which decides how they are checked, is the same in each run.
var memory = make([]float32, 2*(8*1024*64+32*128+4096*32*128))

// take returns a part of memory, in which values differ.
func take(n int) (x []float32) {
	x, memory = memory[:n:n], memory[n:]
	for i := range x {
		x[i] = float32(i*7919%1021)/1021 - 0.5
	}
	return x
}
