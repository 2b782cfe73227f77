package attn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/tuning"
)

// accuracyBound is how many times as large as the textbook's float32 the library's error may be.
const accuracyBound = 1.25

// rounding sums squared errors against float64, of the library and of the textbook in float32. The
// noise floor is half an ULP of each number. Its square is added to the textbook's, as those of
// independent errors are: where the textbook happens to be exact, the library need not be.
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
	// which has the bits of the others, and takes long
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
			if shapes++; shapes%4 != 0 { // of the others a sample is enough
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
	s, err := NewState(1, p.q.H, p.q.L, p.v.D)
	noError(t, err)
	opt := p.opt
	opt.Offset -= lo
	for n := 0; lo < hi; lo += n {
		n = min(hi-lo, 1+r.IntN(2*Segment))
		if p.opt.Bias != nil {
			bias := *p.opt.Bias
			bias.Data, bias.D = bias.Data[lo:], n
			opt.Bias = &bias
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
// can make its error many times that of the other rows.
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
