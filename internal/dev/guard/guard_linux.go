package guard

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const canProtect = true

// protected allocates a buffer between inaccessible pages. An anonymous file is mapped twice,
// writable and read-only, so that filling and reading a buffer needs no system call.
func protected[T Elem](n int) (*Buffer[T], error) {
	var e T
	page := unix.Getpagesize()
	inside := max(1, (n*int(unsafe.Sizeof(e))+page-1)/page) * page
	file, err := unix.MemfdCreate("guard", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("guard: memory file: %w", err)
	}
	defer unix.Close(file)
	if err := unix.Ftruncate(file, int64(inside+2*page)); err != nil {
		return nil, fmt.Errorf("guard: memory file of %d bytes: %w", inside+2*page, err)
	}
	write, err := mapGuarded(file, inside, page, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return nil, err
	}
	read, err := mapGuarded(file, inside, page, unix.PROT_READ)
	if err != nil {
		unix.Munmap(write)
		return nil, err
	}
	return &Buffer[T]{
		write:   elements[T](write[page:][:inside]),
		read:    elements[T](read[page:][:inside]),
		release: func() { unix.Munmap(write); unix.Munmap(read) },
	}, nil
}

// mapGuarded maps the file. Its first and last page are inaccessible.
func mapGuarded(file, inside, page, access int) ([]byte, error) {
	m, err := unix.Mmap(file, 0, inside+2*page, access, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("guard: map %d bytes: %w", inside+2*page, err)
	}
	for _, edge := range [][]byte{m[:page], m[page+inside:]} {
		if err := unix.Mprotect(edge, unix.PROT_NONE); err != nil {
			unix.Munmap(m)
			return nil, fmt.Errorf("guard: protect the edge: %w", err)
		}
	}
	return m, nil
}

func elements[T Elem](b []byte) []T {
	var e T
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(e)))
}

func forbid[T Elem](x []T) (allow func(), err error) {
	var e T
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(e)))
	if page := uintptr(unix.Getpagesize()); uintptr(unsafe.Pointer(&b[0]))%page != 0 ||
		uintptr(len(b))%page != 0 {
		return nil, fmt.Errorf("guard: %d bytes at %p are no pages", len(b), &b[0])
	}
	if err := unix.Mprotect(b, unix.PROT_NONE); err != nil {
		return nil, fmt.Errorf("guard: protect %d bytes: %w", len(b), err)
	}
	return func() { unix.Mprotect(b, unix.PROT_READ|unix.PROT_WRITE) }, nil
}
