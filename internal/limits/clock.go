//go:build !windows

package limits

import "time"

var began = time.Now()

// Now returns the time since some earlier moment, with a resolution below a millisecond on Windows,
// too, where the clock of package time has steps of up to 16 ms.
func Now() time.Duration { return time.Since(began) }
