//go:build !amd64 || purego

package kernel

// CallProducts bounds the multiply-adds of one call, see bounds.go.
const CallProducts = 1 << 18

// CallProducts16 is CallProducts: no kernel has 16 lanes.
const CallProducts16 = CallProducts
