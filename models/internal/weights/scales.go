package weights

import (
	"slices"
	"strings"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/nn"
)

// A GGUF file may have X.scale in addition to X.weight: one number, or one for each expert, by
// which the weights are multiplied. Tensors of NVFP4 have it, because the scales of their blocks
// have few bits. This package multiplies the outputs of a product by it, so that blocks stay as
// they are. X.input_scale is for inputs rounded to NVFP4, which neither this package nor llama.cpp
// on a CPU does.
const (
	scaleSuffix      = ".scale"
	inputScaleSuffix = ".input_scale"
)

// scales returns the numbers that multiply the outputs of parts; nil for none.
func (l *Loader) scales(parts ...Part) []float32 {
	if !slices.ContainsFunc(parts, func(p Part) bool { return l.hasScale(p.Name) && !p.Unscaled }) {
		return nil
	}
	var all []float32
	for _, p := range parts {
		experts, at := max(p.Experts, 1), 0
		if p.Experts > 0 {
			at = p.From / (p.Of / p.Experts)
		}
		all = append(all, slices.Repeat([]float32{l.scale(p.Name, experts, at)}, p.Out)...)
	}
	return all
}

// hasScale reports whether the tensor name.weight has a scale.
func (l *Loader) hasScale(name string) bool { return l.metadata != nil && l.Has(name+scaleSuffix) }

// scale returns one of the scales of a tensor; 1 if it has none.
func (l *Loader) scale(name string, experts, at int) float32 {
	if !l.hasScale(name) {
		return 1
	}
	all := l.Tensor(name+scaleSuffix, experts)
	if l.Err != nil {
		return 1
	}
	if x := all[at]; x-x != 0 {
		l.Fail("%s: tensor %s has %v, want finite numbers", l.Path, name+scaleSuffix, x)
	}
	return all[at]
}

// hasNoUse reports whether a tensor is for inputs in NVFP4.
func (l *Loader) hasNoUse(name string) bool {
	of, ok := strings.CutSuffix(name, inputScaleSuffix)
	return ok && l.metadata != nil && l.Has(of+".weight")
}

// ProductBias returns the bias that a product by the matrix has to add: none with scales, since
// Rescale adds it.
func (l *Linear) ProductBias() []float32 {
	if l.Scales != nil {
		return nil
	}
	return l.Bias
}

// Rescale computes the layer's outputs from a product with ProductBias: rows of Out elements.
func (l *Linear) Rescale(pool *attn.Pool, dst attn.Tensor) error {
	if l.Scales == nil {
		return nil
	}
	each := func(row []float32) attn.Tensor {
		return attn.Tensor{Data: row, B: 1, H: 1, L: dst.L, D: l.Out, SB: 1, SH: 1, SL: attn.Broadcast}
	}
	err := nn.Gate(pool, dst, dst, each(l.Scales), nn.None)
	if err == nil && l.Bias != nil {
		err = nn.Add(pool, dst, dst, each(l.Bias))
	}
	return err
}

// Multiply computes the layer for rows.
func (l *Linear) Multiply(pool *attn.Pool, dst, x attn.Tensor) error {
	if err := pool.MulMatrix(dst, x, l.Matrix, l.ProductBias()); err != nil {
		return err
	}
	return l.Rescale(pool, dst)
}

// Multiply multiplies rows by the matrices that they chose: [experts of a row][rows].
func (e *Experts) Multiply(pool *attn.Pool, dst, x attn.Tensor, chosen attn.View[int32]) error {
	if e.Scales == nil {
		return pool.MulExperts(dst, x, e.Matrices, chosen, e.Biases)
	}
	if err := pool.MulExperts(dst, x, e.Matrices, chosen, nil); err != nil {
		return err
	}
	return pool.Run(chosen.L, &rescaling{e, dst, chosen})
}

// rescaling multiplies the outputs of a row by the scales of its experts, and adds their biases.
type rescaling struct {
	*Experts
	dst    attn.Tensor
	chosen attn.View[int32]
}

func (r *rescaling) Work(row int) {
	for i, expert := range r.chosen.Row(0, 0, row) {
		y, scale := r.dst.Row(0, i, row), r.Scales[expert]
		for j := range y {
			y[j] = float32(y[j] * scale)
			if r.Biases != nil {
				y[j] += r.Biases[expert][j]
			}
		}
	}
}
