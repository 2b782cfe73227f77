package packed

import "encoding/binary"

// marks say which of 8 bytes of small integers, over several rows, are not 0 and which have the
// largest magnitude: bits of any are set where an integer is not 0, and bits of top where it is
// largest, in the integer's own bits.
type marks struct{ any, top uint64 }

// in reports the marks within some bits.
func (m marks) in(bits uint64) (any, top bool) { return m.any&bits != 0, m.top&bits != 0 }

// markBytes marks integers of 8 bits, the largest of which are 127, −127 and −128, in rows of
// 8·len(m) bytes.
func markBytes(m []marks, x []byte) {
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
		m[i].any |= any
		m[i].top |= top & signs
	}
}

// markCodes marks codes of 4 bits, the largest of which are 7 and 15.
func markCodes(m []marks, x []byte) {
	for i := range m {
		any, top := uint64(0), uint64(0)
		for at := 8 * i; at+8 <= len(x); at += 8 * len(m) {
			w := binary.LittleEndian.Uint64(x[at:])
			any, top = any|w, top|w&(w>>1)&(w>>2)
		}
		m[i].any |= any
		m[i].top |= top & 0x1111111111111111
	}
}
