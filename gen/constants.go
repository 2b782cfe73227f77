package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/seed-1415985d/attn/internal/dev/constants"
)

// Layout shared with package attn.
const (
	block = 64 // keys of a block
	panel = 16 // keys or columns of a panel

	int8Group = 128 // inputs of a matrix that have one scale

	lanes      = 8         // float32 of a vector
	vector     = 4 * lanes // bytes
	panelBytes = 4 * panel
	blockBytes = 4 * block
)

var (
	elementary    constants.Values  // the constants of internal/f32/elementary.go and gelu.go
	wideConstants constants.Wide    // the constants of internal/f32/activations.go
	offsets       constants.Offsets // where the fields are of structs that kernels are given
)

// readPackage reads both from the files of the package in a folder.
func readPackage(folder string) (err error) {
	in := func(file string) string { return filepath.Join(folder, file) }
	elementary, err = constants.Read(in("internal/f32/elementary.go"), in("internal/f32/gelu.go"))
	if err != nil {
		return err
	}
	wideConstants, err = constants.ReadWide(in("internal/f32/activations.go"),
		in("internal/f32/elementary.go"))
	if err != nil {
		return err
	}
	offsets, err = constants.KernelOffsets(folder)
	return err
}

// fieldOf is a field of the struct at base, "PanelLayout.Keys", or of a struct that it embeds.
func fieldOf(base reg.Register, path ...string) Mem {
	m := Mem{Base: base}
	for _, name := range path {
		m.Disp += offsets.Get(name)
	}
	return m
}

// hint is a field of the prefetch hint that the struct at base embeds.
func hint(base reg.Register, in, name string) Mem {
	const of = "PrefetchHint" // the name of the hint's type
	return fieldOf(base, in+"."+of, of+"."+name)
}

// value is a vector constant in memory: all lanes a constant of elementary.
func value(name string) Mem { return f32(elementary.Get(name)) }

const readOnly = 8 | 16 // RODATA|NOPTR

var broadcasts = map[uint32]Mem{}

// f32 is a vector constant in memory: all lanes x.
func f32(x float32) Mem { return u32(math.Float32bits(x)) }

// u32 is a vector constant in memory: all lanes the bits x.
func u32(x uint32) Mem {
	m, ok := broadcasts[x]
	if !ok {
		m = wordTable(fmt.Sprintf("all%08x", x), slices.Repeat([]uint32{x}, lanes)...)
		broadcasts[x] = m
	}
	return m
}

// constant loads a vector constant.
func constant(m Mem) reg.VecVirtual {
	c := YMM()
	VMOVUPS(m, c)
	return c
}

// withConstant emits step for n vectors. If there are several, the constant is in a register: CPUs
// load no more vectors at a time than they multiply.
func withConstant(m Mem, n int, step func(c Op, i int)) {
	var c Op = m
	if n > 1 {
		c = constant(m)
	}
	for i := range n {
		step(c, i)
	}
}

const (
	bitsNegInf = 0xff800000
	bitsSign   = 0x80000000
	bitsAbs    = 0x7fffffff
)

var wordTables = map[string]Mem{}

// wordTable is a table of 32-bit words in memory, an even number of them. Two share a line.
func wordTable(name string, w ...uint32) Mem {
	m, ok := wordTables[name]
	if !ok {
		m = GLOBL(name, readOnly)
		for i := 0; i < len(w); i += 2 {
			DATA(4*i, U64(uint64(w[i])|uint64(w[i+1])<<32))
		}
		wordTables[name] = m
	}
	return m
}

// tailMasks has 8 words of ones and 8 of zeros: loading from word 8−n gives ones in n lanes.
func tailMasks() Mem {
	const on = 0xffffffff
	return wordTable("tailMasks", on, on, on, on, on, on, on, on, 0, 0, 0, 0, 0, 0, 0, 0)
}

// bitOfLane has bit t set in lane t.
func bitOfLane() Mem { return wordTable("bitOfLane", 1, 2, 4, 8, 16, 32, 64, 128) }

// numberOfLane is t in lane t.
func numberOfLane() Mem { return wordTable("numberOfLane", 0, 1, 2, 3, 4, 5, 6, 7) }

// imm is an immediate operand: of 8 bits if they are enough, else of 32.
func imm(n int) Op {
	if n < 128 {
		return U8(n)
	}
	return U32(n)
}

// Predicates of VCMPPS, all of them quiet.
const (
	equal     = 0x00
	notEqual  = 0x04
	unordered = 0x03
	lessThan  = 0x11
	notLess   = 0x15
	notAtMost = 0x16

	notAtLeast = 0x19
)
