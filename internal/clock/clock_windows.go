// Package clock is for times of less than a millisecond. On Windows that of package time
// goes by steps of up to 16 ms.
package clock

import (
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	kernel  = windows.NewLazySystemDLL("kernel32.dll")
	counter = kernel.NewProc("QueryPerformanceCounter")

	perSecond = read(kernel.NewProc("QueryPerformanceFrequency")) // 10 million on most systems
	start     = read(counter)
)

// Now is the time since some moment before.
func Now() time.Duration {
	ticks := read(counter) - start
	// Seconds by themselves, so that no product overflows.
	return time.Duration(ticks/perSecond)*time.Second +
		time.Duration(ticks%perSecond)*time.Second/time.Duration(perSecond)
}

// read calls a function that writes a number; neither of those here fails.
func read(f *windows.LazyProc) (n int64) {
	f.Call(uintptr(unsafe.Pointer(&n)))
	return n
}
