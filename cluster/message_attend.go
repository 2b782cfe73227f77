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
	leastPart   = 25
	leastAttend = 67
)

// mostParts is how many parts a request has at most: a sequence has no more. partCost is about what
// is made of one: what is asked for, where it is, what of it is computed together, and an error.
const (
	mostParts = most / attn.Segment
	partCost  = 640
)

func (r *attendRequest) encode(client clientID) []byte {
	e := beginRequest(opAttend, client)
	e.data = slices.Grow(e.data, r.size())
	r.write(e)
	return e.data
}

// write writes the request without its beginning, as a step has it.
func (r *attendRequest) write(e *encoder) {
	e.u32(r.layer)
	e.u32(uint32(r.heads))
	e.u32(uint32(r.rows))
	e.flag(r.whole)
	e.floats(r.q)
	e.options(&r.options)
	e.u32(uint32(r.pairs.mask))
	e.u32(uint32(r.pairs.bias))
	e.u32(uint32(r.pairs.blocks))
	e.u32(uint32(len(r.parts)))
	for i := range r.parts {
		e.part(&r.parts[i])
	}
}

// size is about how many bytes the request has.
func (r *attendRequest) size() int {
	n := 128 + 4*(len(r.q)+len(r.options.slopes)+len(r.options.sinks))
	for i := range r.parts {
		n += leastPart + 8 + int(r.pairs.bytes(r.rows, r.parts[i].keys))
	}
	return n
}

// bytes is what so many rows and keys of a part take.
func (p *pairHeads) bytes(rows, keys int) int64 {
	of := func(heads, rows, width int) int64 { return int64(heads) * int64(rows) * int64(width) }
	return of(p.mask, rows, bitBytes(keys)) + of(p.bias, rows, 4*keys) +
		of(p.blocks, blocksOf(rows), bitBytes(blocksOf(keys)))
}

// blocksOf is how many blocks some queries or keys have.
func blocksOf(n int) int { return (n + attn.Block - 1) / attn.Block }

func (e *encoder) options(o *attendOptions) {
	e.f32(o.scale)
	e.f32(o.softcap)
	e.flag(o.causal)
	e.flag(o.integers)
	e.u64(uint64(o.window.Left))
	e.u64(uint64(o.window.Right))
	e.floats(o.slopes)
	e.floats(o.sinks)
}

func (e *encoder) part(p *attendPart) {
	e.u64(p.copy)
	e.u32(p.epoch)
	e.u32(uint32(p.first))
	e.u32(uint32(p.keys))
	e.u32(uint32(int32(p.offset)))
	mark := uint8(0)
	for bit, is := range []bool{p.joins, p.before > 0, p.after > 0} {
		if is {
			mark |= 1 << bit
		}
	}
	e.u8(mark)
	if p.before > 0 {
		e.u32(uint32(p.before))
	}
	if p.after > 0 {
		e.u32(uint32(p.after))
	}
	e.bits(p.mask, p.keys)
	e.row(p.bias)
	e.bits(p.blocks, blocksOf(p.keys))
}

func (r *attendRequest) decode(d *decoder) error {
	r.read(d)
	return d.end()
}

func (r *attendRequest) read(d *decoder) {
	r.layer = d.u32()
	r.heads, r.rows, r.whole = d.size("heads"), d.size("queries"), d.flag()
	r.q = d.floats()
	if n := uint64(r.heads) * uint64(r.rows); n > uint64(len(r.q)) {
		d.refuse("q has %d elements, want at least one for each of %d heads and %d rows", len(r.q),
			r.heads, r.rows)
	}
	r.options = d.options()
	for _, x := range []struct {
		name string
		n    *int
	}{{"a mask", &r.pairs.mask}, {"a bias", &r.pairs.bias}, {"blocks", &r.pairs.blocks}} {
		if *x.n = d.size(x.name); *x.n > 1 && *x.n != r.heads {
			d.refuse("%s has %d heads, want 0, 1 or %d", x.name, *x.n, r.heads)
		}
	}
	n := d.atMost("parts", leastPart, d.parts, mostParts)
	d.parts += n
	r.parts = make([]attendPart, d.room(n, partCost))
	for i := range r.parts {
		if d.err != nil {
			return
		}
		p := &r.parts[i]
		*p = d.part()
		p.mask = d.bits("mask", r.pairs.mask, r.rows, p.keys)
		p.bias = d.table("bias", r.pairs.bias, r.rows, p.keys)
		p.blocks = d.bits("blocks", r.pairs.blocks, blocksOf(r.rows), blocksOf(p.keys))
		if d.follows(r.parts[:i], p); r.whole && i > 0 && !p.joins {
			d.refuse("outputs are wanted of parts that do not join")
		}
	}
}

// follows makes sure that a part that joins others is where those end.
func (d *decoder) follows(before []attendPart, p *attendPart) {
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

func (d *decoder) options() (o attendOptions) {
	o.scale, o.softcap = d.f32(), d.f32()
	o.causal, o.integers = d.flag(), d.flag()
	o.window = attn.Window{Left: d.offset("Window.Left"), Right: d.offset("Window.Right")}
	o.slopes, o.sinks = d.floats(), d.floats()
	return o
}

// part reads a part but for what it has for pairs.
func (d *decoder) part() (p attendPart) {
	p.copy, p.epoch, p.first, p.keys = d.u64(), d.u32(), d.size("first"), d.size("keys")
	p.offset = int(int32(d.u32()))
	if p.keys < 1 {
		d.refuse("a part has %d keys, want at least 1", p.keys)
	}
	if p.offset > 2*most || p.offset < -2*most {
		d.refuse("an offset is %d, want at most %d either way", p.offset, 2*most)
	}
	mark := d.u8()
	if mark >= marks {
		d.refuse("the marks of a part are %d, want less than %d", mark, marks)
	}
	p.joins = mark&markJoins != 0
	if mark&markBefore != 0 {
		p.before = d.size("keys before")
	}
	if mark&markAfter != 0 {
		p.after = d.size("keys after")
	}
	return p
}

// attendReply is a state, or outputs, for each part, empty for those that join another, or why
// there is none.
type attendReply struct {
	states [][]byte
	errors []error
}

func (r *attendReply) encode() []byte {
	e := beginReply()
	r.write(e)
	return e.data
}

// write writes the reply without its beginning, as that to a step has it.
func (r *attendReply) write(e *encoder) {
	e.data = slices.Grow(e.data, r.size())
	e.u32(uint32(len(r.states)))
	for i, state := range r.states {
		e.fault(r.errors[i])
		if r.errors[i] == nil {
			e.bytes(state)
		}
	}
}

// size is about how many bytes the reply has.
func (r *attendReply) size() int {
	n := 4
	for i, state := range r.states {
		n += 5 + len(state) + faultSize(r.errors[i])
	}
	return n
}

// decode reads the answers for some parts.
func (r *attendReply) decode(d *decoder, worker string, parts int) error {
	r.read(d, worker, parts)
	return d.end()
}

func (r *attendReply) read(d *decoder, worker string, parts int) {
	n := d.list(1)
	if n != parts {
		d.refuse("worker %s sent %d states, want %d", worker, n, parts)
		return
	}
	r.states, r.errors = make([][]byte, n), make([]error, n)
	for i := range n {
		if r.errors[i] = d.fault(worker); r.errors[i] == nil {
			r.states[i] = d.bytes()
		}
		if d.err != nil {
			return
		}
	}
}
