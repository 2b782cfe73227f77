package folder

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
	"golang.org/x/text/unicode/norm"
)

// Tokenizer is the byte-pair encoding of a tokenizer.json: bytes as letters, as GPT-2 and Llama 3 have it, or text whose spaces are ▁, with
// bytes for what the vocabulary lacks, as Llama 2 has it. What it does not know is an error, not other tokens.
type Tokenizer struct {
	bpe
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
		ID      int    `json:"id"`
		Content string `json:"content"`
	} `json:"added_tokens"`
	Normalizer    *stage `json:"normalizer"`
	PreTokenizer  *stage `json:"pre_tokenizer"`
	PostProcessor *stage `json:"post_processor"`
	Model         struct {
		Type         string         `json:"type"`
		Vocab        map[string]int `json:"vocab"`
		Merges       []merge        `json:"merges"`
		ByteFallback bool           `json:"byte_fallback"`
		IgnoreMerges bool           `json:"ignore_merges"`
		Unknown      *string        `json:"unk_token"`
	} `json:"model"`
}

// stage is a normalizer, pre-tokenizer or post-processor: one type with the fields of all that are supported.
type stage struct {
	Type          string   `json:"type"`
	Normalizers   []*stage `json:"normalizers"`
	Pretokenizers []*stage `json:"pretokenizers"`
	Processors    []*stage `json:"processors"`

	Prepend     string                                        `json:"prepend"`
	Content     string                                        `json:"content"`
	Pattern     struct{ String, Regex string }                `json:"pattern"`
	Behavior    string                                        `json:"behavior"`
	Invert      bool                                          `json:"invert"`
	Individual  bool                                          `json:"individual_digits"`
	AddSpace    bool                                          `json:"add_prefix_space"`
	UseRegex    *bool                                         `json:"use_regex"`
	Replacement string                                        `json:"replacement"`
	Split       *bool                                         `json:"split"`
	Scheme      string                                        `json:"prepend_scheme"`
	Single      []struct{ SpecialToken *struct{ ID string } } `json:"single"`
}

// merge is a pair of tokens that become one: a list of two strings, or in older files one with a space between.
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

// LoadTokenizer reads tokenizer.json of a folder whose model has some tokens.
func LoadTokenizer(folder string, vocab int) (*Tokenizer, error) {
	path := filepath.Join(folder, "tokenizer.json")
	var f tokenizerFile
	if err := readJSON(path, &f); err != nil {
		return nil, err
	}
	t := &Tokenizer{special: map[string]int{}, texts: map[int]string{}}
	if err := t.build(&f, vocab); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func (t *Tokenizer) build(f *tokenizerFile, vocab int) error {
	if f.Model.Type != "BPE" && f.Model.Type != "" {
		return fmt.Errorf("the model is of type %q, want BPE", f.Model.Type)
	}
	if err := t.addAll(f, vocab); err != nil {
		return err
	}
	for _, add := range []struct {
		s     *stage
		stage func(*stage) error
	}{{f.Normalizer, t.addNormalizer}, {f.PreTokenizer, t.addSplit}, {f.PostProcessor, t.addProcessor}} {
		if err := add.s.each(add.stage); err != nil {
			return err
		}
	}
	var err error
	t.bpe, err = newBPE(f)
	return err
}

// addAll notes the vocabulary and the tokens beside it.
func (t *Tokenizer) addAll(f *tokenizerFile, vocab int) error {
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
	slices.SortFunc(patterns, func(a, b string) int { return len(b) - len(a) }) // the longest that matches
	for id, text := range t.texts {
		if id < 0 || id >= vocab {
			return fmt.Errorf("token %q is %d, want 0 to %d by vocab_size in config.json", text, id, vocab-1)
		}
	}
	if len(patterns) > 0 {
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
	for _, inner := range append(append(s.Normalizers, s.Pretokenizers...), s.Processors...) {
		if err := inner.each(visit); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tokenizer) addNormalizer(s *stage) error {
	switch {
	case s.Type == "NFC":
		t.normalize = append(t.normalize, func(text string, _ bool) string { return norm.NFC.String(text) })
	case s.Type == "Prepend":
		t.normalize = append(t.normalize, func(text string, _ bool) string { return s.Prepend + text })
	case s.Type == "Replace" && s.Pattern.String != "":
		t.normalize = append(t.normalize, func(text string, _ bool) string { return strings.ReplaceAll(text, s.Pattern.String, s.Content) })
	default:
		return fmt.Errorf("the normalizer is of type %q, want NFC, Prepend or Replace of a string", s.Type)
	}
	return nil
}

// words are what GPT-2 splits text into.
const words = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

func (t *Tokenizer) addSplit(s *stage) error {
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
		t.normalize = append(t.normalize, func(text string, first bool) string {
			text = strings.ReplaceAll(text, " ", s.Replacement)
			if (s.Scheme == "always" || s.Scheme == "first" && first) && !strings.HasPrefix(text, s.Replacement) {
				text = s.Replacement + text
			}
			return text
		})
		if s.Split == nil || *s.Split {
			pattern = s.Replacement + "[^" + s.Replacement + "]*"
		}
	default:
		return fmt.Errorf("the pre-tokenizer is of type %q with options that are not supported, want ByteLevel, Metaspace, Digits one by one, or Split by an isolated regular expression", s.Type)
	}
	if pattern == "" {
		return nil
	}
	re, err := regexp2.Compile(pattern, regexp2.None)
	t.splits = append(t.splits, re)
	return err
}

// addProcessor takes what a template has before the text.
func (t *Tokenizer) addProcessor(s *stage) error {
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
func (t *Tokenizer) Encode(text string) ([]int, error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("prompt %q is not UTF-8", text)
	}
	ids := append([]int(nil), t.before...)
	for i, p := range split(t.splitter, text) {
		if id, ok := t.special[p]; ok {
			ids = append(ids, id)
			continue
		}
		for _, change := range t.normalize {
			p = change(p, i == 0)
		}
		list := []string{p}
		for _, re := range t.splits {
			var parts []string
			for _, word := range list {
				parts = append(parts, split(re, word)...)
			}
			list = parts
		}
		for _, word := range list {
			var err error
			if ids, err = t.word(ids, word, t.byteLevel); err != nil {
				return nil, err
			}
		}
	}
	return ids, nil
}

// split returns the matches of a pattern and what is between them.
func split(re *regexp2.Regexp, text string) (parts []string) {
	if re == nil {
		return []string{text}
	}
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
	return parts
}

// Decode returns the bytes of a token, which may be part of a letter only.
func (t *Tokenizer) Decode(id int) string {
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
