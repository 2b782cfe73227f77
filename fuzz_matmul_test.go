package attn

import (
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
)

// FuzzMatMul: every way to multiply gives one chain of FMAs for each element,
// for any strides, and touches nothing around the operands.
func FuzzMatMul(f *testing.F) {
	seedInputs(f)
	operands := new(arena)
	f.Cleanup(operands.free)
	f.Fuzz(func(t *testing.T, data []byte) {
		r := randomFrom(data)
		anyTuning(t, r)
		p := drawProduct(r, distribution(r.IntN(int(distributions))))
		want := p.chains()
		m, err := PackMatrix(p.b)
		must(t, err)
		operands.used = [3]int{}
		_, a := scatter(r, &operands.floats, &operands.used[0], p.a, [3]bool{}, nan32())
		_, b := scatter(r, &operands.floats, &operands.used[0], p.b, [3]bool{p.b.B == 1, p.b.H == 1}, nan32())
		const canary = 12345
		out, _ := scatter(r, &operands.floats, &operands.used[0], p.dst, [3]bool{}, canary)
		check := func(what string, err error) {
			must(t, err)
			gather(t, p.dst, out, canary)
			mustEqualBits(t, what, p.dst.Data, want)
		}
		check("MatMul", MatMul(out, a, b))
		check("Matrix", m.MatMul(out, a, nil))
		check("Pool", threeWorkers().MatMul(out, a, m, nil))
		p.addBias(want)
		check("Matrix with bias", m.MatMul(out, a, p.bias))
	})
}

// productCase is the operands of a matrix product, contiguous.
type productCase struct {
	dst, a, b Tensor
	bias      []float32
}

func drawProduct(r *rand.Rand, kind distribution) *productCase {
	batch, heads := 1+r.IntN(2), 1+r.IntN(2)
	rows, inner, cols := 1+r.IntN(6), 1+r.IntN(6), 1+r.IntN(20)
	switch draw := r.IntN(1024); {
	case draw == 0:
		rows, inner, cols = length(r, productRows+20), length(r, productInner+20), length(r, productCols+20)
	case draw < 25:
		rows = 1 + r.IntN(productRows+20)
	case draw < 50:
		inner = 1 + r.IntN(productInner+20)
	case draw < 75:
		cols = 1 + r.IntN(productCols+20)
	}
	return &productCase{
		dst:  BHLD(make([]float32, batch*heads*rows*cols), batch, heads, rows, cols),
		a:    tensor(r, kind, batch, heads, rows, inner),
		b:    tensor(r, kind, oneOr(r, batch), oneOr(r, heads), inner, cols),
		bias: tensor(r, kind, 1, 1, 1, cols).Data,
	}
}

// chains is the product by definition.
func (p *productCase) chains() []float32 {
	want := make([]float32, 0, len(p.dst.Data))
	for at := range p.a.B * p.a.H * p.a.L {
		i, h, l := at/p.a.L/p.a.H, at/p.a.L%p.a.H, at%p.a.L
		for c := range p.b.D {
			var sum float32
			for k, e := range p.a.row(i, h, l) {
				sum = f32.FMA(e, p.b.row(min(i, p.b.B-1), min(h, p.b.H-1), k)[c], sum)
			}
			want = append(want, sum)
		}
	}
	return want
}

func (p *productCase) addBias(x []float32) {
	for i := range x {
		x[i] += p.bias[i%p.b.D]
	}
}
