package tokenize

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// unigram is the model of XLM-RoBERTa and T5 (Kudo 2018): of all ways to divide a word into tokens
// it finds the one whose scores, logarithms of probabilities, have the largest sum.
type unigram struct {
	unigramModel
	nodes []unigramNode // a trie of all tokens, by bytes
	bytes [256]int      // tokens for the bytes of unknown text, −1 for none
	least float64       // the score of an unknown letter
}

// unigramModel is the model of a tokenizer.json.
type unigramModel struct {
	Type         string   `json:"type"`
	Vocab        []scored `json:"vocab"`
	Unknown      *int     `json:"unk_id"`
	ByteFallback bool     `json:"byte_fallback"`

	ids map[string]int // of Vocab
}

// UnmarshalJSON reads the type first: the allowed keys depend on it.
func (m *unigramModel) UnmarshalJSON(data []byte) error {
	if kind := typeOf(data); kind != "Unigram" && kind != "" {
		return fmt.Errorf("the model is of type %q, want Unigram", kind)
	}
	type plain unigramModel
	return strictjson.Unmarshal(data, (*plain)(m), nil)
}

// scored is a token and its score, a list of two.
type scored struct {
	text  string
	score float64
}

func (s *scored) UnmarshalJSON(data []byte) error {
	list := [2]any{&s.text, &s.score}
	into := list[:]
	if err := json.Unmarshal(data, &into); err != nil {
		return err
	}
	if len(into) != 2 {
		return fmt.Errorf("%s, want a token's text and score", strictjson.Short(data))
	}
	return nil
}

// unigramNode is a node of the trie. Its children are a list, each with the byte that leads to it.
type unigramNode struct {
	token          int32 // −1 for none
	child, sibling int32 // 0 for none
	letter         byte
}

// readUnigram reads a tokenizer with this model.
func readUnigram(l *weights.Loader, u usage) *Tokenizer {
	t, config := readFile(l, &tokenizerFile[unigramModel]{}, u)
	if l.Err == nil {
		t.checkNamed(l, named{"cls_token", &config.Begin}, "before", t.before)
		t.checkNamed(l, named{"sep_token", &config.End}, "after", t.after)
	}
	return t
}

func (t *unigram) all() iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for id, token := range t.Vocab {
			if !yield(token.text, id) {
				return
			}
		}
	}
}

func (t *unigram) number(text string) (id int, ok bool) {
	id, ok = t.ids[text]
	return id, ok
}

func (t *unigram) unknown() (id int, ok bool) {
	if t.Unknown == nil {
		return 0, false
	}
	return *t.Unknown, true
}

// vocabulary returns the number of each token.
func (m *unigramModel) vocabulary() map[string]int {
	if m.ids == nil {
		m.ids = make(map[string]int, len(m.Vocab))
		for id, token := range m.Vocab {
			m.ids[token.text] = id
		}
	}
	return m.ids
}

// unknownPenalty is how much lower than the worst token's score is the score of a letter without a
// token.
const unknownPenalty = 10

// build makes the trie.
func (m *unigramModel) build() (model, error) {
	m.vocabulary()
	t := &unigram{unigramModel: *m}
	if id := t.Unknown; id != nil && (*id < 0 || *id >= len(t.Vocab)) {
		return nil, fmt.Errorf("unk_id is %d, want 0 to %d, the last token", *id, len(t.Vocab)-1)
	}
	least := math.Inf(1)
	t.nodes = append(t.nodes, unigramNode{token: -1})
	for id, token := range t.Vocab {
		if token.text == "" || math.IsNaN(token.score-token.score) {
			return nil, fmt.Errorf("token %d is %q with score %v, want some letters and a finite score", id,
				token.text, token.score)
		}
		least = min(least, token.score)
		t.insert(token.text, t.ids[token.text])
	}
	t.least = least - unknownPenalty
	for b := range t.bytes {
		id, ok := t.ids[fmt.Sprintf("<0x%02X>", b)]
		if t.bytes[b] = -1; ok && t.ByteFallback {
			t.bytes[b] = id
		}
	}
	return t, nil
}

// insert adds a token to the trie.
func (t *unigram) insert(text string, id int) {
	at := int32(0)
	for i := range len(text) {
		next := t.child(at, text[i])
		if next == 0 {
			next = int32(len(t.nodes))
			t.nodes = append(t.nodes, unigramNode{-1, 0, t.nodes[at].child, text[i]})
			t.nodes[at].child = next
		}
		at = next
	}
	t.nodes[at].token = int32(id)
}

// child returns the node that a byte leads to from a node, 0 for none.
func (t *unigram) child(at int32, letter byte) int32 {
	for at = t.nodes[at].child; at != 0 && t.nodes[at].letter != letter; {
		at = t.nodes[at].sibling
	}
	return at
}

// bestPath is the best way to divide the text before a place: its last token, where that begins,
// and the sum of all scores.
type bestPath struct {
	score float64
	from  int
	token int
}

// word adds the tokens of a word.
func (t *unigram) word(e *encoded, w traced) error {
	const none = -1
	word := w.text
	best := make([]bestPath, len(word)+1)
	for i := range best {
		best[i].from = none
	}
	improve := func(from, to, token int, score float64) {
		if score += best[from].score; best[to].from == none || score > best[to].score {
			best[to] = bestPath{score, from, token}
		}
	}
	for from, size := 0, 0; from < len(word); from += size {
		_, size = utf8.DecodeRuneInString(word[from:])
		whole := false // whether the letter alone is a token
		for to, at := from, int32(0); to < len(word); to++ {
			if at = t.child(at, word[to]); at == 0 {
				break
			}
			if id := t.nodes[at].token; id >= 0 {
				improve(from, to+1, int(id), t.Vocab[id].score)
				whole = whole || to+1 == from+size
			}
		}
		if !whole {
			if t.Unknown == nil {
				return errors.New("the text has a letter that no token has, and unk_id is null, want " +
					"other letters")
			}
			improve(from, from+size, *t.Unknown, t.least)
		}
	}
	t.backwards(e, w, best)
	return nil
}

// unigramPart is a token for a range of bytes of a word.
type unigramPart struct{ token, from, to int }

// backwards adds the tokens of the best path. Unknown neighbours are one text.
func (t *unigram) backwards(e *encoded, w traced, best []bestPath) {
	var few [8]unigramPart
	found, word := few[:0], w.text // parts from the end
	for to := len(word); to > 0; {
		b := best[to]
		from := b.from
		for t.Unknown != nil && b.token == *t.Unknown && from > 0 && best[from].token == b.token {
			from = best[from].from
		}
		if t.Unknown != nil && b.token == *t.Unknown {
			found = t.fallBack(found, word, from, to)
		} else {
			found = append(found, unigramPart{b.token, from, to})
		}
		to = from
	}
	for _, p := range slices.Backward(found) {
		e.add(p.token, w, p.from, p.to)
	}
}

// fallBack appends the tokens of an unknown text, the last first: of its bytes, if all have tokens.
// Each of them stands for the whole text.
func (t *unigram) fallBack(found []unigramPart, word string, from, to int) []unigramPart {
	text := word[from:to]
	if id, ok := t.ids[text]; ok {
		return append(found, unigramPart{id, from, to})
	}
	known := len(found)
	for i := len(text) - 1; i >= 0; i-- {
		id := t.bytes[text[i]]
		if id < 0 {
			return append(found[:known], unigramPart{*t.Unknown, from, to})
		}
		found = append(found, unigramPart{id, from, to})
	}
	return found
}
