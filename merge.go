package attn

// merge puts part, whose keys follow total's, into total.
func (w *scratch) merge(total, part *state, rows, oStride int) {
	mergeSums(total.m[:rows], total.l, part.m, part.l, w.alpha, w.beta)
	for r := range rows {
		merge(total.o[r*oStride:], part.o[r*oStride:][:oStride], w.alpha[r], w.beta[r])
	}
}

// mergeSinks merges each row with a state of maximum sink, sum 1 and output 0. Fully masked rows
// stay empty, whatever the sink.
func (w *scratch) mergeSinks(p *plan, c *chunk) {
	for r := range c.rows {
		h, _ := p.locate(c.kv, c.row+r)
		w.part.m[r], w.part.l[r] = p.sinks[h], 1
		if w.total.l[c.at+r] == 0 {
			w.part.m[r] = negInf
		}
	}
	clear(w.part.o[:p.oStride])
	mergeSums(w.total.m[c.at:][:c.rows], w.total.l[c.at:], w.part.m, w.part.l, w.alpha, w.beta)
	for r := range c.rows {
		merge(w.total.o[(c.at+r)*p.oStride:], w.part.o[:p.oStride], w.alpha[r], w.beta[r])
	}
}
