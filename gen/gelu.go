package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	spec "github.com/seed-1415985d/attn/internal/f32"
)

// GELUs, step by step what internal/f32/gelu.go computes, with 8 lanes and with 16. A vector with
// no element beyond the limit skips the exponential; most vectors do.

// floats are vectors of one of the two widths.
type floats struct {
	new  func() reg.VecVirtual
	wide bool
}

// all is a constant in all lanes of a register.
func (v floats) all(m Mem) reg.VecVirtual {
	c := v.new()
	VBROADCASTSS(m, c)
	return c
}

func (v floats) value(name string) reg.VecVirtual { return v.all(value(name)) }

func (v floats) copy(x reg.VecVirtual) reg.VecVirtual {
	y := v.new()
	VMOVAPS(x, y)
	return y
}

func (v floats) absolute(x reg.VecVirtual) reg.VecVirtual {
	a := v.new()
	if abs := v.all(u32(bitsAbs)); v.wide {
		VPANDD(abs, x, a)
	} else {
		VANDPS(abs, x, a)
	}
	return a
}

func (v floats) zero() reg.VecVirtual {
	z := v.new()
	if v.wide {
		VPXORD(z, z, z)
	} else {
		VXORPS(z, z, z)
	}
	return z
}

// horner is the polynomial in x.
func (v floats) horner(prefix string, x reg.VecVirtual) reg.VecVirtual {
	names := elementary.Polynomial(prefix)
	p := v.value(names[0])
	for _, name := range names[1:] {
		VFMADD213PS(v.value(name), x, p)
	}
	return p
}

// geluKernels emits all.
func geluKernels() {
	narrow := floats{new: func() reg.VecVirtual { return YMM() }}
	wide := floats{new: func() reg.VecVirtual { return ZMM() }, wide: true}
	for _, k := range []struct {
		name, wideName, table string
		pieces                *spec.Pieces
		tail                  func(v floats, a reg.VecVirtual) reg.VecVirtual
	}{
		{"geluSIMD", "geluAVX512", "gelu", &spec.GELUPieces, floats.geluTail},
		{"geluTanhSIMD", "geluTanhAVX512", "geluTanh", &spec.GELUTanhPieces, floats.geluTanhTail},
	} {
		activationKernel(k.name, func(x reg.VecVirtual) reg.VecVirtual {
			return narrow.gelu(x, k.table, k.pieces, k.tail)
		})
		activationAVX512Kernel(k.wideName, func(x reg.VecVirtual) reg.VecVirtual {
			return wide.gelu(x, k.table, k.pieces, k.tail)
		})
	}
}

// gelu is max(x, 0) − s(|x|).
func (v floats) gelu(x reg.VecVirtual, name string, p *spec.Pieces,
	tail func(v floats, a reg.VecVirtual) reg.VecVirtual) reg.VecVirtual {
	a, positive, zero := v.absolute(x), v.new(), v.zero()
	VMAXPS(x, zero, positive) // x wins if it is NaN
	y := v.pieces(a, positive, name, p)
	done := unique("below")
	limit := v.all(f32(p.Limit))
	var beyond reg.Register
	if v.wide {
		k := K()
		beyond = k
		VCMPPS(Imm(notLess), limit, a, k)
		KORTESTW(k, k)
	} else {
		m, some := YMM(), GP32()
		beyond = m
		VCMPPS(Imm(notLess), limit, a, m)
		VMOVMSKPS(m, some)
		TESTL(some, some)
	}
	JE(LabelRef(done))
	t := tail(v, a)
	VSUBPS(t, positive, t)
	if v.wide {
		VMOVAPS(t, beyond, y)
	} else {
		VBLENDVPS(beyond, t, y, y)
	}
	Label(done)
	VADDPS(zero, y, y)
	return y
}

// pieces is max(x, 0) − s(a) below the limit.
func (v floats) pieces(a, positive reg.VecVirtual, name string, p *spec.Pieces) reg.VecVirtual {
	near, number := v.new(), v.all(f32(p.Shift))
	VMULPS(v.all(f32(4)), a, near)
	VFMADD231PS(v.all(f32(p.Scale)), a, number)
	VMINPS(near, number, number)
	VCVTTPS2DQ(number, number)
	look := func(of string, row *[8]float32) reg.VecVirtual {
		c := v.new()
		VPERMPS(row16(name+of, row), number, c)
		return c
	}
	VMINPS(v.all(f32(1)), near, near)
	d, base := look("Middle", &p.Middle), v.copy(positive)
	VSUBPS(d, a, d)
	VFNMADD231PS(look("Value", &p.Value), near, base)
	last := len(p.Coefficients) - 1
	row := func(k int) reg.VecVirtual { return look(fmt.Sprint("C", k+1), &p.Coefficients[k]) }
	sum := row(last)
	for k := last - 1; k >= 0; k-- {
		VFMADD213PS(row(k), d, sum)
	}
	VFNMADD231PS(sum, d, base)
	return base
}

// row16 is eight numbers twice: with 16 lanes there are 16 to choose from.
func row16(name string, row *[8]float32) Mem {
	w := make([]uint32, 16)
	for i := range w {
		w[i] = math.Float32bits(row[i%8])
	}
	return wordTable(name, w...)
}

// geluTail is a·Φ(−a) of large a.
func (v floats) geluTail(a reg.VecVirtual) reg.VecVirtual {
	a = v.most(a, "geluMost")
	z, rest, w := v.new(), v.copy(a), v.new()
	VMULPS(a, a, z)
	VFMSUB213PS(z, a, rest)
	VDIVPS(z, v.all(f32(1)), w)
	hi := v.value("geluLog2Hi")
	t := v.value("expBias")
	VFNMADD231PS(hi, z, t)
	f := v.lost(t)
	VFNMADD231PS(hi, z, f)
	VFNMADD231PS(v.value("geluLog2Lo"), z, f)
	VFNMADD231PS(hi, rest, f)
	p := v.horner("geluTailC", w)
	VMULPS(p, f, w)
	VFMADD231PS(v.horner("growthC", f), w, p)
	return v.timesPower(p, t)
}

// geluTanhTail is a/(1 + e^(2u)) of large a.
func (v floats) geluTanhTail(x reg.VecVirtual) reg.VecVirtual {
	a := v.most(x, "geluTanhMost")
	z, rest := v.new(), v.copy(a)
	VMULPS(a, a, z)
	VFMSUB213PS(z, a, rest)
	c0, c1 := v.value("geluTanhC0Hi"), v.value("geluTanhC1Hi")
	p := v.copy(c0)
	VFMADD231PS(c1, z, p)
	lost := c0
	VSUBPS(p, c0, lost)
	VFMADD231PS(c1, z, lost)
	VADDPS(v.value("geluTanhC0Lo"), lost, lost)
	VFMADD231PS(v.value("geluTanhC1Lo"), z, lost)
	VFMADD231PS(c1, rest, lost)
	t := v.value("expBias")
	VFNMADD231PS(p, a, t)
	f := v.lost(t)
	VFNMADD231PS(p, a, f)
	VFNMADD231PS(lost, a, f)
	g, e := v.horner("growthC", f), v.all(f32(1))
	VMULPS(f, a, rest)
	VFMADD231PS(g, rest, a)
	VFMADD231PS(g, f, e)
	Comment("Less than 2⁻⁶⁰ changes no a, but takes processors many cycles where it is subnormal.")
	least := v.all(f32(float32(elementary.Get("expBias")) - 60))
	VMAXPS(t, least, least) // t wins if it is NaN
	e = v.timesPower(e, least)
	VFNMADD213PS(a, a, e) // a − e·a
	v.zeroFrom(e, x, "geluTanhMost")
	return v.timesPower(e, t)
}

// zeroFrom sets p to 0 where x reaches the limit from which its product by a power of 2 is 0,
// because processors need many cycles for a product that underflows. NaN stays.
func (v floats) zeroFrom(p, x reg.VecVirtual, limit string) {
	if v.wide {
		k := K()
		VCMPPS(Imm(notAtLeast), v.value(limit), x, k)
		VMOVAPS_Z(p, k, p)
		return
	}
	below := v.new()
	VCMPPS(Imm(notAtLeast), v.value(limit), x, below)
	VANDPS(below, p, p)
}

// most is a, at most a limit, in a new register.
func (v floats) most(a reg.VecVirtual, limit string) reg.VecVirtual {
	y := v.value(limit)
	VMINPS(a, y, y) // a wins if it is NaN
	return y
}

// lost is −n of t = n + expBias.
func (v floats) lost(t reg.VecVirtual) reg.VecVirtual {
	f := v.value("expBias")
	VSUBPS(t, f, f)
	return f
}

// timesPower is p·2ⁿ in a new register, t = n + expBias, in two halves.
func (v floats) timesPower(p, t reg.VecVirtual) reg.VecVirtual {
	h, n, y := v.new(), v.new(), v.copy(p)
	VPSUBD(v.value("expBias"), t, n)
	VPSRAD(Imm(1), n, h)
	VPSUBD(h, n, n)
	bias := v.all(u32(127))
	for _, e := range []reg.VecVirtual{h, n} {
		VPADDD(bias, e, e)
		VPSLLD(Imm(23), e, e)
		VMULPS(e, y, y)
	}
	return y
}
