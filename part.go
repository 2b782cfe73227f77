package attn

// What goes through the kernels together.

// part is keys of one block, of which a head reads those from lo to hi−1.
type part struct {
	first  int // key at which the block begins, from which lo and hi count
	lo, hi int
	place  int  // where the block begins in the memory of a cache or store
	equal  bool // by position, every row of the chunk sees all of these keys
	biased bool // some scores have a bias

	looked bool  // which keys rows see is in scratch.seen, unless they see the whole block:
	saw    uint8 // sawSome to sawAll, as look.go has them,
	asks   bool  // but for a bias, which is to be looked at tile by tile;
	hides  bool  // it has hidden keys of a tile
}

// whole reports whether rows were looked at and see the whole block.
func (b *part) whole() bool { return b.saw == sawAll && !b.asks }

// tile is the rows that go through the kernels together, and the keys of the
// block that at least one of them sees.
type tile struct {
	row, rows int
	lo, hi    int
	uniform   bool // all rows see all keys of [lo, hi), by position
}

// keysOf is the keys of a part that some row of the tile sees.
func (t *tile) keysOf(b *part) (lo, hi int) { return max(t.lo, b.lo), min(t.hi, b.hi) }

// diagonalRows rows go together where the rows of a block see different keys: as many as a panel
// has keys, so that a causal diagonal goes through corners of panels.
const diagonalRows = 16

// tile makes t the tile that starts at a row of the chunk: the plan's number of rows if they see
// the same keys, else fewer, so that little is computed for nothing. (To return it would be to copy
// it, which costs small calls a few per cent.)
func (b *part) tile(p *plan, c *chunk, row int, t *tile) {
	t.row, t.rows = row, min(p.tileRows, c.rows-row)
	if b.equal {
		t.lo, t.hi, t.uniform = b.lo, b.hi, true
		return
	}
	lo, hi := b.keyRange(p, c, row)
	lastLo, lastHi := b.keyRange(p, c, row+t.rows-1)
	if lo != lastLo || hi != lastHi {
		t.rows = min(diagonalRows, c.rows-row)
		lastLo, lastHi = b.keyRange(p, c, row+t.rows-1)
	}
	t.lo, t.hi = lo, lastHi // the bounds never decrease from row to row
	t.uniform = lo == lastLo && hi == lastHi
}

// keyRange is the part of the block's keys that a row of the chunk sees by position.
func (b *part) keyRange(p *plan, c *chunk, row int) (lo, hi int) {
	lo, hi = p.keyRange(c, (c.row+row)/p.group)
	return min(max(lo-b.first, b.lo), b.hi), min(max(hi-b.first, b.lo), b.hi)
}

// parts is the number of parts of at most some elements.
func parts(n, of int) int { return (n + of - 1) / of }
