package embed

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/seed-1415985d/attn/models/internal/tokenize"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// Sizes are the sizes of a random BERT. With Labels it is a cross-encoder with that number of
// labels, for Classify and Scores, or Rerank with one; they are LABEL_0, LABEL_1 and so on. With
// TokenLabels it labels tokens, for Entities. With TokenDimensions it is a ColBERT, whose tokens
// have vectors of that length. With none it makes a vector of each text.
type Sizes struct {
	Layers, Hidden, Heads, FFN, Vocab    int
	Labels, TokenLabels, TokenDimensions int
}

// Random returns a BERT of random weights and a random vocabulary for benchmarks and tests. Its
// vectors and scores mean nothing. There are no random models of images, or of natural language
// inference for ZeroShot: tests of these need a folder.
func Random(s Sizes, o Options) (*Model, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	d := &description{kind: "random bert", pad: -1, headPooling: "cls", names: bertNames,
		activation: nn.GELU}
	d.setSizes(&bertConfig{Hidden: s.Hidden, Layers: s.Layers, Heads: s.Heads, FFN: s.FFN,
		Vocab:     s.Vocab,
		Positions: 512, Types: 2, Epsilon: 1e-12})
	keys := sizeKeys{hidden: "Sizes.Hidden", layers: "Sizes.Layers", heads: "Sizes.Heads",
		ffn: "Sizes.FFN", vocab: "Sizes.Vocab", positions: "positions",
		width: "Sizes.Hidden / Sizes.Heads"}
	if err := cmp.Or(d.check(keys), s.checkKind()); err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	m := &Model{options: o, path: "random", description: d, sentence: usualSentence(),
		texts: tokenize.HashedTexts(s.Vocab, 512)}
	l := &weights.Loader{Random: chance(rand.New(rand.NewPCG(1, 1))), Way: o.way()}
	b := newBuilder(l, d)
	m.tables, m.all = b.loadTables(), b.loadLayers()
	switch {
	case s.Labels > 0:
		m.scoreRandom(b, s.Labels)
	case s.TokenLabels > 0:
		m.labelRandom(b, s.TokenLabels)
	case s.TokenDimensions > 0:
		m.makeLate(b, s.TokenDimensions)
	}
	if m.matrices = l.Packed; l.Err != nil {
		return nil, l.Err
	}
	return m.start()
}

// checkKind validates the sizes of heads, of which a model has one.
func (s *Sizes) checkKind() error {
	heads := 0
	for _, of := range []struct {
		name string
		n    int
	}{{"Labels", s.Labels}, {"TokenLabels", s.TokenLabels}, {"TokenDimensions", s.TokenDimensions}} {
		if of.n < 0 || of.n > 1<<16 {
			return fmt.Errorf("%s is %d, want 0 to %d", "Sizes."+of.name, of.n, 1<<16)
		}
		heads += min(of.n, 1)
	}
	if heads > 1 {
		return fmt.Errorf("Sizes has %d Labels, %d TokenLabels and TokenDimensions %d, want 0 of "+
			"all but one", s.Labels, s.TokenLabels, s.TokenDimensions)
	}
	return nil
}

// labelRandom turns the model into one that labels tokens.
func (m *Model) labelRandom(b *builder, labels int) {
	m.loadTokenHead(b, &labelsFile{Count: &labels})
	m.noVector = errors.New("it has Sizes.TokenLabels, want Entities")
}

// scoreRandom turns the model into a cross-encoder.
func (m *Model) scoreRandom(b *builder, labels int) {
	m.head = m.readHead(b, &labelsFile{Count: &labels}, m.names.head)
	m.noVector = errors.New("it has Sizes.Labels, want Classify, Scores or Rerank")
}

// makeLate turns the model into a ColBERT without prefix tokens.
func (m *Model) makeLate(b *builder, width int) {
	m.late = newLate()
	m.late.Late = tokenize.Late{Prefixes: []int32{-1, -1}}
	m.noVector, m.similarity = errLate, maxSim
	m.steps = []step{{&dense{b.loadLinear(m.hidden, false, "linear", width), nn.None}}}
}

// chance returns random weights.
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
