package cluster

import "github.com/seed-1415985d/attn"

// attendRequest asks for the states of queries over parts of a layer.
type attendRequest struct {
	layer   uint32
	heads   int
	rows    int  // queries
	whole   bool // the parts are all that there is: outputs are wanted, not a state
	q       []float32
	options attendOptions
	pairs   pairHeads
	parts   []attendPart
}

// attendOptions are the options that are the same for all parts.
type attendOptions struct {
	scale, softcap float32
	causal         bool // by the offset: attn.TopLeft
	integers       bool
	window         attn.Window
	slopes, sinks  []float32
}

// pairHeads are the heads of what parts have for pairs of a query and a key: none, one for all
// heads, or all.
type pairHeads struct{ mask, bias, blocks int }

// attendPart is what is asked of one copy.
type attendPart struct {
	copy   uint64
	epoch  uint32
	first  int // number in the copy of the first key that is asked for, which begins a run
	keys   int // from there on
	offset int // position of query 0 among them
	// joins says that its keys follow those of the part before it, and that the two are to have one
	// state.
	joins bool
	// before and after are how many keys of the state no query sees, of which nothing is asked: those
	// between the part and the one before it, or before the first one, and those after the last one.
	before, after int
	// Of the keys, with the heads of pairs: mask and bias have rows × keys of each, blocks an element
	// for each attn.Block of either.
	mask, blocks []bool
	bias         []float32
}

// What marks of a part say.
const (
	markJoins = 1 << iota
	markBefore
	markAfter
	marks
)

// leastPart is the bytes of a part with nothing for pairs, and leastAttend those of a request
// without parts.
const (
	leastPart   = 29
	leastAttend = 67
)

// mostParts is how many parts a request has at most: a sequence has no more. partCost is about what
// is made of one: what is asked for, where it is, what of it is computed together, and an error.
const (
	mostParts = most / attn.Segment
	partCost  = 640
)

func (r *attendRequest) wire(c *codec) {
	c.u32(&r.layer)
	c.size("heads", &r.heads)
	c.size("queries", &r.rows)
	c.flag(&r.whole)
	c.floats(&r.q)
	if n := uint64(r.heads) * uint64(r.rows); n > uint64(len(r.q)) {
		c.refuse("q has %d elements, want at least one for each of %d heads and %d rows", len(r.q),
			r.heads, r.rows)
	}
	r.options.wire(c)
	r.pairs.wire(c, r.heads)
	n := c.limited(len(r.parts), leastPart, "parts", c.parts, mostParts)
	c.parts += n
	i := 0
	each(c, &r.parts, n, partCost, func(p *attendPart) {
		p.wire(c)
		c.bits("mask", &p.mask, r.pairs.mask, r.rows, p.keys)
		c.table("bias", &p.bias, r.pairs.bias, r.rows, p.keys)
		c.bits("blocks", &p.blocks, r.pairs.blocks, blocksOf(r.rows), blocksOf(p.keys))
		if c.follows(r.parts[:i], p); r.whole && i > 0 && !p.joins {
			c.refuse("outputs are wanted of parts that do not join")
		}
		i++
	})
}

func (p *pairHeads) wire(c *codec, heads int) {
	c.size("a mask", &p.mask)
	c.size("a bias", &p.bias)
	c.size("blocks", &p.blocks)
	for _, n := range []int{p.mask, p.bias, p.blocks} {
		if n > 1 && n != heads {
			c.refuse("a mask, a bias or blocks have %d heads, want 0, 1 or %d", n, heads)
		}
	}
}

// bytes is what so many rows and keys of a part take.
func (p *pairHeads) bytes(rows, keys int) int64 {
	of := func(heads, rows, width int) int64 { return int64(heads) * int64(rows) * int64(width) }
	return of(p.mask, rows, bitBytes(keys)) + of(p.bias, rows, 4*keys) +
		of(p.blocks, blocksOf(rows), bitBytes(blocksOf(keys)))
}

// blocksOf is how many blocks some queries or keys have.
func blocksOf(n int) int { return (n + attn.Block - 1) / attn.Block }

func (o *attendOptions) wire(c *codec) {
	c.f32(&o.scale)
	c.f32(&o.softcap)
	c.flag(&o.causal)
	c.flag(&o.integers)
	c.offset("Window.Left", &o.window.Left)
	c.offset("Window.Right", &o.window.Right)
	c.floats(&o.slopes)
	c.floats(&o.sinks)
}

// wire is a part but for what it has for pairs.
func (p *attendPart) wire(c *codec) {
	c.u64(&p.copy)
	c.u32(&p.epoch)
	c.size("first", &p.first)
	if c.size("keys", &p.keys); p.keys < 1 {
		c.refuse("a part has %d keys, want at least 1", p.keys)
	}
	c.offset("an offset", &p.offset)
	mark := uint8(0)
	for bit, is := range []bool{p.joins, p.before > 0, p.after > 0} {
		if is {
			mark |= 1 << bit
		}
	}
	if c.u8(&mark); mark >= marks {
		c.refuse("the marks of a part are %d, want less than %d", mark, marks)
	}
	set(c, &p.joins, mark&markJoins != 0)
	if mark&markBefore != 0 {
		c.size("keys before", &p.before)
	}
	if mark&markAfter != 0 {
		c.size("keys after", &p.after)
	}
}

// follows makes sure that a part that joins others is where those end.
func (d *codec) follows(before []attendPart, p *attendPart) {
	if !p.joins {
		return
	}
	if len(before) == 0 {
		d.refuse("the first part joins one before it")
		return
	}
	last := &before[len(before)-1]
	if p.offset != last.offset-last.keys-p.before || last.after > 0 {
		d.refuse("query 0 is at %d of a part, want %d-%d-%d, which the part that it joins has, and the "+
			"keys before it; that has %d after it, want none", p.offset, last.offset, last.keys, p.before,
			last.after)
	}
}

// attendReply is a state, or outputs, for each part, empty for those that join another, or why
// there is none: for all of them, or for each.
type attendReply struct {
	err    error
	states [][]byte
	errors []error
}

func (r *attendReply) wire(c *codec) {
	if c.fault(&r.err); r.err != nil {
		return
	}
	for i := range r.states {
		if c.fault(&r.errors[i]); r.errors[i] == nil {
			c.bytes(&r.states[i])
		}
	}
}
