package main

import (
	"fmt"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/progress"
)

// attend is the function that computes: attn.Attend, or a Pool's.
type attend func(dst, q, k, v attn.Tensor, opt *attn.Options) error

// job is one attention call that is computed in slices, to show progress. A row's bits depend only
// on the row, so slices have the bits of one call.
type job struct {
	attend    attend
	threads   int
	dst       attn.Tensor
	q, k, v   attn.Tensor
	opt       attn.Options
	lse       []float32   // B×H×Lq, or nil
	weights   attn.Tensor // the zero View if weights are not wanted
	group, at int         // query heads per key/value head; absolute position of query 0
}

// slice is some query rows of some query heads of one batch entry. Heads come in whole groups.
type slice struct{ b, h0, h1, i0, i1 int }

// check validates the whole call by a call with all queries beyond the length: it computes nothing,
// and clears the outputs.
func (j *job) check() error {
	opt := j.opt
	opt.QueryLens = make([]int, j.q.B)
	opt.LSE, opt.Weights = j.lse, j.weights
	if err := j.attend(j.dst, j.q, j.k, j.v, &opt); err != nil {
		return err
	}
	if j.group = 1; j.k.H > 0 {
		j.group = j.q.H / j.k.H
	}
	if last := j.opt.Offset + j.q.L; j.opt.Offset > 0 && last > maxDimension { // slices begin there
		return fmt.Errorf("-offset is %d, want at most %d with %d queries", j.opt.Offset,
			maxDimension-j.q.L, j.q.L)
	}
	j.at = j.opt.Offset
	if j.opt.Causal == attn.BottomRight {
		j.at = j.k.L - j.q.L
	}
	return nil
}

// run computes all slices.
func (j *job) run(p *progress.Bar) error {
	for b := range j.q.B {
		heads, rows := j.sliceSize()
		for h := 0; h < j.q.H; h += heads {
			for i := 0; i < j.q.L; i += rows {
				s := slice{b, h, min(h+heads, j.q.H), i, min(i+rows, j.q.L)}
				if err := j.slice(s, j.dst, j.lse, j.weights); err != nil {
					return err
				}
				p.Add((s.h1 - s.h0) * (s.i1 - s.i0))
			}
		}
	}
	return nil
}

// Slices last a fraction of a second, but have enough rows to share the packing of keys.
const (
	sliceFlops = 1 << 30 // per thread
	sliceRows  = 256     // at least, per thread
)

// sliceSize returns the heads and rows of a slice: all rows of some groups of heads, or some rows
// of one group.
func (j *job) sliceSize() (heads, rows int) {
	perRow := 2 * float64(j.group) * float64(j.k.L) * float64(j.q.D+j.v.D)
	most := sliceFlops * float64(j.threads) / max(1, perRow)
	if groups := most / float64(max(1, j.q.L)); groups >= 1 {
		return j.group * max(1, min(int(groups), j.k.H)), max(1, j.q.L)
	}
	step := sliceRows * j.threads
	return j.group, max(step, int(most)/step*step)
}

// options returns the options of one slice, with explicit positions, because a slice does not know
// its place in the call.
func (j *job) options(s slice) attn.Options {
	opt := j.opt
	opt.Offset = j.at + s.i0
	if opt.Causal == attn.BottomRight {
		opt.Causal = attn.TopLeft
	}
	opt.Mask, opt.Bias = partIfGiven(opt.Mask, s), partIfGiven(opt.Bias, s)
	if opt.Slopes != nil {
		opt.Slopes = opt.Slopes[s.h0:s.h1]
	}
	if opt.Sinks != nil {
		opt.Sinks = opt.Sinks[s.h0:s.h1]
	}
	return opt
}

// slice computes one slice into outputs of the whole call.
func (j *job) slice(s slice, dst attn.Tensor, lse []float32, weights attn.Tensor) error {
	opt := j.options(s)
	rows := s.i1 - s.i0
	if lse != nil {
		opt.LSE = make([]float32, (s.h1-s.h0)*rows)
	}
	opt.Weights = partIfGiven(weights, s)
	if err := j.call(s, part(dst, s), &opt); err != nil {
		return err
	}
	for h := s.h0; lse != nil && h < s.h1; h++ {
		copy(lse[(s.b*j.q.H+h)*j.q.L+s.i0:], opt.LSE[(h-s.h0)*rows:][:rows])
	}
	return nil
}

// call computes one slice into a view of its size.
func (j *job) call(s slice, dst attn.Tensor, opt *attn.Options) error {
	of := slice{s.b, s.h0 / j.group, (s.h1-1)/j.group + 1, 0, j.k.L}
	return j.attend(dst, part(j.q, s), part(j.k, of), part(j.v, of), opt)
}
