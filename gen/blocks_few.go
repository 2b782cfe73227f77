package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Products of few rows by blocks as they lie in memory. They wait for memory, so it is read in one
// stream, panel after panel; codes become bytes in registers and are multiplied at once, and memory
// is requested ahead in the same stream, which goes on at another place where the caller's ends.

// fewTile is some rows by panels.
type fewTile struct {
	*blockUnpacker
	rows   int
	words  int    // of AVX2: how many groups of products words hold, 1 for bytes with sign
	shift  uint64 // shift of the start of sums: 128 >> shift was added to bytes
	stride reg.GPVirtual
	at     [3]reg.GPVirtual // current inputs of row 0 and, if there are as many, of rows 3 and 6
	d, w   reg.GPVirtual    // the block's current scales, codes
	half   reg.GPVirtual    // for AVX2: the first of the current outputs, 0 or 8
	signs  digitSigns       // of trits with 8 lanes
	sums   []reg.VecVirtual // with 16 lanes, and with VNNI for the current outputs
	frame  Mem              // with 8 lanes
	o      Mem              // slots: the first row of outputs of the current panel
	next   Mem              // and the next address to prefetch
	// With 16 lanes, for blocks that share d: d, the factor of the minima, and the number that floats
	// of sums of products begin with.
	dShared, minShared, lift reg.VecVirtual
}

// multiplyFew emits products of 1 to 4 rows by panels, and of some types 8 or at most 2. Of 3 rows
// the last one is computed twice.
func (s blockSet) multiplyFew(name string, form blockForm, eight bool) {
	TEXT(name, noSplit, context)
	rows := argumentOf("blockCall.rows")
	var frame Mem
	if !s.wide || form.codes == entriesOfBook {
		frame = AllocLocal(4 * panelBytes)
	}
	counts := []int{1, 2, 4}
	switch {
	case form.mostRows() == 2:
		counts = counts[:2]
	case eight:
		counts = append(counts, 8)
		CMPQ(rows, Imm(8))
		JEQ(LabelRef(tileLabel("rows", 8)))
	}
	CMPQ(rows, Imm(2))
	JEQ(LabelRef(tileLabel("rows", 2)))
	if len(counts) > 2 {
		JG(LabelRef(tileLabel("rows", 4)))
	}
	var o, next Mem
	stackSlots(&o, &next)
	for _, r := range counts {
		Label(tileLabel("rows", r))
		t := fewTile{rows: r, words: s.fewWords(form), shift: s.fewShift(form), frame: frame, o: o,
			next: next}
		t.blockUnpacker = newBlockUnpacker(s, form, "blockCall.table")
		t.emit()
	}
}

// share loads the values that neighbouring blocks share, if there are registers for them.
func (t *fewTile) share() {
	if !t.wide || t.form.codes == trits || t.form.sums == floatsSums ||
		t.rows == 8 && t.form.halved() {
		return
	}
	t.dShared = t.loadD(Mem{Base: t.d})
	if t.form.codes == entriesOfBook {
		VMULPS(t.repeated(math.Float32bits(t.book.Unit)), t.dShared, t.dShared) // exact
	}
	if t.form.sums == minimaSums {
		t.minShared = t.loadD(Mem{Base: t.d, Disp: 2 * panel})
	}
}

// row addresses a field of the current inputs of a row.
func (t *fewTile) row(i, field int) Mem {
	m := Mem{Base: t.at[i/3], Disp: field}
	if i%3 > 0 {
		m.Index, m.Scale = t.stride, uint8(i%3)
	}
	return m
}

// emit walks over panels and their blocks.
func (t *fewTile) emit() {
	request, before, panels, blocks, left := GP64(), GP64(), GP64(), GP64(), GP64()
	t.stride, t.w, t.d, t.half = GP64(), GP64(), GP64(), GP64()
	x := param("x")
	MOVQ(fieldOf(x, "blockCall.o"), request)
	MOVQ(request, t.o)
	MOVQ(fieldOf(x, "blockCall.next"), request)
	MOVQ(request, t.next)
	MOVQ(fieldOf(x, "blockCall.request"), request)
	MOVQ(fieldOf(x, "blockCall.before"), before)
	MOVQ(fieldOf(x, "blockCall.panels"), panels)
	MOVQ(fieldOf(x, "blockCall.aStride"), t.stride)
	MOVQ(fieldOf(x, "blockCall.w"), t.w)
	IMUL3Q(imm(blockRowSize), t.stride, t.stride)
	for i := range (t.rows + 2) / 3 {
		t.at[i] = GP64()
	}
	panelLoop, blockLoop, partLoop := unique("panel"), unique("block"), unique("part")
	Label(panelLoop)
	argument("blockCall.a", t.at[0])
	if t.rows > 3 {
		LEAQ(Mem{Base: t.at[0], Index: t.stride, Scale: 2}, t.at[1])
		t.unlessThree(func() { ADDQ(t.stride, t.at[1]) })
	}
	if t.rows > 6 {
		LEAQ(Mem{Base: t.at[1], Index: t.stride, Scale: 2}, t.at[2])
		ADDQ(t.stride, t.at[2])
	}
	t.begin()
	if t.lift == nil && t.wide && t.form.sums == minimaSums {
		t.lift = t.repeated(sumBias)
	}
	argument("blockCall.blocks", blocks)
	Label(blockLoop)
	MOVQ(t.w, t.d)
	ADDQ(imm(t.form.Header()), t.w)
	if t.form.codes == trits && t.rows == 1 {
		t.request(request, t.form.Header()+t.form.shared())
		t.tritsOfRow()
		ADDQ(imm(t.form.Header()+t.form.shared()), request)
		ADDQ(imm(8*blockRowSize), t.at[0])
		ADDQ(imm(t.form.shared()), t.w)
	} else if t.form.codes == entriesOfBook && !t.wide {
		t.bookOfRow(request)
		ADDQ(imm(t.form.parts()*t.form.Part()), t.w)
		ADDQ(imm(t.form.parts()*blockRowSize), t.at[0])
	} else if parts := t.form.parts(); parts > 1 {
		begun := t.form.Header() + t.form.shared()
		t.request(request, begun)
		ADDQ(imm(begun), request)
		MOVQ(U32(parts), left)
		t.share()
		Label(partLoop)
		t.request(request, t.form.Part())
		t.beginBlock(left)
		t.block()
		ADDQ(imm(t.form.Part()), request)
		DECQ(left)
		JNE(LabelRef(partLoop))
		ADDQ(imm(t.form.shared()), t.w)
	} else {
		t.request(request, t.form.Header()+t.form.Part())
		t.block()
		ADDQ(imm(t.form.Header()+t.form.Part()), request)
	}
	DECQ(before)
	CMOVQEQ(t.next, request)
	DECQ(blocks)
	JNE(LabelRef(blockLoop))
	t.end()
	DECQ(panels)
	JNE(LabelRef(panelLoop))
	finish()
}

// request requests some bytes.
func (t *fewTile) request(at reg.Register, bytes int) {
	for i := 0; i < bytes; i += lineBytes {
		PREFETCHT0(Mem{Base: at, Disp: i})
	}
}

// outputs calls a function with the address of each row's outputs in the panel.
func (t *fewTile) outputs(row func(i int, o Mem)) {
	o, stride := GP64(), argumentOf("blockCall.oStride")
	MOVQ(t.o, o)
	for i := range t.rows {
		row(i, Mem{Base: o})
		next := func() { LEAQ(Mem{Base: o, Index: stride, Scale: 4}, o) }
		if i == 2 {
			t.unlessThree(next)
		} else if i < t.rows-1 {
			next()
		}
	}
}

// unlessThree leaves a step to the last of four rows out if there are three.
func (t *fewTile) unlessThree(step func()) {
	if t.rows != 4 {
		step()
		return
	}
	three := unique("three")
	CMPQ(argumentOf("blockCall.rows"), Imm(3))
	JEQ(LabelRef(three))
	step()
	Label(three)
}

// begin loads sums, or makes them 0.
func (t *fewTile) begin() {
	load, ready := unique("load"), unique("ready")
	if t.wide {
		t.vectorsOfSums()
	}
	compareArgument("blockCall.overwrite", GP64())
	JE(LabelRef(load))
	if t.wide {
		for _, sum := range t.sums {
			VPXORD(sum, sum, sum)
		}
	} else {
		zero := YMM()
		VPXOR(zero, zero, zero)
		for i := range 2 * t.rows {
			VMOVUPS(zero, t.frame.Offset(i*vector))
		}
	}
	JMP(LabelRef(ready))
	Label(load)
	t.outputs(func(i int, o Mem) {
		if t.wide {
			VMOVUPS(o, t.sums[i])
			return
		}
		for v := range 2 {
			x := YMM()
			VMOVUPS(o.Offset(v*vector), x)
			VMOVUPS(x, t.frame.Offset((2*i+v)*vector))
		}
	})
	Label(ready)
}

func (t *fewTile) vectorsOfSums() {
	t.sums = nil
	for range t.rows {
		t.sums = append(t.sums, t.register())
	}
}

// end stores sums, and goes on to the next panel.
func (t *fewTile) end() {
	t.outputs(func(i int, o Mem) {
		if t.wide {
			VMOVUPS(t.sums[i], o)
			return
		}
		for v := range 2 {
			x := YMM()
			VMOVUPS(t.frame.Offset((2*i+v)*vector), x)
			VMOVUPS(x, o.Offset(v*vector))
		}
	})
	ADDQ(imm(panelBytes), t.o)
}

// block adds a block of 32 inputs, and goes on to the next.
func (t *fewTile) block() {
	switch {
	case t.book != nil:
		t.blockOfBook()
	case t.wide:
		t.blockVNNI()
	default:
		t.halvesOfBlock()
	}
	ADDQ(imm(t.form.Part()), t.w)
	for i := 0; i < t.rows; i += 3 {
		ADDQ(imm(blockRowSize), t.at[i/3])
	}
}

// integers loads bytes as integers, and as floats.
func (t *fewTile) integers(from Mem, convert func(ops ...Op)) reg.VecVirtual {
	v := t.register()
	convert(from, v)
	VCVTDQ2PS(v, v)
	return v
}

// halvesOfBlock adds a block with 8 lanes, first for one eight of its outputs, then for the other.
func (t *fewTile) halvesOfBlock() {
	loop := unique("half")
	XORQ(t.half, t.half)
	Label(loop)
	if t.vnni {
		t.sums = nil
		t.blockVNNI()
		t.storeSums(t.sums)
	} else {
		t.blockAVX2()
	}
	XORQ(imm(8), t.half)
	JNE(LabelRef(loop))
}

// blockVNNI adds a block with VNNI.
func (t *fewTile) blockVNNI() {
	// Sums of products of the first and of the last 16 inputs; only halvesSums keep them apart.
	acc := [2][]reg.VecVirtual{}
	halves := [2]int{blockRowHalf, blockRowHalf + 4}
	start := map[blockSums][2]int{plainSums: {blockRowStart}, scaledSums: {blockRowStart},
		halvesSums: halves, floatsSums: halves}[t.form.sums]
	for half := range acc {
		if half == 1 && !t.form.halved() {
			acc[1] = acc[0]
			break
		}
		for i := range t.rows {
			acc[half] = append(acc[half], t.start(i, start[half]))
		}
	}
	for n := range t.form.vectorsOfCodes() {
		t.groups(t.ofOutputs(Mem{Base: t.w, Disp: t.form.Scales()}, 4), n,
			func(g int, v reg.VecVirtual) {
				for i := range t.rows {
					t.dot(t.row(i, 4*g), v, acc[g/4][i])
				}
			})
	}
	first := t.ofOutputs(Mem{Base: t.w}, 1)
	second := first.Offset(panel)
	if t.lift != nil {
		t.lifted(acc[0], t.integers(first, VPMOVZXBD))
	} else {
		for _, v := range acc[0] {
			VCVTDQ2PS(v, v)
		}
	}
	multiply := func(scale reg.VecVirtual) {
		for _, v := range acc[0] {
			VMULPS(scale, v, v) // exact
		}
	}
	switch t.form.sums {
	case minimaSums:
		if t.lift == nil {
			multiply(t.integers(first, VPMOVZXBD))
		}
	case scaledSums:
		multiply(t.integers(first, VPMOVSXBD))
	case halvesSums, pairsSums:
		scale, other := t.scalesOfHalves(first), t.scalesOfHalves(second)
		multiply(scale)
		for i, v := range acc[0] {
			VCVTDQ2PS(acc[1][i], acc[1][i])
			VFMADD231PS(other, acc[1][i], v) // an integer below 2²⁴
		}
	case floatsSums:
		t.add(acc[0], t.loadFloats(first), VFMADD231PS)
		for _, v := range acc[1] {
			VCVTDQ2PS(v, v)
		}
		t.add(acc[1], t.loadFloats(second), VFMADD231PS)
		return
	}
	t.add(acc[0], t.either(t.dShared, Mem{Base: t.d}), VFMADD231PS)
	t.lessVNNI(acc[0], first, second)
}

// either returns the shared register, or loads the numbers at an address.
func (t *fewTile) either(shared reg.VecVirtual, at Mem) reg.VecVirtual {
	if shared != nil {
		return shared
	}
	return t.loadD(t.ofOutputs(at, 2))
}

// lifted makes floats of sums of products that began with sumBias, times a scale of few bits: all
// of it is exact, so that one multiply-add converts, and multiplies.
func (t *fewTile) lifted(x []reg.VecVirtual, scale reg.VecVirtual) {
	less := t.register()
	VMULPS(t.lift, scale, less)
	for _, v := range x {
		VFMSUB213PS(less, scale, v)
	}
}

// ofOutputs addresses values of the current outputs, size bytes each.
func (t *fewTile) ofOutputs(m Mem, size uint8) Mem {
	if !t.wide {
		m.Index, m.Scale = t.half, size
	}
	return m
}

// start returns the start of the sums of a row: a field of its inputs, 0, or sumBias.
func (t *fewTile) start(i, field int) reg.VecVirtual {
	v := t.register()
	switch {
	case t.lift != nil:
		VMOVDQA32(t.lift, v)
	case field == 0 && t.wide:
		VPXORD(v, v, v)
	case field == 0:
		VPXOR(v, v, v)
	case t.shift > 0 && t.wide:
		VPSRAD_BCST(Imm(t.shift), t.row(i, field), v)
	default:
		VPBROADCASTD(t.row(i, field), v)
		if t.shift > 0 {
			VPSRAD(Imm(t.shift), v, v)
		}
	}
	return v
}

// dot adds products of four inputs and bytes without sign to sums.
func (t *fewTile) dot(inputs Mem, bytes, sum reg.VecVirtual) {
	if t.wide {
		vnniAdd("VPDPBUSD.BCST", inputs, bytes, sum)
		return
	}
	x := YMM()
	VPBROADCASTD(inputs, x)
	vnniAdd("VPDPBUSD", x, bytes, sum)
}

// asFloats loads an integer of a row into all lanes, as float32.
func (t *fewTile) asFloats(from Mem, to reg.VecVirtual) {
	if t.wide {
		VCVTDQ2PS_BCST(from, to)
		return
	}
	VPBROADCASTD(from, to)
	VCVTDQ2PS(to, to)
}

// scalesOfHalves loads scales of 16 inputs as floats.
func (t *fewTile) scalesOfHalves(from Mem) reg.VecVirtual {
	if t.form.sums == halvesSums {
		return t.integers(from, VPMOVSXBD)
	}
	v := t.register()
	VPMOVZXBD(from, v)
	v = t.and(t.repeated(0x0000000f), v)
	VCVTDQ2PS(v, v)
	return v
}

// lessVNNI subtracts the minima times the sum of the inputs, times a·dmin, or adds it times a·m.
func (t *fewTile) lessVNNI(x []reg.VecVirtual, first, second Mem) {
	other := Mem{Base: t.d, Disp: 2 * panel}
	switch t.form.sums {
	case minimaSums:
		least := t.integers(second, VPMOVZXBD)
		for i, v := range x {
			t.asFloats(t.row(i, blockRowSum), v)
			VMULPS(least, v, v) // exact
		}
		t.add(x, t.either(t.minShared, other), VFNMADD231PS)
	case offsetSums:
		for i, v := range x {
			t.asFloats(t.row(i, blockRowSum), v)
		}
		t.add(x, t.either(nil, other), VFMADD231PS)
	case pairsSums:
		least := t.loadMinima(first, second)
		for i, v := range x {
			VPBROADCASTD(t.row(i, blockRowPairs), v)
			VPMADDWD(least, v, v)
			VPSRAD(Imm(3), v, v) // minus the minima times the sums
			VCVTDQ2PS(v, v)
		}
		t.add(x, t.either(nil, other), VFMADD231PS)
	}
}

// add adds floats times a·d.
func (t *fewTile) add(x []reg.VecVirtual, d reg.VecVirtual, fma func(ops ...Op)) {
	if t.sums == nil { // of the current outputs
		t.vectorsOfSums()
		for i, sum := range t.sums {
			VMOVUPS(t.sumAt(i), sum)
		}
	}
	for i, v := range x {
		ad := t.register()
		if t.wide {
			VMULPS_BCST(t.row(i, blockRowScale), d, ad)
		} else {
			VBROADCASTSS(t.row(i, blockRowScale), ad)
			VMULPS(d, ad, ad)
		}
		fma(ad, v, t.sums[i])
	}
}

// blockAVX2 adds a block to the current outputs.
func (t *fewTile) blockAVX2() {
	var acc []reg.VecVirtual
	for range t.rows {
		acc = append(acc, YMM())
	}
	codes := Mem{Base: t.w, Index: t.half, Scale: 4, Disp: t.form.Scales()}
	switch {
	case t.form.sums == floatsSums:
		ones := t.repeated(wordOnes)
		for half := range 2 {
			t.unsigned(codes, acc, 2*half, 2*half+2, [2]reg.VecVirtual{ones, ones})
			t.correct(acc, half)
			t.addAVX2(acc, t.loadFloats(t.bytesAt(half*panel)))
			t.storeSums(acc)
		}
	case t.words == 1:
		t.signed(codes, acc)
		t.sumsAVX2(acc)
	default:
		t.unsigned(codes, acc, 0, t.form.vectorsOfCodes(), t.wordFactors())
		t.sumsAVX2(acc)
	}
}

// sumsAVX2 adds the sums of products of a block.
func (t *fewTile) sumsAVX2(acc []reg.VecVirtual) {
	t.correct(acc, 0)
	t.addAVX2(acc, t.loadD(Mem{Base: t.d, Index: t.half, Scale: 2}))
	t.less(acc)
	t.storeSums(acc)
}

// addAVX2 adds sums of products, times a·d, to the current sums.
func (t *fewTile) addAVX2(acc []reg.VecVirtual, d reg.VecVirtual) {
	var scale reg.VecVirtual
	if t.form.sums == scaledSums {
		scale = t.integers(t.bytesAt(0), VPMOVSXBD)
	}
	for i, v := range acc {
		ad := YMM()
		VBROADCASTSS(t.row(i, blockRowScale), ad)
		VMULPS(d, ad, ad)
		VCVTDQ2PS(v, v)
		if scale != nil {
			VMULPS(scale, v, v) // exact
		}
		VFMADD213PS(t.sumAt(i), ad, v)
	}
}

func (t *fewTile) storeSums(acc []reg.VecVirtual) {
	for i, v := range acc {
		VMOVUPS(v, t.sumAt(i))
	}
}

// sumAt addresses the current sums of a row.
func (t *fewTile) sumAt(i int) Mem {
	m := t.frame.Offset(i * panelBytes)
	m.Index, m.Scale = t.half, 4
	return m
}

// bytesAt addresses bytes of the current outputs.
func (t *fewTile) bytesAt(at int) Mem {
	return Mem{Base: t.w, Index: t.half, Scale: 1, Disp: at}
}

// wordFactors loads the factors of the words of each half.
func (t *fewTile) wordFactors() (factors [2]reg.VecVirtual) {
	switch t.form.sums {
	case pairsSums:
		low := t.repeated(0x000f000f)
		for i := range factors {
			at := t.bytesAt(i * panel)
			factors[i] = t.and(low, t.loadPairs(at, at, VPMOVZXBD))
		}
	case minimaSums:
		scale := t.loadPairs(t.bytesAt(0), t.bytesAt(0), VPMOVZXBD)
		factors = [2]reg.VecVirtual{scale, scale}
	case halvesSums:
		for i := range factors {
			at := t.bytesAt(i * panel)
			factors[i] = t.loadPairs(at, at, VPMOVSXBD)
		}
	default:
		ones := t.repeated(wordOnes)
		factors = [2]reg.VecVirtual{ones, ones}
	}
	return factors
}

// unsigned makes the sums of products by bytes without sign of some vectors of codes, of as many
// groups at a time as there is room for in words.
func (t *fewTile) unsigned(codes Mem, acc []reg.VecVirtual, from, to int,
	factors [2]reg.VecVirtual) {
	c := t.form.codes
	apart := c == oneBit || c == twoBits || c == threeBits // a vector has all groups of its inputs
	begun := false
	var now, later []weightsOfGroup
	flush := func(these []weightsOfGroup, factor reg.VecVirtual) {
		for i, sum := range acc {
			t.words16(i, these, sum, factor, begun)
		}
		begun = true
	}
	for n := from; n < to; n++ {
		t.groups(codes, n, func(g int, v reg.VecVirtual) {
			if t.words == 2 && g >= 4 {
				later = append(later, weightsOfGroup{g, v})
			} else {
				now = append(now, weightsOfGroup{g, v})
			}
		})
		switch {
		case apart:
			flush(now, factors[n])
			now = nil
		case n%2 == 1:
			flush(now, factors[0])
			if later != nil {
				flush(later, factors[1])
			}
			now, later = nil, nil
		}
	}
	if t.words == 8 {
		for _, sum := range acc {
			VPMADDWD(factors[0], sum, sum)
		}
	}
}

// weightsOfGroup is the bytes of a group of four inputs.
type weightsOfGroup struct {
	g int
	v reg.VecVirtual
}

// words16 adds products of some groups: to words, or times a factor to sums.
func (t *fewTile) words16(i int, these []weightsOfGroup, sum, factor reg.VecVirtual, begun bool) {
	var word reg.VecVirtual
	for n, w := range these {
		x := YMM()
		VPBROADCASTD(t.row(i, 4*w.g), x)
		VPMADDUBSW(x, w.v, x)
		if n == 0 {
			word = x
			continue
		}
		VPADDW(x, word, word)
	}
	if t.words == 8 {
		if begun {
			VPADDW(word, sum, sum)
		} else {
			VMOVDQA(word, sum)
		}
		return
	}
	if !begun {
		VPMADDWD(factor, word, sum)
		return
	}
	VPMADDWD(factor, word, word)
	VPADDD(word, sum, sum)
}

// signed makes the sums of products by bytes with sign.
func (t *fewTile) signed(codes Mem, acc []reg.VecVirtual) {
	ones := t.repeated(wordOnes)
	for n := range t.form.vectorsOfCodes() {
		t.groups(codes, n, func(g int, v reg.VecVirtual) {
			magnitudes := YMM()
			VPABSB(v, magnitudes)
			for i, sum := range acc {
				x := YMM()
				VPBROADCASTD(t.row(i, 4*g), x)
				VPSIGNB(v, x, x)
				VPMADDUBSW(x, magnitudes, x)
				if g == 0 {
					VPMADDWD(ones, x, sum)
					continue
				}
				VPMADDWD(ones, x, x)
				VPADDD(x, sum, sum)
			}
		})
	}
}

// correct subtracts what was added to bytes; for floatsSums, of one half.
func (t *fewTile) correct(acc []reg.VecVirtual, half int) {
	switch {
	case t.form.sums == halvesSums:
		pairs := t.loadPairs(t.bytesAt(0), t.bytesAt(panel), VPMOVSXBD)
		for i, sum := range acc {
			x := YMM()
			VPBROADCASTD(t.row(i, blockRowPairs), x)
			VPMADDWD(pairs, x, x) // −8 times the factors of the scales
			if t.form.less == 32 {
				VPSLLD(Imm(2), x, x)
			} else {
				VPSRAD(Imm(1), x, x)
			}
			VPADDD(x, sum, sum)
		}
	case t.form.sums == floatsSums:
		for i, sum := range acc {
			x := YMM()
			VPBROADCASTD(t.row(i, blockRowHalf+4*half), x)
			VPSRAD(Imm(t.shift-2), x, x)
			VPADDD(x, sum, sum)
		}
	case t.shift > 0:
		for i, sum := range acc {
			x := YMM()
			VPBROADCASTD(t.row(i, blockRowStart), x)
			VPSRAD(Imm(t.shift), x, x)
			VPADDD(x, sum, sum)
		}
	}
}

// less subtracts the minima times the sum of the inputs, times a·dmin, or adds it times a·m.
func (t *fewTile) less(acc []reg.VecVirtual) {
	var least reg.VecVirtual
	field, fma := blockRowSum, VFMADD231PS
	switch t.form.sums {
	case minimaSums:
		least, fma = YMM(), VFNMADD231PS
		VPMOVZXBD(t.bytesAt(panel), least)
	case pairsSums:
		least, field = t.loadMinima(t.bytesAt(0), t.bytesAt(panel)), blockRowPairs
	case offsetSums:
	default:
		return
	}
	d := t.loadD(Mem{Base: t.d, Index: t.half, Scale: 2, Disp: 2 * panel})
	for i, v := range acc {
		x, ad := YMM(), YMM()
		VPBROADCASTD(t.row(i, field), x)
		if least != nil {
			VPMADDWD(least, x, x)
		}
		if t.form.sums == pairsSums {
			VPSRAD(Imm(3), x, x) // minus the minima times the sums
		}
		VCVTDQ2PS(x, x)
		VBROADCASTSS(t.row(i, blockRowScale), ad)
		VMULPS(d, ad, ad)
		fma(ad, x, v)
	}
}
