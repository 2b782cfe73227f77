package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/seed-1415985d/attn/cluster"
)

// endedEarly is that a signal has ended a command before it had done what it was to do.
type endedEarly struct{ os.Signal }

func (e endedEarly) Error() string { return "ended early: " + e.String() }

// status is what a shell calls the end of a program by the signal.
func (e endedEarly) status() int {
	if s, ok := e.Signal.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return 1
}

// untilSignalled is a context that the first of some signals ends. The second one ends the program
// at once. Those that were ignored at the start stay so, as nohup and background jobs want it.
func untilSignalled(all ...os.Signal) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	for _, s := range all {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go func() {
		s := <-signals
		signal.Stop(signals)
		cancel(endedEarly{s})
	}()
	return ctx
}

// early is what has ended a command that has an error, if that was a signal. What is wrong with
// outputs, or lost, was so before.
func early(ctx context.Context, err error) (e endedEarly, is bool) {
	if err == nil || errors.Is(err, errWrong) || errors.Is(err, cluster.ErrLost) {
		return e, false
	}
	return e, errors.As(context.Cause(ctx), &e)
}

// partly is that a command was ended with a row of a table that is not complete.
type partly struct {
	error
	done, all int // of what the row is of
}

// text is what the line about the end says of the row.
func (p partly) text() string {
	return fmt.Sprintf("the last row is of %d of %d steps", p.done, p.all)
}

// Unwrap is why it was ended.
func (p partly) Unwrap() error { return p.error }
