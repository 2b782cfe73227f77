package attn

import (
	"math"

	"github.com/seed-1415985d/attn/internal/f32"
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
		next.runs[i] = prefetchRun{uintptr(c.Uint64()), int(c.Uint64()), 1 + c.IntN(9), c.IntN(4),
			int(c.Uint64())}
	}
	next.end = next.place(len(next.runs))
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
		fourPanels: c.IntN(2) == 0,
		inOrder:    c.IntN(2) == 0}
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
	write, read := place(c.Rand, &c.arena.floats, &c.arena.used[0], n)
	c.fillFactors(write)
	c.markMasked(write, c.IntN(5))
	return read
}

func (c *trial) factors(n int) []float32 {
	write, read := place(c.Rand, &c.arena.floats, &c.arena.used[0], n)
	c.fillFactors(write)
	return read
}
