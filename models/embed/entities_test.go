package embed

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-1415985d/attn/models/internal/tokenize"
	"github.com/seed-1415985d/attn/models/internal/weights/foldertest"
)

// preEntity is a token, word or group in transformers' pipeline. Its places count code points.
type preEntity struct {
	entity     string
	score      float64
	scores     []float64
	start, end int
	subword    bool
}

// pipeline is a transcription of the rules of transformers' TokenClassificationPipeline.
type pipeline struct {
	labels  []string
	pieces  map[int32]int // code points of tokens, nil for a model without continuing_subword_prefix
	unknown int32
}

func (p *pipeline) gather(text string, spans []tokenize.Span, rows [][]float32) (all []preEntity) {
	sentence := []rune(text)
	for i, s := range spans {
		e := preEntity{start: utf8.RuneCountInString(text[:s.Start]),
			end: utf8.RuneCountInString(text[:s.End])}
		for _, x := range rows[i] {
			e.scores = append(e.scores, float64(x))
		}
		if p.pieces != nil {
			e.subword = p.pieces[s.Token] != len(sentence[e.start:e.end])
		} else {
			around := ""
			if e.start > 0 {
				around = string(sentence[e.start-1 : min(len(sentence), e.start+1)])
			}
			e.subword = e.start > 0 && !strings.Contains(around, " ")
		}
		if s.Token == p.unknown {
			e.subword = false
		}
		all = append(all, e)
	}
	return all
}

func argmax(x []float64) int {
	at := 0
	for i := range x {
		if x[i] > x[at] {
			at = i
		}
	}
	return at
}

func (p *pipeline) aggregate(pre []preEntity, a Aggregation) (all []preEntity) {
	var words []preEntity
	if a == NoAggregation || a == Simple {
		for _, e := range pre {
			e.entity, e.score = p.labels[argmax(e.scores)], slices.Max(e.scores)
			words = append(words, e)
		}
	} else {
		var group []preEntity
		for _, e := range pre {
			if group == nil || e.subword {
				group = append(group, e)
				continue
			}
			words = append(words, p.word(group, a))
			group = []preEntity{e}
		}
		if group != nil {
			words = append(words, p.word(group, a))
		}
	}
	if a != NoAggregation {
		words = p.group(words)
	}
	return slices.DeleteFunc(words, func(e preEntity) bool { return e.entity == "O" })
}

func (p *pipeline) word(group []preEntity, a Aggregation) preEntity {
	scores := group[0].scores
	switch a {
	case Max:
		for _, e := range group {
			if slices.Max(e.scores) > slices.Max(scores) {
				scores = e.scores
			}
		}
	case Average:
		scores = make([]float64, len(p.labels))
		for _, e := range group {
			scores = plus(scores, e.scores)
		}
		scores = scaled(scores, 1/float64(len(group)))
	}
	return preEntity{entity: p.labels[argmax(scores)], score: slices.Max(scores),
		start: group[0].start, end: group[len(group)-1].end}
}

func (p *pipeline) group(words []preEntity) (all []preEntity) {
	tag := func(name string) (bi, tag string) {
		if strings.HasPrefix(name, "B-") || strings.HasPrefix(name, "I-") {
			return name[:1], name[2:]
		}
		return "I", name
	}
	flush := func(group []preEntity) {
		if len(group) == 0 {
			return
		}
		e := preEntity{start: group[0].start, end: group[len(group)-1].end}
		split := strings.SplitN(group[0].entity, "-", 2)
		e.entity = split[len(split)-1]
		for _, w := range group {
			e.score += w.score / float64(len(group))
		}
		all = append(all, e)
	}
	var group []preEntity
	for _, w := range words {
		if len(group) > 0 {
			bi, now := tag(w.entity)
			_, last := tag(group[len(group)-1].entity)
			if now != last || bi == "B" {
				flush(group)
				group = nil
			}
		}
		group = append(group, w)
	}
	flush(group)
	return all
}

// entityTokenizers are a WordPiece, which marks continuations of words, and bytes, in which words
// begin after spaces.
func entityTokenizers(t *testing.T) map[string]*Model {
	t.Helper()
	all := map[string]*Model{}
	labels := map[string]any{"0": "O", "1": "B-PER", "2": "I-PER", "3": "I-LOC", "4": "B-LOC",
		"5": "MISC-x", "6": "X-PER"}
	k := kindNamed(t, "bert")
	path, _ := writeLabels(t, &k, labels)
	all["wordpiece"] = mustOpen(t, path, Options{Workers: 1})

	k = kindNamed(t, "modernbert")
	const vocab = 270
	k.shapes["model.embeddings.tok_embeddings.weight"] = []int{vocab, wide}
	k.config["vocab_size"] = vocab
	path, _ = writeLabels(t, &k, labels)
	write(t, path, "tokenizer.json", []byte(qwenTokenizer(vocab)))
	if err := os.Remove(filepath.Join(path, "vocab.txt")); err != nil {
		t.Fatal(err)
	}
	all["bytes"] = mustOpen(t, path, Options{Workers: 1})
	return all
}

// TestAggregationsEqualPipeline compares entities of 1000 texts with a transcription of
// transformers' rules. Many probabilities are equal.
func TestAggregationsEqualPipeline(t *testing.T) {
	source := rand.New(rand.NewPCG(3, 4))
	words := []string{"cat", "unbelievable", "Zürich", "un", "able", "中", "e\u0301", "😀", "👩‍🚒", ",",
		"!", "\xff", "dog", "yes", "no", strings.Repeat("un", 60), "\u00a0", "\t", "ﬁ", "[MASK]"}
	for name, m := range entityTokenizers(t) {
		p := &pipeline{labels: m.Labels(), unknown: -1}
		if name == "wordpiece" {
			p.unknown, p.pieces = 1, map[int32]int{}
			for i, text := range strings.Split(foldertest.TinyVocabulary, "\n") {
				p.pieces[int32(i)] = utf8.RuneCountInString(text)
			}
		}
		for range 1000 {
			var text strings.Builder
			for range source.IntN(9) {
				text.WriteString(words[source.IntN(len(words))])
				text.WriteString(strings.Repeat(" ", source.IntN(3)))
			}
			compareEntities(t, name, m, p, text.String(), source)
		}
	}
}

func compareEntities(t *testing.T, name string, m *Model, p *pipeline, text string,
	source *rand.Rand) {
	t.Helper()
	spans, err := m.texts.SpansControl(text)
	if err != nil {
		t.Fatal(err)
	}
	rows := make([][]float32, len(spans))
	for i := range rows {
		for range p.labels {
			rows[i] = append(rows[i], float32(source.IntN(4))/4)
		}
	}
	for a := NoAggregation; a <= Max; a++ {
		got := m.aggregate(text, &tokenLabels{spans: spans, rows: rows}, a)
		want := p.aggregate(p.gather(text, spans, rows), a)
		same := slices.EqualFunc(got, want, func(g Entity, w preEntity) bool {
			return g.Label == w.entity && utf8.RuneCountInString(text[:g.Start]) == w.start &&
				utf8.RuneCountInString(text[:g.End]) == w.end && g.Score-float32(w.score) < 1e-6 &&
				float32(w.score)-g.Score < 1e-6
		})
		if !same {
			t.Fatalf("%s, %v, %q: %s, want %s", name, a, text, fmt.Sprint(got), fmt.Sprint(want))
		}
	}
}

// TestEntitiesStandForTheText checks places in texts that tokenizers change.
func TestEntitiesStandForTheText(t *testing.T) {
	all := entityTokenizers(t)
	for _, c := range []struct {
		tokenizer, text string
		label           []float32 // of all tokens
		a               Aggregation
		want            string
	}{
		{"wordpiece", "Zürich, unbelievable", []float32{0, 0, 1, 0, 0, 0, 0}, Simple,
			"[PER Zürich, unbelievable]"},
		{"wordpiece", "Zürich, unbelievable", []float32{0, 1, 0, 0, 0, 0, 0}, First,
			"[PER Zürich PER , PER unbelievable]"},
		{"wordpiece", "un\xffable", []float32{0, 0, 0, 1, 0, 0, 0}, NoAggregation,
			"[I-LOC un I-LOC able]"},
		{"wordpiece", "cat", []float32{1, 0, 0, 0, 0, 0, 0}, Simple, "[]"},
		{"wordpiece", "cat", []float32{0, 0, 0, 0, 0, 1, 0}, Max, "[x cat]"},
		{"bytes", "a 中b", []float32{0, 1, 0, 0, 0, 0, 0}, Average, "[PER a PER   PER 中 PER 中 PER 中b]"},
	} {
		m := all[c.tokenizer]
		spans, err := m.texts.SpansControl(c.text)
		if err != nil {
			t.Fatal(err)
		}
		rows := slices.Repeat([][]float32{c.label}, len(spans))
		var got []string
		for _, e := range m.aggregate(c.text, &tokenLabels{spans: spans, rows: rows}, c.a) {
			got = append(got, e.Label+" "+c.text[e.Start:e.End])
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%q: %q, want %q", c.text, fmt.Sprint(got), c.want)
		}
	}
}
