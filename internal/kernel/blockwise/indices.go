//go:build (amd64 || arm64) && !purego

package blockwise

import (
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
	var scales [2][panel]int8
	var d [panel]float32
	for ; n > 0; n-- {
		narrow.WidenHalves(kernel.F16, &d[0], &packed[0], panel)
		for c := range d {
			d[c] *= of.Unit() // exact
		}
		part := packed[of.Header():of.Packed]
		for range of.Inputs / blocks.Inputs {
			of.UnpackPanel((*blocks.PanelBytes)(unsafe.Pointer(&dst[0])), &scales, part, flip)
			*floatsAt(dst[unpackedBytes:]) = d
			for half := range scales {
				putScales(dst[unpackedBytes+(1+half)*4*panel:size], &scales[half], form)
			}
			part, dst = part[of.Part():], dst[size:]
		}
		packed = packed[of.Packed:]
	}
}

// putScales puts the scales of 16 outputs.
func putScales(to []byte, scales *[panel]int8, form scaleForm) {
	if form == floatScales {
		x := floatsAt(to)
		for c, s := range scales {
			x[c] = float32(s)
		}
		return
	}
	x := (*[panel]uint32)(unsafe.Pointer(&to[0]))
	for c, s := range scales {
		x[c] = uint32(s) * 0x10001
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
