package main

import (
	"cmp"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// exp2Row replaces the scores of a row by their weights.
//
// The steps for one vector are a long chain, and the processor's window holds few of them. So steps
// are emitted in an order close to that in which they can run: pairs of vectors step by step, and
// the next pair begins long before a pair is done.
type exp2Row struct {
	exp2Steps
}

func newExp2Row(c reg.VecVirtual) *exp2Row { return &exp2Row{exp2Steps{c: c, negated: true}} }

// constants loads the constant that stays in a register.
func (e *exp2Row) constants() { e.bias = constant(value("exp2Bias")) }

// weigh makes e replace the scores of a row by 2^((s − base)·c) and sum them in even and odd lanes.
func (e *exp2Row) weigh(score func(v int) Mem, base reg.VecVirtual) (sum [2]reg.VecVirtual) {
	sum = [2]reg.VecVirtual{YMM(), YMM()}
	e.load = func(x *exp2Vector) {
		x.y = YMM()
		// base − s ≥ 0: this way round, the score may stay in memory.
		VSUBPS(score(x.number), base, x.y)
	}
	e.store = func(x *exp2Vector) {
		VMOVUPS(x.p, score(x.number))
		e.add(x, sum)
	}
	return sum
}

// add adds a vector of weights to the sum.
func (e *exp2Row) add(x *exp2Vector, sum [2]reg.VecVirtual) {
	if x.number < 2 {
		VMOVAPS(x.p, sum[x.number])
		return
	}
	VADDPS(x.p, sum[x.number%2], sum[x.number%2])
}

// emit writes the steps of n vectors. A step of a pair that can run in cycle c is placed skew·c
// cycles after the pair's first step: a larger skew overlaps more vectors and needs more registers.
func (e *exp2Row) emit(n int) {
	const (
		pair, interval = 2, 11 // cycles from one pair to the next
		skew           = 0.35
	)
	type placed struct {
		exp2Step
		pair  int
		place float64
		x     *exp2Vector
	}
	var order []placed
	steps := e.list()
	for v := range n {
		x := &exp2Vector{number: v}
		for _, s := range steps {
			order = append(order, placed{s, v / pair, float64(v/pair*interval) + skew*float64(s.cycle), x})
		}
	}
	slices.SortStableFunc(order, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.pair, b.pair),
			cmp.Compare(a.cycle, b.cycle))
	})
	for _, s := range order {
		s.emit(s.x)
	}
}
