package attn

import "unsafe"

// ahead is the bias or mask of a tile, which is read as soon as its scores are
// there: short runs of rows that lie far apart, which the processor does not
// foresee. Score asks for one row after the other, spread over the time it
// takes: requests are dropped when too many are under way or too many pages are
// asked for at once, so that all rows in one go, or one line of each row for
// each panel, bring next to nothing.
type ahead struct {
	data  unsafe.Pointer
	first int   // bytes from data to the tile's first key in a row at 0
	lines int   // cache lines of a row's part: 4, or 1
	rows  []int // where each row begins, in bytes from data
}

const cacheLine = 64

// pairsAhead is the bias, or the mask if there is no bias, of a tile.
func (w *scratch) pairsAhead(p *plan, b *block, t *tile) ahead {
	key, rows := b.first+t.lo, w.ahead[t.row:]
	if p.bias.Data != nil {
		const size = int(unsafe.Sizeof(p.bias.Data[0]))
		return ahead{unsafe.Pointer(&p.bias.Data[0]), key * size, Block * size / cacheLine, rows}
	}
	return ahead{unsafe.Pointer(&p.mask.Data[0]), key, Block / cacheLine, rows}
}

// locatePairs finds where the rows of the chunk begin in the bias or mask. Few
// rows are left to the processor.
func (w *scratch) locatePairs(p *plan, c *chunk) {
	w.ahead = w.ahead[:0]
	if !p.pairwise() || c.rows <= rawRows {
		return
	}
	for r := range c.rows {
		h, i := p.locate(c.kv, c.row+r)
		if p.bias.Data != nil {
			w.ahead = append(w.ahead, p.bias.offset(c.b, h, i)*int(unsafe.Sizeof(p.bias.Data[0])))
		} else {
			w.ahead = append(w.ahead, p.mask.offset(c.b, h, i))
		}
	}
}
