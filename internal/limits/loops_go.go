package limits

import "sync/atomic"

// sink keeps the compiler from dropping the loops.
var sink atomic.Uint32

// fmaGo is what the compiler makes of 12 chains. They are multiply-adds of two
// roundings where the architecture does not fuse them by itself.
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

// integersGo is what the compiler makes of 12 sums of products of 8-bit integers.
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

// chain is steps operations of a cycle each, a multiple of 16, of which every one needs the one
// before. Of additions alone the compiler would merge two into one. It does 16 for each turn of the
// loop: beside another program on the core, turns of 2 took up to 1.6 times as long as their
// operations.
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
