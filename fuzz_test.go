package attn

import (
	"math/rand/v2"
	"testing"
)

// FuzzAttend composes all options: strides, implementation and the way it is
// computed must not change a bit, and a row must not depend on its neighbours.
func FuzzAttend(f *testing.F) {
	seedInputs(f)
	operands := new(arena)
	f.Cleanup(operands.free)
	f.Fuzz(func(t *testing.T, data []byte) {
		defer func() { tuned = chosen }()
		r := randomFrom(data)
		p := problemOf(r, distribution(r.IntN(int(distributions))), fewRowsAndKeys(r))
		got := p.solve(t, Attend)
		one := selection{[]int{r.IntN(p.q.B)}, []int{r.IntN(p.q.H)}, r.IntN(p.q.L), 1}
		part := p.part(one)
		part.same(t, "one row", part.solve(t, Attend), one.of(p, got))
		anyTuning(t, r)
		for _, way := range ways {
			p.same(t, way.name, p.solveStrided(t, r, operands, way.attend), got)
		}
		for _, tuned.ISA = range implementations()[1:] {
			p.same(t, chosen.ISA.String(), got, p.solve(t, Attend))
		}
	})
}

// fewRowsAndKeys draws a shape, tiny in most cases, so that the fuzzer tries
// many compositions of options.
func fewRowsAndKeys(r *rand.Rand) shape {
	s := shape{1 + r.IntN(2), 1 + r.IntN(2), 1 + r.IntN(2), 1 + r.IntN(4), 1 + r.IntN(8),
		1 + r.IntN(6), 1 + r.IntN(10)}
	switch draw := r.IntN(1024); {
	case draw == 0: // larger in all dimensions
		s = randomShape(r, moderate/30)
	case draw < 4: // several segments
		s.lk = Segment - 70 + r.IntN(Segment+200)
		s.b, s.kvh = 1, 1
	case draw < 50: // several blocks
		s.lk = length(r, 300)
	case draw < 100: // several tiles
		s.lq = length(r, 40)
	case draw < 150: // the dimensions of models
		s.d, s.dv = length(r, 99), length(r, 99)
	case draw < 160: // a whole block for rows and columns enough for the fused kernel
		s.lq, s.lk, s.dv = fusedRows+r.IntN(20), Block+r.IntN(2*Block), fusedCols+r.IntN(20)
	}
	return s
}
