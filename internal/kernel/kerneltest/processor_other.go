//go:build !unix

package kerneltest

import "time"

// ProcessorTime is what this process has used of all processors, and whether the system tells.
func ProcessorTime() (used time.Duration, ok bool) { return 0, false }
