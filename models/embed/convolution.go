package embed

import (
	"fmt"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// convolution is a convolution of embeddings along a text, as in large DeBERTas of version 2. After
// the first layer its activation is added to the rows, and the sums are normalized.
type convolution struct {
	kernel     int // tokens that it reads, of which the middle one is its own; 0 for none
	activation nn.Activation

	by   weights.Linear // its inputs are the embeddings of kernel tokens
	norm *norm
}

// setConvolution sets the size and activation of the convolution, if there is one.
func (d *description) setConvolution(kernel int, activation string) (err error) {
	switch {
	case kernel == 0:
		return nil
	case kernel < 0 || kernel > 255 || kernel%2 == 0:
		return fmt.Errorf("conv_kernel_size is %d, want 0 or an odd number up to 255", kernel)
	}
	d.convolution.kernel = kernel
	d.convolution.activation, err = activationOf("conv_act", activation)
	return err
}

// loadConvolution loads the convolution's weights, [outputs, inputs, kernel] in the file.
func (m *Model) loadConvolution(b *builder) {
	c := &m.convolution
	if c.kernel == 0 || b.Err != nil {
		return
	}
	name, n := b.at+b.names.convolution, m.hidden
	weight := b.Tensor(name+".weight", n, n, c.kernel)
	bias := b.Tensor(name+".bias", n)
	c.norm = b.loadNorm(b.names.convolutionNorm)
	if b.Err != nil {
		return
	}
	rows := make([]float32, len(weight))
	for i, x := range weight {
		out, in, at := i/c.kernel/n, i/c.kernel%n, i%c.kernel
		rows[(out*c.kernel+at)*n+in] = x
	}
	kind := attn.F32
	if b.Integers {
		kind = attn.I8
	}
	c.by = b.Pack(kind, name+".weight", rows, c.kernel*n, n)
	c.by.Bias = bias
}

// keepEmbeddings copies the slab's embeddings for the convolution.
func (s *slab) keepEmbeddings() {
	if s.convolution.kernel > 0 {
		copy(s.embedded[s.first*s.hidden:], s.x().Data[:s.rows*s.hidden])
	}
}

// convolve adds the convolution to the slab's rows.
func (s *slab) convolve() {
	c := &s.convolution
	if c.kernel == 0 {
		return
	}
	s.narrow = resize(s.narrow, s.rows*c.by.In)
	for i := range s.rows {
		for j := range c.kernel {
			s.copyNeighbour(s.narrow[(i*c.kernel+j)*s.hidden:][:s.hidden], s.first+i, j-c.kernel/2)
		}
	}
	s.multiplyOne(s.y, s.view(s.narrow, c.by.In), &c.by)
	y := s.view(s.y, s.hidden)
	s.try(nn.Activate(s.pool, y, y, c.activation))
	x := s.x()
	s.try(nn.Add(s.pool, x, x, y))
	s.normalize(x, x, c.norm)
}

// copyNeighbour copies the embedding of the token that many after a token, zeros if its text has
// none there.
func (s *slab) copyNeighbour(dst []float32, token, after int) {
	i := token + after
	if i < 0 || i >= s.tokens || int(s.positions[i]) != int(s.positions[token])+after {
		clear(dst)
		return
	}
	copy(dst, s.embedded[i*s.hidden:])
}
