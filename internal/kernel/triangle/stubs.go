//go:build (amd64 || arm64) && !purego

package triangle

import "github.com/seed-1415985d/attn/internal/tuning"

// vectors reports whether there are kernels.
func vectors(isa tuning.ISA) bool { return isa.SIMD() }

// substituteSIMD is updates of rows, of whole panels of values. It works like substituteGeneric.
//
//go:noescape
func substituteSIMD(x *rowsCall)

// outputsSIMD is outputs of rows, of whole panels of values. It works like outputsGeneric.
//
//go:noescape
func outputsSIMD(x *rowsCall)

// decayRowSIMD is the weights of row i. It works like decayRowGeneric.
//
//go:noescape
func decayRowSIMD(w, a *float32, n, i int)

// decayedSumsSIMD computes products with decayed keys for one row, or two that are stride elements
// apart. It works like decayedSumsGeneric.
//
//go:noescape
func decayedSumsSIMD(sum, x, w, k *float32, n, rows, stride int)

// prefetchRowsSIMD asks for lines of rows. It works like prefetchRowsGeneric.
//
//go:noescape
func prefetchRowsSIMD(x *float32, rows, stride, lines int)

// twoSumsSIMD multiplies two rows of n channels by panels. It works like twoSumsGeneric.
//
//go:noescape
func twoSumsSIMD(x *pairCall)
