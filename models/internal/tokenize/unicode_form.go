package tokenize

import (
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// unicodeForm is a normalization form of Unicode.
type unicodeForm struct{ form norm.Form }

func (u *unicodeForm) normalize(text string, _ *budget) (string, error) {
	return inForm(u.form, text), nil
}

// inForm is a text in a form. The library has the form for streams, in which a letter has at most
// 30 marks: it puts a joiner between more.
func inForm(form norm.Form, text string) string {
	made := form.String(text)
	if strings.Count(made, joiner) == strings.Count(text, joiner) {
		return made
	}
	all := decomposed(form, text)
	if form == norm.NFC || form == norm.NFKC {
		all = composed(all)
	}
	return string(all)
}

const joiner = "\u034f"

// class is the canonical combining class of a letter, 0 for one that begins something.
func class(r rune) uint8 { return norm.NFD.PropertiesString(string(r)).CCC() }

// decomposed are the decompositions of all letters, with marks in their order (The Unicode
// Standard, 3.11: D108, D109).
func decomposed(form norm.Form, text string) (all []rune) {
	compatible := form == norm.NFKC || form == norm.NFKD
	whole := map[bool]norm.Form{false: norm.NFD, true: norm.NFKD}[compatible]
	for _, r := range text {
		all = append(all, []rune(whole.String(string(r)))...)
	}
	isStart := func(r rune) bool { return class(r) == 0 }
	for at := 0; at < len(all); {
		marks := all[at:]
		if next := slices.IndexFunc(marks, isStart); next >= 0 {
			marks = marks[:next]
		}
		slices.SortStableFunc(marks, func(a, b rune) int { return int(class(a)) - int(class(b)) })
		at += len(marks) + 1
	}
	return all
}

// composed joins letters with what follows them, unless another mark of the same or a higher class
// is between (D115, D117).
func composed(runes []rune) (all []rune) {
	start, last := -1, uint8(0) // the place of the letter, and the class before
	for _, r := range runes {
		c := class(r)
		if blocked := start+1 < len(all) && last >= c; start >= 0 && !blocked {
			if one := []rune(norm.NFC.String(string([]rune{all[start], r}))); len(one) == 1 {
				all[start] = one[0]
				continue
			}
		}
		if c == 0 {
			start = len(all)
		}
		all, last = append(all, r), c
	}
	return all
}
