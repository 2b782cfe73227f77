package attn

import (
	"unsafe"

	"github.com/seed-1415985d/attn/internal/sanitize"
)

// What a kernel does to an operand. Each function panics if the slice is too
// short, which is a bug in this package, and tells the sanitizer of the build
// about the memory, because sanitizers do not see assembly. In a build without
// sanitizer the check is all that is left.

// need panics if x has fewer than n elements.
func need[T any](x []T, n int) {
	if n > 0 {
		_ = x[n-1]
	}
}

// reads: the first n elements of x.
func reads[T any](x []T, n int) {
	need(x, n)
	if sanitize.Enabled && n > 0 {
		sanitize.Read(unsafe.Pointer(&x[0]), n*int(unsafe.Sizeof(x[0])))
	}
}

// writes: the first n elements of x, whatever they were.
func writes[T any](x []T, n int) {
	need(x, n)
	if sanitize.Enabled && n > 0 {
		sanitize.Write(unsafe.Pointer(&x[0]), n*int(unsafe.Sizeof(x[0])))
	}
}

// updates: the first n elements of x, which become something that depends on what they were.
func updates[T any](x []T, n int) {
	reads(x, n)
	if sanitize.Enabled {
		writes(x, n)
	}
}

// readsRows: n elements of each of some rows. What is between them is not touched.
func readsRows[T any](x []T, rows, stride, n int) {
	need(x, (rows-1)*stride+n)
	if sanitize.Enabled {
		for r := range rows {
			reads(x[r*stride:], n)
		}
	}
}

// writesRows: n elements of each of some rows, whatever they were.
func writesRows[T any](x []T, rows, stride, n int) {
	need(x, (rows-1)*stride+n)
	if sanitize.Enabled {
		for r := range rows {
			writes(x[r*stride:], n)
		}
	}
}

// updatesRows: n elements of each of some rows, which become something that
// depends on what they were.
func updatesRows[T any](x []T, rows, stride, n int) {
	readsRows(x, rows, stride, n)
	if sanitize.Enabled {
		writesRows(x, rows, stride, n)
	}
}

// readsValues: the values of a block, panel by panel.
func readsValues(v []float32, b *panelLayout) {
	last := (b.cols - 1) / panel
	need(v, last*b.panelStride+(b.keys-1)*b.stride+b.cols-last*panel)
	if sanitize.Enabled {
		for c := 0; c < b.cols; c += panel {
			readsRows(v[c/panel*b.panelStride:], b.keys, b.stride, min(panel, b.cols-c))
		}
	}
}

// address is that of x[at], which need not exist.
func address[T any](x []T, at int) uintptr {
	var element T
	return uintptr(unsafe.Pointer(unsafe.SliceData(x))) + uintptr(at)*unsafe.Sizeof(element)
}

// at is the address of element i after p.
func at[T any](p *T, i int) *T { return (*T)(unsafe.Add(unsafe.Pointer(p), i*int(unsafe.Sizeof(*p)))) }

// lowBits has bits 0 to n−1 set.
func lowBits(n int) uint64 { return 1<<n - 1 }
