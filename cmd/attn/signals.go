package main

import (
	"os"
	"os/signal"
)

// end ends the program by a signal.
var end = endBySignal

// onSignal calls cleanup if a signal ends the program, which then ends as if nobody had caught it.
func onSignal(cleanup func()) (stop func()) {
	return onSignals(func(s os.Signal) {
		cleanup()
		end(s)
	})
}

// onSignals calls handle with each signal that would end the program. One that was ignored at the
// start stays so: that is how nohup and a shell's background jobs keep a program alive. Nothing is
// caught any more once stop returns; a signal that came before still is.
func onSignals(handle func(os.Signal)) (stop func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	for _, s := range endings {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go func() {
		defer close(done)
		for s := range signals {
			handle(s)
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}
