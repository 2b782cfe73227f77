package main

import (
	"fmt"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/embed/folder"
	"github.com/seed-1415985d/attn/nn"
)

// model is the weights of a decoder. It does not change, so any number of engines may run it.
type model struct {
	config
	embedding *folder.Table // a row for each token
	layers    []layer
	norm      []float32
	head      folder.Linear // from the last state to a logit for each token
	rope      *nn.Rope
	packed    int // bytes of matrices,
	memory    int // and of all weights
}

// layer is one block of the decoder.
type layer struct {
	attentionNorm, ffnNorm       []float32
	qNorm, kNorm                 []float32 // of one head; nil for none
	q, k, v, out, gate, up, down folder.Linear
}

// newModel takes matrices as kind, or if it is negative each as the folder has it.
func newModel(l *folder.Loader, c *config, names *tensorNames, kind attn.Format) *model {
	m := &model{config: *c}
	var factors []float32
	if name := names.factors + ".weight"; names.factors != "" && l.Has(name) {
		factors = l.Tensor(name, c.HeadDim/2)
	}
	if l.Err == nil {
		rope, err := c.rotation(factors)
		l.Check("", err)
		m.rope = rope
	}
	m.norm = l.Tensor(names.norm+".weight", c.Dim)
	// The largest matrix is the first, so that the file's bytes of it are gone before all is packed.
	head := folder.Part{Name: names.head, Out: c.Vocab}
	if c.Tied {
		head.Name = names.embedding
	}
	m.head = l.Linear(kind, c.Dim, false, head)
	var shared *folder.Linear
	if c.Tied {
		shared = &m.head
	}
	m.embedding = l.Table(names.embedding+".weight", c.Vocab, c.Dim, shared)
	for i := 0; i < c.Layers && l.Err == nil; i++ {
		b := layerBuilder{l, c, kind, fmt.Sprintf(names.layer, i)}
		m.layers = append(m.layers, b.layer(&names.layerNames))
	}
	l.WritePack()
	if l.Err == nil {
		m.packed, m.memory = l.Packed, m.embedding.MemoryUse()+l.Packed
	}
	return m
}

// layerBuilder reads a layer, whose tensors' names begin alike.
type layerBuilder struct {
	*folder.Loader
	*config
	kind attn.Format
	at   string
}

func (b *layerBuilder) layer(n *layerNames) layer {
	q, kv := b.Heads*b.HeadDim, b.KVHeads*b.HeadDim
	l := layer{
		attentionNorm: b.Tensor(b.at+n.attentionNorm+".weight", b.Dim),
		q:             b.rotated(n.q, q),
		k:             b.rotated(n.k, kv),
		v:             b.linear(n.v, b.Dim, kv, b.QKVBias, 0),
		out:           b.linear(n.out, q, b.Dim, b.OutBias, 0),
		ffnNorm:       b.Tensor(b.at+n.ffnNorm+".weight", b.Dim),
		gate:          b.linear(n.gate, b.Dim, b.FFN, b.FFNBias, 0),
		up:            b.linear(n.up, b.Dim, b.FFN, b.FFNBias, 0),
		down:          b.linear(n.down, b.FFN, b.Dim, b.FFNBias, 0),
	}
	if b.QKNorm {
		l.qNorm = b.Tensor(b.at+n.qNorm+".weight", b.HeadDim)
		l.kNorm = b.Tensor(b.at+n.kNorm+".weight", b.HeadDim)
	}
	return l
}

// rotated reads a matrix whose outputs are rotated, in pairs as this program has them.
func (b *layerBuilder) rotated(name string, out int) folder.Linear {
	head := 0
	if b.Interleaved {
		head = b.HeadDim
	}
	return b.linear(name, b.Dim, out, b.QKVBias, head)
}

// linear reads a matrix, and its bias if it must have one, or may have one and has.
func (b *layerBuilder) linear(name string, in, out int, bias bool, interleaved int) folder.Linear {
	name = b.at + name
	return b.Linear(b.kind, in, bias || b.AnyBias && b.Has(name+".bias"),
		folder.Part{Name: name, Out: out, Interleaved: interleaved})
}
