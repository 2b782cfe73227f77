package packed

import (
	"math/rand/v2"
	"testing"
)

// Marks equal what a look at one number after the other finds.
func TestMarks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	few := []byte{0, 1, 0x70, 0x7e, 0x7f, 0x80, 0x81, 0x82, 0xff, 0x07, 0x0f, 0xf0, 0x77, 0x78}
	for range 2000 {
		words, rows := 1+r.IntN(8), r.IntN(4)
		x := make([]byte, 8*words*rows)
		for i := range x {
			if r.IntN(3) > 0 {
				x[i] = few[r.IntN(len(few))]
			}
		}
		bytes, codes := make([]marks, words), make([]marks, words)
		markBytes(bytes, x)
		markCodes(codes, x)
		for at := range 8 * words {
			for half := range 2 {
				var anyByte, topByte, anyCode, topCode bool
				for row := range rows {
					e := x[row*8*words+at]
					code := e >> (4 * half) & 15
					anyByte, topByte = anyByte || e != 0, topByte || e >= 127 && e <= 0x81
					anyCode, topCode = anyCode || code != 0, topCode || code&7 == 7
				}
				any, top := bytes[at/8].in(0xff << (at % 8 * 8))
				if any != anyByte || top != topByte {
					t.Fatalf("byte %d: %v %v, want %v %v", at, any, top, anyByte, topByte)
				}
				any, top = codes[at/8].in(0xf << (at%8*8 + 4*half))
				if any != anyCode || top != topCode {
					t.Fatalf("code %d of byte %d: %v %v, want %v %v", half, at, any, top, anyCode, topCode)
				}
			}
		}
	}
}
