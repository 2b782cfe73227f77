package main

import (
	"os"
	"os/signal"
)

// end ends the program by a signal.
var end = endBySignal

// onSignal calls cleanup if a signal ends the program, which then ends as if nobody had caught it.
// A signal that was ignored at the start stays so: that is how nohup and a shell's background jobs
// keep a program alive. Nothing is caught any more once stop returns; a signal that came before
// still ends the program.
func onSignal(cleanup func()) (stop func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	for _, s := range endings {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go func() {
		defer close(done)
		if s, ok := <-signals; ok {
			cleanup()
			end(s)
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}
