package limits

import (
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	kernel32 = windows.NewLazySystemDLL("kernel32.dll")
	counter  = kernel32.NewProc("QueryPerformanceCounter")

	perSecond = query(kernel32.NewProc("QueryPerformanceFrequency")) // 10 million on most systems
	began     = query(counter)
)

// Now returns the time since some earlier moment. The clock of package time has steps of up to 16
// ms here.
func Now() time.Duration {
	ticks := query(counter) - began
	// Seconds are converted separately, so that no product overflows.
	return time.Duration(ticks/perSecond)*time.Second +
		time.Duration(ticks%perSecond)*time.Second/time.Duration(perSecond)
}

// query calls a function that writes a number; neither of these two fails.
func query(f *windows.LazyProc) (n int64) {
	f.Call(uintptr(unsafe.Pointer(&n)))
	return n
}
