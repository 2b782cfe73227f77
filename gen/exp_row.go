package main

import (
	"cmp"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// expRow computes exp(−y) for several vectors, y ≥ 0 or NaN. It has the bits of
// expFlush(−y): negation is exact, so it goes into the constants.
//
// The steps for one vector are a chain of about 45 cycles, and the processor's
// window holds few of them. So steps are emitted in an order close to that in
// which they can run: pairs of vectors step by step, and the next pair begins
// long before a pair is done.
type expRow struct {
	// plain: y is at most plainRange for all vectors. Else results below 2⁻¹²⁶ are flushed.
	plain bool
	load  func(v int) reg.VecVirtual // y of vector v
	store func(v int, p reg.VecVirtual)

	bias, log2E reg.VecVirtual
}

// weigh makes e replace the scores of a row by exp(s − base) and sum them in even
// and odd lanes.
func (e *expRow) weigh(score func(v int) Mem, base reg.VecVirtual) (sum [2]reg.VecVirtual) {
	sum = [2]reg.VecVirtual{YMM(), YMM()}
	e.load = func(v int) reg.VecVirtual {
		y := YMM()
		VSUBPS(score(v), base, y) // m' − s ≥ 0
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

// plainRange: down to exp(−64) the product 2ⁿ·r is exact wherever it matters,
// so it can be taken beside the polynomial's chain of steps instead of after it.
const plainRange = 64

// expVector is one vector on its way.
type expVector struct {
	number int
	y      reg.VecVirtual // y; r; r·2ⁿ if plain
	t      reg.VecVirtual // n + expBias, then 2ⁿ
	p      reg.VecVirtual // n, then the polynomial
	keep   reg.VecVirtual // where the result is not flushed
}

// expStep is a step of one vector, which can run some cycles after the first.
type expStep struct {
	cycle int
	emit  func(x *expVector)
}

func (e *expRow) constants() {
	e.bias, e.log2E = YMM(), YMM()
	VMOVUPS(value("expBias"), e.bias)
	VMOVUPS(f32(-elementary.Get("log2E")), e.log2E)
}

func (e *expRow) steps() (steps []expStep) {
	cycle := 0
	then := func(latency int, emit func(x *expVector)) {
		steps = append(steps, expStep{cycle, emit})
		cycle += latency
	}
	then(11, func(x *expVector) { x.y = e.load(x.number) })
	if !e.plain {
		then(0, func(x *expVector) {
			x.keep = YMM()
			VCMPPS(Imm(notGreater), f32(-elementary.Get("expMin")), x.y, x.keep)
		})
	}
	then(4, func(x *expVector) {
		x.t = YMM()
		VMOVAPS(x.y, x.t)
		VFMADD213PS(e.bias, e.log2E, x.t) // t = −y·log₂e + bias
	})
	then(3, func(x *expVector) {
		x.p = YMM()
		VSUBPS(e.bias, x.t, x.p) // n
	})
	then(4, func(x *expVector) { VFNMSUB231PS(value("ln2Hi"), x.p, x.y) }) // r = −n·ln2Hi − y
	then(4, func(x *expVector) { VFNMADD231PS(value("ln2Lo"), x.p, x.y) }) // r = r − n·ln2Lo
	then(4, func(x *expVector) {
		VMOVUPS(value("expC6"), x.p)
		VFMADD213PS(value("expC5"), x.y, x.p)
	})
	for _, c := range []Mem{value("expC4"), value("expC3"), value("expC2")} {
		then(4, func(x *expVector) { VFMADD213PS(c, x.y, x.p) })
	}
	then(0, func(x *expVector) { VFMADD213PS(f32(1), x.y, x.p) })
	then(0, func(x *expVector) { VPSLLD(Imm(23), x.t, x.t) }) // 2ⁿ
	if e.plain {
		then(4, func(x *expVector) { VMULPS(x.t, x.y, x.y) })
		then(4, func(x *expVector) { VFMADD213PS(x.t, x.y, x.p) }) // p·r·2ⁿ + 2ⁿ
	} else {
		cycle += 4
		then(4, func(x *expVector) { VFMADD213PS(f32(1), x.y, x.p) })
		then(3, func(x *expVector) { VMULPS(x.t, x.p, x.p) })
		then(1, func(x *expVector) { VANDPS(x.keep, x.p, x.p) })
	}
	then(0, func(x *expVector) { e.store(x.number, x.p) })
	return steps
}

// emit writes the steps of vectors [first, first+n). Of a pair's step that can run in
// cycle c, the place in the order is skew·c cycles after the pair's first: the
// larger skew, the more vectors are under way and the more registers it takes.
func (e *expRow) emit(first, n int) {
	const pair, interval = 2, 11 // cycles from one pair to the next
	skew := 0.35
	if !e.plain {
		skew = 0 // keep takes registers
	}
	type placed struct {
		expStep
		pair  int
		place float64
		x     *expVector
	}
	var order []placed
	steps := e.steps()
	for v := range n {
		x := &expVector{number: first + v}
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
