package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Unpacking of blocks. Words of 16 outputs are 64 bytes: with 16 lanes one vector, else two.
//
// With 16 lanes bytes are for VNNI: integers that may be negative have 128 more. With 8 lanes they
// are what multiplyBlocks of AVX2 wants, see blocks_avx2.go.

type blockSet struct{ wide bool }

// vectors is the offsets of the vectors of 64 bytes.
func (s blockSet) vectors() []int {
	if s.wide {
		return []int{0}
	}
	return []int{0, vector}
}

func (s blockSet) register() reg.VecVirtual {
	if s.wide {
		return ZMM()
	}
	return YMM()
}

// repeated loads a vector of a word.
func (s blockSet) repeated(x uint32) reg.VecVirtual {
	v := s.register()
	VPBROADCASTD(u32(x), v)
	return v
}

func (s blockSet) load(from Mem) reg.VecVirtual {
	v := s.register()
	s.move(from, v)
	return v
}

func (s blockSet) move(from, to Op) {
	if s.wide {
		VMOVDQU32(from, to)
		return
	}
	VMOVDQU(from, to)
}

// and is x & y in place of x.
func (s blockSet) and(y, x Op) {
	if s.wide {
		VPANDD(y, x, x)
		return
	}
	VPAND(y, x, x)
}

// orMasked is nibble | x & mask, in place of nibble.
func (s blockSet) orMasked(mask, x, nibble Op) {
	if s.wide {
		VPTERNLOGD(Imm(0xf8), mask, x, nibble)
		return
	}
	VPAND(mask, x, x)
	VPOR(x, nibble, nibble)
}

// lower and upper are halves of the bytes of x.
func (s blockSet) lower(mask, x Op) reg.VecVirtual {
	v := s.register()
	if s.wide {
		VPANDD(mask, x, v)
	} else {
		VPAND(mask, x, v)
	}
	return v
}

func (s blockSet) upper(mask, x Op) reg.VecVirtual {
	v := s.register()
	VPSRLW(Imm(4), x, v)
	s.and(mask, v)
	return v
}

// moved is x with bit from of its bytes where bit to is; other bits are of no use.
func (s blockSet) moved(x Op, from, to int) reg.VecVirtual {
	v := s.register()
	switch {
	case from < to:
		VPSLLW(imm(to-from), x, v)
	case from > to:
		VPSRLW(imm(from-to), x, v)
	default:
		s.move(x, v)
	}
	return v
}

// widened makes floats of 16 numbers by a conversion of a vector's lanes from memory, of so many
// bytes each, and lets then change and store them.
func (s blockSet) widened(from Mem, bytes int, convert func(ops ...Op), then func(v reg.VecVirtual,
	at int)) {
	for _, at := range s.vectors() {
		v := s.register()
		convert(from.Offset(at*bytes/4), v)
		then(v, at)
	}
}

// storeF16 stores numbers in F16 as float32.
func (s blockSet) storeF16(from, to Mem) {
	s.widened(from, 2, VCVTPH2PS, func(v reg.VecVirtual, at int) { VMOVUPS(v, to.Offset(at)) })
}

// storeIntegers stores integers of 8 bits as integers of 32, or as float32.
func (s blockSet) storeIntegers(from, to Mem, convert func(ops ...Op), float bool) {
	s.widened(from, 1, convert, func(v reg.VecVirtual, at int) {
		if float {
			VCVTDQ2PS(v, v)
		}
		VMOVUPS(v, to.Offset(at))
	})
}

// storePairs stores pairs of integers of 16 bits, the first and the second of 8 bits.
func (s blockSet) storePairs(first, second, to Mem, convert func(ops ...Op)) {
	for _, at := range s.vectors() {
		low, high := s.register(), s.register()
		convert(first.Offset(at/4), low)
		convert(second.Offset(at/4), high)
		VPSLLD(Imm(16), high, high)
		VPBLENDW(Imm(0xaa), high, low, low)
		s.move(low, to.Offset(at))
	}
}

// begin begins a kernel that unpacks n blocks.
func (s blockSet) begin(name, table string) (dst, packed, n reg.GPVirtual) {
	TEXT(name, noSplit, "func(dst, packed"+table+" *byte, n int)")
	return param("dst"), param("packed"), param("n")
}

// next goes on to the next block of so many bytes, or returns after the last.
func (s blockSet) next(loop string, dst, packed, n reg.GPVirtual, to, from int) {
	ADDQ(imm(to), dst)
	ADDQ(imm(from), packed)
	DECQ(n)
	JNE(LabelRef(loop))
	finish()
}

// blockAhead is how far ahead of what is read memory is requested.
const blockAhead = 8192

// request prefetches the lines that begin within some bytes.
func (s blockSet) request(packed reg.GPVirtual, from, to int) {
	for at := (from + lineBytes - 1) / lineBytes * lineBytes; at < to; at += lineBytes {
		PREFETCHT0(Mem{Base: packed, Disp: blockAhead + at})
	}
}

// bytes unpacks Q8_0.
func (s blockSet) bytes(name string) {
	dst, packed, n := s.begin(name, "")
	sign := s.repeated(0x80808080)
	loop := "block"
	Label(loop)
	s.request(packed, 0, 576)
	for _, at := range s.vectors() {
		d := s.load(Mem{Base: packed, Disp: at})
		for g := 0; g < blockUnpacked; g += panelBytes {
			v := s.load(Mem{Base: packed, Disp: panelBytes + g + at})
			if s.wide {
				VPXORD(sign, v, v)
			}
			s.move(v, Mem{Base: dst, Disp: g + at})
		}
		s.move(d, Mem{Base: dst, Disp: blockUnpacked + at})
	}
	s.next(loop, dst, packed, n, plainSums.size(), 576)
}

// nibbles unpacks levels of a table.
func (s blockSet) nibbles(name string, bf16 bool) {
	dst, packed, n := s.begin(name, ", table")
	levels, mask := s.register(), s.repeated(0x0f0f0f0f)
	if from := (Mem{Base: param("table")}); s.wide {
		VBROADCASTI32X4(from, levels)
	} else {
		VBROADCASTI128(from, levels)
	}
	loop := "block"
	Label(loop)
	s.request(packed, 0, 288)
	for g := 0; g < blockUnpacked/2; g += panelBytes {
		for _, at := range s.vectors() {
			x := s.load(Mem{Base: packed, Disp: 2*panel + g + at})
			low, high := s.lower(mask, x), s.upper(mask, x)
			VPSHUFB(low, levels, low)
			VPSHUFB(high, levels, high)
			s.move(low, Mem{Base: dst, Disp: g + at})
			s.move(high, Mem{Base: dst, Disp: blockUnpacked/2 + g + at})
		}
	}
	from, to := Mem{Base: packed}, Mem{Base: dst, Disp: blockUnpacked}
	if bf16 {
		s.widened(from, 2, VPMOVZXWD, func(v reg.VecVirtual, at int) {
			VPSLLD(Imm(16), v, v)
			VMOVUPS(v, to.Offset(at))
		})
	} else {
		s.storeF16(from, to)
	}
	s.next(loop, dst, packed, n, plainSums.size(), 288)
}

// kScales stores the scales of a block of Q4_K or Q5_K after its bytes.
func (s blockSet) kScales(packed, scales, to Mem) {
	to = to.Offset(blockUnpacked)
	s.storeF16(packed, to)
	s.storeF16(packed.Offset(2*panel), to.Offset(panelBytes))
	if s.wide {
		s.storeIntegers(scales, to.Offset(2*panelBytes), VPMOVZXBD, false)
	} else {
		s.storePairs(scales, scales, to.Offset(2*panelBytes), VPMOVZXBD)
	}
	s.storeIntegers(scales.Offset(panel), to.Offset(3*panelBytes), VPMOVZXBD, false)
}

// Where scales and words of blocks of 256 begin, see internal/blocks.
const (
	blockScales = 4 * panel
	blockWords  = 20 * panel
)

// fourBits unpacks Q4_K.
func (s blockSet) fourBits(name string) {
	const bytes = blockWords + 32*panelBytes
	dst, packed, n := s.begin(name, "")
	mask := s.repeated(0x0f0f0f0f)
	scales, words, pair := GP64(), GP64(), GP64()
	Label("block")
	LEAQ(Mem{Base: packed, Disp: blockScales}, scales)
	LEAQ(Mem{Base: packed, Disp: blockWords}, words)
	MOVQ(U32(4), pair)
	Label("pair")
	s.request(words, 0, 8*panelBytes)
	size := minimaSums.size()
	for g := 0; g < blockUnpacked; g += panelBytes {
		for _, at := range s.vectors() {
			x := s.load(Mem{Base: words, Disp: g + at})
			s.move(s.lower(mask, x), Mem{Base: dst, Disp: g + at})
			s.move(s.upper(mask, x), Mem{Base: dst, Disp: size + g + at})
		}
	}
	for i := range 2 {
		s.kScales(Mem{Base: packed}, Mem{Base: scales, Disp: 2 * panel * i},
			Mem{Base: dst, Disp: size * i})
	}
	ADDQ(imm(2*size), dst)
	ADDQ(imm(4*panel), scales)
	ADDQ(imm(8*panelBytes), words)
	DECQ(pair)
	JNE(LabelRef("pair"))
	s.next("block", dst, packed, n, 0, bytes)
}

// fiveBits unpacks Q5_K.
func (s blockSet) fiveBits(name string) {
	const upperBits, words = blockWords, blockWords + 8*panelBytes
	const bytes = words + 32*panelBytes
	dst, packed, n := s.begin(name, "")
	mask, fifth := s.repeated(0x0f0f0f0f), s.repeated(0x10101010)
	size := minimaSums.size()
	Label("block")
	for b := range 8 {
		s.request(packed, b*bytes/8, (b+1)*bytes/8)
		for g := 0; g < blockUnpacked; g += panelBytes {
			for _, at := range s.vectors() {
				x := s.load(Mem{Base: packed, Disp: words + b/2*blockUnpacked + g + at})
				v := s.lower(mask, x)
				if b%2 == 1 {
					v = s.upper(mask, x)
				}
				bits := s.load(Mem{Base: packed, Disp: upperBits + g + at})
				s.orMasked(fifth, s.moved(bits, b, 4), v)
				s.move(v, Mem{Base: dst, Disp: b*size + g + at})
			}
		}
		s.kScales(Mem{Base: packed}, Mem{Base: packed, Disp: blockScales + 2*panel*b},
			Mem{Base: dst, Disp: b * size})
	}
	s.next("block", dst, packed, n, 8*size, bytes)
}

// sixBits unpacks Q6_K.
func (s blockSet) sixBits(name string) {
	const upperBits = blockWords + 32*panelBytes
	const bytes = upperBits + 16*panelBytes
	dst, packed, n := s.begin(name, "")
	mask, upper, more := s.repeated(0x0f0f0f0f), s.repeated(0x30303030), s.repeated(0x60606060)
	size := halvesSums.size()
	Label("block")
	for b := range 8 {
		s.request(packed, b*bytes/8, (b+1)*bytes/8)
		half, k := b/4, b%4
		for g := 0; g < blockUnpacked; g += panelBytes {
			for _, at := range s.vectors() {
				x := s.load(Mem{Base: packed, Disp: blockWords + (2*half+k%2)*blockUnpacked + g + at})
				v := s.lower(mask, x)
				if k >= 2 {
					v = s.upper(mask, x)
				}
				bits := s.load(Mem{Base: packed, Disp: upperBits + half*blockUnpacked + g + at})
				s.orMasked(upper, s.moved(bits, 2*k, 4), v)
				if s.wide {
					VPADDB(more, v, v)
				}
				s.move(v, Mem{Base: dst, Disp: b*size + g + at})
			}
		}
		to := Mem{Base: dst, Disp: b*size + blockUnpacked}
		for _, at := range s.vectors() {
			s.move(s.load(Mem{Base: packed, Disp: at}), to.Offset(at))
		}
		first := Mem{Base: packed, Disp: blockScales + 2*panel*b}
		for i, scale := range []Mem{first, first.Offset(panel)} {
			if s.wide {
				s.storeIntegers(scale, to.Offset((1+i)*panelBytes), VPMOVSXBD, true)
			} else {
				s.storePairs(scale, scale, to.Offset((1+i)*panelBytes), VPMOVSXBD)
			}
		}
		if !s.wide {
			s.storePairs(first, first.Offset(panel), to.Offset(3*panelBytes), VPMOVSXBD)
		}
	}
	s.next("block", dst, packed, n, 8*size, bytes)
}
