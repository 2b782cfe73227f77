//go:build !purego

package attn

// Advanced SIMD is part of the base architecture of arm64.
var active = choose(neon, generic)
