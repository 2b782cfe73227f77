package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/seed-1415985d/attn/internal/dev/gguftest"
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

// decoder is models/cmd/attn-lm, which takes numbers of tokens.
type decoder struct {
	io.WriteCloser
	answers *bufio.Scanner
	command *exec.Cmd
}

// openDecoder builds and starts it, for the files of a folder.
func openDecoder(c *Case, dir string, threads int) (*decoder, error) {
	tool, err := exec.LookPath("go")
	if err != nil {
		return nil, lacking("there is no go command to build models/cmd/attn-lm")
	}
	program := filepath.Join(dir, "decoder")
	build := exec.Command(tool, "build", "-o", program,
		"github.com/seed-1415985d/attn/models/cmd/attn-lm")
	if text, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("models/cmd/attn-lm: %w: %s", err, text)
	}
	d := &decoder{command: exec.Command(program, "-steps", "-model", c.modelPath(dir),
		"-workers", strconv.Itoa(threads), "-context", strconv.Itoa(modelContext(c)))}
	d.command.Stderr = os.Stderr
	if d.WriteCloser, err = d.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := d.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.answers = bufio.NewScanner(out)
	return d, d.command.Start()
}

// modelContext is how many positions a case may take, with as many calls as there are turns for.
func modelContext(c *Case) int { return c.Lk + max(c.Lq, 2048) }

// step takes tokens through the model, or begins anew with 0.
func (d *decoder) step(n int) (logits []float32, err error) {
	if _, err := fmt.Fprintln(d, n); err != nil {
		return nil, err
	}
	for d.answers.Scan() {
		fields := strings.Fields(strings.NewReplacer("[", " ", "]", " ").Replace(d.answers.Text()))
		if len(fields) != 1 && len(fields) != 1+someLogits {
			continue // what it says of the model
		}
		for _, field := range fields {
			x, parsing := strconv.ParseFloat(field, 64)
			if err = errors.Join(err, parsing); err == nil {
				logits = append(logits, float32(x))
			}
		}
		if err == nil {
			return logits[1:], nil
		}
		logits, err = nil, nil
	}
	return nil, fmt.Errorf("models/cmd/attn-lm ended: %w",
		errors.Join(d.answers.Err(), d.command.Wait()))
}

// Close ends the program.
func (d *decoder) Close() error { return errors.Join(d.WriteCloser.Close(), d.command.Wait()) }

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
