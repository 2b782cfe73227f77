package folder

import (
	"fmt"
	"hash/fnv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// WordPiece is BERT's tokenizer: a text is cleaned and cut into words, and words into pieces of the
// vocabulary. Special tokens such as [MASK] within a text are text.
type WordPiece struct {
	Model struct {
		Type  string
		Vocab map[string]int // nil for a random model, whose words are hashed
	}
	Normalizer    cleaning
	Size, Longest int // of the model's vocabulary, and of a text in tokens
}

// cleaning is under the names of tokenizer.json.
type cleaning struct {
	Lower bool  `json:"lowercase"`
	Strip *bool `json:"strip_accents"` // nil is as Lower
}

// HashedWords is the tokenizer of a model whose tokens mean nothing.
func HashedWords(size, longest int) *WordPiece {
	return &WordPiece{Normalizer: cleaning{Lower: true}, Size: size, Longest: longest}
}

// WordPiece reads tokenizer.json or, where there is none, vocab.txt.
func (l *Loader) WordPiece(size, longest int) *WordPiece {
	const file = "tokenizer.json"
	t := &WordPiece{Size: size, Longest: longest}
	if l.OptionalJSON(file, t, AnyKey); t.Model.Type == "" {
		l.vocabulary(t)
	} else if t.Model.Type != "WordPiece" {
		l.Check(file, fmt.Errorf("the model is of type %q, want WordPiece", t.Model.Type))
	}
	for _, name := range []string{"[CLS]", "[SEP]", "[UNK]"} {
		if _, ok := t.Model.Vocab[name]; !ok {
			l.Fail("%s: the vocabulary has no %s", l.Path, name)
		}
	}
	for piece, id := range t.Model.Vocab {
		if id < 0 || id >= size {
			l.Fail("%s: token %q is %d, want 0 to %d by vocab_size in config.json", l.Path, piece, id,
				size-1)
		}
	}
	return t
}

// vocabulary reads vocab.txt, in which each line is a token.
func (l *Loader) vocabulary(t *WordPiece) {
	options := struct {
		Lower bool  `json:"do_lower_case"`
		Strip *bool `json:"strip_accents"`
	}{Lower: true}
	l.OptionalJSON("tokenizer_config.json", &options, AnyKey)
	t.Normalizer, t.Model.Vocab = cleaning(options), map[string]int{}
	for i, line := range strings.Split(string(l.read("vocab.txt")), "\n") {
		t.Model.Vocab[strings.TrimSuffix(line, "\r")] = i
	}
	delete(t.Model.Vocab, "") // after the last line
}

// Encode returns the tokens of a text.
func (t *WordPiece) Encode(text string) []int {
	ids := []int{t.Model.Vocab["[CLS]"]}
	for _, word := range t.words(text) {
		ids = t.pieces(ids, word)
	}
	return append(ids[:min(len(ids), t.Longest-1)], t.Model.Vocab["[SEP]"])
}

// words cuts a text at spaces, and before and after each punctuation mark and Chinese character.
func (t *WordPiece) words(text string) []string {
	strip := t.Normalizer.Lower
	if s := t.Normalizer.Strip; s != nil {
		strip = *s
	}
	if strip {
		text = norm.NFD.String(text) // accents are characters of their own
	}
	if t.Normalizer.Lower {
		text = strings.Map(unicode.ToLower, text)
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case r == utf8.RuneError, unicode.Is(unicode.C, r), strip && unicode.Is(unicode.Mn, r):
		case unicode.IsPunct(r), r < 128 && unicode.IsSymbol(r),
			r >= 0x3400 && unicode.Is(unicode.Han, r) && unicode.Is(unicode.Ideographic, r):
			b.WriteString(" " + string(r) + " ")
		default:
			b.WriteRune(r)
		}
	}
	return strings.Fields(b.String())
}

// pieces appends the longest pieces of the vocabulary that make up a word, from the left.
func (t *WordPiece) pieces(ids []int, word string) []int {
	if t.Model.Vocab == nil {
		hash := fnv.New32a()
		hash.Write([]byte(word))
		return append(ids, 1+int(hash.Sum32()>>1)%(t.Size-1))
	}
	const longest = 100 // characters
	known, prefix, rest := len(ids), "", word
	for n := len(rest); rest != ""; n-- {
		if n == 0 || utf8.RuneCountInString(word) > longest {
			return append(ids[:known], t.Model.Vocab["[UNK]"])
		}
		if id, ok := t.Model.Vocab[prefix+rest[:n]]; ok {
			ids, rest, prefix = append(ids, id), rest[n:], "##"
			n = len(rest) + 1
		}
	}
	return ids
}
