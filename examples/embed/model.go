package main

import (
	"fmt"

	"github.com/seed-1415985d/attn"
)

// model is a BERT encoder, with the matrices packed for the kernels.
type model struct {
	config
	words, positions, types []float32 // a row for each token, position and type
	norm                    layerNorm
	layers                  []layer
	packed                  int // bytes of matrices
}

// layer is attention and a feed-forward network, each with a sum and a LayerNorm after it.
type layer struct {
	qkv, join, up, down linear
	norm, ffnNorm       layerNorm
}

// linear is x·Wᵀ + bias.
type linear struct {
	*attn.Matrix
	bias    []float32
	in, out int
}

type layerNorm struct{ weight, bias []float32 }

func (l *loader) model(c config) *model {
	d := c.Hidden
	m := &model{config: c, norm: l.norm("embeddings.LayerNorm", d),
		words:     l.tensor("embeddings.word_embeddings.weight", c.Vocab, d),
		positions: l.tensor("embeddings.position_embeddings.weight", c.Positions, d),
		types:     l.tensor("embeddings.token_type_embeddings.weight", c.Types, d)}
	for i := 0; i < c.Layers && l.err == nil; i++ {
		at := fmt.Sprintf("encoder.layer.%d.", i)
		self := at + "attention.self."
		m.layers = append(m.layers, layer{
			qkv:     l.linear(d, d, self+"query", self+"key", self+"value"), // one product makes rows [Q K V]
			join:    l.linear(d, d, at+"attention.output.dense"),
			norm:    l.norm(at+"attention.output.LayerNorm", d),
			up:      l.linear(d, c.FFN, at+"intermediate.dense"),
			down:    l.linear(c.FFN, d, at+"output.dense"),
			ffnNorm: l.norm(at+"output.LayerNorm", d),
		})
	}
	m.packed = l.packed
	return m
}

func (l *loader) norm(name string, size int) layerNorm {
	return layerNorm{l.tensor(name+".weight", size), l.tensor(name+".bias", size)}
}

// linear packs layers with the same input into one matrix, side by side.
func (l *loader) linear(in, out int, names ...string) linear {
	made := linear{in: in, out: out * len(names)}
	var rows []float32 // one for each output
	for _, name := range names {
		rows = append(rows, l.tensor(name+".weight", out, in)...)
		made.bias = append(made.bias, l.tensor(name+".bias", out)...)
	}
	if l.err == nil {
		made.Matrix, l.err = attn.PackTransposed(attn.BHLD(rows, 1, 1, made.out, in))
	}
	if l.err == nil {
		l.packed += made.MemoryUse()
	}
	return made
}
