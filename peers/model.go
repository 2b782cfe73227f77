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

// Whole models are random GGUF files of published shapes. A case takes some tokens (queries)
// through one, after others (keys), with f16 caches.

// model is the shape of a case's file and the kind of its weights, if it is of a whole model.
func (c *Case) model() (shape gguftest.Shape, kind string, ok bool) {
	name, kind, _ := strings.Cut(c.Type, " ")
	shape, ok = gguftest.Published[name]
	return shape, kind, ok
}

// modelWork is multiply-adds, two operations each, or the bytes of weights and of keys and values.
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

// modelPath is the file of a case.
func (c *Case) modelPath(dir string) string {
	return filepath.Join(dir, strings.ReplaceAll(c.Type, " ", "-")+".gguf")
}

// writeModel makes the file of a case, unless it is there, in the place of those of others.
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

// The results of a model are some logits of the last token.
const someLogits = 8

// token is that of a position.
func token(position, vocab int) int { return position * 37 % vocab }

// decoder is a model of package lm, which takes numbers of tokens.
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

// modelContext is how many positions a case may take, with as many calls as there are turns for.
func modelContext(c *Case) int { return c.Lk + max(c.Lq, 2048) }

// step takes tokens through the model, or begins anew with 0.
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

// Close gives the model's memory back.
func (d *decoder) Close() error { return d.model.Close() }

// closeModel gives the memory of the case before back.
func closeModel() {
	if opened != nil {
		_ = opened.Close() // it was measured
	}
	opened = nil
}

// stepper takes tokens through a model after those before.
type stepper interface {
	step(n int) (logits []float32, err error)
	io.Closer
}

// opened is the model of a worker, which has one at a time.
var opened io.Closer

// modelCalls are the calls of a case: prompts begin anew, and decoding goes on.
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
