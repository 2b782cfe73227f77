package attn

import (
	"math"

	"github.com/seed-1415985d/attn/internal/f32"
)

// integers is the keys and values of a cache of I8 in the words of its definition: whole numbers as
// float32, and a scale for each token.
type integers struct {
	k, v                   Tensor
	keyScales, valueScales []float32 // [B, H, k.L]
}

// integersOf is a row as a cache of I8 keeps it.
func integersOf(row []float32) (q []float32, scale float32) {
	scale, q = scaleOf(largestGeneric(row)), make([]float32, len(row))
	for i, e := range row {
		if scale != 0 {
			q[i] = float32(math.RoundToEven(float64(e/scale))) + 0 // integers have one zero
		}
	}
	return q, scale
}

// integersOfAll is tokens as a cache of I8 keeps them.
func integersOfAll(x Tensor) (Tensor, []float32) {
	y, scales := zeros(x.B, x.H, x.L, x.D), make([]float32, 0, x.B*x.H*x.L)
	for b := range x.B {
		for h := range x.H {
			for i := range x.L {
				q, scale := integersOf(x.row(b, h, i))
				copy(y.row(b, h, i), q)
				scales = append(scales, scale)
			}
		}
	}
	return y, scales
}

func newIntegers(k, v Tensor) *integers {
	var c integers
	c.k, c.keyScales = integersOfAll(k)
	c.v, c.valueScales = integersOfAll(v)
	return &c
}

// attend computes attention row by row, key by key, as the contract says: the chain over integers,
// the key's scale, options, the online softmax of blocks in segments that merge as a tree, weights
// times the values' scales. It shares nothing with the engine but kernels of a single row.
func (c *integers) attend(dst, q Tensor, opt *Options) {
	for b := range q.B {
		for h := range q.H {
			for i := range q.L {
				r := newIntegerRow(c, q, opt, b, h, i)
				lse := r.attend(dst.row(b, h, i))
				if opt.LSE != nil {
					opt.LSE[(b*q.H+h)*q.L+i] = lse
				}
			}
		}
	}
}

// integerRow is one query of a call over integers.
type integerRow struct {
	*integers
	opt      *Options
	b, h, i  int
	kv       int // its key/value head
	q        []float32
	scale    float32
	unit, c  float32
	keys     int // that exist
	position int
	exists   bool
}

func newIntegerRow(c *integers, q Tensor, opt *Options, b, h, i int) *integerRow {
	r := &integerRow{integers: c, opt: opt, b: b, h: h, i: i, kv: h / (q.H / c.k.H), keys: c.k.L,
		position: opt.Offset, exists: true}
	queries := q.L
	if opt.KeyLens != nil {
		r.keys = opt.KeyLens[b]
	}
	if opt.QueryLens != nil {
		queries = opt.QueryLens[b]
		r.exists = i < queries
	}
	if opt.Causal == BottomRight {
		r.position = r.keys - queries
	}
	r.q = append(r.q, q.row(b, h, i)...)
	if r.scale = opt.Scale; r.scale == 0 {
		r.scale = float32(1 / math.Sqrt(float64(q.D)))
	}
	if r.scale < 0 {
		r.scale = -r.scale
		for x := range r.q {
			r.q[x] = -r.q[x]
		}
	}
	if r.unit = r.scale; opt.Softcap > 0 || opt.Bias != nil || opt.Slopes != nil {
		r.unit = 1
	}
	r.c = float32(float64(r.unit) * f32.Log2E)
	return r
}

// sees reports whether the query sees key j.
func (r *integerRow) sees(j int) bool {
	at := r.i + r.position
	switch o := r.opt; {
	case !r.exists || j >= r.keys || o.Causal != Full && j > at:
		return false
	case o.Window != nil && (o.Window.Left >= 0 && j < at-o.Window.Left || o.Window.Right >= 0 &&
		j > at+o.Window.Right):
		return false
	case o.Mask != nil && !o.Mask.Data[o.Mask.offset(r.b%o.Mask.B, r.h%o.Mask.H, r.i)+j]:
		return false
	case o.Bias != nil:
		return r.bias(j) != negInf
	}
	return true
}

func (r *integerRow) bias(j int) float32 {
	x := r.opt.Bias
	return x.Data[x.offset(r.b%x.B, r.h%x.H, r.i)+j]
}

// score is that of key j with everything that options add.
func (r *integerRow) score(j int) float32 {
	var s float32
	for x, e := range r.k.row(r.b, r.kv, j) {
		s = f32.FMA(r.q[x], e, s)
	}
	s = float32(s * r.keyScales[(r.b*r.k.H+r.kv)*r.k.L+j])
	u, o := r.scale, r.opt
	if o.Softcap > 0 {
		s = float32(o.Softcap * f32.Tanh(float32(s*(u/o.Softcap))))
		u = 1
	}
	switch {
	case o.Bias != nil:
		s = f32.FMA(s, u, r.bias(j))
	case r.unit == 1:
		s = float32(s * u)
	}
	if o.Slopes != nil {
		s = f32.FMA(o.Slopes[r.h], float32(j-r.i-r.position), s)
	}
	return s
}

// rowState is the state of one row.
type rowState struct{ m, l, o []float32 }

func (r *integerRow) empty() *rowState {
	return &rowState{[]float32{negInf}, []float32{0}, make([]float32, r.v.D)}
}

// segment is the state of keys [first, first+Segment).
func (r *integerRow) segment(first int) *rowState {
	st, alpha := r.empty(), []float32{0}
	for block := first; block < min(first+Segment, r.keys); block += Block {
		var s [Block]float32
		var visible uint64
		for j := block; j < min(block+Block, r.keys); j++ {
			if r.sees(j) {
				s[j-block], visible = r.score(j), visible|1<<(j-block)
			}
		}
		if visible == 0 {
			continue
		}
		masked := softmaxMaskedGeneric(s[:], st.m, st.l, alpha, []uint64{visible}, 1, r.c)
		for x := range st.o {
			st.o[x] = float32(st.o[x] * alpha[0])
		}
		for j := block; j < min(block+Block, r.keys); j++ {
			if visible>>(j-block)&1 == 0 {
				continue
			}
			p := float32(s[j-block] * r.valueScales[(r.b*r.v.H+r.kv)*r.v.L+j])
			for x, e := range r.v.row(r.b, r.kv, j) {
				st.o[x] = f32.FMA(p, e, st.o[x])
			}
		}
		if masked {
			clear(st.o)
		}
	}
	return st
}

// node is the state of so many segments, a power of two, from key first on.
func (r *integerRow) node(first, segments int) *rowState {
	if first >= r.keys {
		return r.empty()
	}
	if segments == 1 {
		return r.segment(first)
	}
	left := r.node(first, segments/2)
	left.merge(r.node(first+segments/2*Segment, segments/2), r.c)
	return left
}

func (s *rowState) merge(o *rowState, c float32) {
	x, y := []float32{0}, []float32{0}
	mergeSumsGeneric(s.m, s.l, o.m, o.l, x, y, c)
	mergeGeneric(s.o, o.o, x[0], y[0])
}

// attend writes the row's output and returns its LSE.
func (r *integerRow) attend(dst []float32) (lse float32) {
	segments := 1
	for segments*Segment < r.keys {
		segments *= 2
	}
	st := r.node(0, segments)
	lse = f32.FMA(st.m[0], r.unit, f32.Log(st.l[0]))
	if r.opt.Sinks != nil && st.l[0] != 0 {
		st.m[0] = float32(st.m[0] * r.unit)
		st.merge(&rowState{[]float32{r.opt.Sinks[r.h]}, []float32{1}, make([]float32, r.v.D)}, f32.Log2E)
	}
	normalizeGeneric(dst, st.o, st.l, 1, r.v.D, r.v.D, r.v.D)
	return lse
}
