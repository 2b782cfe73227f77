//go:build !(arm64 || loong64 || ppc64 || ppc64le || riscv64 || s390x)

package f32

// fuses: on amd64 the compiler fuses from GOAMD64=v3 on, but not where an instruction multiplies
// by memory; elsewhere never.
const fuses = false

// FMA returns a·b + c rounded once to float32, as IEEE 754 fusedMultiplyAdd and the instruction
// VFMADD do.
func FMA(a, b, c float32) float32 { return fma(a, b, c) }

func fusedChains(sum *[Lanes]float32, a, b []float32, stride int) {
	panic("f32: the compiler does not fuse")
}
