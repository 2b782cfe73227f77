package main

import (
	"slices"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Kernels of package linattn: rows of a chunk and the rows before them.

// triangleKernels emits the kernels of internal/kernel/triangle.
func triangleKernels() {
	narrow := triangle{width: vector, new: YMM, groups: []int{4, 2, 1}}
	narrow.substitute("substituteSIMD")
	narrow.outputs("outputsSIMD")
	broad := triangle{width: avx512Vector, new: ZMM, groups: []int{8, 4, 1}}
	broad.substitute("substituteAVX512")
	broad.outputs("outputsAVX512")
	decayRowKernel()
	decayedSumsKernel()
	prefetchRowsKernel()
	addChunkKernel()
	narrow.twoSums("twoSumsSIMD", []int{2, 1}, []int{3, 1})
	broad.twoSums("twoSumsAVX512", []int{8, 4, 2, 1}, []int{8, 4, 2, 1})
}

// triangle emits kernels with vectors of some bytes, for a number of panels at a time.
type triangle struct {
	width  int
	new    func() reg.VecVirtual
	groups []int

	sums, outer reg.GPVirtual // the group's columns of the row's sums, and of its values or outputs
	updates     reg.GPVirtual // and the updates of the chunk's first row
	w           reg.GPVirtual // the row's weights
	step        reg.GPVirtual // bytes between rows of updates
	count       reg.GPVirtual // rows before the row
	tmp         reg.GPVirtual
	begun       int            // 1 if a row is among the rows before it, else 0
	slots       map[string]Mem // fields of the argument and of its shape
}

func (t *triangle) substitute(name string) {
	TEXT(name, noSplit, context)
	t.begun = 0
	at := GP64() // the row's own updates
	t.rows(func() {
		MOVQ(t.slots["Shape.First"], at)
		IMULQ(t.step, at)
		ADDQ(t.updates, at)
	}, func(sum []reg.VecVirtual) {
		beta, v := t.new(), t.new()
		MOVQ(t.slots["rowsCall.beta"], t.tmp)
		t.ofRow(t.tmp)
		VBROADCASTSS(Mem{Base: t.tmp}, beta)
		for i, r := range sum {
			VMOVUPS(Mem{Base: t.outer, Disp: i * t.width}, v)
			VSUBPS(r, v, v)
			VMULPS(beta, v, v)
			VMOVUPS(v, Mem{Base: at, Disp: i * t.width})
		}
		ADDQ(t.step, at)
	})
}

func (t *triangle) outputs(name string) {
	TEXT(name, noSplit, context)
	t.begun = 1
	scale := t.new()
	VBROADCASTSS(fieldOf(param("x"), "rowsCall.scale"), scale)
	t.rows(func() {}, func(sum []reg.VecVirtual) {
		for i, o := range sum {
			VMULPS(scale, o, o)
			VMOVUPS(o, Mem{Base: t.outer, Disp: i * t.width})
		}
	})
}

// ofRow moves a pointer from the element of the first row to the element of the current row.
func (t *triangle) ofRow(p reg.GPVirtual) {
	LEAQ(Mem{Base: p, Index: t.count, Scale: 4, Disp: -4 * t.begun}, p)
	first := GP64()
	MOVQ(t.slots["Shape.First"], first)
	SHLQ(Imm(2), first)
	SUBQ(first, p)
}

// rows emits a loop over groups of columns, and inside it a loop over rows: the sums of a row start
// with their value in memory times a factor, add the rows before it, and are passed to end.
func (t *triangle) rows(begin func(), end func(sum []reg.VecVirtual)) {
	t.sums, t.outer, t.updates, t.tmp = GP64(), GP64(), GP64(), GP64()
	t.w, t.step, t.count = GP64(), GP64(), GP64()
	left := GP64()
	t.spill()
	SHLQ(Imm(2), t.step)
	// where the first row has the columns
	sumsAt, outerAt, panels := t.slots["rowsCall.sums"], t.slots["rowsCall.outer"],
		t.slots["rowsCall.panels"]
	for _, n := range t.groups {
		group, next, row := unique("group"), unique("next"), unique("row")
		Label(group)
		CMPQ(panels, imm(n))
		JL(LabelRef(next))
		MOVQ(sumsAt, t.sums)
		MOVQ(outerAt, t.outer)
		MOVQ(t.slots["rowsCall.w"], t.w)
		MOVQ(t.slots["Shape.First"], t.count)
		MOVQ(t.slots["Shape.Rows"], left)
		begin()
		if t.begun > 0 {
			INCQ(t.count)
		}
		Label(row)
		t.row(n*panelBytes/t.width, end)
		INCQ(t.count)
		ADDQ(imm(panelBytes), t.w)
		t.nextRow("Sums", t.sums)
		t.nextRow("Outer", t.outer)
		DECQ(left)
		JNE(LabelRef(row))
		ADDQ(imm(n*panelBytes), t.updates)
		ADDQ(imm(n*panelBytes), sumsAt)
		ADDQ(imm(n*panelBytes), outerAt)
		SUBQ(imm(n), panels)
		JMP(LabelRef(group))
		Label(next)
	}
	finish()
}

// nextRow moves a pointer by a number of elements, a field of the shape.
func (t *triangle) nextRow(stride string, p reg.GPVirtual) {
	MOVQ(t.slots["Shape."+stride], t.tmp)
	LEAQ(Mem{Base: p, Index: t.tmp, Scale: 4}, p)
}

// spill stores fields of the argument and of its shape in stack slots: each row reads them.
func (t *triangle) spill() {
	x, shape := param("x"), argumentOf("rowsCall.shape")
	t.slots = map[string]Mem{}
	for _, name := range []string{"rowsCall.sums", "rowsCall.outer", "rowsCall.panels", "rowsCall.w",
		"rowsCall.decay", "rowsCall.beta", "Shape.First", "Shape.Rows", "Shape.Sums", "Shape.Outer"} {
		base := x
		if strings.HasPrefix(name, "Shape.") {
			base = shape
		}
		t.slots[name] = AllocLocal(8)
		MOVQ(fieldOf(base, name), t.tmp)
		MOVQ(t.tmp, t.slots[name])
	}
	MOVQ(fieldOf(x, "rowsCall.u"), t.updates)
	MOVQ(fieldOf(shape, "Shape.Updates"), t.step)
}

// row is the sums of n vectors of a row.
func (t *triangle) row(n int, end func(sum []reg.VecVirtual)) {
	sum, weight := make([]reg.VecVirtual, n), t.new()
	loop, done := unique("loop"), unique("done")
	from, left := GP64(), GP64()
	MOVQ(t.slots["rowsCall.decay"], t.tmp)
	t.ofRow(t.tmp)
	VBROADCASTSS(Mem{Base: t.tmp}, weight)
	for i := range sum {
		sum[i] = t.new()
		VMULPS(Mem{Base: t.sums, Disp: i * t.width}, weight, sum[i])
	}
	MOVQ(t.updates, from)
	MOVQ(t.w, t.tmp)
	MOVQ(t.count, left)
	if t.begun == 0 {
		TESTQ(left, left)
		JE(LabelRef(done))
	}
	Label(loop)
	VBROADCASTSS(Mem{Base: t.tmp}, weight)
	for i := range sum {
		VFMADD231PS(Mem{Base: from, Disp: i * t.width}, weight, sum[i])
	}
	ADDQ(imm(4), t.tmp)
	ADDQ(t.step, from)
	DECQ(left)
	JNE(LabelRef(loop))
	Label(done)
	end(sum)
}

// decayRowKernel multiplies the weights of a chunk's rows, channel by channel.
func decayRowKernel() {
	TEXT("decayRowSIMD", noSplit, "func(w, a *float32, n, i int)")
	w, a, n, i := param("w"), param("a"), param("n"), param("i")
	factor, low, high := YMM(), YMM(), YMM()
	Label("channel")
	VBROADCASTSS(Mem{Base: a}, factor)
	VMULPS(Mem{Base: w}, factor, low)
	VMULPS(Mem{Base: w, Disp: vector}, factor, high)
	VMOVUPS(low, Mem{Base: w})
	VMOVUPS(high, Mem{Base: w, Disp: vector})
	MOVL(U32(floatOne), Mem{Base: w, Index: i, Scale: 4})
	ADDQ(imm(4), a)
	ADDQ(imm(panelBytes), w)
	DECQ(n)
	JNE(LabelRef("channel"))
	finish()
}

// decayedSumsKernel multiplies one or two rows by keys that have decayed.
func decayedSumsKernel() {
	TEXT("decayedSumsSIMD", noSplit, "func(sum, x, w, k *float32, n, rows, stride int)")
	sum, x, w, k, n, stride := param("sum"), param("x"), param("w"), param("k"), param("n"),
		param("stride")
	var sums [2][2]reg.VecVirtual
	for r := range sums {
		for i := range sums[r] {
			sums[r][i] = YMM()
			VXORPS(sums[r][i], sums[r][i], sums[r][i])
		}
	}
	step := func(rows int) {
		weights, factor, product := [2]reg.VecVirtual{YMM(), YMM()}, YMM(), YMM()
		for i := range weights {
			VMOVUPS(Mem{Base: w, Disp: i * vector}, weights[i])
		}
		for r := range rows {
			m := Mem{Base: x}
			if r > 0 {
				m.Index, m.Scale = stride, 4
			}
			VBROADCASTSS(m, factor)
			for i := range weights {
				VMULPS(weights[i], factor, product)
				VFMADD231PS(Mem{Base: k, Disp: i * vector}, product, sums[r][i])
			}
		}
		ADDQ(imm(4), x)
		ADDQ(imm(panelBytes), w)
		ADDQ(imm(panelBytes), k)
		DECQ(n)
	}
	store := func(r int) {
		for i, v := range sums[r] {
			VMOVUPS(v, Mem{Base: sum, Disp: r*panelBytes + i*vector})
		}
	}
	CMPQ(paramAddress("rows"), Imm(2))
	JE(LabelRef("two"))
	Label("one")
	step(1)
	JNE(LabelRef("one"))
	store(0)
	finish()
	Label("two")
	step(2)
	JNE(LabelRef("two"))
	store(0)
	store(1)
	finish()
}

// prefetchRowsKernel asks for lines of rows, into the second-level cache.
func prefetchRowsKernel() {
	TEXT("prefetchRowsSIMD", noSplit, "func(x *float32, rows, stride, lines int)")
	x, rows, stride, lines := param("x"), param("rows"), param("stride"), param("lines")
	at, left := GP64(), GP64()
	Label("row")
	MOVQ(x, at)
	MOVQ(lines, left)
	Label("line")
	PREFETCHT1(Mem{Base: at})
	ADDQ(imm(lineBytes), at)
	DECQ(left)
	JNE(LabelRef("line"))
	LEAQ(Mem{Base: x, Index: stride, Scale: 4}, x)
	DECQ(rows)
	JNE(LabelRef("row"))
	RET()
}

// addChunkKernel multiplies a panel of the state by its decay and adds the rows of a chunk; their
// updates stay in registers.
func addChunkKernel() {
	TEXT("addChunkAVX512", noSplit, "func(s, k, u, decay *float32, n, updates int, next *[4]*float32)")
	s, k, u, decay, n, step := param("s"), param("k"), param("u"), param("decay"), param("n"),
		param("updates")
	next := param("next")
	var requests [4]reg.GPVirtual
	for i := range requests {
		requests[i] = GP64()
		MOVQ(Mem{Base: next, Disp: 8 * i}, requests[i])
	}
	var updates [panel]reg.VecVirtual
	for j := range updates {
		updates[j] = ZMM()
		VMOVUPS(Mem{Base: u}, updates[j])
		LEAQ(Mem{Base: u, Index: step, Scale: 4}, u)
	}
	channels := func(count int) {
		sum := make([]reg.VecVirtual, count)
		for i := range sum {
			sum[i] = ZMM()
			VMOVUPS(Mem{Base: s, Disp: i * panelBytes}, sum[i])
			VMULPS_BCST(Mem{Base: decay, Disp: 4 * i}, sum[i], sum[i])
		}
		for j := range updates {
			for i := range sum {
				VFMADD231PS_BCST(Mem{Base: k, Disp: i*panelBytes + 4*j}, updates[j], sum[i])
			}
		}
		for i := range sum {
			VMOVUPS(sum[i], Mem{Base: s, Disp: i * panelBytes})
		}
		ADDQ(imm(count*panelBytes), s)
		ADDQ(imm(count*panelBytes), k)
		ADDQ(imm(4*count), decay)
		SUBQ(imm(count), n)
	}
	const most = 8
	Label("channels")
	CMPQ(n, imm(most))
	JL(LabelRef("rest"))
	for _, at := range requests {
		PREFETCHT1(Mem{Base: at})
		ADDQ(imm(lineBytes), at)
	}
	channels(most)
	JMP(LabelRef("channels"))
	Label("rest")
	TESTQ(n, n)
	JE(LabelRef("end"))
	channels(1)
	JMP(LabelRef("rest"))
	Label("end")
	finish()
}

// twoSums multiplies two rows by panels of the state and by the chunk's keys, together: the keys
// alone would be few chains, and each step of a chain waits for the step before. It handles several
// panels at a time, and fewer together with the keys.
func (t *triangle) twoSums(name string, beside, alone []int) {
	keyed := t.width == avx512Vector
	TEXT(name, noSplit, context)
	g := sumsOfPanels{triangle: t, sum: argumentOf("pairCall.sums"), s: argumentOf("pairCall.s"),
		panels: argumentOf("pairCall.panels"), step: GP64(), steps: GP64(), x: GP64(), y: GP64(),
		k: GP64(), beyond: GP64(), left: GP64()}
	for range max(2*(beside[0]+1), 2*alone[0])*panelBytes/t.width + 3 {
		g.vectors = append(g.vectors, t.new())
	}
	argument("pairCall.n", g.step)
	SHLQ(Imm(6), g.step)
	LEAQ(Mem{Base: g.step, Index: g.step, Scale: 2}, g.steps)
	if keyed {
		g.key, g.column = GP64(), K()
		argument("pairCall.column", g.key)
		KMOVW(g.key.As32(), g.column)
	}
	rest := unique("rest")
	for _, n := range beside {
		next := unique("next")
		if n > 1 {
			CMPQ(g.panels, imm(n))
			JL(LabelRef(next))
		}
		g.group(n, true)
		if n > 1 {
			JMP(LabelRef(rest))
		}
		Label(next)
	}
	Label(rest)
	for _, n := range alone {
		again, next := unique("again"), unique("next")
		Label(again)
		CMPQ(g.panels, imm(n))
		JL(LabelRef(next))
		g.group(n, false)
		JMP(LabelRef(again))
		Label(next)
	}
	finish()
}

// sumsOfPanels holds the registers of twoSums.
type sumsOfPanels struct {
	*triangle
	sum, s, panels reg.GPVirtual
	step, steps    reg.GPVirtual // bytes of a panel, and of three
	x, y, k        reg.GPVirtual // operands of a group besides panels
	beyond, left   reg.GPVirtual // its fifth panel, and steps
	vectors        []reg.VecVirtual
	key            reg.GPVirtual     // that becomes a column of the chunk's; nil for none,
	column         reg.OpmaskVirtual // which has this bit
}

// group multiplies by n panels that begin at s, and by the keys, and moves on.
func (g *sumsOfPanels) group(n int, keys bool) {
	parts, all := panelBytes/g.width, n // vectors of a panel
	if keys {
		all++
	}
	first, second, b := g.vectors[0], g.vectors[1], g.vectors[2]
	sums := [2][]reg.VecVirtual{g.vectors[3:][:all*parts], g.vectors[3+all*parts:][:all*parts]}
	for _, v := range slices.Concat(sums[:]...) {
		g.clear(v)
	}
	Load(Param("x"), g.left)
	MOVQ(fieldOf(g.left, "pairCall.x"), g.x)
	MOVQ(fieldOf(g.left, "pairCall.y"), g.y)
	MOVQ(fieldOf(g.left, "pairCall.k"), g.k)
	MOVQ(fieldOf(g.left, "pairCall.n"), g.left)
	takes := keys && g.key != nil
	if takes {
		argument("pairCall.key", g.key)
	}
	if n > 4 {
		LEAQ(Mem{Base: g.s, Index: g.step, Scale: 4}, g.beyond)
	}
	loop := unique("loop")
	Label(loop)
	VBROADCASTSS(Mem{Base: g.x}, first)
	VBROADCASTSS(Mem{Base: g.y}, second)
	for i := range all * parts {
		m := Mem{Base: g.k}
		if index := i / parts; index < n {
			m = g.panel(index)
		}
		VMOVUPS(m.Offset(i%parts*g.width), b)
		if takes && i == n {
			VBROADCASTSS(Mem{Base: g.key}, g.column, b)
			VMOVUPS(b, m)
			ADDQ(imm(4), g.key)
		}
		VFMADD231PS(b, first, sums[0][i])
		VFMADD231PS(b, second, sums[1][i])
	}
	ADDQ(imm(4), g.x)
	ADDQ(imm(4), g.y)
	ADDQ(imm(panelBytes), g.k)
	ADDQ(imm(panelBytes), g.s)
	if n > 4 {
		ADDQ(imm(panelBytes), g.beyond)
	}
	DECQ(g.left)
	JNE(LabelRef(loop))
	argument("pairCall.stride", g.x)
	for r := range sums {
		to := Mem{Base: g.sum}
		if r > 0 {
			to.Index, to.Scale = g.x, 4
		}
		for i, v := range sums[r][:n*parts] {
			VMOVUPS(v, to.Offset(i*g.width))
		}
	}
	if keys {
		argument("pairCall.pairs", g.k)
		for r := range sums {
			for i, v := range sums[r][n*parts:] {
				VMOVUPS(v, Mem{Base: g.k, Disp: r*panelBytes + i*g.width})
			}
		}
	}
	if n > 1 {
		IMUL3Q(U32(uint32(n-1)), g.step, g.y)
		ADDQ(g.y, g.s)
	}
	ADDQ(imm(n*panelBytes), g.sum)
	SUBQ(imm(n), g.panels)
}

// clear sets a vector to zeros.
func (t *triangle) clear(v reg.VecVirtual) {
	if t.width == vector {
		VXORPS(v, v, v)
	} else {
		VPXORD(v, v, v)
	}
}

// panel is where a panel of a group is.
func (g *sumsOfPanels) panel(i int) Mem {
	m := Mem{Base: g.s}
	if i >= 4 {
		m.Base = g.beyond
	}
	switch i % 4 {
	case 1:
		m.Index, m.Scale = g.step, 1
	case 2:
		m.Index, m.Scale = g.step, 2
	case 3:
		m.Index, m.Scale = g.steps, 1
	}
	return m
}
