//go:build !race && !msan && !asan

package attn

import "unsafe"

// sanitizing: the build has a sanitizer that must be told what assembly reads and writes.
const sanitizing = false

func sanitizeRead(unsafe.Pointer, int)  {}
func sanitizeWrite(unsafe.Pointer, int) {}
