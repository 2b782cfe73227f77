//go:build !windows

// Package clock is for times of less than a millisecond. On Windows that of package time
// goes by steps of up to 16 ms.
package clock

import "time"

var start = time.Now()

// Now is the time since some moment before.
func Now() time.Duration { return time.Since(start) }
