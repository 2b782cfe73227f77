package attn

import (
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/stop"
)

// If queries have lists of keys, the keys and values of a block are gathered first: once for all
// rows of the chunk, in the form in which the kinds of keys and values read them anyway. So below
// this file only options for pairs of query and key depend on lists.

// gather collects the keys and values of a block from the list of the chunk's rows.
func (w *scratch) gather(p *plan, c *chunk, b *blockKeys) {
	list := p.listOf(c)[b.first:][b.lo:b.hi]
	switch {
	case p.packed != nil:
		w.gatherTokens(p, c, b, list)
	case p.integers:
		w.gatherIntegers(p, c, b, list)
	default:
		w.gatherPanels(p, c, b, list)
	}
}

// gatherRows copies the listed rows of a view, contiguous, to row lo and the rows after it.
func (w *scratch) gatherRows(x *Tensor, c *chunk, list []int32, lo int) []float32 {
	rows := w.gathered.rows[:(lo+len(list))*x.D]
	for i, j := range list {
		stop.Copy(rows[(lo+i)*x.D:][:x.D], x.row(c.b, c.kv, int(j)))
	}
	return rows
}

// gatherPanels packs keys and values of views. Panels begin at multiples of panel.
func (w *scratch) gatherPanels(p *plan, c *chunk, b *blockKeys, list []int32) {
	before := b.lo % panel
	rows := w.gatherRows(&p.k, c, list, before)
	floats.PackKeys(&tuned, w.k[(b.lo-before)*p.d:], rows, p.d, before+len(list), p.d)
	rows = w.gatherRows(&p.v, c, list, 0)
	floats.PackValues(&tuned, w.v[b.lo*panel:], rows, p.dv, len(list), p.dv)
}

// gatherIntegers quantizes keys and values of views.
func (w *scratch) gatherIntegers(p *plan, c *chunk, b *blockKeys, list []int32) {
	x, to := &w.ints.blocks.Format, w.ints.blocks.Only()
	w.writer.Fit(x)
	w.writer.WriteKeys(&tuned, x, to, b.lo, w.gatherRows(&p.k, c, list, 0), p.d, len(list))
	w.writer.WriteValues(&tuned, x, to, b.lo, w.gatherRows(&p.v, c, list, 0), p.dv, len(list))
}

// gatherTokens copies tokens of a cache or store, several at a time, so that reads from several
// places overlap. The first and the last group are completed by repeating a token.
func (w *scratch) gatherTokens(p *plan, c *chunk, b *blockKeys, list []int32) {
	to := b.data[b.place:][:p.packed.Size]
	var from [packed.Together]packed.Token
	for j := b.lo / packed.Together * packed.Together; j < b.hi; j += packed.Together {
		for i := range from {
			position := int(list[min(max(j+i, b.lo), b.hi-1)-b.lo])
			var place [1]int
			data := p.findBlocks(c, position, place[:])
			from[i] = packed.Token{
				Block: data[place[0]:][:p.packed.Size], At: position % Block}
		}
		p.packed.CopyTokens(to, j, &from)
	}
	w.levels.Forget()
}

// Options for pairs of query and key use the key's position.

// lookAtListMask clears in seen the keys that the mask hides, where rows have lists.
func (w *scratch) lookAtListMask(p *plan, c *chunk, b *blockKeys, seen []uint64) {
	list := p.listOf(c)[b.first:][:b.hi]
	for r := range seen {
		h, i := p.locate(c.kv, c.row+r)
		mask := p.mask.row(c.b, h, i)
		for j := b.lo; j < b.hi; j++ {
			if !mask[list[j]] {
				seen[r] &^= 1 << j
			}
		}
	}
}

// addListSlopes is addSlopes where rows have lists.
func (w *scratch) addListSlopes(p *plan, c *chunk, first int, t *tile, at int) {
	list := p.listOf(c)[first+t.lo : first+t.hi]
	for r := range t.rows {
		h, i := p.locate(c.kv, c.row+t.row+r)
		s := w.s[(at+r)*Block:][t.lo:t.hi]
		for n, j := range list {
			s[n] = f32.FMA(p.slopes[h], float32(int(j)-i-c.position), s[n])
		}
	}
}
