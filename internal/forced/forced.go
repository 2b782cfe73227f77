// Package forced says what becomes of an ATTN_ISA in the environment that names no implementation of
// this machine. Package attn panics, because a program must not be slow by mistake; a command can do better.
package forced

// Unavailable is told of such a mistake instead of a panic, and package attn goes on with its best
// implementation. Whoever sets it has to end the program: nobody asked for that implementation.
//
// Package attn reads it when it is initialised. So it has to be set by a package whose imports are
// initialised before those of attn, which are os and others (see cmd/attn/internal/first).
var Unavailable func(mistake string)
