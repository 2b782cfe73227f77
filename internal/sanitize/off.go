//go:build !race && !msan && !asan

// Package sanitize tells the sanitizer of the build, if it has one, what assembly
// reads and writes: sanitizers see only the accesses of compiled code.
package sanitize

import "unsafe"

// Enabled: the build has a sanitizer.
const Enabled = false

// Read tells it that assembly reads bytes from p on.
func Read(p unsafe.Pointer, bytes int) {}

// Write tells it that assembly writes them.
func Write(p unsafe.Pointer, bytes int) {}
