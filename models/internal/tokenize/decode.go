package tokenize

import (
	"errors"
	"fmt"
	"strings"
)

// decoder turns a token's text into text for a reader.
type decoder interface {
	decode(token string, at position) string
}

// position is the place of a token in a text. A token of an answer is neither first nor last:
// decoders that change the ends of a text do not apply to it.
type position struct {
	first, last bool
	added       bool // found before the model found others
}

var decoderKinds = stageKinds[decoder]{"decoder", "decoders", map[string]func() decoder{
	"ByteLevel":    func() decoder { return &byteLetters{} },
	"Metaspace":    func() decoder { return &spaces{} },
	"Replace":      func() decoder { return &replaceLetters{} },
	"ByteFallback": func() decoder { return &byteTokens{} },
	"Fuse":         func() decoder { return &fuse{} },
	"Strip":        func() decoder { return &stripBeginning{} },
	"BPEDecoder":   func() decoder { return &suffix{Suffix: "</w>"} },
	"WordPiece":    func() decoder { return &joinedPieces{Prefix: "##", Cleanup: true} },
}}

// byteLetters turns letters into bytes.
type byteLetters struct{ trimmed }

func (*byteLetters) decode(token string, at position) string {
	if at.added { // its text is as it is
		return token
	}
	return lettersToBytes(token)
}

// spaces turns ▁ into a space, and drops the one that Metaspace puts before a text.
type spaces struct{ metaspace }

func (s *spaces) decode(token string, at position) string {
	space := " "
	if at.first && *s.Scheme != "never" {
		space = ""
	}
	return strings.ReplaceAll(token, s.Replacement, space)
}

type replaceLetters struct{ replace }

func (r *replaceLetters) decode(token string, _ position) string {
	return strings.ReplaceAll(token, r.Pattern.text, r.Content)
}

func (r *replaceLetters) prepare() error {
	if old := r.Pattern.text; len(old) < max(len(r.Content), 1) {
		return fmt.Errorf("%q becomes %q, want a String that is not shorter", old, r.Content)
	}
	return nil
}

// byteTokens turns tokens such as <0x0A> into bytes.
type byteTokens struct{}

func (*byteTokens) decode(token string, _ position) string {
	var b byte
	if n, err := fmt.Sscanf(token, "<0x%02X>", &b); n == 1 && err == nil && len(token) == 6 {
		return string([]byte{b})
	}
	return token
}

// fuse joins all tokens into one text.
type fuse struct{}

func (*fuse) decode(token string, _ position) string { return token }

// stripBeginning removes letters from the beginning of a whole text. Before a Fuse it would remove
// them from each token, which checkStrips refuses.
type stripBeginning struct {
	Content string `json:"content"`
	Start   int    `json:"start"`
	Stop    int    `json:"stop"`
}

func (s *stripBeginning) decode(token string, at position) string {
	for n := 0; at.first && n < s.Start && s.Content != ""; n++ {
		token = strings.TrimPrefix(token, s.Content)
	}
	return token
}

func (s *stripBeginning) prepare() error {
	if s.Stop != 0 {
		return fmt.Errorf("stop is %d, want 0", s.Stop)
	}
	return nil
}

// suffix ends words.
type suffix struct {
	Suffix string `json:"suffix"`
}

func (s *suffix) decode(token string, at position) string {
	space := " "
	if at.last {
		space = ""
	}
	return strings.ReplaceAll(token, s.Suffix, space)
}

func (s *suffix) prepare() error {
	if s.Suffix == "" {
		return errors.New("there is no suffix, want some letters")
	}
	return nil
}

// joinedPieces puts a space before each token that does not continue a word.
type joinedPieces struct {
	Prefix  string `json:"prefix"`  // of tokens that do
	Cleanup bool   `json:"cleanup"` // no space before punctuation marks and in contractions
}

func (j *joinedPieces) decode(token string, at position) string {
	if rest, ok := strings.CutPrefix(token, j.Prefix); ok && !at.first {
		token = rest
	} else if !at.first {
		token = " " + token
	}
	if j.Cleanup {
		token = cleanup.Replace(token)
	}
	return token
}

// cleanup has the replacements that Hugging Face's tokenizers make in each token, one after the
// other.
var cleanup = strings.NewReplacer(" .", ".", " ?", "?", " !", "!", " ,", ",", " ' ", "'", " n't",
	"n't", " 'm", "'m", " do not", " don't", " 's", "'s", " 've", "'ve", " 're", "'re")

// usualDecoders returns the decoders for files without any: they undo the other stages.
func (t *Tokenizer) usualDecoders() []decoder {
	if w, ok := t.model.(*wordPiece); ok {
		return []decoder{&joinedPieces{Prefix: w.Prefix}}
	}
	scheme := "never"
	if t.addsSpace() {
		scheme = "always"
	}
	space := &spaces{metaspace{Replacement: "▁", Scheme: &scheme}}
	for _, p := range t.preTokenizers {
		switch p := p.(type) {
		case *byteLevel:
			return []decoder{&byteLetters{}}
		case *metaspace:
			space.metaspace = *p
		}
	}
	return []decoder{&byteTokens{}, space}
}

// checkStrips refuses a Strip before any Fuse, since it would apply to each token.
func checkStrips(decoders []decoder) error {
	for _, d := range decoders {
		switch d.(type) {
		case *fuse:
			return nil
		case *stripBeginning:
			return fmt.Errorf("decoder Strip: it comes before any Fuse, want it after")
		}
	}
	return nil
}

// Bytes returns what a token adds to an answer, which may be part of a letter. Special tokens have
// their texts.
func (t *Tokenizer) Bytes(id int32) string {
	text := t.text(int(id))
	if text == "" {
		return ""
	}
	for _, d := range t.decoders {
		text = d.decode(text, position{added: t.added[int(id)]})
	}
	return text
}

// Decode returns the bytes of the text of tokens. It omits special tokens.
func (t *Tokenizer) Decode(ids []int32) string {
	var parts []string
	var added []bool
	for _, id := range ids {
		if text := t.text(int(id)); text != "" && !t.special[int(id)] {
			parts, added = append(parts, text), append(added, t.added[int(id)])
		}
	}
	for _, d := range t.decoders {
		if _, ok := d.(*fuse); ok && len(parts) > 0 {
			parts, added = []string{strings.Join(parts, "")}, []bool{false}
		}
		for i := range parts {
			parts[i] = d.decode(parts[i], position{i == 0, i == len(parts)-1, added[i]})
		}
	}
	return strings.Join(parts, "")
}
