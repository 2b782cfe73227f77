package triangle

import (
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
)

// This file is the specification of package linattn's arithmetic within a chunk; floats/generic.go
// specifies products by the state. Each rounding is explicit, as float32(…) or f32.FMA, because
// compilers may fuse x·y + z into one operation.

// substitute turns rows r of sums over the state into the updates u that the rows add to it, i
// being the row in the chunk:
//
//	r_i = r_i·g_i, then for j = 0 … i−1: r_i = FMA(w_ij, u_j, r_i)
//	u_i = β_i·(v_i − r_i)
//
// A nil g does not change r_i. Weights of a row are kernel.Panel apart.
func substituteGeneric(u, r, w, g, beta, v []float32, s *Shape) {
	for i := range s.Rows {
		row := r[i*s.Sums:][:s.Cols]
		floats.BeginOutputs(row, g, i, false)
		floats.AddValues(row, w[i*kernel.Panel:][:s.First+i], u, s.Updates, kernel.Panel)
		to, from := u[(s.First+i)*s.Updates:][:s.Cols], v[i*s.Outer:]
		for c, e := range row {
			to[c] = beta[i] * float32(from[c]-e)
		}
	}
}

// outputs turns rows o of sums over the state into outputs:
//
//	o_i = o_i·g_i, then for j = 0 … i: o_i = FMA(w_ij, u_j, o_i)
//	dst_i = o_i·scale
func outputsGeneric(dst, o, w, g, u []float32, scale float32, s *Shape) {
	for i := range s.Rows {
		row := o[i*s.Sums:][:s.Cols]
		floats.BeginOutputs(row, g, i, false)
		floats.AddValues(row, w[i*kernel.Panel:][:s.First+i+1], u, s.Updates, kernel.Panel)
		to := dst[i*s.Outer:][:s.Cols]
		for c, e := range row {
			to[c] = e * scale
		}
	}
}

// decayRow is w_dj = w_dj·a_d for the row's decays a, and 1 for the row itself, of number i.
func decayRowGeneric(w, a []float32, i int) {
	for d, e := range a {
		row := w[d*kernel.Panel:][:kernel.Panel]
		for j := range row {
			row[j] *= e
		}
		row[i] = 1
	}
}

// decayedSums are products of one row with the keys of the chunk, each of which has decayed by its
// own factors: sum_j = Σ_d (x_d·w_dj)·k_dj, x_d·w_dj rounded, a chain of FMAs from 0 in ascending
// d.
func decayedSumsGeneric(sum *[kernel.Panel]float32, x, w, k []float32) {
	*sum = [kernel.Panel]float32{}
	for d, e := range x {
		for j := range sum {
			at := d*kernel.Panel + j
			sum[j] = f32.FMA(float32(e*w[at]), k[at], sum[j])
		}
	}
}

// addChunk adds the rows of a full chunk to a panel of the state, for each channel d:
//
//	s_d = s_d·decay_d, then for j = 0 … 15: s_d = FMA(k_dj, u_j, s_d)
//
// Rows of u are updates elements apart.
func addChunkGeneric(s, k, u, decay []float32, updates int) {
	for d := range decay {
		row := s[d*kernel.Panel:][:kernel.Panel]
		floats.BeginOutputs(row, decay, d, false)
		floats.AddValues(row, k[d*kernel.Panel:][:kernel.Panel], u, updates, kernel.Panel)
	}
}

// twoSums adds a key to the chunk's keys, and multiplies rows x and y by panels of the state and by
// the chunk's keys: chains of FMAs from 0 in ascending channels.
func twoSumsGeneric(p *Pair) {
	n := len(p.X)
	TakeColumn(p.K, p.Key, p.Row)
	for r, row := range [...][]float32{p.X, p.Y} {
		to := p.Sums[r*p.Stride:][:p.Panels*kernel.Panel]
		clear(to)
		floats.AddValues(to, row, p.S, kernel.Panel, n*kernel.Panel)
		to = p.Pairs[r*kernel.Panel:][:kernel.Panel]
		clear(to)
		floats.AddValues(to, row, p.K, kernel.Panel, n*kernel.Panel)
	}
}

// TakeColumn stores a key as row i of a chunk, which has a panel for each channel.
func TakeColumn(k, key []float32, i int) {
	to := k[i:]
	for d, e := range key {
		to[d*kernel.Panel] = e
	}
}

// prefetchRows changes nothing.
func prefetchRowsGeneric(x []float32, rows, stride, n int) {}
