//go:build unix

package main

import (
	"os"
	"syscall"
)

// canStall reports whether processes can be stopped and continued, and asked to end.
const canStall = true

// stall stops a process, which keeps its memory and connections but does not answer.
func stall(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// resume continues it.
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// terminate asks it to end.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
