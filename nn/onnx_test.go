package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn"
)

// Operators of ONNX by its definitions, in float64. What has no call of its own: a scale that is
// broadcast along some of several axes is repeated by the caller, LayerNormalization's second and
// third outputs are not kept, and CausalConvWithState has channels before positions, which are
// transposed.

// closeTo wants results within some units of float32 of the definition's.
func closeTo(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i, w := range want {
		if e := math.Abs(float64(got[i]) - w); !(e <= 2e-6*(1+math.Abs(w))) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], w)
		}
	}
}

// RMSNormalization-23 and LayerNormalization-17 over all axes from one on: [2 3 4 5].
func TestONNXNormalizations(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 1))
	dims := []int{2, 3, 4, 5}
	const size, eps = 2 * 3 * 4 * 5, 1e-5
	x := randomTensor(r, 1, 1, 1, size).Data
	for axis := range dims {
		d := 1
		for _, n := range dims[axis:] {
			d *= n
		}
		scale, bias := randomTensor(r, 1, 1, 1, d).Data, randomTensor(r, 1, 1, 1, d).Data
		rms, layer := make([]float64, size), make([]float64, size)
		for from := 0; from < size; from += d {
			var mean, squares, variance float64
			for _, e := range x[from : from+d] {
				mean += float64(e) / float64(d)
				squares += float64(e) * float64(e) / float64(d)
			}
			for _, e := range x[from : from+d] {
				variance += (float64(e) - mean) * (float64(e) - mean) / float64(d)
			}
			for i, e := range x[from : from+d] {
				rms[from+i] = float64(e) / math.Sqrt(squares+eps) * float64(scale[i])
				layer[from+i] = (float64(e)-mean)/math.Sqrt(variance+eps)*float64(scale[i]) + float64(bias[i])
			}
		}
		rows, got := attn.BHLD(x, 1, 1, size/d, d), zeros(1, 1, size/d, d)
		must(t, RMSNorm(nil, got, rows, scale, eps))
		closeTo(t, fmt.Sprintf("RMSNormalization, axis %d", axis), got.Data, rms)
		must(t, LayerNorm(nil, got, rows, scale, bias, eps))
		closeTo(t, fmt.Sprintf("LayerNormalization, axis %d", axis), got.Data, layer)
	}
}

// Gelu-20, with and without approximation.
func TestONNXGelu(t *testing.T) {
	x := randomTensor(rand.New(rand.NewPCG(23, 2)), 1, 1, 1, 500)
	for a, f := range map[Activation]func(x float64) float64{
		GELU: func(x float64) float64 { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) },
		GELUTanh: func(x float64) float64 {
			return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		},
	} {
		got, want := zeros(1, 1, 1, 500), make([]float64, 500)
		for i, e := range x.Data {
			want[i] = f(float64(e))
		}
		must(t, Activate(nil, got, x, a))
		closeTo(t, a.String(), got.Data, want)
	}
}

// Swish-24 with alphas, and times another input, which is SwiGLU.
func TestONNXSwish(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 5))
	x, up := randomTensor(r, 1, 1, 1, 500), randomTensor(r, 1, 1, 1, 500)
	swish := func(alpha float64, factor []float32) []float64 {
		want := make([]float64, len(x.Data))
		for i, e := range x.Data {
			want[i] = float64(e) / (1 + math.Exp(-alpha*float64(e))) * float64(factor[i])
		}
		return want
	}
	ones := slices.Repeat([]float32{1}, 500)
	got, infinite := zeros(1, 1, 1, 500), float32(math.Inf(1))
	must(t, Activate(nil, got, x, SiLU))
	closeTo(t, "Swish", got.Data, swish(1, ones))
	must(t, GateClamped(nil, got, x, zeros(1, 1, 1, 500), 1.5, infinite))
	closeTo(t, "Swish, alpha 1.5", got.Data, swish(1.5, ones))
	must(t, Gate(nil, got, x, up, SiLU))
	closeTo(t, "SwiGLU", got.Data, swish(1, up.Data))
}

// RotaryEmbedding-23: inputs of three and four dimensions, pairs of both kinds, some of the
// channels, caches by position_ids and caches of each row.
func TestONNXRotaryEmbedding(t *testing.T) {
	const b, h, l, d, positions = 2, 3, 4, 16, 50
	r := rand.New(rand.NewPCG(23, 3))
	for choice := range 16 {
		four, interleaved, partial, ids := choice&1 != 0, choice&2 != 0, choice&4 != 0, choice&8 != 0
		dim := d
		if partial {
			dim = 6
		}
		rows, at := b*l, make([]int32, b*l) // without position_ids: [B, L, dim/2]
		for i := range at {
			at[i] = int32(i)
			if ids {
				rows, at[i] = positions, r.Int32N(positions)
			}
		}
		cos, sin := randomTensor(r, 1, 1, rows, dim/2).Data, randomTensor(r, 1, 1, rows, dim/2).Data
		rope, err := NewRopeTables(RopeConfig{Dim: dim, Interleaved: interleaved}, cos, sin)
		must(t, err)
		view := func(data []float32) attn.Tensor {
			if four {
				return attn.BHLD(data, b, h, l, d)
			}
			return attn.BLHD(data, b, l, h, d)
		}
		x, got := view(randomTensor(r, b, h, l, d).Data), view(make([]float32, b*h*l*d))
		must(t, rope.Rotate(nil, got, x, at))
		want := make([]float64, dim)
		for row := range b * h * l {
			n, head, i := row/(h*l), row/l%h, row%l
			in := x.Row(n, head, i)
			for k := range dim / 2 {
				first, second := k, k+dim/2
				if interleaved {
					first, second = 2*k, 2*k+1
				}
				c, s := float64(cos[int(at[n*l+i])*dim/2+k]), float64(sin[int(at[n*l+i])*dim/2+k])
				want[first] = c*float64(in[first]) - s*float64(in[second])
				want[second] = s*float64(in[first]) + c*float64(in[second])
			}
			out := got.Row(n, head, i)
			closeTo(t, fmt.Sprintf("choice %d", choice), out[:dim], want)
			sameBits(t, "the rest", out[dim:], in[dim:])
		}
	}
}

// CausalConvWithState-27: [B, C, L], with and without bias, past state and activation, each result
// with the present state.
func TestONNXCausalConvWithState(t *testing.T) {
	const b, c, k = 2, 3, 4
	r := rand.New(rand.NewPCG(23, 4))
	for choice := range 16 {
		n := 1 + choice&1*8
		x, past := randomTensor(r, 1, b, c, n), zeros(1, b, c, k-1)
		weight := randomTensor(r, 1, 1, c, k).Data
		config := ConvConfig{Channels: c, Width: k, Weight: weight}
		if choice&2 != 0 {
			config.Bias = randomTensor(r, 1, 1, 1, c).Data
		}
		if choice&4 != 0 {
			past = randomTensor(r, 1, b, c, k-1)
		}
		if choice&8 != 0 {
			config.Activation = SiLU
		}
		for seq := range b {
			conv, err := NewConv(config)
			must(t, err)
			must(t, conv.Start(transposed(past, seq)))
			got, present := zeros(1, 1, n, c), zeros(1, 1, k-1, c)
			must(t, conv.Append(nil, got, transposed(x, seq)))
			must(t, conv.Read(present))
			for channel := range c {
				all := append(append([]float32{}, past.Row(0, seq, channel)...), x.Row(0, seq, channel)...)
				for i := range n {
					var want float64
					if config.Bias != nil {
						want = float64(config.Bias[channel])
					}
					for tap, w := range weight[channel*k:][:k] {
						want += float64(w) * float64(all[i+tap])
					}
					if config.Activation == SiLU {
						want /= 1 + math.Exp(-want)
					}
					closeTo(t, fmt.Sprintf("choice %d", choice), got.Row(0, 0, i)[channel:][:1], []float64{want})
				}
				for i, e := range all[n:] {
					sameBits(t, "the present state", present.Row(0, 0, i)[channel:][:1], []float32{e})
				}
			}
		}
	}
}

// transposed is a sequence's [C, L] as [L, C].
func transposed(x attn.Tensor, seq int) attn.Tensor {
	y := zeros(1, 1, x.D, x.L)
	for channel := range x.L {
		for i, e := range x.Row(0, seq, channel) {
			y.Data[i*x.L+channel] = e
		}
	}
	return y
}
