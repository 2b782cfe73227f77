package attn

import (
	"math"

	"github.com/seed-1415985d/attn/internal/f32"
)

// Segments merge as a binary tree by their index: node (k, i) covers segments [i·2ᵏ, (i+1)·2ᵏ) and
// is its left half merged with its right one. A half that nothing is seen of changes nothing, so
// what comes before the first segment or after the last does not matter: any cut of the keys into
// nodes gives the same bits.

// tree is the nodes that wait for the other half of a larger one, at most one for each level.
type tree struct {
	nodes  uint // bit k: levels[k] waits
	levels []state
}

func (t *tree) begin() { t.nodes = 0 }

// push adds w.part to the tree, the state of segment i. Segments come in ascending order; those
// left out are empty.
func (w *scratch) push(p *plan, i, rows int) { w.pushNode(p, 0, i, rows) }

// pushNode adds w.part to the tree, the state of node (k, i). It uses up part's memory, and gives
// it another one.
func (w *scratch) pushNode(p *plan, k, i, rows int) {
	t := &w.tree
	for ; i&1 != 0; i >>= 1 {
		if t.nodes>>k&1 != 0 {
			w.merge(p, &t.levels[k], &w.part, rows)
			t.levels[k], w.part = w.part, t.levels[k]
			t.nodes &^= 1 << k
		}
		k++
	}
	t.levels[k].grow(w.fitted.rows, w.fitted.oStride) // only now: rows may see few of many keys
	t.levels[k], w.part = w.part, t.levels[k]
	t.nodes |= 1 << k
}

// fold merges the nodes that wait, of which there is at least one, into w.total: the smallest
// first, as if the segments that are missing from the largest one were there and empty.
func (w *scratch) fold(p *plan, rows int) {
	t, first := &w.tree, true
	for k := range t.levels {
		if t.nodes>>k&1 == 0 {
			continue
		}
		if !first {
			w.merge(p, &t.levels[k], &w.total, rows)
		}
		t.levels[k], w.total = w.total, t.levels[k]
		first = false
	}
}

// merge puts part, whose keys come after total's, into total.
func (w *scratch) merge(p *plan, total, part *state, rows int) {
	together := rows
	if p.int8 {
		together = 1 // each row has its factor
	}
	for r := 0; r < rows; r += together {
		c := p.c
		if p.int8 {
			c = w.int8.factors[r]
		}
		mergeSums(total.m[r:r+together], total.l[r:], part.m[r:], part.l[r:], w.alpha[r:], w.beta[r:], c)
	}
	for r := range rows {
		o := total.o[r*p.oStride:]
		merge(o, part.o[r*p.oStride:][:p.oStride], w.alpha[r], w.beta[r])
	}
}

// mergeSinks merges each row, brought to natural units, with a state of maximum sink, sum 1 and
// output 0. Fully masked rows stay empty, whatever the sink. Rows whose maximum overflows in
// natural units stay as they are: beside it a sink's share is 0.
func (w *scratch) mergeSinks(p *plan, c *chunk) {
	total, sink := &w.total, &w.part
	for r := range c.rows {
		row := c.at + r
		h, _ := p.locate(c.kv, c.row+r)
		sink.m[r], sink.l[r] = p.sinks[h], 1
		m := float32(total.m[row] * w.unitOf(p, row))
		w.natural[row] = !(m > math.MaxFloat32 && sink.m[r] <= math.MaxFloat32)
		if w.natural[row] {
			total.m[row] = m
		} else {
			sink.m[r], sink.l[r] = negInf, 0
		}
		if total.l[row] == 0 {
			sink.m[r] = negInf
		}
	}
	clear(sink.o[:p.oStride])
	mergeSums(total.m[c.at:][:c.rows], total.l[c.at:], sink.m, sink.l, w.alpha, w.beta, f32.Log2E)
	for r := range c.rows {
		merge(total.o[(c.at+r)*p.oStride:], sink.o[:p.oStride], w.alpha[r], w.beta[r])
	}
}

// toNatural brings the maxima of rows from a unit to natural units. Those that overflow there
// become the largest number, so that what their rows have seen still counts.
func (s *state) toNatural(at, rows int, unit float32) {
	if unit == 1 {
		return
	}
	for r, m := range s.m[at:][:rows] {
		if m != negInf {
			s.m[at+r] = min(max(float32(m*unit), -math.MaxFloat32), math.MaxFloat32)
		}
	}
}

// unitOf is the unit of a row's scores and maxima, of which the first of the chunk is 0.
func (w *scratch) unitOf(p *plan, row int) float32 {
	if p.int8 && !p.natural {
		return w.int8.units[row]
	}
	return p.unit
}

// factorOf is the factor of a row's powers of 2, its unit times log₂e.
func (w *scratch) factorOf(p *plan, row int) float32 {
	if p.int8 {
		return w.int8.factors[row]
	}
	return p.c
}
