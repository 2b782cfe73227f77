package attn

import (
	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/stop"
)

// Where queries have lists of keys, what kernels read of a block is gathered first: once for all
// rows of the chunk, in the form that the kinds of keys and values read anyway. So nothing behind
// this file knows of lists but what belongs to a pair of query and key.

// gather makes the keys and values of a part of those that the list of the chunk's rows names.
func (w *scratch) gather(p *plan, c *chunk, b *part) {
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

// gatherRows brings rows of a view together: row lo and those after it.
func (w *scratch) gatherRows(x *Tensor, c *chunk, list []int32, lo int) []float32 {
	rows := w.gathered.rows[:(lo+len(list))*x.D]
	for i, j := range list {
		stop.Copy(rows[(lo+i)*x.D:][:x.D], x.row(c.b, c.kv, int(j)))
	}
	return rows
}

// gatherPanels packs keys and values of views. Panels begin at multiples of panel.
func (w *scratch) gatherPanels(p *plan, c *chunk, b *part, list []int32) {
	before := b.lo % panel
	rows := w.gatherRows(&p.k, c, list, before)
	floats.PackKeys(&tuned, w.k[(b.lo-before)*p.d:], rows, p.d, before+len(list), p.d)
	rows = w.gatherRows(&p.v, c, list, 0)
	floats.PackValues(&tuned, w.v[b.lo*panel:], rows, p.dv, len(list), p.dv)
}

// gatherIntegers makes integers of keys and values of views.
func (w *scratch) gatherIntegers(p *plan, c *chunk, b *part, list []int32) {
	x, to := &w.ints.blocks.format, w.ints.gathered()
	w.writer.fit(x)
	w.writer.writeKeys(x, to, b.lo, w.gatherRows(&p.k, c, list, 0), p.d, len(list))
	w.writer.writeValues(x, to, b.lo, w.gatherRows(&p.v, c, list, 0), p.dv, len(list))
}

// gatherTokens copies tokens of a cache or store, some at a time, so that memory brings those of
// several places side by side. What completes the first ones and the last is one of the others
// again.
func (w *scratch) gatherTokens(p *plan, c *chunk, b *part, list []int32) {
	to := b.memory[b.place:][:p.packed.block]
	var from [together]token
	for j := b.lo / together * together; j < b.hi; j += together {
		for i := range from {
			position := int(list[min(max(j+i, b.lo), b.hi-1)-b.lo])
			var place [1]int
			memory := p.findBlocks(c, position, place[:])
			from[i] = token{memory[place[0]:][:p.packed.block], position % Block}
		}
		p.packed.copyTokens(to, j, &from)
	}
	w.levels.forget()
}

// together is how many tokens are copied at a time.
const together = panel / 2

// token is where a token of a cache or store is: its block, and which one it is of that.
type token struct {
	block []byte
	at    int
}

// copyTokens makes tokens those of a block from token j on.
func (s *packedKV) copyTokens(block []byte, j int, from *[together]token) {
	keys, scales := s.keys(block)
	var x [together][]byte
	for i := range from {
		k, f := s.keys(from[i].block)
		if x[i] = k; s.k.scaled {
			scales[j+i] = f[from[i].at]
		}
	}
	if s.k.bits == 16 {
		copyLanes[uint16](keys, j, s.d, &x, from)
	} else { // float32, or groups of four bytes
		copyLanes[uint32](keys, j, s.k.bits*roundUp(s.d, s.k.whole)/32, &x, from)
	}
	if s.valuesInKeys {
		return
	}
	values, scales := s.values(block)
	for i := range from {
		v, f := s.values(from[i].block)
		if x[i] = v; s.v.scaled {
			scales[j+i] = f[from[i].at]
		}
	}
	switch s.v.bits {
	case 32:
		copyColumns[uint32](values, j, s.cols, &x, from)
	case 16:
		copyColumns[uint16](values, j, s.cols, &x, from)
	case 8:
		copyGroups(values, j, s.cols, &x, from)
	default:
		copyCodes(values, j, s.cols, &x, from)
	}
}

// copyLanes copies keys of d elements in panels of their own to keys from j on, which are side by
// side in one.
func copyLanes[T uint16 | uint32](dst []byte, j, d int, from *[together][]byte,
	at *[together]token) {
	n := (d-1)*panel + 1
	lane := func(i int) []T { return elements[T](from[i])[at[i].at/panel*panel*d+at[i].at%panel:][:n] }
	x0, x1, x2, x3 := lane(0), lane(1), lane(2), lane(3)
	x4, x5, x6, x7 := lane(4), lane(5), lane(6), lane(7)
	to := elements[T](dst)[j/panel*panel*d+j%panel:][:n-1+together]
	for x := 0; x < n; x += panel {
		y := (*[together]T)(to[x:])
		y[0], y[1], y[2], y[3] = x0[x], x1[x], x2[x], x3[x]
		y[4], y[5], y[6], y[7] = x4[x], x5[x], x6[x], x7[x]
	}
}

// copyColumns copies values of some columns, whole panels.
func copyColumns[T uint16 | uint32](dst []byte, j, cols int, from *[together][]byte,
	at *[together]token) {
	for i := range together {
		to, v := elements[T](dst)[(j+i)*panel:], elements[T](from[i])[at[i].at*panel:]
		for x := 0; x < cols*Block; x += panel * Block {
			*(*[panel]T)(to[x:]) = *(*[panel]T)(v[x:])
		}
	}
}

// copyGroups copies values whose columns are in groups of the integers of four tokens.
func copyGroups(dst []byte, j, cols int, from *[together][]byte, at *[together]token) {
	const width = 4
	for first := 0; first < together; first += width {
		lane := func(i int) []byte {
			i += first
			return from[i][at[i].at/width*width*cols+at[i].at%width:][:width*cols-width+1]
		}
		a, b, c, d := lane(0), lane(1), lane(2), lane(3)
		to := dst[(j+first)*cols:][:width*cols]
		for x := 0; x < len(a); x += width {
			y := (*[width]byte)(to[x:])
			y[0], y[1], y[2], y[3] = a[x], b[x], c[x], d[x]
		}
	}
}

// copyCodes copies values whose columns are in groups of the codes of eight tokens.
func copyCodes(dst []byte, j, cols int, from *[together][]byte, at *[together]token) {
	const half = together / 2
	lane := func(i int) (codes []byte, shift int) {
		of := at[i].at
		return from[i][of/8*half*cols+of%half:][:half*cols-half+1], of % 8 / half * 4
	}
	for i := range half {
		lower, down := lane(i)
		upper, up := lane(half + i)
		to := dst[j/8*half*cols+i:]
		for x := 0; x < len(lower); x += half {
			to[x] = lower[x]>>down&15 | upper[x]>>up&15<<4
		}
	}
}

// gathered is the block that gatherIntegers makes.
func (w *intScratch) gathered() []byte { return w.blocks.data[:w.blocks.format.block] }

// What belongs to a pair of query and key is found by the key's position.

// lookAtListMask takes keys out of seen that the mask hides where rows have lists.
func (w *scratch) lookAtListMask(p *plan, c *chunk, b *part, seen []uint64) {
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

// biasOf is the biases of a row for keys lo to hi−1 of the block at key first.
func (w *scratch) biasOf(p *plan, c *chunk, row, first, lo, hi int) []float32 {
	h, i := p.locate(c.kv, row)
	from := p.bias.offset(c.b, h, i) + c.base
	if !p.listed {
		return p.bias.Data[from+first+lo:]
	}
	pairs := w.gathered.pairs[:hi-lo]
	for n, j := range p.listOf(c)[first+lo : first+hi] {
		pairs[n] = p.bias.Data[from+int(j)]
	}
	return pairs
}

// addListBias is addBias where rows have lists.
func (w *scratch) addListBias(p *plan, c *chunk, first int, t *tile, at int, u float32) {
	for r := range t.rows {
		bias := w.biasOf(p, c, c.row+t.row+r, first, t.lo, t.hi)
		floats.AddBias(tuned.ISA, w.s[(at+r)*Block:][t.lo:t.hi], bias, 1, 1, 0, t.hi-t.lo, u)
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
