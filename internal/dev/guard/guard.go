// Package guard allocates buffers for tests of code that the compiler cannot check: an access
// directly before or after such a buffer faults, and so does a write to the buffer's read-only
// view, which a function gets as its input.
package guard

import "os"

// Elem is the element types of buffers.
type Elem interface {
	~float32 | ~uint64 | ~bool
}

// Buffer is memory for at most Cap elements. Each of its two views of the same
// elements has an inaccessible page directly before and directly after it.
type Buffer[T Elem] struct {
	write, read []T
	release     func()
}

// Protects reports whether accesses outside a buffer fault. They do not on systems where this
// package cannot map memory, nor with ATTN_TEST_GUARD=off, which is for emulators: QEMU 7.2 reads
// the lanes of VMASKMOV that the mask excludes, which no CPU does.
func Protects() bool { return canProtect && os.Getenv("ATTN_TEST_GUARD") != "off" }

// New allocates a buffer for at least n elements.
func New[T Elem](n int) (*Buffer[T], error) {
	if Protects() {
		return protected[T](n)
	}
	s := make([]T, n+64)
	return &Buffer[T]{write: s[:n:n], read: s[:n:n]}, nil
}

// Forbid makes memory inaccessible until allow is called. The memory begins and ends at a page
// boundary.
func Forbid[T Elem](x []T) (allow func(), err error) {
	if !Protects() {
		return func() {}, nil
	}
	return forbid(x)
}

// Cap returns the number of elements that fit.
func (b *Buffer[T]) Cap() int { return len(b.write) }

// Front returns the first n elements as two slices of the same memory, the second of which is
// read-only. The memory before them is inaccessible.
func (b *Buffer[T]) Front(n int) (write, read []T) {
	return b.write[:n:n], b.read[:n:n]
}

// Back is Front for the last n elements. The memory after them is inaccessible.
func (b *Buffer[T]) Back(n int) (write, read []T) {
	at := len(b.write) - n
	return b.write[at:], b.read[at:]
}

// Free frees the memory. No slice of it may be used afterwards.
func (b *Buffer[T]) Free() {
	if b.release != nil {
		b.release()
	}
	*b = Buffer[T]{}
}
