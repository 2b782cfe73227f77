package nn

import (
	"math"
	"math/big"
)

// Powers and logarithms that are the same on every CPU, by math/big. They are slow, and computed
// once for each model.

// bigBits is the precision of intermediate results: what is compared differs by 2⁻⁵⁵ or more.
const bigBits = 320

func newBig(x float64) *big.Float { return new(big.Float).SetPrec(bigBits).SetFloat64(x) }

// power returns base^(p/q), correctly rounded to float64 where that is normal, +Inf where it is too
// large, for base ≥ 1, q ≥ 1 and any p. It searches for the number between whose rounding
// boundaries the power lies: x is below the power if x^q < base^p.
func power(base float64, p, q int) float64 {
	if base == 1 || p == 0 {
		return 1
	}
	y := math.Pow(base, float64(p)/float64(q)) // close, but not the same everywhere
	if math.IsInf(y, 0) {
		return y
	}
	divisor := gcd(max(p, -p), q)
	p, q = p/divisor, q/divisor
	to := bigPower(newBig(base), max(p, -p))
	if p < 0 {
		to.Quo(newBig(1), to)
	}
	below := func(a, b float64) bool { // the middle of two numbers is below the power
		middle := newBig(a)
		middle.Add(middle, newBig(b)).Quo(middle, newBig(2))
		return bigPower(middle, q).Cmp(to) < 0
	}
	for up := math.Nextafter(y, math.Inf(1)); below(y, up); up = math.Nextafter(y, math.Inf(1)) {
		y = up
	}
	for down := math.Nextafter(y, 0); !below(down, y); down = math.Nextafter(y, 0) {
		y = down
	}
	return y
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// bigPower is xⁿ.
func bigPower(x *big.Float, n int) *big.Float {
	y, square := newBig(1), newBig(0).Set(x)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			y.Mul(y, square)
		}
		square.Mul(square, square)
	}
	return y
}

// Log returns the natural logarithm, correctly rounded. Unlike [math.Log] it is the same on every
// CPU, for numbers that engines compute from a model's configuration. It costs some microseconds.
func Log(x float64) float64 {
	if !(x > 0 && x <= math.MaxFloat64) {
		return math.Log(x) // −Inf, NaN or +Inf everywhere
	}
	// x = m·2^e, ln x = 2·atanh((m−1)/(m+1)) + e·ln 2.
	m, e := math.Frexp(x)
	sum := atanhSeries(newBig(m))
	ln2 := atanhSeries(newBig(2))
	ln2.Mul(ln2, newBig(float64(e)))
	y, _ := sum.Add(sum, ln2).Float64()
	return y
}

// atanhSeries is ln m for ½ ≤ m ≤ 2.
func atanhSeries(m *big.Float) *big.Float {
	s := newBig(0).Sub(m, newBig(1))
	s.Quo(s, newBig(0).Add(m, newBig(1)))
	square := newBig(0).Mul(s, s)
	sum, term := newBig(0), newBig(0).Set(s)
	for n := 1; n < 2*bigBits/3; n += 2 { // s² ≤ 1/9: each term is at most a ninth of the last
		sum.Add(sum, newBig(0).Quo(term, newBig(float64(n))))
		term.Mul(term, square)
	}
	return sum.Mul(sum, newBig(2))
}
