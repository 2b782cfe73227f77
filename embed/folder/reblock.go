package folder

import "github.com/seed-1415985d/attn/gguf"

// Blocks that attn does not multiply become blocks that it does, of exactly the same numbers: of
// more bits, and with what is added to all of a block apart.

// reblocked is how a type becomes another. Minima are halves, one for each block, or none.
type reblocked struct {
	of, to gguf.Type
	block  func(r *reblocked, to, block []byte)
	minima bool // behind the scale
}

// reblockings are the types that become others: 32 integers of 4 or 5 bits those of 8, and Q3_K
// Q6_K.
var reblockings = map[gguf.Type]*reblocked{
	gguf.Q4_1: {gguf.Q4_1, gguf.Q8_0, toQ8, true},
	gguf.Q5_0: {gguf.Q5_0, gguf.Q8_0, toQ8, false},
	gguf.Q5_1: {gguf.Q5_1, gguf.Q8_0, toQ8, true},
	gguf.Q3_K: {gguf.Q3_K, gguf.Q6_K, toQ6K, false},
}

// one is 1 in half precision.
const one = "\x00\x3c"

// reblock returns blocks in the place of others, and their minima.
func (r *reblocked) reblock(data []byte) (blocks, minima []byte) {
	_, size := r.of.Block()
	_, wide := r.to.Block()
	blocks = make([]byte, len(data)/size*wide)
	for to := blocks; len(data) > 0; data, to = data[size:], to[wide:] {
		if r.block(r, to[:wide], data[:size]); r.minima {
			minima = append(minima, data[2:4]...)
		}
	}
	return blocks, minima
}

// numbers are what a block means with a scale of 1, at some byte, and a minimum of 0: its integers.
func (r *reblocked) numbers(block []byte, scale int) (n [256]float32) {
	var copied [256]byte
	size := copy(copied[:], block)
	copy(copied[scale:], one)
	if r.minima {
		clear(copied[2:4])
	}
	elements, _ := r.of.Block()
	if err := r.of.Decode(n[:elements], copied[:size]); err != nil {
		panic(err) // the block is whole
	}
	return n
}

// toQ8 makes a block of Q8_0 of one of fewer bits, which begins with its scale.
func toQ8(r *reblocked, to, block []byte) {
	copy(to, block[:2])
	n := r.numbers(block, 0)
	for i := range to[2:] {
		to[2+i] = byte(int8(n[i]))
	}
}

// toQ6K makes a block of Q6_K of one of Q3_K, whose numbers are scales times integers. Those of 32
// elements are 0 with a scale of 0, whatever they were.
func toQ6K(r *reblocked, to, block []byte) {
	low, high, scales, d := to[:128], to[128:192], to[192:208], to[208:]
	numbers := r.numbers(block, 108)
	for i, x := range numbers {
		scale := scaleQ3(block, i/16)
		if scale != 0 {
			x /= float32(scale)
		}
		half, quarter, j := i/128, i/32%4, i%32
		n := byte(int(x) + 32)
		low[64*half+quarter%2*32+j] |= n & 15 << (quarter / 2 * 4)
		high[32*half+j] |= n >> 4 << (2 * quarter)
	}
	for i := range scales {
		scales[i] = byte(scaleQ3(block, i))
	}
	copy(d, block[108:])
}

// scaleQ3 is scale i of a block of Q3_K: the halves of 8 bytes, and two bits of 4 more.
func scaleQ3(block []byte, i int) int8 {
	s := block[96:108]
	return int8(s[i%8]>>(i/8*4)&15|s[8+i%4]>>(i/4*2)&3<<4) - 32
}
