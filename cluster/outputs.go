package cluster

import "github.com/seed-1415985d/attn"

// outputs are sent instead of a state by a worker that has all keys, of several segments. A state
// has a node for each bit of their number, so outputs are fewer bytes and less work for the waiting
// client. They are a row and an LSE for each head and query.
type outputs struct {
	keys int
	rows []float32
	lse  []float32
}

// outputsOf finishes a state.
func outputsOf(s *attn.State) (*outputs, error) {
	c := s.Config()
	x := &outputs{s.Keys(), make([]float32, c.Heads*c.Queries*c.ValueDim),
		make([]float32, c.Heads*c.Queries)}
	return x, s.Finish(attn.BHLD(x.rows, 1, c.Heads, c.Queries, c.ValueDim), x.lse)
}

func (x *outputs) wire(c *codec) {
	c.size("keys", &x.keys)
	c.row(&x.rows, len(x.rows))
	c.row(&x.lse, len(x.lse))
}

// readOutputs reads the outputs for a state of a configuration.
func readOutputs(data []byte, c *attn.StateConfig, keys int) (x outputs, err error) {
	n := c.Heads * c.Queries
	x.rows, x.lse = make([]float32, n*c.ValueDim), make([]float32, n)
	d := codec{mode: reads, data: data}
	if err = d.read(&x); err == nil && x.keys != keys {
		err = fail(ErrProtocol, "outputs are of %d keys, want those of %d", x.keys, keys)
	}
	return x, err
}

// writeTo writes the results from row first on to the outputs of a call with rows rows.
func (x *outputs) writeTo(dst *attn.Tensor, lse []float32, first, rows int) {
	n := len(x.lse) / dst.H
	for h := range dst.H {
		for i := range n {
			copy(dst.Row(0, h, first+i), x.rows[(h*n+i)*dst.D:])
		}
		if lse != nil {
			copy(lse[h*rows+first:], x.lse[h*n:][:n])
		}
	}
}
