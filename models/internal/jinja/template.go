// Package jinja renders chat templates as Hugging Face's transformers does: with Jinja2's language
// in a sandbox where nothing can be changed, trim_blocks, lstrip_blocks, break and continue. It
// supports the constructs of published chat templates. Anything else is an error, never a wrong
// text.
//
// A template is hostile input: its nesting, work and output are bounded, it reads no files, and
// each character of its output is known to come from the template or from the input.
package jinja

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// Template is a parsed template. Several goroutines may render it at the same time.
type Template struct{ body []statement }

// Input is a text from outside. Its characters remain Input whatever a template does with them.
type Input string

// Unknown is the value of a variable that the program does not know, and the reason. Using it is an
// error.
type Unknown string

// Dict is a mapping with ordered keys.
type Dict []Entry

// Entry is a key of a mapping with its value.
type Entry struct {
	Key   string
	Value any
}

// Piece is a part of an output: either text of the template and trusted values, or of an Input.
type Piece struct {
	Text  string
	Input bool
}

// Text concatenates pieces.
func Text(pieces []Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.Text)
	}
	return b.String()
}

// mostSource bounds the size of a template, six times the longest published ones.
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

// Render renders the template with variables, in pieces. A variable is nil, a bool, int, float64,
// string, Input, Dict, []any or map[string]any of these, or Unknown. Keys of a map are Input, too.
// now is the time for strftime_now.
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

// fault is an error on its way up the stack, with the line of the template if it is known.
type fault struct {
	line  int
	error error
}

// fail makes Parse or Render return an error.
func fail(format string, args ...any) { failAt(0, format, args...) }

func failAt(line int, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if len(message) > mostError {
		message = strings.ToValidUTF8(message[:mostError], "") + "…"
	}
	panic(fault{line, errors.New(message)})
}

// mostError bounds how much of a value an error shows.
const mostError = 500

// catch turns a fault into the error of its caller.
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
