//go:build race

package attn

import (
	"runtime"
	"unsafe"
)

// sanitizing: the build has the race detector, which must be told what assembly reads and writes.
const sanitizing = true

func sanitizeRead(p unsafe.Pointer, bytes int)  { runtime.RaceReadRange(p, bytes) }
func sanitizeWrite(p unsafe.Pointer, bytes int) { runtime.RaceWriteRange(p, bytes) }
