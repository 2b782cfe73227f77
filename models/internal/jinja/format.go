package jinja

import (
	"math"
	"strconv"
	"strings"
)

// conversion is one conversion of a format with %: flags, width, precision and a letter.
type conversion struct {
	left, zero, sign, space, hash bool
	width, precision              int // precision -1: none
	letter                        rune
}

// mostWidth bounds the width of a conversion.
const mostWidth = 1 << 12

// formatted applies a format with % to a value, to several in a tuple, or to names in a mapping.
func (r *run) formatted(format text, v value) text {
	f := formatter{run: r, format: format, of: v}
	if t, ok := v.(tuple); ok {
		f.rest = t
	} else {
		f.rest = tuple{v}
	}
	var parts []text
	for {
		at := r.index(f.format, text{'%'})
		if at < 0 {
			break
		}
		r.charge(workOfStep)
		parts, f.format = append(parts, f.format[:at]), f.format[at+1:]
		parts = append(parts, f.conversion())
	}
	_, mapping := v.(*dict)
	if len(f.rest) > 0 && !mapping {
		fail("a format has fewer conversions than values")
	}
	return r.join(append(parts, f.format), nil)
}

// formatter is the rest of a format and of its values.
type formatter struct {
	*run
	format text
	of     value
	rest   tuple
}

// nextCharacter returns the next character, without the bit of its origin.
func (f *formatter) nextCharacter() rune {
	if len(f.format) == 0 {
		fail("a format ends in the middle of a conversion")
	}
	r := char(f.format[0])
	f.format = f.format[1:]
	return r
}

// conversion formats the next conversion.
func (f *formatter) conversion() text {
	c := conversion{precision: -1}
	named := len(f.format) > 0 && char(f.format[0]) == '('
	var v value
	if named {
		f.nextCharacter()
		v = f.named()
	}
	f.flags(&c)
	if c == (conversion{precision: -1, letter: '%'}) && !named {
		return text{'%'}
	}
	if !named {
		if len(f.rest) == 0 {
			fail("a format has more conversions than values")
		}
		v, f.rest = f.rest[0], f.rest[1:]
	}
	return c.padded(f.run, c.convert(f.run, v))
}

// named returns the value of a name in parentheses.
func (f *formatter) named() value {
	d, ok := f.of.(*dict)
	end := f.index(f.format, text{')'})
	if !ok || end < 0 {
		fail("a format has a name, want ) after it and a mapping")
	}
	name := f.format[:end]
	f.format = f.format[end+1:]
	v, ok := f.get(d, name)
	if !ok {
		fail("a format has the name %.40q, which the mapping has not", name.plain())
	}
	return v
}

func (f *formatter) flags(c *conversion) {
	flags := map[rune]*bool{'-': &c.left, '0': &c.zero, '+': &c.sign, ' ': &c.space, '#': &c.hash}
	x := f.nextCharacter()
	for ; flags[x] != nil; x = f.nextCharacter() {
		*flags[x] = true
	}
	number := func() (n int) {
		for ; x >= '0' && x <= '9'; x = f.nextCharacter() {
			if n = 10*n + int(x-'0'); n > mostWidth {
				fail("a format has a number above %d", mostWidth)
			}
		}
		return n
	}
	if c.width = number(); x == '.' {
		x = f.nextCharacter()
		c.precision = number()
	}
	c.letter = x
}

// convert returns a value's text, without padding for a number.
func (c *conversion) convert(r *run, v value) text {
	switch c.letter {
	case 's', 'r':
		c.zero = false
		t := r.str(v)
		if c.letter == 'r' {
			t = r.repr(v)
		}
		if c.precision >= 0 && c.precision < len(t) {
			t = t[:c.precision]
		}
		return t
	case 'd', 'i', 'u', 'x', 'X', 'o':
		return c.integer(v)
	case 'f', 'F', 'e', 'E', 'g', 'G':
		defined(v)
		x, ok := float(v)
		if !ok {
			fail("%%%c is of a value of type %s, want a number", c.letter, typeName(v))
		}
		return textOf(c.signed(x < 0 || x == 0 && math.Signbit(x), c.float(math.Abs(x))), 0)
	}
	fail("%%%c in a format is not supported", c.letter)
	return nil
}

func (c *conversion) integer(v value) text {
	defined(v)
	n, ok := integer(v)
	if f, isFloat := v.(float64); isFloat && strings.ContainsRune("diu", c.letter) {
		n, ok = truncated(f), true
	}
	if !ok || c.precision >= 0 {
		fail("%%%c is of a value of type %s, want a number, and no precision", c.letter, typeName(v))
	}
	bases := map[rune]int{'x': 16, 'X': 16, 'o': 8}
	base, prefix := 10, ""
	if b := bases[c.letter]; b != 0 {
		base = b
		if c.hash {
			prefix = "0" + string(c.letter)
		}
	}
	digits := strings.TrimPrefix(strconv.FormatInt(n, base), "-")
	if c.letter == 'X' {
		digits = strings.ToUpper(digits)
	}
	return textOf(c.signed(n < 0, prefix+digits), 0)
}

func (c *conversion) float(x float64) string {
	if c.hash {
		fail("# with %%%c in a format is not supported", c.letter)
	}
	precision := c.precision
	if precision < 0 {
		precision = 6
	}
	if math.IsInf(x, 0) || math.IsNaN(x) {
		c.zero = false
		return floatText(x)
	}
	letter := byte(c.letter)
	if letter |= 0x20; letter == 'g' {
		precision = max(precision, 1)
	}
	made := strconv.FormatFloat(x, letter, precision, 64)
	if c.letter < 'a' {
		made = strings.ToUpper(made)
	}
	return made
}

func (c *conversion) signed(negative bool, digits string) string {
	switch {
	case negative:
		return "-" + digits
	case c.sign:
		return "+" + digits
	case c.space:
		return " " + digits
	}
	return digits
}

// padded pads a text to the width.
func (c *conversion) padded(r *run, t text) text {
	pad := c.width - len(t)
	if pad <= 0 {
		return t
	}
	switch {
	case c.left:
		return r.join([]text{t, blanks(pad, ' ')}, nil)
	case c.zero:
		sign := 0
		for sign < len(t) && strings.ContainsRune("+- ", char(t[sign])) {
			sign++
		}
		if c.hash && c.letter != 'd' {
			sign += 2
		}
		return r.join([]text{t[:sign], blanks(pad, '0'), t[sign:]}, nil)
	}
	return r.join([]text{blanks(pad, ' '), t}, nil)
}

func blanks(n int, of rune) text {
	made := make(text, n)
	for i := range made {
		made[i] = of
	}
	return made
}

// formatMethod is str.format, with fields {}, {0} and {name}.
func formatMethod(r *run, t text, a *arguments) value {
	var parts []text
	next := 0
	for len(t) > 0 {
		r.charge(workOfStep)
		switch x := char(t[0]); {
		case (x == '{' || x == '}') && len(t) > 1 && char(t[1]) == x:
			parts, t = append(parts, t[:1]), t[2:]
		case x == '{':
			end := r.index(t, text{'}'})
			if end < 0 {
				fail("a format has { without }")
			}
			parts = append(parts, r.str(a.field(r.plain(t[1:end]), &next)))
			t = t[end+1:]
		case x == '}':
			fail("a format has } without {")
		default:
			n := 1
			for n < len(t) && char(t[n]) != '{' && char(t[n]) != '}' {
				n++
			}
			parts, t = append(parts, t[:n]), t[n:]
		}
	}
	return r.join(parts, nil)
}

// field returns the argument of a field.
func (a *arguments) field(field string, next *int) value {
	if strings.ContainsAny(field, ":!.[{") {
		fail("{%.40s} in a format is not supported, want a name or number", field)
	}
	at, err := strconv.Atoi(field)
	switch {
	case field == "" && *next >= 0:
		at = *next
		*next++
	case field == "" || err == nil && *next > 0:
		fail("a format has fields with and without numbers, want only one kind")
	case err == nil:
		*next = -1
	default:
		for i, name := range a.names {
			if name == field {
				return a.values[i]
			}
		}
		at = -1
	}
	if at < 0 || at >= len(a.positions) {
		fail("a format has a field {%.40s} without a value", field)
	}
	return a.positions[at]
}
