package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cmd/attn/internal/npyfile"
	"github.com/seed-1415985d/attn/internal/flags"
)

// pairsFlag is a flag that names a file with an element for each pair of a query and a key, and its
// dimensions, if they are given.
type pairsFlag struct{ name, path, dims string }

func (f *runFlags) maskFlag() pairsFlag { return pairsFlag{"-mask", f.mask, f.maskDims} }
func (f *runFlags) biasFlag() pairsFlag { return pairsFlag{"-bias", f.bias, f.biasDims} }

// pairDims are the dimensions of a mask or bias, in order.
var pairDims = []string{"b", "h", "q", "k"}

// alike are the usual interpretations of a file of some rank; the first is NumPy's, which aligns
// dimensions on the right.
var alike = map[int][]string{1: {"k"}, 2: {"q,k", "b,k"}, 3: {"h,q,k", "b,q,k"}, 4: {"b,h,q,k"}}

// check finds mistakes in the list of dimensions.
func (p *pairsFlag) check() error {
	if p.dims == "" {
		return nil
	}
	if p.path == "" {
		return flags.Errorf("%s-dims needs %s", p.name, p.name)
	}
	at := -1
	names := strings.Split(p.dims, ",")
	for _, name := range names {
		next := slices.Index(pairDims, name)
		if next <= at {
			return flags.Errorf("%s-dims is %q, want some of b,h,q,k in this order, such as b,q,k",
				p.name, p.dims)
		}
		at = next
	}
	if names[len(names)-1] != "k" {
		return flags.Errorf("%s-dims is %q, want k at its end: there is something for each key",
			p.name, p.dims)
	}
	return nil
}

// broadcast views a mask or bias as [b, h, lq, lk]: its dimensions are given by the flag, or the
// last ones if that is unambiguous. Missing dimensions and dimensions of length 1 repeat, except
// keys.
func broadcast[T any](p pairsFlag, a npyfile.Array[T], b, h, lq, lk int) (attn.View[T], error) {
	want := [4]int{b, h, lq, lk}
	list, err := p.dimsOf(a.Shape, want)
	if err != nil {
		return attn.View[T]{}, err
	}
	have, fits := spread(list, a.Shape, want)
	if !fits {
		return attn.View[T]{}, fmt.Errorf("%s is %s, want %s or a shape that broadcasts to it with "+
			"all keys; %s-dims says what dimensions are", p.path, dims(a.Shape), dims(want[:]), p.name)
	}
	v := attn.BHLD(a.Data, have[0], have[1], have[2], have[3])
	for i, stride := range []*int{&v.SB, &v.SH, &v.SL} {
		if have[i] != want[i] {
			*stride = attn.Broadcast
		}
	}
	v.B, v.H, v.L = b, h, lq
	return v, nil
}

// dimsOf returns the list of dimensions of a file. It is an error if several usual lists fit and
// would give different pairs.
func (p *pairsFlag) dimsOf(shape []int, want [4]int) (string, error) {
	if p.dims != "" {
		return p.dims, nil
	}
	var fitting []string
	for _, list := range alike[len(shape)] {
		if _, fits := spread(list, shape, want); fits {
			fitting = append(fitting, list)
		}
	}
	if len(fitting) > 1 && shape[0] > 1 {
		return "", fmt.Errorf("%s is %s, which may be %s: say with %s-dims which is meant", p.path,
			dims(shape), strings.Join(fitting, " or "), p.name)
	}
	if lists := alike[len(shape)]; lists != nil {
		return lists[0], nil
	}
	return "", nil
}

// spread returns a shape with dimensions of 1 where the list has none, and whether it can repeat to
// want.
func spread(list string, shape []int, want [4]int) (have [4]int, fits bool) {
	have = [4]int{1, 1, 1, 1}
	names := strings.Split(list, ",")
	if len(names) != len(shape) || list == "" {
		return have, false
	}
	for i, name := range names {
		d := slices.Index(pairDims, name)
		have[d] = shape[i]
		if shape[i] != want[d] && (shape[i] != 1 || name == "k") {
			return have, false
		}
	}
	return have, true
}
