package folder

// Blocks that attn does not multiply become blocks that it does, of exactly the same numbers: of
// more bits, and with what is added to all of a block apart.

// reblocked is how a type becomes another. Minima are halves, one for each block, or none.
type reblocked struct {
	to     *encoding
	block  func(to, block []byte)
	minima func(block []byte) []byte
}

// reblock returns blocks in the place of others, and their minima.
func (e *encoding) reblock(data []byte) (blocks, minima []byte) {
	r := e.as
	blocks = make([]byte, len(data)/e.bytes*r.to.bytes)
	for to := blocks; len(data) > 0; data, to = data[e.bytes:], to[r.to.bytes:] {
		if r.block(to, data[:e.bytes]); r.minima != nil {
			minima = append(minima, r.minima(data)...)
		}
	}
	return blocks, minima
}

// fiveBits returns integers of a block: the halves of bytes, those of the first half below the
// others, and the bits above them.
func fiveBits(low []byte, high uint32) (n [32]byte) {
	for i, x := range low {
		n[i], n[i+16] = x&15|byte(high>>i&1)<<4, x>>4|byte(high>>(i+16)&1)<<4
	}
	return n
}

func word(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// The integers of types of 32 elements, which begin with a scale d.
func integersQ41(b []byte) [32]byte { return fiveBits(b[4:], 0) }           // d·n + minimum
func integersQ50(b []byte) [32]byte { return fiveBits(b[6:], word(b[2:])) } // d·(n − 16)
func integersQ51(b []byte) [32]byte { return fiveBits(b[8:], word(b[4:])) } // d·n + minimum

// toQ8 makes a block of Q8_0 of integers less some.
func toQ8(integers func([]byte) [32]byte, less byte) func(to, block []byte) {
	return func(to, block []byte) {
		copy(to, block[:2])
		for i, n := range integers(block) {
			to[2+i] = n - less
		}
	}
}

// second is the half behind the first.
func second(block []byte) []byte { return block[2:4] }

// decodeIntegers is how such a block is decoded.
func decodeIntegers(integers func([]byte) [32]byte, less float64, minimum bool) func([]float32,
	[]byte) {
	return func(to []float32, block []byte) {
		d, least := float64(halfAt(block)), 0.
		if minimum {
			least = float64(halfAt(second(block)))
		}
		for i, n := range integers(block) {
			to[i] = float32(d*(float64(n)-less) + least)
		}
	}
}

// scaleQ3 is scale i of a block of Q3_K: the halves of 8 bytes, and two bits of 4 more.
func scaleQ3(block []byte, i int) int8 {
	s := block[96:108]
	return int8(s[i%8]>>(i/8*4)&15|s[8+i%4]>>(i/4*2)&3<<4) - 32
}

// integerQ3 is integer i of a block of Q3_K: two bits, and less 4 unless another bit is there.
func integerQ3(block []byte, i int) int {
	row, j := i/32, i%32
	return int(block[32+i/128*32+j]>>(row%4*2)&3) - 4 + int(block[j]>>row&1)*4
}

func decodeQ3K(to []float32, block []byte) {
	d := halfAt(block[108:])
	for i := range to {
		to[i] = d * float32(scaleQ3(block, i/16)) * float32(integerQ3(block, i))
	}
}

// toQ6K makes a block of Q6_K of one of Q3_K.
func toQ6K(to, block []byte) {
	low, high, scales, d := to[:128], to[128:192], to[192:208], to[208:]
	for i := range 256 {
		half, quarter, j := i/128, i/32%4, i%32
		n := byte(integerQ3(block, i) + 32)
		low[64*half+quarter%2*32+j] |= n & 15 << (quarter / 2 * 4)
		high[32*half+j] |= n >> 4 << (2 * quarter)
	}
	for i := range scales {
		scales[i] = byte(scaleQ3(block, i))
	}
	copy(d, block[108:])
}
