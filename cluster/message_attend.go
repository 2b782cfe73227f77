package cluster

import (
	"slices"

	"github.com/seed-1415985d/attn"
)

// attendRequest asks for the states of queries over parts of a layer.
type attendRequest struct {
	layer   uint32
	heads   int
	rows    int  // queries
	whole   bool // the only group has all keys: outputs are wanted, not a state
	q       []float32
	options *attn.Options // options that are the same for all parts
	pairs   pairHeads
	groups  []attendGroup
}

// attendGroup is parts with consecutive keys and a common state.
type attendGroup struct {
	offset int // position of query 0 among the keys of the state
	parts  []attendPart
	after  int // number of keys of the state after the keys of the parts: no query sees them
}

// pairHeads are the heads of Mask, Bias and Blocks in parts: none, one for all heads, or all.
type pairHeads struct{ mask, bias, blocks int }

// attendPart is the request to one copy.
type attendPart struct {
	copy  uint64
	epoch uint32
	first int // number of the first wanted key in the copy, which begins a run
	keys  int // from there on
	// before is the number of keys between the part and the part before it, or before the first part:
	// no query sees them, and no copy is asked for them.
	before int
	// For the keys, with the heads of pairHeads: mask and bias have rows × keys each, blocks an
	// element for each attn.Block of either.
	mask, blocks []bool
	bias         []float32
}

// leastPart is the bytes of a part without pairs, leastGroup of a group without parts, and
// leastAttend of a request without groups.
const (
	leastPart   = 24
	leastGroup  = 16
	leastAttend = 67
)

// mostParts is the largest number of parts of a request, and of a sequence. partCost is about the
// memory of a decoded part, its copy and its error; groupCost the memory of a group.
const (
	mostParts = maxLength / attn.Segment
	partCost  = 320
	groupCost = 320
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
	o := r.options
	if o == nil { // none are set, or none are read yet
		o = new(attn.Options)
	}
	c.options(o)
	set(c, &r.options, o)
	r.pairs.wire(c, r.heads)
	n := c.limited(len(r.groups), leastGroup, "groups", 0, mostParts)
	if each(c, &r.groups, n, groupCost, func(g *attendGroup) { r.group(c, g) }); r.whole && n != 1 {
		c.refuse("outputs are wanted of %d groups, want one", n)
	}
}

func (r *attendRequest) group(c *codec, g *attendGroup) {
	c.offset("an offset", &g.offset)
	n := c.limited(len(g.parts), leastPart, "parts", c.parts, mostParts)
	if c.parts += n; n == 0 {
		c.refuse("a group has no parts")
	}
	each(c, &g.parts, n, partCost, func(p *attendPart) {
		c.u64(&p.copy)
		c.u32(&p.epoch)
		c.size("first", &p.first)
		c.size("keys", &p.keys)
		if c.size("keys before", &p.before); p.keys < 1 {
			c.refuse("a part has %d keys, want at least 1", p.keys)
		}
		c.bits("mask", &p.mask, r.pairs.mask, r.rows, p.keys)
		c.table("bias", &p.bias, r.pairs.bias, r.rows, p.keys)
		c.bits("blocks", &p.blocks, r.pairs.blocks, blocksOf(r.rows), blocksOf(p.keys))
	})
	c.size("keys after", &g.after)
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

// bytes returns the bytes of the pairs of some rows and keys of a part.
func (p *pairHeads) bytes(rows, keys int) int64 {
	of := func(heads, rows, width int) int64 { return int64(heads) * int64(rows) * int64(width) }
	return of(p.mask, rows, bitBytes(keys)) + of(p.bias, rows, 4*keys) +
		of(p.blocks, blocksOf(rows), bitBytes(blocksOf(keys)))
}

// blocksOf returns the number of blocks of some queries or keys.
func blocksOf(n int) int { return (n + attn.Block - 1) / attn.Block }

// options are the options in messages; Causal counts with the offset of a group.
func (c *codec) options(o *attn.Options) {
	causal := o.Causal != attn.Full
	c.f32(&o.Scale)
	c.f32(&o.Softcap)
	c.flag(&causal)
	c.flag(&o.Integers)
	c.offset("Window.Left", &o.Window.Left)
	c.offset("Window.Right", &o.Window.Right)
	c.floats(&o.Slopes)
	if c.floats(&o.Sinks); causal {
		set(c, &o.Causal, attn.TopLeft)
	}
}

// attendReply has the outcome of each group, or one error for all.
type attendReply struct {
	err    error
	groups []groupReply
}

// groupReply is a state, or outputs, or the errors of its parts.
type groupReply struct {
	state  []byte
	errors []error
}

func (r *attendReply) wire(c *codec) {
	if c.fault(&r.err); r.err != nil {
		return
	}
	for i := range r.groups {
		g := &r.groups[i]
		for j := range g.errors {
			c.fault(&g.errors[j])
		}
		if !failed(g.errors) {
			c.bytes(&g.state)
		}
	}
}

// failed reports whether there are errors.
func failed(all []error) bool {
	return slices.ContainsFunc(all, func(err error) bool { return err != nil })
}
