package tuning

import "golang.org/x/sys/unix"

// caches are the bytes of caches for data, less than 1 where that is not known.
func caches() (l1, l2 int) { return sysctl("hw.l1dcachesize"), sysctl("hw.l2cachesize") }

// sysctl is a number of the system's, 0 if it has none of that name.
func sysctl(name string) int {
	n, err := unix.SysctlUint64(name)
	if err != nil {
		return 0
	}
	return int(n)
}
