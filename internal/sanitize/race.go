//go:build race

package sanitize

import (
	"runtime"
	"unsafe"
)

// Enabled reports whether the build has the race detector.
const Enabled = true

// Read tells the sanitizer that assembly reads bytes at p.
func Read(p unsafe.Pointer, bytes int) { runtime.RaceReadRange(p, bytes) }

// Write tells the sanitizer that assembly writes bytes at p.
func Write(p unsafe.Pointer, bytes int) { runtime.RaceWriteRange(p, bytes) }
