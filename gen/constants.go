package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// Layout shared with package attn.
const (
	block = 64 // keys of a block
	panel = 16 // keys or columns of a panel

	lanes      = 8         // float32 of a vector
	vector     = 4 * lanes // bytes
	panelBytes = 4 * panel
	blockBytes = 4 * block
)

// The constants of elementary.go. A test of package attn holds the two equal,
// through the bits that the kernels return.
const (
	log2E = 0x1.715476p+0
	ln2Hi = 0x1.62e4p-1
	ln2Lo = 0x1.7f7d1cp-20

	expBias = 0x1.8p+23 + 127
	expC2   = 0x1.fffffcp-2
	expC3   = 0x1.555492p-3
	expC4   = 0x1.5558f2p-5
	expC5   = 0x1.123a20p-7
	expC6   = 0x1.6a23d0p-10
	expMin  = -0x1.5d589ep+6

	tanhC0 = -0x1.555532p-2
	tanhC1 = 0x1.110726p-3
	tanhC2 = -0x1.b83c5ap-5
	tanhC3 = 0x1.52269cp-6
	tanhC4 = -0x1.75e1cep-8
)

var broadcasts = map[uint32]Mem{}

// f32 is a vector constant in memory: all lanes x.
func f32(x float64) Mem { return u32(math.Float32bits(float32(x))) }

// u32 is a vector constant in memory: all lanes the bits x.
func u32(x uint32) Mem {
	m, ok := broadcasts[x]
	if !ok {
		m = GLOBL("all"+hex(x), 8|16) // RODATA|NOPTR
		for i := range lanes {
			DATA(4*i, U32(x))
		}
		broadcasts[x] = m
	}
	return m
}

func hex(x uint32) string {
	const digits = "0123456789abcdef"
	s := make([]byte, 8)
	for i := range s {
		s[i] = digits[x>>(28-4*i)&15]
	}
	return string(s)
}

const (
	bitsNegInf = 0xff800000
	bitsSign   = 0x80000000
	bitsAbs    = 0x7fffffff
)

var table = map[string]Mem{}

// words is a table of 32-bit words in memory.
func words(name string, w ...uint32) Mem {
	m, ok := table[name]
	if !ok {
		m = GLOBL(name, 8|16)
		for i, x := range w {
			DATA(4*i, U32(x))
		}
		table[name] = m
	}
	return m
}

// tailMasks has 8 words of ones and 8 of zeros: loading from word 8−n gives n live lanes.
func tailMasks() Mem {
	const on = 0xffffffff
	return words("tailMasks", on, on, on, on, on, on, on, on, 0, 0, 0, 0, 0, 0, 0, 0)
}

// bitOfLane has bit t set in lane t.
func bitOfLane() Mem { return words("bitOfLane", 1, 2, 4, 8, 16, 32, 64, 128) }

// numberOfLane is t in lane t.
func numberOfLane() Mem { return words("numberOfLane", 0, 1, 2, 3, 4, 5, 6, 7) }

// imm is an immediate operand: 8 bits where they do, else 32.
func imm(n int) Op {
	if n < 128 {
		return U8(n)
	}
	return U32(n)
}
