//go:build !purego

package triangle

import "github.com/seed-1415985d/attn/internal/tuning"

// substituteStep is substitute of checked operands, in one call.
func substituteStep(isa tuning.ISA, x *rowsCall) {
	if isa.Lanes16() {
		substituteAVX512(x)
		return
	}
	substituteSIMD(x)
}

// outputsStep is outputs of checked operands, in one call.
func outputsStep(isa tuning.ISA, x *rowsCall) {
	if isa.Lanes16() {
		outputsAVX512(x)
		return
	}
	outputsSIMD(x)
}

// substituteAVX512 is substituteSIMD with 16 lanes.
//
//go:noescape
func substituteAVX512(x *rowsCall)

// outputsAVX512 is outputsSIMD with 16 lanes.
//
//go:noescape
func outputsAVX512(x *rowsCall)

// addChunkStep is AddChunk of checked operands, in one call.
func addChunkStep(cpu *tuning.Row, s, k, u, decay []float32, updates int, next *Next) {
	if cpu.ISA.Lanes16() {
		addChunkAVX512(&s[0], &k[0], &u[0], &decay[0], len(decay), updates, next)
		return
	}
	addPanel(cpu, s, k, u, decay, updates)
}

// addChunkAVX512 adds a chunk to n channels of a panel, and prefetches lines of the next rows. It
// works like addChunkGeneric.
//
//go:noescape
func addChunkAVX512(s, k, u, decay *float32, n, updates int, next *Next)

// twoSumsStep is TwoSums of checked operands, in one call.
func twoSumsStep(isa tuning.ISA, x *pairCall) {
	if isa.Lanes16() {
		twoSumsAVX512(x)
		return
	}
	twoSumsSIMD(x)
}

// twoSumsAVX512 is twoSumsSIMD with 16 lanes. It also stores the key as the column of k whose bit
// is set in column.
//
//go:noescape
func twoSumsAVX512(x *pairCall)
