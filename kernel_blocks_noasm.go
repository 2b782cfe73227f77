//go:build !(amd64 || arm64) || purego

package attn

// Products by blocks have no kernels here: the generic code computes them.

func blockKernels() bool { return false }

func decodingKernels() bool { return false }

func sumBlocksStep(rows *blockRow, scales *float32, n int) { panic(unreachable) }

func unpackBlocksStep(t BlockType, dst, packed *byte, n int) { panic(unreachable) }

func unpackSigned(t BlockType, dst, packed *byte, n int) { panic(unreachable) }

func multiplyBlocksStep(t BlockType, o *float32, a *blockRow, w *byte, rows, n, oStride,
	aStride int, overwrite bool) {
	panic(unreachable)
}
