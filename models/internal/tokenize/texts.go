package tokenize

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// Texts makes tokens of texts, and of pairs, for an encoder: with the tokens that the files put
// around them, and only the beginning of long texts.
type Texts struct {
	*Tokenizer
	longest int
}

// Read is the input of an encoder.
type Read struct {
	Tokens   []int32
	Segments []int32 // of each token, nil for 0
	Left     int     // tokens of the texts that were cut off
}

// ReadTexts reads the tokenizer of a model with some tokens: tokenizer.json with any kind of model,
// or vocab.txt. A text has at most longest tokens, 0 for the length in tokenizer_config.json, and
// at most positions.
func ReadTexts(l *weights.Loader, size, longest, positions int) *Texts {
	t := &Texts{Tokenizer: readAny(l, usage{size: size})}
	if l.Err != nil {
		return t
	}
	limitTexts(l, t, longest, positions)
	if _, ok := t.model.(*wordPiece); ok && len(t.before)+len(t.after) == 0 {
		l.Check(t.file, errors.New("the post_processor adds no token to texts, want [CLS] and [SEP] or "+
			"others"))
	}
	checkRows(l, t)
	return t
}

// checkRows refuses tokens that texts may have but that have no row in the model's table. A token
// that tokenizer_config.json names by a key such as image_token may lack one, as in Gemma: a text
// with it is an error.
func checkRows(l *weights.Loader, t *Texts) {
	outside := func(id int) bool { return id < 0 || id >= t.size }
	lastAdded := t.lastAdded
	if outside(lastAdded.ID) && readConfig(l).ofImages(lastAdded.Content) {
		lastAdded = addedToken{}
		for text, id := range t.addedIDs {
			if id >= lastAdded.ID && text != t.lastAdded.Content {
				lastAdded = addedToken{ID: id, Content: text}
			}
		}
	}
	for _, last := range []addedToken{t.last, lastAdded} {
		if outside(last.ID) {
			l.Check(cmp.Or(last.from, t.file), fmt.Errorf("token %q has number %d, want 0 to %d by "+
				"vocab_size of config.json, %d", last.Content, last.ID, t.size-1, t.size))
		}
	}
	for _, id := range slices.Concat(t.before, t.after) {
		if outside(id) {
			l.Check(t.file, fmt.Errorf("the post_processor puts token %d around texts, want 0 to %d by "+
				"vocab_size of config.json", id, t.size-1))
		}
	}
}

var modelKind = regexp.MustCompile(`"type"\s*:\s*"(BPE|Unigram|WordLevel|WordPiece)"`)

// modelType returns the kind of model of tokenizer.json, which the reader of the file checks. It
// does not decode the file's megabytes a second time.
func modelType(l *weights.Loader) string {
	data := l.Read(tokenizerJSON)
	if m := modelKind.FindSubmatch(data); m != nil {
		return string(m[1])
	}
	if bytes.Contains(data, []byte(`"merges"`)) { // older files have no type
		return "BPE"
	}
	return ""
}

// limitTexts sets how many tokens a text may have.
func limitTexts(l *weights.Loader, t *Texts, longest, positions int) {
	config := readConfig(l)
	limit := float64(positions)
	if longest != 0 {
		limit = min(limit, float64(longest))
	} else if config.Longest != 0 {
		limit = min(limit, config.Longest)
	}
	fixed := max(2, len(t.before)+len(t.after))
	if !(limit >= float64(fixed)) {
		l.Fail("%s: texts have at most %v tokens, the least of max_position_embeddings and "+
			"max_seq_length or model_max_length, want at least %d", l.Path, limit, fixed)
		return
	}
	t.longest = int(limit)
	if config.Side != "" && config.Side != "right" {
		l.Check(tokenizerConfigJSON, fmt.Errorf("truncation_side is %q, want right", config.Side))
	}
}

// Longest returns how many tokens a text may have.
func (t *Texts) Longest() int { return t.longest }

// Before returns how many tokens are put before each text.
func (t *Texts) Before() int { return len(t.before) }

// After returns how many tokens are put after each text.
func (t *Texts) After() int { return len(t.after) }

// Room returns how many tokens of its own a text may have.
func (t *Texts) Room() int { return max(0, t.longest-len(t.before)-len(t.after)) }

// Around returns the tokens of spans with those around each text.
func (t *Texts) Around(spans []Span) []int32 {
	ids := narrow(t.before)
	for _, s := range spans {
		ids = append(ids, s.Token)
	}
	return append(ids, narrow(t.after)...)
}

// Shorten reduces how many tokens a text may have.
func (t *Texts) Shorten(longest int) error {
	if fixed := max(2, len(t.before)+len(t.after)); longest < fixed {
		return fmt.Errorf("%d, want at least %d", longest, fixed)
	}
	t.longest = min(t.longest, longest)
	return nil
}

// Encode returns the tokens of a text, including control tokens that it spells. Bytes that are not
// UTF-8 become U+FFFD.
func (t *Texts) Encode(text string) (Read, error) { return t.EncodeWithin(text, t.longest) }

// EncodeWithin is Encode with another limit of tokens.
func (t *Texts) EncodeWithin(text string, longest int) (Read, error) {
	ids, err := t.tokens(trust(toValid(text)))
	if err != nil {
		return Read{}, err
	}
	n := min(len(ids), max(0, longest-len(t.before)-len(t.after)))
	left := len(ids) - n
	read, err := t.checked(slices.Concat(t.before, ids[:n], t.after), nil)
	return Read{read, nil, left}, err
}

// Pair returns the tokens of two texts that are read together. If they are too long, the longer one
// loses tokens at its end first, as with "longest_first" of Hugging Face's tokenizers.
func (t *Texts) Pair(first, second string) (Read, error) {
	return t.pairCut(first, second, func(a, b, room int) (int, int, error) {
		a, b = longestFirst(a, b, room)
		return a, b, nil
	})
}

// PairFirst is Pair, but only the first text loses tokens, as with "only_first". It is an error if
// the second one leaves no room for a token of the first.
func (t *Texts) PairFirst(first, second string) (Read, error) {
	return t.pairCut(first, second, func(a, b, room int) (int, int, error) {
		switch {
		case a+b <= room || b < room:
		case room < 2:
			return 0, 0, fmt.Errorf("pairs have at most %d tokens, want at least %d, with %d around both "+
				"texts: %w", t.longest, t.pairAround()+2, t.pairAround(), attn.ErrOption)
		default:
			return 0, 0, fmt.Errorf("it has %d tokens, want at most %d, which leave room for a token of "+
				"the text: %w", b, room-1, attn.ErrOption)
		}
		return min(a, room-b), b, nil
	})
}

// pairAround returns how many tokens are put around two texts.
func (t *Texts) pairAround() (n int) {
	for _, p := range t.pair {
		if p.token >= 0 {
			n++
		}
	}
	return n
}

// pairCut is Pair; cut returns how many tokens each text keeps.
func (t *Texts) pairCut(first, second string, cut func(a, b, room int) (int, int, error)) (r Read,
	err error) {
	if err = cmp.Or(t.noPair, errorIf(t.pair == nil, "the post_processor has no template for pairs, "+
		"want one")); err != nil {
		return r, fmt.Errorf("%s: %w", t.file, err)
	}
	a, err := t.tokens(trust(toValid(first)))
	if err != nil {
		return r, err
	}
	b, err := t.tokens(trust(toValid(second)))
	if err != nil {
		return r, err
	}
	keptA, keptB, err := cut(len(a), len(b), max(0, t.longest-t.pairAround()))
	if err != nil {
		return r, err
	}
	r.Left = len(a) - keptA + len(b) - keptB
	var ids []int
	for _, p := range t.pair {
		more := []int{p.token}
		switch p.token {
		case firstText:
			more = a[:keptA]
		case secondText:
			more = b[:keptB]
		}
		ids = append(ids, more...)
		r.Segments = append(r.Segments, slices.Repeat([]int32{int32(p.segment)}, len(more))...)
	}
	r.Tokens, err = t.checked(ids, nil)
	return r, err
}

// Plain returns the tokens of a text alone, in which control tokens are spelled as text.
func (t *Texts) Plain(text string) ([]int32, error) {
	return t.encodeAlone(fromUsers(toValid(text)))
}

// toValid returns a text with U+FFFD for each run of bytes that are not UTF-8.
func toValid(text string) string { return strings.ToValidUTF8(text, "\ufffd") }

func errorIf(wrong bool, text string) error {
	if wrong {
		return errors.New(text)
	}
	return nil
}

// longestFirst returns how many tokens two texts keep if both together may have room tokens.
func longestFirst(a, b, room int) (int, int) {
	if a+b <= room {
		return a, b
	}
	short := min(a, b)
	long := max(short, room-short)
	if short+long > room {
		short, long = room/2, room-room/2
	}
	if a > b {
		return long, short
	}
	return short, long
}

func narrow(ids []int) []int32 {
	tokens := make([]int32, len(ids))
	for i, id := range ids {
		tokens[i] = int32(id)
	}
	return tokens
}
