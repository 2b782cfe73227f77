package pairs

import "math"

// Where kernels do not flush, sums are theirs only if nothing is to be flushed: a product of
// numbers in bfloat16 of exponents x and y is a multiple of 2^(x+y−14), so every sum is, whatever
// cancels, and with x + y of at least −112 none is below 2⁻¹²⁶ but 0.

// Least is the least magnitude of some numbers in bfloat16 that are not 0, as bits.
type Least uint16

const none Least = math.MaxUint16

// leastOf is the least magnitude of numbers.
func leastOf(x []float32) Least {
	least := uint32(math.MaxUint32)
	for _, e := range x {
		if bits := math.Float32bits(e) &^ (1 << 31); bits > 0 {
			least = min(least, bits)
		}
	}
	return Least(least >> 16)
}

// LeastOf is the least magnitude of halves.
func LeastOf(x []uint16) Least {
	least := none
	for _, e := range x {
		if bits := Least(e &^ (1 << 15)); bits > 0 {
			least = min(least, bits)
		}
	}
	return least
}

// Normal reports whether no number is subnormal in sums over numbers of these least magnitudes: nor
// are these themselves.
func Normal(x, y Least) bool {
	return x>>7 > 0 && y>>7 > 0 && int(x>>7)-127+int(y>>7)-127 >= -112
}
