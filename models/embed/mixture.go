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

// check validates the sizes.
func (m *mixture) check() error {
	switch {
	case m.every == 0:
		return nil
	case m.every < 2:
		return fmt.Errorf("moe_every_n_layers is %d, want 0 or at least 2", m.every)
	case m.count < 1 || m.count > 1<<12 || m.top < 1 || m.top > m.count:
		return fmt.Errorf("num_experts is %d and moe_top_k %d, want 1 to 4096, and 1 to as many",
			m.count, m.top)
	}
	return nil
}

// has reports whether layer i has experts.
func (m *mixture) has(i int) bool { return m.every > 0 && i%m.every == 1 }

// experts are the networks of a layer.
type experts struct {
	router   weights.Linear
	up, down []*attn.Matrix
	bias     attn.Tensor // of the sum
}

// loadExperts loads the networks of a layer.
func (b *builder) loadExperts(at string) *experts {
	n, f, h := b.mixture.count, b.ffn, b.hidden
	kind := attn.F32
	if b.Integers {
		kind = attn.I8
	}
	x := &experts{router: b.Linear(attn.F32, h, false,
		weights.Part{Name: b.at + at + "mlp.router.layer", Out: n})}
	up, down := b.at+at+"mlp.experts.mlp.w1", b.at+at+"mlp.experts.mlp.w2"
	first, second := b.Tensor(up, n*f, h), b.Tensor(down, n*f, h)
	bias := b.Tensor(b.at+at+"mlp.experts.bias", h)
	for e := 0; e < n && b.Err == nil; e++ {
		x.up = append(x.up, b.Pack(kind, up, first[e*f*h:][:f*h], h, f).Matrix)
		rows := make([]float32, h*f) // the file has a row for each input
		for i := range f {
			for j, w := range second[(e*f+i)*h:][:h] {
				rows[j*f+i] = w
			}
		}
		x.down = append(x.down, b.Pack(kind, down, rows, f, h).Matrix)
	}
	x.bias = attn.Tensor{Data: bias, B: 1, H: 1, L: 1, D: h, SB: h, SH: h, SL: h}
	return x
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
	bias := m.bias
	bias.L, bias.SL = s.rows, attn.Broadcast
	s.try(nn.Add(s.pool, y, y, bias))
}
