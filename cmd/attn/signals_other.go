//go:build !unix

package main

import (
	"os"
	"syscall"
)

// endings are what Windows turns into signals: Control-C, and that a window is closed or the
// session ends.
var endings = []os.Signal{os.Interrupt, syscall.SIGTERM}

// controlC is STATUS_CONTROL_C_EXIT, 0xC000013A, the exit status of a program on Windows that does
// not catch Control-C.
const controlC = -0x3FFFFEC6

// endBySignal ends the program as the system does.
func endBySignal(os.Signal) { os.Exit(controlC) }
