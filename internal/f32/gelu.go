package f32

import "math"

// GELUs are max(x, 0) − s(|x|). Near their minimum a step of x changes them by far less than a
// rounding of float32, and still they must fall before it and rise after it. So below a limit s is
// eight polynomials, each around a point c,
//
//	s(a) = s(c) + d·(C₁ + C₂·d + … + C₈·d⁷), d = a − c
//
// where d and max(x, 0) − s(c) are exact, or rounded monotonically, and a single FMA is last: only
// roundings of the part that vanishes at c remain, which are smaller than the steps. c is chosen so
// that s(c) and C₁ are nearly float32 numbers; around the minimum it is the minimum, and around 0,
// where s is nearly a/2, a/2 is subtracted from x before. From the limit on s is an exponential,
// and steps are larger than many roundings.

// Pieces are polynomials for s on 0 ≤ a < Limit. The polynomial of a has the number min(4·a,
// a·Scale + Shift), truncated: two up to ½, the others of equal width.
type Pieces struct {
	Limit, Scale, Shift float32
	Middle, Value       [8]float32    // c and s(c)
	Coefficients        [8][8]float32 // C₁ of all, C₂ of all, …
}

// at returns max(x, 0) − s(a), a = |x| < Limit. The first polynomial's value is ⅛, times 4·a.
func (p *Pieces) at(x, a float32) float32 {
	near := 4 * a
	i := int(min(near, fma(a, p.Scale, p.Shift))) & 7
	base := fma(-p.Value[i], min(near, 1), max(x, 0))
	d, last := a-p.Middle[i], len(p.Coefficients)-1
	sum := p.Coefficients[last][i]
	for k := last - 1; k >= 0; k-- {
		sum = fma(sum, d, p.Coefficients[k][i])
	}
	return fma(-d, sum, base) + 0
}

// The constants of the exponentials. growth is (2^f − 1)/f, the minimax polynomial for the relative
// error of 2^f on |f| ≤ ½; error 2⁻²⁸.
const (
	growthC0 = 0x1.62e430p-01
	growthC1 = 0x1.ebfbdcp-03
	growthC2 = 0x1.c6af7ap-05
	growthC3 = 0x1.3b2dccp-07
	growthC4 = 0x1.5f093cp-10
	growthC5 = 0x1.418082p-13
)

// growth is (2^f − 1)/f.
func growth(f float32) float32 {
	p := fma(growthC5, f, growthC4)
	p = fma(p, f, growthC3)
	p = fma(p, f, growthC2)
	p = fma(p, f, growthC1)
	return fma(p, f, growthC0)
}

// The constants of GELU: ½·log₂e in two parts, and s·exp(a²/2) in v = 1/a², the minimax polynomial
// for the relative error from the limit to geluMost; error 2⁻²⁹.
const (
	// geluMost: from here on s is +0 in float32.
	geluMost = 15

	geluLog2Hi = 0x1.715476p-01
	geluLog2Lo = 0x1.4ae0c0p-27

	geluTailC0 = 0x1.988452p-02
	geluTailC1 = -0x1.9881f6p-02
	geluTailC2 = 0x1.31fbb4p+00
	geluTailC3 = -0x1.765a9cp+02
	geluTailC4 = 0x1.1bb262p+05
	geluTailC5 = -0x1.7dc256p+07
	geluTailC6 = 0x1.1a8f28p+09
)

// GELU is x·Φ(x), Φ of the normal distribution: s(a) = a·Φ(−a).
func GELU(x float32) float32 {
	a := math.Float32frombits(math.Float32bits(x) &^ (1 << 31))
	if a < GELUPieces.Limit {
		return GELUPieces.at(x, a)
	}
	return max(x, 0) - geluTail(min(a, geluMost)) + 0
}

// geluTail is a·Φ(−a) = T(1/a²)·exp(−a²/2) of large a: exp(−a²/2) = 2ⁿ·2^f, a² in two parts.
func geluTail(a float32) float32 {
	z := float32(a * a)
	rest := fma(a, a, -z)
	v := 1 / z
	t := fma(z, -geluLog2Hi, expBias)
	f := fma(z, -geluLog2Hi, expBias-t)
	f = fma(z, -geluLog2Lo, f)
	f = fma(rest, -geluLog2Hi, f)
	p := fma(geluTailC6, v, geluTailC5)
	p = fma(p, v, geluTailC4)
	p = fma(p, v, geluTailC3)
	p = fma(p, v, geluTailC2)
	p = fma(p, v, geluTailC1)
	p = fma(p, v, geluTailC0)
	return timesPower(fma(float32(p*f), growth(f), p), t)
}

// The constants of GELUTanh: 2u·log₂e = a·(c₀ + c₁·a²), u = √(2/π)·(a + 0.044715·a³), each in two
// parts. The first part of c₀ has few bits, so that the rounding error of a sum is exact.
const (
	// geluTanhMost: from here on s is +0 in float32.
	geluTanhMost = 11

	geluTanhC0Hi = 0x1.26bp+01
	geluTanhC0Lo = -0x1.3de432p-15
	geluTanhC1Hi = 0x1.a5a7d0p-04
	geluTanhC1Lo = -0x1.151aaep-29
)

// GELUTanh is x/2·(1 + tanh(u)): s(a) = a/(1 + e^(2u)).
func GELUTanh(x float32) float32 {
	a := math.Float32frombits(math.Float32bits(x) &^ (1 << 31))
	if a < GELUTanhPieces.Limit {
		return GELUTanhPieces.at(x, a)
	}
	return max(x, 0) - geluTanhTail(min(a, geluTanhMost)) + 0
}

// geluTanhTail is a/(1 + 1/e) = a·e·(1 − e + …) of large a, e = e^(−2u) = 2ⁿ·2^f small.
func geluTanhTail(a float32) float32 {
	z := float32(a * a)
	rest := fma(a, a, -z)
	p := fma(z, geluTanhC1Hi, geluTanhC0Hi)
	lost := fma(z, geluTanhC1Hi, geluTanhC0Hi-p) + geluTanhC0Lo
	lost = fma(z, geluTanhC1Lo, lost)
	lost = fma(rest, geluTanhC1Hi, lost)
	t := fma(a, -p, expBias)
	f := fma(a, -p, expBias-t)
	f = fma(a, -lost, f)
	g := growth(f)
	y := fma(float32(a*f), g, a)
	e := timesPower(fma(f, g, 1), t)
	return timesPower(fma(-e, y, y), t)
}

// GELUPieces are the pieces of GELU, its values for negative x.
var GELUPieces = Pieces{
	Limit: 0x1.066664p+02, Scale: 0x1.aaaaaap+00, Shift: 0x1.2aaaaap+00,
	Middle: [8]float32{
		0, 0x1.b49ea4p-02, 0x1.81e99cp-01, 0x1.84ac2p+00,
		0x1.0fbb34p+01, 0x1.59adbcp+01, 0x1.a97536p+01, 0x1.f64b3ap+01,
	},
	Value: [8]float32{
		0x1p-03, 0x1.247598p-03, 0x1.5c197p-03, 0x1.90f526p-04,
		0x1.259366p-05, 0x1.323d42p-07, 0x1.82bfcap-10, 0x1.661b2ep-13,
	},
	Coefficients: [8][8]float32{
		{
			0, 0x1.6fcd2p-03, -0x1.b6fe4p-11, -0x1.03bb8p-03,
			-0x1.2741cep-04, -0x1.93a198p-06, -0x1.3d99fcp-08, -0x1.5d05ccp-11,
		},
		{
			-0x1.988454p-02, -0x1.531c6ap-02, -0x1.b84dc8p-03, 0x1.3ae7eap-06,
			0x1.ae488ep-05, 0x1.c321e6p-06, 0x1.d7e094p-08, 0x1.3d68f8p-10,
		},
		{
			0x1.6f99cap-21, 0x1.94db6ap-04, 0x1.0923cep-03, 0x1.baafaep-05,
			-0x1.ec631p-08, -0x1.f9563p-07, -0x1.97425cp-08, -0x1.6137cep-10,
		},
		{
			0x1.104884p-04, 0x1.573fap-05, 0x1.1ba5f8p-08, -0x1.256798p-05,
			-0x1.9e0df4p-07, 0x1.5cd646p-09, 0x1.a7851p-09, 0x1.0737b4p-10,
		},
		{
			0x1.4ad352p-13, -0x1.53dd78p-06, -0x1.751648p-06, 0x1.ab3ccp-09,
			0x1.11a6b2p-07, 0x1.152e2ap-09, -0x1.ac5d98p-11, -0x1.09a16ap-11,
		},
		{
			-0x1.632edep-07, -0x1.41331ep-08, 0x1.48d0f6p-09, 0x1.339654p-08,
			-0x1.49b304p-10, -0x1.9ea326p-10, -0x1.114548p-13, 0x1.49fa5cp-13,
		},
		{
			0x1.39163cp-09, 0x1.1cf0dap-10, 0x1.667a02p-09, -0x1.a160cap-10,
			-0x1.95df82p-11, 0x1.76b97p-12, 0x1.9ba02p-13, -0x1.c1f736p-17,
		},
		{
			-0x1.796d36p-10, -0x1.12f8bp-08, -0x1.5027d6p-11, -0x1.f0c10ap-12,
			0x1.61df86p-12, 0x1.f8617ap-14, -0x1.227f7ep-14, -0x1.85469ap-16,
		},
	},
}

// GELUTanhPieces are the pieces of GELUTanh, its values for negative x.
var GELUTanhPieces = Pieces{
	Limit: 0x1.e66662p+01, Scale: 0x1.d1745ep+00, Shift: 0x1.1745d2p+00,
	Middle: [8]float32{
		0, 0x1.ab252ap-02, 0x1.82488ep-01, 0x1.6d5508p+00,
		0x1.f9f506p+00, 0x1.44eb74p+01, 0x1.885abap+01, 0x1.ce16bp+01,
	},
	Value: [8]float32{
		0x1p-03, 0x1.21042p-03, 0x1.5c3dep-03, 0x1.c1bd1p-04,
		0x1.84d4b8p-05, 0x1.c04c46p-07, 0x1.821d44p-09, 0x1.9f20e8p-12,
	},
	Coefficients: [8][8]float32{
		{
			0, 0x1.7c90d2p-03, -0x1.c22118p-11, -0x1.0825acp-03,
			-0x1.6b1504p-04, -0x1.1f7cdap-05, -0x1.3c5c9ap-07, -0x1.aa58e4p-10,
		},
		{
			-0x1.988454p-02, -0x1.55a4e6p-02, -0x1.b724bep-03, 0x1.c82182p-10,
			0x1.b8ccb8p-05, 0x1.28cc14p-05, 0x1.c1671ap-07, 0x1.8bba2ap-09,
		},
		{
			0x1.6f97a8p-21, 0x1.8f7c14p-04, 0x1.089bcap-03, 0x1.12873cp-04,
			0x1.624d8ap-09, -0x1.0d9cfcp-06, -0x1.596ae4p-07, -0x1.adc106p-09,
		},
		{
			0x1.11a19ap-04, 0x1.5dcac2p-05, 0x1.e76024p-09, -0x1.26c6bap-05,
			-0x1.377ddap-06, -0x1.31d9e6p-12, 0x1.0d6e12p-08, 0x1.22a3fap-09,
		},
		{
			0x1.4ab8bep-13, -0x1.55a3ep-06, -0x1.74c85ap-06, 0x1.66c14ep-11,
			0x1.17ed3cp-07, 0x1.045efcp-08, -0x1.442856p-14, -0x1.c6df72p-11,
		},
		{
			-0x1.6aa464p-07, -0x1.37f978p-08, 0x1.6fbfdp-09, 0x1.5b056ap-08,
			-0x1.e5bc8p-13, -0x1.c578a8p-10, -0x1.7a6532p-11, 0x1.7eb742p-14,
		},
		{
			0x1.38f10cp-09, 0x1.1e499p-08, 0x1.692994p-09, -0x1.7054b4p-10,
			-0x1.0ecf76p-10, 0x1.cd5cf8p-14, 0x1.47a164p-12, 0x1.8dec28p-14,
		},
		{
			-0x1.6a935ep-10, 0x1.d6545cp-09, -0x1.4e9046p-11, -0x1.12bd3cp-11,
			0x1.14fd6cp-12, 0x1.64e3bp-13, -0x1.6e6fb2p-17, -0x1.c3f954p-15,
		},
	},
}
