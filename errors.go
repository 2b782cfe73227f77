package attn

import (
	"errors"

	"github.com/seed-1415985d/attn/internal/views"
)

// Errors of this package wrap one of these; test with [errors.Is]. The text of each error names the
// argument, its value and the expected value.
var (
	// ErrShape: a dimension is negative, too large, or does not match another argument.
	ErrShape = views.ErrShape
	// ErrStride: a stride is negative, overflows, or is too small for elements of an output to be
	// apart.
	ErrStride = views.ErrStride
	// ErrLength: a buffer is too short for its view, a list has the wrong length, or a number of
	// queries or keys is out of range.
	ErrLength = views.ErrLength
	// ErrOverlap: an output may share memory with an input or with another output. Views with
	// overlapping extents are allowed only as separate columns of rows of the same pitch.
	ErrOverlap = views.ErrOverlap
	// ErrOption: an option has a value outside its domain, or a pointer is nil.
	ErrOption = views.ErrOption
	// ErrUnsupported: a valid request that this version does not support, or not on this architecture.
	ErrUnsupported = errors.New("attn: unsupported")
	// ErrCapacity: a cache has no room for more tokens, or a store too few free pages.
	ErrCapacity = errors.New("attn: capacity exceeded")
	// ErrMemory: the system has too little memory for a cache, a store, a matrix or a state.
	ErrMemory = views.ErrMemory
	// ErrClosed: the pool, cache, store, matrix or state was closed, or the sequence released.
	ErrClosed = views.ErrClosed
	// ErrFormat: binary data was not written by MarshalBinary or Save.
	ErrFormat = views.ErrFormat
)

// fail returns an error of one of these kinds: "attn: shape mismatch: k.H is 3, want …".
func fail(as error, format string, args ...any) error {
	return views.Fail(as, format, args...)
}
