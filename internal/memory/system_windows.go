package memory

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// take reserves and commits memory, so that the system refuses what it cannot have.
func take(bytes int) ([]byte, error) {
	at, err := windows.VirtualAlloc(0, uintptr(bytes), windows.MEM_RESERVE|windows.MEM_COMMIT,
		windows.PAGE_READWRITE)
	if err != nil {
		return nil, err
	}
	// no memory of Go's, so the number is as good as a pointer
	p := *(*unsafe.Pointer)(unsafe.Pointer(&at))
	return unsafe.Slice((*byte)(p), bytes), nil
}

// giveBack releases what take has returned.
func giveBack(whole []byte) error {
	return windows.VirtualFree(uintptr(unsafe.Pointer(unsafe.SliceData(whole))), 0,
		windows.MEM_RELEASE)
}
