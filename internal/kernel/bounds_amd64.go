//go:build !purego

package kernel

// CallProducts bounds the multiply-adds of one call, see bounds.go.
const CallProducts = 1 << 19

// CallProducts16 is CallProducts for kernels with 16 lanes, whose CPUs do twice as many at once:
// two panels of 256 steps for 128 rows, as in a product by a matrix.
const CallProducts16 = 2 * CallProducts
