//go:build race

package sanitize

import (
	"runtime"
	"unsafe"
)

// Enabled: the build has the race detector.
const Enabled = true

// Read tells it that assembly reads bytes from p on.
func Read(p unsafe.Pointer, bytes int) { runtime.RaceReadRange(p, bytes) }

// Write tells it that assembly writes them.
func Write(p unsafe.Pointer, bytes int) { runtime.RaceWriteRange(p, bytes) }
