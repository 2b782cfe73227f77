package embed

import (
	"fmt"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// mixture replaces the networks of some layers by several, its experts, of which each token chooses
// some by the softmax of a router's outputs. The outputs are added up, weighed by these numbers.
type mixture struct {
	every      int // layers 1, every + 1, 2·every + 1 and so on have experts; 0 for none
	count, top int // experts, and how many a token chooses
}

// expertNames are the names of a layer's experts, without .weight in GGUF files.
type expertNames struct {
	router, up, down string
	bias             string // of the sum; "" for none
}

// check validates the sizes, whose keys it names.
func (m *mixture) check(every, count, top string) error {
	switch {
	case m.every == 0:
		return nil
	case m.every < 2:
		return fmt.Errorf("%s is %d, want 0 or at least 2", every, m.every)
	case m.count < 1 || m.count > 1<<12 || m.top < 1 || m.top > m.count:
		return fmt.Errorf("%s is %d and %s %d, want 1 to 4096, and 1 to as many", count, m.count, top,
			m.top)
	}
	return nil
}

// has reports whether layer i has experts.
func (m *mixture) has(i int) bool { return m.every > 0 && i%m.every == 1 }

// experts are the networks of a layer.
type experts struct {
	router   weights.Linear
	up, down []*attn.Matrix
	bias     attn.Tensor // of the sum; without Data for none
}

// loadExperts loads the networks of a layer.
func (b *builder) loadExperts(at string) *experts {
	n, h, in := b.mixture.count, b.hidden, &b.names.experts
	at = b.at + at
	x := &experts{router: b.Linear(attn.F32, h, false, weights.Part{Name: at + in.router, Out: n})}
	if b.blocks {
		x.up, x.down = b.expertsOf(at+in.up, h, b.ffn), b.expertsOf(at+in.down, b.ffn, h)
	} else {
		x.up, x.down = b.packExperts(at+in.up, at+in.down)
	}
	if in.bias != "" {
		bias := b.Tensor(at+in.bias, h)
		x.bias = attn.Tensor{Data: bias, B: 1, H: 1, L: 1, D: h, SB: h, SH: h, SL: h}
	}
	return x
}

// expertsOf loads the matrices of a tensor of all experts, as the file has them.
func (b *builder) expertsOf(name string, in, out int) []*attn.Matrix {
	n := b.mixture.count
	var all []weights.Part
	for e := range n {
		all = append(all, weights.Part{Name: name, Out: out, From: e * out, Of: n * out, Experts: n})
	}
	return b.ExpertMatrices(-1, in, false, all...).Matrices
}

// packExperts packs the matrices of two tensors of folders, the second of which has a row for each
// input.
func (b *builder) packExperts(upName, downName string) (up, down []*attn.Matrix) {
	n, f, h, kind := b.mixture.count, b.ffn, b.hidden, attn.F32
	if b.Integers {
		kind = attn.I8
	}
	first, second := b.Tensor(upName, n*f, h), b.Tensor(downName, n*f, h)
	for e := 0; e < n && b.Err == nil; e++ {
		up = append(up, b.Pack(kind, upName, first[e*f*h:][:f*h], h, f).Matrix)
		rows := make([]float32, h*f)
		for i := range f {
			for j, w := range second[(e*f+i)*h:][:h] {
				rows[j*f+i] = w
			}
		}
		down = append(down, b.Pack(kind, downName, rows, f, h).Matrix)
	}
	return up, down
}

// runExperts sets y to the outputs of the experts that each row of x chooses.
func (s *slab) runExperts(m *experts) {
	n, top, x, y := m.router.Out, s.mixture.top, s.x(), s.view(s.y, s.hidden)
	s.scores = resize(s.scores, s.rows*n)
	scores := s.view(s.scores, n)
	s.multiplyOne(s.scores, x, &m.router)
	s.try(nn.Softmax(s.pool, scores, scores))
	s.chosen, s.shares = resize(s.chosen, s.rows*top), resize(s.shares, s.rows*top)
	for i := range s.rows {
		row, best := s.scores[i*n:][:n], s.chosen[i*top:][:top]
		attn.TopK(best, row)
		for j, e := range best {
			s.shares[i*top+j] = row[e]
		}
	}
	chosen := attn.View[int32]{Data: s.chosen, B: 1, H: 1, L: s.rows, D: top, SB: s.rows * top,
		SH: s.rows * top, SL: top}
	s.wide = resize(s.wide, s.rows*top*s.ffn)
	s.mixed = resize(s.mixed, s.rows*top*s.hidden)
	wide := attn.BHLD(s.wide, 1, top, s.rows, s.ffn)
	mixed := attn.BHLD(s.mixed, 1, top, s.rows, s.hidden)
	if s.err == nil {
		s.err = s.pool.MulExperts(wide, x, m.up, chosen, nil)
	}
	s.try(nn.Activate(s.pool, wide, wide, s.activation))
	if s.err == nil {
		s.err = s.pool.MulExperts(mixed, wide, m.down, chosen, nil)
	}
	s.try(nn.Combine(s.pool, y, mixed, s.view(s.shares, top)))
	if bias := m.bias; bias.Data != nil {
		bias.L, bias.SL = s.rows, attn.Broadcast
		s.try(nn.Add(s.pool, y, y, bias))
	}
}
