package pattern

import (
	"sync/atomic"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2/syntax"
)

// letters is a set of letters.
type letters struct {
	ascii [utf8.RuneSelf]bool
	more  func(r rune) bool // reports whether a letter without a page is in the set
	pages [1 << 16 / pageSize]atomic.Pointer[page]
}

// page says which letters of a range are in a set. It is built when one of them is first looked up,
// because tables of categories are slower.
type page [pageSize / 64]uint64

const pageSize = 256

// lettersOf returns the set of a node that matches one letter, or a loop of one.
func lettersOf(n *syntax.RegexNode) *letters {
	s := &letters{more: hasOf(n)}
	for r := range rune(utf8.RuneSelf) {
		s.ascii[r] = s.more(r)
	}
	return s
}

// hasOf returns a function that reports whether such a node matches a letter.
func hasOf(n *syntax.RegexNode) func(r rune) bool {
	if n.IsSetFamily() {
		return n.Set.Contains
	}
	letter, other := n.Ch, n.IsNotoneFamily()
	return func(r rune) bool { return (r == letter) != other }
}

// has reports whether a letter is in the set.
func (s *letters) has(r rune) bool {
	if r < utf8.RuneSelf {
		return s.ascii[r]
	}
	if int(r) >= len(s.pages)*pageSize {
		return s.more(r)
	}
	p := s.pages[r/pageSize].Load()
	if p == nil {
		p = s.makePage(r / pageSize)
	}
	r %= pageSize
	return p[r/64]>>(r%64)&1 == 1
}

func (s *letters) makePage(i rune) *page {
	p := &page{}
	for r := range rune(pageSize) {
		if s.more(i*pageSize + r) {
			p[r/64] |= 1 << (r % 64)
		}
	}
	s.pages[i].Store(p)
	return p
}

// starts is a set of first bytes of texts.
type starts [4]uint64

func (s *starts) add(b byte)      { s[b/64] |= 1 << (b % 64) }
func (s *starts) has(b byte) bool { return s[b/64]>>(b%64)&1 == 1 }

func (s *starts) join(t starts) {
	for i := range s {
		s[i] |= t[i]
	}
}

// beginning is how a match of a node can begin.
type beginning struct {
	starts
	empty bool // the match may be empty
}

// beginningOf is computed once for each node. The first bytes of letters beyond ASCII count as one.
func (c *compiler) beginningOf(n *syntax.RegexNode) beginning {
	b, ok := c.beginnings[n]
	if !ok {
		b = c.findBeginning(n)
		c.beginnings[n] = b
	}
	return b
}

func (c *compiler) findBeginning(n *syntax.RegexNode) (b beginning) {
	switch n.T {
	case syntax.NtMulti:
		b.addLetters(func(r rune) bool { return r == n.Str[0] })
	case syntax.NtConcatenate:
		b.empty = true
		for i := 0; i < len(n.Children) && b.empty; i++ {
			next := c.beginningOf(n.Children[i])
			b.join(next.starts)
			b.empty = next.empty
		}
	case syntax.NtAlternate:
		for _, child := range n.Children {
			next := c.beginningOf(child)
			b.join(next.starts)
			b.empty = b.empty || next.empty
		}
	case syntax.NtCapture, syntax.NtGroup, syntax.NtAtomic, syntax.NtLoop, syntax.NtLazyloop:
		b = c.beginningOf(n.Children[0])
		loop := n.T == syntax.NtLoop || n.T == syntax.NtLazyloop
		b.empty = b.empty || loop && n.M == 0
	case syntax.NtNothing:
	case syntax.NtRef:
		b = beginning{starts{1<<64 - 1, 1<<64 - 1, 1<<64 - 1, 1<<64 - 1}, true}
	default:
		if b.empty = true; isLetters(n) { // the other nodes match no letters
			b.addLetters(hasOf(n))
			b.empty = n.M == 0 && n.T != syntax.NtOne && n.T != syntax.NtNotone && n.T != syntax.NtSet
		}
	}
	return b
}

// addLetters adds the first bytes of a node's letters, and of all letters beyond ASCII.
func (s *starts) addLetters(has func(r rune) bool) {
	for b := range byte(utf8.RuneSelf) {
		if has(rune(b)) {
			s.add(b)
		}
	}
	s[2], s[3] = 1<<64-1, 1<<64-1
}

// isLetters reports whether a node matches one letter of a set, or a loop of one.
func isLetters(n *syntax.RegexNode) bool {
	return n.IsOneFamily() || n.IsNotoneFamily() || n.IsSetFamily()
}
