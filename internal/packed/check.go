package packed

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/stop"
)

// Take converts a file's block to this machine's byte order. It says what in the block cannot come
// from tokens [lo, hi), or returns "".
func (s *Blocks) Take(x []byte, lo, hi int) (fault string) {
	if stray := s.Blank(x, lo, hi); stray != 0 {
		return fmt.Sprintf("a byte of no token is %d, want 0", stray)
	}
	s.LittleEndian(x)
	return s.faultOfIntegers(x)
}

// Blank zeroes block x outside of its tokens [lo, hi). It returns one of the bytes there that were
// not zero, or zero.
func (s *Blocks) Blank(x []byte, lo, hi int) (stray byte) {
	keys, values := x[:s.KeyBytes], x[s.KeyBytes:s.Size]
	keyLayout := kernel.ScoreLayout(s.K.Format, s.D, kernel.Block)
	valueLayout := s.ValueLayout(kernel.Block)
	for j := range kernel.Block {
		d, dv := s.D, s.DV // the words to keep
		if j < lo || j >= hi {
			d, dv = 0, 0
			stray = either(stray, s.K.blankScale(keys, j))
			if !s.ValuesInKeys {
				stray = either(stray, s.V.blankScale(values, j))
			}
		}
		for i := d; i < kernel.RoundUp(s.D, s.K.Whole); i++ {
			stray = either(stray, s.K.wipe(keys, kernel.PlaceOf(s.K.Format, &keyLayout, i, j)))
		}
		for c := dv; c < s.Cols && !s.ValuesInKeys; c++ {
			stray = either(stray, s.V.wipe(values, kernel.PlaceOf(s.V.Format, &valueLayout, j, c)))
		}
	}
	return stray
}

// blankScale is Blank for the scale of token j, if the keys or values x of a block have scales.
func (s *Side) blankScale(x []byte, j int) (stray byte) {
	if !s.Scaled {
		return 0
	}
	return wipe(x[len(x)-s.scaleBytes:], j, 4)
}

// wipe zeroes element i, and returns one of its bytes that were not zero, or zero.
func (s *Side) wipe(x []byte, i int) (stray byte) {
	if s.Codes {
		stray = kernel.CodeAt(x, i)
		kernel.SetCode(x, i, 0)
		return stray
	}
	return wipe(x, i, s.Bytes)
}

// wipe zeroes element i of a size, and returns one of its bytes that were not zero, or zero.
func wipe(x []byte, i, size int) (stray byte) {
	x = x[i*size:][:size]
	for _, e := range x {
		stray = either(stray, e)
	}
	clear(x)
	return stray
}

// either returns the first of two bytes that is not zero, or zero.
func either(a, b byte) byte {
	if a != 0 {
		return a
	}
	return b
}

// LittleEndian converts the numbers of block x to little-endian, or back to this machine's byte
// order.
func (s *Blocks) LittleEndian(x []byte) {
	if BigEndian() {
		s.SwapBytes(x)
	}
}

// BigEndian reports whether this machine is big-endian, so that numbers are swapped for files.
func BigEndian() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) != 1 }

// SwapBytes swaps the bytes of each number of block x.
func (s *Blocks) SwapBytes(x []byte) {
	s.K.swapBytes(x[:s.KeyBytes])
	if !s.ValuesInKeys {
		s.V.swapBytes(x[s.KeyBytes:])
	}
}

func (s *Side) swapBytes(x []byte) {
	scales := len(x) - s.scaleBytes
	SwapEach(x[:scales], s.Bytes)
	SwapEach(x[scales:], 4)
}

// SwapEach swaps the bytes of each number of a size.
func SwapEach(x []byte, size int) {
	for ; size > 1 && len(x) > 0; x = x[size:] {
		slices.Reverse(x[:size])
	}
}

// Validation of integers by readers: a scale must be a result of [integers.ScaleOf], and the
// largest element of a token, or of a matrix's column, must be the integer of the largest number
// with this scale.

// faultOfIntegers says what in a block of integers cannot come from tokens, or returns "".
func (s *Blocks) faultOfIntegers(x []byte) string {
	if s.K.Scaled {
		keys, scales := s.Keys(x)
		layout := kernel.ScoreLayout(s.K.Format, s.D, kernel.Block)
		if fault := s.K.faultOf("key", keys, scales, &layout); fault != "" {
			return fault
		}
	}
	if !s.V.Scaled || s.ValuesInKeys {
		return ""
	}
	values, scales := s.Values(x)
	layout := s.ValueLayout(kernel.Block)
	return s.V.faultOf("value", values, scales, &layout)
}

// faultOf is faultOfIntegers for keys, the columns of a layout, or for values, its rows.
func (s *Side) faultOf(name string, x []byte, scales []float32, l *kernel.PanelLayout) string {
	if fault := FaultOfScales(name, scales); fault != "" {
		return fault
	}
	if s.Format == kernel.I8 && stop.IndexByte(x, 0x80) >= 0 {
		return fmt.Sprintf("an element of the %ss is -128, want -127 to 127", name)
	}
	var words [panel / 2]marks
	all, together := words[:], panel // tokens with interleaved elements
	values := name == "value"
	if values {
		all, together = words[:1], s.Whole
	}
	size := len(x) / kernel.Block
	for j, scale := range scales {
		if j%together == 0 {
			clear(all)
			mark(s.Format, all, x[j*size:][:together*size])
		}
		word, bits := BitsOf(s.Format, j%together, values)
		if any, top := all[word].in(bits); scale > 0 && top || scale == 0 && !any {
			continue
		}
		largest := s.largestOf(x, l, j, values)
		if fault := FaultOfLargest(s.Format, name, j, largest, scale); fault != "" {
			return fault
		}
	}
	return ""
}

// largestOf returns the largest magnitude of the elements of token j.
func (s *Side) largestOf(x []byte, l *kernel.PanelLayout, j int, values bool) (largest float32) {
	steps := l.Keys
	if values {
		steps = l.Cols
	}
	for i := range steps {
		at := kernel.PlaceOf(s.Format, l, i, j)
		if values {
			at = kernel.PlaceOf(s.Format, l, j, i)
		}
		e := narrow.ElementOf(s.Format, x, at)
		largest = max(largest, e, -e)
	}
	return largest
}

// mark marks integers or codes.
func mark(f kernel.Format, m []marks, x []byte) {
	if f == kernel.I4 {
		markCodes(m, x)
		return
	}
	markBytes(m, x)
}

// BitsOf returns the word and the bits of the elements of the i-th of some tokens with interleaved
// elements. A word has two groups of four: of two keys, or of two columns of values.
func BitsOf(f kernel.Format, i int, values bool) (word int, bits uint64) {
	switch {
	case !values:
		return i / 2, 0xffffffff << (i % 2 * 32)
	case f == kernel.I4:
		return 0, 0x0000000f_0000000f << (i%4*8 + i/4*4)
	}
	return 0, 0x000000ff_000000ff << (i * 8)
}

// FaultOfLargest says what is wrong with the scale of a token or an output whose largest element,
// an integer or a level, has a magnitude, or returns "".
func FaultOfLargest(f kernel.Format, name string, j int, largest, scale float32) string {
	if scale == 0 {
		return fmt.Sprintf("the scale of %s %d is 0, want elements as zeros have them", name, j)
	}
	most, end := float32(127), largest+0.5 // end: numbers below it, in scales, round to largest
	if f == kernel.I4 {
		most, end = 117, 127.5
		if i := slices.Index(kernel.Levels[:len(kernel.LevelBounds)], int8(largest)); i >= 0 {
			end = kernel.LevelBounds[i]
		}
	}
	if integers.ScaleOf(end*scale) >= scale { // it is subnormal, and was rounded
		return ""
	}
	return fmt.Sprintf("the largest element of %s %d is %v with a scale of %v, want %v", name, j,
		largest, scale, most)
}

// FaultOfScales says which of some scales is not valid, or returns "".
func FaultOfScales(name string, scales []float32) string {
	top := integers.ScaleOf(math.MaxFloat32)
	for j, e := range scales {
		if !(e >= 0 && e <= top) || math.Signbit(float64(e)) {
			return fmt.Sprintf("the scale of %s %d is %v, want 0 to %v", name, j, e, top)
		}
	}
	return ""
}
