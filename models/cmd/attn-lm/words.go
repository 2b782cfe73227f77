package main

import "strings"

// words are the text of an answer, which ends before the first of some texts that comes in it.
type words struct {
	decode func(token int) string // nil where nobody reads the answer
	stops  []string
	text   string
	ended  bool // by one of these texts
	// what the prompt has of the answer, in a chat
	opening string
}

// add appends what a token says, and reports whether that ends the answer.
func (w *words) add(token int) bool {
	if w.decode == nil {
		return false
	}
	before := len(w.text)
	w.text += w.decode(token)
	first := len(w.text)
	for _, stop := range w.stops {
		from := max(0, before-len(stop)+1) // it was not there before
		if at := strings.Index(w.text[from:], stop); at >= 0 {
			first, w.ended = min(first, from+at), true
		}
	}
	w.text = w.text[:first]
	return w.ended
}

// shown is what may be printed: not yet what may become a text that ends the answer.
func (w *words) shown(done bool) string {
	if done {
		return w.text
	}
	keep := 0
	for _, stop := range w.stops {
		for n := min(len(stop)-1, len(w.text)); n > keep; n-- {
			if strings.HasSuffix(w.text, stop[:n]) {
				keep = n
			}
		}
	}
	return w.text[:len(w.text)-keep]
}
