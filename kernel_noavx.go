//go:build !amd64 || purego

package attn

// The kernels that only amd64 has: chooseKernels never chooses them elsewhere.

const onlyAMD64 = "attn: this kernel exists on amd64 only"

// groupsTogether: see integerRows.together.
const groupsTogether = false

func quantizesRotated(n, rotation int) bool { return false }
func quantizeRotatedStep(dst *int8, scales *float32, starts *int32, x *float32, rows, n,
	xStride int) (done int) {
	panic(onlyAMD64)
}
