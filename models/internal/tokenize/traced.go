package tokenize

import (
	"strings"
	"unicode/utf8"
)

// traced is a text that stages of a tokenizer have made, and where each of its bytes comes from if
// somebody asks. Bytes stand for what they stand for in Hugging Face's tokenizers: all bytes of a
// letter for the letter in whose place it is, and of a letter that was put between others for the
// one before it.
type traced struct {
	text string
	from *origins // of each byte; nil if nobody asks
}

// origin is some bytes of a text as it was given.
type origin struct{ start, end int }

// origins are where the bytes of a text come from. A text that nobody asks about should be small.
type origins []origin

// append adds an origin of some bytes.
func (l *origins) append(o origin, times int) {
	for range times {
		*l = append(*l, o)
	}
}

// given is a text as it was given, of which each byte that is no UTF-8 has become U+FFFD.
func given(text string) traced {
	from := make(origins, 0, len(text))
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		from.append(origin{at, at + size}, utf8.RuneLen(r))
		at += size
	}
	return traced{valid(text), &from}
}

// slice is some bytes of a text.
func (t traced) slice(start, end int) traced {
	if t.from == nil {
		return traced{text: t.text[start:end]}
	}
	from := (*t.from)[start:end]
	return traced{t.text[start:end], &from}
}

// span is what some bytes of a text stand for.
func (t traced) span(start, end int) origin {
	if start < end {
		return origin{(*t.from)[start].start, (*t.from)[end-1].end}
	}
	at := t.before(start).end
	return origin{at, at}
}

// before is what the letter before a place stands for.
func (t traced) before(at int) origin {
	switch from := *t.from; {
	case at > 0:
		return from[at-1]
	case len(from) > 0:
		return origin{from[0].start, from[0].start}
	}
	return origin{}
}

// perLetter applies a function that makes the same of a text as of each letter alone.
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

// prepend puts a text before what is not empty. It stands for the first letter.
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

// replaceAll puts a text in the place of another one wherever that is.
func (t traced) replaceAll(old, content string) traced {
	made := traced{strings.ReplaceAll(t.text, old, content), t.from}
	if t.from == nil || made.text == t.text {
		return made
	}
	w := tracer{of: t}
	for at := 0; ; {
		i := strings.Index(t.text[at:], old)
		if i < 0 {
			w.keep(at, len(t.text))
			return w.made()
		}
		w.keep(at, at+i)
		at += i + len(old)
		w.insert(content, at)
	}
}

// transform is what edits make of a text.
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

// tracedIf is a text with origins if they are wanted.
func tracedIf(wanted bool, text string, from origins) traced {
	if !wanted {
		return traced{text: text}
	}
	return traced{text, &from}
}

// tracer writes a text that is made of another one, from its beginning to its end.
type tracer struct {
	of   traced
	text strings.Builder
	from origins
	more int // bytes of the last letter, if it came without one of the text
}

func (w *tracer) made() traced { return tracedIf(w.of.from != nil, w.text.String(), w.from) }

// keep writes some bytes as they are.
func (w *tracer) keep(start, end int) {
	w.text.WriteString(w.of.text[start:end])
	if w.of.from != nil {
		w.from = append(w.from, (*w.of.from)[start:end]...)
	}
}

// append writes what was made of some bytes.
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

// replace writes a text in the place of some letters: letter for letter, and what is more stands
// for the last one. If there is no text, a letter before that was more replaces the first one.
func (w *tracer) replace(start, end int, text string) {
	w.text.WriteString(text)
	if w.of.from != nil {
		w.trace(start, end, text)
	}
}

// trace says where the letters of replace come from.
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
