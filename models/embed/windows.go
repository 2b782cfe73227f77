package embed

import (
	"context"
	"fmt"
	"math"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/tokenize"
)

// tokenLabels are the tokens of a text, with a row of probabilities for each.
type tokenLabels struct {
	spans []tokenize.Span
	rows  [][]float32
	edges []int // each token's distance from the edges of the window that its row is from
}

// excerpt is a range of tokens of a text that the model reads at once.
type excerpt struct{ text, first, end int }

// labelTokens computes the probabilities of all tokens of texts.
func (m *Model) labelTokens(texts []string) ([]tokenLabels, error) {
	all := make([]tokenLabels, len(texts))
	w := &spanning{m, texts, all, make([]error, len(texts))}
	if len(texts) <= readTogether {
		w.Work(0)
	} else if m.pool.Run(parts(len(texts), readTogether), w) != nil {
		return nil, m.closedError() // the only error
	}
	var list []excerpt
	var tokens [][]int32
	for i := range all {
		t, err := &all[i], w.errs[i]
		if room := m.texts.Room(); err == nil && room == 0 && len(t.spans) > 0 {
			err = fmt.Errorf("texts have at most %d tokens, which are all around them, want more",
				m.texts.Longest())
		}
		if err != nil {
			return nil, fmt.Errorf("embed: text %d: %w", i, err)
		}
		t.prepare(len(m.head.labels))
		for _, p := range windowsOf(len(t.spans), m.texts.Room()) {
			list = append(list, excerpt{i, p[0], p[1]})
			tokens = append(tokens, m.texts.Around(t.spans[p[0]:p[1]]))
		}
	}
	return all, m.labelWindows(context.Background(), all, list, tokens)
}

// spanning tokenizes texts and finds the places of tokens.
type spanning struct {
	*Model
	texts []string
	all   []tokenLabels
	errs  []error
}

// Work tokenizes a part of the texts. It implements attn.Worker.
func (s *spanning) Work(part int) {
	first := part * readTogether
	for i := first; i < min(first+readTogether, len(s.texts)); i++ {
		s.all[i].spans, s.errs[i] = s.Model.texts.SpansControl(s.texts[i])
	}
}

// prepare allocates rows of probabilities for some labels.
func (t *tokenLabels) prepare(labels int) {
	t.rows = rowsOf(make([]float32, len(t.spans)*labels), len(t.spans), labels)
	t.edges = make([]int, len(t.spans))
	for i := range t.edges {
		t.edges[i] = -1
	}
}

// windowsOf returns the beginnings and ends of windows that cover n tokens, room of them at a time.
func windowsOf(n, room int) (all [][2]int) {
	if n == 0 {
		return nil
	}
	for first := 0; first < n-room; first += room - room/2 {
		all = append(all, [2]int{first, first + room})
	}
	return append(all, [2]int{max(0, n-room), n})
}

// edge returns the distance of token i from the edges of a window. The beginning and the end of a
// text of n tokens are no edges.
func edge(i, first, end, n int) int {
	left, right := i-first, end-1-i
	if first == 0 {
		left = math.MaxInt
	}
	if end == n {
		right = math.MaxInt
	}
	return min(left, right)
}

// labelWindows computes windows, batch by batch.
func (m *Model) labelWindows(ctx context.Context, all []tokenLabels, list []excerpt,
	tokens [][]int32) error {
	r, err := m.acquireRunner(ctx)
	if err != nil {
		return err
	}
	defer m.releaseRunner(r)
	for done := 0; done < len(list); {
		n := m.batchSize(tokens[done:])
		r.loadBatch(tokens[done:done+n], nil)
		r.forward()
		r.labelBatch(all, list[done:done+n])
		if r.err != nil {
			return fmt.Errorf("embed: %w", r.err)
		}
		if done += n; m.options.Progress != nil {
			texts := len(all)
			if done < len(list) {
				texts = list[done].text
			}
			m.options.Progress(texts, len(all))
		}
	}
	return nil
}

// labelBatch writes the probabilities of the batch's tokens to the rows of their texts.
func (r *runner) labelBatch(all []tokenLabels, list []excerpt) {
	labels := len(r.head.labels)
	r.pooled = resize(r.pooled, r.tokens*labels)
	r.applyHead(r.pooled, attn.BHLD(r.x, 1, 1, r.tokens, r.hidden))
	if r.err != nil {
		return
	}
	row, before := 0, r.texts.Before()
	for i, w := range list {
		t := &all[w.text]
		for j := w.first; j < w.end; j++ {
			p := r.pooled[(row+before+j-w.first)*labels:][:labels]
			r.checkFinite(p, w.text, labels)
			if e := edge(j, w.first, w.end, len(t.spans)); e > t.edges[j] {
				t.edges[j] = e
				attn.Softmax(t.rows[j], p)
			}
		}
		row += r.lens[i]
	}
}
