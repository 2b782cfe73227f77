// Package progress shows on the standard error how far long work is.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// After is the time after which progress is shown.
var After = 2 * time.Second

// barEvery is the time between redraws of the bar, and lineEvery the time between lines where there
// is no terminal.
var (
	barEvery  = 100 * time.Millisecond
	lineEvery = 30 * time.Second
)

// isTerminal reports whether a bar can be redrawn in place.
var isTerminal = func(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Bar shows a bar for long work on a terminal, and a line now and then elsewhere. Goroutines may
// use it at the same time.
type Bar struct {
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

// New starts the clock. The work is total units.
func New(w io.Writer, what string, total int) *Bar {
	p := &Bar{w: w, what: what, total: total, start: time.Now()}
	p.timer = time.AfterFunc(After, func() { p.Add(0) })
	return p
}

// Add adds n units to the done ones.
func (p *Bar) Add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show(p.done + n)
}

// Reach sets the done units. An estimate may shrink; the bar does not.
func (p *Bar) Reach(done int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show(max(p.done, min(done, p.total)))
}

func (p *Bar) show(done int) {
	if p.finished {
		return // the timer was late
	}
	p.done = done
	switch {
	case time.Since(p.start) < After:
	case !isTerminal(p.w):
		p.line()
	default:
		p.bar()
	}
}

const barWidth = 40

// bar draws the bar over the last one.
func (p *Bar) bar() {
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
func (p *Bar) line() {
	if time.Since(p.shown) < lineEvery {
		return
	}
	p.shown = time.Now()
	fmt.Fprintf(p.w, "%s%s: %d%%\n", p.what, p.left(), 100*p.done/max(1, p.total))
}

// left estimates the remaining time from the rate since the start.
func (p *Bar) left() string {
	if p.done == 0 || p.done >= p.total {
		return ""
	}
	rest := time.Since(p.start).Seconds() * float64(p.total-p.done) / float64(p.done)
	return fmt.Sprintf(", %v left", time.Duration(rest)*time.Second)
}

// Finish ends the line of the bar, if there is one.
func (p *Bar) Finish() {
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
