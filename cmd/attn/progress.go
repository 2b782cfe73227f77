package main

import (
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progressAfter is how long work may take before its progress is shown.
var progressAfter = 2 * time.Second

// progress shows a bar for long work.
type progress struct {
	w     io.Writer
	what  string
	total int

	mu    sync.Mutex
	done  int
	bar   *progressbar.ProgressBar // nil until it is shown
	timer *time.Timer
}

// newProgress starts the clock. The work is total units.
func newProgress(w io.Writer, what string, total int) *progress {
	p := &progress{w: w, what: what, total: total}
	p.timer = time.AfterFunc(progressAfter, p.show)
	return p
}

func (p *progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return // finished in the meantime
	}
	p.bar = progressbar.NewOptions(p.total,
		progressbar.OptionSetWriter(p.w),
		progressbar.OptionSetDescription(p.what),
		progressbar.OptionSetWidth(40),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionShowElapsedTimeOnFinish(),
		progressbar.OptionSetPredictTime(true))
	p.bar.Set(p.done)
}

// add reports n units as done.
func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	if p.bar != nil {
		p.bar.Set(p.done)
	}
}

// finish ends the line of the bar, if there is one.
func (p *progress) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer.Stop()
	p.timer = nil
	if p.bar != nil {
		p.bar.Exit()
		io.WriteString(p.w, "\n")
	}
}
