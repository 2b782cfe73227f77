//go:build !race && !msan && !asan

// Package sanitize tells the sanitizer of the build, if it has one, what assembly
// reads and writes: sanitizers see only the accesses of compiled code.
package sanitize

import "unsafe"

// Enabled reports whether the build has a sanitizer.
const Enabled = false

// Read tells the sanitizer that assembly reads bytes at p.
func Read(p unsafe.Pointer, bytes int) {}

// Write tells the sanitizer that assembly writes bytes at p.
func Write(p unsafe.Pointer, bytes int) {}
