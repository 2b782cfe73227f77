package tokenize

import (
	"cmp"
	"container/heap"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// readBPE reads a tokenizer with a byte-pair encoding: with bytes as letters, as in GPT-2 and Llama
// 3, or text with ▁ for spaces and bytes for what the vocabulary lacks, as in Llama 2. For an
// encoder, which gives no answers, eos_token may differ from the token after texts, as in
// Qwen3-Embedding.
func readBPE(l *weights.Loader, u usage) (*Tokenizer, *tokenizerConfig) {
	t, config := readFile(l, &tokenizerFile[bpeModel]{}, u)
	if l.Err == nil {
		l.Check(tokenizerConfigJSON, config.agreesWithBPE(&t.pipeline))
	}
	return t, config
}

// pairs is the vocabulary of a byte-pair encoding, and the pairs that merge into one token, the
// earliest in the list first.
type pairs struct {
	bpeModel
	merges map[twoTokens]merged
}

// twoTokens are two neighbouring tokens, the first in the upper half: maps with one word as a key
// are faster, and the user waits for this map at a start.
type twoTokens uint64

// areTokens reports whether numbers, combined by or, can be tokens that merge. Encoding refuses
// tokens that the model does not have.
func areTokens(id int) bool { return uint(id) <= math.MaxInt32 }

func tokensOf(a, b int) twoTokens { return twoTokens(a)<<32 | twoTokens(b) }

// merged is the token of a merged pair, and the pair's place in the list.
type merged struct{ rank, id int32 }

// bpeModel is the model of a tokenizer.json.
type bpeModel struct {
	Type         string         `json:"type"`
	Vocab        map[string]int `json:"vocab"`
	Merges       []merge        `json:"merges"`
	ByteFallback bool           `json:"byte_fallback"`
	IgnoreMerges bool           `json:"ignore_merges"` // if a whole word is a token
	Unknown      string         `json:"unk_token"`
	FuseUnknown  bool           `json:"fuse_unk"`
	Prefix       string         `json:"continuing_subword_prefix"` // of letters, except the first
	Suffix       string         `json:"end_of_word_suffix"`        // of the last letter

	// of SentencePiece, instead of merges: any two tokens whose texts together are a made token merge,
	// best scores first
	Scores []float32         `json:"-"`
	made   func(id int) bool // whether a token may be the result of a merge
}

// UnmarshalJSON reads the type first: the allowed keys depend on it.
func (m *bpeModel) UnmarshalJSON(data []byte) error {
	if kind := typeOf(data); kind != "BPE" && kind != "" {
		return fmt.Errorf("the model is of type %q, want BPE", kind)
	}
	type plain bpeModel
	// other values of dropout make tokens random
	return strictjson.Unmarshal(data, (*plain)(m), strictjson.Idle{"dropout": {"0", "0.0"}})
}

// merge is a pair of tokens that merge: a list of two strings, or in older files both with a space
// between.
type merge [2]string

func (m *merge) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		return json.Unmarshal(data, (*[2]string)(m))
	}
	var ok bool
	if m[0], m[1], ok = strings.Cut(text, " "); !ok {
		return fmt.Errorf("merge %q, want two tokens", text)
	}
	return nil
}

func (m *bpeModel) vocabulary() map[string]int { return m.Vocab }

func (m *bpeModel) build() (model, error) {
	p := &pairs{*m, make(map[twoTokens]merged, len(m.Merges))}
	p.Merges = nil // the map has them
	if m.Scores != nil {
		p.score()
		return p, nil
	}
	for i, f := range m.find() {
		if !f.known {
			a, b := m.Merges[i][0], m.Merges[i][1]
			return p, fmt.Errorf("merge %d makes %q of %q and %q, want tokens of the vocabulary", i,
				m.whole(nil, i), a, b)
		}
		p.merges[f.two] = merged{int32(i), f.id}
	}
	return p, nil
}

func (p *pairs) all() iter.Seq2[string, int] { return maps.All(p.Vocab) }

func (p *pairs) number(text string) (id int, ok bool) {
	id, ok = p.Vocab[text]
	return id, ok
}

func (p *pairs) unknown() (id int, ok bool) { return p.number(p.Unknown) }

// foundMerge is a merge as token numbers, if the vocabulary has them.
type foundMerge struct {
	two   twoTokens
	id    int32
	known bool
}

// find looks up all merges in the vocabulary, on all cores: it is most of the time to read a
// tokenizer.
func (m *bpeModel) find() []foundMerge {
	all := make([]foundMerge, len(m.Merges))
	const each = 1 << 13
	var workers sync.WaitGroup
	for first := 0; first < len(all); first += each {
		workers.Go(func() {
			var text []byte
			for i := first; i < min(first+each, len(all)); i++ {
				a, okA := m.Vocab[m.Merges[i][0]]
				b, okB := m.Vocab[m.Merges[i][1]]
				text = m.whole(text, i)
				id, ok := m.Vocab[string(text)]
				ok = ok && okA && okB && areTokens(a|b|id)
				all[i] = foundMerge{tokensOf(a, b), int32(id), ok}
			}
		})
	}
	workers.Wait()
	return all
}

// whole returns the text of a merge's result, in the memory of text.
func (m *bpeModel) whole(text []byte, i int) []byte {
	text = append(text[:0], m.Merges[i][0]...)
	return append(text, strings.TrimPrefix(m.Merges[i][1], m.Prefix)...)
}

// score makes a pair of any two tokens that together are a token. Pairs of equal scores have the
// same rank, so that the leftmost in a text merges first.
func (p *pairs) score() {
	best := slices.Clone(p.Scores)
	slices.SortFunc(best, func(a, b float32) int { return cmp.Compare(b, a) })
	for text, id := range p.Vocab {
		if !p.made(id) {
			continue
		}
		rank, _ := slices.BinarySearchFunc(best, p.Scores[id], func(a, b float32) int {
			return cmp.Compare(b, a)
		})
		for i := range text {
			a, okA := p.Vocab[text[:i]]
			b, okB := p.Vocab[text[i:]]
			if okA && okB && areTokens(a|b|id) {
				p.merges[tokensOf(a, b)] = merged{int32(rank), int32(id)}
			}
		}
	}
}

// word adds the tokens of a word.
func (p *pairs) word(e *encoded, w traced) error {
	if id, ok := p.Vocab[w.text]; ok && p.IgnoreMerges {
		e.add(id, w, 0, len(w.text))
		return nil
	}
	var starts *[]int
	if w.from != nil {
		starts = &[]int{}
	}
	ids, err := p.letters(w.text, starts)
	ids = p.mergeAll(ids, starts)
	if starts == nil {
		e.ids = append(e.ids, ids...)
		return err
	}
	for i, id := range ids {
		end := len(w.text)
		if i+1 < len(ids) {
			end = (*starts)[i+1]
		}
		e.add(id, w, (*starts)[i], end)
	}
	return err
}

// letters returns the tokens of a word before any merge. It sets where each starts if starts is not
// nil.
func (p *pairs) letters(word string, starts *[]int) (ids []int, err error) {
	unknown := false // whether the last letter was
	for from, r := range word {
		end := from + len(string(r))
		letter := word[from:end]
		if from > 0 {
			letter = p.Prefix + letter
		}
		if end == len(word) {
			letter += p.Suffix
		}
		known, ok := p.known(letter)
		if !ok && unknown && p.FuseUnknown {
			continue
		}
		if unknown = !ok; unknown {
			id, ok := p.Vocab[p.Unknown]
			if !ok {
				return nil, fmt.Errorf("the vocabulary has no token for %q, nor one for what is unknown",
					letter)
			}
			known = []int{id}
		}
		ids = append(ids, known...)
		for i := range known {
			if starts != nil {
				*starts = append(*starts, min(from+i, end-1))
			}
		}
	}
	return ids, nil
}

// known returns the tokens of a letter: its own token, or one for each byte.
func (p *pairs) known(letter string) (ids []int, ok bool) {
	if id, ok := p.Vocab[letter]; ok {
		return []int{id}, true
	}
	for i := range len(letter) {
		id, ok := p.Vocab[fmt.Sprintf("<0x%02X>", letter[i])]
		if !ok || !p.ByteFallback {
			return nil, false
		}
		ids = append(ids, id)
	}
	return ids, true
}

// mergeAll merges the pair of the lowest rank, leftmost first, until no pair is left. Tokens are a
// linked list and pairs a heap, so that the time is n log n. A merged token starts where its first
// token did.
func (p *pairs) mergeAll(ids []int, starts *[]int) []int {
	last, next := make([]int, len(ids)), make([]int, len(ids)) // last is −1 before the first
	var queue candidates
	consider := func(i int) {
		if i < 0 || next[i] == len(ids) {
			return
		}
		pair := tokensOf(ids[i], ids[next[i]])
		if m, ok := p.merges[pair]; ok && areTokens(ids[i]|ids[next[i]]) {
			heap.Push(&queue, candidate{m, pair, i})
		}
	}
	for i := range ids {
		last[i], next[i] = i-1, i+1
	}
	for i := range ids {
		consider(i)
	}
	const gone = -1
	for len(queue) > 0 {
		c := heap.Pop(&queue).(candidate)
		i, j := c.at, next[c.at]
		if j == len(ids) || tokensOf(ids[i], ids[j]) != c.pair { // one of them has changed since
			continue
		}
		ids[i], ids[j], next[i] = int(c.id), gone, next[j]
		if next[j] < len(ids) {
			last[next[j]] = i
		}
		consider(last[i])
		consider(i)
	}
	left := ids[:0]
	for i, id := range ids {
		if id == gone {
			continue
		}
		if starts != nil {
			(*starts)[len(left)] = (*starts)[i]
		}
		left = append(left, id)
	}
	return left
}

// candidate is a pair that may merge, and the place of its first token.
type candidate struct {
	merged
	pair twoTokens
	at   int
}

// candidates is a heap: the lowest rank first, and for equal ranks the leftmost.
type candidates []candidate

func (c candidates) Len() int      { return len(c) }
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c candidates) Less(i, j int) bool {
	return c[i].rank < c[j].rank || c[i].rank == c[j].rank && c[i].at < c[j].at
}
func (c *candidates) Push(x any) { *c = append(*c, x.(candidate)) }
func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}
