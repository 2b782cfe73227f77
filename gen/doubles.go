package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Softplus, in float64: a vector of float32 becomes two of float64 and one again.

// doubles are the two vectors that go together, step by step.
type doubles struct {
	new  func() reg.VecVirtual
	wide bool // 16 lanes
}

// f64 is a constant in memory, once.
func f64(x float64) Mem {
	return longs(fmt.Sprintf("wide%016x", math.Float64bits(x)), math.Float64bits(x))
}

// longs is a 64-bit word in memory.
func longs(name string, x uint64) Mem {
	m, ok := wordTables[name]
	if !ok {
		m = GLOBL(name, readOnly)
		DATA(0, U64(x))
		wordTables[name] = m
	}
	return m
}

func wideValue(name string) Mem { return f64(wideConstants.Get(name)) }

// constant loads one.
func (d *doubles) constant(m Mem) reg.VecVirtual {
	v := d.new()
	VBROADCASTSD(m, v)
	return v
}

// with emits an operation by a constant on both: one register holds it.
func (d *doubles) with(m Mem, x []reg.VecVirtual, op func(c reg.VecVirtual, i int)) {
	c := d.constant(m)
	for i := range x {
		op(c, i)
	}
}

func (d *doubles) pair() []reg.VecVirtual { return []reg.VecVirtual{d.new(), d.new()} }

// horner leaves in a new pair the polynomial in x of coefficients of internal/f32/activations.go,
// and after them fixed ones.
func (d *doubles) horner(prefix string, x []reg.VecVirtual, fixed ...float64) []reg.VecVirtual {
	var c []Mem
	for _, name := range wideConstants.Polynomial(prefix) {
		c = append(c, wideValue(name))
	}
	for _, x := range fixed {
		c = append(c, f64(x))
	}
	p := d.pair()
	for i := range p {
		VBROADCASTSD(c[0], p[i])
	}
	for _, m := range c[1:] {
		d.with(m, p, func(c reg.VecVirtual, i int) { VFMADD213PD(c, x[i], p[i]) })
	}
	return p
}

// pow2 is 2^w; w is used up.
func (d *doubles) pow2(w []reg.VecVirtual) []reg.VecVirtual {
	t, n := d.pair(), d.pair()
	d.with(wideValue("pow2Bias"), w, func(bias reg.VecVirtual, i int) {
		VADDPD(bias, w[i], t[i])
		VSUBPD(bias, t[i], n[i])
	})
	for i := range w {
		VSUBPD(n[i], w[i], w[i]) // f
	}
	p := d.horner("pow2C", w, 1)
	for i := range p {
		VPSLLQ(Imm(52), t[i], t[i]) // 2ⁿ
		VMULPD(t[i], p[i], p[i])
	}
	return p
}

// magnitude is a = |x|, at most a limit, and the positive part of x, which x becomes.
func (d *doubles) magnitude(x []reg.VecVirtual, limit string) (a []reg.VecVirtual) {
	a = d.pair()
	most, zero := d.constant(wideValue(limit)), d.new()
	if d.wide {
		VPXORQ(zero, zero, zero)
	} else {
		VXORPD(zero, zero, zero)
	}
	d.with(longs("wideAbs", 1<<63-1), x, func(abs reg.VecVirtual, i int) {
		if d.wide {
			VPANDQ(abs, x[i], a[i])
		} else {
			VANDPD(abs, x[i], a[i])
		}
		VMINPD(a[i], most, a[i]) // the second operand, here a, wins if it is NaN
		VMAXPD(x[i], zero, x[i])
	})
	return a
}

func (d *doubles) softplus(x []reg.VecVirtual) []reg.VecVirtual {
	a := d.magnitude(x, "softplusMost")
	d.with(wideValue("softplusLog2"), a, func(c reg.VecVirtual, i int) { VMULPD(c, a[i], a[i]) })
	e := d.pow2(a)
	p := d.horner("softplusC", e)
	for i := range p {
		VFMADD213PD(x[i], e[i], p[i])
	}
	return p
}

// softplusKernels are with 8 lanes and with 16.
func softplusKernels() {
	d := &doubles{new: func() reg.VecVirtual { return YMM() }}
	activationKernel("softplusSIMD", func(v reg.VecVirtual) reg.VecVirtual {
		x, hi := d.pair(), XMM()
		VEXTRACTF128(Imm(1), v, hi)
		VCVTPS2PD(v.AsX(), x[0])
		VCVTPS2PD(hi, x[1])
		y := d.softplus(x)
		lo := XMM()
		VCVTPD2PSY(y[0], lo)
		VCVTPD2PSY(y[1], hi)
		z := YMM()
		VINSERTF128(Imm(1), hi, lo.AsY(), z)
		return plusZero(z)
	})
	wide := &doubles{new: func() reg.VecVirtual { return ZMM() }, wide: true}
	activationAVX512Kernel("softplusAVX512", func(v reg.VecVirtual) reg.VecVirtual {
		zero, lo, hi, x := YMM(), YMM(), YMM(), wide.pair()
		VXORPS(zero, zero, zero)
		VEXTRACTF64X4(Imm(1), v, hi)
		VCVTPS2PD(v.AsY(), x[0])
		VCVTPS2PD(hi, x[1])
		y := wide.softplus(x)
		VCVTPD2PS(y[0], lo)
		VCVTPD2PS(y[1], hi)
		VADDPS(zero, lo, lo)
		VADDPS(zero, hi, hi)
		VINSERTF64X4(Imm(1), hi, lo.AsZ(), v)
		return v
	})
}

// activationAVX512Kernel is activationKernel with 16 lanes.
func activationAVX512Kernel(name string, f func(x reg.VecVirtual) reg.VecVirtual) {
	TEXT(name, noSplit, "func(dst, x *float32, n int, xAhead, dstAhead int)")
	dst, src, n := param("dst"), param("x"), param("n")
	prefetch := prefetchAhead(dst, src)
	mask, every := K(), GP32()
	MOVL(U32(0xffff), every)
	KMOVW(every, mask)
	SUBQ(imm(avx512Lanes), n)
	JL(LabelRef("fewer"))
	Label("vectors")
	prefetch()
	v := ZMM()
	VMOVUPS_Z(Mem{Base: src}, mask, v)
	VMOVUPS(f(v), mask, Mem{Base: dst})
	ADDQ(imm(avx512Vector), src)
	ADDQ(imm(avx512Vector), dst)
	SUBQ(imm(avx512Lanes), n)
	JGE(LabelRef("vectors"))
	Label("fewer")
	ADDQ(imm(avx512Lanes), n)
	JE(LabelRef("end"))
	BZHIL(n.As32(), every, every)
	KMOVW(every, mask)
	XORQ(n, n) // the last ones are no whole vector
	JMP(LabelRef("vectors"))
	Label("end")
	finish()
}
