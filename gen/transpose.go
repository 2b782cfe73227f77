package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// transpose4 loads 8 rows of 4 elements, row r at row(r), and returns their 4 columns.
func transpose4(row func(r int) Mem) (out [4]reg.VecVirtual) {
	var v [4]reg.VecVirtual
	for r := range v {
		v[r] = YMM()
		VBROADCASTF128(row(r), v[r])
		VINSERTF128(Imm(1), row(r+4), v[r], v[r]) // row r | row r+4
	}
	ab0, ab1, cd0, cd1 := YMM(), YMM(), YMM(), YMM()
	VUNPCKLPS(v[1], v[0], ab0) // a0 b0 a1 b1 | …
	VUNPCKHPS(v[1], v[0], ab1) // a2 b2 a3 b3 | …
	VUNPCKLPS(v[3], v[2], cd0)
	VUNPCKHPS(v[3], v[2], cd1)
	for i := range out {
		out[i] = YMM()
	}
	VUNPCKLPD(cd0, ab0, out[0]) // a0 b0 c0 d0 | …
	VUNPCKHPD(cd0, ab0, out[1])
	VUNPCKLPD(cd1, ab1, out[2])
	VUNPCKHPD(cd1, ab1, out[3])
	return out
}

// gather loads one element of each of 8 rows.
func gather(v reg.VecVirtual, row func(i int) Mem) {
	hi := YMM()
	for h, x := range []reg.VecVirtual{v, hi} {
		VBROADCASTSS(row(4*h), x)
		for i := 1; i < 4; i++ {
			VINSERTPS(Imm(uint64(i<<4)), row(4*h+i), x.AsX(), x.AsX())
		}
	}
	VINSERTF128(Imm(1), hi.AsX(), v, v)
}

// rowAddress addresses 8 rows through pointers to rows 0, 3 and 6.
func rowAddress(p0, p3, p6, stride reg.GPVirtual) func(r int) Mem {
	return func(r int) Mem {
		m := Mem{Base: []reg.GPVirtual{p0, p3, p6}[r/3]}
		if r%3 > 0 {
			m.Index, m.Scale = stride, uint8(r%3)
		}
		return m
	}
}

// movedBy adds a displacement to every row's address.
func movedBy(row func(r int) Mem, disp int) func(r int) Mem {
	return func(r int) Mem {
		m := row(r)
		m.Disp += disp
		return m
	}
}
