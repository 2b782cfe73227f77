//go:build (amd64 || arm64) && !purego

package blockwise

import (
	"encoding/binary"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/blocks"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/narrow"
)

// Types with indices of a book are unpacked by Go code on all CPUs: their numbers are looked up.

// scaleForm says how kernels read the two scales of an output, which follow d.
type scaleForm int

const (
	floatScales scaleForm = iota
	pairScales            // pairs of words
)

// unpackIndices unpacks n blocks of a panel into bytes with sign, each combined by exclusive or
// with a byte of flip, d and two vectors of scales.
func unpackIndices(t blocks.Type, dst, packed []byte, n int, flip uint64, form scaleForm) {
	of, size := t.Traits(), unpackedSize(t)
	var x blocks.Numbers
	for ; n > 0; n-- {
		part := packed[of.Header():of.Packed]
		for range of.Inputs / blocks.Inputs {
			for c := range panel {
				of.Numbers(&x, part, c)
				for l, e := range x.Bytes {
					e ^= flip
					binary.LittleEndian.PutUint32(dst[8*panel*l+4*c:], uint32(e))
					binary.LittleEndian.PutUint32(dst[8*panel*l+4*panel+4*c:], uint32(e>>32))
				}
				putScales(dst[unpackedBytes:size], c, &x, form)
			}
			putUnits(of, dst[unpackedBytes:], packed)
			part, dst = part[of.Part():], dst[size:]
		}
		packed = packed[of.Packed:]
	}
}

// putScales puts the scales of an output.
func putScales(to []byte, c int, x *blocks.Numbers, form scaleForm) {
	for half, s := range x.Scales {
		at := to[(1+half)*4*panel:]
		if form == floatScales {
			putFloat(at, c, float32(s))
			continue
		}
		binary.LittleEndian.PutUint32(at[4*c:], uint32(s)*0x10001)
	}
}

// putUnits puts d with the power of 2 that it includes.
func putUnits(of *blocks.Traits, to, packed []byte) {
	widenD(to, packed)
	d := floatsAt(to)
	for c := range d {
		d[c] *= of.Unit() // exact
	}
}

// putFloat puts number c.
func putFloat(to []byte, c int, x float32) { *(*float32)(unsafe.Pointer(&to[4*c])) = x }

// widenD widens numbers in F16 to float32.
func widenD(to, from []byte) {
	narrow.WidenHalves(kernel.F16, (*float32)(unsafe.Pointer(&to[0])), &from[0], panel)
}

// floatsAt is a panel of numbers.
func floatsAt(x []byte) *[panel]float32 { return (*[panel]float32)(unsafe.Pointer(&x[0])) }
