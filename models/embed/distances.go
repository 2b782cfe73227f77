package embed

import "github.com/seed-1415985d/attn"

// loadDistances computes the relative position bias of MPNet, as in T5: each head adds a bias to
// the score of a query and a key by the bucket of their distance. The table covers the longest
// text. Only differences matter, so shorter texts and batches use its beginning.
func (m *Model) loadDistances(b *builder) {
	if m.buckets == 0 {
		return
	}
	weights := b.Tensor(b.at+m.names.distances+".weight", m.buckets, m.heads)
	if b.Err != nil {
		return
	}
	n := m.description.longest
	m.distance = make([]float32, m.heads*n*n)
	line := make([]float32, 2*n-1) // indexed by key − query + n − 1
	for h := range m.heads {
		for i := range line {
			line[i] = weights[bucket(i-(n-1), m.buckets)*m.heads+h]
		}
		for query := range n {
			copy(m.distance[(h*n+query)*n:][:n], line[n-1-query:])
		}
	}
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

// bias returns the part of the table for the batch.
func (r *runner) bias() attn.Tensor {
	if r.distance == nil {
		return attn.Tensor{}
	}
	n, tokens := r.description.longest, r.tokens/max(1, len(r.seen))
	return attn.Tensor{Data: r.distance, B: 1, H: r.heads, L: tokens, D: tokens,
		SB: r.heads * n * n, SH: n * n, SL: n}
}
