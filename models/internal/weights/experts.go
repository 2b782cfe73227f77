package weights

import (
	"fmt"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/gguf"
)

// Experts is a group of matrices of one shape. Each row of inputs chooses some of them.
type Experts struct {
	Matrices []*attn.Matrix
	Biases   [][]float32 // nil for none
	Scales   []float32   // of each expert's outputs, before biases; nil for none
	In, Out  int
}

// ExpertMatrices loads matrices, each as Linear does.
func (l *Loader) ExpertMatrices(kind attn.Format, in int, bias bool, parts ...Part) Experts {
	made := Experts{In: in}
	for _, p := range parts {
		m := l.Linear(kind, in, bias, p)
		made.Out = p.Out
		made.Matrices = append(made.Matrices, m.Matrix)
		if bias {
			made.Biases = append(made.Biases, m.Bias)
		}
		if m.Scales != nil {
			made.Scales = append(made.Scales, m.Scales[0])
		}
	}
	return made
}

// Rows selects outputs of a tensor of experts: Out of each expert, every Step-th from First on.
type Rows struct{ First, Step, Out int }

const (
	microInputs = 32 // of a block
	microCodes  = 16 // bytes of a block's codes
)

// MicroMatrices loads matrices of a tensor of several experts in MXFP4 in the layout of folders:
// codes in one tensor, scales in another, and biases in a third. The matrices have some of each
// expert's outputs.
func (l *Loader) MicroMatrices(kind attn.Format, name string, in, experts, all int,
	r Rows) Experts {
	made, blocks := Experts{In: in, Out: r.Out}, in/microInputs
	if l.Err == nil && in%microInputs != 0 {
		l.Fail("%s: tensor %s is of rows of %d, want a multiple of %d, of which each has a scale",
			l.Path, name, in, microInputs)
	}
	biases := l.Tensor(name+"_bias", experts, all)
	t, codes := l.raw(name+"_blocks", experts, all, blocks, microCodes)
	_, scales := l.raw(name+"_scales", experts, all, blocks)
	for e := 0; e < experts && l.Err == nil; e++ {
		label := fmt.Sprintf("%s of expert %d, outputs from %d", name, e, r.First)
		var bias []float32
		for i := range r.Out {
			bias = append(bias, biases[e*all+r.First+i*r.Step])
		}
		made.Biases = append(made.Biases, bias)
		made.Matrices = append(made.Matrices, l.packed(label, in, r.Out, func() *attn.Matrix {
			var data []byte
			for i := range r.Out {
				data = microRow(data, codes, scales, (e*all+r.First+i*r.Step)*blocks, blocks)
			}
			return l.packMicro(t, label, kind, data, r.Out, in)
		}))
	}
	return made
}

// raw returns the bytes of a tensor.
func (l *Loader) raw(name string, shape ...int) (*stored, []byte) {
	t := l.tensors[name]
	switch {
	case l.Err != nil:
		return nil, nil
	case t == nil:
		l.Fail("%s: no %s has tensor %s, want one of shape %v", l.Path, l.source().file, name, shape)
		return nil, nil
	case !sameShape(t.shape, shape) || t.encoding.name != "U8":
		l.Fail("%s: tensor %s has dtype %s and shape %v, want U8 and %v by config.json", t.Path(), name,
			t.encoding.name, t.shape, shape)
		return nil, nil
	}
	t.used = true
	data, err := t.Bytes()
	l.failTensor(t, name, err)
	return t, data
}

// microRow appends blocks in the layout of GGUF files: the scale before the codes, and in each byte
// a code of the block's first half and one of its second half, instead of two neighbours.
func microRow(to, codes, scales []byte, first, blocks int) []byte {
	code := func(b []byte, i int) byte { return b[i/2] >> (i % 2 * 4) & 15 }
	for i := first; i < first+blocks; i++ {
		to = append(to, scales[i])
		b := codes[i*microCodes:][:microCodes]
		for j := range microCodes {
			to = append(to, code(b, j)|code(b, j+microCodes)<<4)
		}
	}
	return to
}

// packMicro packs rows of blocks in a format, or as they are.
func (l *Loader) packMicro(t *stored, label string, kind attn.Format, data []byte, out,
	in int) *attn.Matrix {
	if kind < 0 {
		return l.packBlocks(t, label, data, attn.MXFP4, out, in, true)
	}
	rows := make([]float32, out*in)
	l.failTensor(t, label, gguf.MXFP4.Decode(rows, data))
	return l.packRows(t, label, kind, rows, in, out)
}
