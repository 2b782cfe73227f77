//go:build !purego

package blockwise

import (
	"encoding/binary"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// unpackIndices unpacks n blocks of a type of indices into bytes with sign, d and the scales.
func unpackIndices(t blocks.Type, dst, packed []byte, n int) {
	of, size := t.Traits(), unpackedSize(t)
	var d [panel]float32
	for ; n > 0; n-- {
		narrow.WidenHalves(kernel.F16, &d[0], &packed[0], panel)
		for c := range d {
			d[c] *= of.Form().Unit // exact
		}
		part := packed[of.Header():of.Packed]
		for range of.Inputs / blocks.Inputs {
			*floatsAt(dst[unpackedBytes:]) = d
			unpackNumbers(of, dst, part)
			part, dst = part[of.Part():], dst[size:]
		}
		packed = packed[of.Packed:]
	}
}

// unpackNumbers unpacks 32 inputs, but for d.
func unpackNumbers(of *blocks.Traits, dst, part []byte) {
	var x blocks.Numbers
	for c := range panel {
		of.Numbers(&x, part, c)
		for l, eight := range x.Bytes {
			binary.LittleEndian.PutUint32(dst[4*(2*l*panel+c):], uint32(eight))
			binary.LittleEndian.PutUint32(dst[4*((2*l+1)*panel+c):], uint32(eight>>32))
		}
		for half, s := range x.Scales {
			floatsAt(dst[unpackedBytes+(1+half)*4*panel:])[c] = float32(s)
		}
	}
}

// putFloat puts number c.
func putFloat(to []byte, c int, x float32) { *(*float32)(unsafe.Pointer(&to[4*c])) = x }

// widenD widens numbers in F16 to float32.
func widenD(to, from []byte) {
	narrow.WidenHalves(kernel.F16, (*float32)(unsafe.Pointer(&to[0])), &from[0], panel)
}

// oddScale is a scale of a type of indices.
func oddScale(_ tuning.ISA, x float32) float32 { return x }
