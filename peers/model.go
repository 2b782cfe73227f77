package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-1415985d/attn/internal/dev/gguftest"
	"github.com/seed-1415985d/attn/models/lm"
)

// Whole models are random GGUF files of published shapes. A case runs some tokens (queries) through
// a model after others (keys), with f16 caches.

// model returns the shape of a case's file and the kind of its weights, if the case is a whole
// model.
func (c *Case) model() (shape gguftest.Shape, kind string, ok bool) {
	name, kind, _ := strings.Cut(c.Type, " ")
	shape, ok = gguftest.Published[name]
	return shape, kind, ok
}

// modelWork returns the operations, two for each multiply-add, or the bytes of weights and of keys
// and values.
func (c *Case) modelWork() float64 {
	s, kind, _ := c.model()
	elements, bytes := s.Matrices(kind)
	if c.decode() {
		return float64(bytes + 2*2*s.Layers*s.KV*s.Head*c.Lk)
	}
	last := s.Vocab * s.Dim // only one token has logits
	seen := c.Lq * (c.Lk + c.Lq/2)
	return 2 * float64(c.Lq*(elements-last)+last+2*s.Layers*s.Heads*s.Head*seen)
}

// modelPath returns the file of a case.
func (c *Case) modelPath(dir string) string {
	return filepath.Join(dir, strings.ReplaceAll(c.Type, " ", "-")+".gguf")
}

// writeModel writes the file of a case, if it does not exist, and removes those of other cases.
func (c *Case) writeModel(dir string) error {
	path := c.modelPath(dir)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	others, _ := filepath.Glob(filepath.Join(dir, "*.gguf"))
	for _, other := range others {
		os.Remove(other)
	}
	s, kind, _ := c.model()
	return os.WriteFile(path, s.File(kind).Bytes(), 0o600)
}

// The result of a model is some logits of the last token.
const someLogits = 8

// token returns the token of a position.
func token(position, vocab int) int { return position * 37 % vocab }

// decoder is a model of package lm that runs tokens.
type decoder struct {
	model   *lm.Model
	session *lm.Session
}

// openDecoder opens the model of a case, in a folder with its file.
func openDecoder(c *Case, dir string, threads int) (*decoder, error) {
	m, err := lm.Open(c.modelPath(dir), lm.Options{Workers: threads, Context: modelContext(c),
		Sequences: 1, Chunk: modelContext(c)})
	if err != nil {
		return nil, err
	}
	s, err := m.NewSession()
	return &decoder{m, s}, err
}

// modelContext returns how many positions a case needs, with as many calls as turns have time for.
func modelContext(c *Case) int { return c.Lk + max(c.Lq, 2048) }

// step runs tokens through the model, or begins anew if n is 0.
func (d *decoder) step(n int) ([]float32, error) {
	if n == 0 {
		return nil, d.session.Truncate(0)
	}
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(token(d.session.Len()+i, d.model.Sizes().Vocab))
	}
	logits, err := d.session.Append(context.Background(), tokens...)
	if err != nil {
		return nil, err
	}
	return logits[:someLogits], nil
}

// Close frees the model's memory.
func (d *decoder) Close() error { return d.model.Close() }

// closeModel frees the memory of the model of the case before.
func closeModel() {
	if opened != nil {
		_ = opened.Close() // it is only measured
	}
	opened = nil
}

// stepper runs tokens through a model after earlier ones.
type stepper interface {
	step(n int) (logits []float32, err error)
	io.Closer
}

// opened is the open model of a worker, which has one at a time.
var opened io.Closer

// modelCalls returns the calls of a case: prompts begin anew, and decoding continues.
func modelCalls(c *Case, s stepper) (call func() error, result func() []float32, err error) {
	opened = s
	var first []float32
	begin := func() error {
		_, err := s.step(0)
		if err == nil && c.Lk > 0 {
			_, err = s.step(c.Lk)
		}
		return err
	}
	left := 0
	call = func() (err error) {
		if left < c.Lq {
			left = modelContext(c) - c.Lk
			err = begin()
		}
		if !c.decode() {
			left = 0
		} else {
			left--
		}
		var logits []float32
		if err == nil {
			logits, err = s.step(c.Lq)
		}
		if first == nil {
			first = logits
		}
		return err
	}
	return call, func() []float32 { return first }, nil
}
