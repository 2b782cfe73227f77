package tokenize

import (
	"errors"
	"fmt"
	"strings"
)

// decoder turns a token's text into what a reader sees. As tokens come one after another, the
// beginning of a text is not known, and stays as it is.
type decoder interface {
	decode(token string) string
}

var decoderKinds = stageKinds[decoder]{"decoder", "decoders", map[string]func() decoder{
	"ByteLevel":    func() decoder { return &byteLetters{} },
	"Metaspace":    func() decoder { return &spaces{} },
	"Replace":      func() decoder { return &replaceLetters{} },
	"ByteFallback": func() decoder { return &byteTokens{} },
	"Fuse":         func() decoder { return &fuse{} },
	"Strip":        func() decoder { return &stripBeginning{} },
	"BPEDecoder":   func() decoder { return &suffix{Suffix: "</w>"} },
}}

// byteLetters has bytes for letters.
type byteLetters struct{ trimmed }

func (*byteLetters) decode(token string) string { return lettersToBytes(token) }

// spaces has spaces where Metaspace shows them.
type spaces struct{ metaspace }

func (s *spaces) decode(token string) string {
	return strings.ReplaceAll(token, s.Replacement, " ")
}

type replaceLetters struct{ replace }

func (r *replaceLetters) decode(token string) string {
	return strings.ReplaceAll(token, r.Pattern.text, r.Content)
}

func (r *replaceLetters) prepare() error {
	if old := r.Pattern.text; len(old) < max(len(r.Content), 1) {
		return fmt.Errorf("%q becomes %q, want a String that is not shorter", old, r.Content)
	}
	return nil
}

// byteTokens are bytes in the form <0x0A>.
type byteTokens struct{}

func (*byteTokens) decode(token string) string {
	var b byte
	if n, err := fmt.Sscanf(token, "<0x%02X>", &b); n == 1 && err == nil && len(token) == 6 {
		return string([]byte{b})
	}
	return token
}

// fuse makes one text of all tokens.
type fuse struct{}

func (*fuse) decode(token string) string { return token }

// stripBeginning takes letters away from a whole text, whose beginning is the prompt here. Before a
// Fuse it would be from each token, which build refuses.
type stripBeginning struct {
	Content string `json:"content"`
	Start   int    `json:"start"`
	Stop    int    `json:"stop"`
}

func (*stripBeginning) decode(token string) string { return token }

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

func (s *suffix) decode(token string) string { return strings.ReplaceAll(token, s.Suffix, " ") }

func (s *suffix) prepare() error {
	if s.Suffix == "" {
		return errors.New("there is no suffix, want some letters")
	}
	return nil
}
