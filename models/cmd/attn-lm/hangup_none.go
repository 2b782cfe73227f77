//go:build js || plan9

package main

import "syscall"

// hangUp is a signal that does not come: there is none to read keys again.
const hangUp = syscall.Signal(0)
