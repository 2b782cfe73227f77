package attn

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Blocks on their way to a file, and back. A block in a file is that of a store with numbers little-endian, and zero wherever no token is: these
// bytes may be left from other sequences.

// blank makes zero what of block x is not of its tokens lo to hi−1, which have dv columns of values. It reports whether anything was not zero.
func (s *blockStore) blank(x []byte, lo, hi, dv int) (found bool) {
	keys, values := x[:s.keyBytes], x[s.keyBytes:]
	keyLayout, valueLayout := scoreLayout(s.kind, s.d, Block), s.valueLayout(Block)
	size, dims := s.kind.bytes(), s.d
	if s.kind == I8 {
		dims = roundUp(s.d, 4)
	}
	for j := range Block {
		d, dv := s.d, dv // what stays
		if j < lo || j >= hi {
			d, dv = 0, 0
			found = s.blankScales(keys, j) || found
			found = s.blankScales(values, j) || found
		}
		for i := d; i < dims; i++ {
			found = wipe(keys, placeOf(s.kind, &keyLayout, i, j), size) || found
		}
		for c := dv; c < s.dv; c++ {
			found = wipe(values, placeOf(s.kind, &valueLayout, j, c), size) || found
		}
	}
	return found
}

// blankScales is blank for the scale of token j, if the keys or values x of a block have scales.
func (s *blockStore) blankScales(x []byte, j int) (found bool) {
	return s.kind == I8 && wipe(x[len(x)-4*Block:], j, 4)
}

// wipe makes element i zero, and reports whether it was something else.
func wipe(x []byte, i, size int) (found bool) {
	x = x[i*size:][:size]
	for _, e := range x {
		found = found || e != 0
	}
	clear(x)
	return found
}

// littleEndian makes the numbers of block x little-endian, or from that what this machine wants.
func (s *blockStore) littleEndian(x []byte) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		s.swapBytes(x)
	}
}

// swapBytes turns the order of the bytes of each number of block x.
func (s *blockStore) swapBytes(x []byte) {
	if s.kind != I8 {
		swapEach(x, s.kind.bytes())
		return
	}
	swapEach(x[s.keyBytes-4*Block:s.keyBytes], 4)
	swapEach(x[s.block-4*Block:], 4)
}

func swapEach(x []byte, size int) {
	for ; len(x) > 0; x = x[size:] {
		slices.Reverse(x[:size])
	}
}

// faultOfIntegers says what in block x of I8 no token becomes: a scale that [scaleOf] does not give, or −128. It is empty if there is nothing.
func (s *blockStore) faultOfIntegers(x []byte) string {
	keys, keyScales := s.keys(x)
	values, valueScales := s.values(x)
	if fault := faultOf("key", keys, keyScales); fault != "" {
		return fault
	}
	return faultOf("value", values, valueScales)
}

func faultOf(name string, x []byte, scales []float32) string {
	most := scaleOf(math.MaxFloat32)
	for j, e := range scales {
		if !(e >= 0 && e <= most) || math.Signbit(float64(e)) {
			return fmt.Sprintf("the scale of %s %d is %v, want 0 to %v", name, j, e, most)
		}
	}
	if bytes.IndexByte(x, 0x80) >= 0 {
		return fmt.Sprintf("an element of the %ss is -128, want -127 to 127", name)
	}
	return ""
}
