package attn

import (
	"fmt"
	"testing"
)

// Tiles go straight if scores are products and nothing more, and no call has to be cut.
func TestGoesStraight(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *plan)
		want   bool
	}{
		"plain":       {func(p *plan) {}, true},
		"causal":      {func(p *plan) { p.causal = TopLeft }, true},
		"few columns": {func(p *plan) { p.dv = fusedCols - 8 }, true},
		"few rows":    {func(p *plan) { p.lq = fusedRows - 1 }, true},
		"softcap":     {func(p *plan) { p.softcap = 30 }, false},
		"slopes":      {func(p *plan) { p.slopes = []float32{1} }, false},
		"mask":        {func(p *plan) { p.mask.Data = []bool{true} }, false},
		"bias":        {func(p *plan) { p.bias.Data = []float32{1} }, false},
		"cut scores":  {func(p *plan) { p.d = callProducts/Block/leastTileRows + 1 }, false},
		"cut values":  {func(p *plan) { p.dv = callProducts/Block/leastTileRows + 1 }, false},
	} {
		forEach(t, func(t *testing.T) {
			p := plan{batch: 1, heads: 1, kvHeads: 1, group: 1, lq: 500, lk: 500, d: 64, dv: 64, left: -1, right: -1}
			c.change(&p)
			p.fitRows()
			want := c.want && tuned.isa != generic && !(tuned.fusedSoftmax && tuned.isa == avx2 && p.chunkRows >= fusedRows && p.dv >= fusedCols)
			if p.straight != want {
				t.Errorf("%s: %v, want %v", name, p.straight, want)
			}
		})
	}
}

// Rows of a chunk see the whole block up to the one for which the window begins at its first key.
func TestStraightEndsWithTheWindow(t *testing.T) {
	for rows, want := range map[int]bool{64 + 150: true, 64 + 151: true, 64 + 152: false, 300: false} {
		p := plan{batch: 1, heads: 1, kvHeads: 1, group: 1, lq: rows, lk: 300, d: 8, dv: 8, left: 150, right: -1}
		p.fitRows()
		var c chunk
		p.chunk(0, &c)
		b := block{first: 64, hi: Block}
		if got := b.lastSeesStart(&p, &c); got != want {
			t.Errorf("%d rows: %v, want %v", rows, got, want)
		}
	}
}

// Nor do rows go straight that see less than the ones before: in a call with many rows, those at the end of a window
// get what they get alone.
func TestRowsOfWindowsAlone(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("windows of many rows")
		for range budget(60) {
			n := 2*Block + r.IntN(3*Block)
			p := newProblem(r, normal, shape{1, 1, 1, n, n, 1 + r.IntN(8), 1 + r.IntN(8)})
			p.opt.Causal = []Causal{Full, TopLeft}[r.IntN(2)]
			p.opt.Window = &Window{Block + r.IntN(n), r.IntN(n) - 1}
			whole := p.solve(t, Attend)
			for range 20 {
				s := selection{[]int{0}, []int{0}, r.IntN(n), 1}
				part := p.part(s)
				part.same(t, fmt.Sprintf("row %d of %s", s.first, p.describe()), part.solve(t, Attend), s.of(p, whole))
			}
		}
	})
}

// Which kernels tiles go straight to is no question of bits: rows without a score above −Inf, values that are NaN, ragged
// tiles, columns that are no whole panel.
func TestStraightDoesNotMatter(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r, implementation := random("straight"), tuned.isa
		for range budget(60) {
			anyTuning(t, r)
			s := shape{1, 1, 1 + r.IntN(2), maximaRows*(1+r.IntN(20)) + r.IntN(2), Block*(1+r.IntN(3)) + r.IntN(20), maximaDim - 4 + r.IntN(20), 8 * (1 + r.IntN(10))}
			p := newProblem(r, randomKind(r), s)
			if r.IntN(2) == 0 {
				p.opt.Causal = BottomRight
			}
			if r.IntN(3) == 0 { // a row whose first scores are −Inf
				fillWith(p.q.Data[:s.d], 1e30)
				fillWith(p.k.Data[:Block*s.d], -1e30)
			}
			if r.IntN(3) == 0 {
				p.v.Data[r.IntN(len(p.v.Data))] = nan32()
			}
			tuned.isa = generic
			want := p.solve(t, Attend)
			tuned.isa = implementation
			p.same(t, p.describe(), p.solve(t, Attend), want)
		}
	})
}
