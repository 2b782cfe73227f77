package attn_test

import (
	"fmt"

	"github.com/seed-1415985d/attn"
)

// MultiHead is self-attention with its projections, in its own buffers.
type MultiHead struct {
	qkv, out          *attn.Matrix // packed once: [model × 3·heads·dim] and [heads·dim × model]
	model, heads, dim int
	options           attn.Options
	rows, joined      []float32 // Q, K and V of each token; the heads' outputs
}

// Forward computes dst = Attention(x·Wq, x·Wk, x·Wv)·Wo for n tokens.
func (m *MultiHead) Forward(dst, x []float32, n int) error {
	width := m.heads * m.dim
	rows, joined := m.rows[:n*3*width], m.joined[:n*width]
	// One product yields the rows [Q K V]; Q, K and V are columns of them, head
	// beside head.
	err := m.qkv.MatMul(attn.BHLD(rows, 1, 1, n, 3*width), attn.BHLD(x, 1, 1, n, m.model), nil)
	if err != nil {
		return err
	}
	columns := func(i int) attn.Tensor {
		return attn.Rows(rows[i*width:], 1, n, m.heads, m.dim, 3*width)
	}
	// Each head writes its part of the token's row: that concatenates the heads.
	err = attn.Attend(attn.BLHD(joined, 1, n, m.heads, m.dim), columns(0), columns(1), columns(2),
		&m.options)
	if err != nil {
		return err
	}
	return m.out.MatMul(attn.BHLD(dst, 1, 1, n, m.model), attn.BHLD(joined, 1, 1, n, width), nil)
}

// newMultiHead returns a layer whose two heads have the same weights and whose
// output projection takes their mean: the result can be compared with the
// published walk-through of one head.
func newMultiHead(tokens int) (*MultiHead, error) {
	qkv := []float32{ // Wq twice, Wk twice, Wv twice
		1, 0, 1, 1, 0, 1 /**/, 0, 0, 1, 0, 0, 1 /**/, 0, 2, 0, 0, 2, 0,
		1, 0, 0, 1, 0, 0 /**/, 1, 1, 0, 1, 1, 0 /**/, 0, 3, 0, 0, 3, 0,
		0, 0, 1, 0, 0, 1 /**/, 0, 1, 0, 0, 1, 0 /**/, 1, 0, 3, 1, 0, 3,
		0, 1, 1, 0, 1, 1 /**/, 1, 1, 0, 1, 1, 0 /**/, 1, 1, 0, 1, 1, 0,
	}
	out := []float32{
		.5, 0, 0, 0,
		0, .5, 0, 0,
		0, 0, .5, 0,
		.5, 0, 0, 0,
		0, .5, 0, 0,
		0, 0, .5, 0,
	}
	m := &MultiHead{model: 4, heads: 2, dim: 3, options: attn.Options{Scale: 1}}
	m.rows, m.joined = make([]float32, tokens*3*6), make([]float32, tokens*6)
	var err error
	if m.qkv, err = attn.PackMatrix(attn.BHLD(qkv, 1, 1, 4, 18), attn.MatrixConfig{}); err != nil {
		return nil, err
	}
	m.out, err = attn.PackMatrix(attn.BHLD(out, 1, 1, 6, 4), attn.MatrixConfig{})
	return m, err
}

// From token embeddings to the output of a multi-head attention layer, without
// allocating in Forward.
func Example_multiHead() {
	m, err := newMultiHead(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	x := []float32{
		1, 0, 1, 0,
		0, 2, 0, 2,
		1, 1, 1, 1,
	}
	dst := make([]float32, 3*4)
	if err := m.Forward(dst, x, 3); err != nil {
		fmt.Println(err)
	}
	for i := range 3 {
		fmt.Printf("%.4f\n", dst[i*4:][:4])
	}
	// Output:
	// [1.9366 6.6831 1.5951 0.0000]
	// [2.0000 7.9640 0.0540 0.0000]
	// [1.9997 7.7599 0.3584 0.0000]
}
