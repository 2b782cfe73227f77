package tokenize

import (
	"strings"
	"unicode/utf8"
)

// letters has the letter of each byte in a vocabulary of bytes: printable ones stand for
// themselves, the others are letters from U+0100 on.
var letters, bytesOf = func() (letters [256]rune, bytes map[rune]byte) {
	bytes = map[rune]byte{}
	next := rune(256)
	for b := range 256 {
		letters[b] = rune(b)
		if b <= ' ' || b >= 0x7f && b <= 0xa0 || b == 0xad {
			letters[b] = next
			next++
		}
		bytes[letters[b]] = byte(b)
	}
	return letters, bytes
}()

func bytesToLetters(text string) string {
	var s strings.Builder
	for i := range len(text) {
		s.WriteRune(letters[text[i]])
	}
	return s.String()
}

func (t traced) bytesToLetters() traced {
	made := traced{text: bytesToLetters(t.text)}
	if t.from != nil {
		from := make(origins, 0, len(made.text))
		for i, o := range *t.from {
			from.append(o, utf8.RuneLen(letters[t.text[i]]))
		}
		made.from = &from
	}
	return made
}

func lettersToBytes(text string) string {
	var s strings.Builder
	for _, r := range text {
		if b, ok := bytesOf[r]; ok {
			s.WriteByte(b)
		} else {
			s.WriteRune(r)
		}
	}
	return s.String()
}
