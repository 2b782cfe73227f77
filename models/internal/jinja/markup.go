package jinja

import "strings"

var html = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;")

// safe reports whether a value is markup.
func safe(v value) bool {
	_, ok := v.(markup)
	return ok
}

// plainText returns markup as a text, and any other value unchanged.
func plainText(v value) value {
	if m, ok := v.(markup); ok {
		return m.text
	}
	return v
}

// escaped returns a value's text with HTML's special characters as entities.
func (r *run) escaped(v value) markup {
	if m, ok := v.(markup); ok {
		return m
	}
	t := r.str(v)
	r.charge(len(t))
	var made text
	for _, x := range t {
		for _, y := range html.Replace(string(char(x))) {
			made = append(made, y|x&fromInput)
		}
	}
	return markup{made}
}

// markups returns the concatenation of two texts of which at least one is markup, otherwise nil.
func (r *run) markups(a, b value) value {
	for _, v := range []value{a, b} {
		if typeName(v) != "str" && !safe(v) {
			return nil
		}
	}
	return markup{r.join([]text{r.escaped(a).text, r.escaped(b).text}, nil)}
}

func escapeFilter(r *run, v value, a *arguments) value {
	a.valuesOf("escape", 0)
	return r.escaped(v)
}

func safeFilter(r *run, v value, a *arguments) value {
	a.valuesOf("safe", 0)
	return markup{r.str(v)}
}
