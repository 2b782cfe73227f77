//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// endings are the signals that end programs and that these can catch.
var endings = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

// endBySignal lets the parent learn which signal it was: a shell stops its script after an
// interrupt, for example, but goes on after a mere exit status.
func endBySignal(s os.Signal) {
	signal.Reset(s)
	number := s.(syscall.Signal)
	syscall.Kill(syscall.Getpid(), number)
	time.Sleep(time.Second) // it comes in a moment, on any thread
	os.Exit(128 + int(number))
}
