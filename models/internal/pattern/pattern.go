// Package pattern finds matches of regular expressions of Oniguruma, the engine of Hugging Face's
// tokenizers. A match may backtrack for very long, so its steps are counted: a pattern and a text
// have the same result on every machine. The matcher is own code because no library that was found
// counts steps: github.com/dlclark/regexp2 bounds time, and in v2 memory. Its parser reads the
// patterns here.
package pattern

import (
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2/syntax"
)

// Pattern is a compiled pattern. Any number of goroutines may use it at the same time.
type Pattern struct {
	source string
	code   []instruction
	beginning
	counters int // of loops
	groups   int // that references name
}

// longest bounds the bytes of a pattern.
const longest = 10_000

// Compile reads a pattern. A pattern that the parser would read differently from Oniguruma is an
// error.
func Compile(source string) (*Pattern, error) {
	if len(source) > longest {
		return nil, fmt.Errorf("the pattern has %d bytes, want at most %d", len(source), longest)
	}
	written, err := dotNet(source)
	if err != nil {
		return nil, err
	}
	tree, err := syntax.Parse(written, syntax.ParseOptions{})
	if err != nil {
		return nil, fmt.Errorf("the pattern %q: %w", source, err)
	}
	c := &compiler{groups: map[int]int{}, beginnings: map[*syntax.RegexNode]beginning{}}
	c.findReferences(tree.Root)
	c.node(tree.Root)
	c.emit(instruction{op: opMatch})
	if c.err != nil {
		return nil, fmt.Errorf("the pattern %q: %w", source, c.err)
	}
	return &Pattern{source, c.code, c.beginningOf(tree.Root), c.counters, len(c.groups)}, nil
}

// Steps is how many steps a matcher may still do for a text. An instruction is a step, and so is a
// letter in a loop; each needs a few nanoseconds.
type Steps int

// StepsFor is enough for patterns of published models, which need fewer than ten steps a byte, and
// for patterns that need the square of the length for a text of ten thousand bytes.
func StepsFor(bytes int) Steps { return 1<<26 + Steps(bytes)<<12 }

// Each visits the parts of a text in order: matches, and the possibly empty parts between them. An
// empty match directly after another match does not count.
func (p *Pattern) Each(text string, steps *Steps,
	visit func(part string, matched bool) error) error {
	m := p.matcher(text, *steps)
	defer m.free()
	at, last := 0, -1
	for from := 0; from <= len(text) && text != ""; {
		start, end, ok := m.find(from)
		if *steps = m.steps; m.steps < 0 {
			return fmt.Errorf("the pattern %q needs too many steps for a text of %d bytes, want one "+
				"that needs fewer", p.source, len(text))
		}
		if !ok {
			break
		}
		if from = end; start == end && end == last {
			_, size := utf8.DecodeRuneInString(text[end:])
			from += max(1, size)
			continue
		}
		if err := visit(text[at:start], false); err != nil {
			return err
		}
		if err := visit(text[start:end], true); err != nil {
			return err
		}
		at, last = end, end
	}
	return visit(text[at:], false)
}

var matchers = sync.Pool{New: func() any { return &matcher{} }}

// matcher returns a matcher for a text, in the memory of an earlier one if there is one.
func (p *Pattern) matcher(text string, steps Steps) *matcher {
	m := matchers.Get().(*matcher)
	m.Pattern, m.text, m.steps = p, text, steps
	m.deepest = 1<<16 + 8*len(text)
	m.stack = m.stack[:0]
	m.counts = resize(m.counts, p.counters)
	m.spans = resize(m.spans, p.groups)
	return m
}

func resize[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	return x[:n]
}

// free keeps the memory for later matchers, unless it is large.
func (m *matcher) free() {
	const most = 1 << 14
	if cap(m.stack) > most {
		m.stack = nil
	}
	m.Pattern, m.text = nil, ""
	matchers.Put(m)
}

// find returns the first match from a place on.
func (m *matcher) find(from int) (start, end int, ok bool) {
	for m.steps >= 0 {
		if from = m.possibleFrom(from); from > len(m.text) {
			return 0, 0, false
		}
		m.clearMatch(from)
		if end, ok = m.run(0, from); ok || m.steps < 0 {
			return from, end, ok
		}
		_, size := utf8.DecodeRuneInString(m.text[from:])
		from = max(from+max(1, size), m.tried)
	}
	return 0, 0, false
}

// clearMatch clears an earlier match.
func (m *matcher) clearMatch(from int) {
	m.stack, m.tried = m.stack[:0], from
	for i := range m.spans {
		m.spans[i] = noSpan
	}
}

// possibleFrom returns the first place from one on where a match may begin, len(text)+1 if there is
// none.
func (m *matcher) possibleFrom(from int) int {
	if m.empty {
		return from
	}
	for ; from < len(m.text); from++ {
		if b := m.text[from]; m.has(b) && utf8.RuneStart(b) {
			return from
		}
	}
	return len(m.text) + 1
}
