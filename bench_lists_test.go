package attn

import (
	"fmt"
	"slices"
	"testing"
)

// BenchmarkLists compares one query of 128 heads over 2048 of 131072 latent tokens with a call over
// 2048 tokens that lie together, in turns: the ratio of their times.
func BenchmarkLists(b *testing.B) {
	const heads, keys, listed, d, dv = 128, 131072, 2048, 576, 512
	r := random("lists")
	q, dst := tensor(r, normal, 1, heads, 1, d), zeros(1, heads, 1, dv)
	list := make([]int32, listed)
	for i, j := range r.Perm(keys)[:listed] {
		list[i] = int32(j)
	}
	slices.Sort(list)
	tokens := tensor(r, normal, 1, 1, listed, d)
	for _, format := range []Format{BF16, I8} {
		config := CacheConfig{Batch: 1, KVHeads: 1, HeadDim: d, ValueDim: dv, Capacity: keys,
			Format: format, ValuesInKeys: true}
		scattered, err := NewCache(config)
		must(b, err)
		for range keys / listed {
			must(b, scattered.Append(tokens, Tensor{}))
		}
		config.Capacity = listed
		side, err := NewCache(config)
		must(b, err)
		must(b, side.Append(tokens, Tensor{}))
		for _, integers := range []bool{false, true}[:1+zeroIf(format != I8)] {
			b.Run(fmt.Sprintf("%v, integers %t", format, integers), func(b *testing.B) {
				ratio(b, func() error {
					return scattered.Attend(dst, q, &Options{Integers: integers,
						Keys: BHLD(list, 1, 1, 1, listed)})
				}, func() error { return side.Attend(dst, q, &Options{Integers: integers}) })
			})
		}
		must(b, scattered.Close())
		must(b, side.Close())
	}
}
