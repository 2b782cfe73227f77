package tokenize

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// precompiled is SentencePiece's normalizer (nmt_nfkc and others): a map from letters to texts, in
// the file's form. Keys are in a double array (Aoe 1989, in the layout of darts-clone), and values
// in a list of texts that end with a byte 0.
type precompiled struct {
	Map   string `json:"precompiled_charsmap"`
	units []uint32
	texts string
}

func (p *precompiled) prepare() error {
	data, err := base64.StdEncoding.DecodeString(p.Map)
	if err != nil {
		return fmt.Errorf("precompiled_charsmap: %w", err)
	}
	return p.read(data)
}

// read divides a map into the size of the double array in bytes, the double array, and the texts.
func (p *precompiled) read(data []byte) error {
	if len(data) < 4 {
		return fmt.Errorf("precompiled_charsmap has %d bytes, want a map", len(data))
	}
	size := int64(binary.LittleEndian.Uint32(data))
	if data = data[4:]; size%4 != 0 || size > int64(len(data)) {
		return fmt.Errorf("precompiled_charsmap says that %d bytes are its keys, want a multiple of 4 "+
			"up to %d", size, len(data))
	}
	for at := range size / 4 {
		p.units = append(p.units, binary.LittleEndian.Uint32(data[4*at:]))
	}
	if p.texts = string(data[size:]); !utf8.ValidString(p.texts) {
		return errors.New("precompiled_charsmap has texts that are not UTF-8, want UTF-8")
	}
	return nil
}

// unit returns an element of the double array, and one that leads nowhere for an index outside.
func (p *precompiled) unit(at uint32) uint32 {
	if int64(at) < int64(len(p.units)) {
		return p.units[at]
	}
	return 1 << 31 // its label is no byte
}

// become returns the value of the shortest key that a text begins with.
func (p *precompiled) become(text string) (string, bool) {
	offset := func(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }
	at := offset(p.unit(0))
	for i := 0; i < len(text) && text[i] != 0; i++ {
		at ^= uint32(text[i])
		unit := p.unit(at)
		if unit&(1<<31|0xff) != uint32(text[i]) {
			return "", false
		}
		if at ^= offset(unit); unit>>8&1 == 1 { // a key ends here
			from := p.unit(at) & (1<<31 - 1)
			if int64(from) > int64(len(p.texts)) {
				return "", false
			}
			made, _, _ := strings.Cut(p.texts[from:], "\x00")
			return made, true
		}
	}
	return "", false
}

// normalize replaces grapheme clusters of fewer than 6 bytes, and each character of longer ones, as
// Hugging Face's tokenizers do.
func (p *precompiled) normalize(t traced, most *budget) (traced, error) {
	w := tracer{of: t}
	at, state, letter, rest := 0, -1, "", t.text
	for len(rest) > 0 {
		if letter, rest, state = nextLetter(rest, state); len(letter) < 6 {
			if made, ok := p.become(letter); ok {
				w.replace(at, at+len(letter), made)
				at += len(letter)
				letter = ""
			}
		}
		for _, r := range letter {
			character := string(r)
			size := len(character)
			if made, ok := p.become(character); ok {
				character = made
			}
			w.replace(at, at+size, character)
			at += size
		}
		if err := grown(w.text.Len(), most.bytes); err != nil {
			return traced{}, err
		}
	}
	return w.made(), nil
}

// nextLetter cuts off a grapheme cluster. A letter of ASCII before another is a cluster, which
// needs no tables.
func nextLetter(text string, state int) (letter, rest string, _ int) {
	if len(text) == 1 || text[0] < utf8.RuneSelf && text[1] < utf8.RuneSelf && text[0] != '\r' {
		return text[:1], text[1:], -1
	}
	letter, rest, _, state = uniseg.FirstGraphemeClusterInString(text, state)
	return letter, rest, state
}

// nmt is the first step of nmt_nfkc alone: it drops control characters and turns all kinds of
// spaces into one.
type nmt struct{}

func (*nmt) normalize(t traced, b *budget) (traced, error) {
	t = b.without(t, func(r rune) bool {
		return 1 <= r && r <= 8 || r == 11 || 14 <= r && r <= 31 || r == 127 || r == 0x8f || r == 0x9f
	})
	return t.perLetter(oneSpace), nil
}

func oneSpace(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == 9, r == 10, r == 12, r == 13, r == 0x1680, 0x200b <= r && r <= 0x200f, r == 0x2028,
			r == 0x2029, r == 0x2581, r == 0xfeff, r == 0xfffd:
			return ' '
		}
		return r
	}, text)
}
