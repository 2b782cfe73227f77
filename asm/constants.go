package main

import (
	"fmt"
	"math"

	. "github.com/seed-1415985d/attn/asm/internal/neon"
)

// Layout shared with package attn.
const (
	block = 64 // keys of a block
	panel = 16 // keys or columns of a panel

	lanes      = 4         // float32 of a vector
	vector     = 4 * lanes // bytes
	panelBytes = 4 * panel
	blockBytes = 4 * block
)

const (
	bitsNegInf = 0xff800000
	bitsSign   = 0x80000000
)

// tableRow is a vector of the constant table.
type tableRow struct {
	words  [lanes]uint32
	remark string
}

// table is the constants in memory, 16 bytes each. Its address is in one
// register; a constant is a load away, which costs less than moving it between
// vector registers: the load units have time, the vector units do not.
const table = R26

// float is the offset in the table of the vector with all lanes x.
func (p *program) float(x float32) int {
	return p.tableRow(fmt.Sprintf("%x", x), repeat(math.Float32bits(x)))
}

// value is the offset of a constant of internal/f32/elementary.go, in all lanes.
func (p *program) value(name string) int {
	return p.tableRow(name, repeat(math.Float32bits(p.values.Get(name))))
}

// words is the offset of four words.
func (p *program) words(remark string, w ...uint32) int {
	return p.tableRow(remark, [lanes]uint32(w))
}

func repeat(x uint32) [lanes]uint32 { return [lanes]uint32{x, x, x, x} }

func (p *program) tableRow(remark string, words [lanes]uint32) int {
	for i, r := range p.table {
		if r.words == words {
			return vector * i
		}
	}
	p.table = append(p.table, tableRow{words, remark})
	return vector * (len(p.table) - 1)
}

// bitsOfLanes has bit 4·v+t set in lane t.
func (p *program) bitsOfLanes(v int) int {
	return p.words(fmt.Sprintf("bits %d to %d", 4*v, 4*v+3), 1<<(4*v), 2<<(4*v), 4<<(4*v), 8<<(4*v))
}

// reduction holds log2E, ln2Hi and ln2Lo in lanes 0, 1 and 2, for instructions by element.
func (p *program) reduction() int {
	bits := func(name string) uint32 { return math.Float32bits(p.values.Get(name)) }
	return p.words("log2E ln2Hi ln2Lo", bits("log2E"), bits("ln2Hi"), bits("ln2Lo"), 0)
}

// constantTable writes the table after the kernels.
func (p *program) constantTable() {
	p.Line("\n// Constants, 16 bytes each.")
	for i, r := range p.table {
		p.Line("// %s", r.remark)
		for t := 0; t < len(r.words); t += 2 {
			p.Line("DATA constants<>+%d(SB)/8, $%#x", vector*i+4*t,
				uint64(r.words[t])|uint64(r.words[t+1])<<32)
		}
	}
	p.Line("GLOBL constants<>(SB), RODATA|NOPTR, $%d", vector*len(p.table))
	p.Line("DATA zeros<>+0(SB)/4, $0")
	p.Line("GLOBL %s, RODATA|NOPTR, $%d", zeroTable, zeroBytes)
}
