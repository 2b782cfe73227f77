//go:build (amd64 || arm64) && !purego

package int4

// encodeSIMD encodes elements in I4. It works like encodeGeneric for a scale that is not 0.
//
//go:noescape
func encodeSIMD(dst *byte, x *float32, n int, scale float32)

// lookUpSIMD looks up the levels of codes, in rows of vectors of 64 bytes, and prefetches some
// bytes ahead. It works like lookUpGeneric.
//
//go:noescape
func lookUpSIMD(dst, src *byte, rows, vectors, row, step, upper, ahead int)
