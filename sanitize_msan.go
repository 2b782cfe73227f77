//go:build msan

package attn

import (
	"runtime"
	"unsafe"
)

// sanitizing: the build has the memory sanitizer, which must be told what assembly reads and writes.
const sanitizing = true

func sanitizeRead(p unsafe.Pointer, bytes int)  { runtime.MSanRead(p, bytes) }
func sanitizeWrite(p unsafe.Pointer, bytes int) { runtime.MSanWrite(p, bytes) }
