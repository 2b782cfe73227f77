//go:build unix

package memory

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// take maps private memory. The system counts it (no MAP_NORESERVE), so that it refuses memory that
// it does not have.
func take(bytes int) ([]byte, error) {
	page := unix.Getpagesize()
	align := page
	if bytes >= fewestHuge {
		align = max(page, hugePage)
	}
	size := roundUp(bytes, page)
	span := size + align - page // one place in it is aligned
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(span), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	skip := int(-uintptr(p) & uintptr(align-1))
	start := unsafe.Add(p, skip)
	trim(p, skip)
	trim(unsafe.Add(start, size), span-skip-size)
	return unsafe.Slice((*byte)(start), size), nil
}

// trim unmaps the memory around the aligned part. If the system refuses, that costs addresses but
// no memory, because nobody writes to it.
func trim(p unsafe.Pointer, bytes int) {
	if bytes > 0 {
		unix.MunmapPtr(p, uintptr(bytes))
	}
}

// giveBack unmaps memory of take.
func giveBack(whole []byte) error {
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(whole)), uintptr(len(whole)))
}

// mapFile maps a file read-only.
func mapFile(file *os.File, bytes int) ([]byte, error) {
	p, err := unix.MmapPtr(int(file.Fd()), 0, nil, uintptr(bytes), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), bytes), nil
}

// unmapFile unmaps memory of mapFile.
func unmapFile(whole []byte) error { return giveBack(whole) }

// forget drops pages of a file from memory. An error has no visible effect.
func forget(pages []byte) { _ = unix.Madvise(pages, unix.MADV_DONTNEED) }
