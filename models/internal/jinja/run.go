package jinja

import "time"

// run is one rendering.
type run struct {
	now   time.Time
	out   text
	line  int   // of the statement that runs
	left  int64 // work
	read  int   // bytes of the variables, and some for each value
	depth int   // of expressions, statements and values in one another
}

// A rendering may do freeWork, and more for the bytes of its variables. A unit of work is about
// four bytes that it makes, or a nanosecond.
const freeWork, workOfInput = 1 << 24, 256

// What steps and items cost.
const workOfStep, workOfItem, workOfEntry = 16, 4, 32

// mostDepth is more than published templates have, and far from what a goroutine's stack has.
const mostDepth = 2000

// charge counts work, and ends a rendering that does too much.
func (r *run) charge(n int) {
	if r.left -= int64(n); r.left < 0 {
		tooMuch()
	}
}

func tooMuch() { fail("the template takes more work than its input is worth") }

// deeper counts depth, until the function that it returns is called.
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

// scope has the variables of a template, of a loop's turn, of a macro or of a block.
type scope struct {
	vars   map[string]value
	parent *scope
}

func (s *scope) inner() *scope { return &scope{vars: map[string]value{}, parent: s} }

// get is the variable that is seen here.
func (s *scope) get(name string) (value, bool) {
	for ; s != nil; s = s.parent {
		if v, ok := s.vars[name]; ok {
			return v, true
		}
	}
	return nil, false
}
