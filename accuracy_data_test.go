package attn

import (
	"math"
	"math/rand/v2"
	"slices"
)

// accuracyKind is a kind of data, or an option, that has its own way of losing digits.
type accuracyKind struct {
	name string
	// rows are query heads, for options of heads; else queries of one head
	heads bool
	make  func(p *problem, r *rand.Rand) // turns a problem of normal data into one of this kind
}

var accuracyKinds = []accuracyKind{
	{"float32", false, func(*problem, *rand.Rand) {}},
	{"bfloat16", false, func(p *problem, _ *rand.Rand) { p.roundData(8) }},
	{"float16", false, func(p *problem, _ *rand.Rand) { p.roundData(11) }},
	{"int8", false, (*problem).integers},
	{"peaked", false, func(p *problem, _ *rand.Rand) { multiply(p.q.Data, 16) }},
	{"ties", false, (*problem).nearTies},
	{"cancelling", false, func(p *problem, r *rand.Rand) { p.cancelling(r, 8) }},
	{"cancelling, inexact", false, func(p *problem, r *rand.Rand) { p.cancelling(r, 24) }},
	{"outliers", false, (*problem).outliers},
	{"far key", false, (*problem).farKey},
	{"scale", false, func(p *problem, _ *rand.Rand) { p.opt.Scale = -0.3 }},
	{"softcap", false, func(p *problem, _ *rand.Rand) { p.opt.Softcap = 20; multiply(p.q.Data, 8) }},
	{"bias", false, (*problem).normalBias},
	{"ALiBi", true, (*problem).farSlopes},
	{"sinks", true, func(p *problem, r *rand.Rand) {
		p.opt.Sinks = tensor(r, normal, 1, 1, 1, p.q.H).Data
	}},
}

// accuracyPool is normal data of which the rows of keys and values are parts: that is faster than
// to draw each number.
type accuracyPool []float32

func newAccuracyPool(r *rand.Rand) accuracyPool {
	pool := make(accuracyPool, 1<<18)
	normal.fill(r, pool)
	return pool
}

// rows returns rows that each begin anywhere in the pool.
func (pool accuracyPool) rows(r *rand.Rand, l, d int) Tensor {
	t := zeros(1, 1, l, d)
	for i := range l {
		copy(t.row(0, 0, i), pool[r.IntN(len(pool)-d):])
	}
	return t
}

// problem draws a problem of a kind. All rows see the same keys.
func (pool accuracyPool) problem(r *rand.Rand, kind *accuracyKind, rows, keys, d int) *problem {
	h, l := 1, rows
	if kind.heads {
		h, l = rows, 1
	}
	p := &problem{q: tensor(r, normal, 1, h, l, d), k: pool.rows(r, keys, d), v: pool.rows(r, keys, d)}
	kind.make(p, r)
	return p
}

func multiply(x []float32, f float32) {
	for i := range x {
		x[i] *= f
	}
}

// roundData leaves so many significant bits of each number: bfloat16 has 8, float16 has 11.
func (p *problem) roundData(bits int) {
	for _, t := range []Tensor{p.q, p.k, p.v} {
		for i, e := range t.Data {
			t.Data[i] = significant(e, bits)
		}
	}
}

// significant rounds to fewer than 24 significant bits, to nearest, ties to even.
func significant(x float32, bits int) float32 {
	drop := 24 - bits
	u := math.Float32bits(x)
	u += 1<<(drop-1) - 1 + u>>drop&1
	return math.Float32frombits(u >> drop << drop)
}

// integers replaces the data by integers from −127 to 127. The scale undoes their size.
func (p *problem) integers(*rand.Rand) {
	const size = 40
	for _, t := range []Tensor{p.q, p.k, p.v} {
		for i, e := range t.Data {
			t.Data[i] = float32(math.RoundToEven(min(127, max(-127, size*float64(e)))))
		}
	}
	p.opt.Scale = float32(1 / (size * size * math.Sqrt(float64(p.q.D))))
}

// nearTies makes all keys nearly the same, so that scores are large and agree in their first three
// digits.
func (p *problem) nearTies(*rand.Rand) {
	first := slices.Clone(p.k.row(0, 0, 0))
	for i, e := range p.k.Data {
		p.k.Data[i] = 8*first[i%p.k.D] + e/256
	}
}

// cancelling lets two products cancel that are a thousand times as large as the others: 96a·112e −
// 112a·96e, where e has so many significant bits. With 8 they are exact. With 24 the last bit of e
// is set, so that the keys are rounded: were the products opposites that need rounding, the
// textbook would round both alike and have no error left.
func (p *problem) cancelling(r *rand.Rand, bits int) {
	if p.q.D < 2 {
		return
	}
	for i := range p.q.L {
		a := significant(float32(r.NormFloat64()), 8)
		copy(p.q.row(0, 0, i), []float32{96 * a, 112 * a})
	}
	for j := range p.k.L {
		e := float32(r.NormFloat64())
		if bits == 24 {
			e = math.Float32frombits(math.Float32bits(e) | 1)
		} else {
			e = significant(e, bits)
		}
		copy(p.k.row(0, 0, j), []float32{112 * e, -96 * e})
	}
}

// outliers makes up to four channels of keys and values a hundred times as large. The scale keeps
// several keys in play.
func (p *problem) outliers(r *rand.Rand) {
	for _, c := range r.Perm(p.k.D)[:min(4, p.k.D)] {
		for j := range p.k.L {
			p.k.row(0, 0, j)[c] *= 100
			p.v.row(0, 0, j)[c] *= 100
		}
	}
	p.opt.Scale = 0.02
}

// farKey gives the first key nearly all of the weight and no value, as trained models do with the
// first token. What is left comes from small weights alone.
func (p *problem) farKey(*rand.Rand) {
	for i := range p.q.L {
		p.q.row(0, 0, i)[0] = 4
	}
	for j := range p.k.L {
		p.k.row(0, 0, j)[0] = 0
	}
	p.k.row(0, 0, 0)[0] = float32(3 * math.Sqrt(float64(p.k.D))) // a score of 12
	clear(p.v.row(0, 0, 0))
}

// normalBias adds a bias of normal data.
func (p *problem) normalBias(r *rand.Rand) {
	bias := tensor(r, normal, 1, p.q.H, p.q.L, p.k.L)
	p.opt.Bias = &bias
}

// farSlopes gives the heads slopes from nearly 1 to 2⁻⁸, as is usual, and lets the queries look
// back from the last key.
func (p *problem) farSlopes(*rand.Rand) {
	p.opt.Slopes = make([]float32, p.q.H)
	for h := range p.opt.Slopes {
		p.opt.Slopes[h] = float32(math.Exp2(-8 * float64(h+1) / float64(p.q.H)))
	}
	p.opt.Causal, p.opt.Offset = TopLeft, p.k.L-1
}
