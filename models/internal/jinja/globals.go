package jinja

import (
	"strings"
)

// mostRange bounds the numbers of a range, as Jinja's sandbox does.
const mostRange = 100_000

// jinjaOnly are functions and objects of Jinja that are not supported here.
var jinjaOnly = map[string]bool{"cycler": true, "joiner": true, "lipsum": true, "self": true}

// globals returns the functions of each template.
func globals() map[string]value {
	made := map[string]value{}
	for name, f := range map[string]func(r *run, a *arguments) value{"dict": newMapping,
		"namespace": newNamespace, "raise_exception": raise, "range": newRange,
		"strftime_now": clock} {
		made[name] = callable{name, f}
	}
	return made
}

func raise(r *run, a *arguments) value {
	why := a.valuesOf("raise_exception", 0, "message")[0]
	if why == nil {
		fail("it refuses the conversation")
	}
	fail("it refuses the conversation: %s", r.str(why).plain())
	return nil
}

func newRange(_ *run, a *arguments) value {
	if len(a.positions) == 1 {
		a.positions = []value{int64(0), a.positions[0]}
	}
	if len(a.names) > 0 {
		fail("range has a parameter %s, want numbers only", a.names[0])
	}
	args := a.valuesOf("range", 2, "start", "stop", "step")
	s := span{intOr(args[0], 0), intOr(args[1], 0), intOr(args[2], 1)}
	if s.step == 0 {
		fail("range has step 0, want another one")
	}
	if s.len() > mostRange {
		fail("range has more than %d numbers", mostRange)
	}
	return s
}

// newMapping is dict, of a mapping or pairs, and of named arguments.
func newMapping(r *run, a *arguments) value {
	d := newDict()
	if len(a.positions) > 1 {
		fail("dict has %d arguments, want a mapping or pairs", len(a.positions))
	} else if len(a.positions) == 1 {
		r.fill(d, a.positions[0])
	}
	for i, name := range a.names {
		r.set(d, textOf(name, 0), a.values[i])
	}
	return d
}

// fill adds a mapping or pairs to a dict.
func (r *run) fill(d *dict, v value) {
	if more, ok := v.(*dict); ok {
		r.add(d, more)
		return
	}
	for _, item := range r.each(v) {
		pair := r.each(item)
		if len(pair) != 2 {
			fail("dict has an item of %d values, want pairs", len(pair))
		}
		r.set(d, pair[0], pair[1])
	}
}

func newNamespace(r *run, a *arguments) value {
	return &namespace{newMapping(r, a).(*dict)}
}

// layouts are Go's layouts for the letters of Python's strftime.
var layouts = map[byte]string{'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'd': "02",
	'D': "01/02/06", 'e': "_2", 'F': "2006-01-02", 'h': "Jan", 'H': "15", 'I': "03", 'j': "002",
	'm': "01", 'M': "04", 'p': "PM", 'R': "15:04", 'S': "05", 'T': "15:04:05", 'y': "06", 'Y': "2006"}

// clock is strftime_now.
func clock(r *run, a *arguments) value {
	format := r.plain(textOr(a.valuesOf("strftime_now", 1, "format")[0], ""))
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(format, "%")
		b.WriteString(before)
		if !found {
			return textOf(b.String(), 0)
		}
		rest, short := strings.CutPrefix(rest, "-") // no leading zeros
		if rest == "" {
			fail("strftime_now has %% at the end of its format")
		}
		b.WriteString(r.moment(rest[0], short))
		format = rest[1:]
	}
}

// moment returns a part of the time.
func (r *run) moment(letter byte, short bool) string {
	layout, ok := layouts[letter]
	switch {
	case letter == '%' && !short:
		return "%"
	case !ok || short && !strings.ContainsRune("deHIjmMSy", rune(letter)):
		fail("strftime_now has %%%c, want one of aAbBdDeFhHIjmMpRSTyY", letter)
	}
	made := r.now.Format(layout)
	if short {
		made = strings.TrimLeft(made[:len(made)-1], "0 ") + made[len(made)-1:]
	}
	return made
}
