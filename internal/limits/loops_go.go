package limits

import "sync/atomic"

// sink keeps the compiler from dropping the loops.
var sink atomic.Uint32

// fmaGo is 12 chains in Go. They are multiply-adds with two roundings if the compiler does not fuse
// them.
func fmaGo(steps int) {
	const f, s = 0.5, 0.5
	var t [accumulators]float32
	for range steps {
		for i := range t {
			t[i] = t[i]*f + s
		}
	}
	sum := float32(0)
	for _, e := range t {
		sum += e
	}
	sink.Store(uint32(sum))
}

// integersGo is 12 sums of products of 8-bit integers in Go.
func integersGo(steps int) {
	var t [accumulators]int32
	for i := range steps {
		a, b := int8(i), int8(i>>8)
		for j := range t {
			t[j] += int32(a) * int32(b+int8(j))
		}
	}
	sum := int32(0)
	for _, e := range t {
		sum += e
	}
	sink.Store(uint32(sum))
}

// chain runs steps dependent operations of a cycle each, a multiple of 16. The compiler would merge
// two additions into one, so exclusive ors alternate. It does 16 in each turn of the loop: if
// another program shared the core, turns of 2 took up to 1.6 times as long as their operations.
func chain(steps int) uint64 {
	x, y := uint64(0), uint64(1)
	for range steps / 16 {
		x += y
		y ^= x
		x += y
		y ^= x
		x += y
		y ^= x
		x += y
		y ^= x
		x += y
		y ^= x
		x += y
		y ^= x
		x += y
		y ^= x
		x += y
		y ^= x
	}
	return x
}

// readGo sums a buffer whose length is a multiple of 8.
func readGo(x []float32) {
	var t [8]float32
	for ; len(x) >= 8; x = x[8:] {
		for i, e := range x[:8] {
			t[i] += e
		}
	}
	sum := float32(0)
	for _, e := range t {
		sum += e
	}
	sink.Store(uint32(sum))
}
