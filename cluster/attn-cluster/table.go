package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// isTerminal reports whether lines can be drawn again in the same place.
var isTerminal = func(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width is that of a terminal.
func width(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 1 {
			return n
		}
	}
	return 80
}

// table is lines that change: in place on a terminal, and elsewhere now and then one of them.
type table struct {
	w     io.Writer
	live  bool
	drawn int // lines on the terminal
}

func newTable(w io.Writer) *table { return &table{w: w, live: isTerminal(w)} }

// draw takes the place of what was drawn before. Elsewhere than on a terminal it writes the first
// line, if that is wanted.
func (t *table) draw(wanted bool, lines ...string) {
	switch {
	case t.live:
		t.clear()
		for _, line := range lines { // one that goes on in the next would not be removed
			fmt.Fprintln(t.w, string([]rune(line)[:min(len([]rune(line)), width(t.w)-1)]))
		}
		t.drawn = len(lines)
	case wanted:
		fmt.Fprintln(t.w, lines[0])
	}
}

// clear removes what was drawn.
func (t *table) clear() {
	if t.drawn > 0 {
		fmt.Fprintf(t.w, "\x1b[%dA\x1b[J", t.drawn)
		t.drawn = 0
	}
}

// say writes a line that stays.
func (t *table) say(format string, args ...any) {
	t.clear()
	fmt.Fprintf(t.w, format+"\n", args...)
}

// round shows three digits or so of a duration.
func round(d time.Duration) time.Duration {
	for unit := time.Second; unit > time.Microsecond; unit /= 10 {
		if d >= 10*unit {
			return d.Round(unit / 10)
		}
	}
	return d.Round(100 * time.Nanosecond)
}
