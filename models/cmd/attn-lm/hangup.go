//go:build !js && !plan9

package main

import "syscall"

// hangUp is the signal that makes a server read its keys again. Windows does not send it.
const hangUp = syscall.SIGHUP
