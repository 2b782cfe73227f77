//go:build !unix

package kerneltest

import "time"

// ProcessorTime returns the processor time of this process, and whether the system reports it.
func ProcessorTime() (used time.Duration, ok bool) { return 0, false }
