package embed

import (
	"fmt"
	"strings"

	"github.com/seed-1415985d/attn"
)

// Entity is a labelled part of a text, such as a name: the bytes from Start to End of the original
// text. Some tokenizers count the spaces before a word as part of it: trim what must begin with a
// letter. Start equals End where a token stands for no bytes.
type Entity struct {
	Label      string
	Start, End int
	Score      float32 // probability of the label
}

// Aggregation is how the labels of tokens become entities. All except NoAggregation join neighbours
// with the same label; a label with B- begins a new entity, and names lose B- and I-. First,
// Average and Max never divide a word.
type Aggregation int

const (
	NoAggregation Aggregation = iota // an entity for each token, with the model's labels
	Simple                           // tokens are joined
	First                            // words are joined, labelled by their first token
	Average                          // words, labelled by the mean of their tokens' probabilities
	Max                              // words, labelled by the token with the largest probability
)

var aggregationNames = [...]string{"NoAggregation", "Simple", "First", "Average", "Max"}

func (a Aggregation) String() string {
	if a < 0 || int(a) >= len(aggregationNames) {
		return fmt.Sprintf("Aggregation(%d)", int(a))
	}
	return aggregationNames[a]
}

// Entities returns the labelled parts of each text, in order. The model's class must end in
// ForTokenClassification. Rules and scores are the same as in transformers'
// TokenClassificationPipeline, without entities of the label O. Long texts are read in overlapping
// windows of MaxTokens tokens; each token has its label from the window in which it is farthest
// from an edge.
func (m *Model) Entities(texts []string, a Aggregation) ([][]Entity, error) {
	if err := m.checkEntities(a); err != nil {
		return nil, err
	}
	read, err := m.labelTokens(texts)
	if err != nil {
		return nil, err
	}
	all := make([][]Entity, len(texts))
	for i, text := range texts {
		all[i] = m.aggregate(text, &read[i], a)
	}
	return all, nil
}

// checkEntities refuses models that do not label tokens.
func (m *Model) checkEntities(a Aggregation) error {
	switch {
	case a < 0 || int(a) >= len(aggregationNames):
		return fmt.Errorf("embed: the aggregation is %d, want NoAggregation to Max, %d to %d: %w", int(a),
			NoAggregation, Max, attn.ErrOption)
	case m.head == nil:
		return fmt.Errorf("embed: %s: it has no head that labels tokens, want a model whose class ends "+
			"in %s", m.path, labelsTokens)
	case !m.head.tokens:
		return fmt.Errorf("embed: %s: architectures is %q, which labels no tokens, want a model whose "+
			"class ends in %s", m.path, m.head.classes, labelsTokens)
	case m.lower:
		return fmt.Errorf("embed: %s: do_lower_case of %s is true, want false, or lower case by the "+
			"tokenizer, which keeps places", m.path, textFiles[0])
	}
	return nil
}

// labelled is a range of bytes of a text, with the index of its label.
type labelled struct {
	label      int
	score      float32
	start, end int
}

// aggregate returns the entities of a text.
func (m *Model) aggregate(text string, t *tokenLabels, a Aggregation) []Entity {
	var pieces []labelled
	for i := 0; i < len(t.spans); {
		n := 1
		for a > Simple && i+n < len(t.spans) && m.words.Continues(text, t.spans[i+n]) {
			n++
		}
		label, score := wordLabel(t.rows[i:i+n], a)
		pieces = append(pieces, labelled{label, score, t.spans[i].Start, t.spans[i+n-1].End})
		i += n
	}
	if a == NoAggregation {
		return m.named(pieces)
	}
	return m.grouped(pieces)
}

// wordLabel returns the label of a word by the probabilities of its tokens.
func wordLabel(rows [][]float32, a Aggregation) (label int, score float32) {
	switch a {
	case Average:
		mean := make([]float32, len(rows[0]))
		for j := range mean {
			sum := 0.0
			for _, row := range rows {
				sum += float64(row[j])
			}
			mean[j] = float32(sum / float64(len(rows)))
		}
		return largest(mean)
	case Max:
		for _, row := range rows {
			if i, p := largest(row); p > score {
				label, score = i, p
			}
		}
		return label, score
	}
	return largest(rows[0])
}

// largest returns the index and value of the largest number in a row, the first among equals.
func largest(row []float32) (at int, x float32) {
	for i := range row {
		if row[i] > row[at] {
			at = i
		}
	}
	return at, row[at]
}

// outside is the label of tokens that are no entities.
const outside = "O"

// named returns the entities of words, without joining them.
func (m *Model) named(pieces []labelled) (all []Entity) {
	for _, p := range pieces {
		if name := m.head.labels[p.label]; name != outside {
			all = append(all, Entity{name, p.start, p.end, p.score})
		}
	}
	return all
}

// grouped joins words whose labels continue the one before.
func (m *Model) grouped(pieces []labelled) (all []Entity) {
	for i := 0; i < len(pieces); {
		n, sum := 1, float64(pieces[i].score)
		for ; i+n < len(pieces) && m.joins(pieces[i+n-1].label, pieces[i+n].label); n++ {
			sum += float64(pieces[i+n].score)
		}
		name := m.head.labels[pieces[i].label]
		if _, after, ok := strings.Cut(name, "-"); ok {
			name = after
		}
		if name != outside {
			all = append(all, Entity{name, pieces[i].start, pieces[i+n-1].end, float32(sum / float64(n))})
		}
		i += n
	}
	return all
}

// joins reports whether a label continues the one before it.
func (m *Model) joins(before, label int) bool {
	name := m.head.labels[label]
	return !strings.HasPrefix(name, "B-") && tagOf(name) == tagOf(m.head.labels[before])
}

// tagOf returns a label without B- or I-.
func tagOf(label string) string {
	if strings.HasPrefix(label, "B-") || strings.HasPrefix(label, "I-") {
		return label[2:]
	}
	return label
}
