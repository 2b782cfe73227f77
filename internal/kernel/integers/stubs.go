//go:build (amd64 || arm64) && !purego

package integers

// largestSIMD is the largest magnitude. It works like largestGeneric.
//
//go:noescape
func largestSIMD(x *float32, n int) float32

// quantizeSIMD rounds multiples of a scale. It works like quantizeGeneric of a scale that is not 0.
//
//go:noescape
func quantizeSIMD(dst *int8, x *float32, n int, scale float32)
