package memory

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// take reserves and commits memory, so that the system refuses memory that it does not have.
func take(bytes int) ([]byte, error) {
	at, err := windows.VirtualAlloc(0, uintptr(bytes), windows.MEM_RESERVE|windows.MEM_COMMIT,
		windows.PAGE_READWRITE)
	if err != nil {
		return nil, err
	}
	return bytesAt(at, bytes), nil
}

// bytesAt returns memory that is not Go's, for which a number is as good as a pointer.
func bytesAt(at uintptr, bytes int) []byte {
	p := *(*unsafe.Pointer)(unsafe.Pointer(&at))
	return unsafe.Slice((*byte)(p), bytes)
}

// giveBack releases memory of take.
func giveBack(whole []byte) error {
	return windows.VirtualFree(uintptr(unsafe.Pointer(unsafe.SliceData(whole))), 0,
		windows.MEM_RELEASE)
}

// mapFile maps a file read-only. The view stays when the handles are closed.
func mapFile(file *os.File, bytes int) ([]byte, error) {
	h, err := windows.CreateFileMapping(windows.Handle(file.Fd()), nil, windows.PAGE_READONLY, 0, 0,
		nil)
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(h)
	at, err := windows.MapViewOfFile(h, windows.FILE_MAP_READ, 0, 0, uintptr(bytes))
	if err != nil {
		return nil, err
	}
	return bytesAt(at, bytes), nil
}

// unmapFile unmaps memory of mapFile.
func unmapFile(whole []byte) error {
	return windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(whole))))
}

// forget does nothing: pages of files leave the working set when others need room.
func forget([]byte) {}
