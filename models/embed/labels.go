package embed

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/nn"
)

// Classify returns a row of numbers for each text, one for each of the Labels. The model's class
// must end in ForSequenceClassification. By problem_type of config.json the numbers are logits
// (regression) or independent probabilities (multi_label_classification, or a single label);
// otherwise they are probabilities that add up to 1. A text that is too long is truncated at its
// end.
func (m *Model) Classify(texts []string) ([][]float32, error) {
	if err := m.checkClasses(); err != nil {
		return nil, err
	}
	tokens, err := m.tokensOf(context.Background(), "", texts)
	if err != nil {
		return nil, err
	}
	all, n := make([]float32, len(texts)*len(m.head.labels)), len(m.head.labels)
	if err := m.compute(context.Background(), all, tokens, nil, 0, outLogits); err != nil {
		return nil, err
	}
	rows := rowsOf(all, len(texts), n)
	if err := m.head.probabilities(m.pool, all, rows); err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	return rows, nil
}

// checkClasses refuses models that do not classify texts.
func (m *Model) checkClasses() error {
	if m.texts != nil && m.head == nil {
		return fmt.Errorf("embed: %s: it has no head that classifies texts, want a model whose class "+
			"ends in %s", m.path, labelsTexts)
	}
	if err := m.checkScores(); err != nil {
		return err
	}
	if m.head.answers != nil {
		return fmt.Errorf("embed: %s: it is a decoder that answers yes or no, want Rerank, or a model "+
			"whose class ends in %s", m.path, labelsTexts)
	}
	return nil
}

// probabilities turns logits into probabilities by problem_type, as transformers' pipelines do.
func (h *head) probabilities(p *attn.Pool, all []float32, rows [][]float32) error {
	switch {
	case h.problem == regression:
		return nil
	case h.problem == multiLabel || len(h.labels) == 1:
		x := attn.BHLD(all, 1, 1, 1, len(all))
		if len(all) == 0 {
			return nil
		}
		return nn.Activate(p, x, x, nn.Sigmoid)
	}
	for _, row := range rows {
		attn.Softmax(row, row)
	}
	return nil
}

// usualHypothesis is the default of transformers' pipeline.
const usualHypothesis = "This example is {}."

// ZeroShot returns a probability for each label, in their order, with a model of natural language
// inference: how much the text entails the hypothesis with the label in place of {}. A hypothesis
// has exactly one {}; "" means "This example is {}." With several, or with one label, probabilities
// are independent, each of entailment against contradiction; otherwise they add up to 1. Exactly
// one of the model's Labels must begin with "entail". A text that is too long is truncated at its
// end for each label, and Options.Cut is called with the index of the label. No labels, and a
// hypothesis so long that no token of the text has room, are errors.
func (m *Model) ZeroShot(text string, labels []string, hypothesis string, several bool) ([]float32,
	error) {
	if err := m.checkClasses(); err != nil {
		return nil, err
	}
	if hypothesis == "" {
		hypothesis = usualHypothesis
	}
	if n := strings.Count(hypothesis, "{}"); n != 1 {
		return nil, fmt.Errorf("embed: the hypothesis is %q with %d times {}, want one: %w", hypothesis,
			n, attn.ErrOption)
	}
	if len(labels) == 0 {
		return nil, fmt.Errorf("embed: there are no labels, want one or more: %w", attn.ErrOption)
	}
	entails, contradicts, err := m.head.inference()
	if err != nil {
		return nil, fmt.Errorf("embed: %s: %w", m.path, err)
	}
	hypotheses := make([]string, len(labels))
	for i, label := range labels {
		hypotheses[i] = strings.Replace(hypothesis, "{}", label, 1)
	}
	all, err := m.pairLogits(context.Background(), textAndHypothesis, text, hypotheses, outLogits)
	if err != nil {
		return nil, err
	}
	rows := rowsOf(all, len(labels), len(m.head.labels))
	return entailments(rows, entails, contradicts, several), nil
}

// inference returns the indices of the labels for entailment and for contradiction.
func (h *head) inference() (entails, contradicts int, err error) {
	entails = -1
	for i, label := range h.labels {
		if !strings.HasPrefix(strings.ToLower(label), "entail") {
			continue
		}
		if entails >= 0 {
			return 0, 0, fmt.Errorf("labels %d and %d of %q begin with entail, want one", entails, i,
				h.labels)
		}
		entails = i
	}
	switch {
	case entails < 0:
		return 0, 0, fmt.Errorf("no label of %q begins with entail, want one, as models of natural "+
			"language inference have it", h.labels)
	case len(h.labels) == 1:
		return 0, 0, errors.New("entailment is the only label, want another for contradiction")
	case entails == 0:
		contradicts = len(h.labels) - 1
	}
	return entails, contradicts, nil
}

// entailments returns ZeroShot's probabilities for rows of logits.
func entailments(rows [][]float32, entails, contradicts int, several bool) []float32 {
	p := make([]float32, len(rows))
	for i, row := range rows {
		if p[i] = row[entails]; several || len(rows) == 1 {
			pair := [2]float32{row[contradicts], row[entails]}
			attn.Softmax(pair[:], pair[:])
			p[i] = pair[1]
		}
	}
	if !several && len(rows) > 1 {
		attn.Softmax(p, p)
	}
	return p
}
