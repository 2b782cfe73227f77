//go:build arm64 || loong64 || ppc64 || ppc64le || riscv64 || s390x

package f32

import "testing"

// The compiler of this build makes one instruction of a·b + c.
func TestCompilerFuses(t *testing.T) {
	if !fuses {
		t.Error("the compiler of this build rounds products before it adds them: results are the same, " +
			"but many times slower")
	}
}

// What is looked at when a program starts tells one rounding from two, in every lane, and from one
// in float64.
func TestAgreesTellsFusedFromUnfused(t *testing.T) {
	unfused := func(a, b, c float32) float32 { return float32(a*b) + c }
	if agrees(unfused, emulatedChains) || !agrees(emulated, emulatedChains) {
		t.Error("two roundings pass for one, or the emulation does not")
	}
	twice := func(a, b, c float32) float32 { return float32(float64(a)*float64(b) + float64(c)) }
	if agrees(twice, emulatedChains) {
		t.Error("a sum rounded to float64 and then to float32 passes for one rounding")
	}
	for lane := range Lanes {
		chains := func(sum *[Lanes]float32, a, b []float32, stride int) {
			last := sum[lane]
			emulatedChains(sum, a, b, stride)
			for x, e := range a {
				last += float32(e * b[x*stride+lane])
			}
			sum[lane] = last
		}
		if agrees(emulated, chains) {
			t.Errorf("two roundings in lane %d pass for one", lane)
		}
	}
}
