package progress

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// shared is a writer for two goroutines.
type shared struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *shared) contains(text string) bool { return strings.Contains(s.String(), text) }

// The bar appears by itself if the first piece of work is long, says how much
// time is left, and does not come back once it has ended.
func TestProgressOfLongWork(t *testing.T) {
	defer func(d time.Duration) { After = d }(After)
	After = time.Millisecond
	defer func(f func(io.Writer) bool) { isTerminal = f }(isTerminal)
	isTerminal = func(io.Writer) bool { return true }
	defer func(d time.Duration) { barEvery = d }(barEvery)
	barEvery = 0
	var w shared
	p := New(&w, "work", 3)
	for !w.contains("work") {
		time.Sleep(time.Millisecond)
	}
	p.Add(1)
	if !w.contains("left") {
		t.Errorf("the bar is %q, want the time that is left", w.String())
	}
	p.Finish()
	before := w.String()
	p.Add(0)
	if after := w.String(); after != before {
		t.Errorf("%q follows the end", after[len(before):])
	}
}

// Where there is no terminal, a line now and then says how far the work is.
func TestProgressInFiles(t *testing.T) {
	defer func(d time.Duration) { After = d }(After)
	After = 0
	var w shared
	p := New(&w, "work", 200)
	defer p.Finish()
	p.Add(50)
	first := w.String()
	p.Add(50)
	if after := w.String(); after != first || !strings.HasSuffix(after, ": 25%\n") &&
		!strings.HasSuffix(after, ": 0%\n") || strings.Contains(after, "\r") {
		t.Errorf("written: %q, then %q", first, after)
	}
}

// TestReach never goes back, and a bar is for terminals only.
func TestReach(t *testing.T) {
	defer func(d time.Duration) { After = d }(After)
	After = 0
	var w shared
	p := New(&w, "work", 10)
	defer p.Finish()
	for _, done := range []int{8, 3, 20} {
		p.Reach(done)
	}
	if p.done != 10 {
		t.Errorf("%d of 10 are done, want all", p.done)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if isTerminal(&w) || isTerminal(file) {
		t.Error("a file is a terminal")
	}
	if err := file.Close(); err != nil || isTerminal(file) {
		t.Errorf("a closed file is a terminal, %v", err)
	}
}
