package nn

import (
	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/kernel/elements"
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
	j.operation = combine
	copy(j.all[:], all[:])
	to := &j.all[0]
	j.pieces = (to.D + pieceElements - 1) / pieceElements
	if !to.Empty() {
		j.units = to.B * to.L * j.pieces
		j.unitsOfPart = max(1, partElements/(min(to.D, pieceElements)*(to.H+x.H)))
		if 4*to.B*to.L*to.D*(to.H+x.H) > host.L2 {
			j.ahead.X = combineAhead
		}
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

// combineAhead is how many bytes of each row are prefetched ahead, from memory.
const combineAhead = 512

// combineUnit computes some columns of all heads of a row.
func (j *job) combineUnit(unit int) {
	dst, x, w := &j.all[0], &j.all[1], &j.all[2]
	row, first := unit/j.pieces, unit%j.pieces*pieceElements
	b, l := row/dst.L, row%dst.L
	sums := elements.Combination{Dst: dst.From(b, 0, l)[first:], X: x.From(b, 0, l)[first:],
		Weights: w.From(b, 0, l), Sums: dst.H, Rows: x.H, Cols: min(pieceElements, dst.D-first),
		DstStride: dst.SH, XStride: x.SH, WeightStride: w.SH}
	elements.Combine(isa, &sums, j.ahead.X)
}
