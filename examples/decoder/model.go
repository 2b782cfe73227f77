package main

import (
	"fmt"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/examples/internal/folder"
)

// model is the weights of a decoder. It does not change, so any number of engines may run it.
type model struct {
	config
	embedding []float32 // a row for each token
	layers    []layer
	norm      []float32
	head      folder.Linear // from the last state to a logit for each token
	turns     []float64     // see config.turns
	memory    int           // bytes of all weights
}

// layer is one block of the decoder. Matrices that multiply the same rows are packed as one: qkv
// are queries, keys and values side by side.
type layer struct {
	attentionNorm, ffnNorm []float32
	qkv, out, gateUp, down folder.Linear
}

// newModel takes matrices as kind, or if it is negative each as the folder has it.
func newModel(l *folder.Loader, c *config, kind attn.Format) *model {
	const embedding = "model.embed_tokens.weight"
	m := &model{config: *c, turns: c.turns(), embedding: l.Tensor(embedding, c.Vocab, c.Dim)}
	for i := 0; i < c.Layers && l.Err == nil; i++ {
		m.layers = append(m.layers, newLayer(l, c, kind, fmt.Sprintf("model.layers.%d.", i)))
	}
	m.norm = l.Tensor("model.norm.weight", c.Dim)
	if c.Tied {
		if kind < 0 {
			kind = l.Kind(embedding)
		}
		m.head = l.Pack(kind, m.embedding, c.Dim, c.Vocab)
	} else {
		m.head = l.Linear(kind, c.Dim, false, folder.Part{Name: "lm_head", Out: c.Vocab})
	}
	m.memory = 4*len(m.embedding) + l.Packed
	return m
}

func newLayer(l *folder.Loader, c *config, kind attn.Format, at string) layer {
	part := func(name string, out int) folder.Part { return folder.Part{Name: at + name, Out: out} }
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	return layer{
		attentionNorm: l.Tensor(at+"input_layernorm.weight", c.Dim),
		qkv: l.Linear(kind, c.Dim, c.QKVBias,
			part("self_attn.q_proj", q), part("self_attn.k_proj", kv), part("self_attn.v_proj", kv)),
		out:     l.Linear(kind, q, c.OutBias, part("self_attn.o_proj", c.Dim)),
		ffnNorm: l.Tensor(at+"post_attention_layernorm.weight", c.Dim),
		gateUp: l.Linear(kind, c.Dim, c.FFNBias, part("mlp.gate_proj", c.FFN),
			part("mlp.up_proj", c.FFN)),
		down: l.Linear(kind, c.FFN, c.FFNBias, part("mlp.down_proj", c.Dim)),
	}
}
