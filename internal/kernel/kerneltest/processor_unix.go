//go:build unix

package kerneltest

import (
	"syscall"
	"time"
)

// ProcessorTime returns the processor time of this process, and whether the system reports it.
func ProcessorTime() (used time.Duration, ok bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
