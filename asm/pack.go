package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// packKeys transposes 4 keys × 4 dimensions at a time in registers. For whole panels it transposes
// four groups of keys side by side and writes 64 bytes at once.
func (p *program) packKeys() {
	const (
		dst, k, stride, n, d          = R0, R1, R2, R3, R4
		stride2, stride3, count, work = R5, R6, R7, R8
		panelSize, out, group4, mask  = R9, R10, R11, R12
		key0                          = R19 // R19 to R22
	)
	p.kernel("packKeysSIMD", 0, "dst k stride n d inOrder:bool", "")
	p.arg("dst", dst)
	p.arg("k", k)
	p.arg("stride", stride)
	p.arg("n", n)
	p.arg("d", d)
	p.loadTable()
	p.LslImm(stride, stride, 2)
	p.LslImm(stride2, stride, 1)
	p.Add(stride3, stride2, stride)

	p.Comment("Whole panels.")
	p.Label("panel")
	p.CmpImm(n, panel)
	p.Bcond(LT, "rest")
	var keys [groups]strided
	for g := range keys {
		key := key0 + Reg(g)
		if g == 0 {
			p.Mov(key, k)
		} else {
			p.AddShifted(key, key-1, stride, 2)
		}
		keys[g] = strided{key, [3]Reg{stride, stride2, stride3}, work}
	}
	at := func(g, x int) Vec { return Vec(groups*x + g) } // keys of group g, dimension x
	p.dimensions(d, count, func() {
		for g := range keys {
			keys[g].loadFour(p, keyVec)
			p.transpose([]Vec{at(g, 0), at(g, 1), at(g, 2), at(g, 3)}, keyVec, mixed)
		}
		for x := range lanes {
			p.St1Post(from(at(0, x), groups), dst)
		}
	}, func() {
		for g := range keys {
			keys[g].loadOne(p, at(g, 0))
		}
		p.St1Post(from(at(0, 0), groups), dst)
	})
	p.AddShifted(k, k, stride, 4)
	p.SubImm(n, n, panel)
	p.B("panel")

	p.Comment("The last panel, four keys at a time: those that do not exist are 0.")
	p.Label("rest")
	p.Cbz(n, "done")
	p.MovImm(panelSize, panelBytes)
	p.MovImm(group4, groups)
	p.Label("group")
	p.lowMask(16, n, mask, work)
	four := keyPointers{key0, key0 + 1, key0 + 2, key0 + 3}
	four.clamp(p, k, stride, n)
	p.Mov(out, dst)
	store := func(v Vec) {
		p.And(v, v, 16)
		p.StrQ(v, out, 0)
		p.Add(out, out, panelSize)
	}
	p.dimensions(d, count, func() {
		four.loadFour(p, keyVec)
		p.transpose(keyColumns, keyVec, mixed)
		for _, v := range keyColumns {
			store(v)
		}
	}, func() {
		four.loadOne(p, keyColumns[0])
		store(keyColumns[0])
	})
	p.Comment("With no keys left, the last ones are read again and masked.")
	p.CmpImm(n, lanes)
	p.AddShifted(work, k, stride, 2)
	p.Csel(GT, k, work, k)
	p.SubImm(n, n, lanes)
	p.AddImm(dst, dst, vector)
	p.SubImm(group4, group4, 1)
	p.Cbnz(group4, "group")
	p.Label("done")
	p.Ret()
}

// lowMask is d = ones in the first n lanes; n may be negative or more than 4.
func (p *program) lowMask(d Vec, n, at, work Reg) {
	const on = 0xffffffff
	ones := p.words("ones, with zeros after them", on, on, on, on)
	if zeros := p.words("zeros", 0, 0, 0, 0); zeros != ones+vector {
		panic("asm: the zeros are not after the ones")
	}
	p.MovImm(work, lanes)
	p.CmpImm(n, lanes)
	p.Csel(LT, at, n, work)
	p.Sub(work, work, at) // lanes to leave out
	p.MovImm(at, lanes)
	p.CmpImm(work, lanes)
	p.Csel(LT, work, work, at)
	p.AddImm(at, table, ones)
	p.AddShifted(at, at, work, 2)
	p.LdrQ(d, at, 0)
}

// packValues copies whole panels, then the last one four columns at a time.
func (p *program) packValues() {
	const (
		dst, v, stride, n, d                 = R0, R1, R2, R3, R4
		in, out, count, third, quads, panel4 = R5, R6, R7, R8, R9, R10
	)
	p.kernel("packValuesSIMD", 0, "dst v stride n d inOrder:bool", "")
	p.arg("dst", dst)
	p.arg("v", v)
	p.arg("stride", stride)
	p.arg("n", n)
	p.arg("d", d)
	p.LslImm(stride, stride, 2)
	p.MovImm(panel4, panelBytes)
	eachKey := func(name string, body func()) {
		p.Mov(in, v)
		p.Mov(out, dst)
		p.Mov(count, n)
		p.Label(name)
		body()
		p.Add(in, in, stride)
		p.Add(out, out, panel4)
		p.SubImm(count, count, 1)
		p.Cbnz(count, name)
	}
	p.Label("panel")
	p.CmpImm(d, panel)
	p.Bcond(LT, "last")
	eachKey("sixteen", func() {
		p.LdpQ(0, 1, in, 0)
		p.LdpQ(2, 3, in, 2*vector)
		p.StpQ(0, 1, out, 0)
		p.StpQ(2, 3, out, 2*vector)
	})
	p.AddImm(v, v, panelBytes)
	p.AddImm(dst, dst, block*panelBytes/4)
	p.AddImm(dst, dst, block*panelBytes/4)
	p.AddImm(dst, dst, block*panelBytes/4)
	p.AddImm(dst, dst, block*panelBytes/4)
	p.SubImm(d, d, panel)
	p.B("panel")

	p.Comment("The last panel.")
	p.Label("last")
	p.Cbz(d, "done")
	p.MovImm(quads, panel/lanes)
	p.Label("quad")
	for _, c := range []struct {
		name    string
		columns int
		load    func()
	}{
		{"four", 4, func() { p.LdrQ(0, in, 0) }},
		{"three", 3, func() { p.LdrD(0, in, 0); p.AddImm(third, in, 8); p.Ld1Lane(0, 2, third) }},
		{"two", 2, func() { p.LdrD(0, in, 0) }},
		{"one", 1, func() { p.LdrS(0, in, 0) }},
		{"none", 0, func() { p.Zero(0) }},
	} {
		next := p.label("not")
		if c.columns > 0 {
			p.CmpImm(d, c.columns)
			p.Bcond(LT, next)
		}
		eachKey(c.name, func() {
			c.load()
			p.StrQ(0, out, 0)
		})
		if c.columns > 0 {
			p.B("nextQuad")
			p.Label(next)
		}
	}
	p.Label("nextQuad")
	p.AddImm(v, v, vector)
	p.AddImm(dst, dst, vector)
	p.SubImm(d, d, lanes)
	p.SubImm(quads, quads, 1)
	p.Cbnz(quads, "quad")
	p.Label("done")
	p.Ret()
}
