package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// isTerminal reports whether lines can be redrawn in place.
var isTerminal = func(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width returns the width of a terminal.
func width(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 1 {
			return n
		}
	}
	return 80
}

// table shows lines that change: in place on a terminal; elsewhere it prints the first one now and
// then.
type table struct {
	w     io.Writer
	live  bool
	drawn int // lines on the terminal
}

func newTable(w io.Writer) *table { return &table{w: w, live: isTerminal(w)} }

// draw replaces the lines drawn before. If w is no terminal, it writes only the first line, and
// only if wanted.
func (t *table) draw(wanted bool, lines ...string) {
	switch {
	case t.live:
		t.clear()
		for _, line := range lines { // a line that wraps would not be removed
			fmt.Fprintln(t.w, string([]rune(line)[:min(len([]rune(line)), width(t.w)-1)]))
		}
		t.drawn = len(lines)
	case wanted:
		fmt.Fprintln(t.w, lines[0])
	}
}

// clear removes the drawn lines.
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

// round rounds a duration to about three digits.
func round(d time.Duration) time.Duration {
	for unit := time.Second; unit > time.Microsecond; unit /= 10 {
		if d >= 10*unit {
			return d.Round(unit / 10)
		}
	}
	return d.Round(100 * time.Nanosecond)
}
