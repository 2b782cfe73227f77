package tokenize

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// wordPiece is BERT's model: it divides words into pieces of the vocabulary, the longest first.
type wordPiece struct {
	wordPieceModel
	longestPiece int // in bytes
}

// wordPieceModel is the model of a tokenizer.json.
type wordPieceModel struct {
	Type        string         `json:"type"`
	Vocab       map[string]int `json:"vocab"`
	Unknown     string         `json:"unk_token"`
	Prefix      string         `json:"continuing_subword_prefix"` // of pieces, except the first
	LongestWord int            `json:"max_input_chars_per_word"`  // longer words are unknown
}

var usualWordPiece = wordPieceModel{Unknown: "[UNK]", Prefix: "##", LongestWord: 100}

// UnmarshalJSON reads the type first: the allowed keys depend on it.
func (m *wordPieceModel) UnmarshalJSON(data []byte) error {
	if kind := typeOf(data); kind != "WordPiece" && kind != "" {
		return fmt.Errorf("the model is of type %q, want WordPiece", kind)
	}
	type plain wordPieceModel
	return strictjson.Unmarshal(data, (*plain)(m), nil)
}

// readWordPiece reads a tokenizer with this model: tokenizer.json, or else vocab.txt.
func readWordPiece(l *weights.Loader, u usage) *Tokenizer {
	if l.Exists(tokenizerJSON) {
		t, config := readFile(l, &tokenizerFile[wordPieceModel]{Model: usualWordPiece}, u)
		if l.Err == nil {
			t.checkNamed(l, named{"cls_token", &config.Begin}, "before", t.before)
			t.checkNamed(l, named{"sep_token", &config.End}, "after", t.after)
		}
		l.Check(tokenizerConfigJSON, config.agreesWithWordPiece(&t.pipeline))
		return t
	}
	t := &Tokenizer{file: "vocab.txt"}
	if !l.Exists(t.file) {
		l.Fail("%s: the folder has no %s and no %s, want one of them", l.Path, tokenizerJSON, t.file)
	}
	config := readConfig(l)
	l.Check(tokenizerConfigJSON, config.isBERT())
	readVocabularyText(l, t, config, u)
	return t
}

// encoderIdle are keys without effect in the tokenizer.json of an encoder, which decodes no tokens.
var encoderIdle = strictjson.Idle{"version": {`"1.0"`}, "truncation": nil, "padding": nil,
	"decoder": nil}

// readVocabularyText reads a file with a token on each line.
func readVocabularyText(l *weights.Loader, t *Tokenizer, config *tokenizerConfig, u usage) {
	m := usualWordPiece
	m.Vocab = map[string]int{}
	for i, line := range strings.Split(string(l.Read(t.file)), "\n") {
		m.Vocab[strings.TrimSuffix(line, "\r")] = i
	}
	delete(m.Vocab, "") // after the last line
	config.nameAsBERT()
	added := addedTokens(l, config, nil, m.Vocab)
	config.checkVocabulary(l, t.file, m.Vocab)
	if l.Err != nil {
		return
	}
	markControl(added, "")
	m.Unknown = config.Unknown.Content
	begin, end := m.Vocab[config.Begin.Content], m.Vocab[config.End.Content]
	t.pipeline = bertPipeline(config.cleaning(), begin, end, u.size)
	t.decoders = []decoder{&joinedPieces{Prefix: m.Prefix, Cleanup: true}}
	err := cmp.Or(t.find(added), checkTokens(added, m.Vocab))
	if err == nil {
		t.model, err = m.build()
	}
	if err == nil {
		err = t.setDerived(added, u.decodes)
	}
	l.Check(t.file, err)
}

// nameAsBERT names the tokens that no file names, as BERT does.
func (c *tokenizerConfig) nameAsBERT() {
	for into, usual := range map[*specialToken]string{&c.Unknown: "[UNK]", &c.Begin: "[CLS]",
		&c.End: "[SEP]", &c.Pad: "[PAD]", &c.Mask: "[MASK]"} {
		if into.Content == "" {
			into.Content, into.usual = usual, true
		}
	}
}

// checkVocabulary refuses a vocab.txt without the tokens that any text may need.
func (c *tokenizerConfig) checkVocabulary(l *weights.Loader, file string, vocab map[string]int) {
	for _, n := range []named{{"cls_token", &c.Begin}, {"sep_token", &c.End},
		{"unk_token", &c.Unknown}} {
		if _, ok := vocab[n.token.Content]; ok {
			continue
		}
		if n.token.usual {
			l.Check(file, fmt.Errorf("the vocabulary has no %s, want it, or another %s in %s",
				n.token.Content, n.key, tokenizerConfigJSON))
		} else {
			l.Check(n.token.file(), fmt.Errorf("%s is %q, want a token of %s", n.key, n.token.Content, file))
		}
	}
}

// bertPipeline cleans texts and divides them into words, with a token before and one after each
// text.
func bertPipeline(c *cleaning, begin, end, size int) pipeline {
	return pipeline{size: size, normalizers: []normalizer{c},
		preTokenizers: []preTokenizer{&bertWords{}}, template: template{before: []int{begin},
			after: []int{end}, pair: pairOf(begin, end, 1, false)}}
}

func (m *wordPieceModel) vocabulary() map[string]int { return m.Vocab }

// build refuses models that have no tokens for some texts, or need too long for them.
func (m *wordPieceModel) build() (model, error) {
	const longestWord = 1000
	t := &wordPiece{wordPieceModel: *m}
	for text := range t.Vocab {
		t.longestPiece = max(t.longestPiece, len(text))
	}
	if _, ok := t.Vocab[t.Unknown]; !ok {
		return nil, fmt.Errorf("unk_token is %q, want a token of the vocabulary", t.Unknown)
	}
	if t.LongestWord < 1 || t.LongestWord > longestWord {
		return nil, fmt.Errorf("max_input_chars_per_word is %d, want 1 to %d", t.LongestWord, longestWord)
	}
	return t, nil
}

func (t *wordPiece) all() iter.Seq2[string, int] { return maps.All(t.Vocab) }

func (t *wordPiece) number(text string) (id int, ok bool) {
	id, ok = t.Vocab[text]
	return id, ok
}

func (t *wordPiece) unknown() (id int, ok bool) { return t.number(t.Unknown) }

// word adds the longest pieces of the vocabulary, from left to right.
func (t *wordPiece) word(e *encoded, w traced) error {
	known, prefix, at := len(e.ids), "", 0
	n := min(len(w.text), t.longestPiece)
	for ; at < len(w.text); n-- {
		if n == 0 || utf8.RuneCountInString(w.text) > t.LongestWord {
			e.truncate(known)
			e.add(t.Vocab[t.Unknown], w, 0, len(w.text))
			return nil
		}
		if id, ok := t.Vocab[prefix+w.text[at:at+n]]; ok {
			e.add(id, w, at, at+n)
			at, prefix = at+n, t.Prefix
			n = min(len(w.text)-at, t.longestPiece) + 1
		}
	}
	return nil
}
