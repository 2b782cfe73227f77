package main

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
)

// endedEarly is the error of a command that a signal has ended before it was complete, after it has
// printed its results so far.
type endedEarly struct{ os.Signal }

func (e endedEarly) Error() string { return "ended early: " + e.String() }

// status returns the exit status by which shells report the signal.
func (e endedEarly) status() int {
	if s, ok := e.Signal.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return 1
}

// interrupts handles signals of a command that measures in other processes. The first interrupt
// asks the running process to end with its results so far, and no other starts. The next one, and
// other signals, end that process and this one.
type interrupts struct {
	stop func() // catching them

	mu    sync.Mutex
	first os.Signal
	child *os.Process // the last process,
	input io.Closer   // and its input: the process ends when its input does
}

func watchInterrupts() *interrupts {
	x := new(interrupts)
	x.stop = onSignals(x.handle)
	return x
}

func (x *interrupts) handle(s os.Signal) {
	x.mu.Lock()
	if x.first == nil && (s == os.Interrupt || s == syscall.SIGTERM) {
		if x.first = s; x.input != nil {
			x.input.Close()
		}
		x.mu.Unlock()
		return
	}
	if x.child != nil { // the lock is held for good: no child starts any more
		x.child.Kill()
	}
	end(s)
}

// err returns an error after an interrupt.
func (x *interrupts) err() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.first == nil {
		return nil
	}
	return endedEarly{x.first}
}

// run runs another process.
func (x *interrupts) run(child *exec.Cmd) error {
	if err := x.start(child); err != nil {
		return err
	}
	return child.Wait()
}

func (x *interrupts) start(child *exec.Cmd) error {
	input, err := child.StdinPipe()
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.first != nil {
		return endedEarly{x.first}
	}
	if err := child.Start(); err != nil {
		return err
	}
	x.child, x.input = child.Process, input
	return nil
}

// untilInputEnds returns a channel that is closed when standard input ends, by which a parent ends
// its child. Interrupts are for the parent; a terminal sends them to both.
func untilInputEnds() <-chan struct{} {
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(io.Discard, os.Stdin)
	}()
	return ended
}
