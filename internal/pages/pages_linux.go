package pages

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Huge asks for huge pages for memory that nobody has written yet, and reports whether it may get some. What goes
// through a lot of memory once waits for the translation of addresses otherwise, and for prefetchers that stop at the end of a
// page. Where the system gives huge pages to nobody, pages stay small.
func Huge(x []float32) bool {
	if 4*len(x) < fewestBytes {
		return false
	}
	memory := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
	page := os.Getpagesize()
	memory = memory[-int(uintptr(unsafe.Pointer(unsafe.SliceData(x))))&(page-1):]
	return unix.Madvise(memory[:len(memory)&^(page-1)], unix.MADV_HUGEPAGE) == nil
}
