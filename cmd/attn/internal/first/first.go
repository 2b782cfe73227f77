// Package first takes note of a wrong ATTN_ISA before package attn panics about it.
//
// The language initialises packages in the order of their import paths, each as soon as its imports are. This
// package is ready from the start, since its only import has none. Package attn has to wait for package os,
// whose path comes after this one's. So this package is first, on every platform.
package first

import "github.com/seed-1415985d/attn/internal/forced"

// Mistake says what is wrong about ATTN_ISA. It is empty if nothing is.
var Mistake string

func init() { forced.Unavailable = func(mistake string) { Mistake = mistake } }
