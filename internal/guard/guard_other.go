//go:build !linux

package guard

// Protects reports that accesses outside a buffer fault on this system. Here
// buffers are plain slices.
const Protects = false

// New allocates a buffer for n elements.
func New[T Elem](n int) (*Buffer[T], error) {
	s := make([]T, max(1, n))
	return &Buffer[T]{write: s, read: s}, nil
}
