//go:build asan

package attn

import (
	"runtime"
	"unsafe"
)

// sanitizing: the build has the address sanitizer, which must be told what assembly reads and writes.
const sanitizing = true

func sanitizeRead(p unsafe.Pointer, bytes int)  { runtime.ASanRead(p, bytes) }
func sanitizeWrite(p unsafe.Pointer, bytes int) { runtime.ASanWrite(p, bytes) }
