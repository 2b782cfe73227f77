package pages

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Huge asks for huge pages for memory that has just been allocated and is all zero, and reports whether it may get some. What goes
// through a lot of memory once waits for the translation of addresses otherwise, and for prefetchers that stop at the end of a
// page. Where the system gives huge pages to nobody, pages stay small.
func Huge(x []float32) bool {
	if 4*len(x) < fewestBytes {
		return false
	}
	memory := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
	page := os.Getpagesize()
	memory = memory[-int(uintptr(unsafe.Pointer(unsafe.SliceData(x))))&(page-1):]
	memory = memory[:len(memory)&^(page-1)]
	if unix.Madvise(memory, unix.MADV_HUGEPAGE) != nil {
		return false
	}
	// The allocator may have had this memory before: then it has small pages. New ones are zero, as these are.
	return unix.Madvise(memory, unix.MADV_DONTNEED) == nil
}
