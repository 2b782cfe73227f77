package nn

import (
	"sync"
	"sync/atomic"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/kernel/elements"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/views"
)

// RopeConfig describes a rotation of channels by position, as Su et al. (2021) define it. Pair i is
// rotated by the angle position·Base^(−2i/Dim).
type RopeConfig struct {
	Dim         int     // channels that rotate, even, at most D and 2¹⁶; the rest pass through
	Base        float64 // 1 or more
	Interleaved bool    // channel pairs (2i, 2i+1); false: (i, i + Dim/2)
	Scaling     RopeScaling
}

// Rope rotates queries and keys by their positions. It is safe for concurrent use.
//
// Angles are the same on every CPU: a frequency is Base^(−2i/Dim) correctly rounded to float64,
// then scaled in float64; an angle is position·frequency, rounded once; its sine and cosine are
// within 1 unit of float64's last place, then multiplied by the attention factor and rounded to
// float32. For Dim up to 4096 the cosines and sines of positions below 2¹⁸ are kept, 4·Dim bytes a
// position, so only the first call with a position computes them.
type Rope struct {
	config    RopeConfig
	frequency []float64 // for each pair
	attention float64
	from      []int     // first pair of each kind of positions, then the number of pairs
	cos, sin  []float32 // tables of NewRopeTables
	limit     int       // upper bound of positions, exclusive

	filling sync.Mutex
	kept    []atomic.Pointer[ropeBlock]
}

const (
	ropePositions = 64      // positions of a block of angles
	ropeKept      = 1 << 18 // positions below it are kept
	ropeKeptDim   = 1 << 12 // if Dim is at most this
)

// ropeBlock has for each of its positions the cosines of all pairs, then their sines.
type ropeBlock struct {
	filled atomic.Uint64 // a bit for each position
	values []float32
}

const (
	maxPosition = 1 << 28
	maxRopeDim  = 1 << 16
)

// NewRope returns a rotation. A field outside its range is [attn.ErrOption], a Dim that is not even
// and positive [attn.ErrShape].
func NewRope(c RopeConfig) (_ *Rope, err error) {
	defer views.NameFunction("nn.NewRope", &err)
	if err := c.checkDim(); err != nil {
		return nil, err
	}
	if !(c.Base >= 1 && c.Base <= maxBase) {
		return nil, views.Fail(attn.ErrOption, "RopeConfig.Base is %v, want 1 to %g", c.Base, maxBase)
	}
	r := &Rope{config: c, limit: maxPosition + 1}
	r.config.Scaling.Factors, r.config.Scaling.Sections = nil, nil // they belong to the caller
	if r.from, err = c.kinds(); err != nil {
		return nil, err
	}
	if r.frequency, r.attention, err = c.frequencies(r.from); err != nil {
		return nil, err
	}
	if c.Dim <= ropeKeptDim {
		r.kept = make([]atomic.Pointer[ropeBlock], ropeKept/ropePositions)
	}
	return r, nil
}

// NewRopeTables returns a rotation by the caller's cosines and sines, [positions, Dim/2], which are
// kept by reference. Base must be 0 and Scaling may set only Sections and Interleave, else
// [attn.ErrOption]; tables of different lengths, or not of whole positions, are [attn.ErrLength].
func NewRopeTables(c RopeConfig, cos, sin []float32) (_ *Rope, err error) {
	defer views.NameFunction("nn.NewRopeTables", &err)
	if err := c.checkDim(); err != nil {
		return nil, err
	}
	if c.Base != 0 {
		return nil, views.Fail(attn.ErrOption, "RopeConfig.Base is %v, want 0 with tables", c.Base)
	}
	if err := c.Scaling.checkUnused(); err != nil {
		return nil, err
	}
	if len(cos) != len(sin) || len(cos)%(c.Dim/2) != 0 {
		return nil, views.Fail(attn.ErrLength, "len(cos) is %d and len(sin) %d, want a multiple of "+
			"Dim/2, %d, for both", len(cos), len(sin), c.Dim/2)
	}
	from, err := c.kinds()
	if err != nil {
		return nil, err
	}
	r := &Rope{config: c, from: from, cos: cos, sin: sin}
	r.config.Scaling.Sections = nil
	r.limit = min(len(cos)/(c.Dim/2), maxPosition+1)
	return r, nil
}

func (c *RopeConfig) checkDim() error {
	if c.Dim < 2 || c.Dim%2 != 0 || c.Dim > maxRopeDim {
		return views.Fail(attn.ErrShape, "RopeConfig.Dim is %d, want an even number from 2 to %d", c.Dim,
			maxRopeDim)
	}
	return nil
}

// kinds returns the first pair of each kind of positions, then the number of pairs. With Interleave
// only the differences count.
func (c *RopeConfig) kinds() ([]int, error) {
	if err := c.Scaling.checkSections(c.Dim / 2); err != nil {
		return nil, err
	}
	if c.Scaling.Sections == nil {
		return []int{0, c.Dim / 2}, nil
	}
	from := []int{0}
	for i, n := range c.Scaling.Sections {
		from = append(from, from[i]+n)
	}
	return from, nil
}

// Rotate rotates the channel pairs of each row of x by the angles of its position:
//
//	y₀ = FMA(x₀, cos, −(x₁·sin)), y₁ = FMA(x₁, cos, x₀·sin)
//
// The products are rounded; channels from Dim on are copied. positions has L elements, the same for
// all batch entries, or B·L; with Sections it is [kinds][B·L]. nil means 0, 1, … in each batch
// entry. All heads of a row have the same position. D below Dim is [attn.ErrShape], another number
// of positions [attn.ErrLength], a position below 0, above 2²⁸ or beyond a table [attn.ErrOption],
// a dst that overlaps a table [attn.ErrOverlap].
func (r *Rope) Rotate(p *attn.Pool, dst, x attn.Tensor, positions []int32) (err error) {
	defer views.NameFunction("nn.Rope.Rotate", &err)
	return r.rotate(p, dst, x, positions, false)
}

// Inverse rotates by the opposite angles and so undoes [Rope.Rotate], except for the attention
// factor: it multiplies by that once more.
func (r *Rope) Inverse(p *attn.Pool, dst, x attn.Tensor, positions []int32) (err error) {
	defer views.NameFunction("nn.Rope.Inverse", &err)
	return r.rotate(p, dst, x, positions, true)
}

func (r *Rope) rotate(p *attn.Pool, dst, x attn.Tensor, positions []int32, inverse bool) error {
	all := [...]argument{argumentOf("dst", &dst), argumentOf("x", &x)}
	if err := checkViews(all[:], 1, floatList{"cos", r.cos}, floatList{"sin", r.sin}); err != nil {
		return err
	}
	if err := r.checkPositions(&all[1], positions); err != nil {
		return err
	}
	j := jobs.Get().(*job)
	j.operation, j.rope, j.positions, j.inverse = rotate, r, positions, inverse
	copy(j.all[:], all[:])
	j.byRows()
	return j.run(p)
}

func (r *Rope) checkPositions(x *argument, positions []int32) error {
	if x.D < r.config.Dim {
		return views.Fail(attn.ErrShape, "x.D is %d, want at least RopeConfig.Dim, %d", x.D, r.config.Dim)
	}
	kinds := len(r.from) - 1
	switch n := len(positions); {
	case positions == nil:
		if x.L > r.limit && !x.Empty() {
			return views.Fail(attn.ErrOption, "x.L is %d without positions, want at most %d", x.L, r.limit)
		}
	case kinds == 1 && n != x.L && n != x.B*x.L:
		return views.Fail(attn.ErrLength, "len(positions) is %d, want L, %d, or B·L, %d", n, x.L, x.B*x.L)
	case kinds > 1 && n != kinds*x.B*x.L:
		return views.Fail(attn.ErrLength, "len(positions) is %d, want %d kinds·B·L, %d", n, kinds,
			kinds*x.B*x.L)
	}
	for i, at := range positions {
		if at < 0 || int(at) >= r.limit {
			return views.Fail(attn.ErrOption, "positions[%d] is %d, want 0 to %d", i, at, r.limit-1)
		}
	}
	return nil
}

// position returns the position of a row, for a kind of positions.
func (j *job) position(b, l, kind int) int {
	a := &j.all[0]
	switch n := len(j.positions); {
	case j.positions == nil:
		return l
	case n == a.L && len(j.rope.from) == 2:
		return int(j.positions[l])
	}
	return int(j.positions[(kind*a.B+b)*a.L+l])
}

// rotateRow rotates one row.
func (j *job) rotateRow(dst, x []float32, b, l int) {
	r := j.rope
	if r.config.Scaling.Interleave && j.positions != nil {
		j.rotateInterleaved(dst, x, b, l)
	} else {
		for kind, from := range r.from[:len(r.from)-1] {
			r.rotateSection(dst, x, from, r.from[kind+1], j.position(b, l, kind), j.inverse)
		}
	}
	if rest := r.config.Dim; len(x) > rest && &dst[0] != &x[0] {
		stop.Copy(dst[rest:], x[rest:])
	}
}

// rotateInterleaved rotates one row whose kinds of positions take turns: kind 0 has all pairs, then
// each other kind replaces the angles of every n-th pair, up to its number.
func (j *job) rotateInterleaved(dst, x []float32, b, l int) {
	r := j.rope
	kinds, pairs := len(r.from)-1, r.config.Dim/2
	first := j.position(b, l, 0)
	var c, s [64]float32
	for at := 0; at < pairs; at += len(c) {
		n := min(len(c), pairs-at)
		r.takeAngles(c[:n], s[:n], at, at, 1, first)
		for kind := 1; kind < kinds; kind++ {
			position := j.position(b, l, kind)
			end := min(kinds*(r.from[kind+1]-r.from[kind]), at+n)
			if from := at + mod(kind-at, kinds); position != first && from < end {
				r.takeAngles(c[:end-at], s[:end-at], at, from, kinds, position)
			}
		}
		r.rotatePairs(dst, x, c[:n], s[:n], at, j.inverse)
	}
}

// mod is x modulo n, not negative.
func mod(x, n int) int { return ((x % n) + n) % n }

// takeAngles writes the cosines and sines of a position for pairs from, from + step and so on to c
// and s, whose first pair is base and which end where the pairs do.
func (r *Rope) takeAngles(c, s []float32, base, from, step, position int) {
	cos, sin := r.keptAngles(position)
	if cos == nil {
		for i := from - base; i < len(c); i += step {
			r.computeAngles(c[i:i+1], s[i:i+1], base+i, position)
		}
		return
	}
	cos, sin = cos[base:base+len(c)], sin[base:base+len(c)]
	for i := from - base; i < len(c); i += step {
		c[i], s[i] = cos[i], sin[i]
	}
}

// rotateSection rotates pairs [from, to) by the angles of a position.
func (r *Rope) rotateSection(dst, x []float32, from, to, position int, inverse bool) {
	if from == to {
		return
	}
	if c, s := r.keptAngles(position); c != nil {
		r.rotatePairs(dst, x, c[from:to], s[from:to], from, inverse)
		return
	}
	var c, s [64]float32
	for i := from; i < to; i += len(c) {
		n := min(len(c), to-i)
		r.computeAngles(c[:n], s[:n], i, position)
		r.rotatePairs(dst, x, c[:n], s[:n], i, inverse)
	}
}

// rotatePairs rotates len(c) pairs, from being the first.
func (r *Rope) rotatePairs(dst, x, c, s []float32, from int, inverse bool) {
	if r.config.Interleaved {
		elements.RotatePairs(isa, dst[2*from:], x[2*from:], c, s, inverse)
		return
	}
	elements.RotateHalves(isa, dst[from:], x[from:], c, s, r.config.Dim/2, inverse)
}

// keptAngles returns the cosines and sines of a position, or nil where they are not kept.
func (r *Rope) keptAngles(position int) (c, s []float32) {
	switch half := r.config.Dim / 2; {
	case r.cos != nil:
		at := position * half
		return r.cos[at : at+half], r.sin[at : at+half]
	case position < ropeKept && r.kept != nil:
		return r.angles(position)
	}
	return nil, nil
}

// angles returns the cosines and sines of a position below ropeKept.
func (r *Rope) angles(position int) (c, s []float32) {
	half, bit := r.config.Dim/2, uint64(1)<<(position%ropePositions)
	block := r.kept[position/ropePositions].Load()
	if block == nil || block.filled.Load()&bit == 0 {
		block = r.fillBlock(position)
	}
	row := block.values[position%ropePositions*2*half:]
	return row[:half], row[half : 2*half]
}

// fillBlock computes the angles of a position, unless another goroutine has done so, and returns
// the block.
func (r *Rope) fillBlock(position int) *ropeBlock {
	r.filling.Lock()
	defer r.filling.Unlock()
	half, bit := r.config.Dim/2, uint64(1)<<(position%ropePositions)
	block := r.kept[position/ropePositions].Load()
	if block == nil {
		block = &ropeBlock{values: make([]float32, ropePositions*2*half)}
		r.kept[position/ropePositions].Store(block)
	}
	if block.filled.Load()&bit == 0 {
		row := block.values[position%ropePositions*2*half:]
		r.computeAngles(row[:half], row[half:2*half], 0, position)
		block.filled.Or(bit)
	}
	return block
}

// computeAngles writes the cosines and sines of len(c) pairs, from being the first.
func (r *Rope) computeAngles(c, s []float32, from, position int) {
	for i := range c {
		sine, cosine := sincos(float64(float64(position) * r.frequency[from+i]))
		c[i], s[i] = float32(float64(cosine*r.attention)), float32(float64(sine*r.attention))
	}
}
