package attn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/tuning"
)

// accuracyBound is how many times as large as the textbook's float32 the library's error may be.
const accuracyBound = 1.25

// rounding sums squared errors against float64, of the library and of the textbook in float32. The
// noise floor is half an ULP of each number. Its square is added to the textbook's, as for
// independent errors: where the textbook happens to be exact, the library need not be.
type rounding struct{ got, textbook, floor float64 }

func (e *rounding) add(got, textbook []float32, exact []float64) {
	for i, x := range exact {
		e.got += squared(float64(got[i]) - x)
		e.textbook += squared(float64(textbook[i]) - x)
		e.floor += squared(ulp(x) / 2)
	}
}

func squared(x float64) float64 { return x * x }

// accuracyCell is what was measured of one kind of data and one shape, computed in one way.
type accuracyCell struct {
	way, kind   string
	d, keys     int
	output, lse rounding
}

type accuracyTable []accuracyCell

// ratios are the root mean square errors of the chosen cells over the textbook's. Cells
// count alike, whatever the size of their numbers, but those in which both are exact.
func (table accuracyTable) ratios(choose func(c *accuracyCell) bool) (output, lse float64) {
	var o, l meanRatio
	for i := range table {
		if c := &table[i]; choose(c) {
			o.add(&c.output)
			l.add(&c.lse)
		}
	}
	return o.root(), l.root()
}

// meanRatio is the mean over cells of the library's mean square error over the textbook's.
type meanRatio struct {
	sum float64
	n   int
}

func (m *meanRatio) add(e *rounding) {
	if e.got+e.textbook > 0 {
		m.sum += e.got / (e.textbook + e.floor)
		m.n++
	}
}

func (m *meanRatio) root() float64 { return math.Sqrt(m.sum / float64(max(1, m.n))) }

// accuracyGrid is the shapes that are tried with each kind of data.
type accuracyGrid struct{ dims, keys []int }

func newAccuracyGrid() accuracyGrid {
	// Generic has the bits of all implementations, and is slow.
	if few() || tuned.ISA == tuning.Generic {
		return accuracyGrid{[]int{8, 64, 96}, []int{16, 500}}
	}
	return accuracyGrid{[]int{1, 8, 40, 64, 80, 96, 112, 128, 256},
		[]int{1, 16, 128, 512, 4096, 100_000}}
}

// rows is how many rows are a sample, as far as time allows, and 0 where it does not.
func (g accuracyGrid) rows(keys, d int) int {
	switch {
	case few():
		return 128
	case keys > 4096 && d != 8 && d != 96:
		return 0
	}
	return min(700, 1<<16/keys+16)
}

// measure computes problems of a kind in every way.
func (g accuracyGrid) measure(t *testing.T, kind *accuracyKind) (table accuracyTable) {
	r := random("accuracy of " + kind.name)
	pool := newAccuracyPool(r)
	shapes := 0
	for _, d := range g.dims {
		for _, keys := range g.keys {
			rows := g.rows(keys, d)
			if rows == 0 {
				continue
			}
			p := pool.problem(r, kind, rows, keys, d)
			textbook, textbookLSE := textbookRows[float32](p)
			exact, exactLSE := textbookRows[float64](p)
			ways := accuracyWays
			if shapes++; shapes%4 != 0 { // of most a sample is enough
				ways = ways[:1]
			}
			for _, way := range ways {
				o, lse := way.solve(t, p)
				c := accuracyCell{way: way.name, kind: kind.name, d: d, keys: keys}
				c.output.add(o, textbook, exact)
				c.lse.add(lse, textbookLSE, exactLSE)
				table = append(table, c)
			}
		}
	}
	return table
}

// accuracyWays are the calls that add up keys in an order of their own, and the cache.
var accuracyWays = []struct {
	name  string
	solve func(t *testing.T, p *problem) (o, lse []float32)
}{{"Attend", accuracyAttend}, {"State", accuracyState}, {"Cache", accuracyCache}}

func accuracyAttend(t *testing.T, p *problem) (o, lse []float32) {
	dst, opt := p.accuracyResults()
	noError(t, Attend(dst, p.q, p.k, p.v, opt))
	return dst.Data, opt.LSE
}

func accuracyCache(t *testing.T, p *problem) (o, lse []float32) {
	dst, opt := p.accuracyResults()
	c, err := NewCache(CacheConfig{Batch: 1, KVHeads: 1, HeadDim: p.k.D, ValueDim: p.v.D,
		Capacity: p.k.L})
	noError(t, err)
	noError(t, c.Append(p.k, p.v))
	noError(t, c.Attend(dst, p.q, opt))
	return dst.Data, opt.LSE
}

// accuracyState merges two states whose keys came in chunks that end anywhere.
func accuracyState(t *testing.T, p *problem) (o, lse []float32) {
	dst, opt := p.accuracyResults()
	r := random(p.describe())
	cut := r.IntN(p.k.L + 1)
	s := p.accuracyPart(t, r, 0, cut)
	noError(t, s.Merge(p.accuracyPart(t, r, cut, p.k.L)))
	noError(t, s.Finish(dst, opt.LSE))
	return dst.Data, opt.LSE
}

// accuracyPart is a state with keys [lo, hi).
func (p *problem) accuracyPart(t *testing.T, r *rand.Rand, lo, hi int) *State {
	s, err := NewState(StateConfig{1, p.q.H, p.q.L, p.v.D})
	noError(t, err)
	opt := p.opt
	opt.Offset -= lo
	for n := 0; lo < hi; lo += n {
		n = min(hi-lo, 1+r.IntN(2*Segment))
		if !p.opt.Bias.none() {
			bias := p.opt.Bias
			bias.Data, bias.D = bias.Data[lo:], n
			opt.Bias = bias
		}
		k, v := p.k, p.v
		k.Data, k.L = k.Data[lo*k.SL:], n
		v.Data, v.L = v.Data[lo*v.SL:], n
		noError(t, s.Update(p.q, k, v, &opt))
	}
	return s
}

// accuracyResults allocates what a call writes.
func (p *problem) accuracyResults() (dst Tensor, opt *Options) {
	o := p.opt
	o.LSE = make([]float32, p.q.H*p.q.L)
	return zeros(1, p.q.H, p.q.L, p.v.D), &o
}

func noError(t *testing.T, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// The error is at most accuracyBound times the textbook's, on outputs and on log-sum-exps. This
// holds for each kind of data and each number of keys, over all dimensions together; for each
// dimension, over all numbers of keys; for a State that was cut anywhere; and for a Cache. One
// shape alone has too few rows for it: where two keys share the weight of a row, a single rounding
// can make its error many times as large as in other rows.
//
// With -v it prints the ratios of every shape, outputs before log-sum-exps.
func TestAccuracyOverTextbook(t *testing.T) {
	g := newAccuracyGrid()
	var table accuracyTable
	for i := range accuracyKinds {
		table = append(table, g.measure(t, &accuracyKinds[i])...)
	}
	if testing.Verbose() {
		fmt.Print(g.markdown(table))
	}
	for i := range accuracyKinds {
		g.check(t, table, accuracyKinds[i].name)
	}
}

// check fails the test where a ratio of a kind of data is too large.
func (g accuracyGrid) check(t *testing.T, table accuracyTable, kind string) {
	bounded := func(what string, choose func(c *accuracyCell) bool) {
		o, lse := table.ratios(func(c *accuracyCell) bool { return c.kind == kind && choose(c) })
		if !(o <= accuracyBound && lse <= accuracyBound) {
			t.Errorf("%s, %s: errors are %.2f (output) and %.2f (LSE) times the textbook's, want at most %v",
				kind, what, o, lse, accuracyBound)
		}
	}
	for _, keys := range g.keys {
		bounded(fmt.Sprintf("%d keys", keys), func(c *accuracyCell) bool {
			return c.way == accuracyWays[0].name && c.keys == keys
		})
	}
	for _, d := range g.dims {
		bounded(fmt.Sprintf("dimension %d", d), func(c *accuracyCell) bool {
			return c.way == accuracyWays[0].name && c.d == d
		})
	}
	for _, way := range accuracyWays[1:] {
		bounded(way.name, func(c *accuracyCell) bool { return c.way == way.name })
	}
}

// markdown is a table for each way of all ratios, and of those over all dimensions or all numbers
// of keys.
func (g accuracyGrid) markdown(table accuracyTable) string {
	var b strings.Builder
	for _, way := range accuracyWays {
		fmt.Fprintf(&b, "\n%s: error over the textbook's, of outputs and of log-sum-exps, by number "+
			"of keys\n\n| data | D |", way.name)
		for _, keys := range g.keys {
			fmt.Fprintf(&b, " %d |", keys)
		}
		b.WriteString(" all |\n|---|--:|" + strings.Repeat("---|", len(g.keys)+1) + "\n")
		for _, kind := range accuracyKinds {
			for _, d := range append(g.dims, 0) {
				b.WriteString(g.markdownRow(table, way.name, kind.name, d))
			}
		}
	}
	return b.String()
}

// markdownRow is the ratios of a kind of data and a dimension, 0 being all.
func (g accuracyGrid) markdownRow(table accuracyTable, way, kind string, d int) string {
	row := fmt.Sprintf("| %s | %d |", kind, d)
	if d == 0 {
		row = fmt.Sprintf("| %s | all |", kind)
	}
	for _, keys := range append(g.keys, 0) {
		o, lse := table.ratios(func(c *accuracyCell) bool {
			return c.way == way && c.kind == kind && (d == 0 || c.d == d) && (keys == 0 || c.keys == keys)
		})
		row += fmt.Sprintf(" %.2f %.2f |", o, lse)
	}
	return row + "\n"
}

// The textbook in float64 computes what the definition says.
func TestAccuracyTextbook(t *testing.T) {
	for i := range accuracyKinds {
		kind := &accuracyKinds[i]
		r := random(kind.name)
		p := newAccuracyPool(r).problem(r, kind, 6, 21, 8)
		if p.opt.Scale == 0 {
			p.opt.Scale = float32(1 / math.Sqrt(8)) // rounded, as the library does
		}
		o, lse := textbookRows[float64](p)
		want := p.reference().Float64()
		for _, part := range []struct{ got, want []float64 }{{o, want.O}, {lse, want.LSE}} {
			for i, e := range part.want {
				if math.Abs(part.got[i]-e) > 1e-11*max(1, math.Abs(e)) {
					t.Fatalf("%s: element %d is %v, want %v", kind.name, i, part.got[i], e)
				}
			}
		}
	}
}

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
	normal.Fill(r, pool)
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

// roundData leaves some significant bits of each number: bfloat16 has 8, float16 has 11.
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
// 112a·96e, where e has a number of significant bits. With 8 they are exact. With 24 the last bit
// of e is set, so that the keys are rounded: were the products opposites that need rounding, the
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
	p.opt.Bias = bias
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

// The textbook: what a user would write who knows the definition and nothing of rounding.
// In float32 it is what the library is measured against, in float64 the truth. Each rounding is
// spelled out, because compilers may fuse x*y+z, and would only on some CPUs.

// textbookRows computes output and log-sum-exp of each row of a problem with one batch entry and
// one key/value head. Of the options it knows those that change numbers: Scale, Softcap, Bias,
// Slopes, Sinks, and TopLeft with Offset.
func textbookRows[F float32 | float64](p *problem) (o, lse []F) {
	s, w := make([]F, p.k.L), make([]F, p.k.L)
	for row := range p.q.H * p.q.L {
		h, i := row/p.q.L, row%p.q.L
		live := s[:p.textbookKeys(i)]
		textbookScores(p, live, h, i)
		lse = append(lse, textbookSoftmax(p, w[:len(live)], live, h))
		o = append(o, textbookValues(w[:len(live)], p.v.Data, p.v.D)...)
	}
	return o, lse
}

// textbookKeys is the number of keys that query i sees.
func (p *problem) textbookKeys(i int) int {
	if p.opt.Causal == TopLeft {
		return min(p.k.L, i+p.opt.Offset+1)
	}
	return p.k.L
}

// textbookScores is s_j = q·k_j·scale, then softcap, bias and slope, each step rounded.
func textbookScores[F float32 | float64](p *problem, s []F, h, i int) {
	textbookProducts(s, p.q.row(0, h, i), p.k.Data)
	scale := F(p.opt.Scale)
	if scale == 0 {
		scale = F(float32(1 / math.Sqrt(float64(p.q.D))))
	}
	for j := range s {
		s[j] = F(s[j] * scale)
		if c := F(p.opt.Softcap); c > 0 {
			s[j] = F(c * F(math.Tanh(float64(F(s[j]/c)))))
		}
		if !p.opt.Bias.none() {
			s[j] += F(p.opt.Bias.row(0, h, i)[j])
		}
		if p.opt.Slopes != nil {
			s[j] += F(F(p.opt.Slopes[h]) * F(j-i-p.opt.Offset))
		}
	}
}

// textbookProducts is s_j = Σ_x q_x·k_jx in ascending order, each product and each sum rounded.
func textbookProducts[F float32 | float64](s []F, q, k []float32) {
	d, j := len(q), 0
	for ; j+4 <= len(s); j += 4 { // four sums side by side: one alone waits for itself
		k0, k1, k2, k3 := k[j*d:][:d], k[(j+1)*d:][:d], k[(j+2)*d:][:d], k[(j+3)*d:][:d]
		var s0, s1, s2, s3 F
		for x, e := range q {
			e := F(e)
			s0 += F(e * F(k0[x]))
			s1 += F(e * F(k1[x]))
			s2 += F(e * F(k2[x]))
			s3 += F(e * F(k3[x]))
		}
		s[j], s[j+1], s[j+2], s[j+3] = s0, s1, s2, s3
	}
	for ; j < len(s); j++ {
		s[j] = 0
		for x, e := range q {
			s[j] += F(F(e) * F(k[j*d+x]))
		}
	}
}

// textbookSoftmax is w_j = exp(s_j − m)/l. The sink counts in m and l, but not in the log-sum-exp.
func textbookSoftmax[F float32 | float64](p *problem, w, s []F, h int) (lse F) {
	m := F(math.Inf(-1))
	if p.opt.Sinks != nil {
		m = F(p.opt.Sinks[h])
	}
	for _, e := range s {
		m = max(m, e)
	}
	var l F
	for j, e := range s {
		w[j] = F(math.Exp(float64(F(e - m))))
		l += w[j]
	}
	lse = m + F(math.Log(float64(l)))
	if p.opt.Sinks != nil {
		l += F(math.Exp(float64(F(F(p.opt.Sinks[h]) - m))))
	}
	for j := range w {
		w[j] = F(w[j] / l)
	}
	return lse
}

// textbookValues is o_c = Σ_j w_j·v_jc in ascending order, each product and each sum rounded.
func textbookValues[F float32 | float64](w []F, v []float32, d int) []F {
	o, j := make([]F, d), 0
	for ; j+4 <= len(w); j += 4 { // four values for each time that a sum is loaded and stored
		w0, w1, w2, w3 := w[j], w[j+1], w[j+2], w[j+3]
		v0, v1, v2, v3 := v[j*d:][:len(o)], v[(j+1)*d:][:len(o)], v[(j+2)*d:][:len(o)],
			v[(j+3)*d:][:len(o)]
		for c := range o {
			o[c] = o[c] + F(w0*F(v0[c])) + F(w1*F(v1[c])) + F(w2*F(v2[c])) + F(w3*F(v3[c]))
		}
	}
	for ; j < len(w); j++ {
		for c := range o {
			o[c] += F(w[j] * F(v[j*d+c]))
		}
	}
	return o
}
