package jinja

import "time"

// run is one rendering.
type run struct {
	now   time.Time
	out   text
	line  int   // of the current statement
	left  int64 // work that may still be done
	read  int   // bytes of the variables, and some for each value
	depth int   // nesting of expressions, statements and values
}

// A rendering may do freeWork, and more for each byte of its variables. A unit of work is about
// four bytes of output, or a nanosecond.
const freeWork, workOfInput = 1 << 24, 256

// The work of steps and items.
const workOfStep, workOfItem, workOfEntry = 16, 4, 32

// mostDepth exceeds published templates, and needs far less than a goroutine's largest stack.
const mostDepth = 2000

// charge counts work, and ends a rendering that does too much.
func (r *run) charge(n int) {
	if r.left -= int64(n); r.left < 0 {
		tooMuch()
	}
}

func tooMuch() { fail("the template takes more work than its input is worth") }

// deeper increases the depth until the returned function is called.
func (r *run) deeper() func() {
	if r.depth++; r.depth > mostDepth {
		fail("statements, calls and values are more than %d deep in one another", mostDepth)
	}
	return func() { r.depth-- }
}

// capture returns what a function prints.
func (r *run) capture(print func()) text {
	before := r.out
	r.out = nil
	print()
	made := r.out
	r.out = before
	return made
}

// scope has the variables of a template, of a turn of a loop, of a macro or of a block.
type scope struct {
	vars   map[string]value
	parent *scope
}

func (s *scope) inner() *scope { return &scope{vars: map[string]value{}, parent: s} }

// get returns the variable that is visible here.
func (s *scope) get(name string) (value, bool) {
	for ; s != nil; s = s.parent {
		if v, ok := s.vars[name]; ok {
			return v, true
		}
	}
	return nil, false
}
