package kerneltest

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/seed-1415985d/attn/internal/f32"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/tuning"
)

// Operands of kernels as they occur, drawn at random.

// Stride returns a distance of rows of d elements: with a gap, or with rows
// that overlap or coincide, as views of inputs may have it.
func (c *Trial) Stride(d, gap int) int {
	if c.IntN(5) == 0 {
		return c.IntN(d + 1)
	}
	return d + gap
}

// Anywhere prefetches memory that need not exist, or nothing: neither changes a bit.
func (c *Trial) Anywhere() *kernel.PrefetchQueue {
	if c.IntN(4) == 0 {
		return nil
	}
	next := new(kernel.PrefetchQueue)
	for i := range next.Runs {
		next.Runs[i] = kernel.PrefetchRun{At: uintptr(c.Uint64()), Step: int(c.Uint64()),
			Lines: 1 + c.IntN(9), N: c.IntN(4), Back: int(c.Uint64())}
	}
	next.End = kernel.FirstRun + len(next.Runs)*kernel.SizeOfRun
	next.Start(c.IntN(len(next.Runs)), c.IntN(30))
	next.PrefetchHint = c.anyPrefetchHint()
	return next
}

// anyPrefetchHint is any way through memory, the zero value's as often as others.
func (c *Trial) anyPrefetchHint() kernel.PrefetchHint {
	if c.IntN(4) == 0 {
		return kernel.PrefetchHint{}
	}
	a := kernel.PrefetchHint{PrefetchOne: c.IntN(1 << 14), PrefetchFew: c.IntN(1 << 14),
		FourPanels: c.IntN(2) == 0}
	order := c.IntN(4)
	a.InOrder, a.OneStream = order%2 == 0, order >= 2
	a.Packed = a.PrefetchOne%2 == 0
	if c.IntN(2) == 0 {
		a.Pointer = uintptr(c.Uint64())
	}
	return a
}

// Exponents draws the distribution of arguments of exp: any bits in half of the trials.
func (c *Trial) Exponents() Distribution {
	if c.IntN(2) == 0 {
		return AnyBits
	}
	return c.Kind
}

// Unit draws a unit of scores times log₂e: of a usual scale, 1, or any positive number.
func (c *Trial) Unit() float32 {
	switch c.IntN(4) {
	case 0:
		return f32.Log2E
	case 1:
		return math.Float32frombits(1 + uint32(c.IntN(0x7f7fffff)))
	}
	return float32(f32.Log2E / math.Sqrt(float64(1+c.IntN(256))))
}

// Factor draws a factor of outputs.
func (c *Trial) Factor() float32 {
	switch c.IntN(4) {
	case 0:
		return float32(c.IntN(2))
	case 1:
		return c.Kind.Draw(c.Rand)
	}
	return c.Float32()
}

// Scores returns a block of scores; in some trials one row has none above −Inf.
func (c *Trial) Scores(rows int) (got, want []float32) {
	got, want = c.Results(rows * kernel.Block)
	if c.IntN(2) == 0 {
		from := c.IntN(rows) * kernel.Block
		FillWith(got[from:from+kernel.Block], kernel.NegInf)
		FillWith(want[from:from+kernel.Block], kernel.NegInf)
	}
	return got, want
}

// RunningState returns maxima and sums of rows, some of which have seen no key
// yet. A sum of exponentials may be NaN but not negative, nor −0.
func (c *Trial) RunningState(rows int) (m, mWant, l, lWant []float32) {
	m, mWant = c.Results(rows)
	l, lWant = c.Results(rows)
	for r := range rows {
		if c.IntN(3) == 0 {
			m[r], l[r] = kernel.NegInf, 0
		}
		l[r] = max(l[r], 0)
		mWant[r], lWant[r] = m[r], l[r]
	}
	return m, mWant, l, lWant
}

// accumulation is the operands of accumulate.
type accumulation struct {
	Got, Want, P, V, Alpha []float32
	Rows, OStride, PStride int
	Layout                 kernel.PanelLayout
}

func (c *Trial) NewAccumulation(n []int) *accumulation {
	rows, keys, cols, gap := n[0], n[1], n[2], n[3]
	a := &accumulation{Rows: rows, OStride: cols + c.IntN(17), PStride: keys + c.IntN(17)}
	a.Layout = kernel.PanelLayout{Keys: keys, Cols: cols, Stride: kernel.Panel,
		PanelStride: kernel.Block * kernel.Panel,
		Overwrite:   c.IntN(4) == 0, PrefetchHint: c.anyPrefetchHint()}
	if c.IntN(2) == 0 {
		a.Layout.After = uintptr(c.Uint64()) // need not exist either
	}
	if keys > kernel.Block || c.IntN(2) == 0 {
		a.Layout.Stride, a.Layout.PanelStride = c.Stride(cols, gap), kernel.Panel // rows of the caller
	}
	last := (cols - 1) / kernel.Panel
	a.V = c.Input(last*a.Layout.PanelStride + (keys-1)*a.Layout.Stride + cols - last*kernel.Panel)
	a.P = c.Weights((rows-1)*a.PStride + keys)
	a.Alpha = c.Factors(rows)
	a.Got, a.Want = c.Results((rows-1)*a.OStride + cols)
	return a
}

// Weights returns what softmax leaves: weights from 0 to 1, −0 for keys that
// do not exist, all of them in some trials.
func (c *Trial) Weights(n int) []float32 {
	write, read := c.Place(n)
	c.fillFactors(write)
	c.markMasked(write, c.IntN(5))
	return read
}

func (c *Trial) Factors(n int) []float32 {
	write, read := c.Place(n)
	c.fillFactors(write)
	return read
}

func Nan32() float32 { return float32(math.NaN()) }

// Nans returns n NaNs: memory that must be overwritten or never looked at.
func Nans(n int) []float32 {
	x := make([]float32, n)
	FillWith(x, Nan32())
	return x
}

// MustEqualBits compares bit for bit; all NaNs are the same.
func MustEqualBits(t testing.TB, what string, got, want []float32) {
	if len(got) != len(want) {
		t.Helper()
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	if i := FirstDifference(got, want); i >= 0 {
		t.Helper() // here, because it is slow
		t.Fatalf("%s[%d] = %x (%v), want %x (%v)", what, i,
			math.Float32bits(got[i]), got[i], math.Float32bits(want[i]), want[i])
	}
}

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// MustFail checks the kind of an error and, where it is given, the text that follows the kind.
// Every text must say what is wanted, and no kind or alternative twice.
func MustFail(t testing.TB, what string, err, kind error, text ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: error is %v, want %v", what, err, kind)
		return
	}
	got := strings.TrimPrefix(strings.TrimPrefix(err.Error(), kind.Error()), ": ")
	if len(text) > 0 && text[0] != "" && got != text[0] {
		t.Errorf("%s: error says %q, want %q", what, got, text[0])
	}
	mustBeClear(t, what, err)
}

// mustBeClear verifies that the text of an error says what is wanted, and nothing twice.
func mustBeClear(t testing.TB, what string, err error) {
	t.Helper()
	text := err.Error()
	if strings.Count(text, "attn: ") > 1 || strings.Contains(text, "1 or 1") {
		t.Errorf("%s: error says something twice: %q", what, text)
	}
	for _, kind := range []string{"shape mismatch", "invalid stride", "wrong length",
		"overlapping buffers", "invalid option", "unsupported", "invalid format"} {
		if strings.HasPrefix(text, "attn: "+kind) && !strings.Contains(text, "want ") &&
			!strings.Contains(text, "the file ends after") {
			t.Errorf("%s: error does not say what is wanted: %q", what, text)
		}
	}
}

// FillWith sets all elements to e.
func FillWith[T any](x []T, e T) {
	for n := copy(x, []T{e}); n > 0 && n < len(x); n *= 2 {
		copy(x[n:], x[:n])
	}
}

// A stock is values of every distribution, drawn once. Copying from it is far faster than drawing
// each element, and the fuzzer still decides the place and some single elements.
type stock struct {
	values  [Distributions][]float32
	factors [Distributions][]float32
	coins   []byte
}

const (
	stockSize  = 1 << 14
	stockReach = 1 << 12 // elements of one copy
	overwrites = 3       // most elements that are drawn after a copy
)

func newStock() *stock {
	s := new(stock)
	c := &Trial{Rand: Random("stock")}
	for d := range Distributions {
		c.Kind = d
		s.values[d], s.factors[d] = make([]float32, stockSize), make([]float32, stockSize)
		d.Fill(c.Rand, s.values[d])
		for i := range s.factors[d] {
			s.factors[d][i] = c.Factor()
		}
	}
	s.coins = make([]byte, stockSize)
	for i := range s.coins {
		s.coins[i] = byte(c.IntN(4))
	}
	return s
}

// take fills x with consecutive elements from anywhere in one of the stock's slices.
func take[T any](c *Trial, x, from []T) {
	for len(x) > 0 {
		at := int(c.Uint64() % (stockSize - stockReach))
		x = x[copy(x, from[at:at+stockReach]):]
	}
}

// Fill draws values of a kind.
func (c *Trial) Fill(kind Distribution, x []float32) {
	if c.stock == nil {
		kind.Fill(c.Rand, x)
		return
	}
	take(c, x, c.stock.values[kind])
	for range min(c.IntN(overwrites+1), len(x)) {
		x[c.IntN(len(x))] = c.Kind.Draw(c.Rand)
	}
}

// fillFactors draws factors of outputs.
func (c *Trial) fillFactors(x []float32) {
	if c.stock == nil {
		for i := range x {
			x[i] = c.Factor()
		}
		return
	}
	take(c, x, c.stock.factors[c.Kind])
	for range min(c.IntN(overwrites+1), len(x)) {
		x[c.IntN(len(x))] = c.Factor()
	}
}

// markMasked marks about masked of every four weights as belonging to keys that do not exist.
func (c *Trial) markMasked(x []float32, masked int) {
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
			x[i] = Specials[1]
		}
	}
}

// Kernels of maxima are called by fullTile.add only. These functions are for tests of the kernels.

// scoreMaxima is score of whole rows of a tile that also returns their maxima.

// TypedInput is n elements of a type in guarded memory that may only be read. Words are guarded, so
// a few unused bytes may lie before or after the elements.
func (c *Trial) TypedInput(typ kernel.Format, n int) []byte {
	size := n * typ.Bytes()
	words := (size + 3) / 4
	write, read := c.Place(words)
	c.Fill(AnyBits, write)
	from := (4*words - size) * c.IntN(2)
	// mostly ordinary numbers
	if b := BytesIn(write)[from:][:size]; typ != kernel.I8 && c.IntN(4) != 0 {
		x := make([]float32, n)
		c.Fill(Normal, x)
		for i, e := range x {
			h := f32.ToBF16(e)
			if typ == kernel.F16 {
				h = f32.ToF16(e)
			}
			binary.NativeEndian.PutUint16(b[2*i:], h)
		}
	}
	return BytesIn(read)[from:][:size]
}

func BytesIn(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// AnyTypedLayout draws the layout of packed keys, packed values of a cache, or a matrix, and how
// many elements it has.
func (c *Trial) AnyTypedLayout(typ kernel.Format, keys, cols int) (kernel.PanelLayout, int) {
	b := kernel.PanelLayout{Keys: keys, Cols: cols, Stride: kernel.Panel,
		PanelStride: keys * kernel.Panel,
		Overwrite:   c.IntN(3) == 0, PrefetchHint: c.anyPrefetchHint()}
	b.Pointer = 0
	panels := cols / kernel.Panel
	if typ != kernel.I8 {
		return b, panels * keys * kernel.Panel
	}
	groups := (keys + 3) / 4
	b.Stride, b.PanelStride = 4*kernel.Panel, groups*4*kernel.Panel
	if c.IntN(2) == 0 { // values: columns side by side in each group
		b.Stride, b.PanelStride = 4*cols, 4*kernel.Panel
		return b, groups * 4 * cols
	}
	return b, panels * groups * 4 * kernel.Panel
}

// Guarded is a copy of x in guarded memory that may only be read.
func Guarded[T any](c *Trial, x []T) []T {
	bytes := kernel.RawBytes(x)
	write, read := c.Place((len(bytes) + 3) / 4)
	copy(BytesIn(write), bytes)
	return kernel.Elements[T](BytesIn(read))[:len(x)]
}

// AnyIntegers draws whether kernels use products of four bytes, and tiles, where this CPU has them.
func (c *Trial) AnyIntegers() {
	Tuned.DotProduct = tuning.HasDotProduct(Tuned.ISA) && c.IntN(2) == 0
	Tuned.MinInt8Rows16 = 1 + c.IntN(3)
	Tuned.AMX = Tuned.ISA == tuning.AVX512 && Tuned.DotProduct && tuning.HostTiles().Use &&
		c.IntN(2) == 0
	Tuned.MinAMXRows, Tuned.MinAMXMatrixRows = 1+c.IntN(20), 1+c.IntN(20)
	Tuned.MinAMXBlockRows = 1 + c.IntN(60)
}

// Sums returns rows of outputs and weights with the given strides.
func Sums(o, p, alpha []float32, rows, oStride, pStride int) *kernel.Sums {
	return &kernel.Sums{O: o, P: p, Alpha: alpha, Rows: rows, OStride: oStride, PStride: pStride}
}
