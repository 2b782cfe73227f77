//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// endings are the signals that end programs and can be caught.
var endings = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

// endBySignal tells the parent which signal it was: a shell, for example, stops its script after an
// interrupt, but continues after an exit status.
func endBySignal(s os.Signal) {
	signal.Reset(s)
	number := s.(syscall.Signal)
	syscall.Kill(syscall.Getpid(), number)
	time.Sleep(time.Second) // the signal arrives in a moment, on any thread
	os.Exit(128 + int(number))
}
