//go:build js || plan9

package main

import "syscall"

// hangUp is a signal that never comes: this system has none to read keys again.
const hangUp = syscall.Signal(0)
