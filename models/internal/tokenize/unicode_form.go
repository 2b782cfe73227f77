package tokenize

import (
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// unicodeForm is a normalization form of Unicode.
type unicodeForm struct{ form norm.Form }

func (u *unicodeForm) normalize(t traced, _ *budget) (traced, error) {
	return inForm(u.form, t), nil
}

// inForm returns a text in a form. The library has the form for streams, in which a letter has at
// most 30 marks: it puts a joiner between more marks.
func inForm(form norm.Form, t traced) traced {
	made := form.String(t.text)
	if strings.Count(made, joiner) != strings.Count(t.text, joiner) {
		return t.transform(editsInForm(form, t.text))
	}
	if t.from == nil || made == t.text {
		return traced{made, t.from}
	}
	w := tracer{of: t}
	for at, end := 0, 0; at < len(t.text); at = end {
		end = at + form.NextBoundaryInString(t.text[at:], true)
		if form.IsNormalString(t.text[at:end]) {
			w.copyRange(at, end)
		} else {
			w.append(t.slice(at, end).transform(editsInForm(form, t.text[at:end])))
		}
	}
	return w.made()
}

// edit is a letter of the new text, and how many letters of the old text it replaces.
type edit struct {
	rune
	change int // 0: the next letter; −n: n more; 1: none, it follows the letter before it
}

func editsInForm(form norm.Form, text string) []edit {
	all := decomposed(form, text)
	if form == norm.NFC || form == norm.NFKC {
		all = composed(all)
	}
	return all
}

const joiner = "\u034f"

// class returns the canonical combining class of a letter, 0 for a starter.
func class(r rune) uint8 { return norm.NFD.PropertiesString(string(r)).CCC() }

// decomposed returns the decompositions as edits, with marks in canonical order (The Unicode
// Standard, 3.11: D108, D109).
func decomposed(form norm.Form, text string) (all []edit) {
	compatible := form == norm.NFKC || form == norm.NFKD
	whole := map[bool]norm.Form{false: norm.NFD, true: norm.NFKD}[compatible]
	for _, r := range text {
		for i, r := range []rune(whole.String(string(r))) {
			all = append(all, edit{r, min(i, 1)})
		}
	}
	isStart := func(e edit) bool { return class(e.rune) == 0 }
	for at := 0; at < len(all); {
		marks := all[at:]
		if next := slices.IndexFunc(marks, isStart); next >= 0 {
			marks = marks[:next]
		}
		slices.SortStableFunc(marks, func(a, b edit) int {
			return int(class(a.rune)) - int(class(b.rune))
		})
		at += len(marks) + 1
	}
	return all
}

// composed joins letters with those after them, unless another mark of the same or a higher class
// is between (D115, D117).
func composed(edits []edit) (all []edit) {
	start, last := -1, uint8(0) // the place of the starter, and the class of the letter before
	for _, e := range edits {
		c := class(e.rune)
		if blocked := start+1 < len(all) && last >= c; start >= 0 && !blocked {
			if one := []rune(norm.NFC.String(string([]rune{all[start].rune, e.rune}))); len(one) == 1 {
				all[start] = edit{one[0], all[start].change + e.change - 1}
				continue
			}
		}
		if c == 0 {
			start = len(all)
		}
		all, last = append(all, e), c
	}
	return all
}
