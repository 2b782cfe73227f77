package attn

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Blocks on their way to a file, and back. A block in a file is that of a store with numbers
// little-endian, and zero wherever no token is: these bytes may be left from other sequences.

// blank makes zero what of block x is not of its tokens lo to hi−1. It reports whether anything was
// not zero.
func (s *packedKV) blank(x []byte, lo, hi int) (found bool) {
	keys, values := x[:s.keyBytes], x[s.keyBytes:s.block]
	keyLayout, valueLayout := scoreLayout(s.format, s.d, Block), s.valueLayout(Block)
	for j := range Block {
		d, dv := s.d, s.dv // what stays
		if j < lo || j >= hi {
			d, dv = 0, 0
			found = s.blankScale(keys, j) || found
			if !s.valuesInKeys {
				found = s.blankScale(values, j) || found
			}
		}
		for i := d; i < roundUp(s.d, s.group); i++ {
			found = wipe(keys, placeOf(s.format, &keyLayout, i, j), s.bytes) || found
		}
		for c := dv; c < s.cols && !s.valuesInKeys; c++ {
			found = wipe(values, placeOf(s.format, &valueLayout, j, c), s.bytes) || found
		}
	}
	return found
}

// blankScale is blank for the scale of token j, if the keys or values x of a block have scales.
func (s *packedKV) blankScale(x []byte, j int) (found bool) {
	return s.scaled && wipe(x[len(x)-s.scaleBytes:], j, 4)
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
func (s *packedKV) littleEndian(x []byte) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		s.swapBytes(x)
	}
}

// swapBytes turns the order of the bytes of each number of block x.
func (s *packedKV) swapBytes(x []byte) {
	for _, part := range [...][]byte{x[:s.keyBytes], x[s.keyBytes:]} {
		if len(part) == 0 {
			continue // values are part of keys
		}
		scales := len(part) - s.scaleBytes
		swapEach(part[:scales], s.bytes)
		swapEach(part[scales:], 4)
	}
}

func swapEach(x []byte, size int) {
	for ; size > 1 && len(x) > 0; x = x[size:] {
		slices.Reverse(x[:size])
	}
}

// faultOfIntegers says what in a block of integers no token becomes: a scale that [scaleOf] does
// not give, or −128. It is empty if there is nothing.
func (s *packedKV) faultOfIntegers(x []byte) string {
	if !s.scaled {
		return ""
	}
	keys, scales := s.keys(x)
	if fault := faultOf("key", keys, scales); fault != "" {
		return fault
	}
	if s.valuesInKeys {
		return ""
	}
	values, scales := s.values(x)
	return faultOf("value", values, scales)
}

func faultOf(name string, x []byte, scales []float32) string {
	top := scaleOf(math.MaxFloat32)
	for j, e := range scales {
		if !(e >= 0 && e <= top) || math.Signbit(float64(e)) {
			return fmt.Sprintf("the scale of %s %d is %v, want 0 to %v", name, j, e, top)
		}
	}
	if bytes.IndexByte(x, 0x80) >= 0 {
		return fmt.Sprintf("an element of the %ss is -128, want -127 to 127", name)
	}
	return ""
}
