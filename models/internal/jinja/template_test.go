package jinja

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestInput follows each character of an input through the operations on texts.
func TestInput(t *testing.T) {
	for _, c := range []struct{ source, want string }{ // the input's characters are in brackets
		{"{{ said }}", "[ Hello, you ]"},
		{"a{{ said | trim }}b", "a[Hello, you]b"},
		{"{{ '<' + said.strip() ~ '>' }}", "<[Hello, you]>"},
		{"{{ said.split(',')[0] }}|{{ said.split()[1] }}|{{ said.rsplit(none, 1)[1] }}",
			"[ Hello]|[you]|[you]"},
		{"{{ said | replace('l', 'L') }}", "[ He]LL[o, you ]"},
		{"{{ 'a-b' | replace('-', said) }}", "a[ Hello, you ]b"},
		{"{{ said | upper }}{{ said | title }}", "[ HELLO, YOU  Hello, You ]"},
		{"{{ said[1:3] }}{{ said[-2] }}{{ said[::-1] }}", "[Heu uoy ,olleH ]"},
		{"{{ [said, 'b'] }}", "['[ Hello, you ]', 'b']"},
		{"{{ {said: '\"'} | tojson }}", "{\"[ Hello, you ]\": \"\\\"\"}"},
		{"{{ said | list | join('-') }}", "[ ]-[H]-[e]-[l]-[l]-[o]-[,]-[ ]-[y]-[o]-[u]-[ ]"},
		{"{{ '%s!' % said }}{{ '{}?'.format(said) }}", "[ Hello, you ]![ Hello, you ]?"},
		{"{{ said | indent(2, true) }}", "  [ Hello, you ]"},
		{"{{ said.center(16, '*') }}", "**[ Hello, you ]**"},
		{"{{ said | escape }}{{ said | safe }}", "[ Hello, you  Hello, you ]"},
		{"{% set x %}<{{ said }}>{% endset %}{{ x | upper }}", "<[ HELLO, YOU ]>"},
		{"{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(said) | trim('<') }}", "[ Hello, you ]>"},
		{"{% filter upper %}a{{ said }}{% endfilter %}", "A[ HELLO, YOU ]"},
		{"{% for c in said %}{{ c }}{% endfor %}{{ said | first }}{{ said | reverse }}",
			"[ Hello, you   uoy ,olleH ]"},
		{"{{ said == ' Hello, you ' }}{{ 'you' in said }}{{ {' Hello, you ': 1}[said] }}", "TrueTrue1"},
		{"{{ said.startswith(' He') }}{{ said | length }}{{ said.find('you') }}", "True128"},
		{"{{ said.partition(',')[2] }}{{ said.splitlines()[0] }}", "[ you  Hello, you ]"},
	} {
		parsed, err := Parse(c.source)
		if err != nil {
			t.Error(err)
			continue
		}
		pieces, err := parsed.Render(Dict{{"said", Input(" Hello, you ")}}, moment)
		got := ""
		for _, p := range pieces {
			if p.Input {
				p.Text = "[" + p.Text + "]"
			}
			got += p.Text
		}
		if err != nil || got != c.want {
			t.Errorf("%s is %s (%v), want %s", c.source, got, err, c.want)
		}
	}
}

// TestBytes keeps texts that are not UTF-8 unchanged.
func TestBytes(t *testing.T) {
	const said = "a\xff\xc3é\x00\ufffd"
	got, err := rendered("{{ said | upper | lower | list | join }}", Dict{{"said", Input(said)}})
	if err != nil || got != said {
		t.Errorf("%q, %v; want %q", got, err, said)
	}
}

// TestBounds has templates that would use too much time, memory or stack.
func TestBounds(t *testing.T) {
	const grow = "{% set ns = namespace(x='ab') %}{% for i in range(100) %}" +
		"{% set ns.x = CHANGE %}{% endfor %}{{ ns.x | length }}"
	nested := strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000)
	for what, source := range map[string]string{
		"loops": strings.Repeat("{% for i in range(100000) %}", 4) + "x" +
			strings.Repeat("{% endfor %}", 4),
		"a macro":        "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
		"a sum":          strings.Replace(grow, "CHANGE", "ns.x + ns.x", 1),
		"a product":      "{{ 'ab' * 9000000000000000000 }}",
		"a list":         "{{ ([1] * 9000000) | length }}{{ [[]] * 4000000000 }}",
		"replace":        strings.Replace(grow, "CHANGE", "ns.x.replace('a', 'aaaaaaaaab')", 1),
		"join":           strings.Replace(grow, "CHANGE", "ns.x.join(ns.x)", 1),
		"a format":       "{{ '%999999999d' % 1 }}",
		"a width":        "{{ 'a'.center(9000000000000000000) }}",
		"an indentation": "{{ [1] | tojson(indent=9000000000000000000) }}",
		"deep JSON":      strings.Replace(grow, "CHANGE", "[ns.x, ns.x]", 1) + "{{ ns.x | tojson }}",
		"deep texts":     strings.Replace(grow, "CHANGE", "[ns.x, ns.x]", 1) + "{{ ns.x }}",
		"deep equality": "{% set ns = namespace(x=1, y=1) %}{% for i in range(100) %}" +
			"{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
		"keys": "{% set a = 'a' * 5000000 %}{% set d = {a: 1} %}{% for i in range(100000) %}" +
			"{{ d[a] }}{% endfor %}",
		"depth":           "{{ " + nested + " }}",
		"depth of not":    "{{ " + strings.Repeat("not ", 5000) + "1 }}",
		"depth of minus":  "{{ " + strings.Repeat("- ", 5000) + "1 }}",
		"depth of sums":   "{{ 1" + strings.Repeat("+1", 50000) + " }}",
		"depth of items":  "{{ 1" + strings.Repeat("[0]", 50000) + " }}",
		"depth of blocks": strings.Repeat("{% if 1 %}", 20000),
		"a long template": strings.Repeat("x", mostSource+1),
		"a search": "{% set a = 'a' * 5000000 %}{% for i in range(1000) %}{{ (a + 'b') in (a + a) }}" +
			"{% endfor %}",
		"comparisons": "{% set a = 'a' * 5000000 %}{% for i in range(100000) %}{{ a == a + '' }}" +
			"{% endfor %}",
		"a sort":  "{% set a = ['a' * 100000] * 100000 %}{{ a | sort | length }}",
		"spaces":  "{% set a = 'a ' * 1000000 %}{{ a.split() | length }}",
		"a range": "{{ range(-9000000000000000000, 9000000000000000000) | length }}",
		"a slice": "{{ 'abc'[::9223372036854775807] }}{{ 'abc'[::-9223372036854775807] * 999999999 }}",
		"itself":  "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x }}",
	} {
		start := time.Now()
		got, err := rendered(source, nil)
		if err == nil || time.Since(start) > 20*time.Second {
			t.Errorf("%s: %.40q after %v, want an error soon", what, got, time.Since(start))
		}
	}
}

// TestWork renders a long conversation, and many short ones.
func TestWork(t *testing.T) {
	var messages []any
	for range 2000 {
		content := Input(strings.Repeat("word ", 200))
		messages = append(messages, Dict{{"role", "user"}, {"content", content}})
	}
	got, err := rendered("{% set ns = namespace(last=0) %}{% for m in messages[::-1] %}"+
		"{% if m.role == 'user' and not m.content.startswith('x') %}{% set ns.last = loop.index %}"+
		"{% endif %}{% endfor %}{% for m in messages %}{{ '<|' + m.role + '|>' + m.content | trim }}"+
		"{% endfor %}{{ ns.last }}", Dict{{"messages", messages}})
	if err != nil || !strings.HasSuffix(got, "word2000") || len(got) < 2000*1000 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestUnknown: the error names the unknown variable.
func TestUnknown(t *testing.T) {
	vars := Dict{{"pad_token", Unknown("nobody read it")}}
	if got, err := rendered("{{ pad_token is defined }}", vars); err == nil ||
		!strings.Contains(err.Error(), "pad_token is not known: nobody read it") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestLines: the error names the line.
func TestLines(t *testing.T) {
	for source, line := range map[string]string{"a\n{{ nobody.x }}": "line 2: ",
		"{% if true %}\n\n{{ 1 +\n }}{% endif %}":                    "line 4: ",
		"{% for i in [1] %}\n{% endfor %}\n{% x %}":                  "line 3: ",
		"{% macro m() %}\n{{ nobody.x }}{% endmacro %}\n\n{{ m() }}": "line 2: "} {
		if _, err := rendered(source, nil); err == nil || !strings.HasPrefix(err.Error(), line) {
			t.Errorf("%q: %v, want it at %s", source, err, line)
		}
	}
}

// FuzzRender renders templates of chance: no input ends the program or takes long.
func FuzzRender(f *testing.F) {
	for _, source := range []string{"{% for m in messages %}{{ m.role | upper }}{% endfor %}",
		"{{ '%s' % d | tojson(indent=2) }}", "{% macro m(a, b=1) %}{{ a[1:] }}{% endmacro %}{{ m(s) }}",
		"{% set ns = namespace(x=1) %}{% if x is defined and n > 3 %}{{ s.split()[0] }}{% endif %}",
		"{%- raw -%} {{ {% endraw %}{# c #}{{ words | map('upper') | join }}"} {
		f.Add(source, "a b")
	}
	f.Fuzz(func(t *testing.T, source, in string) {
		parsed, err := Parse(source)
		if err != nil {
			return
		}
		start := time.Now()
		pieces, err := parsed.Render(append(slices.Clone(variables), Entry{"said", Input(in)}), moment)
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%v", d)
		}
		again, err2 := parsed.Render(append(slices.Clone(variables), Entry{"said", Input(in)}), moment)
		if (err == nil) != (err2 == nil) || !slices.Equal(pieces, again) {
			t.Errorf("%v, then %v", pieces, again)
		}
	})
}
