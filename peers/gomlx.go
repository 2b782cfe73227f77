package main

import (
	"math"
	"runtime"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
)

// gomlx is the Go backend of a framework for machine learning. Its source has a fused attention,
// which this version does not use.
type gomlx struct{}

func (gomlx) version() string {
	v := moduleVersion("github.com/gomlx/compute")
	if !strings.Contains(runtime.Version(), "simd") {
		v += " without GOEXPERIMENT=simd"
	}
	return v
}

func (gomlx) prepare(c *Case, in inputs, _ int) (func() error, func() []float32, error) {
	if c.Type != "f32" {
		return nil, nil, lacking("float32 only")
	}
	// Any number of workers: GOMAXPROCS bounds those that run, and with parallelism=2 it computes on
	// one.
	backend, err := gobackend.New("parallelism=-1")
	if err != nil {
		return nil, nil, err
	}
	rows := c.Heads / c.KV * c.Lq // query heads that share keys are rows of one head
	q := shapes.Make(dtypes.Float32, c.Batch, c.KV, rows, c.Dim)
	kv := shapes.Make(dtypes.Float32, c.Batch, c.KV, c.Lk, c.Dim)
	exec, err := compileAttention(backend.Builder("attention"), c, q, kv)
	if err != nil {
		return nil, nil, err
	}
	buffers := make([]compute.Buffer, 3)
	for i, x := range [][]float32{in.q, in.k, in.v} {
		if buffers[i], err = backend.BufferFromFlatData(0, x, []shapes.Shape{q, kv, kv}[i]); err != nil {
			return nil, nil, err
		}
	}
	out := make([]float32, c.queries())
	call := func() error {
		results, err := exec.Execute(buffers, nil, 0)
		if err != nil {
			return err
		}
		if err := results[0].ToFlatData(out); err != nil {
			return err
		}
		return results[0].Finalize() // the next result reuses its memory
	}
	return call, func() []float32 { return out }, nil
}

// compileAttention compiles a program for queries, keys and values.
func compileAttention(b compute.Builder, c *Case, query, kv shapes.Shape) (compute.Executable,
	error) {
	f := b.Main()
	var operands [3]compute.Value
	for i, name := range []string{"q", "k", "v"} {
		var err error
		operands[i], err = f.Parameter(name, []shapes.Shape{query, kv, kv}[i], nil)
		if err != nil {
			return nil, err
		}
	}
	result, err := composeAttention(f, c, operands[0], operands[1], operands[2])
	if err != nil {
		return nil, err
	}
	if err := f.Return([]compute.Value{result}, nil); err != nil {
		return nil, err
	}
	return b.Compile()
}

// composeAttention is two products of matrices for all heads at once, and a softmax.
func composeAttention(f compute.Function, c *Case, q, k, v compute.Value) (compute.Value, error) {
	scale, err := f.Constant([]float32{float32(1 / math.Sqrt(float64(c.Dim)))})
	if err != nil {
		return nil, err
	}
	if q, err = f.Mul(q, scale); err != nil {
		return nil, err
	}
	heads, last := []int{0, 1}, []int{3}
	s, err := f.DotGeneral(q, last, heads, k, last, heads, compute.DotGeneralConfig{})
	if err != nil {
		return nil, err
	}
	if c.Causal {
		if s, err = hide(f, c, s); err != nil {
			return nil, err
		}
	}
	p, err := f.FusedSoftmax(s, 3)
	if err != nil {
		return nil, err
	}
	return f.DotGeneral(p, last, heads, v, []int{2}, heads, compute.DotGeneralConfig{})
}

// hide sets scores of keys after their query to −Inf, by a constant that is computed once.
func hide(f compute.Function, c *Case, s compute.Value) (compute.Value, error) {
	visible := make([]bool, c.Batch*c.Heads*c.Lq*c.Lk)
	for i := range visible {
		visible[i] = i%c.Lk <= i/c.Lk%c.Lq
	}
	mask, err := f.Constant(visible, c.Batch, c.Heads, c.Lq, c.Lk)
	if err != nil {
		return nil, err
	}
	hidden, err := f.Constant([]float32{float32(math.Inf(-1))})
	if err != nil {
		return nil, err
	}
	return f.Where(mask, s, hidden)
}
