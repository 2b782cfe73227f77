package attn

import (
	"fmt"
	"testing"
)

// A visible score that overflows to −Inf has weight 0, and 0·NaN is NaN. So the value
// of such a key makes the row NaN, unless the row has seen no score above −Inf
// in the segment up to the end of the key's block: then it is empty so far, and
// no value counts. That is decided for each row by itself, whatever the rows of
// the tile see and however the call is computed.
func TestNaNValueUnderOverflow(t *testing.T) {
	const d, lk, mark = 8, 3*Block + 5, Block + 7
	for i, bad := range []struct {
		name string
		low  [2]int // keys with scores of −Inf, other than the marked one
		nan  bool
	}{
		{"nothing before, nothing in the block", [2]int{0, 2 * Block}, false},
		{"something in the block", [2]int{0, 2*Block - 1}, true},
		{"something before", [2]int{Block, 2 * Block}, true},
	} {
		if testing.Short() && i != 1 {
			continue
		}
		p := newProblem(random(bad.name), normal, shape{1, 2, 2, 2*tuned.TileRows + 5, lk, d, d})
		for i := range p.q.Data {
			p.q.Data[i] = 0 // a neighbour: all scores are 0
		}
		sees := func(h, i int) bool { return (h+i)%3 == 0 }
		for at := range p.q.H * p.q.L {
			if h, i := at/p.q.L, at%p.q.L; sees(h, i) {
				fillWith(p.q.row(0, h, i), 1e30)
			}
		}
		for at := range p.k.H * lk {
			if h, j := at/lk, at%lk; j == mark || j >= bad.low[0] && j < bad.low[1] {
				fillWith(p.k.row(0, h, j), -1e30)
			} else {
				clear(p.k.row(0, h, j))
			}
		}
		for h := range p.v.H {
			fillWith(p.v.row(0, h, mark), nan)
		}
		t.Run(bad.name, func(t *testing.T) { p.nanUnderOverflow(t, mark, bad.nan, sees) })
	}
}

// nanUnderOverflow computes the problem in all ways and with masks that take the marked key from
// some neighbours.
func (p *problem) nanUnderOverflow(t *testing.T, mark int, isNaN bool,
	overflows func(h, i int) bool) {
	mask := BHLD(make([]bool, p.q.H*p.q.L*p.k.L), 1, p.q.H, p.q.L, p.k.L)
	for at := range p.q.H * p.q.L {
		h, i := at/p.q.L, at%p.q.L
		row := mask.row(0, h, i)
		for j := range row {
			row[j] = overflows(h, i) || j != mark
		}
	}
	for name, opt := range map[string]Options{"": {}, "masked neighbours, ": {Mask: &mask}} {
		q := *p
		q.opt = opt
		for _, way := range ways {
			forEach(t, func(t *testing.T) {
				got := q.solve(t, way.attend)
				for at := range q.q.H * q.q.L {
					h, i := at/q.q.L, at%q.q.L
					if !overflows(h, i) {
						continue
					}
					row := got.o[at*q.v.D:][:q.v.D]
					if (row[0] != row[0]) != isNaN {
						t.Fatalf("%s%s: row (%d, %d) is %v, want NaN: %v", name, way.name, h, i, row, isNaN)
					}
					one := selection{[]int{0}, []int{h}, i, 1}
					if i%16 == 0 {
						part := q.part(one)
						part.same(t, fmt.Sprintf("%s%s, row (%d, %d) alone", name, way.name, h, i),
							part.solve(t, way.attend), one.of(&q, got))
					}
				}
			})
		}
	}
}
