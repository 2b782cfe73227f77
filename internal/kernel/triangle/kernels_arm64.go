//go:build !purego

package triangle

import "github.com/seed-1415985d/attn/internal/tuning"

// substituteStep is substitute of checked operands, in one call.
func substituteStep(_ tuning.ISA, x *rowsCall) {
	substituteSIMD(x)
}

// outputsStep is outputs of checked operands, in one call.
func outputsStep(_ tuning.ISA, x *rowsCall) {
	outputsSIMD(x)
}

// addChunkStep is AddChunk of checked operands.
func addChunkStep(cpu *tuning.Row, s, k, u, decay []float32, updates int, _ *Next) {
	addPanel(cpu, s, k, u, decay, updates)
}

// twoSumsStep is TwoSums of checked operands, in one call.
func twoSumsStep(_ tuning.ISA, x *pairCall) {
	twoSumsSIMD(x)
}
