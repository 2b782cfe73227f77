//go:build !(amd64 || arm64) || purego

package attn

// Without assembly the generic code computes everything.

func sumBlocks(dst []blockRow, scales []float32) {
	sumBlocksGeneric(dst, scales)
}

func multiplyBlocks(t BlockType, o []float32, a []blockRow, packed []byte, panels, rows, n, oStride,
	aStride int, memory *blockMemory) {
	of := t.traits()
	size := n / (of.inputs / blockInputs) * of.packed
	for p := range panels {
		multiplyBlocksGeneric(t, o[p*panel:], a, packed[p*size:], rows, n, oStride, aStride)
	}
}

func decodeBlocks(t BlockType, dst []float32, packed []byte, n int, memory *blockMemory) {
	decodeBlocksGeneric(t, dst, packed, n)
}
