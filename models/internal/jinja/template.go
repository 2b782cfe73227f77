// Package jinja renders chat templates as Hugging Face's transformers does: with Jinja2's language
// in a sandbox where nothing can be changed, trim_blocks, lstrip_blocks, break and continue. It has
// what published chat templates use. Anything else is an error, never another text.
//
// A template is hostile input: its nesting, its work and what it makes are bounded, it reads no
// files, and each character of its output is known to be the template's or of the input.
package jinja

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// Template is a parsed template. Several goroutines may render it.
type Template struct{ body []statement }

// Input is a text that others wrote. What a template makes of it remains theirs.
type Input string

// Unknown is a variable's value that the program does not know, and why: to use it is an error.
type Unknown string

// Dict is a mapping whose keys have an order.
type Dict []Entry

// Entry is a key of a mapping with its value.
type Entry struct {
	Key   string
	Value any
}

// Piece is a part of an output: of the template's own text and trusted values, or of an Input.
type Piece struct {
	Text  string
	Input bool
}

// Text is all that pieces say.
func Text(pieces []Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.Text)
	}
	return b.String()
}

// mostSource bounds templates: the longest that are published have a sixth of it.
const mostSource = 1 << 18

// Parse reads a template.
func Parse(source string) (t *Template, err error) {
	defer catch(&err, nil)
	if len(source) > mostSource {
		fail("it has %d bytes, want at most %d", len(source), mostSource)
	} else if !utf8.ValidString(source) {
		fail("it is no valid UTF-8")
	}
	p := &parser{tokens: scan(source)}
	body, _ := p.body()
	return &Template{body}, nil
}

// Render returns the text that the template makes of variables, in pieces. A variable is nil, a
// bool, int, float64, string, Input, Dict, []any or map[string]any of these, or Unknown. Keys of a
// map are Input, too. Now is what strftime_now tells.
func (t *Template) Render(variables Dict, now time.Time) (pieces []Piece, err error) {
	r := &run{now: now, left: math.MaxInt64}
	defer catch(&err, &r.line)
	given := r.imported(variables).(*dict)
	r.left = freeWork + workOfInput*int64(r.read)
	outer := &scope{vars: globals()}
	for i, key := range given.keys {
		outer.vars[key.(text).plain()] = given.values[i]
	}
	r.all(t.body, outer.inner())
	return r.out.pieces(), nil
}

// fault is an error on its way up, with the line of the template if it is known.
type fault struct {
	line  int
	error error
}

// fail ends what Parse or Render do with an error.
func fail(format string, args ...any) { failAt(0, format, args...) }

func failAt(line int, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if len(message) > mostError {
		message = strings.ToValidUTF8(message[:mostError], "") + "…"
	}
	panic(fault{line, errors.New(message)})
}

// mostError bounds what an error says of values.
const mostError = 500

// catch makes a fault the error of its caller.
func catch(err *error, line *int) {
	switch r := recover().(type) {
	case nil:
	case fault:
		if r.line == 0 && line != nil {
			r.line = *line
		}
		if *err = r.error; r.line > 0 {
			*err = fmt.Errorf("line %d: %w", r.line, r.error)
		}
	default:
		panic(r)
	}
}
