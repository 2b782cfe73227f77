package tuning

import "golang.org/x/sys/unix"

// caches returns the bytes of the caches for data, less than 1 if unknown.
func caches() (l1, l2 int) { return sysctl("hw.l1dcachesize"), sysctl("hw.l2cachesize") }

// sysctl returns a number of the operating system, 0 if it has none of that name.
func sysctl(name string) int {
	n, err := unix.SysctlUint64(name)
	if err != nil {
		return 0
	}
	return int(n)
}
