package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/seed-1415985d/attn/internal/dev/blocktypes"
)

// Products in bfloat16 of few rows by blocks as they lie in memory. The codes of 32 inputs become
// bytes with sign in the frame; each byte becomes a float32 in a register, a weight, which is
// rounded to bfloat16 and multiplied at once.

const (
	bitsPower   = 0x32800000 // 2⁻²⁶, for four times a power of 2
	mostRounded = 4          // rows of a call
)

// roundedRows is registers and stack slots of such a kernel.
type roundedRows struct {
	*weightRounder
	size int // bytes of a vector

	w, header, half     reg.GPVirtual // the block's scales and codes; d; with 8 lanes, 0 or 8 outputs
	first, last, stride reg.GPVirtual // current inputs of the first row and of the last one
	bytes, from, left   reg.GPVirtual // bytes of all groups in the frame, the current one; groups left
	ahead               reg.GPVirtual // how far w is from what is prefetched
	scale, less         reg.VecVirtual

	sums, second          Mem // frame: sums of rows; the factors of inputs 16 to 31
	o, lastO, panel       Mem // stack slots: outputs of the first row and the last one; panel
	parts, blocks, panels Mem // stack slots: how many are left
	mode, flushing        Mem // stack slots: MXCSR as it was, and as it is meanwhile
}

// roundedForms are the forms that a kernel unpacks, which are alike but for their codes.
func (s blockSet) roundedForms(name string) (forms []blockForm) {
	for _, row := range blocktypes.Rows {
		f := formOf(row.Type)
		if s.of(row.Rounded) == name && f.roundedForm(forms) == len(forms) {
			forms = append(forms, f)
		}
	}
	return forms
}

// roundedForm is the number of the form whose codes are unpacked like those of f.
func (f blockForm) roundedForm(forms []blockForm) int {
	for i, g := range forms {
		if f.sums != g.sums || f.PowerOf2 != g.PowerOf2 {
			panic(f.Name + " and " + g.Name + " are not for the same kernel")
		}
		if f.codes == g.codes && f.less == g.less {
			return i
		}
	}
	return len(forms)
}

// roundedKernels emits them.
func roundedKernels() {
	for _, s := range []blockSet{roundedWide, narrowBlocks} {
		done := map[string]bool{"": true}
		for _, row := range blocktypes.Rows {
			if name := s.of(row.Rounded); !done[name] {
				done[name] = true
				s.roundedRows(name, s.roundedForms(name))
			}
		}
	}
}

// roundedWide needs no VNNI.
var roundedWide = blockSet{wide: true}

// roundedRows emits a kernel of 1 to 4 rows. Of 3 rows the last one is computed twice.
func (s blockSet) roundedRows(name string, forms []blockForm) {
	TEXT(name, growsStack, context)
	t := roundedRows{weightRounder: newWeightRounder(s, forms[0]), size: vector}
	t.scale, t.less = t.register(), t.register()
	if s.wide {
		t.size = avx512Vector
	}
	stackSlots(&t.o, &t.lastO, &t.panel, &t.parts, &t.blocks, &t.panels, &t.mode, &t.flushing)
	t.sums, t.second = AllocLocal(mostRounded*t.size), AllocLocal(2*t.size)
	bytes := AllocLocal(9 * panelBytes)
	for _, r := range []*reg.GPVirtual{&t.w, &t.header, &t.half, &t.first, &t.last, &t.stride,
		&t.bytes, &t.from, &t.left, &t.ahead} {
		*r = GP64()
	}
	LEAQ(bytes.Offset(panelBytes-1), t.bytes)
	ANDQ(I8(-panelBytes), t.bytes)
	t.arguments()
	t.walk(forms)
	VLDMXCSR(t.mode)
	finish()
}

// arguments loads them, and sets FTZ and DAZ.
func (t *roundedRows) arguments() {
	x, copied := param("x"), GP64()
	copyTo := func(field string, slot Mem) {
		MOVQ(fieldOf(x, "blockCall."+field), copied)
		MOVQ(copied, slot)
	}
	copyTo("o", t.o)
	copyTo("lastO", t.lastO)
	copyTo("w", t.panel)
	copyTo("panels", t.panels)
	MOVQ(fieldOf(x, "blockCall.request"), t.ahead)
	SUBQ(t.panel, t.ahead)
	MOVQ(fieldOf(x, "blockCall.aStride"), t.stride)
	SHLQ(Imm(2), t.stride)
	flushSubnormals(t.mode, t.flushing, copied)
}

// of addresses values of the current outputs, size bytes each.
func (t *roundedRows) of(base reg.Register, at int, size uint8) Mem {
	m := Mem{Base: base, Disp: at}
	if !t.wide {
		m.Index, m.Scale = t.half, size
	}
	return m
}

// walk goes through panels and their blocks; with 8 lanes twice through each panel.
func (t *roundedRows) walk(forms []blockForm) {
	panelLoop, halfLoop := unique("panel"), unique("half")
	blockLoop, partLoop := unique("block"), unique("part")
	Label(panelLoop)
	XORQ(t.half, t.half)
	Label(halfLoop)
	argument("blockCall.floats", t.first)
	argument("blockCall.lastFloats", t.last)
	MOVQ(t.panel, t.w)
	t.eachOutput(func(o, sum Mem) {
		v := t.load(o)
		t.move(v, sum)
	})
	argument("blockCall.blocks", t.from)
	MOVQ(t.from, t.blocks)
	Label(blockLoop)
	MOVQ(t.w, t.header)
	ADDQ(imm(t.form.Header()), t.w)
	argument("blockCall.parts", t.from)
	MOVQ(t.from, t.parts)
	Label(partLoop)
	t.unpack(forms)
	t.part()
	argument("blockCall.part", t.from)
	ADDQ(t.from, t.w)
	DECQ(t.parts)
	JNE(LabelRef(partLoop))
	DECQ(t.blocks)
	JNE(LabelRef(blockLoop))
	zero := t.repeated(0)
	t.eachOutput(func(o, sum Mem) {
		v := t.register()
		VADDPS(sum, zero, v)
		t.move(v, o)
	})
	if !t.wide {
		XORQ(imm(8), t.half)
		JNE(LabelRef(halfLoop))
	}
	MOVQ(t.w, t.panel)
	ADDQ(imm(panelBytes), t.o)
	ADDQ(imm(panelBytes), t.lastO)
	DECQ(t.panels)
	JNE(LabelRef(panelLoop))
}

// eachOutput goes through the current outputs of all rows, and their sums.
func (t *roundedRows) eachOutput(use func(o, sum Mem)) {
	end, o, stride := unique("end"), GP64(), GP64()
	rows := argumentOf("blockCall.rows")
	argument("blockCall.oStride", stride)
	MOVQ(t.o, o)
	for i := range mostRounded {
		if i == 1 || i == 2 {
			CMPQ(rows, imm(i))
			JEQ(LabelRef(end))
		}
		if i == mostRounded-1 {
			MOVQ(t.lastO, o)
		}
		use(t.of(o, 0, 4), t.sums.Offset(i*t.size))
		if i < mostRounded-2 {
			LEAQ(Mem{Base: o, Index: stride, Scale: 4}, o)
		}
	}
	Label(end)
}

// unpack makes bytes with sign of 32 inputs, unless codes are such bytes.
func (t *roundedRows) unpack(forms []blockForm) {
	done := unique("bytes")
	codes := argumentOf("blockCall.codes")
	for i := range forms[1:] {
		CMPQ(codes, imm(i+1))
		JEQ(LabelRef(tileLabel(done+"Form", i+1)))
	}
	for i, form := range forms {
		if i > 0 {
			Label(tileLabel(done+"Form", i))
		}
		t.unpackForm(form)
		if i+1 < len(forms) {
			JMP(LabelRef(done))
		}
	}
	Label(done)
}

// unpackForm unpacks 32 inputs of a form.
func (t *roundedRows) unpackForm(form blockForm) {
	for i := 0; i < form.Part()+form.Header()/form.parts(); i += lineBytes {
		PREFETCHT0(Mem{Base: t.w, Index: t.ahead, Scale: 1, Disp: i})
	}
	codes := t.of(t.w, form.Scales(), 4)
	if form.codes == eightBits {
		LEAQ(codes, t.from)
		return
	}
	MOVQ(t.bytes, t.from)
	u := newBlockUnpacker(t.blockSet, form, "blockCall.table")
	var less reg.VecVirtual
	if form.less > 0 {
		less = t.repeated(uint32(form.less) * 0x01010101)
	}
	for i := range form.vectorsOfCodes() {
		u.groups(codes, i, func(g int, v reg.VecVirtual) {
			if less != nil {
				VPSUBB(less, v, v)
			}
			t.move(v, Mem{Base: t.bytes, Disp: g * panelBytes})
		})
	}
}

// part adds 32 inputs, whose bytes are there.
func (t *roundedRows) part() {
	if t.form.halved() {
		t.loadFactors(1)
		t.move(t.scale, t.second)
		if t.form.HasMinima() {
			t.move(t.less, t.second.Offset(t.size))
		}
	}
	t.loadFactors(0)
	done := unique("done")
	rows := argumentOf("blockCall.rows")
	CMPQ(rows, Imm(2))
	JEQ(LabelRef(done + "Two"))
	JG(LabelRef(done + "Four"))
	t.rows(1)
	JMP(LabelRef(done))
	Label(done + "Two")
	t.rows(2)
	JMP(LabelRef(done))
	Label(done + "Four")
	t.rows(mostRounded)
	Label(done)
}

// loadFactors sets the factors of a half of the inputs.
func (t *roundedRows) loadFactors(half int) {
	first := t.of(t.w, 0, 1)
	scale, less := t.factorsAt(t.of(t.header, 0, 2), first, half)
	switch {
	case t.form.PowerOf2:
		t.timesFour(scale)
		t.move(scale, t.scale)
		return
	case t.form.sums == pairsSums:
		own := t.integer(first.Offset(half*panel), VPMOVZXBD)
		scale = t.times(scale, t.and(t.repeated(0x0000000f), own))
	}
	t.scaled(scale, less)
	t.move(scale, t.scale)
	if less != nil {
		t.move(less, t.less)
	}
}

// timesFour is four times a power of 2, which may be subnormal: 2⁻¹²⁸ and 2⁻¹²⁷ have a bit of the
// mantissa.
func (t *roundedRows) timesFour(d reg.VecVirtual) {
	one, subnormal := t.repeated(1), t.register()
	VPSRLD(Imm(22), d, subnormal)
	VPMINUD(one, subnormal, subnormal)
	VPSRLD(Imm(23), d, d)
	VPADDD(subnormal, d, d)
	VPADDD(one, d, d)
	VPSLLD(Imm(23), d, d)
}

// rows adds the products of some rows.
func (t *roundedRows) rows(rows int) {
	var chains [2][]reg.VecVirtual
	for i := range 2 * rows {
		v := t.register()
		if t.wide {
			VPXORD(v, v, v)
		} else {
			VPXOR(v, v, v)
		}
		chains[i%2] = append(chains[i%2], v)
	}
	MOVQ(U32(8), t.left)
	group := unique("group")
	Label(group)
	bytes := t.load(Mem{Base: t.from})
	for k := range 4 {
		w := t.weight(bytes, k)
		for i, sum := range chains[k%2] {
			t.add(w, t.row(i, 4*k), sum)
		}
	}
	ADDQ(imm(panelBytes), t.from)
	ADDQ(imm(16), t.first)
	if rows == mostRounded {
		ADDQ(imm(16), t.last)
	}
	DECQ(t.left)
	if t.form.halved() {
		other := unique("sameHalf")
		CMPQ(t.left, imm(4))
		JNE(LabelRef(other))
		t.move(t.second, t.scale)
		if t.form.HasMinima() {
			t.move(t.second.Offset(t.size), t.less)
		}
		Label(other)
		CMPQ(t.left, imm(0))
	}
	JNE(LabelRef(group))
	for i, sum := range chains[0] {
		at := t.sums.Offset(i * t.size)
		VADDPS(chains[1][i], sum, sum)
		VADDPS(at, sum, sum)
		t.move(sum, at)
	}
}

// row addresses a current input of a row.
func (t *roundedRows) row(i, at int) Mem {
	if i == mostRounded-1 {
		return Mem{Base: t.last, Disp: at}
	}
	m := Mem{Base: t.first, Disp: at}
	if i > 0 {
		m.Index, m.Scale = t.stride, uint8(i)
	}
	return m
}

// add adds weights times an input.
func (t *roundedRows) add(w reg.VecVirtual, input Mem, sum reg.VecVirtual) {
	if t.wide {
		VFMADD231PS_BCST(input, w, sum)
		return
	}
	v := YMM()
	VBROADCASTSS(input, v)
	VFMADD231PS(v, w, sum)
}

// weight is the weights of byte i of each 32 bits, in bfloat16.
func (t *roundedRows) weight(bytes reg.VecVirtual, i int) reg.VecVirtual {
	if !t.form.PowerOf2 {
		return t.rounded(bytes, i, t.scale, t.less)
	}
	v := t.number(bytes, i)
	t.multiply(bitsPower, v, v)
	VMULPS(t.scale, v, v) // a bfloat16 number, or 0
	return v
}
