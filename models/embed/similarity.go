package embed

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed-1415985d/attn"
)

// similarities are the known values of similarity_fn_name.
var similarities = []string{"cosine", "dot", "euclidean", "manhattan"}

func checkSimilarity(name string) error {
	if !slices.Contains(similarities, name) {
		return fmt.Errorf("similarity_fn_name is %q, want one of %q", name, similarities)
	}
	return nil
}

// Similarity compares two vectors by the measure of the model's files, by default the cosine. More
// is nearer: euclidean and manhattan give negative distances. For PyLate models it is the dot
// product of two token vectors. It panics if the lengths differ.
func (m *Model) Similarity(a, b []float32) float32 {
	switch m.similarity {
	case "dot", maxSim:
		return attn.Dot(a, b)
	case "euclidean":
		return -float32(math.Sqrt(distance(a, b, func(x float64) float64 { return float64(x * x) })))
	case "manhattan":
		return -float32(distance(a, b, math.Abs))
	}
	return Cosine(a, b)
}

// Cosine returns the cosine of the angle between two vectors, 0 if either is zero. It panics if the
// lengths differ.
func Cosine(a, b []float32) float32 {
	ab, aa, bb := float64(attn.Dot(a, b)), float64(attn.Dot(a, a)), float64(attn.Dot(b, b))
	if aa == 0 || bb == 0 {
		return 0
	}
	return float32(ab / math.Sqrt(aa*bb))
}

// distance sums a function of the differences of elements, in float64 and in order.
func distance(a, b []float32, of func(float64) float64) (sum float64) {
	_ = b[:len(a)]
	for i := range b {
		sum += of(float64(a[i]) - float64(b[i]))
	}
	return sum
}

// Comparison returns the name of the measure that Similarity uses: cosine, dot, euclidean or
// manhattan. For PyLate models it is MaxSim, of all vectors of two texts, which Rerank and
// nn.MaxSim compute; Similarity of two token vectors is the dot product.
func (m *Model) Comparison() string { return m.similarity }
