//go:build !(amd64 || arm64) || purego

package int4

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Without assembly the generic code computes everything.

func Encode(_ tuning.ISA, dst []byte, x []float32, scale float32) {
	encodeGeneric(dst, x, scale)
}

func Score(_ *tuning.Row, s []float32, q *integers.Rows, row int, k []byte, scales []float32, rows,
	d, n,
	ahead int, inOrder bool) {
	b := kernel.ScoreLayout(kernel.I4, d, kernel.RoundUp(n, kernel.Panel))
	scoreInt4Generic(s, q.Words[row*kernel.RoundUp(d, 4):], k, scales, rows, &b)
}

func Accumulate(_ *tuning.Row, x *integers.Sums, v []byte, b *kernel.PanelLayout) {
	accumulateInt4Generic(x, v, b)
}

func LookUp(_ tuning.ISA, dst, src []byte, l *LevelLayout, ahead int) { lookUpGeneric(dst, src, l) }
