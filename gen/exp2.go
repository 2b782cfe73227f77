package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// 2^(x·c), the exponential of attention: f32.Exp2 step by step.
//
// exp2Steps emits it for all kernels. README.md lists the other copies.

// exp2Vector is one vector on its way.
type exp2Vector struct {
	number int
	y      Op // the argument, then f
	t      Op // n + exp2Bias, then 2ⁿ⁺¹
	p      Op // n, then the polynomial, then the result
	keep   Op // where the result is not flushed
}

// exp2Step is a step of one vector, which can run some cycles after the first.
type exp2Step struct {
	cycle int
	emit  func(x *exp2Vector)
}

// exp2Steps computes 2^(x·c), +0 where x·c is −125.5 or less, for x ≤ 0 or NaN. The argument is
// y = x, or y = −x if negated: negation is exact, so it goes into the operations, and the bits are
// the same.
type exp2Steps struct {
	load  func(x *exp2Vector) // leaves y
	store func(x *exp2Vector)

	negated bool
	c, bias Op
	lanes16 *avx512Constants // constants in registers, for 16 lanes; else they are in memory
}

// constant is a constant of internal/f32/elementary.go, in memory or in a register.
func (e *exp2Steps) constant(name string) Op {
	if e.lanes16 != nil {
		return e.lanes16.register(name)
	}
	return value(name)
}

// list returns the steps. Where t is too small, all that follows from it is garbage, and keep makes
// it +0.
func (e *exp2Steps) list() (steps []exp2Step) {
	cycle := 0
	then := func(latency int, emit func(x *exp2Vector)) {
		steps = append(steps, exp2Step{cycle, emit})
		cycle += latency
	}
	then(11, e.load)
	then(4, e.exponent)
	then(3, func(x *exp2Vector) { // n
		define(&x.p)
		VSUBPS(e.bias, x.t, x.p)
	})
	then(4, e.fraction)
	names := elementary.Polynomial("exp2C")
	then(4, func(x *exp2Vector) {
		e.copy(names[0], x.p)
		VFMADD213PS(e.constant(names[1]), x.y, x.p)
	})
	for _, name := range names[2:] {
		then(4, func(x *exp2Vector) { VFMADD213PS(e.constant(name), x.y, x.p) })
	}
	then(0, func(x *exp2Vector) {
		define(&x.keep)
		VCMPPS(Imm(notAtMost), e.constant("exp2Zero"), x.t, x.keep)
	})
	then(0, func(x *exp2Vector) { VPSLLD(Imm(23), x.t, x.t) }) // 2ⁿ⁺¹
	if e.lanes16 != nil {
		then(4, func(x *exp2Vector) { VMULPS_Z(x.t, x.p, x.keep, x.p) })
	} else {
		then(3, func(x *exp2Vector) { VMULPS(x.t, x.p, x.p) })
		then(1, func(x *exp2Vector) { VANDPS(x.keep, x.p, x.p) })
	}
	then(0, e.store)
	return steps
}

// exponent is t = x·c + bias.
func (e *exp2Steps) exponent(x *exp2Vector) {
	define(&x.t)
	switch {
	case e.lanes16 != nil:
		e.copy("exp2Bias", x.t)
		VFNMADD231PS(e.c, x.y, x.t)
	case e.negated:
		VMOVAPS(x.y, x.t)
		VFNMADD213PS(e.bias, e.c, x.t)
	default:
		VMOVAPS(x.y, x.t)
		VFMADD213PS(e.bias, e.c, x.t)
	}
}

// fraction is f = x·c − n.
func (e *exp2Steps) fraction(x *exp2Vector) {
	if e.negated {
		VFNMSUB213PS(x.p, e.c, x.y)
		return
	}
	VFMSUB213PS(x.p, e.c, x.y)
}

// copy copies a constant from memory.
func (e *exp2Steps) copy(name string, to Op) {
	if e.lanes16 != nil {
		VBROADCASTSS(value(name), to)
		return
	}
	VMOVUPS(value(name), to)
}

// define makes v a register, if it is none.
func define(v *Op) {
	if *v == nil {
		*v = YMM()
	}
}

// exp2 returns 2^(x·c) of a single vector. x is used up.
func exp2(x, c reg.VecVirtual) (p reg.VecVirtual) {
	e := exp2Steps{c: c, bias: value("exp2Bias")}
	e.load = func(v *exp2Vector) { v.y = x }
	e.store = func(v *exp2Vector) { p = v.p.(reg.VecVirtual) }
	var v exp2Vector
	for _, step := range e.list() {
		step.emit(&v)
	}
	return p
}
