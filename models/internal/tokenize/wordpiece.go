package tokenize

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"unicode/utf8"

	"github.com/seed-1415985d/attn/internal/strictjson"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// WordPiece is BERT's tokenizer: a text is cleaned and cut into words, and words into pieces of the
// vocabulary, the longest first.
type WordPiece struct {
	pipeline
	wordPieceModel
	longest      int // of a text in tokens
	longestPiece int // in bytes
}

// wordPieceModel is the model of a tokenizer.json.
type wordPieceModel struct {
	Type        string         `json:"type"`
	Vocab       map[string]int `json:"vocab"` // nil for a random model, whose words are hashed
	Unknown     string         `json:"unk_token"`
	Prefix      string         `json:"continuing_subword_prefix"` // of pieces but the first
	LongestWord int            `json:"max_input_chars_per_word"`  // longer ones are unknown
}

var usualWordPiece = wordPieceModel{Unknown: "[UNK]", Prefix: "##", LongestWord: 100}

// UnmarshalJSON asks for the type before it asks for keys, which depend on it.
func (m *wordPieceModel) UnmarshalJSON(data []byte) error {
	if kind := typeOf(data); kind != "WordPiece" && kind != "" {
		return fmt.Errorf("the model is of type %q, want WordPiece", kind)
	}
	type plain wordPieceModel
	return strictjson.Unmarshal(data, (*plain)(m), nil)
}

// HashedWords is the tokenizer of a model whose tokens mean nothing.
func HashedWords(size, longest int) *WordPiece {
	return &WordPiece{longest: longest, wordPieceModel: usualWordPiece, pipeline: pipeline{size: size,
		normalizers: []normalizer{newCleaning()}, preTokenizers: []preTokenizer{&bertWords{}},
		template: template{before: []int{0}, after: []int{0}}}}
}

// readWordPiece reads tokenizer.json or, where there is none, vocab.txt, and the files beside it
// that say more of tokens. A text has at most a number of tokens, 0 as tokenizer_config.json says,
// and no more than positions.
func readWordPiece(l *weights.Loader, size, longest, positions int) *WordPiece {
	config := readConfig(l)
	t, file := &WordPiece{wordPieceModel: usualWordPiece}, tokenizerJSON
	if l.Exists(file) {
		readWordPieceFile(l, t, config, size)
	} else {
		if file = "vocab.txt"; !l.Exists(file) {
			l.Fail("%s: the folder has no %s and no %s, want one of them", l.Path, tokenizerJSON, file)
		}
		readVocabularyText(l, t, file, config, size)
		l.Check(tokenizerConfigJSON, config.isBERT())
	}
	l.Check(tokenizerConfigJSON, config.agreesWithWordPiece(&t.pipeline))
	if l.Err != nil {
		return t
	}
	limit := float64(positions)
	if longest != 0 {
		limit = min(limit, float64(longest))
	} else if config.Longest != 0 {
		limit = min(limit, config.Longest)
	}
	if err := t.limit(limit); err != nil {
		l.Fail("%s: %w", l.Path, err)
	}
	l.Check(file, t.check())
	return t
}

func readWordPieceFile(l *weights.Loader, t *WordPiece, config *tokenizerConfig, size int) {
	f := tokenizerFile[wordPieceModel]{Model: t.wordPieceModel}
	l.JSON(tokenizerJSON, &f, wordPieceIdle)
	if f.Added = addedTokens(l, config, f.Added, f.Model.Vocab); l.Err == nil {
		l.Check(tokenizerJSON, t.build(&f, size))
		checkAround(l, named{"cls_token", &config.Begin}, "before", t.before, f.Added)
		checkAround(l, named{"sep_token", &config.End}, "after", t.after, f.Added)
	}
}

// wordPieceIdle are keys of a tokenizer.json, whose tokens nobody decodes.
var wordPieceIdle = strictjson.Idle{"version": {`"1.0"`}, "truncation": nil, "padding": nil,
	"decoder": nil}

func (t *WordPiece) build(f *tokenizerFile[wordPieceModel], size int) (err error) {
	if err := checkTokens(f.Added, f.Model.Vocab); err != nil {
		return err
	}
	t.wordPieceModel = f.Model
	t.pipeline, err = newPipeline(f.Normalizer, f.PreTokenizer, f.PostProcessor, f.Added, size)
	return err
}

// readVocabularyText reads a file in which each line is a token.
func readVocabularyText(l *weights.Loader, t *WordPiece, file string,
	config *tokenizerConfig, size int) {
	t.Vocab = map[string]int{}
	for i, line := range strings.Split(string(l.Read(file)), "\n") {
		t.Vocab[strings.TrimSuffix(line, "\r")] = i
	}
	delete(t.Vocab, "") // after the last line
	for into, usual := range map[*specialToken]string{&config.Unknown: "[UNK]",
		&config.Begin: "[CLS]", &config.End: "[SEP]", &config.Pad: "[PAD]", &config.Mask: "[MASK]"} {
		if into.Content == "" {
			into.Content, into.usual = usual, true
		}
	}
	added := addedTokens(l, config, nil, t.Vocab)
	t.Unknown = config.Unknown.Content
	t.pipeline = pipeline{size: size, normalizers: []normalizer{config.cleaning()},
		preTokenizers: []preTokenizer{&bertWords{}}}
	begin, end := config.Begin.Content, config.End.Content
	for _, n := range []named{{"cls_token", &config.Begin}, {"sep_token", &config.End},
		{"unk_token", &config.Unknown}} {
		if _, ok := t.Vocab[n.token.Content]; ok {
			continue
		}
		if n.token.usual {
			l.Check(file, fmt.Errorf("the vocabulary has no %s, want it, or another %s in %s",
				n.token.Content, n.key, tokenizerConfigJSON))
		} else {
			l.Check(n.token.file(), fmt.Errorf("%s is %q, want a token of %s", n.key, n.token.Content, file))
		}
	}
	t.template = template{before: []int{t.Vocab[begin]}, after: []int{t.Vocab[end]},
		pair: pairOf(t.Vocab[begin], t.Vocab[end], 1, false)}
	l.Check(file, cmp.Or(t.find(added), checkTokens(added, t.Vocab)))
}

func (t *WordPiece) last() (string, int) { return lastOf(t.Vocab) }

func (t *WordPiece) number(text string) (id int, ok bool) {
	id, ok = t.Vocab[text]
	return id, ok
}

// limit says how many tokens a text may have.
func (t *WordPiece) limit(tokens float64) error {
	if fixed := len(t.before) + len(t.after); tokens < max(2, float64(fixed)) {
		return fmt.Errorf("texts have at most %v tokens, the least of max_position_embeddings and "+
			"max_seq_length or model_max_length, want at least %d", tokens, max(2, fixed))
	}
	t.longest = int(tokens)
	return nil
}

// check refuses models that would have no tokens for some texts, or take too long for them.
func (t *WordPiece) check() error {
	const longestWord = 1000
	for piece := range t.Vocab {
		t.longestPiece = max(t.longestPiece, len(piece))
	}
	switch _, ok := t.Vocab[t.Unknown]; {
	case !ok:
		return fmt.Errorf("unk_token is %q, want a token of the vocabulary", t.Unknown)
	case len(t.before)+len(t.after) == 0:
		return errors.New("the post_processor adds no token to texts, want [CLS] and [SEP] or others")
	case t.LongestWord < 1 || t.LongestWord > longestWord:
		return fmt.Errorf("max_input_chars_per_word is %d, want 1 to %d", t.LongestWord, longestWord)
	}
	return nil
}

// Encode returns the tokens of a text, of a long one the first, and how many it leaves out.
func (t *WordPiece) Encode(text string) (ids []int, left int, err error) {
	if ids, err = t.encode(trust(strings.ToValidUTF8(text, "\ufffd")), t.word); err != nil {
		return nil, 0, err
	}
	n := min(len(ids), t.longest-len(t.before)-len(t.after))
	left = len(ids) - n
	ids, err = t.around(ids[:n])
	return ids, left, err
}

// word appends the longest pieces of the vocabulary that make up a word, from the left.
func (t *WordPiece) word(ids []int, word string) ([]int, error) {
	if t.Vocab == nil {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(word)) // which cannot fail
		return append(ids, 1+int(hash.Sum32()>>1)%(t.size-1)), nil
	}
	known, prefix, rest := len(ids), "", word
	n := min(len(rest), t.longestPiece)
	for ; rest != ""; n-- {
		if n == 0 || utf8.RuneCountInString(word) > t.LongestWord {
			return append(ids[:known], t.Vocab[t.Unknown]), nil
		}
		if id, ok := t.Vocab[prefix+rest[:n]]; ok {
			ids, rest, prefix = append(ids, id), rest[n:], t.Prefix
			n = min(len(rest), t.longestPiece) + 1
		}
	}
	return ids, nil
}
