// Package reference computes attention by its definition, one score after the other, without code
// of the library: tests compare the library with it.
package reference

import "math"

// Call is one attention call. Tensors are contiguous: Q [B,H,Lq,D],
// K [B,KVH,Lk,D], V [B,KVH,Lk,Dv], Mask and Bias [B,H,Lq,Lk] or nil.
type Call struct {
	B, H, KVH, Lq, Lk, D, Dv int

	Q, K, V []float32
	Mask    []bool
	Bias    []float32

	Scale       float64 // 0: 1/√D
	Softcap     float64 // 0: none
	Causal      bool
	BottomRight bool // the last query sees the last key; else query 0 is at Offset
	Offset      int
	Left, Right int // window; −1: unbounded

	Slopes, Sinks      []float32 // per query head, or nil
	QueryLens, KeyLens []int     // per batch entry, or nil
}

// Result holds the output [B,H,Lq,Dv], log-sum-exp [B,H,Lq] and weights [B,H,Lq,Lk].
type Result struct{ O, LSE, Weights []float64 }

// Float64 computes the call in float64.
func (c *Call) Float64() *Result { return attend[float64](c) }

// Naive computes the call in float32 as a textbook would: all scores of a row,
// their maximum, exponentials, their sum, the quotients, the weighted values.
func (c *Call) Naive() *Result { return attend[float32](c) }

// Position is the absolute position of query i of batch entry b.
func (c *Call) Position(b, i int) int {
	if c.BottomRight {
		return i + c.keyLen(b) - c.queryLen(b)
	}
	return i + c.Offset
}

func (c *Call) keyLen(b int) int {
	if c.KeyLens == nil {
		return c.Lk
	}
	return c.KeyLens[b]
}

func (c *Call) queryLen(b int) int {
	if c.QueryLens == nil {
		return c.Lq
	}
	return c.QueryLens[b]
}

// Visible reports whether query (b, h, i) may attend to key j.
func (c *Call) Visible(b, h, i, j int) bool {
	at := c.Position(b, i)
	switch pair := ((b*c.H+h)*c.Lq+i)*c.Lk + j; {
	case i >= c.queryLen(b) || j >= c.keyLen(b):
		return false
	case (c.Causal || c.BottomRight) && j > at:
		return false
	case c.Left >= 0 && j < at-c.Left:
		return false
	case c.Right >= 0 && j > at+c.Right:
		return false
	case c.Mask != nil && !c.Mask[pair]:
		return false
	case c.Bias != nil && math.IsInf(float64(c.Bias[pair]), -1):
		return false
	}
	return true
}

type float interface{ float32 | float64 }

func attend[F float](c *Call) *Result {
	r := &Result{
		O:       make([]float64, c.B*c.H*c.Lq*c.Dv),
		LSE:     make([]float64, c.B*c.H*c.Lq),
		Weights: make([]float64, c.B*c.H*c.Lq*c.Lk),
	}
	p := make([]F, c.Lk)
	for row := range c.B * c.H * c.Lq {
		b, h, i := row/c.Lq/c.H, row/c.Lq%c.H, row%c.Lq
		visible := c.visibleKeys(b, h, i)
		r.LSE[row] = float64(weigh(c, p, visible, b, h, i))
		o, w := r.O[row*c.Dv:], r.Weights[row*c.Lk:]
		for _, j := range visible {
			w[j] = float64(p[j])
		}
		for x := range c.Dv {
			o[x] = float64(combine(c, p, visible, b, h, x))
		}
	}
	return r
}

func (c *Call) visibleKeys(b, h, i int) (visible []int) {
	for j := range c.Lk {
		if c.Visible(b, h, i, j) {
			visible = append(visible, j)
		}
	}
	return visible
}

// weigh sets p to the softmax of row (b, h, i) over its visible keys and returns
// the row's log-sum-exp.
func weigh[F float](c *Call, p []F, visible []int, b, h, i int) (lse F) {
	top := F(math.Inf(-1))
	for _, j := range visible {
		p[j] = score[F](c, b, h, i, j)
		top = max(top, p[j])
	}
	if len(visible) == 0 || math.IsInf(float64(top), -1) {
		clear(p)
		return F(math.Inf(-1))
	}
	sum := sumExp(p, visible, top)
	lse = top + F(math.Log(float64(sum)))
	if c.Sinks != nil { // the log-sum-exp excludes them
		sink := F(c.Sinks[h])
		top = max(top, sink)
		sum = sumExp(p, visible, top) + F(math.Exp(float64(sink-top)))
	}
	for _, j := range visible {
		p[j] = F(math.Exp(float64(p[j]-top))) / sum
	}
	return lse
}

// sumExp returns the sum of exponentials of scores, less the largest.
func sumExp[F float](scores []F, visible []int, top F) (sum F) {
	for _, j := range visible {
		sum += F(math.Exp(float64(scores[j] - top)))
	}
	return sum
}

func score[F float](c *Call, b, h, i, j int) F {
	q := c.Q[((b*c.H+h)*c.Lq+i)*c.D:][:c.D]
	k := c.K[((b*c.KVH+h*c.KVH/c.H)*c.Lk+j)*c.D:][:c.D]
	var s F
	for x := range q {
		s += F(q[x]) * F(k[x])
	}
	scale := c.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(c.D))
	}
	s *= F(scale)
	if c.Softcap > 0 {
		s = F(c.Softcap) * F(math.Tanh(float64(s/F(c.Softcap))))
	}
	if c.Bias != nil {
		s += F(c.Bias[((b*c.H+h)*c.Lq+i)*c.Lk+j])
	}
	if c.Slopes != nil {
		s += F(c.Slopes[h]) * F(j-c.Position(b, i))
	}
	return s
}

// combine returns column x of the weighted values. It reads visible keys only.
func combine[F float](c *Call, p []F, visible []int, b, h, x int) F {
	v := c.V[(b*c.KVH+h*c.KVH/c.H)*c.Lk*c.Dv:]
	var o F
	for _, j := range visible {
		o += p[j] * F(v[j*c.Dv+x])
	}
	return o
}

// RoundingsOf bounds the sum of all roundings to float32 in row (b, h, i): absolute in its
// log-sum-exp, and relative to weights and to the sum of magnitudes of weighted values. The bounds
// hold for any order of sums, and for exponentials in steps of blocks.
func (c *Call) RoundingsOf(b, h, i int) (scores, relative float64) {
	const half = 0x1p-24 // of an ULP, relative
	var rounding, most, least float64
	for _, j := range c.visibleKeys(b, h, i) {
		s, terms := c.sizes(b, h, i, j)
		rounding = max(rounding, terms*half)
		if most == 0 && least == 0 {
			most, least = s, s
		}
		most, least = max(most, s), min(least, s)
	}
	if c.Sinks != nil {
		rounding += 4 * math.Abs(float64(c.Sinks[h])) * half
		most, least = max(most, float64(c.Sinks[h])), min(least, float64(c.Sinks[h]))
	}
	n := float64(c.Lk)
	sums := (n + 4*(n/64+12) + 16) * half
	exponents := 4 * (most - least) * half
	scores = rounding + exponents + sums + 4*half*(max(math.Abs(most), math.Abs(least))+math.Log(n+1))
	return scores, math.Expm1(2*rounding+2*exponents+2*sums) + n*half
}

// sizes returns a score, and the sizes of its roundings times their number.
func (c *Call) sizes(b, h, i, j int) (s, terms float64) {
	q := c.Q[((b*c.H+h)*c.Lq+i)*c.D:][:c.D]
	k := c.K[((b*c.KVH+h*c.KVH/c.H)*c.Lk+j)*c.D:][:c.D]
	for x := range q {
		terms += math.Abs(float64(q[x]) * float64(k[x]))
	}
	scale := c.Scale
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(c.D))
	}
	terms *= math.Abs(scale) * float64(c.D+8)
	terms += 8 * c.Softcap // of tanh
	if c.Bias != nil {
		terms += 4 * math.Abs(float64(c.Bias[((b*c.H+h)*c.Lq+i)*c.Lk+j]))
	}
	if c.Slopes != nil {
		terms += 4 * math.Abs(float64(c.Slopes[h])*float64(j-c.Position(b, i)))
	}
	return score[float64](c, b, h, i, j), terms
}
