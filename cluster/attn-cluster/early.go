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

// endedEarly is the error of a command that a signal has ended before it was complete.
type endedEarly struct{ os.Signal }

func (e endedEarly) Error() string { return "ended early: " + e.String() }

// status returns the exit status by which shells report the signal.
func (e endedEarly) status() int {
	if s, ok := e.Signal.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return 1
}

// untilSignalled returns a context that ends at the first of some signals. The second one ends the
// program at once. Signals that were ignored at the start stay ignored, for nohup and background
// jobs.
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

// early returns the signal that has ended a command with an error, if any. Wrong outputs and lost
// tokens are not caused by the signal.
func early(ctx context.Context, err error) (e endedEarly, is bool) {
	if err == nil || errors.Is(err, errWrong) || errors.Is(err, cluster.ErrLost) {
		return e, false
	}
	return e, errors.As(context.Cause(ctx), &e)
}

// partly is the error of a command that ended within a row of a table.
type partly struct {
	error
	done, all int // of the row's steps
}

// text describes the incomplete row in the last line.
func (p partly) text() string {
	return fmt.Sprintf("the last row is of %d of %d steps", p.done, p.all)
}

// Unwrap returns the reason of the end.
func (p partly) Unwrap() error { return p.error }
