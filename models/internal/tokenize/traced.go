package tokenize

import (
	"strings"
	"unicode/utf8"
)

// traced is a text made by stages of a tokenizer, with the origin of each byte if that is wanted.
// Origins are the same as in Hugging Face's tokenizers: all bytes of a letter stand for the letter
// that it replaces, and those of an inserted letter for the letter before it.
type traced struct {
	text string
	from *origins // of each byte; nil if not wanted
}

// origin is a range of bytes of the original text.
type origin struct{ start, end int }

// origins are the origins of a text's bytes. traced has a pointer to them, so that texts without
// them are small.
type origins []origin

// append adds an origin of several bytes.
func (l *origins) append(o origin, times int) {
	for range times {
		*l = append(*l, o)
	}
}

// given is an original text, in which each byte that is not UTF-8 has become U+FFFD.
func given(text string) traced {
	from := make(origins, 0, len(text))
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		from.append(origin{at, at + size}, utf8.RuneLen(r))
		at += size
	}
	return traced{valid(text), &from}
}

// slice returns a range of bytes of the text.
func (t traced) slice(start, end int) traced {
	if t.from == nil {
		return traced{text: t.text[start:end]}
	}
	from := (*t.from)[start:end]
	return traced{t.text[start:end], &from}
}

// span returns the origin of a range of bytes.
func (t traced) span(start, end int) origin {
	if start < end {
		return origin{(*t.from)[start].start, (*t.from)[end-1].end}
	}
	at := t.before(start).end
	return origin{at, at}
}

// before returns the origin of the letter before a place.
func (t traced) before(at int) origin {
	switch from := *t.from; {
	case at > 0:
		return from[at-1]
	case len(from) > 0:
		return origin{from[0].start, from[0].start}
	}
	return origin{}
}

// perLetter applies a function that changes each letter of a text independently.
func (t traced) perLetter(apply func(text string) string) traced {
	made := traced{apply(t.text), t.from}
	if t.from == nil || made.text == t.text {
		return made
	}
	from := make(origins, 0, len(made.text))
	for at, r := range t.text {
		letter := t.text[at : at+utf8.RuneLen(r)]
		from.append((*t.from)[at], len(apply(letter)))
	}
	made.from = &from
	return made
}

// prepend puts a text before one that is not empty. It stands for the first letter.
func (t traced) prepend(text string) traced {
	made := traced{text: text + t.text}
	if t.from != nil {
		from := make(origins, 0, len(made.text))
		from.append((*t.from)[0], len(text))
		from = append(from, *t.from...)
		made.from = &from
	}
	return made
}

// replaceAll replaces a text by another one wherever it occurs.
func (t traced) replaceAll(old, content string) traced {
	made := traced{strings.ReplaceAll(t.text, old, content), t.from}
	if t.from == nil || made.text == t.text {
		return made
	}
	w := tracer{of: t}
	for at := 0; ; {
		i := strings.Index(t.text[at:], old)
		if i < 0 {
			w.copyRange(at, len(t.text))
			return w.made()
		}
		w.copyRange(at, at+i)
		at += i + len(old)
		w.insert(content, at)
	}
}

// transform applies edits to a text.
func (t traced) transform(edits []edit) traced {
	var text strings.Builder
	var from origins
	at := 0
	for _, e := range edits {
		text.WriteRune(e.rune)
		if t.from == nil {
			continue
		}
		stands := t.before(at)
		if e.change <= 0 {
			stands = (*t.from)[at]
		}
		for n := e.change; n <= 0; n++ {
			_, size := utf8.DecodeRuneInString(t.text[at:])
			at += size
		}
		from.append(stands, utf8.RuneLen(e.rune))
	}
	return tracedIf(t.from != nil, text.String(), from)
}

// tracedIf returns a text with origins if they are wanted.
func tracedIf(wanted bool, text string, from origins) traced {
	if !wanted {
		return traced{text: text}
	}
	return traced{text, &from}
}

// tracer writes a text that is made of another one, from beginning to end.
type tracer struct {
	of   traced
	text strings.Builder
	from origins
	more int // bytes of the last letter, if it was written in addition to the text's letters
}

func (w *tracer) made() traced { return tracedIf(w.of.from != nil, w.text.String(), w.from) }

// copyRange copies a range of bytes.
func (w *tracer) copyRange(start, end int) {
	w.text.WriteString(w.of.text[start:end])
	if w.of.from != nil {
		w.from = append(w.from, (*w.of.from)[start:end]...)
	}
}

// append writes the text made of some bytes.
func (w *tracer) append(t traced) {
	w.text.WriteString(t.text)
	w.from = append(w.from, *t.from...)
}

// insert writes a text that stands for the letter before a place.
func (w *tracer) insert(text string, at int) {
	w.text.WriteString(text)
	if w.of.from != nil {
		w.from.append(w.of.before(at), len(text))
	}
}

// replace writes a text in place of some letters: letter for letter, and further letters stand for
// the last one. If the text is empty, an additional letter before it stands for the first of them.
func (w *tracer) replace(start, end int, text string) {
	w.text.WriteString(text)
	if w.of.from != nil {
		w.trace(start, end, text)
	}
}

// trace sets the origins of the letters of replace.
func (w *tracer) trace(start, end int, text string) {
	if text == "" {
		for i := range w.more {
			w.from[len(w.from)-1-i] = (*w.of.from)[start]
		}
		w.more = 0
	}
	for _, r := range text {
		w.more = utf8.RuneLen(r)
		if start < end {
			_, size := utf8.DecodeRuneInString(w.of.text[start:end])
			start += size
			w.more = 0
		}
		w.from.append(w.of.before(start), utf8.RuneLen(r))
	}
}
