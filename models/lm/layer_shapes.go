package lm

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
	"github.com/seed-1415985d/attn/nn"
)

// byLayer is what differs between the layers of Gemma 4, and what other models do not have. The
// zero value is for other models.
type byLayer struct {
	HeadDim, KVHeads int // of layers without a window
	// how many of the last layers read the keys and values of an earlier one, see cachedBy
	Shared    int
	SharedFFN int // width of the networks of these layers
	// in layers without a window, values are the outputs of the matrix of keys
	KeysAreValues bool
	// how many elements each layer reads of the token's row in a second table; 0 for none
	Inputs int
}

// headDim returns the size of a layer's heads.
func (c *config) headDim(layer int) int {
	if c.ByLayer.HeadDim > 0 && c.Windows[layer] == 0 {
		return c.ByLayer.HeadDim
	}
	return c.HeadDim
}

// kvHeads returns how many heads of keys and values a layer has.
func (c *config) kvHeads(layer int) int {
	if c.ByLayer.KVHeads > 0 && c.Windows[layer] == 0 {
		return c.ByLayer.KVHeads
	}
	return c.KVHeads
}

// width returns the width of a layer's network.
func (c *config) width(layer int) int {
	if layer >= c.cached() {
		return c.ByLayer.SharedFFN
	}
	return c.FFN
}

// cached returns how many layers keep keys and values, or states: the first ones.
func (c *config) cached() int { return c.Layers - c.ByLayer.Shared }

// cachedBy returns the layer whose keys and values a layer reads: its own, or those that the
// last layer of its kind keeps.
func (c *config) cachedBy(layer int) int {
	if layer < c.cached() {
		return layer
	}
	for i := c.cached() - 1; i >= 0; i-- {
		if (c.Windows[i] > 0) == (c.Windows[layer] > 0) {
			return i
		}
	}
	return -1
}

// checkLayerShapes refuses shapes that do not fit. Its arguments are the file's names of the keys.
func (c *config) checkLayerShapes(dim, heads, shared, ffn, inputs string) error {
	b := &c.ByLayer
	if b.Shared < 0 || b.Shared >= c.Layers || b.Inputs < 0 || b.Inputs > 1<<20 {
		return fmt.Errorf("%s is %d and %s %d, want 0 to %d, the layers before the last, and 0 or more",
			shared, b.Shared, inputs, b.Inputs, c.Layers-1)
	}
	if b.Shared == 0 {
		b.SharedFFN = c.FFN
	}
	if err := weights.Sizes([]string{dim, heads, ffn}, b.HeadDim, b.KVHeads, b.SharedFFN); err != nil {
		return err
	}
	if c.Heads%b.KVHeads != 0 || b.HeadDim%2 != 0 {
		return fmt.Errorf("%s is %d and %s %d, want a divisor of the heads of queries, %d, and an even "+
			"number", heads, b.KVHeads, dim, b.HeadDim, c.Heads)
	}
	for i := c.cached(); i < c.Layers; i++ {
		if c.cachedBy(i) < 0 {
			return fmt.Errorf("%s is %d, want an earlier layer of the kind of layer %d, which reads its "+
				"keys and values", shared, b.Shared, i)
		}
	}
	return nil
}

// unreadKeys returns patterns of the tensors for keys and values that files have for layers that
// share the keys and values of another layer.
func (c *config) unreadKeys(names *tensorNames) (patterns []string) {
	for i := c.cached(); i < c.Layers; i++ {
		for _, name := range []string{names.k, names.v, names.kNorm} {
			patterns = append(patterns, fmt.Sprintf(names.layer, i)+name+".*")
		}
	}
	return patterns
}

// inputTable makes rows of which each layer reads a part: for a token, the sum of a row of a table
// and of the product of its embedding with a matrix.
type inputTable struct {
	table  *weights.FileTable // [Vocab][Layers·Inputs]
	matrix weights.Linear
	norm   []float32 // of the part of each layer
}

// layerInput adds a part of these rows to the rows of a layer, gated by them.
type layerInput struct {
	gate, out weights.Linear
	after     []float32 // norm of what is added
}

// inputs loads the table, if the model has one.
func (m *model) inputTable(b *layerBuilder, names *tensorNames) *inputTable {
	n := m.ByLayer.Inputs
	if n == 0 {
		return nil
	}
	all := m.Layers * n
	return &inputTable{b.FileTable(names.inputs+".weight", m.Vocab, all),
		b.linear(b.part(names.inputMatrix, all), m.Dim, false), b.norm(names.inputNorm, n)}
}

// layerInput loads the matrices of a layer.
func (b *layerBuilder) layerInput(n *layerNames) *layerInput {
	width := b.ByLayer.Inputs
	if width == 0 {
		return nil
	}
	return &layerInput{b.linear(b.part(n.inputGate, width), b.Dim, false),
		b.linear(b.part(n.inputOut, b.Dim), width, false), b.norm(n.inputAfter, b.Dim)}
}

// layerScale loads the number that multiplies a layer's rows, for each element of a row; nil for
// none.
func (b *layerBuilder) layerScale(n *layerNames) []float32 {
	if n.scale == "" || b.AnyBias && !b.Has(b.at+n.scale) {
		return nil
	}
	if x := b.Tensor(b.at+n.scale, 1); b.Err == nil {
		return slices.Repeat(x, b.Dim)
	}
	return nil
}

// inputRows is the buffers of a runner for the inputs of layers.
type inputRows struct {
	inputs []float32 // [rows][Layers][Inputs]
	looked []float32 // the same, of the table
	failed atomic.Pointer[error]
}

// lookUpInputs computes the inputs of all layers from the embeddings.
func (r *runner) lookUpInputs() {
	if r.table == nil || r.err != nil {
		return
	}
	r.multiply(r.x, product{&r.inputs, &r.table.matrix})
	r.looked = resize(r.looked, len(r.inputs))
	parts := (len(r.tokens) + embeddedRows - 1) / embeddedRows
	r.try(r.pool.Run(parts, (*inputLooker)(r)))
	if err := r.failed.Swap(nil); err != nil {
		r.try(*err)
	}
	r.normRows(&r.inputs, r.inputs, r.table.norm)
	if r.err == nil {
		r.try(r.pool.Run(parts, (*inputAdder)(r)))
	}
}

// someInputs returns the inputs of some tokens.
func (r *runner) someInputs(part int) (looked, inputs []float32) {
	n := r.Layers * r.ByLayer.Inputs
	from, to := part*embeddedRows*n, min((part+1)*embeddedRows, len(r.tokens))*n
	return r.looked[from:to], r.inputs[from:to]
}

// inputLooker looks up rows of the table, and scales them and the products.
type inputLooker runner

func (l *inputLooker) Work(part int) {
	r := (*runner)(l)
	looked, inputs := r.someInputs(part)
	n := r.Layers * r.ByLayer.Inputs
	for i := range len(looked) / n {
		err := r.table.table.Row(looked[i*n:][:n], int(r.tokens[part*embeddedRows+i]))
		if err != nil {
			r.failed.Store(&err)
			return
		}
	}
	scale(looked, float32(math.Sqrt(float64(r.ByLayer.Inputs))))
	scale(inputs, float32(1/math.Sqrt(float64(r.Dim))))
}

// inputAdder adds the rows of the table to the normed products: the sum of both, divided by √2.
type inputAdder runner

func (a *inputAdder) Work(part int) {
	looked, inputs := (*runner)(a).someInputs(part)
	for i, x := range looked {
		inputs[i] += x
	}
	scale(inputs, float32(1/math.Sqrt2))
}

// finishLayer adds to each row what the layer's input gives, multiplies it by the layer's number,
// and norms it for the next layer unless next is nil.
func (r *runner) finishLayer(i int, l *decoderLayer, next []float32) {
	if in, n := l.input, r.ByLayer.Inputs; in != nil {
		r.multiply(r.x, product{&r.gate, &in.gate})
		rows := len(r.x) / r.Dim
		r.active = resize(r.active, len(r.gate))
		if r.err == nil {
			r.try(nn.Gate(r.pool, rowsOf(r.active, n), rowsOf(r.gate, n),
				attn.Rows(r.inputs[i*n:], 1, rows, 1, n, r.Layers*n), r.Activation))
		}
		r.multiply(r.active, product{&r.hidden, &in.out})
		r.normRows(&r.hidden, r.hidden, in.after)
		r.add(r.x, r.hidden)
	}
	if l.scale != nil {
		r.multiplyRows(r.x, l.scale)
	}
	if next != nil {
		r.normRows(&r.normed, r.x, next)
	}
}
