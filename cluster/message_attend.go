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

// attendPart is what is asked of one copy.
type attendPart struct {
	copy   uint64
	epoch  uint32
	keys   int // the first ones of the part
	offset int // position of query 0 among them
	// joins says that its keys follow those of the part before it, and that the two are to have one
	// state.
	joins bool
	// mask and bias are those of the keys: maskHeads or biasHeads, rows, keys; none if there are no
	// heads.
	maskHeads, biasHeads int
	mask                 []bool
	bias                 []float32
}

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
	e.u32(uint32(len(r.parts)))
	for i := range r.parts {
		e.part(&r.parts[i])
	}
}

// size is about how many bytes the request has.
func (r *attendRequest) size() int {
	n := 128 + 4*(len(r.q)+len(r.options.slopes)+len(r.options.sinks))
	for i := range r.parts {
		n += 64 + len(r.parts[i].mask) + 4*len(r.parts[i].bias)
	}
	return n
}

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
	e.u32(uint32(p.keys))
	e.u64(uint64(p.offset))
	e.flag(p.joins)
	e.u32(uint32(p.maskHeads))
	e.u32(uint32(len(p.mask)))
	for _, visible := range p.mask {
		e.flag(visible)
	}
	e.u32(uint32(p.biasHeads))
	e.floats(p.bias)
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
	r.parts = make([]attendPart, d.list(41))
	for i := range r.parts {
		r.parts[i] = d.part()
		p := &r.parts[i]
		d.match("mask", len(p.mask), p.maskHeads, r.rows, p.keys)
		d.match("bias", len(p.bias), p.biasHeads, r.rows, p.keys)
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
	} else if last := &before[len(before)-1]; p.offset != last.offset-last.keys {
		d.refuse("query 0 is at %d of a part, want %d-%d, which the part that it joins has", p.offset,
			last.offset, last.keys)
	}
}

// match makes sure that a list has as many elements as its three dimensions say.
func (d *decoder) match(name string, n, heads, rows, keys int) {
	product := uint64(heads) * uint64(rows) // each at most most
	if product <= most*8 {                  // no message has more
		product *= uint64(keys)
	}
	if d.err == nil && product != uint64(n) {
		d.refuse("%s has %d elements, want %d×%d×%d", name, n, heads, rows, keys)
	}
}

func (d *decoder) options() (o attendOptions) {
	o.scale, o.softcap = d.f32(), d.f32()
	o.causal, o.integers = d.flag(), d.flag()
	o.window = attn.Window{Left: d.offset("Window.Left"), Right: d.offset("Window.Right")}
	o.slopes, o.sinks = d.floats(), d.floats()
	return o
}

func (d *decoder) part() (p attendPart) {
	p.copy, p.epoch, p.keys, p.offset = d.u64(), d.u32(), d.size("keys"), d.offset("offset")
	p.joins = d.flag()
	p.maskHeads = d.size("heads of a mask")
	p.mask = d.flags()
	p.biasHeads = d.size("heads of a bias")
	p.bias = d.floats()
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
	for _, state := range r.states {
		n += 8 + len(state)
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
