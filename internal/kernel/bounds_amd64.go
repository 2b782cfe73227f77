//go:build !purego

package kernel

// CallProducts bounds the multiply-adds of one call, see bounds.go.
const CallProducts = 1 << 19

// CallProducts16 is CallProducts of kernels with 16 lanes, whose CPUs do that many more at once: a
// call has two panels of 256 steps for 128 rows, as a product by a matrix takes them.
const CallProducts16 = 2 * CallProducts
