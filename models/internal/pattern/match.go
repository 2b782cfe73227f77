package pattern

import (
	"math"
	"strings"
	"unicode/utf8"
)

// matcher matches a pattern by backtracking: where there are several ways to continue, it keeps the
// others on a stack.
type matcher struct {
	*Pattern
	text    string
	steps   Steps // left; below 0 if they were not enough
	deepest int   // most entries of the stack
	tried   int   // no match begins before this place
	stack   []entry
	counts  []count // of loops
	spans   []span  // of groups
}

// entry is another way to continue, or the old value of a counter or a group.
type entry struct {
	kind   kind
	pc     int // the instruction, or the index of the counter or group
	at     int // the place in the text, or a part of the old value
	second int // the last place of a loop, the next choice, or the rest of the old value
	third  int
}

type kind int

const (
	anotherWay kind = iota
	oldCount
	oldSpan
)

// count is how often the body of a loop was matched, and where that began last.
type count struct{ times, at int }

// span is the text of a group, and where one is open.
type span struct{ open, from, to int }

var noSpan = span{-1, -1, -1}

// push pushes an entry. A stack that is too deep ends the match, as too many steps do.
func (m *matcher) push(e entry) {
	if len(m.stack) >= m.deepest {
		m.steps = -1
		return
	}
	m.stack = append(m.stack, e)
}

// run matches from an instruction and a place on, until an instruction ends the match.
func (m *matcher) run(pc, at int) (end int, ok bool) {
	base := len(m.stack)
	for {
		if m.steps--; m.steps < 0 {
			return 0, false
		}
		in := &m.code[pc]
		next, matched := pc+1, true
		switch in.op {
		case opMatch:
			m.keepOld(base)
			return at, true
		case opText:
			m.steps -= Steps(len(in.text))
			at, matched = in.move(m.text, at)
		case opLetter:
			at, matched = in.letter(m.text, at)
		case opMost, opMostAtomic:
			at, matched = m.most(in, pc, at)
		case opLeast:
			at, matched = m.least(in, pc, at)
		case opChoose:
			next, matched = m.choose(in, pc, at, 0)
		case opJump:
			next = in.to
		case opEnter, opOpen, opClose, opTried:
			m.note(in, at)
		case opRepeat, opRepeatLeast:
			next, matched = m.repeat(in, pc, at)
		case opLook, opNot, opAtomic:
			next = in.to
			at, matched = m.apart(in, pc, at)
		default:
			at, matched = m.look(in, at)
		}
		if pc = next; !matched {
			if pc, at, matched = m.back(base); !matched {
				return 0, false
			}
		}
	}
}

// keepOld drops other ways to continue, and keeps the old values, which may still be restored.
func (m *matcher) keepOld(base int) {
	kept := m.stack[:base]
	for _, e := range m.stack[base:] {
		if e.kind != anotherWay {
			kept = append(kept, e)
		}
	}
	m.stack = kept
}

// back restores old values down to the last other way to continue, and continues there.
func (m *matcher) back(base int) (pc, at int, ok bool) {
	for len(m.stack) > base {
		e := &m.stack[len(m.stack)-1]
		m.steps--
		switch e.kind {
		case oldCount:
			m.counts[e.pc] = count{e.at, e.second}
		case oldSpan:
			m.spans[e.pc] = span{e.at, e.second, e.third}
		default:
			if pc, at, ok = m.another(e); ok {
				return pc, at, true
			}
			continue // the entry is gone already
		}
		m.drop()
	}
	return 0, 0, false
}

func (m *matcher) drop() { m.stack = m.stack[:len(m.stack)-1] }

// another continues from an entry, which stays on the stack if it has more ways.
func (m *matcher) another(e *entry) (pc, at int, ok bool) {
	in := &m.code[e.pc]
	switch in.op {
	case opMost: // one letter fewer
		e.at = in.before(m.text, e.at)
		if pc, at = e.pc+1, e.at; at == e.second {
			m.drop()
		}
		return pc, at, true
	case opLeast: // one letter more
		pc = e.pc + 1
		if at, ok = in.letter(m.text, e.at); !ok || e.second == 1 {
			m.drop()
		} else {
			e.at, e.second = at, e.second-1
		}
		return pc, at, ok
	case opChoose:
		at, next := e.at, e.second
		m.drop()
		pc, ok = m.choose(in, e.pc, at, next)
		return pc, at, ok
	case opRepeatLeast: // once more
		pc, at = e.pc, e.at
		m.drop()
		m.again(in, at)
		return pc + 1, at, true
	default: // opRepeat: no more repetitions
		pc, at = in.to, e.at
		m.drop()
		return pc, at, true
	}
}

// move matches the text of the instruction.
func (in *instruction) move(text string, at int) (int, bool) {
	if in.back {
		return at - len(in.text), strings.HasSuffix(text[:at], in.text)
	}
	return at + len(in.text), strings.HasPrefix(text[at:], in.text)
}

// letter matches a letter.
func (in *instruction) letter(text string, at int) (int, bool) {
	if in.back {
		r, size := utf8.DecodeLastRuneInString(text[:at])
		return at - size, size > 0 && in.set.has(r)
	}
	if at == len(text) {
		return at, false
	}
	if b := text[at]; b < utf8.RuneSelf {
		return at + 1, in.set.ascii[b]
	}
	r, size := utf8.DecodeRuneInString(text[at:])
	return at + size, in.set.has(r)
}

// before returns the place before the last letter of a loop.
func (in *instruction) before(text string, at int) int {
	if in.back {
		_, size := utf8.DecodeRuneInString(text[at:])
		return at + size
	}
	_, size := utf8.DecodeLastRuneInString(text[:at])
	return at - size
}

// most matches as many letters as possible, and keeps the ways with fewer.
func (m *matcher) most(in *instruction, pc, at int) (int, bool) {
	least := at // the place after the fewest letters of the loop
	n := 0
	for ; n < in.max; n++ {
		next, ok := in.letter(m.text, at)
		if !ok {
			break
		}
		if at = next; n < in.min {
			least = at
		}
	}
	m.steps -= Steps(n)
	if n < in.min {
		return 0, false
	}
	if n > in.min && in.op == opMost {
		m.push(entry{pc: pc, at: at, second: least})
	}
	return at, true
}

// least matches the fewest letters of the loop, and keeps the ways with more.
func (m *matcher) least(in *instruction, pc, at int) (_ int, ok bool) {
	for n := range in.min {
		if at, ok = in.letter(m.text, at); !ok {
			m.steps -= Steps(n)
			return 0, false
		}
	}
	m.steps -= Steps(in.min)
	if in.max > in.min {
		m.push(entry{pc: pc, at: at, second: in.max - in.min})
	}
	return at, true
}

// choose continues with the first branch from one on that may match, and keeps the others.
func (m *matcher) choose(in *instruction, pc, at, from int) (int, bool) {
	next := m.possible(in, at, from)
	if next == len(in.choices) {
		return 0, false
	}
	if after := m.possible(in, at, next+1); after < len(in.choices) {
		m.push(entry{pc: pc, at: at, second: after})
	}
	return in.choices[next].to, true
}

// possible returns the first branch from one on that may match.
func (m *matcher) possible(in *instruction, at, from int) int {
	for i := from; i < len(in.choices); i++ {
		c := &in.choices[i]
		if c.empty || in.back || at < len(m.text) && c.has(m.text[at]) {
			return i
		}
	}
	return len(in.choices)
}

// repeat decides whether the body of a loop is matched again. A body that matched nothing is not
// repeated once the loop has its fewest repetitions.
func (m *matcher) repeat(in *instruction, pc, at int) (int, bool) {
	c := m.counts[in.index]
	switch {
	case c.times < in.min:
	case c.times >= in.max || c.at == at:
		return in.to, true
	case in.op == opRepeatLeast:
		m.push(entry{pc: pc, at: at})
		return in.to, true
	default:
		m.push(entry{pc: pc, at: at})
	}
	m.again(in, at)
	return pc + 1, true
}

// again counts a repetition of a loop.
func (m *matcher) again(in *instruction, at int) {
	c := m.counts[in.index]
	m.setCount(in.index, count{min(c.times, math.MaxInt32-1) + 1, at})
}

func (m *matcher) setCount(index int, c count) {
	old := m.counts[index]
	m.push(entry{oldCount, index, old.times, old.at, 0})
	m.counts[index] = c
}

// note records a place.
func (m *matcher) note(in *instruction, at int) {
	switch in.op {
	case opEnter:
		m.setCount(in.index, count{0, -1})
		return
	case opTried:
		m.tried = max(m.tried, at)
		return
	}
	old := m.spans[in.index]
	m.push(entry{oldSpan, in.index, old.open, old.from, old.to})
	s := &m.spans[in.index]
	switch {
	case in.op == opOpen:
		s.open = at
	case in.back:
		s.from, s.to = at, s.open
	default:
		s.from, s.to = s.open, at
	}
}

// apart matches a group separately: only its first match counts.
func (m *matcher) apart(in *instruction, pc, at int) (int, bool) {
	base := len(m.stack)
	end, ok := m.run(pc+1, at)
	switch in.op {
	case opAtomic:
		return end, ok
	case opLook:
		return at, ok
	}
	if ok {
		m.back(base) // restores old values; nothing else is left
	}
	return at, !ok && m.steps >= 0
}

// look matches an assertion, or the text of a group.
func (m *matcher) look(in *instruction, at int) (int, bool) {
	switch in.op {
	case opBegin:
		return at, at == 0
	case opEnd:
		return at, at == len(m.text)
	case opEndLine:
		return at, at == len(m.text) || m.text[at:] == "\n"
	case opReference:
		return m.reference(in, at)
	}
	return at, false
}

// reference matches the text of a group once more.
func (m *matcher) reference(in *instruction, at int) (int, bool) {
	s := m.spans[in.index]
	if s.from < 0 {
		return at, false
	}
	m.steps -= Steps(s.to - s.from)
	same := instruction{back: in.back, text: m.text[s.from:s.to]}
	return same.move(m.text, at)
}
