package embed

import "github.com/seed-1415985d/attn"

// takeDistances makes the bias of MPNet, which T5 has, too: what each head adds to the score of a
// query and a key depends on their distance, in buckets that become wider. The table has all
// queries and keys of the longest text; that of another text, or of texts side by side, is its
// beginning, as only differences count.
func (m *Model) takeDistances(b *builder) {
	if m.buckets == 0 {
		return
	}
	weights := b.Tensor(b.at+m.names.distances+".weight", m.buckets, m.heads)
	if b.Err != nil {
		return
	}
	n := m.description.longest
	m.distance = make([]float32, m.heads*n*n)
	line := make([]float32, 2*n-1) // by key − query + n − 1
	for head := range m.heads {
		for i := range line {
			line[i] = weights[bucket(i-(n-1), m.buckets)*m.heads+head]
		}
		for query := range n {
			copy(m.distance[(head*n+query)*n:][:n], line[n-1-query:])
		}
	}
}

// farthest is the distance from which on all are in the last bucket.
const farthest = 128

// bucket is that of a key behind a query, or before it where the distance is negative. Half are
// for each side, half of these for one distance each, and the others for 1, 2, … parts of the way
// from there to farthest, on a scale of logarithms.
func bucket(distance, buckets int) int {
	side, first := buckets/2, 0
	if distance > 0 {
		first = side
	}
	n := max(distance, -distance)
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

// reaches says whether (n/exact)^parts ≥ (farthest/exact)^k, in float64, where it is exact for 32
// buckets: in T5's code, too, powers of two are.
func reaches(n, exact, k, parts int) bool {
	left, right := 1.0, 1.0
	for range parts {
		left *= float64(n) / float64(exact)
	}
	for range k {
		right *= float64(farthest) / float64(exact)
	}
	return left >= right
}

// bias is the part of the table for the batch.
func (r *runner) bias() attn.Tensor {
	if r.distance == nil {
		return attn.Tensor{}
	}
	n, tokens := r.description.longest, r.tokens/max(1, len(r.seen))
	return attn.Tensor{Data: r.distance, B: 1, H: r.heads, L: tokens, D: tokens,
		SB: r.heads * n * n, SH: n * n, SL: n}
}
