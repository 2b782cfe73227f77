package main

import (
	"math"
	"sync"

	"github.com/chewxy/math32"
	"github.com/viterin/vek/vek32"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

// kernels are the functions of a library from which attention can be composed. Operands are rows of
// d floats, one after the other.
type kernels interface {
	// scores sets dst [rows, keys] = scale·q·kᵀ of q [rows, d] and k [keys, d].
	scores(dst, q, k []float32, scale float32, rows, keys, d int)
	// exponentials sets x_i = exp(x_i − max x) and returns their sum.
	exponentials(x []float32) float32
	// values sets dst [rows, d] = p·v of p [rows, keys] and v [keys, d], each row times its factor.
	values(dst, p, v, factors []float32, rows, keys, d int)
	version() string
}

// composed is attention as a program writes it with a library for matrices or vectors: head by
// head, some rows at a time, so that their scores stay in a cache and causal rows skip most of the
// keys that they do not see.
type composed struct{ new func() kernels }

func (p composed) version() string { return p.new().version() }

// composedRows is the number of rows in a block.
const composedRows = 128

func (p composed) prepare(c *Case, in inputs, threads int) (func() error, func() []float32, error) {
	if c.Type != "f32" {
		return nil, nil, lacking("float32 only")
	}
	dst := make([]float32, c.queries())
	shares := make([]*share, threads)
	for i := range shares {
		shares[i] = &share{c, in, dst, p.new(), make([]float32, composedRows*c.Lk),
			make([]float32, composedRows)}
	}
	call := func() error {
		if threads == 1 {
			shares[0].heads(0, 1)
			return nil
		}
		var done sync.WaitGroup
		for i, one := range shares {
			done.Go(func() { one.heads(i, threads) })
		}
		done.Wait()
		return nil
	}
	return call, func() []float32 { return dst }, nil
}

// share is the memory of one thread.
type share struct {
	c       *Case
	in      inputs
	dst     []float32
	kernels kernels
	scores  []float32
	factors []float32
}

// heads computes every step-th key/value head. The query heads that share it are rows of one
// matrix.
func (p *share) heads(first, step int) {
	c := p.c
	rows, n := c.Heads/c.KV*c.Lq, c.Lk*c.Dim
	for h := first; h < c.Batch*c.KV; h += step {
		q, dst := p.in.q[h*rows*c.Dim:][:rows*c.Dim], p.dst[h*rows*c.Dim:][:rows*c.Dim]
		k, v := p.in.k[h*n:][:n], p.in.v[h*n:][:n]
		for from := 0; from < rows; from += composedRows {
			to := min(from+composedRows, rows)
			p.block(dst[from*c.Dim:to*c.Dim], q[from*c.Dim:to*c.Dim], k, v, from)
		}
	}
}

// block computes rows from row first on.
func (p *share) block(dst, q, k, v []float32, first int) {
	c := p.c
	rows, keys := len(q)/c.Dim, c.Lk
	if c.Causal {
		keys = min(keys, first+rows)
	}
	s := p.scores[:rows*keys]
	p.kernels.scores(s, q, k[:keys*c.Dim], float32(1/math.Sqrt(float64(c.Dim))), rows, keys, c.Dim)
	for r := range rows {
		row := s[r*keys:][:keys]
		if c.Causal {
			clear(row[first+r+1:])
			row = row[:first+r+1]
		}
		p.factors[r] = 1 / p.kernels.exponentials(row)
	}
	p.kernels.values(dst, s, v[:keys*c.Dim], p.factors, rows, keys, c.Dim)
}

// gonum is BLAS in Go, with assembly for vectors of four floats.
type gonum struct{}

func (gonum) version() string { return moduleVersion("gonum.org/v1/gonum") }

func matrix(x []float32, rows, cols int) blas32.General {
	return blas32.General{Rows: rows, Cols: cols, Stride: cols, Data: x}
}

func (gonum) scores(dst, q, k []float32, scale float32, rows, keys, d int) {
	blas32.Gemm(blas.NoTrans, blas.Trans, scale, matrix(q, rows, d), matrix(k, keys, d), 0,
		matrix(dst, rows, keys))
}

func (gonum) exponentials(x []float32) (sum float32) {
	top := float32(math.Inf(-1))
	for _, e := range x {
		top = max(top, e)
	}
	for i, e := range x {
		x[i] = math32.Exp(e - top)
		sum += x[i]
	}
	return sum
}

func (gonum) values(dst, p, v, factors []float32, rows, keys, d int) {
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, matrix(p, rows, keys), matrix(v, keys, d), 0,
		matrix(dst, rows, d))
	for r := range rows {
		blas32.Scal(factors[r], blas32.Vector{N: d, Inc: 1, Data: dst[r*d:]})
	}
}

// vek has functions of vectors, and products of matrices, in AVX2 assembly.
type vek struct{ transposed []float32 }

func (*vek) version() string { return moduleVersion("github.com/viterin/vek") }

// for few rows dot products are faster than transposing the keys
const few = 8

func (w *vek) scores(dst, q, k []float32, scale float32, rows, keys, d int) {
	if rows < few {
		for r := range rows {
			for j := range keys {
				dst[r*keys+j] = vek32.Dot(q[r*d:][:d], k[j*d:][:d])
			}
		}
	} else {
		vek32.MatMul_Into(dst, q, w.transpose(k, keys, d), d)
	}
	vek32.MulNumber_Inplace(dst, scale)
}

// transpose transposes squares that fit into the L1 cache.
func (w *vek) transpose(k []float32, keys, d int) []float32 {
	const side = 16
	if len(w.transposed) < len(k) {
		w.transposed = make([]float32, len(k))
	}
	for from := 0; from < keys; from += side {
		for i := range d {
			for j := from; j < min(from+side, keys); j++ {
				w.transposed[i*keys+j] = k[j*d+i]
			}
		}
	}
	return w.transposed[:len(k)]
}

func (*vek) exponentials(x []float32) float32 {
	vek32.SubNumber_Inplace(x, vek32.Max(x))
	vek32.Exp_Inplace(x)
	return vek32.Sum(x)
}

func (*vek) values(dst, p, v, factors []float32, rows, keys, d int) {
	vek32.MatMul_Into(dst, p, v, keys)
	for r := range rows {
		vek32.MulNumber_Inplace(dst[r*d:][:d], factors[r])
	}
}
