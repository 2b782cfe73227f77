package main

import (
	"os"
	"os/signal"
)

// end ends the program by a signal.
var end = endBySignal

// onSignal calls cleanup if a signal ends the program, which then ends as if the signal had not
// been caught.
func onSignal(cleanup func()) (stop func()) {
	return onSignals(func(s os.Signal) {
		cleanup()
		end(s)
	})
}

// onSignals calls handle with each signal that would end the program. A signal that was ignored at
// the start stays ignored, for nohup and background jobs. After stop returns no signal is caught
// any more; an earlier one is still handled.
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
