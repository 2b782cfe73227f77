//go:build asan

package sanitize

import (
	"runtime"
	"unsafe"
)

// Enabled: the build has the address sanitizer.
const Enabled = true

// Read tells it that assembly reads bytes from p on.
func Read(p unsafe.Pointer, bytes int) { runtime.ASanRead(p, bytes) }

// Write tells it that assembly writes them.
func Write(p unsafe.Pointer, bytes int) { runtime.ASanWrite(p, bytes) }
