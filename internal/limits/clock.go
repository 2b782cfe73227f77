//go:build !windows

package limits

import "time"

var began = time.Now()

// Now is the time since some moment before, also where less than a millisecond matters: on Windows
// the clock of package time goes by steps of up to 16 ms.
func Now() time.Duration { return time.Since(began) }
