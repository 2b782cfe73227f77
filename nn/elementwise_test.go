package nn

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/f32"
)

// of is each activation of a number.
func of(a Activation, x float32) float32 {
	switch a {
	case SiLU:
		return f32.SiLU(x)
	case GELU:
		return f32.GELU(x)
	case GELUTanh:
		return f32.GELUTanh(x)
	case ReLU:
		return max(x, 0) + 0
	case ReLUSquared:
		return (max(x, 0) + 0) * (max(x, 0) + 0)
	case Sigmoid:
		return f32.Sigmoid(x)
	case Tanh:
		return f32.Tanh(x)
	case Softplus:
		return f32.Softplus(x)
	case Exp:
		return f32.Exp(x)
	case QuickGELU:
		return f32.QuickGELU(x)
	}
	return x
}

// wide are numbers of all magnitudes, and special ones.
func wide(r *rand.Rand, n int) []float32 {
	special := []float32{0, float32(math.Copysign(0, -1)), inf, -inf, nan, math.MaxFloat32, 88.8,
		-88.8, -104, 1e-45, -1e-45, -0.75}
	x := make([]float32, n)
	for i := range x {
		switch r.IntN(4) {
		case 0:
			x[i] = special[r.IntN(len(special))]
		case 1:
			x[i] = math.Float32frombits(r.Uint32())
		default:
			x[i] = float32(r.NormFloat64() * 4)
		}
	}
	return x
}

// Activations and gates work element by element, in place of either input, too.
func TestActivate(t *testing.T) {
	forEachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for a := None; a < activations; a++ {
			for _, n := range lengths() {
				x, up := wide(r, n), wide(r, n)
				want, gated := make([]float32, n), make([]float32, n)
				for i, e := range x {
					want[i] = of(a, e)
					gated[i] = want[i] * up[i]
				}
				view := func(x []float32) attn.Tensor { return attn.BHLD(x, 1, 1, 1, n) }
				got := make([]float32, n)
				must(t, Activate(nil, view(got), view(x), a))
				sameBits(t, a.String(), got, want)
				must(t, Gate(nil, view(got), view(x), view(up), a))
				sameBits(t, "the gate of "+a.String(), got, gated)
				copy(got, up)
				must(t, Gate(nil, view(got), view(x), view(got), a))
				sameBits(t, "the gate in place of up, of "+a.String(), got, gated)
				copy(got, x)
				must(t, Gate(nil, view(got), view(got), view(up), a))
				sameBits(t, "the gate in place, of "+a.String(), got, gated)
				must(t, Activate(nil, view(x), view(x), a))
				sameBits(t, "in place, "+a.String(), x, want)
			}
		}
	})
}

func TestGateClamped(t *testing.T) {
	forEachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 3))
		for _, limit := range []float32{7, 0.5, inf} {
			for _, n := range lengths() {
				gate, up, want := wide(r, n), wide(r, n), make([]float32, n)
				for i, g := range gate {
					g, u := min(g, limit), max(min(up[i], limit), -limit)
					s := float32(g * f32.Sigmoid(float32(1.702*g)))
					if g == -inf {
						s, u = 0, max(min(u, math.MaxFloat32), -math.MaxFloat32)
					}
					want[i] = s * (u + 1)
				}
				got := zeros(1, 1, 1, n)
				must(t, GateClamped(nil, got, attn.BHLD(gate, 1, 1, 1, n), attn.BHLD(up, 1, 1, 1, n), 1.702,
					limit))
				sameBits(t, "GateClamped", got.Data, want)
			}
		}
		for _, limit := range []float32{7, inf} {
			got := attn.BHLD([]float32{-inf, -inf, -inf, -inf, inf}, 1, 1, 1, 5)
			up := attn.BHLD([]float32{3, inf, -inf, nan, inf}, 1, 1, 1, 5)
			must(t, GateClamped(nil, got, got, up, 1, limit))
			if x := got.Data; x[0] != 0 || x[1] != 0 || x[2] != 0 || x[3] == x[3] || x[4] < 48 {
				t.Errorf("gates of −Inf give %v with a limit of %v, want 0, 0, 0, NaN", x, limit)
			}
		}
	})
}

// Each row is attn.Softmax of it, also in place.
func TestSoftmax(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	for _, d := range lengths() {
		x := randomTensor(r, 2, 1, 3, d)
		for i := range x.Row(0, 0, 1) {
			x.Row(0, 0, 1)[i] = -inf
		}
		want := make([]float32, len(x.Data))
		for i := range 6 {
			attn.Softmax(want[i*d:][:d], x.Data[i*d:][:d])
		}
		got := zeros(2, 1, 3, d)
		must(t, Softmax(nil, got, x))
		sameBits(t, "Softmax", got.Data, want)
		must(t, Softmax(nil, x, x))
		sameBits(t, "Softmax in place", x.Data, want)
	}
}

// Biases and views of any strides add as rows do.
func TestAddViews(t *testing.T) {
	forEachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 4))
		const b, h, l, d = 2, 3, 4, 70
		bias := randomTensor(r, 1, 1, 1, d).Data
		x := randomTensor(r, b, h, l, d)
		repeated := attn.Tensor{Data: bias, B: b, H: h, L: l, D: d, SB: attn.Broadcast,
			SH: attn.Broadcast,
			SL: attn.Broadcast}
		got := attn.Rows(make([]float32, b*l*h*d*2), b, l, h, d, h*d*2)
		must(t, Add(nil, got, x, repeated))
		for i := range b * h * l {
			row := got.Row(i/(h*l), i/l%h, i%l)
			for k, e := range x.Row(i/(h*l), i/l%h, i%l) {
				if row[k] != e+bias[k] {
					t.Fatalf("row %d, element %d is %v, want %v", i, k, row[k], e+bias[k])
				}
			}
		}
	})
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{None.String(): "None", Exp.String(): "Exp",
		Activation(-1).String(): "Activation(-1)", activations.String(): "Activation(11)",
		NoScaling.String(): "NoScaling", LongRope.String(): "LongRope",
		scalingTypes.String(): "RopeScalingType(6)"} {
		if got != want {
			t.Errorf("a name is %s, want %s", got, want)
		}
	}
}
