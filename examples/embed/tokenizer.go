package main

import (
	"hash/fnv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// tokenizer is BERT's: a text is cleaned and cut into words, and words into pieces of the vocabulary.
type tokenizer struct {
	Vocab   map[string]int // nil for a random model, whose words are hashed
	Lower   bool           `json:"do_lower_case"`
	Strip   *bool          `json:"strip_accents"` // nil is as Lower
	size    int            // of the model's vocabulary
	longest int            // text in tokens
}

// tokenizer reads tokenizer.json or, where there is none, vocab.txt, in which each line is a token.
func (l *loader) tokenizer(size int) *tokenizer {
	t := &tokenizer{Lower: true}
	if l.has("tokenizer.json") {
		var file struct {
			Model struct {
				Type  string
				Vocab map[string]int
			}
			Normalizer struct {
				Lower bool  `json:"lowercase"`
				Strip *bool `json:"strip_accents"`
			}
		}
		l.json("tokenizer.json", &file)
		t.Vocab, t.Lower, t.Strip = file.Model.Vocab, file.Normalizer.Lower, file.Normalizer.Strip
		if file.Model.Type != "WordPiece" {
			l.fail("tokenizer.json: the model is %q, want WordPiece", file.Model.Type)
		}
	} else {
		l.json("tokenizer_config.json", t)
		t.Vocab = map[string]int{}
		for i, line := range strings.Split(string(l.read("vocab.txt")), "\n") {
			t.Vocab[strings.TrimSuffix(line, "\r")] = i
		}
		delete(t.Vocab, "") // after the last line
	}
	for _, name := range []string{"[CLS]", "[SEP]", "[UNK]"} {
		if _, ok := t.Vocab[name]; !ok {
			l.fail("the vocabulary has no %s", name)
		}
	}
	for piece, id := range t.Vocab {
		if id < 0 || id >= size {
			l.fail("token %q has number %d, and config.json a vocab_size of %d", piece, id, size)
		}
	}
	return t
}

// encode returns the tokens of a text.
func (t *tokenizer) encode(text string) []int {
	ids := []int{t.Vocab["[CLS]"]}
	for _, word := range t.words(text) {
		ids = t.pieces(ids, word)
	}
	return append(ids[:min(len(ids), t.longest-1)], t.Vocab["[SEP]"])
}

// words cuts a text at spaces, and before and after each punctuation mark and Chinese character.
func (t *tokenizer) words(text string) []string {
	strip := t.Lower && t.Strip == nil || t.Strip != nil && *t.Strip
	if strip {
		text = norm.NFD.String(text) // accents are characters of their own
	}
	if t.Lower {
		text = strings.Map(unicode.ToLower, text)
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case r == utf8.RuneError, unicode.Is(unicode.C, r), strip && unicode.Is(unicode.Mn, r):
		case unicode.IsPunct(r), r < 128 && unicode.IsSymbol(r), unicode.Is(unicode.Han, r) && unicode.Is(unicode.Ideographic, r):
			b.WriteString(" " + string(r) + " ")
		default:
			b.WriteRune(r)
		}
	}
	return strings.Fields(b.String())
}

// pieces appends the longest pieces of the vocabulary that make up a word, from the left.
func (t *tokenizer) pieces(ids []int, word string) []int {
	if t.Vocab == nil {
		hash := fnv.New32a()
		hash.Write([]byte(word))
		return append(ids, 1+int(hash.Sum32()>>1)%(t.size-1))
	}
	const longest = 100 // characters
	known, prefix, rest := len(ids), "", word
	for n := len(rest); rest != ""; n-- {
		if n == 0 || utf8.RuneCountInString(word) > longest {
			return append(ids[:known], t.Vocab["[UNK]"])
		}
		if id, ok := t.Vocab[prefix+rest[:n]]; ok {
			ids, rest, prefix = append(ids, id), rest[n:], "##"
			n = len(rest) + 1
		}
	}
	return ids
}
