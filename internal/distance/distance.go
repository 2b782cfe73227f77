// Package distance finds the numbers of attn.Options.Distance, which are added to scores by the
// distance of the key from the query: which number a distance has, and what holds for all of them.
package distance

import (
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/kernel/floats"
	"github.com/seed-1415985d/attn/internal/tuning"
	"github.com/seed-1415985d/attn/internal/views"
)

// Numbers describes the numbers of a call.
type Numbers struct {
	Slide bool // rows of consecutive queries have the same numbers, each shifted by one key
	Shows bool // no number is −Inf, so none hides a key, and scores of every block have one

	reach int  // of buckets: distances −reach to reach have their own
	even  bool // buckets rise, or fall, by at most 1 from one distance to the next
	alone bool // a number depends on the query's row and the distance alone

	// Distances d from lowest to highest have bucket zero + d.
	lowest, highest, zero int
}

// Init validates the buckets of two views, one of which may have no elements. alone reports that
// there is no other bias and that keys have consecutive positions.
func (x *Numbers) Init(isa tuning.ISA, query, key *views.Tensor, buckets []int32,
	alone bool) error {
	n := max(query.D, key.D)
	switch {
	case n == 0:
		return views.Fail(views.ErrOption,
			"Distance has %d Buckets without numbers, want Query or Key", len(buckets))
	case query.D > 0 && key.D > 0 && query.D != key.D:
		return views.Fail(views.ErrShape, "Distance.Key.D is %d, want Query's %d", key.D, query.D)
	case buckets == nil && n%2 == 0:
		return views.Fail(views.ErrOption,
			"Distance has rows of %d numbers, want an odd number without Buckets", n)
	case buckets != nil && len(buckets)%2 == 0:
		return views.Fail(views.ErrOption,
			"len(Distance.Buckets) is %d, want an odd number: distances -R to R", len(buckets))
	}
	if err := x.initBuckets(buckets, n); err != nil {
		return err
	}
	x.alone = alone && key.D == 0
	x.Slide = x.alone && query.SL == 0 && !query.Empty()
	x.Shows = x.Slide && !hides(isa, query)
	return nil
}

// initBuckets validates the buckets of rows of n numbers, and finds which distances around 0 have
// consecutive ones.
func (x *Numbers) initBuckets(buckets []int32, n int) error {
	if buckets == nil {
		x.reach, x.even = n/2, true
		x.lowest, x.highest, x.zero = -x.reach, x.reach, x.reach
		return nil
	}
	rises, falls := true, true // by at most 1
	for i, e := range buckets {
		if e < 0 || int(e) >= n {
			return views.Fail(views.ErrOption, "Distance.Buckets[%d] is %d, want 0 to %d", i, e, n-1)
		}
		step := e - buckets[max(i-1, 0)]
		rises, falls = rises && (step == 0 || step == 1), falls && (step == 0 || step == -1)
	}
	x.even, x.reach = rises || falls, len(buckets)/2
	x.zero = int(buckets[x.reach])
	x.lowest, x.highest = x.straightTo(buckets, -1), x.straightTo(buckets, 1)
	return nil
}

// straightTo returns the last distance, in steps from 0, whose bucket is as far from the bucket of
// 0.
func (x *Numbers) straightTo(buckets []int32, step int) (d int) {
	for d+step >= -x.reach && d+step <= x.reach && int(buckets[d+step+x.reach]) == x.zero+d+step {
		d += step
	}
	return d
}

// Straight reports whether the numbers of distances from near to far are consecutive elements of
// the query's row, the first of which is At(near).
func (x *Numbers) Straight(near, far int) bool {
	return x.alone && near >= x.lowest && far <= x.highest
}

// At returns the element for a distance for which numbers are straight.
func (x *Numbers) At(d int) int { return x.zero + d }

// hides reports whether a row of a view, one for all queries, has a −Inf.
func hides(isa tuning.ISA, x *views.Tensor) bool {
	var all [1]uint64
	for b := range x.B {
		for h := range x.H {
			row := x.Row(b, h, 0)
			whole := len(row) / kernel.Block
			some, _ := floats.MaskBias(isa, row, all[:], whole, 0, kernel.Block, 0, kernel.Block)
			rest := row[whole*kernel.Block:]
			more, _ := floats.MaskBias(isa, rest, all[:], 1, 0, 0, 0, len(rest))
			if some || more {
				return true
			}
		}
	}
	return false
}

// Buckets holds the buckets of all distances of a call, with some more on both sides, in scratch.
type Buckets struct {
	at          []int32
	orders      []uint64 // of at, as floats.SetOrders has them, if there are any
	reach, more int
}

// before bounds how many distances earlier than the first row other rows begin.
const before = floats.DistantRows - 1

// inOrder is how many buckets an order has after its first one.
const inOrder = 7

// Fit looks the buckets of a call up, for up to keys keys at once. width is how many numbers rows
// have, pairs how many numbers the call looks up for a head.
func (x *Buckets) Fit(of *Numbers, buckets []int32, keys, width, pairs int) {
	more := before + keys
	x.reach, x.more = of.reach, more
	all := 2*(x.reach+more) + 1 + inOrder
	x.at = kernel.Grow(x.at, all)
	at := x.at[:all]
	for i := range at {
		d := min(max(i-more, 0), 2*x.reach)
		if at[i] = int32(d); buckets != nil {
			at[i] = buckets[d]
		}
	}
	x.orders = x.orders[:0]
	if n := len(at) - inOrder; of.even && width >= 8 && pairs >= 8*n {
		x.orders = kernel.Grow(x.orders, n)[:n]
		floats.SetOrders(x.orders, at, width)
	}
}

// From returns the buckets of n distances from d on.
func (x *Buckets) From(d, n int) []int32 { return x.at[x.place(d):][:n] }

// place returns where distances from d on are.
func (x *Buckets) place(d int) int {
	return min(max(d, -x.reach-x.more), x.reach+1) + x.reach + x.more
}

// Span returns the first element of a table's row that n distances from d on read, how many there
// are, and by how much the first one moves from one row to the next, for which distances move by
// step.
func (x *Buckets) Span(d, n, rows, step int) (first, width, drift int) {
	a, b := x.From(d, n), x.From(d+step*(rows-1), n)
	first, last := int(min(a[0], a[n-1])), int(min(b[0], b[n-1]))
	width = 1 + max(int(max(a[0], a[n-1]))-first, int(max(b[0], b[n-1]))-last)
	return first, width, (last - first) / max(1, rows-1)
}

// Tables are the rows of numbers that some rows of queries and keys have, from the first ones on.
// Either may be nil.
type Tables struct {
	Query, Key    []float32
	Stride, Pitch int // from one query's row to the next, and from one key's
	Width         int // numbers of a row
}

// Set sets up to DistantRows rows of dst, Block apart, to the numbers of consecutive queries and n
// consecutive keys; d is the distance of the first ones.
func (x *Buckets) Set(isa tuning.ISA, of *Numbers, dst []float32, from *Tables, rows, n, d int) {
	at := x.place(d - before)
	add := floats.Distant{Dst: dst, Table: from.Query, Index: x.at[at:][:before+n], Rows: rows,
		Stride: from.Stride, N: n, Width: from.Width, Set: true}
	if len(x.orders) > 0 {
		add.Orders = x.orders[at:]
	}
	if from.Query != nil {
		floats.AddDistant(isa, &add)
		add.Set = false
	}
	if from.Key != nil {
		add.Table, add.Stride, add.Pitch = from.Key, 0, from.Pitch
		floats.AddDistant(isa, &add)
	}
}
