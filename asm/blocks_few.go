package main

import (
	"slices"

	. "github.com/seed-1415985d/attn/asm/internal/neon"
	"github.com/seed-1415985d/attn/internal/dev/blocktypes"
)

// Products of few rows by blocks as they lie in memory. They wait for memory, so it is read in one
// stream, panel after panel; codes become bytes in registers and are multiplied at once, and memory
// is requested ahead in the same stream, which goes on at another place where the caller's ends.

// General registers of few rows.
const (
	fewOut     = R0  // outputs of the first row
	fewRow     = R1  // inputs of the first row
	fewScales  = R2  // scales of the current 32 inputs
	fewWords   = R25 // and their words
	fewOStride = R3  // bytes between rows of outputs
	fewStride  = R4  // bytes between rows of inputs
	fewRequest = R5  // the address to prefetch
	fewNext    = R6  // and the address after the end of the stream
	fewBefore  = R7  // before which there are so many blocks
	fewRows    = R8  // how many rows
	fewPanels  = R9  // panels left
	fewBlocks  = R10 // blocks of a panel
	fewLeft    = R11 // blocks left
	fewPart    = R12 // parts left
	fewD       = R13 // the block's d
	fewNew     = R14 // do outputs begin with 0?
)

// fewAt points to the current inputs of a row, fewOutOf to its outputs.
func fewAt(i int) Reg    { return R20 + Reg(i) }
func fewOutOf(i int) Reg { return R15 + Reg(i) + Reg(i/3) } // R18 is reserved

// Vectors of few rows, in the same place for all types; the first sixteen are the tile's.
var (
	fewCodesOf = from(16, 4) // words, and bytes made of them
	fewInputs  = from(20, 4) // of each row
	fewUpper   = from(24, 4) // words of upper bits
	fewMoved   = from(28, 2) // some of these
	fewFree    = from(16, 14)
)

const (
	fewMask   = Vec(30) // 15 in each byte, 3 for pairs of bits
	fewOther  = Vec(31) // another mask
	fewLevels = Vec(31) // or levels of codes
)

// fewTile is one, two or four rows by panels.
type fewTile struct {
	*program
	fewForm
	rows    int
	vectors int // of outputs that are computed together

	acc    [2][]Vec // sums of products, of the halves of inputs if they are apart
	sums   []Vec    // of one and two rows; else they stay in memory
	shared []Vec    // of one row: d and its multiples, of blocks that share it
	bias   []Vec    // start of the sums of products, if there is a register for it
	free   []Vec    // for a step
}

// fewKernels emits them for all types.
func (p *program) fewKernels() {
	for _, row := range blocktypes.Rows {
		if row.FewDot != "" {
			p.multiplyFew(row.FewDot, formOf(row.Type))
		}
	}
}

// multiplyFew emits products of 1, 2 and 4 rows by panels.
func (p *program) multiplyFew(name string, form fewForm) {
	p.kernelLike("multiplyBlocksGeneric", name, 0, "x", "")
	p.fewArguments()
	p.loadTable()
	for _, rows := range form.tiles() {
		other := p.label("rows")
		p.CmpImm(fewRows, rows)
		p.Bcond(NE, other)
		t := fewTile{program: p, fewForm: form, rows: rows}
		t.layout()
		t.constants()
		t.emit()
		p.Ret()
		p.Label(other)
	}
	p.Ret()
}

// fewArguments loads all arguments.
func (p *program) fewArguments() {
	p.arg("x", fewD)
	p.field(fewOut, fewD, "blockCall.o")
	p.field(fewRow, fewD, "blockCall.a")
	p.field(fewScales, fewD, "blockCall.w")
	p.field(fewRequest, fewD, "blockCall.request")
	p.field(fewNext, fewD, "blockCall.next")
	p.field(fewRows, fewD, "blockCall.rows")
	p.field(fewPanels, fewD, "blockCall.panels")
	p.field(fewBlocks, fewD, "blockCall.blocks")
	p.field(fewOStride, fewD, "blockCall.oStride")
	p.LslImm(fewOStride, fewOStride, 2)
	p.field(fewStride, fewD, "blockCall.aStride")
	p.MovImm(fewLeft, blockRowSize)
	p.Mul(fewStride, fewStride, fewLeft)
	p.field(fewBefore, fewD, "blockCall.before")
	p.byteField(fewNew, fewD, "blockCall.overwrite")
}

// layout gives vectors their registers.
func (t *fewTile) layout() {
	t.vectors = 4
	if t.halved() && t.rows > 1 {
		t.vectors = 2
	}
	t.free = from(0, 16)
	t.acc[0] = t.take(t.rows * t.vectors)
	if t.halved() {
		t.acc[1] = t.take(t.rows * t.vectors)
	}
	if t.rows < 4 {
		t.sums = t.take(t.rows * 4)
	}
	if t.rows == 1 && t.parts > 1 {
		t.shared = t.take(t.Header() / 8)
	}
	switch {
	case t.codes == eightBits || t.codes == fourBits:
		t.bias = []Vec{fewOther}
	case len(t.free) > 0:
		t.bias = t.take(1)
	}
	t.free = fewFree
}

// constants loads the constants of unpacking.
func (t *fewTile) constants() {
	if t.bias != nil {
		t.constant(t.bias[0], t.float(sumBias))
	}
	switch t.codes {
	case eightBits:
	case threeBits:
		t.bytesOf(fewMask, 3)
	default:
		t.bytesOf(fewMask, 0x0f)
	}
	switch t.codes {
	case threeBits:
		t.bytesOf(fewOther, 4)
	case fourBitLevels:
		name, words := t.levelWords()
		t.constant(fewLevels, t.words(name, words...))
	case fiveBits:
		t.bytesOf(fewOther, 0x10)
	case sixBits:
		t.bytesOf(fewOther, 0x3f)
	}
}

// bytesOf has a byte in all lanes.
func (t *fewTile) bytesOf(to Vec, b int64) {
	t.MovImm(fewD, b*0x01010101)
	t.DupReg(to, fewD)
}

// take reserves n of the free registers.
func (t *fewTile) take(n int) []Vec {
	some := t.free[:n:n]
	t.free = t.free[n:]
	return some
}

// with lends free registers to a step.
func (t *fewTile) with(step func()) {
	before := t.free
	step()
	t.free = before
}

// emit walks over panels and their blocks.
func (t *fewTile) emit() {
	panelLoop, blockLoop, partLoop := t.label("panel"), t.label("block"), t.label("part")
	t.Label(panelLoop)
	t.Mov(fewAt(0), fewRow)
	t.Mov(fewOutOf(0), fewOut)
	for i := 1; i < t.rows; i++ {
		t.Add(fewAt(i), fewAt(i-1), fewStride)
		t.Add(fewOutOf(i), fewOutOf(i-1), fewOStride)
	}
	t.begin()
	t.Mov(fewLeft, fewBlocks)
	t.Label(blockLoop)
	t.Mov(fewD, fewScales)
	t.AddImm(fewScales, fewScales, t.Header())
	if t.parts == 1 {
		t.request(t.Header() + t.Part())
		t.part()
	} else {
		t.request(t.Header())
		if t.shared != nil {
			t.halves(t.shared[:4], 0)
			if t.Header() > 2*panel {
				t.halves(t.shared[4:], 2*panel)
			}
		}
		t.MovImm(fewPart, int64(t.parts))
		t.Label(partLoop)
		t.request(t.Part())
		t.part()
		t.SubImm(fewPart, fewPart, 1)
		t.Cbnz(fewPart, partLoop)
	}
	t.SubsImm(fewBefore, fewBefore, 1)
	t.Csel(EQ, fewRequest, fewNext, fewRequest)
	t.SubImm(fewLeft, fewLeft, 1)
	t.Cbnz(fewLeft, blockLoop)
	for i := range t.rows {
		t.outputs(i, t.StpQ)
	}
	t.AddImm(fewOut, fewOut, panelBytes)
	t.SubImm(fewPanels, fewPanels, 1)
	t.Cbnz(fewPanels, panelLoop)
}

// request requests some bytes.
func (t *fewTile) request(bytes int) {
	for i := 0; i < bytes; i += lineBytes {
		t.PrefetchL1(fewRequest, i)
	}
	t.AddImm(fewRequest, fewRequest, bytes)
}

// outputs loads or stores the sums of a row, if they are in registers.
func (t *fewTile) outputs(i int, move func(d, e Vec, base Reg, offset int)) {
	if t.sums == nil {
		return
	}
	for v := 0; v < 4; v += 2 {
		move(t.sums[4*i+v], t.sums[4*i+v+1], fewOutOf(i), v*vector)
	}
}

// begin loads sums, or makes them 0.
func (t *fewTile) begin() {
	load, ready := t.label("load"), t.label("ready")
	t.Cbz(fewNew, load)
	for _, v := range t.sums {
		t.Zero(v)
	}
	if t.sums == nil {
		zeros := t.acc[0][:4]
		for _, v := range zeros {
			t.Zero(v)
		}
		for i := range t.rows {
			t.St1(zeros, fewOutOf(i))
		}
	}
	t.B(ready)
	t.Label(load)
	for i := range t.rows {
		t.outputs(i, t.LdpQ)
	}
	t.Label(ready)
}

// part adds the products of 32 inputs, and goes on to the next ones.
func (t *fewTile) part() {
	t.AddImm(fewWords, fewScales, t.Scales())
	for first := 0; first < 4; first += t.vectors {
		t.with(t.start)
		for half := range 2 {
			t.products(half, first)
		}
		t.with(func() { t.add(first) })
	}
	for i := range t.rows {
		t.AddImm(fewAt(i), fewAt(i), blockRowSize)
	}
	t.AddImm(fewScales, fewScales, t.Part())
}

// of is the registers of a row.
func (t *fewTile) of(all []Vec, i int) []Vec { return all[i*t.vectors : (i+1)*t.vectors] }

// halvesOfSums are the sums of products, of both halves of inputs if they are apart.
func (t *fewTile) halvesOfSums() [][]Vec {
	if t.halved() {
		return t.acc[:]
	}
	return t.acc[:1]
}

// Sums of products begin at 1.5·2²³, as the bits of a float: a whole number that is added to these
// bits is added to the float, which becomes that number by a subtraction, exactly. A conversion
// would cost two operations, which only half of the units of some processors execute.
const sumBias = 0x1.8p23

// beginning has sumBias in all lanes.
func (t *fewTile) beginning() Vec {
	if t.bias != nil {
		return t.bias[0]
	}
	bias := t.free[len(t.free)-1]
	t.constant(bias, t.float(sumBias))
	return bias
}

// start begins sums of products.
func (t *fewTile) start() {
	bias := t.beginning()
	if !t.less {
		for _, v := range slices.Concat(t.acc[:]...) {
			t.MovV(v, bias)
		}
		return
	}
	fields := t.take(t.rows)
	for i, x := range fields {
		t.LdrQ(x, fewAt(i), blockRowScale)
	}
	for _, x := range fields {
		if t.shift > 0 {
			t.Sshr(x, x, t.shift)
		}
		t.AddI(x, x, bias)
	}
	for half, sums := range t.halvesOfSums() {
		lane := 1 // of all inputs
		if t.halved() {
			lane = 2 + half
		}
		for i, x := range fields {
			for _, v := range t.of(sums, i) {
				t.Dup(v, x, lane)
			}
		}
	}
}

// products adds the products of one half of the inputs.
func (t *fewTile) products(half, first int) {
	rows, words, upper := fewInputs[:t.rows], fewCodesOf[:t.vectors], fewUpper[:t.vectors]
	for i, x := range rows {
		t.LdrQ(x, fewAt(i), 16*half)
	}
	sums := t.acc[0]
	if t.halved() {
		sums = t.acc[half]
	}
	switch {
	case t.codes == sixBits:
		t.load(upper, 4+half, first)
	case t.codes == fiveBits && half == 0: // which both halves have bits in
		t.load(upper, 4, first)
	case t.codes == threeBits && half == 0:
		t.load(upper, 2, first)
	}
	for g := range 4 {
		switch t.codes {
		case eightBits:
			t.load(words, 4*half+g, first)
		case threeBits:
			if g == 0 {
				t.load(words, half, first)
			}
		default:
			t.load(words, g, first)
		}
		bytes := t.unpack(words, upper, half, g)
		for i, x := range rows {
			for v, sum := range t.of(sums, i) {
				t.SdotLane(sum, bytes[v], x, g)
			}
		}
	}
}

// load loads the words of the current outputs.
func (t *fewTile) load(to []Vec, word, first int) {
	at := word*panelBytes + first*vector
	for v := 0; v < len(to); v += 2 {
		t.LdpQ(to[v], to[v+1], fewWords, at+v*vector)
	}
}

// unpack makes bytes of the lower or the upper halves of words, and of words of upper bits.
func (t *fewTile) unpack(words, upper []Vec, half, g int) []Vec {
	switch t.codes {
	case eightBits:
		return words
	case sixBits:
		return t.sixBits(words, upper, half, g)
	case threeBits:
		return t.threeBits(words, upper, half, g)
	}
	for _, w := range words {
		if half == 0 {
			t.And(w, w, fewMask)
		} else {
			t.UshrB(w, w, 4)
		}
	}
	switch t.codes {
	case fourBitLevels:
		for _, w := range words {
			t.Tbl1(w, fewLevels, w)
		}
	case fiveBits:
		for v, w := range words {
			t.oneMore(w, upper[v], fewMoved[v%2], 4*half+g, 4)
		}
	}
	return words
}

// oneMore inserts one bit of each byte into the codes, at the position that fewOther gives.
func (t *fewTile) oneMore(codes, bits, moved Vec, bit, place int) {
	switch {
	case bit < place:
		t.ShlB(moved, bits, place-bit)
	case bit == place:
		moved = bits
	default:
		t.UshrB(moved, bits, bit-place)
	}
	t.Bit(codes, moved, fewOther)
}

// threeBits are a pair of the bits of words, and above it a bit of others.
func (t *fewTile) threeBits(words, bits []Vec, half, pair int) []Vec {
	bytes, moved := t.besideUpper(), fewCodesOf[3]
	if t.vectors == 4 {
		moved = fewInputs[3] // of one row
	}
	for v, x := range bytes {
		word := words[v]
		if pair > 0 {
			t.UshrB(x, word, 2*pair)
			word = x
		}
		if pair < 3 {
			t.And(x, word, fewMask)
		}
	}
	for v, x := range bytes {
		t.oneMore(x, bits[v], moved, 4*half+pair, 2)
	}
	return bytes
}

// besideUpper returns registers for bytes that do not overlap the words. One row has four vectors.
func (t *fewTile) besideUpper() []Vec {
	return append(fewMoved[:2:2], fewInputs[1:]...)[:t.vectors]
}

// sixBits are a pair of the bits of bytes, and below it the lower or the upper halves of words.
func (t *fewTile) sixBits(words, pairs []Vec, half, pair int) []Vec {
	bytes := t.besideUpper()
	for v, x := range bytes {
		switch pair {
		case 0:
			t.ShlB(x, pairs[v], 4)
			t.And(x, x, fewOther)
		case 1:
			t.ShlB(x, pairs[v], 4)
			t.UshrB(x, x, 2)
		case 2:
			t.And(x, pairs[v], fewOther)
		case 3:
			t.UshrB(x, pairs[v], 2)
		}
	}
	for v, x := range bytes {
		if half == 0 {
			t.Bit(x, words[v], fewMask)
		} else {
			t.SriB(x, words[v], 4)
		}
	}
	return bytes
}

// add makes floats of sums of products and adds them, some vectors at a time.
func (t *fewTile) add(first int) {
	fields := t.take(t.rows)
	for i, x := range fields {
		t.LdrQ(x, fewAt(i), blockRowScale)
	}
	var totals []Vec
	if t.kind == minimaSums || t.kind == offsetSums {
		totals = t.take(t.rows)
		for i, x := range totals {
			t.LdrS(x, fewAt(i), blockRowSum)
			t.Scvtf(x, x)
		}
	}
	n := max(1, 4/t.rows)
	for at := 0; at < t.vectors; at += n {
		t.with(func() {
			x := fewSums{t, first + at, n, fields, totals}
			t.with(func() { x.floats(at) })
			x.add(at)
		})
	}
}

// fewSums is some vectors of sums, the first of which has a number among all four of a panel.
type fewSums struct {
	*fewTile
	number, n int
	fields    []Vec // of each row: lane 0 has its scale
	totals    []Vec // the sum of its inputs
}

// products are the sums of products of a row.
func (t *fewSums) products(half, i, at int) []Vec { return t.of(t.acc[half], i)[at : at+t.n] }

// floats makes floats of sums of products, times the scales of the 32 inputs.
func (t *fewSums) floats(at int) {
	bias := t.beginning()
	for half := range t.halvesOfSums() {
		for i := range t.rows {
			for _, v := range t.products(half, i, at) {
				t.Fsub(v, v, bias)
			}
		}
	}
	switch t.kind {
	case scaledSums:
		t.times(t.bytes(0, true), at)
	case minimaSums:
		t.times(t.bytes(0, false), at)
	case halvesSums:
		first, second := t.bytes(0, true), t.bytes(panel, true)
		t.times(first, at)
		for i := range t.rows {
			for v, sum := range t.products(0, i, at) {
				t.Fmla(sum, t.products(1, i, at)[v], second[v]) // an integer below 2²⁴
			}
		}
	}
}

// times multiplies sums of products by scales, which is exact for the scales of a file.
func (t *fewSums) times(scale []Vec, at int) {
	for i := range t.rows {
		for v, sum := range t.products(0, i, at) {
			t.Fmul(sum, sum, scale[v])
		}
	}
}

// add adds floats times a·d to the sums, and the minima times the sum of the inputs.
func (t *fewSums) add(at int) {
	d := t.d(0)
	var least, other []Vec
	switch t.kind {
	case minimaSums:
		least = t.bytes(panel, false)
		other = t.d(1)
	case offsetSums:
		other = t.d(1)
	}
	factors := t.take(t.n)
	for i, x := range t.fields {
		sums, products := t.begun(i), t.products(0, i, at)
		t.timesScale(factors, d, x)
		for v, sum := range sums {
			t.Fmla(sum, products[v], factors[v])
		}
		if other != nil {
			t.timesScale(factors, other, x)
		}
		for v, sum := range sums {
			switch t.kind {
			case minimaSums:
				t.FmulLane(products[v], least[v], t.totals[i], 0) // exact
				t.Fmls(sum, products[v], factors[v])
			case offsetSums:
				t.FmlaLane(sum, factors[v], t.totals[i], 0)
			}
		}
		t.store(sums, i)
	}
}

// timesScale is d times the scale of a row.
func (t *fewSums) timesScale(to, d []Vec, fields Vec) {
	for v := range to {
		t.FmulLane(to[v], d[v], fields, 0)
	}
}

// begun is the registers of the sums of a row, which are in memory for four rows.
func (t *fewSums) begun(i int) []Vec {
	if t.sums != nil {
		return t.sums[4*i+t.number:][:t.n]
	}
	sums := t.free[i%2 : i%2+t.n] // of which n is 1
	t.LdrQ(sums[0], fewOutOf(i), t.number*vector)
	return sums
}

func (t *fewSums) store(sums []Vec, i int) {
	if t.sums == nil {
		t.StrQ(sums[0], fewOutOf(i), t.number*vector)
	}
}

// d is the numbers of the block with a number.
func (t *fewSums) d(i int) []Vec {
	if t.shared != nil {
		return t.shared[4*i+t.number:][:t.n]
	}
	d := t.take(t.n)
	t.halves(d, 2*panel*i+8*t.number)
	return d
}

// bytes converts the bytes at an offset of the 32 inputs to floats: a byte becomes the lowest bits
// of 2²³, which is then subtracted. 128 is added to signed bytes before.
func (t *fewSums) bytes(offset int, signed bool) []Vec {
	const exponent, signs = 0x4b004b00, 0x80808080 // of 2²³, in both halves; of bytes
	to, others := t.take(t.n), t.free[len(t.free)-2:]
	upper, less := others[0], others[1]
	bias := float32(1 << 23)
	offset += 4 * t.number
	switch t.n {
	case 4:
		t.LdrQ(to[0], fewScales, offset)
	case 2:
		t.LdrD(to[0], fewScales, offset)
	case 1:
		t.LdrS(to[0], fewScales, offset)
	}
	if signed {
		bias += 128
		t.constant(less, t.words("sign bits of bytes", signs, signs, signs, signs))
		t.Eor(to[0], to[0], less)
	}
	t.constant(upper, t.words("halves of 2²³", exponent, exponent, exponent, exponent))
	t.constant(less, t.float(bias))
	if t.n == 4 {
		t.UxtlB2(to[2], to[0])
	}
	t.UxtlB(to[0], to[0])
	for v := 0; v < t.n; v += 2 {
		if t.n > 1 {
			t.Zip2H(to[v+1], to[v], upper)
		}
		t.Zip1H(to[v], to[v], upper)
	}
	for _, x := range to {
		t.Fsub(x, x, less)
	}
	return to
}

// halves makes floats of numbers in 16 bits at an offset of the block.
func (t *fewTile) halves(to []Vec, offset int) {
	low, high := t.Fcvtl, t.Fcvtl2
	if t.PowerOf2 {
		low, high = t.Shll, t.Shll2
	}
	switch len(to) {
	case 4:
		t.LdpQ(to[0], to[2], fewD, offset)
		high(to[1], to[0])
		low(to[0], to[0])
		high(to[3], to[2])
		low(to[2], to[2])
	case 2:
		t.LdrQ(to[0], fewD, offset)
		high(to[1], to[0])
		low(to[0], to[0])
	case 1:
		t.LdrD(to[0], fewD, offset)
		low(to[0], to[0])
	}
}
