// Package operand declares what an assembly kernel does to its operands. Each function panics if
// the slice is too short, which is a bug of the caller, and tells the sanitizer of the build about
// the memory, because sanitizers do not see assembly. In a build without sanitizer only the check
// remains.
package operand

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/sanitize"
)

// Need panics if x has fewer than n elements.
func Need[T any](x []T, n int) {
	if n > 0 {
		_ = x[n-1]
	}
}

// Reads: the first n elements of x.
func Reads[T any](x []T, n int) {
	Need(x, n)
	if sanitize.Enabled && n > 0 {
		sanitize.Read(unsafe.Pointer(&x[0]), n*int(unsafe.Sizeof(x[0])))
	}
}

// Writes: the first n elements of x, whatever they were.
func Writes[T any](x []T, n int) {
	Need(x, n)
	if sanitize.Enabled && n > 0 {
		sanitize.Write(unsafe.Pointer(&x[0]), n*int(unsafe.Sizeof(x[0])))
	}
}

// Updates: the first n elements of x, whose new values depend on the old ones.
func Updates[T any](x []T, n int) {
	Reads(x, n)
	if sanitize.Enabled {
		Writes(x, n)
	}
}

// ReadsRows: n elements of each of some rows, without the gaps between rows.
func ReadsRows[T any](x []T, rows, stride, n int) {
	Need(x, (rows-1)*stride+n)
	if sanitize.Enabled {
		for r := range rows {
			Reads(x[r*stride:], n)
		}
	}
}

// WritesRows: n elements of each of some rows, whatever they were.
func WritesRows[T any](x []T, rows, stride, n int) {
	Need(x, (rows-1)*stride+n)
	if sanitize.Enabled {
		for r := range rows {
			Writes(x[r*stride:], n)
		}
	}
}

// UpdatesRows: n elements of each of some rows, whose new values depend on the old ones.
func UpdatesRows[T any](x []T, rows, stride, n int) {
	ReadsRows(x, rows, stride, n)
	if sanitize.Enabled {
		WritesRows(x, rows, stride, n)
	}
}

// Address returns the address of x[at], which need not exist.
func Address[T any](x []T, at int) uintptr {
	var element T
	return uintptr(unsafe.Pointer(unsafe.SliceData(x))) + uintptr(at)*unsafe.Sizeof(element)
}

// At returns the address of element i after p.
func At[T any](p *T, i int) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(p), i*int(unsafe.Sizeof(*p))))
}
