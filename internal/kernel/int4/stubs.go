//go:build (amd64 || arm64) && !purego

package int4

// encodeSIMD makes codes of I4. It works like encodeGeneric of a scale that is not 0.
//
//go:noescape
func encodeSIMD(dst *byte, x *float32, n int, scale float32)

// lookUpSIMD makes levels of codes, of rows of vectors of 64 bytes, and prefetches what is some
// bytes ahead of them. It works like lookUpGeneric.
//
//go:noescape
func lookUpSIMD(dst, src *byte, rows, vectors, row, step, upper, ahead int)
