package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// peer is attn, or a library that a program could use instead.
type peer struct {
	name   string
	key    string // for its worker
	open   func() (library, error)
	python bool // its worker is in Python
	about  string
}

var peers = []peer{
	{name: "attn", key: "attn", open: known(self{}),
		about: "`Attend` and `Pool.Attend`; a `Cache` for decoding; `PackBlocks` for a matrix; " +
			"package lm for a model"},
	{name: "llama.cpp", key: "llama", open: openLlama,
		about: "whole models, by libraries that the package's makers built on Ubuntu 22.04 without " +
			"options of their own, one for each kind of x86-64; yzma calls them"},
	{name: "ONNX Runtime", key: "onnxruntime", open: openONNXRuntime,
		about: "operators MultiHeadAttention; GroupQueryAttention for causal calls and for decoding, " +
			"where i8, integers and i4 have one scale; MatMulNBits for a matrix"},
	{name: "PyTorch", key: "torch", python: true, about: "`scaled_dot_product_attention`"},
	{name: "OpenBLAS", key: "openblas", python: true,
		about: "composed head by head: products by OpenBLAS, exponentials by NumPy, into buffers that " +
			"are used again"},
	{name: "NumPy", key: "numpy", python: true, about: "as introductions to attention write it, " +
		"over the same OpenBLAS; on two threads half of the heads on each"},
	{name: "gonum", key: "gonum", open: known(composed{func() kernels {
		return gonum{}
	}}), about: "composed head by head of its BLAS in Go"},
	{name: "vek", key: "vek", open: known(composed{func() kernels {
		return new(vek)
	}}), about: "composed head by head of its vectors and products in AVX2 assembly"},
	{name: "gomlx/compute", key: "gomlx", open: known(gomlx{}),
		about: "products of matrices and a softmax on its backend in Go; this version leaves its fused " +
			"attention switched off"},
}

func known(l library) func() (library, error) { return func() (library, error) { return l, nil } }

func peerOf(key string) *peer {
	for i := range peers {
		if peers[i].key == key {
			return &peers[i]
		}
	}
	return nil
}

// process is a running worker.
type process struct {
	client
	command *exec.Cmd
	version string
}

//go:embed worker.py
var workerPy []byte

// start starts a worker; the error is lacking if the peer is not on this machine.
func (p *peer) start(threads int, dir string) (*process, error) {
	if !p.python {
		program, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return launch([]string{program, "-worker", p.key, "-threads", fmt.Sprint(threads)},
			fmt.Sprintf("GOMAXPROCS=%d", threads))
	}
	script := filepath.Join(dir, "worker.py")
	if err := os.WriteFile(script, workerPy, 0o600); err != nil {
		return nil, err
	}
	why := lacking("there is no Python")
	for _, python := range pythons() {
		args := append(python, script, p.key, fmt.Sprint(threads))
		// the calls have several threads already
		w, err := launch(args, fmt.Sprintf("OMP_NUM_THREADS=%d", threads), "OPENBLAS_NUM_THREADS=1")
		if !errors.As(err, &why) {
			return w, err
		}
	}
	return nil, why + "; -setup gets a Debian with PyTorch and NumPy"
}

// launch starts a worker and asks for its name and version.
func launch(args []string, environment ...string) (*process, error) {
	p := &process{command: exec.Command(args[0], args[1:]...)}
	p.command.Env = append(os.Environ(), environment...)
	var diagnosis bytes.Buffer
	p.command.Stderr = &diagnosis
	in, err := p.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.client = client{in, bufio.NewReader(out)}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	a, err := p.ask(nil)
	if err != nil {
		p.stop()
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: %s", err, &diagnosis)
		}
		return nil, err
	}
	p.version = a.Version
	return p, nil
}

func (p *process) stop() {
	p.requests.Close()
	p.command.Wait()
}
