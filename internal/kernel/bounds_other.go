//go:build !amd64 || purego

package kernel

// CallProducts bounds the multiply-adds of one call, see bounds.go.
const CallProducts = 1 << 18
