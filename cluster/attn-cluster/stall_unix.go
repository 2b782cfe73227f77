//go:build unix

package main

import (
	"os"
	"syscall"
)

// canStall reports whether processes can be stopped and continued, and asked to end.
const canStall = true

// stall stops a process, which keeps its memory and connections, and answers nothing.
func stall(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// resume lets it go on.
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// terminate asks it to end.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
