package main

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/examples/decoder/internal/folder"
)

// model is the weights of a decoder. It does not change, so any number of engines may run it.
type model struct {
	folder.Config
	embedding []float32 // a row for each token
	layers    []layer
	norm      []float32
	head      *attn.Matrix // from the last state to a logit for each token
	turns     []float64    // see folder.Config.Frequencies
}

// layer is one block of the decoder. Matrices that multiply the same rows are packed as one.
type layer struct {
	attentionNorm, ffnNorm []float32
	qkv                    *attn.Matrix // queries, keys and values side by side
	bias                   []float32    // of these; nil for none
	out                    *attn.Matrix
	gateUp, down           *attn.Matrix
}

// weights is where tensors come from: a checkpoint or chance.
type weights interface {
	Has(name string) bool
	Kind(name string) attn.CacheType
	Tensor(name string, shape ...int) ([]float32, error)
}

const embeddingName = "model.embed_tokens.weight"

// loadModel reads a folder as models are published in. Matrices are packed as kind, or if it is negative as the folder has them.
func loadModel(path string, kind attn.CacheType) (*model, error) {
	c, err := folder.LoadConfig(path)
	if err != nil {
		return nil, err
	}
	tensors, err := folder.OpenTensors(path)
	if err != nil {
		return nil, err
	}
	defer tensors.Close()
	m, err := newModel(c, tensors, kind)
	if err != nil {
		return nil, err
	}
	return m, tensors.CheckUsed()
}

// builder collects the first error, so that a layer can be read like a table.
type builder struct {
	weights
	kind attn.CacheType
	err  error
}

func newModel(c *folder.Config, w weights, kind attn.CacheType) (*model, error) {
	if kind < 0 {
		kind = w.Kind(embeddingName)
	}
	b := &builder{w, kind, nil}
	m := &model{Config: *c, turns: c.Frequencies()}
	m.embedding, b.err = w.Tensor(embeddingName, c.Vocab, c.Dim)
	for i := 0; i < c.Layers && b.err == nil; i++ {
		m.layers = append(m.layers, b.layer(c, fmt.Sprintf("model.layers.%d.", i)))
	}
	m.norm = b.vector("model.norm.weight", c.Dim)
	if c.Tied {
		m.head = b.pack(m.embedding, c.Vocab, c.Dim)
	} else {
		m.head = b.matrix(c.Dim, part{"lm_head.weight", c.Vocab})
	}
	return m, b.err
}

// part is rows of a matrix that have a name of their own.
type part struct {
	name string
	rows int
}

func (b *builder) layer(c *folder.Config, at string) layer {
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	l := layer{
		attentionNorm: b.vector(at+"input_layernorm.weight", c.Dim),
		qkv:           b.matrix(c.Dim, part{at + "self_attn.q_proj.weight", q}, part{at + "self_attn.k_proj.weight", kv}, part{at + "self_attn.v_proj.weight", kv}),
		out:           b.matrix(q, part{at + "self_attn.o_proj.weight", c.Dim}),
		ffnNorm:       b.vector(at+"post_attention_layernorm.weight", c.Dim),
		gateUp:        b.matrix(c.Dim, part{at + "mlp.gate_proj.weight", c.FFN}, part{at + "mlp.up_proj.weight", c.FFN}),
		down:          b.matrix(c.FFN, part{at + "mlp.down_proj.weight", c.Dim}),
	}
	if b.Has(at + "self_attn.q_proj.bias") {
		l.bias = append(l.bias, b.vector(at+"self_attn.q_proj.bias", q)...)
		l.bias = append(l.bias, b.vector(at+"self_attn.k_proj.bias", kv)...)
		l.bias = append(l.bias, b.vector(at+"self_attn.v_proj.bias", kv)...)
	}
	return l
}

func (b *builder) vector(name string, n int) []float32 {
	if b.err != nil {
		return nil
	}
	var x []float32
	x, b.err = b.Tensor(name, n)
	return x
}

// matrix packs one or several tensors, one's rows after the other's.
func (b *builder) matrix(cols int, parts ...part) *attn.Matrix {
	var all []float32
	rows := 0
	for _, p := range parts {
		if b.err != nil {
			return nil
		}
		var x []float32
		x, b.err = b.Tensor(p.name, p.rows, cols)
		if rows += p.rows; len(parts) == 1 {
			all = x // without a copy: it may be large
		} else {
			all = append(all, x...)
		}
	}
	m := b.pack(all, rows, cols)
	if b.err != nil {
		b.err = fmt.Errorf("%s: %w", parts[0].name, b.err)
	}
	return m
}

func (b *builder) pack(x []float32, rows, cols int) *attn.Matrix {
	if b.err != nil {
		return nil
	}
	var m *attn.Matrix
	m, b.err = attn.PackTransposedAs(attn.BHLD(x, 1, 1, rows, cols), b.kind)
	return m
}

// memory is the bytes of all weights.
func (m *model) memory() int {
	n := 4*len(m.embedding) + m.head.MemoryUse()
	for i := range m.layers {
		l := &m.layers[i]
		n += l.qkv.MemoryUse() + l.out.MemoryUse() + l.gateUp.MemoryUse() + l.down.MemoryUse()
	}
	return n
}

// chance is weights for a model that says nothing, at the speed of one that does.
type chance struct{ seed uint64 }

func (chance) Has(string) bool            { return false }
func (chance) Kind(string) attn.CacheType { return attn.F32 }

// Tensor depends on seed and name only. Rows have a length near 1, so that states neither vanish nor explode.
func (r chance) Tensor(name string, shape ...int) ([]float32, error) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // which cannot fail
	source := rand.New(rand.NewPCG(r.seed, h.Sum64()))
	n, last := 1, shape[len(shape)-1]
	for _, s := range shape {
		n *= s
	}
	middle, width := float32(0), float32(math.Sqrt(3/float64(last)))
	if strings.HasSuffix(name, "norm.weight") {
		middle, width = 1, 0.25
	}
	x := make([]float32, n)
	for i := range x {
		x[i] = middle + float32(width*(2*source.Float32()-1))
	}
	return x, nil
}
