package nn

import (
	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/views"
)

// Combine adds up rows times weights: the outputs of a token's experts (M 1, N of them, x the
// result of [attn.MulExperts]), streams of hyper-connections, layers.
//
//	x        [B, N, L, D]               N is at least 1
//	weights  [B or 1, M, L or 1, N]     1: the same for all
//	dst      [B, M, L, D]
//
//	dst[b, m, l] = Σ_n weights[b, m, l, n]·x[b, n, l]
//
// Each element is one chain of fused multiply-adds over rising n, from +0. dst must share no
// memory with x and weights, else the error is [attn.ErrOverlap].
func Combine(p *attn.Pool, dst, x, weights attn.Tensor) (err error) {
	defer views.NameFunction("nn.Combine", &err)
	all := [...]argument{argumentOf("dst", &dst), argumentOf("x", &x),
		argumentOf("weights", &weights)}
	if err := checkCombine(&all); err != nil {
		return err
	}
	j := jobs.Get().(*job)
	j.operation, j.cpu = combine, host
	j.cpu.ISA = isa
	copy(j.all[:], all[:])
	to := &j.all[0]
	j.pieces = (to.D + pieceElements - 1) / pieceElements
	if !to.Empty() {
		j.units = to.B * to.L * j.pieces
		j.unitsOfPart = max(1, partElements/(min(to.D, pieceElements)*(to.H+x.H)))
	}
	return j.run(p)
}

// checkCombine validates dst, x and weights, and makes weights that are the same for all repeat.
func checkCombine(all *[3]argument) error {
	if x := &all[1]; x.H == 0 {
		return views.Fail(attn.ErrShape, "x.H is 0, want 1 to %d", views.MaxLength)
	}
	for i := range all {
		if err := all[i].Check(all[i].Name); err != nil {
			return err
		}
	}
	dst, x, w := &all[0], &all[1], &all[2]
	switch {
	case w.B != x.B && w.B != 1 || w.L != x.L && w.L != 1 || w.D != x.H:
		return views.Fail(attn.ErrShape, "weights is [%d %d %d %d], want [%s, M, %s, %d] for x, "+
			"[%d %d %d %d]", w.B, w.H, w.L, w.D, views.OrOne(x.B), views.OrOne(x.L), x.H, x.B, x.H, x.L, x.D)
	case dst.B != x.B || dst.H != w.H || dst.L != x.L || dst.D != x.D:
		return views.Fail(attn.ErrShape, "dst is [%d %d %d %d], want [%d %d %d %d]: as x is, with a "+
			"head for each of weights", dst.B, dst.H, dst.L, dst.D, x.B, w.H, x.L, x.D)
	}
	if err := dst.CheckDistinct(dst.Name); err != nil {
		return err
	}
	if w.B == 1 {
		w.SB = 0
	}
	if w.L == 1 {
		w.SL = 0
	}
	if dst.Empty() {
		return nil
	}
	inputs := [...]views.Extent{x.Memory(), w.Memory()}
	outputs := [...]views.Extent{dst.Memory()}
	return views.CheckApart(outputs[:], inputs[:])
}

const (
	// combineRows rows of x are added at a time, which bounds each call of assembly.
	combineRows = 256

	// combineAhead is how many bytes of each row are prefetched ahead.
	combineAhead = 512

	// combineCols columns are a multiple of what kernels write.
	combineCols = 8
)

// combineUnit computes some columns of all heads of a row.
func (j *job) combineUnit(unit int) {
	dst, x, w := &j.all[0], &j.all[1], &j.all[2]
	row, first := unit/j.pieces, unit%j.pieces*pieceElements
	b, l := row/dst.L, row%dst.L
	cols := min(pieceElements, dst.D-first)
	to, from, by := dst.From(b, 0, l)[first:], x.From(b, 0, l)[first:], w.From(b, 0, l)
	whole := cols / combineCols * combineCols
	for n := 0; n < x.H && whole > 0; n += combineRows {
		layout := kernel.PanelLayout{Keys: min(combineRows, x.H-n), Cols: whole, Stride: x.SH,
			PanelStride: kernel.Panel, Overwrite: n == 0}
		layout.Set(&j.cpu, combineAhead, combineAhead, false)
		layout.FourPanels = true // longer runs of each row
		sums := kernel.Sums{O: to, P: by[n:], Rows: dst.H, OStride: dst.SH, PStride: w.SH}
		floats.Accumulate(&j.cpu, &sums, from[n*x.SH:], &layout)
	}
	for c := whole; c < cols; c++ {
		for m := range dst.H {
			sum := float32(0)
			for n := range x.H {
				sum = f32.FMA(by[m*w.SH+n], from[n*x.SH+c], sum)
			}
			to[m*dst.SH+c] = sum
		}
	}
}
