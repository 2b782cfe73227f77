package embed

import (
	"math/rand/v2"
	"strings"

	"github.com/seed-1415985d/attn/models/internal/tokenize"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// Sizes are those of a BERT.
type Sizes struct{ Layers, Hidden, Heads, FFN, Vocab int }

// Random is a BERT of random weights, whose vectors mean nothing: for measuring, and for tests. Its
// words are tokens by chance, too.
func Random(s Sizes, o Options) (*Model, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	d := &description{kind: "random bert", pad: -1, headPooling: "cls", names: bertNames,
		activation: nn.GELU}
	d.fill(&bertConfig{Hidden: s.Hidden, Layers: s.Layers, Heads: s.Heads, FFN: s.FFN, Vocab: s.Vocab,
		Positions: 512, Types: 2, Epsilon: 1e-12})
	keys := sizeKeys{hidden: "Sizes.Hidden", layers: "Sizes.Layers", heads: "Sizes.Heads",
		ffn: "Sizes.FFN", vocab: "Sizes.Vocab", positions: "positions",
		width: "Sizes.Hidden / Sizes.Heads"}
	if err := d.check(keys); err != nil {
		return nil, err
	}
	m := &Model{options: o, path: "random", description: d, sentence: usual(),
		texts: tokenize.HashedTexts(s.Vocab, 512)}
	l := &weights.Loader{Random: chance(rand.New(rand.NewPCG(1, 1))), Integers: o.Integers}
	b := newBuilder(l, d)
	m.tables, m.all, m.matrices = b.takeTables(), b.takeLayers(), l.Packed
	if l.Err != nil {
		return nil, l.Err
	}
	return m.start()
}

// chance makes weights for a model that knows nothing.
func chance(source *rand.Rand) func(name string, shape []int) []float32 {
	return func(name string, shape []int) []float32 {
		x := make([]float32, shape[0]*append(shape, 1)[1])
		for i := range x {
			x[i] = float32(0.1 * (source.Float32() - 0.5))
			if strings.HasSuffix(name, "LayerNorm.weight") {
				x[i]++
			}
		}
		return x
	}
}
