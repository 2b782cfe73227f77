//go:build !purego

package triangle

import "github.com/seed-1415985d/attn/internal/tuning"

// substituteStep is substitute of checked operands, in one call, of a number of panels.
func substituteStep(isa tuning.ISA, u, r, w, g, beta, v *float32, s *Shape, panels int) {
	if isa.Lanes16() {
		substituteAVX512(u, r, w, g, beta, v, s.First, s.Rows, panels, s.Updates, s.Sums, s.Outer)
		return
	}
	substituteSIMD(u, r, w, g, beta, v, s.First, s.Rows, panels, s.Updates, s.Sums, s.Outer)
}

// outputsStep is outputs of checked operands, in one call, of a number of panels.
func outputsStep(isa tuning.ISA, dst, o, w, g, u *float32, scale float32, s *Shape, panels int) {
	if isa.Lanes16() {
		outputsAVX512(dst, o, w, g, u, scale, s.First, s.Rows, panels, s.Updates, s.Sums, s.Outer)
		return
	}
	outputsSIMD(dst, o, w, g, u, scale, s.First, s.Rows, panels, s.Updates, s.Sums, s.Outer)
}

// substituteAVX512 is substituteSIMD with 16 lanes.
//
//go:noescape
func substituteAVX512(u, r, w, decay, beta, v *float32, first, rows, panels, updates, sums,
	outer int)

// outputsAVX512 is outputsSIMD with 16 lanes.
//
//go:noescape
func outputsAVX512(dst, o, w, decay, u *float32, scale float32, first, rows, panels, updates, sums,
	outer int)

// addChunkStep is AddChunk of checked operands, in one call.
func addChunkStep(cpu *tuning.Row, s, k, u, decay []float32, updates int, next *Next) {
	if cpu.ISA.Lanes16() {
		addChunkAVX512(&s[0], &k[0], &u[0], &decay[0], len(decay), updates, next)
		return
	}
	addPanel(cpu, s, k, u, decay, updates)
}

// addChunkAVX512 takes a chunk into n channels of a panel, and asks for lines of what is next. It
// works like addChunkGeneric.
//
//go:noescape
func addChunkAVX512(s, k, u, decay *float32, n, updates int, next *Next)

// twoSumsStep is TwoSums of checked operands, in one call, of a number of panels.
func twoSumsStep(isa tuning.ISA, sum, pairs, x, y, s, k, key *float32, row, n, panels,
	stride int) {
	if isa.Lanes16() {
		twoSumsAVX512(sum, pairs, x, y, s, k, key, 1<<row, n, panels, stride)
		return
	}
	twoSumsSIMD(sum, pairs, x, y, s, k, n, panels, stride)
}

// twoSumsAVX512 is twoSumsSIMD with 16 lanes. It makes the key a column of k on its way,
// whose bit is in column.
//
//go:noescape
func twoSumsAVX512(sum, pairs, x, y, s, k, key *float32, column, n, panels, stride int)
