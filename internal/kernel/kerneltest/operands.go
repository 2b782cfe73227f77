package attn

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/operand"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Operands of kernels as they occur, drawn at random.

// stride returns a distance of rows of d elements: with a gap, or with rows
// that overlap or coincide, as views of inputs may have it.
func (c *trial) stride(d, gap int) int {
	if c.IntN(5) == 0 {
		return c.IntN(d + 1)
	}
	return d + gap
}

// anywhere prefetches memory that need not exist, or nothing: neither changes a bit.
func (c *trial) anywhere() *prefetchQueue {
	if c.IntN(4) == 0 {
		return nil
	}
	next := new(prefetchQueue)
	for i := range next.runs {
		next.runs[i] = prefetchRun{at: uintptr(c.Uint64()), step: int(c.Uint64()),
			lines: 1 + c.IntN(9), n: c.IntN(4), back: int(c.Uint64())}
	}
	next.end = firstRun + len(next.runs)*sizeOfRun
	next.start(c.IntN(len(next.runs)), c.IntN(30))
	next.prefetchHint = c.anyPrefetchHint()
	return next
}

// anyPrefetchHint is any way through memory, the zero value's as often as others.
func (c *trial) anyPrefetchHint() prefetchHint {
	if c.IntN(4) == 0 {
		return prefetchHint{}
	}
	a := prefetchHint{prefetchOne: c.IntN(1 << 14), prefetchFew: c.IntN(1 << 14),
		fourPanels: c.IntN(2) == 0}
	order := c.IntN(4)
	a.inOrder, a.oneStream = order%2 == 0, order >= 2
	a.packed = a.prefetchOne%2 == 0
	if c.IntN(2) == 0 {
		a.pointer = uintptr(c.Uint64())
	}
	return a
}

// exponents makes half of the arguments of exp interesting to it.
func (c *trial) exponents() distribution {
	if c.IntN(2) == 0 {
		return anyBits
	}
	return c.kind
}

// unit is a unit of scores times log₂e: that of a usual scale, 1, or any positive number.
func (c *trial) unit() float32 {
	switch c.IntN(4) {
	case 0:
		return f32.Log2E
	case 1:
		return math.Float32frombits(1 + uint32(c.IntN(0x7f7fffff)))
	}
	return float32(f32.Log2E / math.Sqrt(float64(1+c.IntN(256))))
}

// factor is what outputs are multiplied by.
func (c *trial) factor() float32 {
	switch c.IntN(4) {
	case 0:
		return float32(c.IntN(2))
	case 1:
		return c.kind.draw(c.Rand)
	}
	return c.Float32()
}

// scores returns a block of scores; in some trials one row has none above −Inf.
func (c *trial) scores(rows int) (got, want []float32) {
	got, want = c.output(rows * Block)
	if c.IntN(2) == 0 {
		from := c.IntN(rows) * Block
		fillWith(got[from:from+Block], negInf)
		fillWith(want[from:from+Block], negInf)
	}
	return got, want
}

// runningState returns maxima and sums of rows, some of which have seen no key
// yet. A sum of exponentials may be NaN but not negative, nor −0.
func (c *trial) runningState(rows int) (m, mWant, l, lWant []float32) {
	m, mWant = c.output(rows)
	l, lWant = c.output(rows)
	for r := range rows {
		if c.IntN(3) == 0 {
			m[r], l[r] = negInf, 0
		}
		l[r] = max(l[r], 0)
		mWant[r], lWant[r] = m[r], l[r]
	}
	return m, mWant, l, lWant
}

// accumulation is the operands of accumulate.
type accumulation struct {
	got, want, p, v, alpha []float32
	rows, oStride, pStride int
	layout                 panelLayout
}

func (c *trial) newAccumulation(n []int) *accumulation {
	rows, keys, cols, gap := n[0], n[1], n[2], n[3]
	a := &accumulation{rows: rows, oStride: cols + c.IntN(17), pStride: keys + c.IntN(17)}
	a.layout = panelLayout{keys: keys, cols: cols, stride: panel, panelStride: Block * panel,
		overwrite: c.IntN(4) == 0, prefetchHint: c.anyPrefetchHint()}
	if c.IntN(2) == 0 {
		a.layout.after = uintptr(c.Uint64()) // need not exist either
	}
	if keys > Block || c.IntN(2) == 0 {
		a.layout.stride, a.layout.panelStride = c.stride(cols, gap), panel // rows of the caller
	}
	last := (cols - 1) / panel
	a.v = c.input(last*a.layout.panelStride + (keys-1)*a.layout.stride + cols - last*panel)
	a.p = c.weights((rows-1)*a.pStride + keys)
	a.alpha = c.factors(rows)
	a.got, a.want = c.output((rows-1)*a.oStride + cols)
	return a
}

// weights returns what softmax leaves: weights from 0 to 1, −0 for keys that
// do not exist, all of them in some trials.
func (c *trial) weights(n int) []float32 {
	write, read := c.place(n)
	c.fillFactors(write)
	c.markMasked(write, c.IntN(5))
	return read
}

func (c *trial) factors(n int) []float32 {
	write, read := c.place(n)
	c.fillFactors(write)
	return read
}

func nan32() float32 { return float32(math.NaN()) }

// nans returns n NaNs: memory that must be overwritten or never looked at.
func nans(n int) []float32 {
	x := make([]float32, n)
	fillWith(x, nan32())
	return x
}

// mustEqualBits compares bit for bit; all NaNs are the same.
func mustEqualBits(t testing.TB, what string, got, want []float32) {
	if len(got) != len(want) {
		t.Helper()
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	if i := firstDifference(got, want); i >= 0 {
		t.Helper() // here, because it is slow
		t.Fatalf("%s[%d] = %x (%v), want %x (%v)", what, i,
			math.Float32bits(got[i]), got[i], math.Float32bits(want[i]), want[i])
	}
}

// must ends the test if something failed that has to work.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// mustFail checks the kind of an error and, where it is given, the text that follows the kind.
func mustFail(t testing.TB, what string, err, kind error, text ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: error is %v, want %v", what, err, kind)
		return
	}
	got := strings.TrimPrefix(strings.TrimPrefix(err.Error(), kind.Error()), ": ")
	if len(text) > 0 && text[0] != "" && got != text[0] {
		t.Errorf("%s: error says %q, want %q", what, got, text[0])
	}
}

// fillWith makes all elements the same.
func fillWith[T any](x []T, e T) {
	for n := copy(x, []T{e}); n > 0 && n < len(x); n *= 2 {
		copy(x[n:], x[:n])
	}
}

// zeros is a contiguous tensor of zeros.
func zeros(b, h, l, d int) Tensor { return BHLD(make([]float32, b*h*l*d), b, h, l, d) }

// A stock is values of every distribution, drawn once. To copy from it takes a
// fuzz target far less time than to draw each element, and the fuzzer
// still decides where it is copied from and on some elements one by one.
type stock struct {
	values  [distributions][]float32
	factors [distributions][]float32
	coins   []byte
}

const (
	stockSize  = 1 << 14
	stockReach = 1 << 12 // elements that one copy takes
	overwrites = 3       // most elements that are drawn after a copy
)

func newStock() *stock {
	s := new(stock)
	c := &trial{Rand: random("stock")}
	for d := range distributions {
		c.kind = d
		s.values[d], s.factors[d] = make([]float32, stockSize), make([]float32, stockSize)
		d.fill(c.Rand, s.values[d])
		for i := range s.factors[d] {
			s.factors[d][i] = c.factor()
		}
	}
	s.coins = make([]byte, stockSize)
	for i := range s.coins {
		s.coins[i] = byte(c.IntN(4))
	}
	return s
}

// take fills x with consecutive elements from anywhere in one of the stock's slices.
func take[T any](c *trial, x, from []T) {
	for len(x) > 0 {
		at := int(c.Uint64() % (stockSize - stockReach))
		x = x[copy(x, from[at:at+stockReach]):]
	}
}

// fill draws values of a kind.
func (c *trial) fill(kind distribution, x []float32) {
	if c.stock == nil {
		kind.fill(c.Rand, x)
		return
	}
	take(c, x, c.stock.values[kind])
	for range min(c.IntN(overwrites+1), len(x)) {
		x[c.IntN(len(x))] = c.kind.draw(c.Rand)
	}
}

// fillFactors draws what outputs are multiplied by.
func (c *trial) fillFactors(x []float32) {
	if c.stock == nil {
		for i := range x {
			x[i] = c.factor()
		}
		return
	}
	take(c, x, c.stock.factors[c.kind])
	for range min(c.IntN(overwrites+1), len(x)) {
		x[c.IntN(len(x))] = c.factor()
	}
}

// markMasked makes some of four weights those of keys that do not exist.
func (c *trial) markMasked(x []float32, masked int) {
	if masked == 0 {
		return
	}
	coins := make([]byte, len(x))
	if c.stock != nil {
		take(c, coins, c.stock.coins)
	} else {
		for i := range coins {
			coins[i] = byte(c.IntN(4))
		}
	}
	for i, coin := range coins {
		if int(coin) < masked {
			x[i] = specials[1]
		}
	}
}

// Kernels of maxima are called by fullTile.add only. These functions are for tests of the kernels.

// scoreMaxima is score of whole rows of a tile, which leaves their maxima, too.

func scoreMaxima(s, q, k, maxima []float32, rows, d, panels int, next *prefetchQueue) {
	operand.WritesRows(s, rows, Block, panels*panel)
	operand.Reads(q, rows*d)
	operand.Reads(k, panels*d*panel)
	operand.Writes(maxima, rows*maximaLanes)
	if tuned.ISA != tuning.AVX2 && tuned.ISA != tuning.AVX512 {
		scoreMaximaGeneric(s, q, k, maxima, rows, d, panels)
		return
	}
	scoreMaximaSIMD(&s[0], &q[0], &k[0], &maxima[0], rows, d, panels, next)
}

// softmaxMaxima is softmax of scores whose maxima are known.
func softmaxMaxima(s, m, l, alpha, maxima []float32, rows int, c float32) (masked bool) {
	operand.Updates(s, rows*Block)
	operand.Updates(m, rows)
	operand.Updates(l, rows)
	operand.Writes(alpha, rows)
	operand.Reads(maxima, rows*maximaLanes)
	if tuned.ISA != tuning.AVX2 && tuned.ISA != tuning.AVX512 {
		return softmaxMaximaGeneric(s, m, l, alpha, maxima, rows, c)
	}
	return softmaxMaximaSIMD(&s[0], &m[0], &l[0], &alpha[0], &maxima[0], rows, c)
}
