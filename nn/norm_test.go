package nn

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn"
)

var (
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)

// lengths have rests of all kinds of vectors, of partial sums and of pieces.
func lengths() []int {
	if testing.Short() {
		return []int{1, 3, 7, 8, 17, 33, 65, 127, 130, 1030, 4099}
	}
	return []int{1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 128, 130, 1000, 4095,
		4096, 4097, 8200}
}

// Norms have the bits of their formulas, with attn.Dot for sums of squares.
func TestNorms(t *testing.T) {
	forEachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 1))
		for _, d := range lengths() {
			x, weight, bias := randomTensor(r, 1, 1, 1, d), randomTensor(r, 1, 1, 1, d).Data,
				randomTensor(r, 1, 1, 1, d).Data
			const eps = 1e-5
			got, want := zeros(1, 1, 1, d), make([]float32, d)
			reciprocal := func(m float32) float32 { return 1 / float32(math.Sqrt(float64(m))) }

			m := attn.Dot(x.Data, x.Data) / float32(d)
			root := reciprocal(m + eps)
			for i, e := range x.Data {
				want[i] = float32(e*root) * weight[i]
			}
			must(t, RMSNorm(nil, got, x, weight, eps))
			sameBits(t, "RMSNorm", got.Data, want)
			for i, e := range x.Data {
				want[i] = e * root
			}
			must(t, RMSNorm(nil, got, x, nil, eps))
			sameBits(t, "RMSNorm without a weight", got.Data, want)

			root = reciprocal(attn.Dot(x.Data, x.Data) + eps)
			for i, e := range x.Data {
				want[i] = e * root
			}
			must(t, L2Norm(nil, got, x, eps))
			sameBits(t, "L2Norm", got.Data, want)

			ones, differences := make([]float32, d), make([]float32, d)
			for i := range ones {
				ones[i] = 1
			}
			mean := attn.Dot(x.Data, ones) / float32(d)
			for i, e := range x.Data {
				differences[i] = e - mean
			}
			root = reciprocal(attn.Dot(differences, differences)/float32(d) + eps)
			for i, e := range differences {
				want[i] = float32(math.FMA(float64(float32(e*root)), float64(weight[i]), float64(bias[i])))
			}
			must(t, LayerNorm(nil, got, x, weight, bias, eps))
			for i, e := range got.Data { // the reference rounds twice
				if math.Abs(float64(e-want[i])) > 0x1p-23*math.Abs(float64(want[i])) {
					t.Fatalf("LayerNorm of %d: element %d is %v, want %v", d, i, e, want[i])
				}
			}
			for i, e := range differences {
				want[i] = float32(e*root) + 0
			}
			must(t, LayerNorm(nil, got, x, nil, nil, eps))
			sameBits(t, "LayerNorm without weight and bias", got.Data, want)
		}
	})
}

// A sum with its norm is the two calls, whichever of the operands is written to.
func TestAddRMSNorm(t *testing.T) {
	forEachISA(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(2, 1))
		for _, d := range lengths() {
			a, b := randomTensor(r, 2, 1, 3, d), randomTensor(r, 2, 1, 3, d)
			if d%2 == 0 {
				a.Data[0], b.Data[len(b.Data)-1] = 1e30, inf
			}
			weight := randomTensor(r, 1, 1, 1, d).Data
			sum, want := zeros(2, 1, 3, d), zeros(2, 1, 3, d)
			must(t, Add(nil, sum, a, b))
			must(t, RMSNorm(nil, want, sum, weight, 1e-6))
			for way := range 4 {
				x, y := attn.BHLD(append([]float32(nil), a.Data...), 2, 1, 3, d),
					attn.BHLD(append([]float32(nil), b.Data...), 2, 1, 3, d)
				dst, both := zeros(2, 1, 3, d), zeros(2, 1, 3, d)
				if way&1 != 0 {
					dst = x
				}
				if way&2 != 0 {
					both = y
				}
				must(t, AddRMSNorm(nil, dst, both, x, y, weight, 1e-6))
				sameBits(t, "the sum", both.Data, sum.Data)
				sameBits(t, "its norm", dst.Data, want.Data)
			}
		}
	})
}

// Rows of all magnitudes have the norm of their direction; NaN and infinities make theirs NaN and
// touch no other; rows of zeros are zeros, or the bias.
func TestNormsOfExtremeRows(t *testing.T) {
	forEachISA(t, func(t *testing.T) {
		const d = 70
		r := rand.New(rand.NewPCG(3, 1))
		bias := randomTensor(r, 1, 1, 1, d).Data
		for e := -149; e <= 126; e++ {
			x := zeros(1, 1, 3, d)
			for i := range d {
				// multiples of 2^e, so that small ones are exact
				x.Data[d+i] = float32(math.Ldexp(float64(1+r.IntN(7)), min(e, 125)-1+min(1, max(0, -e-147))))
				x.Data[i], x.Data[2*d+i] = float32(r.NormFloat64()), float32(r.NormFloat64())
			}
			middle := x.Data[d : 2*d]
			squares, sum, deviations := 0.0, 0.0, 0.0
			for _, v := range middle {
				squares += float64(v) * float64(v)
				sum += float64(v)
			}
			for _, v := range middle {
				deviations += (float64(v) - sum/d) * (float64(v) - sum/d)
			}
			rms, l2, layer := zeros(1, 1, 3, d), zeros(1, 1, 3, d), zeros(1, 1, 3, d)
			must(t, RMSNorm(nil, rms, x, nil, 0))
			must(t, L2Norm(nil, l2, x, 0))
			must(t, LayerNorm(nil, layer, x, nil, bias, 0))
			for i, v := range middle {
				for _, c := range []struct {
					name      string
					got, want float64
				}{
					{"RMSNorm", float64(rms.Data[d+i]), float64(v) / math.Sqrt(squares/d)},
					{"L2Norm", float64(l2.Data[d+i]), float64(v) / math.Sqrt(squares)},
					{"LayerNorm", float64(layer.Data[d+i]),
						(float64(v)-sum/d)/math.Sqrt(deviations/d) + float64(bias[i])},
				} {
					if c.name == "LayerNorm" && e < -120 {
						continue // the mean is subnormal
					}
					if !(math.Abs(c.got-c.want) <= 2e-5*(math.Abs(c.want)+1)) {
						t.Fatalf("%s of a row of 2^%d: element %d is %v, want %v", c.name, e, i, c.got, c.want)
					}
				}
			}
		}
		for _, bad := range []float32{nan, inf, -inf} {
			x, clean := randomTensor(r, 1, 1, 3, d), zeros(1, 1, 3, d)
			copy(clean.Data, x.Data)
			x.Data[d+r.IntN(d)] = bad
			for name, norm := range map[string]func(dst, x attn.Tensor) error{
				"RMSNorm":   func(dst, x attn.Tensor) error { return RMSNorm(nil, dst, x, bias, 1e-5) },
				"L2Norm":    func(dst, x attn.Tensor) error { return L2Norm(nil, dst, x, 1e-5) },
				"LayerNorm": func(dst, x attn.Tensor) error { return LayerNorm(nil, dst, x, bias, bias, 1e-5) },
			} {
				got, want := zeros(1, 1, 3, d), zeros(1, 1, 3, d)
				must(t, norm(got, x))
				must(t, norm(want, clean))
				for i := range d {
					want.Data[d+i] = nan
				}
				sameBits(t, name, got.Data, want.Data)
			}
		}
		x, got := zeros(1, 1, 1, d), zeros(1, 1, 1, d)
		must(t, RMSNorm(nil, got, x, nil, 0))
		sameBits(t, "RMSNorm of zeros", got.Data, x.Data)
		must(t, L2Norm(nil, got, x, 0))
		sameBits(t, "L2Norm of zeros", got.Data, x.Data)
		for _, same := range []float32{0, 3, 0x1p+100, 0x1p-140} {
			for i := range x.Data {
				x.Data[i] = same
			}
			for _, eps := range []float32{0, 1e-5} {
				must(t, LayerNorm(nil, got, x, nil, bias, eps))
				sameBits(t, "LayerNorm of equal elements", got.Data, bias)
			}
		}
	})
}

// eps is scaled with a row, unless it would be infinite; then the row is not.
func TestScaledEps(t *testing.T) {
	const d = 4
	x, got := zeros(1, 1, 1, d), zeros(1, 1, 1, d)
	for _, c := range []struct {
		exponent int
		eps      float32
	}{{-60, 0x1p-110}, {-60, 1}, {-100, 0x1p-70}, {60, 1}, {60, 0x1p+121}, {120, 0x1p+127}} {
		for i := range x.Data {
			x.Data[i] = float32(math.Ldexp(float64(1+i), c.exponent))
		}
		must(t, RMSNorm(nil, got, x, nil, c.eps))
		for i, e := range x.Data {
			mean := 7.5 * math.Ldexp(1, 2*c.exponent)
			want := float64(e) / math.Sqrt(mean+float64(c.eps))
			if math.Abs(float64(got.Data[i])-want) > 1e-6*want {
				t.Errorf("2^%d with eps %v: element %d is %v, want %v", c.exponent, c.eps, i, got.Data[i], want)
			}
		}
	}
}
