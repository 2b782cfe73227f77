package main

import (
	"cmp"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// expRow computes 2^(−y·c) for several vectors, y ≥ 0 or NaN. It has the bits of
// exp2(−y, c): negation is exact, so it goes into the operations.
//
// The steps for one vector are a long chain, and the processor's
// window holds few of them. So steps are emitted in an order close to that in
// which they can run: pairs of vectors step by step, and the next pair begins
// long before a pair is done.
type expRow struct {
	load  func(v int) reg.VecVirtual // y of vector v
	store func(v int, p reg.VecVirtual)

	c, bias reg.VecVirtual
}

// weigh makes e replace the scores of a row by 2^((s − base)·c) and sum them in even
// and odd lanes.
func (e *expRow) weigh(score func(v int) Mem, base reg.VecVirtual) (sum [2]reg.VecVirtual) {
	sum = [2]reg.VecVirtual{YMM(), YMM()}
	e.load = func(v int) reg.VecVirtual {
		y := YMM()
		VSUBPS(score(v), base, y) // base − s ≥ 0: this way round, the score may stay in memory
		return y
	}
	e.store = func(v int, p reg.VecVirtual) {
		VMOVUPS(p, score(v))
		if v < 2 {
			VMOVAPS(p, sum[v])
		} else {
			VADDPS(p, sum[v%2], sum[v%2])
		}
	}
	return sum
}

// expVector is one vector on its way.
type expVector struct {
	number int
	y      reg.VecVirtual // y, then f
	t      reg.VecVirtual // n + exp2Bias, then 2ⁿ⁺¹
	p      reg.VecVirtual // n, then the polynomial
	keep   reg.VecVirtual // where the result is not flushed
}

// expStep is a step of one vector, which can run some cycles after the first.
type expStep struct {
	cycle int
	emit  func(x *expVector)
}

func (e *expRow) constants() {
	e.bias = YMM()
	VMOVUPS(value("exp2Bias"), e.bias)
}

// steps are those of f32.Exp2. Where t is too small, all that follows from it is garbage, and keep makes it +0.
func (e *expRow) steps() (steps []expStep) {
	cycle := 0
	then := func(latency int, emit func(x *expVector)) {
		steps = append(steps, expStep{cycle, emit})
		cycle += latency
	}
	then(11, func(x *expVector) { x.y = e.load(x.number) })
	then(4, func(x *expVector) {
		x.t = YMM()
		VMOVAPS(x.y, x.t)
		VFNMADD213PS(e.bias, e.c, x.t) // t = −y·c + bias
	})
	then(3, func(x *expVector) {
		x.p = YMM()
		VSUBPS(e.bias, x.t, x.p) // n
	})
	then(4, func(x *expVector) { VFNMSUB213PS(x.p, e.c, x.y) }) // f = −y·c − n
	then(4, func(x *expVector) {
		VMOVUPS(value("exp2C5"), x.p)
		VFMADD213PS(value("exp2C4"), x.y, x.p)
	})
	for _, c := range []Mem{value("exp2C3"), value("exp2C2"), value("exp2C1"), value("exp2C0")} {
		then(4, func(x *expVector) { VFMADD213PS(c, x.y, x.p) })
	}
	then(0, func(x *expVector) {
		x.keep = YMM()
		VCMPPS(Imm(notAtMost), value("exp2Zero"), x.t, x.keep)
	})
	then(0, func(x *expVector) { VPSLLD(Imm(23), x.t, x.t) }) // 2ⁿ
	then(3, func(x *expVector) { VMULPS(x.t, x.p, x.p) })
	then(1, func(x *expVector) { VANDPS(x.keep, x.p, x.p) })
	then(0, func(x *expVector) { e.store(x.number, x.p) })
	return steps
}

// emit writes the steps of n vectors. Of a pair's step that can run in
// cycle c, the place in the order is skew·c cycles after the pair's first: the
// larger skew, the more vectors are under way and the more registers it takes.
func (e *expRow) emit(n int) {
	const (
		pair, interval = 2, 11 // cycles from one pair to the next
		skew           = 0.35
	)
	type placed struct {
		expStep
		pair  int
		place float64
		x     *expVector
	}
	var order []placed
	steps := e.steps()
	for v := range n {
		x := &expVector{number: v}
		for _, s := range steps {
			order = append(order, placed{s, v / pair, float64(v/pair*interval) + skew*float64(s.cycle), x})
		}
	}
	slices.SortStableFunc(order, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.pair, b.pair), cmp.Compare(a.cycle, b.cycle))
	})
	for _, s := range order {
		s.emit(s.x)
	}
}
