// Package marks says of many small integers which are not 0 and which are as large as they can be,
// 8 bytes at a time.
package marks

import "encoding/binary"

// Marks are of numbers that take the same place in several rows. Bits of Any are set where a number
// is not 0, and of Top where one is as large as it can be, in the number's own bits.
type Marks struct{ Any, Top uint64 }

// In reports what is marked in some bits.
func (m Marks) In(bits uint64) (any, top bool) { return m.Any&bits != 0, m.Top&bits != 0 }

// Bytes marks integers of 8 bits, of which 127, −127 and −128 are the largest, in rows of 8·len(m)
// bytes.
func Bytes(m []Marks, x []byte) {
	const (
		signs, rest = 0x8080808080808080, 0x7f7f7f7f7f7f7f7f
		two, three  = 0x0202020202020202, 0x0303030303030303
	)
	for i := range m {
		any, top := uint64(0), uint64(0)
		for at := 8 * i; at+8 <= len(x); at += 8 * len(m) {
			w := binary.LittleEndian.Uint64(x[at:])
			// Without their signs, 127, −128 and −127 less 2 are the three largest numbers of 7 bits, as
			// are −1, 0 and 1 less 2. The sign of the difference is that of w for these, and another one
			// for those.
			less := (w | signs) - two
			any, top = any|w, top|(less&rest+three)&(w^less)
		}
		m[i].Any |= any
		m[i].Top |= top & signs
	}
}

// Codes marks codes of 4 bits, of which 7 and 15 are the largest.
func Codes(m []Marks, x []byte) {
	for i := range m {
		any, top := uint64(0), uint64(0)
		for at := 8 * i; at+8 <= len(x); at += 8 * len(m) {
			w := binary.LittleEndian.Uint64(x[at:])
			any, top = any|w, top|w&(w>>1)&(w>>2)
		}
		m[i].Any |= any
		m[i].Top |= top & 0x1111111111111111
	}
}
