//go:build arm64 || loong64 || ppc64 || ppc64le || riscv64 || s390x

package f32

import "math"

// fuses says that the compiler fuses a·b + c into one instruction. Go does on these architectures,
// but a program may be built by another compiler or with flags that no test has seen, so this is
// tested when the program starts.
var fuses = agrees(fusedOnce, fusedChains)

//go:noinline
func fusedOnce(a, b, c float32) float32 { return a*b + float32(c) }

// FMA returns a·b + c rounded once to float32, as IEEE 754 fusedMultiplyAdd and the instructions
// FMLA and FMADDS do. Inlined, it would be compiled with the flags of another package, which were
// not tested.
//
//go:noinline
func FMA(a, b, c float32) float32 { return fma(a, b, c) }

func fusedChains(sum *[Lanes]float32, a, b []float32, stride int) {
	s0, s1, s2, s3, s4, s5, s6, s7 := lanesOf(sum)
	for x, e := range a {
		y := (*[Lanes]float32)(b[x*stride:])
		s0, s1 = e*y[0]+float32(s0), e*y[1]+float32(s1)
		s2, s3 = e*y[2]+float32(s2), e*y[3]+float32(s3)
		s4, s5 = e*y[4]+float32(s4), e*y[5]+float32(s5)
		s6, s7 = e*y[6]+float32(s6), e*y[7]+float32(s7)
	}
	sum[0], sum[1], sum[2], sum[3], sum[4], sum[5], sum[6], sum[7] = s0, s1, s2, s3, s4, s5, s6, s7
}

// agrees reports whether functions equal the emulation on numbers that distinguish one rounding
// from two: products minus their rounded value, which is the rounding error; and a sum that is
// halfway between two float32 in float64.
func agrees(fma func(a, b, c float32) float32,
	chains func(sum *[Lanes]float32, a, b []float32, stride int)) bool {
	a := [2]float32{-1, 1 + 0x1p-12}
	var b [2 * Lanes]float32
	for i := range Lanes {
		e := 1 + float32(2*i+1)*0x1p-13
		b[i], b[Lanes+i] = float32(a[1]*e), e
	}
	var got, want [Lanes]float32
	chains(&got, a[:], b[:], Lanes)
	emulatedChains(&want, a[:], b[:], Lanes)
	for i := range Lanes {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) ||
			fma(a[1], b[Lanes+i], -b[i]) != emulated(a[1], b[Lanes+i], -b[i]) {
			return false
		}
	}
	const below = 0x3p-23 // (1 + below)·(1 − below) is less than 1
	return fma(1+below, 1-below, 0x1.000002p+24) == emulated(1+below, 1-below, 0x1.000002p+24)
}
