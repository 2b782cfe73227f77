//go:build msan

package sanitize

import (
	"runtime"
	"unsafe"
)

// Enabled reports whether the build has the memory sanitizer.
const Enabled = true

// Read tells the sanitizer that assembly reads bytes at p.
func Read(p unsafe.Pointer, bytes int) { runtime.MSanRead(p, bytes) }

// Write tells the sanitizer that assembly writes bytes at p.
func Write(p unsafe.Pointer, bytes int) { runtime.MSanWrite(p, bytes) }
