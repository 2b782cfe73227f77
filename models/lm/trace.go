package lm

import "github.com/seed-1415985d/attn"

// tracer collects the rows that layers return for a sequence, until its caller reads them.
type tracer struct {
	f    func(layer, first int, rows attn.Tensor) // of the caller; nil for none
	rows []tracedRows
}

type tracedRows struct {
	layer, first int
	data         []float32
}

// add copies the rows of tokens from position first on.
func (t *tracer) add(layer, first int, rows []float32) {
	t.rows = append(t.rows, tracedRows{layer, first, append([]float32(nil), rows...)})
}

// report passes on the rows added since the last call.
func (t *tracer) report(dim int) {
	for _, r := range t.rows {
		t.f(r.layer, r.first, rowsOf(r.data, dim))
	}
	t.rows = t.rows[:0]
}

// traced adds the rows of traced pieces.
func (r *runner) traced(layer int, pieces []piece) {
	from := 0
	for _, p := range pieces {
		n := len(p.tokens) * r.Dim
		if p.trace != nil && r.err == nil {
			p.trace.add(layer, int(r.positions[from/r.Dim]), r.x[from:from+n])
		}
		from += n
	}
}
