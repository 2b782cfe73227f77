package room

import "golang.org/x/sys/windows"

// probe commits that much memory, and releases it untouched.
func probe(bytes int) error {
	at, err := windows.VirtualAlloc(0, uintptr(bytes), windows.MEM_COMMIT|windows.MEM_RESERVE,
		windows.PAGE_READWRITE)
	if err != nil {
		return err
	}
	return windows.VirtualFree(at, 0, windows.MEM_RELEASE)
}
