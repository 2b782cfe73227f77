package folder

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
	"golang.org/x/text/unicode/norm"
)

// BPE is the byte-pair encoding of a tokenizer.json: bytes as letters, as GPT-2 and Llama 3 have
// it, or text whose spaces are ▁, with bytes for what the vocabulary lacks, as Llama 2 has it. What
// it does not know is an error, not other tokens. It is own code because the pure Go libraries that
// were found do not read these files: sugarme/tokenizer v0.3.0 panics at the lookahead in the
// patterns of Llama 3 and Qwen 2, and ignores byte_fallback, and gomlx/go-huggingface v0.3.1 has
// models of SentencePiece only.
type BPE struct {
	pairs
	special   map[string]int // that no text is split across
	splitter  *regexp2.Regexp
	normalize []func(text string, first bool) string
	splits    []*regexp2.Regexp // text becomes words: matches and what is between them
	byteLevel bool
	before    []int // begin each prompt
	texts     map[int]string
}

// tokenizerFile is tokenizer.json, as far as it is used.
type tokenizerFile struct {
	Added []struct {
		ID      int
		Content string
	} `json:"added_tokens"`
	Normalizer    *stage
	PreTokenizer  *stage `json:"pre_tokenizer"`
	PostProcessor *stage `json:"post_processor"`
	Model         struct {
		Type         string
		Vocab        map[string]int
		Merges       []merge
		ByteFallback bool   `json:"byte_fallback"`
		IgnoreMerges bool   `json:"ignore_merges"`
		Unknown      string `json:"unk_token"`
	}
}

// stage is a normalizer, pre-tokenizer or post-processor: one type with the fields of all that are
// supported.
type stage struct {
	Type                                   string
	Normalizers, Pretokenizers, Processors []*stage // of a Sequence

	Prepend, Content, Behavior, Replacement string
	Pattern                                 struct{ String, Regex string }
	Invert                                  bool
	Individual                              bool  `json:"individual_digits"`
	AddSpace                                bool  `json:"add_prefix_space"`
	UseRegex                                *bool `json:"use_regex"`
	Split                                   *bool
	Scheme                                  string `json:"prepend_scheme"`
	Single                                  []struct{ SpecialToken *struct{ ID string } }
}

// merge is a pair of tokens that become one: a list of two strings, or in older files one with a
// space between.
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

// BPE reads tokenizer.json for a model that has some tokens.
func (l *Loader) BPE(vocab int) *BPE {
	const file = "tokenizer.json"
	var f tokenizerFile
	t := &BPE{special: map[string]int{}, texts: map[int]string{}}
	if l.JSON(file, &f, AnyKey); l.Err == nil {
		l.Check(file, t.build(&f, vocab))
	}
	return t
}

func (t *BPE) build(f *tokenizerFile, vocab int) (err error) {
	if f.Model.Type != "BPE" && f.Model.Type != "" {
		return fmt.Errorf("the model is of type %q, want BPE", f.Model.Type)
	}
	if err := t.addTokens(f, vocab); err != nil {
		return err
	}
	if err := f.Normalizer.each(t.addNormalizer); err != nil {
		return err
	}
	if err := f.PreTokenizer.each(t.addSplit); err != nil {
		return err
	}
	if err := f.PostProcessor.each(t.addProcessor); err != nil {
		return err
	}
	t.pairs, err = newPairs(f)
	return err
}

// addTokens notes the vocabulary and the tokens beside it.
func (t *BPE) addTokens(f *tokenizerFile, vocab int) error {
	for text, id := range f.Model.Vocab {
		t.texts[id] = text
	}
	var patterns []string
	for _, a := range f.Added {
		if a.Content == "" {
			return fmt.Errorf("added token %d has no text, want some", a.ID)
		}
		t.special[a.Content], t.texts[a.ID] = a.ID, a.Content
		patterns = append(patterns, regexp2.Escape(a.Content))
	}
	for id, text := range t.texts {
		if id < 0 || id >= vocab {
			return fmt.Errorf("token %q is %d, want 0 to %d by vocab_size in config.json", text, id, vocab-1)
		}
	}
	if len(patterns) > 0 {
		// the longest that matches
		slices.SortFunc(patterns, func(a, b string) int { return len(b) - len(a) })
		t.splitter = regexp2.MustCompile(strings.Join(patterns, "|"), regexp2.None) // of escaped text
	}
	return nil
}

// each visits the stages of a sequence.
func (s *stage) each(visit func(*stage) error) error {
	switch {
	case s == nil:
		return nil
	case s.Type != "Sequence":
		return visit(s)
	}
	for _, inner := range slices.Concat(s.Normalizers, s.Pretokenizers, s.Processors) {
		if err := inner.each(visit); err != nil {
			return err
		}
	}
	return nil
}

func (t *BPE) addNormalizer(s *stage) error {
	switch {
	case s.Type == "NFC":
		t.normalize = append(t.normalize, func(text string, _ bool) string {
			return norm.NFC.String(text)
		})
	case s.Type == "Prepend":
		t.normalize = append(t.normalize, func(text string, _ bool) string { return s.Prepend + text })
	case s.Type == "Replace" && s.Pattern.String != "":
		t.normalize = append(t.normalize, func(text string, _ bool) string {
			return strings.ReplaceAll(text, s.Pattern.String, s.Content)
		})
	default:
		return fmt.Errorf("the normalizer is of type %q, want NFC, Prepend or Replace of a string",
			s.Type)
	}
	return nil
}

// words are what GPT-2 splits text into.
const words = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

func (t *BPE) addSplit(s *stage) error {
	pattern := ""
	switch {
	case s.Type == "ByteLevel" && !s.AddSpace:
		t.byteLevel = true
		if s.UseRegex == nil || *s.UseRegex {
			pattern = words
		}
	case s.Type == "Split" && s.Pattern.Regex != "" && s.Behavior == "Isolated" && !s.Invert:
		pattern = s.Pattern.Regex
	case s.Type == "Digits" && s.Individual:
		pattern = `\p{N}`
	case s.Type == "Metaspace" && utf8.RuneCountInString(s.Replacement) == 1:
		t.normalize = append(t.normalize, s.metaspace)
		if s.Split == nil || *s.Split {
			pattern = s.Replacement + "[^" + s.Replacement + "]*"
		}
	default:
		return fmt.Errorf("the pre-tokenizer is of type %q with options that are not supported, want "+
			"ByteLevel, Metaspace, Digits one by one, or Split by an isolated regular expression", s.Type)
	}
	if pattern == "" {
		return nil
	}
	re, err := regexp2.Compile(pattern, regexp2.None)
	t.splits = append(t.splits, re)
	return err
}

// metaspace shows spaces, and that there might have been one at the beginning.
func (s *stage) metaspace(text string, first bool) string {
	text = strings.ReplaceAll(text, " ", s.Replacement)
	if (s.Scheme == "always" || s.Scheme == "first" && first) &&
		!strings.HasPrefix(text, s.Replacement) {
		return s.Replacement + text
	}
	return text
}

// addProcessor takes what a template has before the text.
func (t *BPE) addProcessor(s *stage) error {
	for _, x := range s.Single {
		if x.SpecialToken == nil {
			break
		}
		id, ok := t.special[x.SpecialToken.ID]
		if !ok {
			return fmt.Errorf("the template has token %q, want one of added_tokens", x.SpecialToken.ID)
		}
		t.before = append(t.before, id)
	}
	return nil
}

// Encode returns the tokens of a prompt.
func (t *BPE) Encode(text string) (ids []int, err error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("prompt %q is not UTF-8", text)
	}
	ids = slices.Clone(t.before)
	for i, part := range split(t.splitter, []string{text}) {
		if id, ok := t.special[part]; ok {
			ids = append(ids, id)
			continue
		}
		for _, change := range t.normalize {
			part = change(part, i == 0)
		}
		list := []string{part}
		for _, re := range t.splits {
			list = split(re, list)
		}
		for _, word := range list {
			if ids, err = t.word(ids, word, t.byteLevel); err != nil {
				return nil, err
			}
		}
	}
	return ids, nil
}

// split returns the matches of a pattern and what is between them.
func split(re *regexp2.Regexp, texts []string) (parts []string) {
	if re == nil {
		return texts
	}
	for _, text := range texts {
		runes, at := []rune(text), 0
		add := func(end int) {
			if end > at {
				parts = append(parts, string(runes[at:end]))
				at = end
			}
		}
		m, _ := re.FindRunesMatch(runes) // an error is a timeout, and there is none
		for m != nil {
			add(m.Index)
			add(m.Index + m.Length)
			m, _ = re.FindNextMatch(m)
		}
		add(len(runes))
	}
	return parts
}

// Decode returns the bytes of a token, which may be part of a letter only.
func (t *BPE) Decode(id int) string {
	text := t.texts[id]
	if _, ok := t.special[text]; ok {
		return text
	}
	if t.byteLevel {
		return lettersToBytes(text)
	}
	var b byte
	if n, err := fmt.Sscanf(text, "<0x%02X>", &b); n == 1 && err == nil && len(text) == 6 {
		return string([]byte{b})
	}
	return strings.ReplaceAll(text, "▁", " ")
}
