package weights

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/seed-1415985d/attn/models/chat"
)

// Chance makes weights for a model that says nothing, at the speed of one that does. They depend on
// seed and name only. Rows have a length near 1, so that states neither vanish nor explode.
func Chance(seed uint64) func(name string, shape []int) []float32 {
	return func(name string, shape []int) []float32 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name)) // which cannot fail
		source := rand.New(rand.NewPCG(seed, h.Sum64()))
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
			x[i] = middle + float32(width*(2*source.Float32()-1))
		}
		return x
	}
}

// Numbers is the Codec of a random model, that knows a number of tokens, which mean nothing.
type Numbers int

func (n Numbers) Encode(text string) (ids []int, err error) {
	for i := range len(text) {
		ids = append(ids, int(text[i])%int(n))
	}
	return ids, nil
}

// EncodePlain is Encode: there are no control tokens.
func (n Numbers) EncodePlain(text string) ([]int, error) { return n.Encode(text) }

// ControlIn are none.
func (Numbers) ControlIn(string) []string { return nil }

func (n Numbers) Conversation(bool, ...chat.Message) ([]int, error) {
	return nil, errors.New("a random model has no conversations, want one with a chat template")
}

// Ends are none.
func (Numbers) Ends() []int { return nil }

func (n Numbers) Decode(token int) string { return fmt.Sprint(" ", token) }
