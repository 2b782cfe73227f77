package main

import . "github.com/seed-1415985d/attn/asm/internal/neon"

// Products by blocks of GGUF, for CPUs with FEAT_DotProd: rows of blockRow by a panel that was
// unpacked into bytes with sign, in groups of four inputs, followed by scales (internal/blocks).
// Sums of products of a block stay in registers, and outputs in memory.

const (
	blockGroups   = 8                       // of four inputs
	blockUnpacked = 4 * blockGroups * panel // bytes before the scales
	blockRowScale = 32                      // in a blockRow
	blockRowHalf  = 40
	blockRowSum   = 48
	blockRowSize  = 56
)

func (s blockSums) size() int { return blockUnpacked + panelBytes*s.vectors() }

// Registers of products by blocks, in addition to the registers of tile.go.
const (
	blockAt   = R7  // unpacked blocks
	blockRest = R8  // blocks left
	rowAt     = R17 // a moving pointer
)

// blockTile is up to four rows by a panel.
type blockTile struct {
	*program
	sums blockSums
	rows int
}

func (p *program) blockKernels() {
	p.unpackNibbles()
	p.bookKernels()
	p.fewKernels()
	for _, k := range multiplyKernels {
		p.multiplyBlocks(k.name, k.sums[0], k.sizes)
	}
}

// unpackNibbles looks up the lower and the upper halves of bytes in a table.
func (p *program) unpackNibbles() {
	const dst, packed, n, high = R0, R1, R2, R3
	const mask, levels, x, y = Vec(0), Vec(1), Vec(2), Vec(3)
	p.kernelLike("unpackBlockGeneric", "unpackNibblesDot", 0, "dst packed table n upper", "")
	p.arg("table", n)
	p.LdrQ(levels, n, 0)
	p.arg("dst", dst)
	p.arg("packed", packed)
	p.arg("n", n)
	p.arg("upper", high)
	p.Add(high, dst, high)
	p.MovImm(R4, 0x0f0f0f0f)
	p.DupReg(mask, R4)
	loop := p.label("vector")
	p.Label(loop)
	p.LdrQPost(x, packed)
	p.Ushr(y, x, 4)
	p.And(x, x, mask)
	p.And(y, y, mask)
	p.Tbl1(x, levels, x)
	p.Tbl1(y, levels, y)
	p.StrQPost(x, dst)
	p.StrQPost(y, high)
	p.SubImm(n, n, 1)
	p.Cbnz(n, loop)
	p.Ret()
}

// multiplyBlocks emits products of rows by one panel.
func (p *program) multiplyBlocks(name string, sums blockSums, sizes []int) {
	p.kernelLike("multiplyBlocksGeneric", name, 0, "x", "")
	p.arg("x", moving)
	p.field(cPanel, moving, "blockCall.o")
	p.field(aFirst, moving, "blockCall.a")
	p.field(rowsLeft, moving, "blockCall.rows")
	p.field(cStride, moving, "blockCall.oStride")
	p.LslImm(cStride, cStride, 2)
	p.field(aStride, moving, "blockCall.aStride")
	p.MovImm(moving, blockRowSize)
	p.Mul(aStride, aStride, moving)
	tiles := p.label("tiles")
	p.Label(tiles)
	for _, r := range sizes {
		fewer := p.label("fewer")
		p.CmpImm(rowsLeft, r)
		p.Bcond(LT, fewer)
		t := blockTile{p, sums, r}
		t.emit()
		p.SubImm(rowsLeft, rowsLeft, r)
		p.Cbnz(rowsLeft, tiles)
		p.Ret()
		p.Label(fewer)
	}
	p.Ret()
}

// Registers: sums of products, the same of the first half, weights, rows, floats.
func (t *blockTile) acc(i, v int) Vec   { return Vec(4*i + v) }
func (t *blockTile) first(i, v int) Vec { return Vec(4*(t.rows+i) + v) }

var (
	blockWeights = from(16, 4)
	blockFloats  = from(24, 4)
)

func (t *blockTile) row(i int) Vec { return Vec(20 + i) }

// at is the current blockRow of row i.
func (t *blockTile) at(i int) Reg { return a0 + Reg(i) }

// emit computes the tile, and moves on by its rows.
func (t *blockTile) emit() {
	t.Comment("%d rows.", t.rows)
	t.begin()
	t.Mov(t.at(0), aFirst)
	for i := 1; i < t.rows; i++ {
		t.Add(t.at(i), t.at(i-1), aStride)
	}
	t.Add(aFirst, t.at(t.rows-1), aStride)
	t.arg("x", rowAt)
	t.field(blockAt, rowAt, "blockCall.w")
	t.field(blockRest, rowAt, "blockCall.blocks")
	loop := t.label("block")
	t.Label(loop)
	t.Mov(b0, blockAt)
	switch t.sums {
	case floatsSums:
		for half := range 2 {
			t.products(half*blockGroups/2, (half+1)*blockGroups/2)
			t.floats()
			t.addTimes(half)
		}
	case halvesSums:
		t.products(0, blockGroups/2)
		t.takeHalf(1)
		for i := range t.rows {
			for v := range 4 {
				t.MovV(t.first(i, v), t.acc(i, v))
			}
		}
		t.products(blockGroups/2, blockGroups)
		t.takeHalf(2)
		for i := range t.rows {
			for v := range 4 {
				t.Fadd(t.acc(i, v), t.acc(i, v), t.first(i, v)) // integers below 2²⁴
			}
		}
		t.add()
	default:
		t.products(0, blockGroups)
		t.floats()
		t.add()
	}
	for i := range t.rows {
		t.AddImm(t.at(i), t.at(i), blockRowSize)
	}
	t.AddImm(blockAt, blockAt, t.sums.size())
	t.SubImm(blockRest, blockRest, 1)
	t.Cbnz(blockRest, loop)
	for range t.rows {
		t.Add(cPanel, cPanel, cStride)
	}
}

// floats makes floats of sums.
func (t *blockTile) floats() {
	for i := range t.rows {
		for v := range 4 {
			t.Scvtf(t.acc(i, v), t.acc(i, v))
		}
	}
}

// begin makes outputs 0 if there are none yet.
func (t *blockTile) begin() {
	ready := t.label("ready")
	t.arg("x", rowAt)
	t.byteField(moving, rowAt, "blockCall.overwrite")
	t.Cbz(moving, ready)
	for _, v := range blockFloats {
		t.Zero(v)
	}
	t.Mov(rowAt, cPanel)
	for range t.rows {
		t.St1(blockFloats, rowAt)
		t.Add(rowAt, rowAt, cStride)
	}
	t.Label(ready)
}

// products multiplies some groups; b0 points to their weights and moves on.
func (t *blockTile) products(first, end int) {
	for i := range t.rows {
		for v := range 4 {
			t.Zero(t.acc(i, v))
		}
	}
	for g := first; g < end; g++ {
		if g%4 == 0 {
			for i := range t.rows {
				t.AddImm(rowAt, t.at(i), 4*g)
				t.Ld1(from(t.row(i), 1), rowAt)
			}
		}
		t.Ld1Post(blockWeights, b0)
		for i := range t.rows {
			for v, w := range blockWeights {
				t.SdotLane(t.acc(i, v), w, t.row(i), g%4)
			}
		}
	}
}

// scales loads a vector of the block's scales for each output.
func (t *blockTile) scales(to []Vec, i int) {
	t.AddImm(rowAt, blockAt, blockUnpacked+i*panelBytes)
	t.Ld1(to, rowAt)
}

// takeHalf makes floats of sums and multiplies them by scales, which is exact.
func (t *blockTile) takeHalf(scales int) {
	t.scales(blockWeights, scales)
	for i := range t.rows {
		for v, s := range blockWeights {
			t.Scvtf(t.acc(i, v), t.acc(i, v))
			t.Fmul(t.acc(i, v), t.acc(i, v), s)
		}
	}
}

// broadcast loads a field of a row's blockRow.
func (t *blockTile) broadcast(to Vec, i, field int) {
	t.AddImm(rowAt, t.at(i), field)
	t.Ld1rPost(to, rowAt)
}

// add adds sums times a·d to the outputs.
func (t *blockTile) add() {
	if t.sums == minimaSums {
		t.scales(blockWeights, 2)
		for i := range t.rows {
			for v, s := range blockWeights {
				t.Fmul(t.acc(i, v), t.acc(i, v), s) // exact
			}
		}
	}
	t.addTimes(0)
	switch t.sums {
	case minimaSums:
		t.timesSum(3, blockRowSum, t.Fmul)
		t.addTimes(1)
	case pairsSums:
		t.timesSum(2, blockRowHalf, t.Fmul)
		t.timesSum(3, blockRowHalf+4, t.Fmla)
		t.addTimes(1)
	}
}

// timesSum multiplies scales by a sum of each row's inputs, which is exact.
func (t *blockTile) timesSum(scales, field int, multiply func(d, n, m Vec)) {
	t.scales(blockWeights, scales)
	for i := range t.rows {
		sum := t.row(0)
		t.broadcast(sum, i, field)
		t.Scvtf(sum, sum)
		for v, s := range blockWeights {
			multiply(t.acc(i, v), s, sum)
		}
	}
}

// addTimes adds floats times the row's scale times a scale of the outputs.
func (t *blockTile) addTimes(scales int) {
	a, product := t.row(0), t.row(1)
	t.scales(blockWeights, scales)
	t.Mov(moving, cPanel)
	for i := range t.rows {
		t.broadcast(a, i, blockRowScale)
		t.Ld1(blockFloats, moving)
		for v, d := range blockWeights {
			t.Fmul(product, d, a)
			t.Fmla(blockFloats[v], t.acc(i, v), product)
		}
		t.St1(blockFloats, moving)
		t.Add(moving, moving, cStride)
	}
}
