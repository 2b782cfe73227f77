package attn_test

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed-1415985d/attn"
)

// attention is softmax(QKᵀ/√d)·V of one head as the formula reads: Attend computes the same, for
// many heads at once and without a matrix of all scores.
func attention(q, k, v [][]float32) (out [][]float32) {
	root := float32(math.Sqrt(float64(len(q[0]))))
	for _, query := range q {
		// Scores: how well the query matches each key.
		s := make([]float32, len(k))
		for j, key := range k {
			for c := range query {
				s[j] += query[c] * key[c]
			}
			s[j] /= root
		}
		// Softmax: weights that are positive and sum to 1. Without the maximum, exp might overflow.
		top, sum := slices.Max(s), float32(0)
		for j := range s {
			s[j] = float32(math.Exp(float64(s[j] - top)))
			sum += s[j]
		}
		// Output: the mean of the values with these weights.
		o := make([]float32, len(v[0]))
		for j, value := range v {
			for c := range o {
				o[c] += s[j] / sum * value[c]
			}
		}
		out = append(out, o)
	}
	return out
}

// One head of attention by its formula, and by Attend: two queries over three keys.
func Example() {
	q := [][]float32{{1, 0, 2, 1}, {0, 3, 1, 0}}
	k := [][]float32{{1, 1, 0, 2}, {0, 1, 1, 0}, {2, 0, 1, 1}}
	v := [][]float32{{1, 0}, {0, 1}, {2, 2}}
	for _, row := range attention(q, k, v) {
		fmt.Printf("%.4f\n", row)
	}

	// A view says how flat memory is to be read: 1 batch entry, 1 head, rows, columns.
	flat := func(x [][]float32) attn.Tensor {
		return attn.BHLD(slices.Concat(x...), 1, 1, len(x), len(x[0]))
	}
	dst := attn.BHLD(make([]float32, 2*2), 1, 1, 2, 2)
	if err := attn.Attend(dst, flat(q), flat(k), flat(v), nil); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.4f\n%.4f\n", dst.Data[:2], dst.Data[2:])
	// Output:
	// [1.4883 1.3973]
	// [0.5754 0.7905]
	// [1.4883 1.3973]
	// [0.5754 0.7905]
}
