//go:build !purego && !race && !asan && !msan

package attn

import "testing"

// Reading in order does not allocate, from views or from a cache.
func TestNoAllocationInOrder(t *testing.T) {
	readingAs(t, sequentialReads)
	forEach(t, func(t *testing.T) {
		p := newProblem(random("no allocation"), normal, shape{1, 1, 1, 1, 300, 8, 8})
		c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 8, ValueDim: 8, Capacity: 300})
		must(t, err)
		must(t, c.Append(p.k, p.v))
		mustRunWithoutAllocation(t, func() error {
			var dst [8]float32
			o := BHLD(dst[:], 1, 1, 1, 8)
			if err := Attend(o, p.q, p.k, p.v, nil); err != nil {
				return err
			}
			return c.Attend(o, p.q, nil)
		})
	})
}
