//go:build unix

package kerneltest

import (
	"syscall"
	"time"
)

// ProcessorTime is what this process has used of all processors, and whether the system tells.
func ProcessorTime() (used time.Duration, ok bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
