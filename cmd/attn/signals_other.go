//go:build !unix

package main

import (
	"os"
	"syscall"
)

// endings are the events that Windows turns into signals: Control-C, closing a window, and the end
// of the session.
var endings = []os.Signal{os.Interrupt, syscall.SIGTERM}

// controlC is STATUS_CONTROL_C_EXIT, 0xC000013A, the exit status on Windows of a program that does
// not catch Control-C.
const controlC = -0x3FFFFEC6

// endBySignal ends the program as the system does.
func endBySignal(os.Signal) { os.Exit(controlC) }
