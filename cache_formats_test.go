package attn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/kernel/integers"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// typedCache is a cache of a type that holds a problem's keys and values, appended in pieces.
func (p *problem) typedCache(t testing.TB, r *rand.Rand, kind Format) *Cache {
	return p.typedCacheOf(t, r, formatPair{kind, kind})
}

// typedCacheOf is typedCache of two formats.
func (p *problem) typedCacheOf(t testing.TB, r *rand.Rand, f formatPair) *Cache {
	c, err := NewCache(CacheConfig{Batch: p.k.B, KVHeads: p.k.H, HeadDim: p.k.D, ValueDim: p.v.D,
		Capacity: p.k.L + r.IntN(70), Format: f.keys, ValueFormat: f.values,
		ValuesInKeys: latent(p.k, p.v)})
	must(t, err)
	for at := 0; at < p.k.L; {
		n := min(p.k.L-at, 1+r.IntN(1+r.IntN(100)))
		k, v := rowsOf(p.k, at, n), rowsOf(p.v, at, n)
		must(t, c.Append(k, keptValues(k, v)))
		at += n
		if r.IntN(8) == 0 {
			drop := r.IntN(min(at, 20) + 1)
			at -= drop
			must(t, c.Truncate(at))
		}
	}
	return c
}

// finiteProblem is a random problem without NaN and infinities, at least one key, and keys and
// values that no type of cache overflows for.
func finiteProblem(r *rand.Rand, s shape) *problem {
	p := problemOf(r, []distribution{normal, coarse, zeroes}[r.IntN(3)], s)
	p.k, p.v = contiguous(p.k), contiguous(p.v)
	return p
}

func contiguous(x Tensor) Tensor {
	y := zeros(x.B, x.H, x.L, x.D)
	for b := range x.B {
		for h := range x.H {
			for i := range x.L {
				copy(y.row(b, h, i), x.row(b, h, i))
			}
		}
	}
	return y
}

func anyTypedShape(r *rand.Rand) shape {
	s := shape{1 + r.IntN(2), 1 + r.IntN(2), 1 + r.IntN(5), 1 + r.IntN(4), 1 + r.IntN(5*Block),
		1 + r.IntN(40), 1 + r.IntN(40)}
	switch r.IntN(5) {
	case 0:
		s.lq = 1 + r.IntN(60)
	case 1:
		s.lq, s.group, s.lk = 1, 1, Segment+r.IntN(2*Segment)
	}
	return s
}

// Attending over a cache of F16 or BF16 is attending over the numbers that it decodes to, bit for
// bit, with every option.
func TestCacheOfHalvesEqualsAttendOverWhatItReads(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, kind := range []Format{F16, BF16} {
			r := random("halves " + kind.String())
			for range budget(250) {
				anyTuning(t, r)
				p := finiteProblem(r, anyTypedShape(r))
				c := p.typedCache(t, r, kind)
				decoded := *p
				decoded.k, decoded.v = zeros(p.k.B, p.k.H, p.k.L, p.k.D), zeros(p.v.B, p.v.H, p.v.L, p.v.D)
				must(t, c.Read(decoded.k, decoded.v, 0))
				for i, e := range p.k.Data {
					want := f32.FromBF16(f32.ToBF16(e))
					if kind == F16 {
						want = f32.FromF16(f32.ToF16(e))
					}
					if !sameBits(decoded.k.Data[i], want) {
						t.Fatalf("%v: key element %v is read as %v, want %v", kind, e, decoded.k.Data[i], want)
					}
				}
				want := decoded.solve(t, Attend)
				p.same(t, kind.String(), p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
					return c.Attend(dst, q, opt)
				}), want)
				p.same(t, kind.String()+" by a pool", p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
					return threeWorkers().AttendCache(dst, q, c, opt)
				}), want)
				must(t, c.Close())
			}
		}
	})
}

// A cache of I8 gives what its definition says, with every option.
func TestCacheOfIntegersIsItsDefinition(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("integers")
		for range budget(300) {
			anyTuning(t, r)
			p := finiteProblem(r, anyTypedShape(r))
			c := p.typedCache(t, r, I8)
			got := p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error { return c.Attend(dst, q, opt) })
			want := p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
				newIntegers(rotatedRows(p.k), p.v).attend(dst, rotatedRows(q), opt)
				return nil
			})
			want.weights = got.weights // TestCacheOfEveryTypeDoesNotMatter compares them
			p.same(t, "definition", got, want)
		}
	})
}

// Which implementation, how many workers, how many rows together: no bit of any type depends on it.
// Where all scales are 1, a cache of I8 is attention over the integers.
func TestCacheOfEveryTypeDoesNotMatter(t *testing.T) {
	for _, kind := range append(formatPairs[:len(allFormats):len(allFormats)], formatPair{I8, I4}) {
		t.Run(kind.String(), func(t *testing.T) {
			forEach(t, func(t *testing.T) {
				r := random(fmt.Sprint("every type ", kind.keys))
				for range budget(120) {
					anyTuning(t, r)
					p := finiteProblem(r, anyTypedShape(r))
					c := p.typedCacheOf(t, r, kind)
					over := func(dst, q, _, _ Tensor, opt *Options) error { return c.Attend(dst, q, opt) }
					row := tuned
					switchTo(tuning.Generic)
					again := p.typedCacheOf(t, r, kind)
					want := p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
						return again.Attend(dst, q, opt)
					})
					tuned = row
					p.same(t, p.describe(), p.solve(t, over), want)
					p.same(t, "by a pool", p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
						return threeWorkers().AttendCache(dst, q, c, opt)
					}), want)
					i := r.IntN(p.q.L)
					if p.opt.QueryLens == nil && p.opt.Causal != BottomRight {
						alone := p.part(selection{upTo(p.q.B), upTo(p.q.H), i, 1})
						alone.same(t, "one query alone", alone.solve(t, over),
							selection{upTo(p.q.B), upTo(p.q.H), i, 1}.of(p, want))
					}
					must(t, c.Close())
					must(t, again.Close())
				}
			})
		})
	}
}

// With scales of 1, tokens are integers, and the cache attends over these.
func TestCacheOfIntegersWithScaleOne(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := random("scale one")
		for range budget(100) {
			s := anyTypedShape(r)
			s.d |= 1 // a rotation would make other numbers of the keys
			p := finiteProblem(r, s)
			for _, x := range []Tensor{p.k, p.v} {
				for at := range x.Data {
					x.Data[at] = float32(r.IntN(255) - 127)
				}
				for at := 0; at < len(x.Data); at += x.D {
					x.Data[at] = 127 // the largest: so the scale is 1
				}
			}
			c := p.typedCache(t, r, I8)
			p.same(t, p.describe(), p.solve(t, func(dst, q, _, _ Tensor, opt *Options) error {
				return c.Attend(dst, q, opt)
			}), p.solve(t, Attend))
		}
	})
}

// A rotation changes products by no more than rounding, and is its own inverse.
func TestCacheRotation(t *testing.T) {
	r := random("rotation")
	for _, d := range []int{64, 96, 80, 7} {
		k, q := tensor(r, normal, 1, 1, 100, d), tensor(r, normal, 1, 1, 1, d)
		rotatedK, rotatedQ := rotatedRows(k), rotatedRows(q)
		for i := range k.L {
			want, got := dot(q.Data, k.row(0, 0, i)), dot(rotatedQ.Data, rotatedK.row(0, 0, i))
			if math.Abs(float64(want-got)) > 1e-5*float64(d) {
				t.Fatalf("D = %d: product %d is %v, want %v", d, i, got, want)
			}
		}
		closeTo(t, "keys", rotatedRows(rotatedK).Data, k.Data)
	}
}

// rotatedRows is x with its rows rotated as keys and queries of I8 are.
func rotatedRows(x Tensor) Tensor {
	y := contiguous(x)
	rotateGeneric(y.Data, x.B*x.H*x.L, x.D, x.D, x.D&-x.D)
	return y
}

// What a cache of I8 cannot keep is an error, and nothing is appended.
func TestCacheOfIntegersRefusesWhatHasNoScale(t *testing.T) {
	for _, bad := range []float32{nan32(), float32(math.Inf(1)), negInf} {
		for _, into := range []string{"k", "v"} {
			c, err := NewCache(CacheConfig{Batch: 2, KVHeads: 3, HeadDim: 8, ValueDim: 8, Capacity: 9,
				Format: I8})
			must(t, err)
			k, v := zeros(2, 3, 2, 8), zeros(2, 3, 2, 8)
			x := map[string]*Tensor{"k": &k, "v": &v}[into]
			x.row(1, 2, 1)[5] = bad
			err = c.Append(k, v)
			mustFail(t, into, err, ErrOption)
			for _, part := range []string{into + " has", "token 1", "head 2", "batch entry 1"} {
				if err != nil && !strings.Contains(err.Error(), part) {
					t.Errorf("%v does not say %q", err, part)
				}
			}
			if c.Len() != 0 {
				t.Errorf("%d tokens after an error", c.Len())
			}
		}
	}
}

// MemoryUse is what the type says: bytes of elements, and scales for I8.
func TestCacheMemoryUse(t *testing.T) {
	for kind, want := range map[Format]int{F32: 4 * 96, F16: 2 * 96, BF16: 2 * 96, I8: 96 + 8,
		I4: 48 + 8} {
		c, err := NewCache(CacheConfig{Batch: 2, KVHeads: 3, HeadDim: 64, ValueDim: 32,
			Capacity: 3 * Block, Format: kind})
		must(t, err)
		if got := c.MemoryUse(); got != 2*3*3*Block*want {
			t.Errorf("%v: %d bytes, want %d", kind, got, 2*3*3*Block*want)
		}
		must(t, c.Close())
		if c.MemoryUse() != 0 {
			t.Errorf("%d bytes after Close", c.MemoryUse())
		}
	}
}

// Any number of goroutines attend over a cache and read it at the same time, and each gets what it
// gets alone.
func TestCacheOfEveryTypeHasManyCallers(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, kind := range allFormats {
			r := random("callers of " + kind.String())
			p := newProblem(r, normal, shape{1, 2, 2, 3, Segment + 200, 24, 20})
			c := p.typedCache(t, r, kind)
			over := func(dst, q, _, _ Tensor, opt *Options) error { return c.Attend(dst, q, opt) }
			want := p.solve(t, over)
			k, v := zeros(1, 2, c.Len(), 24), zeros(1, 2, c.Len(), 20)
			must(t, c.Read(k, v, 0))
			var wait sync.WaitGroup
			for range 2 + budget(6) {
				wait.Go(func() {
					for range 3 {
						dst, weights, lse := p.results()
						opt := p.opt
						opt.LSE, opt.Weights = lse, weights
						if err := over(dst, p.q, p.k, p.v, &opt); err != nil {
							t.Error(err)
						}
						if firstDifference(dst.Data, want.o) >= 0 || firstDifference(lse, want.lse) >= 0 ||
							firstDifference(weights.Data, want.weights) >= 0 {
							t.Errorf("%v: a concurrent call gives other bits", kind)
						}
						again, values := zeros(1, 2, c.Len(), 24), zeros(1, 2, c.Len(), 20)
						if err := c.Read(again, values, 0); err != nil || firstDifference(again.Data, k.Data) >= 0 ||
							firstDifference(values.Data, v.Data) >= 0 {
							t.Errorf("%v: reading at the same time gives other tokens, error %v", kind, err)
						}
					}
				})
			}
			wait.Wait()
			must(t, c.Close())
		}
	})
}

// The largest numbers come back from a cache of I8 finite, though rounded.
func TestCacheOfIntegersKeepsTheLargestFinite(t *testing.T) {
	// an odd number is not rotated
	x := BHLD([]float32{math.MaxFloat32, 1, -math.MaxFloat32}, 1, 1, 1, 3)
	c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 3, ValueDim: 3, Capacity: 1,
		Format: I8})
	must(t, err)
	must(t, c.Append(x, x))
	k, v := zeros(1, 1, 1, 3), zeros(1, 1, 1, 3)
	must(t, c.Read(k, v, 0))
	for i, e := range x.Data {
		if got := k.Data[i]; got != v.Data[i] ||
			!(math.Abs(float64(got)-float64(e)) <= math.MaxFloat32/254) {
			t.Errorf("%v is read as %v and %v", e, got, v.Data[i])
		}
	}
}

// integerTokens is the keys and values of a cache of I8 in the words of its definition: whole
// numbers as float32, and a scale for each token.
type integerTokens struct {
	k, v                   Tensor
	keyScales, valueScales []float32 // [B, H, k.L]
	unrotate               int       // size of the matrix that outputs are rotated back by
}

// integersOf is a row as a cache of I8 keeps it.
func integersOf(row []float32) (q []float32, scale float32) {
	scale, q = integers.ScaleOf(largestGeneric(row)), make([]float32, len(row))
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

func newIntegers(k, v Tensor) *integerTokens {
	c := integerTokens{unrotate: 1}
	c.k, c.keyScales = integersOfAll(k)
	c.v, c.valueScales = integersOfAll(v)
	return &c
}

// newLatentIntegers is tokens whose values are the first dv channels of keys.
func newLatentIntegers(k Tensor, dv int) *integerTokens {
	c := integerTokens{unrotate: dv & -dv}
	c.k, c.keyScales = integersOfAll(k)
	c.v, c.valueScales = firstOf(c.k, dv), c.keyScales
	return &c
}

// firstOf is the first d channels of x.
func firstOf(x Tensor, d int) Tensor {
	x.D = d
	return x
}

// latentRows is x with its rows rotated as keys and queries of I8 are where values are their first
// dv channels.
func latentRows(x Tensor, dv int) Tensor {
	y := contiguous(x)
	for at := 0; at < len(y.Data); at += x.D {
		rotateGeneric(y.Data[at:], 1, x.D, dv, dv&-dv)
		if rest := x.D - dv; rest > 0 {
			rotateGeneric(y.Data[at+dv:], 1, x.D, rest, rest&-rest)
		}
	}
	return y
}

// attend computes attention row by row, key by key, as the contract says: the chain over integers,
// the key's scale, options, the online softmax of blocks in segments that merge as a tree, weights
// times the values' scales. It shares nothing with the engine but kernels of a single row.
func (c *integerTokens) attend(dst, q Tensor, opt *Options) {
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
	*integerTokens
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

func newIntegerRow(c *integerTokens, q Tensor, opt *Options, b, h, i int) *integerRow {
	r := &integerRow{integerTokens: c, opt: opt, b: b, h: h, i: i, kv: h / (q.H / c.k.H), keys: c.k.L,
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
	if r.unit = r.scale; opt.Softcap > 0 || !opt.Bias.none() || opt.Slopes != nil {
		r.unit = 1
	}
	if opt.Integers {
		r.round()
	}
	r.c = float32(min(float64(r.unit)*f32.Log2E, math.MaxFloat32))
	return r
}

// round makes integers of the query, whose scale goes into the unit, which is kept positive and
// finite. A query that is not finite is NaN.
func (r *integerRow) round() {
	if !floats.AllFinite(tuning.Generic, r.q) {
		fillWith(r.q, nan32())
		return
	}
	q, scale := integersOf(r.q)
	if r.q = q; scale != 0 {
		r.scale = min(max(float32(r.scale*scale), math.SmallestNonzeroFloat32), math.MaxFloat32)
	}
	if r.opt.Softcap == 0 && r.opt.Bias.none() && r.opt.Slopes == nil {
		r.unit = r.scale
	}
}

// sees reports whether the query sees key j.
func (r *integerRow) sees(j int) bool {
	at := r.i + r.position
	switch o := r.opt; {
	case !r.exists || j >= r.keys || o.Causal != Full && j > at:
		return false
	case o.Window.Left > 0 && j <= at-o.Window.Left || o.Window.Right > 0 && j >= at+o.Window.Right:
		return false
	case !o.Mask.none() && !o.Mask.Data[o.Mask.offset(r.b%o.Mask.B, r.h%o.Mask.H, r.i)+j]:
		return false
	case !o.Bias.none():
		return r.bias(j) != negInf
	}
	return true
}

func (r *integerRow) bias(j int) float32 {
	x := r.opt.Bias
	return x.Data[x.offset(r.b%x.B, r.h%x.H, r.i)+j]
}

// score returns the score of key j with everything that options add.
func (r *integerRow) score(j int) float32 {
	var s float32
	u, o := r.scale, r.opt
	if k := r.k.row(r.b, r.kv, j); o.BFloat16 {
		s = pairSum(r.q, k)
	} else {
		for x, e := range k {
			s = f32.FMA(r.q[x], e, s)
		}
		s = float32(s * r.keyScales[(r.b*r.k.H+r.kv)*r.k.L+j])
	}
	if o.Softcap > 0 {
		s = float32(o.Softcap * f32.Tanh(float32(s*min(u/o.Softcap, math.MaxFloat32))))
		u = 1
	}
	switch {
	case !o.Bias.none():
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
		before := st.l[0]
		masked := floats.Softmax(&tuning.Row{}, s[:], st.m, st.l, alpha, []uint64{visible}, 1, r.c)
		if r.opt.BFloat16 {
			if r.addBFloat16(st, block, s[:], visible, alpha[0], before); masked {
				clear(st.o)
			}
			continue
		}
		for x := range st.o {
			st.o[x] = float32(st.o[x] * alpha[0])
		}
		if r.opt.Integers {
			r.addIntegers(st, block, s[:], visible)
			continue
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

// addIntegers adds the values of a block whose weights become integers of 15 bits.
func (r *integerRow) addIntegers(st *rowState, block int, p []float32, visible uint64) {
	var top float32
	for j := range p {
		if visible>>j&1 != 0 {
			p[j] = float32(p[j] * r.valueScales[(r.b*r.v.H+r.kv)*r.v.L+block+j])
			top = max(top, p[j])
		}
	}
	if top == 0 {
		return
	}
	up := float32(1) // beyond float32's exponents numbers 2⁶⁴ times as large have the same quotient
	if top < 0x1p-100 {
		up = 0x1p64
	}
	sums := make([]int64, r.v.D)
	for j := range p {
		if visible>>j&1 == 0 {
			continue
		}
		n := min(int64(math.RoundToEven(float64(float32(p[j]*up*float32(32767/(top*up)))))), 32767)
		for x, e := range r.v.row(r.b, r.kv, block+j) {
			sums[x] += n * int64(e)
		}
	}
	for x, sum := range sums {
		st.o[x] = f32.FMA(float32(sum), float32(top/32767), st.o[x])
	}
}

// node is the state of some segments, a power of two, from key first on.
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
	floats.MergeSums(tuning.Generic, s.m, s.l, o.m, o.l, x, y, c)
	floats.Merge(tuning.Generic, s.o, o.o, x[0], y[0])
}

// attend writes the row's output and returns its LSE.
func (r *integerRow) attend(dst []float32) (lse float32) {
	segments := 1
	for segments*Segment < r.keys {
		segments *= 2
	}
	st := r.node(0, segments)
	lse = f32.FMA(st.m[0], r.unit, f32.Log(st.l[0]))
	m, c := float32(st.m[0]*r.unit), r.c
	if r.opt.Sinks != nil && st.l[0] != 0 && !(m > math.MaxFloat32 &&
		r.opt.Sinks[r.h] <= math.MaxFloat32) { // a number changes nothing of infinity
		st.m[0], c = m, f32.Log2E
		st.merge(&rowState{[]float32{r.opt.Sinks[r.h]}, []float32{1}, make([]float32, r.v.D)}, f32.Log2E)
	}
	if r.opt.BFloat16 && !r.opt.Weights.none() {
		r.weights(r.opt.Weights.row(r.b, r.h, r.i), st, c)
	}
	rotateGeneric(st.o, 1, r.v.D, r.v.D, r.unrotate)
	floats.Normalize(tuning.Generic, dst, st.o, st.l, 1, r.v.D, r.v.D, r.v.D)
	return lse
}
