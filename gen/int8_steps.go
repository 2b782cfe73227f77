package main

import (
	"slices"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A group of four steps of products in integers.

// int8Form says how the elements of rows are stored.
type int8Form int

const (
	// wordForm: a group is four words, of which two meet the even bytes of b, which shifts make words
	// of, and two the odd ones (inGroupOrder). So each multiplication adds the products of two steps.
	wordForm int8Form = iota

	// magnitudeForm: a group is four magnitudes and then four bytes of ones where the element is
	// negative, for addSigned. Sums begin with the sum of the magnitudes of negative elements.
	magnitudeForm

	// byteForm: a group is four bytes, which with VNNI meet four bytes without sign at once: 128 is
	// added to each byte of b, and sums begin with −128 times the sum of the row.
	byteForm
)

const wordOnes = 0x00010001

// addSigned adds to sum, in each of its lanes, the products of a group of four steps. VPMADDUBSW
// multiplies unsigned magnitudes by signed bytes and adds two products, which fit in 16 bits. Where
// the row is negative, all bits of signs are 1, and it multiplies by the complement, −b − 1; the
// start of the sum includes the magnitude that is then missing.
func addSigned(xor func(x, y, z Op), b Op, magnitudes, signs, ones, product, sum reg.VecPhysical) {
	xor(b, signs, product)
	VPMADDUBSW(product, magnitudes, product)
	VPMADDWD(ones, product, product)
	VPADDD(product, sum, sum)
}

func (p *int8Program) zero(v reg.VecPhysical) { p.xor(v, v, v) }

func (p *int8Program) xor(x, y, z Op) {
	if p.wide {
		VPXORD(x, y, z)
		return
	}
	VPXOR(x, y, z)
}

// load is a move of a vector from memory or a register.
func (p *int8Program) load(from, to Op) {
	if p.wide {
		VMOVDQU32(from, to)
		return
	}
	VMOVDQU(from, to)
}

// acc is the accumulator of row i, panel x, vector v.
func (p *int8Program) acc(i, x, v int) reg.VecPhysical { return p.regs[(i*p.n+x)*p.vecs+v] }

// step multiplies a group of four steps.
func (p *int8Program) step(r int) {
	switch {
	case p.form == byteForm:
		p.stepOfBytes(r, 0, r)
	case p.form == magnitudeForm:
		p.stepOfMagnitudes(r)
	case p.widened:
		p.stepOfWidened(r)
	default:
		p.stepOfWords(r)
	}
}

// stepOfBytes multiplies a group of four steps by rows [first, end) of 8 bits, in a tile of r rows.
func (p *int8Program) stepOfBytes(r, first, end int) {
	vectors := p.n * p.vecs
	free := p.regs[r*vectors:]
	for at := range vectors {
		if from := p.vectorOf(at); p.codes != nil {
			p.codes.lookUp(p, from, free[at])
		} else {
			p.withoutSign(r, from, free[at])
		}
	}
	row := free[vectors]
	for i := first; i < end; i++ {
		VPBROADCASTD(p.rowAt(i, 0), row)
		for at := range vectors {
			vnniAdd("VPDPBUSD", row, free[at], p.regs[i*vectors+at])
		}
	}
}

const byteSigns = 0x80808080

// signs returns the register for the sign of each byte in a tile of r rows, or nil where sums,
// operands and a row use all registers.
func (p *int8Program) signs(r int) reg.VecPhysical {
	if vectors := p.n * p.vecs; (r+1)*vectors+1 >= len(p.regs) {
		return nil
	}
	return p.regs[len(p.regs)-1]
}

// withoutSign adds 128 to bytes of a vector.
func (p *int8Program) withoutSign(r int, from Mem, to reg.VecPhysical) {
	if signs := p.signs(r); signs != nil {
		p.xor(from, signs, to)
		return
	}
	p.load(from, to)
	p.xor(wordTable("byteSigns", slices.Repeat([]uint32{byteSigns}, lanes)...), to, to)
}

// stepOfMagnitudes multiplies a group of four steps by magnitudes. One row reads b from memory.
func (p *int8Program) stepOfMagnitudes(r int) {
	vectors, last := p.n*p.vecs, len(p.regs)-1
	free, ones := p.regs[r*vectors:last], p.regs[last]
	b := make([]Op, vectors)
	for at := range b {
		switch from := p.vectorOf(at); {
		case p.codes != nil:
			p.codes.lookUp(p, from, free[at])
			b[at] = free[at]
		case r == 1:
			b[at] = from
		default:
			p.load(from, free[at])
			b[at] = free[at]
		}
	}
	if p.codes != nil || r > 1 {
		free = free[vectors:]
	}
	magnitudes, signs, products := free[0], free[1], free[2:min(4, len(free))]
	for i := range r {
		VPBROADCASTD(p.rowAt(i, 0), magnitudes)
		VPBROADCASTD(p.rowAt(i, 1), signs)
		for at, from := range b {
			addSigned(p.xor, from, magnitudes, signs, ones, products[at%len(products)],
				p.regs[i*vectors+at])
		}
	}
}

// stepOfWords multiplies a group of four steps by words.
func (p *int8Program) stepOfWords(r int) {
	free := p.regs[r*p.n*p.vecs:]
	if p.prefetches && len(free) >= 2*r+3 {
		p.stepByPanels(r, free[:2*r], free[2*r:])
		return
	}
	pairs := free[:2*p.n*p.vecs] // even and odd bytes of each vector
	row, product := free[len(pairs)], free[len(free)-1]
	for at := range p.n * p.vecs {
		p.split(p.vectorOf(at), pairs[2*at], pairs[2*at+1])
	}
	for i := range r {
		for half := range 2 {
			VPBROADCASTD(p.rowAt(i, half), row)
			for at := range p.n * p.vecs {
				p.multiplyAdd(pairs[2*at+half], row, p.regs[i*p.n*p.vecs+at], product)
			}
		}
	}
}

// panelGroup is the bytes of a group of four steps of a panel.
const panelGroup = 4 * panel

// widenedBytes is the size of a panel of Block keys as words.
const widenedBytes = 2 * panel * block

// widen makes words of a panel: of each group the even bytes, and then the odd ones.
func (p *int8Program) widen() {
	from, to, loop := b0, a0, unique("widen")
	even, odd := p.regs[0], p.regs[1]
	MOVQ(p.b, from)
	align(p.words, to)
	MOVQ(p.steps, stepsLeft)
	Label(loop)
	for v := range p.vecs {
		p.split(Mem{Base: from, Disp: v * p.size}, even, odd)
		p.load(even, Mem{Base: to, Disp: v * p.size})
		p.load(odd, Mem{Base: to, Disp: panelGroup + v*p.size})
	}
	ADDQ(bStride, from)
	ADDQ(imm(2*panelGroup), to)
	DECQ(stepsLeft)
	JNE(LabelRef(loop))
}

// stepOfWidened multiplies a group of four steps by words of one panel.
func (p *int8Program) stepOfWidened(r int) {
	free := p.regs[r*p.vecs:]
	b, row, products := free[:p.vecs], free[p.vecs], free[min(p.vecs+1, len(free)-p.vecs):]
	for half := range 2 {
		for v := range b {
			p.load(Mem{Base: b0, Disp: half*panelGroup + v*p.size}, b[v])
		}
		for i := range r {
			VPBROADCASTD(p.rowAt(i, half), row)
			for v := range b {
				p.multiplyAdd(b[v], row, p.acc(i, 0, v), products[v])
			}
		}
	}
}

// stepByPanels is step for so few rows that they stay in registers while panels come and go.
func (p *int8Program) stepByPanels(r int, rows, free []reg.VecPhysical) {
	even, odd, product := free[0], free[1], free[len(free)-1]
	for i, row := range rows {
		VPBROADCASTD(p.rowAt(i/2, i%2), row)
	}
	for at := range p.n * p.vecs {
		p.split(p.vectorOf(at), even, odd)
		for i, row := range rows {
			p.multiplyAdd([]reg.VecPhysical{even, odd}[i%2], row, p.regs[i/2*p.n*p.vecs+at], product)
		}
	}
}

// rowAt addresses four bytes of row i that are multiplied by the current group: the whole group of
// bytes, or one half of the words or magnitudes.
func (p *int8Program) rowAt(i, half int) Mem {
	at := p.groupAt*p.groupBytes() + 4*half
	if p.second || p.codes != nil && p.codes.upper {
		at += p.groupBytes()
	}
	return avx512Row(i, aStride, at)
}

// vectorOf addresses a vector of the panels.
func (p *int8Program) vectorOf(at int) Mem {
	return p.panel(at / p.vecs).Offset(at % p.vecs * p.size)
}

// split loads a vector and makes words of its even bytes and of its odd ones.
func (p *int8Program) split(from Mem, even, odd reg.VecPhysical) {
	if p.codes != nil {
		p.codes.split(p, from, even, odd)
		return
	}
	p.load(from, odd)
	VPSLLW(Imm(8), odd, even)
	VPSRAW(Imm(8), even, even)
	VPSRAW(Imm(8), odd, odd)
}

// multiplyAdd adds products of pairs to sum.
func (p *int8Program) multiplyAdd(pair, row, sum, product reg.VecPhysical) {
	if p.vnni {
		vnniAdd("VPDPWSSD", row, pair, sum)
		return
	}
	VPMADDWD(row, pair, product)
	VPADDD(product, sum, sum)
}

// vnniAdd emits an instruction of AVX512_VNNI, or of AVX-VNNI if registers have 32 bytes, see
// avxvnni.go. Avo knows neither.
func vnniAdd(opcode string, a, b, sum Op) {
	Instruction(&ir.Instruction{Opcode: opcode, Operands: []Op{a, b, sum},
		Inputs: []Op{a, b, sum}, Outputs: []Op{sum}})
}
