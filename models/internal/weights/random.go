package weights

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
)

// Chance makes random weights that cost as much time as real ones. They depend on seed and name
// only. Rows have a length near 1, so that hidden rows neither vanish nor explode.
func Chance(seed uint64) func(name string, shape []int) []float32 {
	return func(name string, shape []int) []float32 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name)) // cannot fail
		random := rand.New(rand.NewPCG(seed, h.Sum64()))
		n, last := 1, shape[len(shape)-1]
		for _, s := range shape {
			n *= s
		}
		middle, width := float32(0), float32(math.Sqrt(3/float64(last)))
		if strings.HasSuffix(name, "norm.weight") {
			middle, width = 1, 0.25
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = middle + float32(width*(2*random.Float32()-1))
		}
		return x
	}
}
