package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// Weights of 15 bits and values of 8 bits: a weight is l + 128·h, where l has 7 bits and h 8, and
// h − 128 is a byte with sign. So SDOT makes the sums of l·v, of (h − 128)·v, and once for all rows
// of v, of which the weighted sum is Σ l·v + 128·Σ (h − 128)·v + 128·128·Σ v.

// int8ValueRows is the most rows of a tile: with 16 columns two sums for each row, and one for all.
const int8ValueRows = 2

// Registers of tiles of values.
var (
	sumsOfValues = from(16, panel/lanes)
	valueGroups  = from(20, panel/lanes)
)

const (
	int8Low  = Vec(24) // of each row the 7 low bits of weights, and the 8 high ones in the next
	int8Ones = Vec(28)
	int8Sign = Vec(29) // bytes of 128
	int8Swap = Vec(30) // of four words the order 0, 2, 1, 3; of bytes
	int8Temp = Vec(31)
)

// sumOf is the first of the registers with the sums of a row, of low bits or of high ones.
func sumOf(row, digit int) Vec { return Vec((2*row + digit) * len(valueGroups)) }

func (p *program) accumulateInt8() {
	t := int8Kernel{program: p}
	t.weighted("accumulateInt8Generic", "accumulateInt8Dot")
}

// weighted emits a kernel that adds weighted values to outputs.
func (t *int8Kernel) weighted(like, name string) {
	t.kernelLike(like, name, 0, "x", "")
	t.sumsArguments()
	t.LslImm(aStride, aStride, 1)
	t.loadTable()
	const ones = 0x01010101
	t.constant(int8Ones, t.words("bytes of 1", ones, ones, ones, ones))
	t.constant(int8Sign, t.bytesOf128())
	const order = 0x03010200
	t.constant(int8Swap, t.words("bytes 0, 2, 1, 3 of each four", order, order+4*ones, order+8*ones,
		order+12*ones))
	if t.codes {
		t.Mov(codesTable, table)
	}
	t.outputs() // after the constants: one of them had the register of half
	t.arg("x", alphaFirst8)
	t.field(alphaFirst8, alphaFirst8, "SumsCall.Alpha")
	t.panelLoop(int8ValueRows, t.valueTile)
}

// bytesOf128 is the offset of that.
func (p *program) bytesOf128() int {
	const signs = 0x80808080
	return p.words("bytes of 128", signs, signs, signs, signs)
}

// Registers of alpha: of the first row, and of the tile's.
const alphaFirst8, alpha8 = R24, R16

// valueTile computes r rows of a panel and moves on by these rows.
func (t *int8Kernel) valueTile(r int) {
	t.Comment("%d rows.", r)
	for _, v := range from(0, 2*r*len(valueGroups)) {
		t.Zero(v)
	}
	for _, v := range sumsOfValues {
		t.Zero(v)
	}
	t.rowPointers(r)
	loop, tail, one, end := t.label("groups"), t.label("tail"), t.label("one"), t.label("end")
	t.SubsImm(stepsLeft, steps, 4)
	t.Bcond(LT, tail)
	t.Label(loop)
	t.digits(r, true)
	for lane := range 4 {
		t.valueStep(r, lane, lane%2)
	}
	t.SubsImm(stepsLeft, stepsLeft, 4)
	t.Bcond(GE, loop)
	t.Label(tail)
	t.AddImm(stepsLeft, stepsLeft, 4)
	t.Cbz(stepsLeft, end)
	t.Label(one)
	t.oneGroup(r, 0)
	if t.codes {
		t.Cbz(stepsLeft, end)
		t.oneGroup(r, 1)
	}
	t.Cbnz(stepsLeft, one)
	t.Label(end)
	for _, v := range sumsOfValues {
		t.Shl(v, v, 14)
	}
	for i := range r {
		t.finishValues(i)
	}
	t.nextRows(r)
}

// oneGroup multiplies one group; for codes, the one in the lower or in the upper halves.
func (t *int8Kernel) oneGroup(r, half int) {
	t.digits(r, false)
	t.valueStep(r, 0, half)
	t.SubImm(stepsLeft, stepsLeft, 1)
}

// digits loads the weights of r rows. Codes need registers that they use.
func (t *int8Kernel) digits(r int, four bool) {
	if t.codes {
		t.LdrQ(int8Sign, codesTable, t.bytesOf128())
	}
	for i := range r {
		t.weightDigits(i, four)
	}
	if t.codes {
		t.LdrQ(int8Temp, codesTable, t.levels())
		t.LdrQ(int8Sign, codesTable, t.lowerHalves())
	}
}

// weightDigits loads the weights of four groups of a row, or of one, and divides them in two.
func (t *int8Kernel) weightDigits(i int, four bool) {
	low, high, at := int8Low+Vec(2*i), int8Low+Vec(2*i)+1, a0+Reg(i)
	if four {
		t.LdrQPost(low, at)
		t.LdrQPost(high, at)
	} else {
		t.LdrD(low, at, 0)
		t.AddImm(at, at, 8)
		t.Zero(high)
	}
	t.Uzp1B(int8Temp, low, high)
	t.AddH(low, low, low)
	t.AddH(high, high, high)
	t.Uzp2B(high, low, high)
	t.Bic(low, int8Temp, int8Sign)
	t.Eor(high, high, int8Sign)
	t.Tbl1(low, low, int8Swap)
	t.Tbl1(high, high, int8Swap)
}

// valueStep multiplies a group of four values by the weights in a lane.
func (t *int8Kernel) valueStep(r, lane, half int) {
	if t.codes {
		t.codesOfValues(half)
	} else {
		t.Ld1(valueGroups, b0)
		t.Add(b0, b0, bStride)
	}
	for v, b := range valueGroups {
		t.SdotLane(sumsOfValues[v], b, int8Ones, 0)
	}
	for i := range r {
		for digit := range 2 {
			for v, b := range valueGroups {
				t.SdotLane(sumOf(i, digit)+Vec(v), b, int8Low+Vec(2*i+digit), lane)
			}
		}
	}
}

// finishValues adds the weighted sums of row i to its outputs.
func (t *int8Kernel) finishValues(i int) {
	for v := range Vec(len(valueGroups)) {
		sum, high := sumOf(i, 0)+v, sumOf(i, 1)+v
		t.Shl(high, high, 7)
		t.AddI(sum, sum, high)
		t.AddI(sum, sum, sumsOfValues[v])
		t.Scvtf(sum, sum)
	}
	begin, plain, ready := t.label("begin"), t.label("plain"), t.label("ready")
	t.LdrS(int8Low, int8Factor, 0)
	t.Add(int8Factor, int8Factor, int8Stride)
	t.Cbz(halfPanel, begin)
	for _, v := range valueGroups {
		t.Zero(v)
	}
	t.B(ready)
	t.Label(begin)
	t.Ld1(valueGroups, cTile)
	t.Cbz(alpha8, plain)
	t.Ld1rPost(int8Temp, alpha8)
	for _, v := range valueGroups {
		t.Fmul(v, v, int8Temp)
	}
	t.Label(plain)
	t.Label(ready)
	for v, o := range valueGroups {
		t.FmlaLane(o, sumOf(i, 0)+Vec(v), int8Low, 0)
	}
	t.St1(valueGroups, cTile)
	t.Add(cTile, cTile, cStride)
}

// weightsInt8 makes integers of rows of weights, and leaves the products of weights and scales in
// their place. It reports whether some row has a largest product that is NaN, infinite or below
// 2⁻¹⁰⁰.
func (p *program) weightsInt8() {
	const w, f, s, scales, visible, rows, rare, bits, tmp, at = R0, R1, R2, R3, R4, R5, R6, R7, R8, R9
	const keep, top, quotient, range32767, order = Vec(20), Vec(21), Vec(22), Vec(23), Vec(24)
	p.kernelLike("integersOfProducts", "weightsInt8Dot", 0, "w f s scales visible rows", "rare:bool")
	for _, a := range []struct {
		name string
		to   Reg
	}{{"w", w}, {"f", f}, {"s", s}, {"scales", scales}, {"visible", visible}, {"rows", rows}} {
		p.arg(a.name, a.to)
	}
	p.MovImm(rare, 0)
	p.loadTable()
	const float32767 = 0x46fffe00
	p.constant(range32767, p.words("32767", float32767, float32767, float32767, float32767))
	p.constant(order, p.words("words 0, 2, 1, 3 of each four", 0x05040100, 0x07060302, 0x0d0c0908,
		0x0f0e0b0a))
	bit := from(25, 4)
	for i, v := range bit {
		p.constant(v, p.bitsOfLanes(i))
	}
	x, factors := from(0, 16), from(16, 4)
	p.Label("row")
	p.MovImm(bits, -1)
	p.Cbz(visible, "all")
	p.LdrPost(bits, visible)
	p.Label("all")
	p.Mov(at, scales)
	p.Mov(tmp, s)
	for i := 0; i < len(x); i += 4 {
		p.Ld1Post(x[i:i+4], s)
		p.Ld1Post(factors, at)
		p.DupReg(keep, bits)
		p.LsrImm(bits, bits, 16)
		for j := range 4 {
			p.Fmul(x[i+j], x[i+j], factors[j])
			p.Cmtst(top, bit[j], keep)
			p.And(x[i+j], x[i+j], top)
		}
		p.St1Post(x[i:i+4], tmp)
	}
	p.Fmax(top, x[0], x[1])
	for _, v := range x[2:] {
		p.Fmax(top, top, v)
	}
	p.Fmaxv(top, top)
	p.Umov(bits, top, 0)
	p.MovImm(tmp, smallTop)
	p.Sub(bits, bits, tmp)
	p.MovImm(tmp, bitsInf-smallTop)
	p.CmpImm(bits, 0)
	p.Bcond(LT, "rare")
	p.Cmp(bits, tmp)
	p.Bcond(GE, "rare")
	p.Dup(top, top, 0)
	p.Fdiv(quotient, range32767, top)
	p.Fdiv(top, top, range32767)
	p.StrSPost(top, f)
	for _, v := range x {
		p.Fmul(v, v, quotient)
		p.Fcvtns(v, v)
	}
	for i := 0; i < len(x); i += 2 {
		p.Sqxtn(top, x[i])
		p.Sqxtn2(top, x[i+1])
		p.Tbl1(top, top, order)
		p.StrQPost(top, w)
	}
	p.B("next")
	p.Label("rare")
	p.MovImm(rare, 1)
	p.AddImm(f, f, 4)
	p.AddImm(w, w, 2*block)
	p.Label("next")
	p.SubImm(rows, rows, 1)
	p.Cbnz(rows, "row")
	p.boolResult("rare", rare)
	p.Ret()
}

const (
	bitsInf  = 0x7f800000
	smallTop = 0x0d800000 // 2⁻¹⁰⁰
)
