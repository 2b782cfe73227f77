package folder

import (
	"fmt"
	"strings"
)

// pairs is the vocabulary of a byte-pair encoding and which pairs become one token, the earliest of
// the list first.
type pairs struct {
	vocab        map[string]int
	ranks        map[[2]string]int
	byteFallback bool
	ignoreMerges bool // where a whole word is a token
	unknown      string
}

func newPairs(f *tokenizerFile) (pairs, error) {
	m := &f.Model
	p := pairs{m.Vocab, map[[2]string]int{}, m.ByteFallback, m.IgnoreMerges, m.Unknown}
	for i, pair := range m.Merges {
		if _, ok := m.Vocab[pair[0]+pair[1]]; !ok {
			return p, fmt.Errorf("merge %d makes %q, want a token of the vocabulary", i, pair[0]+pair[1])
		}
		if _, ok := p.ranks[pair]; !ok {
			p.ranks[pair] = i
		}
	}
	return p, nil
}

// word appends the tokens of a word.
func (p *pairs) word(ids []int, word string, byteLevel bool) ([]int, error) {
	if byteLevel {
		word = bytesToLetters(word)
	}
	if id, ok := p.vocab[word]; ok && p.ignoreMerges {
		return append(ids, id), nil
	}
	for _, symbol := range p.mergeAll(strings.Split(word, "")) {
		var err error
		if ids, err = p.symbol(ids, symbol); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// mergeAll joins the neighbours of the lowest rank until no pair has one.
func (p *pairs) mergeAll(symbols []string) []string {
	rank := func(i int) int {
		if r, ok := p.ranks[[2]string{symbols[i], symbols[i+1]}]; ok {
			return r
		}
		return len(p.ranks)
	}
	var ranks []int // of each symbol with the next
	for i := range len(symbols) - 1 {
		ranks = append(ranks, rank(i))
	}
	for len(ranks) > 0 {
		best := 0
		for i, r := range ranks {
			if r < ranks[best] {
				best = i
			}
		}
		if ranks[best] == len(p.ranks) {
			break
		}
		symbols[best] += symbols[best+1]
		symbols = append(symbols[:best+1], symbols[best+2:]...)
		ranks = append(ranks[:best], ranks[best+1:]...)
		if best > 0 {
			ranks[best-1] = rank(best - 1)
		}
		if best < len(ranks) {
			ranks[best] = rank(best)
		}
	}
	return symbols
}

// symbol appends a token, or what stands for one that is not in the vocabulary.
func (p *pairs) symbol(ids []int, symbol string) ([]int, error) {
	if id, ok := p.vocab[symbol]; ok {
		return append(ids, id), nil
	}
	var bytes []int
	for i := range len(symbol) {
		if id, ok := p.vocab[fmt.Sprintf("<0x%02X>", symbol[i])]; ok && p.byteFallback {
			bytes = append(bytes, id)
		}
	}
	if len(bytes) == len(symbol) {
		return append(ids, bytes...), nil
	}
	if id, ok := p.vocab[p.unknown]; ok {
		return append(ids, id), nil
	}
	return nil, fmt.Errorf("tokenizer.json has no token for %q, nor one for what is unknown", symbol)
}

// letters stands for each byte in a vocabulary of bytes: printable ones for themselves, others for
// letters from U+0100 on.
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
