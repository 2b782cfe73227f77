//go:build !purego

package triangle

import "github.com/seed-1415985d/attn/internal/tuning"

// substituteStep is substitute of checked operands, in one call, of a number of panels.
func substituteStep(_ tuning.ISA, u, r, w, g, beta, v *float32, s *Shape, panels int) {
	substituteSIMD(u, r, w, g, beta, v, s.First, s.Rows, panels, s.Updates, s.Sums, s.Outer)
}

// outputsStep is outputs of checked operands, in one call, of a number of panels.
func outputsStep(_ tuning.ISA, dst, o, w, g, u *float32, scale float32, s *Shape, panels int) {
	outputsSIMD(dst, o, w, g, u, scale, s.First, s.Rows, panels, s.Updates, s.Sums, s.Outer)
}

// addChunkStep is AddChunk of checked operands.
func addChunkStep(cpu *tuning.Row, s, k, u, decay []float32, updates int, _ *Next) {
	addPanel(cpu, s, k, u, decay, updates)
}

// twoSumsStep is TwoSums of checked operands, in one call, of a number of panels.
func twoSumsStep(_ tuning.ISA, sum, pairs, x, y, s, k, _ *float32, _, n, panels, stride int) {
	twoSumsSIMD(sum, pairs, x, y, s, k, n, panels, stride)
}
