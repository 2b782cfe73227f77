package main

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/embed/folder"
)

// encoder turns tokens into embeddings. It has buffers, so that one goroutine uses it at a time.
type encoder struct {
	*model
	pool    *attn.Pool
	workers int
	err     error // the first one; the rest is not computed

	tokens                   int   // in the batch
	lens                     []int // of its texts
	x, y, qkv, heads, middle []float32
}

func newEncoder(m *model, workers int) *encoder {
	return &encoder{model: m, pool: attn.NewPool(workers), workers: workers}
}

// batchTokens are computed together, unless a text has more: enough for products to be fast, few
// enough for caches.
const batchTokens = 1024

// embed returns an embedding for each text.
func (e *encoder) embed(texts [][]int) (embeddings [][]float32, err error) {
	for len(texts) > 0 {
		n := 1
		for e.tokens = len(texts[0]); n < len(texts) && e.tokens+len(texts[n]) <= batchTokens; n++ {
			e.tokens += len(texts[n])
		}
		e.forward(texts[:n])
		first := 0
		for _, text := range texts[:n] {
			embeddings = append(embeddings, e.reduce(first, len(text)))
			e.checkFinite(embeddings)
			first += len(text)
		}
		texts = texts[n:]
	}
	return embeddings, e.err
}

// checkFinite refuses the last of some embeddings if it is no direction: similarities would be
// numbers without a meaning, or none.
func (e *encoder) checkFinite(embeddings [][]float32) {
	last := embeddings[len(embeddings)-1]
	at := slices.IndexFunc(last, func(x float32) bool { return math.IsNaN(float64(x - x)) })
	if at >= 0 && e.err == nil {
		e.err = fmt.Errorf("text %d: number %d of its embedding is %v, want finite weights and sums",
			len(embeddings), at+1, last[at])
	}
}

// forward computes the rows of a batch. The tokens of its texts lie one after another: nothing is
// padded, and all but attention goes over the rows of all texts at once.
func (e *encoder) forward(texts [][]int) {
	d := e.Hidden
	for buffer, width := range map[*[]float32]int{&e.x: d, &e.y: d, &e.heads: d, &e.qkv: 3 * d,
		&e.middle: e.FFN} {
		if len(*buffer) < e.tokens*width {
			*buffer = make([]float32, e.tokens*width)
		}
	}
	e.lens = e.lens[:0]
	for _, text := range texts {
		e.lens = append(e.lens, len(text))
	}
	e.lookUp(texts)
	for i := range e.layers {
		l := &e.layers[i]
		e.multiply(e.qkv, e.x, &l.qkv)
		e.attend()
		e.multiply(e.y, e.heads, &l.join)
		e.addNorm(&l.norm)
		e.multiply(e.middle, e.x, &l.up)
		e.share(func(i int) { gelu(e.middle[i*e.FFN:][:e.FFN]) })
		e.multiply(e.y, e.middle, &l.down)
		e.addNorm(&l.ffnNorm)
	}
}

// row is a row of Hidden elements.
func (e *encoder) row(x []float32, i int) []float32 { return x[i*e.Hidden:][:e.Hidden] }

// lookUp sets x to the embeddings of tokens, positions and the first type.
func (e *encoder) lookUp(texts [][]int) {
	row := 0
	for _, text := range texts {
		for position, id := range text {
			x, word, place := e.row(e.x, row), e.row(e.words, id), e.row(e.positions, position)
			for i := range x {
				x[i] = word[i] + e.types[i] + place[i]
			}
			e.norm.apply(x, e.Epsilon)
			row++
		}
	}
}

// multiply is a linear layer over all rows.
func (e *encoder) multiply(dst, x []float32, by *folder.Linear) {
	if e.err == nil {
		e.err = e.pool.MulMatrix(attn.BHLD(dst, 1, 1, e.tokens, by.Out),
			attn.BHLD(x, 1, 1, e.tokens, by.In), by.Matrix, by.Bias)
	}
}

// attend lets the tokens of each text see each other: texts are documents of one call. Q, K and V
// are columns of the rows that one product made, and the outputs of the heads are written side by
// side: nothing is transposed.
func (e *encoder) attend() {
	d := e.Hidden / e.Heads
	columns := func(i int) attn.Tensor {
		return attn.Rows(e.qkv[i*e.Hidden:], 1, e.tokens, e.Heads, d, 3*e.Hidden)
	}
	if e.err == nil {
		e.err = e.pool.Attend(attn.BLHD(e.heads, 1, e.tokens, e.Heads, d), columns(0), columns(1),
			columns(2), &attn.Options{Documents: e.lens, Integers: e.integers})
	}
}

// addNorm sets x to the LayerNorm of x + y.
func (e *encoder) addNorm(n *layerNorm) {
	e.share(func(i int) {
		x, y := e.row(e.x, i), e.row(e.y, i)
		for j := range x {
			x[j] += y[j]
		}
		n.apply(x, e.Epsilon)
	})
}

// share divides the rows among goroutines. What happens to a row does not depend on who does it.
func (e *encoder) share(work func(row int)) {
	var group sync.WaitGroup
	for w := range e.workers {
		group.Go(func() {
			for i := w * e.tokens / e.workers; i < (w+1)*e.tokens/e.workers; i++ {
				work(i)
			}
		})
	}
	group.Wait()
}

// reduce makes one embedding of a text's rows.
func (e *encoder) reduce(first, n int) []float32 {
	rows := make([][]float32, n)
	for i := range rows {
		rows[i] = e.row(e.x, first+i)
	}
	x := e.modes.row(rows)
	for _, s := range e.steps {
		if s.dense == nil {
			x = unit(x)
		} else {
			x = e.layer(x, s.dense)
		}
	}
	if e.width > 0 {
		x = x[:min(len(x), e.width)]
	}
	return x
}

// layer applies a layer that comes after the pooling.
func (e *encoder) layer(x []float32, d *dense) []float32 {
	y := make([]float32, d.Out)
	if e.err == nil {
		e.err = e.pool.MulMatrix(attn.BHLD(y, 1, 1, 1, d.Out), attn.BHLD(x, 1, 1, 1, d.In), d.Matrix,
			d.Bias)
	}
	if d.tanh {
		tanh(y)
	}
	return y
}

// unit is a vector of the same direction and length 1.
func unit(x []float32) []float32 {
	length := float32(math.Sqrt(float64(attn.Dot(x, x))))
	y := slices.Clone(x)
	divide(y, max(length, 1e-12))
	return y
}
