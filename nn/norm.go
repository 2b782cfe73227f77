package nn

import (
	"math"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/kernel/elements"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/views"
)

// RMSNorm divides each row by its root mean square, as Zhang and Sennrich (2019) define it:
//
//	dst = x·r·weight, r = 1/√(Σx²/D + eps)
//
// Σx² is [attn.Dot], in 64 partial sums; each operation is rounded. weight has D elements; nil
// omits that product. A row of zeros stays zeros if eps is 0.
//
// Where the largest magnitude of a row is above 2⁵⁰, or below 2⁻⁵⁰ and not 0, the row is first
// multiplied by the power of two t that brings it into [1, 2), and eps by t², unless eps·t² is
// infinite: finite rows stay finite. A row with a NaN or an infinity becomes NaN.
//
// An eps that is NaN, negative or infinite is [attn.ErrOption], a weight of another length
// [attn.ErrLength].
func RMSNorm(p *attn.Pool, dst, x attn.Tensor, weight []float32, eps float32) (err error) {
	defer views.NameFunction("nn.RMSNorm", &err)
	all := [...]argument{argumentOf("dst", &dst), argumentOf("x", &x)}
	if err := checkNorm(all[:], 1, weight, nil, eps); err != nil {
		return err
	}
	j := jobs.Get().(*job)
	j.operation, j.weight, j.eps = rmsNorm, weight, eps
	copy(j.all[:], all[:])
	j.byRows()
	return j.run(p)
}

// L2Norm divides each row by its Euclidean norm: dst = x·r, r = 1/√(Σx² + eps). Sums, scaling and
// errors are as in [RMSNorm].
func L2Norm(p *attn.Pool, dst, x attn.Tensor, eps float32) (err error) {
	defer views.NameFunction("nn.L2Norm", &err)
	all := [...]argument{argumentOf("dst", &dst), argumentOf("x", &x)}
	if err := checkNorm(all[:], 1, nil, nil, eps); err != nil {
		return err
	}
	j := jobs.Get().(*job)
	j.operation, j.eps = l2Norm, eps
	copy(j.all[:], all[:])
	j.byRows()
	return j.run(p)
}

// LayerNorm gives each row mean 0 and variance 1, as Ba, Kiros and Hinton (2016) define it:
//
//	d = x − Σx/D, r = 1/√(Σd²/D + eps), dst = FMA(d·r, weight, bias)
//
// weight and bias have D elements; nil means ones and zeros. With eps 0, a row whose d are all 0
// becomes bias; in a row of equal elements d may be a rounding error, which r scales to ±1. A row
// above 2⁵⁰ is scaled as in [RMSNorm] before its mean is computed, then d by its own magnitude, and
// eps by the square of both. Errors are as in RMSNorm.
func LayerNorm(p *attn.Pool, dst, x attn.Tensor, weight, bias []float32, eps float32) (err error) {
	defer views.NameFunction("nn.LayerNorm", &err)
	all := [...]argument{argumentOf("dst", &dst), argumentOf("x", &x)}
	if err := checkNorm(all[:], 1, weight, bias, eps); err != nil {
		return err
	}
	j := jobs.Get().(*job)
	j.operation, j.weight, j.bias, j.eps = layerNorm, weight, bias, eps
	copy(j.all[:], all[:])
	j.byRows()
	return j.run(p)
}

// AddRMSNorm is [Add] and [RMSNorm] in one pass over memory, with the same bits: sum = a + b, dst =
// RMSNorm(sum). dst and sum may each be exactly a or b; dst and sum that overlap are
// [attn.ErrOverlap]. Other errors are as in RMSNorm.
func AddRMSNorm(p *attn.Pool, dst, sum, a, b attn.Tensor, weight []float32,
	eps float32) (err error) {
	defer views.NameFunction("nn.AddRMSNorm", &err)
	all := [...]argument{argumentOf("dst", &dst), argumentOf("sum", &sum), argumentOf("b", &b),
		argumentOf("a", &a)}
	if err := checkNorm(all[:], 2, weight, nil, eps); err != nil {
		return err
	}
	j := jobs.Get().(*job)
	j.operation, j.weight, j.eps = addRMSNorm, weight, eps
	j.all = [...]argument{all[0], all[1], all[3], all[2]}
	j.byRows()
	return j.run(p)
}

// checkNorm validates the arguments of a norm.
func checkNorm(all []argument, outputs int, weight, bias []float32, eps float32) error {
	if err := checkEps(eps); err != nil {
		return err
	}
	err := checkViews(all, outputs, floatList{"weight", weight}, floatList{"bias", bias})
	if err != nil {
		return err
	}
	if err := checkList("weight", weight, all[0].D); err != nil {
		return err
	}
	return checkList("bias", bias, all[0].D)
}

// Rows with magnitudes outside [least, most] are scaled: squares within neither overflow nor
// vanish.
const (
	most  = 0x1p+50
	least = 0x1p-50
)

// ordinary reports whether the largest magnitude of n elements is within [least, most]. It bounds
// it by the sum of squares: at least the largest square and, but for rounding, at most n times
// that.
func ordinary(squares float32, n int) bool {
	return squares <= most*most && float64(squares) >= 2*float64(n)*least*least
}

// normalizeSquares is RMSNorm of a row, or L2Norm.
func normalizeSquares(dst, x, weight []float32, eps float32, mean bool,
	ahead elements.Ahead) {
	scaleBySquares(dst, x, weight, elements.SumSquares(isa, x, 0), eps, mean, ahead)
}

// normalizeSum is AddRMSNorm of a row.
func normalizeSum(dst, sum, a, b, weight []float32, eps float32, ahead elements.Ahead) {
	scaleBySquares(dst, sum, weight, elements.AddSquares(isa, sum, a, b), eps, true, ahead)
}

// scaleBySquares normalizes a row by the sum of its squares.
func scaleBySquares(dst, x, weight []float32, squares, eps float32, mean bool,
	ahead elements.Ahead) {
	if !ordinary(squares, len(x)) {
		switch exponent, t := exponentOf(x), float32(0); {
		case exponent == notFinite:
			elements.Scale(isa, dst, x, weight, float32(math.NaN()), ahead)
			return
		case exponent != 0:
			if t = scaled(eps, exponent); t <= math.MaxFloat32 {
				multiply(dst, x, exponent)
				x, eps, squares = dst, t, elements.SumSquares(isa, dst, 0)
			}
		}
	}
	n := len(x)
	if !mean {
		n = 1
	}
	elements.Scale(isa, dst, x, weight, factor(squares, n, eps), ahead)
}

// factor returns 1/√(squares/n + eps), and 0 for a row of zeros without eps.
func factor(squares float32, n int, eps float32) float32 {
	m := float32(float64(squares)/float64(n)) + eps // the quotient is rounded as if it were once
	if m == 0 {
		return 0
	}
	return 1 / float32(math.Sqrt(float64(m)))
}

// notFinite is the exponent of rows with a NaN or an infinity.
const notFinite = math.MaxInt

// exponentOf returns the exponent of the power of two that a row is divided by, 0 for no scaling.
func exponentOf(x []float32) int {
	top := elements.Largest(x)
	switch {
	case !(top <= math.MaxFloat32):
		return notFinite
	case top == 0 || top >= least && top <= most:
		return 0
	}
	return math.Ilogb(float64(top))
}

// scaled returns eps·t², t = 2^−exponent, rounded once.
func scaled(eps float32, exponent int) float32 {
	return float32(math.Ldexp(float64(eps), -2*exponent))
}

// multiply computes dst = x·2^−exponent, rounded once: only small numbers need two factors, and the
// first product is exact.
func multiply(dst, x []float32, exponent int) {
	if exponent >= -126 {
		elements.Scale(isa, dst, x, nil, float32(math.Ldexp(1, -exponent)), elements.Ahead{})
		return
	}
	elements.Scale(isa, dst, x, nil, 0x1p+126, elements.Ahead{})
	elements.Scale(isa, dst, dst, nil, float32(math.Ldexp(1, -exponent-126)), elements.Ahead{})
}

// normalizeMean is LayerNorm of a row.
func normalizeMean(dst, x, weight, bias []float32, eps float32, ahead elements.Ahead) {
	mean := meanOf(x)
	squares := elements.SumSquares(isa, x, mean)
	// Magnitudes are at most |mean| + √squares.
	if mean >= -most/4 && mean <= most/4 && squares <= most*most/16 && ordinary(squares, len(x)) {
		r := factor(squares, len(x), eps)
		elements.Normalize(isa, dst, x, weight, bias, mean, r, ahead)
		return
	}
	normalizeExtreme(dst, x, weight, bias, eps, ahead)
}

// meanOf is Σx/D.
func meanOf(x []float32) float32 {
	return float32(float64(elements.Sum(isa, x)) / float64(len(x)))
}

// normalizeExtreme is normalizeMean for a row that may need scaling. d is kept in dst.
func normalizeExtreme(dst, x, weight, bias []float32, eps float32, ahead elements.Ahead) {
	exponent := exponentOf(x)
	switch {
	case exponent == notFinite:
		elements.Normalize(isa, dst, x, weight, bias, float32(math.NaN()), 1, ahead)
		return
	case exponent > 0:
		multiply(dst, x, exponent)
	default:
		exponent = 0
		stop.Copy(dst, x)
	}
	elements.Subtract(dst, meanOf(dst))
	e := exponentOf(dst)
	if scaled(eps, exponent+e) <= math.MaxFloat32 {
		multiply(dst, dst, e)
		exponent += e
	}
	r := factor(elements.SumSquares(isa, dst, 0), len(dst), scaled(eps, exponent))
	elements.Normalize(isa, dst, dst, weight, bias, 0, r, ahead)
}
