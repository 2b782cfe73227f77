//go:build unix

package main

import (
	"os"
	"syscall"
)

// stall stops a process, and resume lets it go on.
func stall(p *os.Process) error  { return p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
