package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// progressAfter is the time after which progress is shown.
var progressAfter = 2 * time.Second

// barEvery is the time between redraws of the bar, and lineEvery the time between lines where there
// is no terminal.
var (
	barEvery  = 100 * time.Millisecond
	lineEvery = 30 * time.Second
)

// isTerminal reports whether a bar can be redrawn in place.
var isTerminal = func(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// progress shows a bar for long work on a terminal, and a line now and then elsewhere.
type progress struct {
	w     io.Writer
	what  string
	total int
	start time.Time
	timer *time.Timer // shows the bar even if the first piece of work is long

	mu       sync.Mutex
	done     int
	width    int       // of the bar on the terminal, 0 if there is none
	shown    time.Time // when the last bar or line was written
	finished bool
}

// newProgress starts the clock. The work is total units.
func newProgress(w io.Writer, what string, total int) *progress {
	p := &progress{w: w, what: what, total: total, start: time.Now()}
	p.timer = time.AfterFunc(progressAfter, func() { p.add(0) })
	return p
}

// add adds n units to the done ones.
func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show(p.done + n)
}

// reach sets the done units. An estimate may shrink; the bar does not.
func (p *progress) reach(done int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show(max(p.done, min(done, p.total)))
}

func (p *progress) show(done int) {
	if p.finished {
		return // the timer was late
	}
	p.done = done
	switch {
	case time.Since(p.start) < progressAfter:
	case !isTerminal(p.w):
		p.line()
	default:
		p.bar()
	}
}

const barWidth = 40

// bar draws the bar over the last one.
func (p *progress) bar() {
	if time.Since(p.shown) < barEvery {
		return
	}
	p.shown = time.Now()
	done, total := min(p.done, p.total), max(1, p.total)
	text := fmt.Sprintf("%s%s %3d%% [%-*s]", p.what, p.left(), 100*done/total, barWidth,
		strings.Repeat("█", barWidth*done/total))
	fmt.Fprintf(p.w, "\r%-*s", p.width, text)
	p.width = utf8.RuneCountInString(text)
}

// line writes a line, if the last one was long ago.
func (p *progress) line() {
	if time.Since(p.shown) < lineEvery {
		return
	}
	p.shown = time.Now()
	fmt.Fprintf(p.w, "%s%s: %d%%\n", p.what, p.left(), 100*p.done/max(1, p.total))
}

// left estimates the remaining time from the rate since the start.
func (p *progress) left() string {
	if p.done == 0 || p.done >= p.total {
		return ""
	}
	rest := time.Since(p.start).Seconds() * float64(p.total-p.done) / float64(p.done)
	return fmt.Sprintf(", %v left", time.Duration(rest)*time.Second)
}

// finish ends the line of the bar, if there is one.
func (p *progress) finish() {
	p.timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width > 0 && !p.finished {
		p.shown = time.Time{}
		p.bar()
		io.WriteString(p.w, "\n")
	}
	p.finished = true
}
