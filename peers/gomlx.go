package main

import (
	"fmt"
	"math"

	"github.com/gomlx/gomlx/backends/simplego"
	"github.com/gomlx/gomlx/pkg/core/graph"
	"github.com/gomlx/gomlx/pkg/core/tensors"
)

// gomlx is a framework for machine learning; its backend in Go has no fused attention.
type gomlx struct{}

func (gomlx) version() string {
	return moduleVersion("github.com/gomlx/gomlx")
}

func (gomlx) prepare(c *Case, in inputs, threads int) (func() error, func() []float32, error) {
	if c.Type != "f32" {
		return nil, nil, lacking("float32 only")
	}
	backend, err := simplego.New(fmt.Sprintf("parallelism=%d", threads))
	if err != nil {
		return nil, nil, err
	}
	exec, err := graph.NewExec(backend, func(q, k, v *graph.Node) *graph.Node {
		s := graph.MulScalar(graph.Einsum("bhqd,bhkd->bhqk", q, k), 1/math.Sqrt(float64(c.Dim)))
		if c.Causal {
			visible := graph.LowerTriangular(q.Graph(), c.Lq)
			visible = graph.BroadcastToDims(graph.Reshape(visible, 1, 1, c.Lq, c.Lk),
				s.Shape().Dimensions...)
			s = graph.Where(visible, s, graph.BroadcastToShape(graph.Scalar(q.Graph(), s.DType(),
				math.Inf(-1)), s.Shape()))
		}
		return graph.Einsum("bhqk,bhkd->bhqd", graph.Softmax(s, -1), v)
	})
	if err != nil {
		return nil, nil, err
	}
	rows := c.Heads / c.KV * c.Lq // query heads that share keys are rows of the same head
	q := tensors.FromFlatDataAndDimensions(in.q, c.Batch, c.KV, rows, c.Dim)
	k := tensors.FromFlatDataAndDimensions(in.k, c.Batch, c.KV, c.Lk, c.Dim)
	v := tensors.FromFlatDataAndDimensions(in.v, c.Batch, c.KV, c.Lk, c.Dim)
	var out *tensors.Tensor
	call := func() error {
		if out != nil {
			out.FinalizeAll() // its memory serves the next result
		}
		out, err = exec.Exec1(q, k, v)
		return err
	}
	return call, func() []float32 { return tensors.MustCopyFlatData[float32](out) }, nil
}
