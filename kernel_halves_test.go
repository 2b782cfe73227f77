package attn

import (
	"encoding/binary"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// halfFormat is a format of 16 bits in the words of IEEE 754: its numbers that are not negative, in
// ascending order of their bits, with the power of two that would follow the largest one in the
// place of infinity. float64 has all of these, and what is halfway between them.
type halfFormat struct {
	typ      Format
	fraction int // bits
	values   []float64
}

func newHalfFormat(typ Format, fraction, exponent int) *halfFormat {
	f := &halfFormat{typ: typ, fraction: fraction}
	bias := 1<<(exponent-1) - 1
	for bits := range (1<<exponent-1)<<fraction + 1 {
		e, m := bits>>fraction, bits&(1<<fraction-1)
		if e > 0 {
			m, e = m|1<<fraction, e-1
		}
		f.values = append(f.values, math.Ldexp(float64(m), e+1-bias-fraction))
	}
	return f
}

var halfFormats = sync.OnceValue(func() []*halfFormat {
	return []*halfFormat{newHalfFormat(F16, 10, 5), newHalfFormat(BF16, 7, 8)}
})

// infinity is the bits of +Inf.
func (f *halfFormat) infinity() uint16 { return uint16(len(f.values) - 1) }

// round is the bits of the number nearest to the one with these bits, ties to even. near is a
// result for a number that is not larger in magnitude.
func (f *halfFormat) round(bits uint32, near uint16) uint16 {
	x := float64(math.Float32frombits(bits &^ (1 << 31)))
	if x != x { // the upper bits of the payload, quiet
		return f.infinity() | uint16(bits>>(23-f.fraction))&(1<<f.fraction-1) | 1<<(f.fraction-1)
	}
	for near < f.infinity() {
		middle := (f.values[near] + f.values[near+1]) / 2 // exact
		if x < middle || x == middle && near&1 == 0 {
			break
		}
		near++
	}
	return near
}

// below is the largest number that is not above x.
func (f *halfFormat) below(x float32) uint16 {
	i, exact := slices.BinarySearch(f.values, math.Abs(float64(x)))
	if !exact && i > 0 {
		i--
	}
	return uint16(min(i, len(f.values)-1))
}

// check compares the kernel with the definition for numbers whose bits ascend, and their negatives.
func (f *halfFormat) check(t *testing.T, magnitudes []uint32) {
	x, got := make([]float32, len(magnitudes)), make([]uint16, len(magnitudes))
	for _, sign := range []uint32{0, 1 << 31} {
		for i, bits := range magnitudes {
			x[i] = math.Float32frombits(bits | sign)
		}
		narrow(f.typ, got, x)
		near := f.below(x[0])
		for i, bits := range magnitudes {
			want := f.round(bits, near)
			if bits <= 0x7f800000 {
				near = want
			}
			if want |= uint16(sign >> 16); got[i] != want {
				t.Errorf("%v of %v (%#08x) is %#04x, want %#04x", f.typ, x[i], bits|sign, got[i], want)
				return
			}
		}
	}
}

// Every float32 becomes the nearest number of 16 bits, ties to even, on every implementation. With
// -exhaustive these are all 2³², otherwise some of them and the neighbourhood of all numbers of 16
// bits and of what is halfway between two.
func TestNarrowingPicksTheNearest(t *testing.T) {
	step := uint32(4999)
	if *exhaustive {
		step = 1
	}
	forEach(t, func(t *testing.T) {
		for _, f := range halfFormats() {
			f.checkNeighbours(t)
			var wait sync.WaitGroup
			workers := uint32(runtime.GOMAXPROCS(0))
			for w := range workers {
				wait.Go(func() { f.sweep(t, w, workers, step) })
			}
			wait.Wait()
		}
	})
}

// sweep tries every step-th magnitude of each workers-th run of them.
func (f *halfFormat) sweep(t *testing.T, first, workers, step uint32) {
	const run = 1 << 20
	magnitudes := make([]uint32, 0, run)
	for at := uint64(first) * run; at < 1<<31 && !t.Failed(); at += uint64(workers) * run {
		magnitudes = magnitudes[:0]
		for bits := at; bits < at+run; bits += uint64(step) {
			magnitudes = append(magnitudes, uint32(bits))
		}
		f.check(t, magnitudes)
	}
}

// checkNeighbours tries what is within two steps of numbers of 16 bits and of middles between them.
func (f *halfFormat) checkNeighbours(t *testing.T) {
	var magnitudes []uint32
	for i, x := range f.values[:len(f.values)-1] {
		for _, y := range []float64{x, (x + f.values[i+1]) / 2} {
			bits := math.Float32bits(float32(y))
			for d := range uint32(5) {
				magnitudes = append(magnitudes, max(bits+d, 2)-2)
			}
		}
	}
	magnitudes = append(magnitudes, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fbfffff, 0x7fc00000,
		0x7fffffff)
	slices.Sort(magnitudes)
	f.check(t, magnitudes)
}

// Every number of 16 bits is widened to itself, on every implementation, and a NaN to a quiet NaN
// of the same payload.
func TestWideningIsExact(t *testing.T) {
	forEach(t, func(t *testing.T) {
		packed := make([]byte, 2<<16)
		for h := range 1 << 16 {
			binary.NativeEndian.PutUint16(packed[2*h:], uint16(h))
		}
		for _, f := range halfFormats() {
			got := make([]float32, 1<<16)
			layout := panelLayout{keys: 1 << 16 / panel, cols: panel, stride: panel}
			widen(f.typ, got, packed, 0, &layout)
			for h, x := range got {
				if !f.is(x, uint16(h)) {
					t.Fatalf("%v %#04x becomes %v (%#08x)", f.typ, h, x, math.Float32bits(x))
				}
			}
		}
	})
}

// is reports whether x is the number with these bits.
func (f *halfFormat) is(x float32, h uint16) bool {
	bits := math.Float32bits(x)
	if bits>>31 != uint32(h>>15) {
		return false
	}
	switch h &= 1<<15 - 1; {
	case h < f.infinity():
		return math.Abs(float64(x)) == f.values[h]
	case h == f.infinity():
		return math.IsInf(float64(x), 0)
	}
	payload := uint32(h-f.infinity()) << (23 - f.fraction)
	return x != x && (bits&(1<<22-1) == payload&(1<<22-1))
}
