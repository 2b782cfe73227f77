package embed

import (
	"fmt"

	"github.com/seed-1415985d/attn"
)

// loadDistances loads the relative position bias of T5 and MPNet: in all layers each head adds a
// number to the score of a query and a key by the bucket of their distance.
func (m *Model) loadDistances(b *builder) {
	if m.buckets == 0 {
		return
	}
	weights := b.Tensor(b.at+m.names.distances+".weight", m.buckets, m.heads)
	if b.Err != nil {
		return
	}
	x := &m.distance
	x.Query = attn.BHLD(make([]float32, m.heads*m.buckets), 1, m.heads, 1, m.buckets)
	for i, e := range weights {
		x.Query.Row(0, i%m.heads, 0)[i/m.heads] = e
	}
	for d := -farthest; d <= farthest; d++ {
		x.Buckets = append(x.Buckets, int32(bucket(d, m.buckets)))
	}
}

// checkBuckets refuses numbers of buckets that bucket cannot divide.
func checkBuckets(n int) error {
	if n < 4 || n > 256 || n%4 != 0 {
		return fmt.Errorf("relative_attention_num_buckets is %d, want a multiple of 4 up to 256", n)
	}
	return nil
}

// farthest is the distance from which on all pairs are in the last bucket.
const farthest = 128

// bucket returns the bucket of a distance, key − query. Half of the buckets are for keys before the
// query, half for keys after it. Of either half, the first half of buckets have one distance each;
// the others divide the distances up to farthest on a logarithmic scale.
func bucket(offset, buckets int) int {
	side, first := buckets/2, 0
	if offset > 0 {
		first = side
	}
	n := max(offset, -offset)
	exact := side / 2
	if n < exact {
		return first + n
	}
	wide := 0 // the largest k with n ≥ exact·(farthest/exact)^(k/(side−exact))
	for wide < side-exact-1 && reaches(n, exact, wide+1, side-exact) {
		wide++
	}
	return first + exact + wide
}

// reaches reports whether (n/exact)^pieces ≥ (farthest/exact)^k. For 32 buckets float64 is exact
// here, and so is T5's code at powers of two.
func reaches(n, exact, k, pieces int) bool {
	left, right := 1.0, 1.0
	for range pieces {
		left *= float64(n) / float64(exact)
	}
	for range k {
		right *= float64(farthest) / float64(exact)
	}
	return left >= right
}
