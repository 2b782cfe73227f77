package cluster

import (
	"slices"

	"github.com/seed-1415985d/attn"
)

// appendRequest adds tokens to a layer of a copy.
type appendRequest struct {
	copy     uint64
	epoch    uint32
	layer    uint32
	position int // in the part
	pieces   []tokenPiece
}

// tokenPiece is tokens that follow those of the piece before it: elements, or a run.
type tokenPiece struct {
	tokens int
	k, v   []byte // one token after another, the heads of each side by side: appendElements
	saved  []byte // or tokens from the beginning of a run on, as attn.Sequence.Save writes them
}

// mostPieces is how many pieces a request has at most, leastAppend the bytes of one without any,
// leastPiece those of a piece without bytes, and pieceCost what is made of that.
const (
	mostPieces  = 1 << 16
	leastAppend = 24
	leastPiece  = 16
	pieceCost   = 80
)

func (r *appendRequest) encode(client clientID) []byte {
	e := beginRequest(opAppend, client)
	e.data = slices.Grow(e.data, r.size())
	r.write(e)
	return e.data
}

// size is about how many bytes the request has.
func (r *appendRequest) size() int {
	n := 64
	for i := range r.pieces {
		p := &r.pieces[i]
		n += leastPiece + len(p.k) + len(p.v) + len(p.saved)
	}
	return n
}

// write writes the request without its beginning, as a step has it.
func (r *appendRequest) write(e *encoder) {
	e.u64(r.copy)
	e.u32(r.epoch)
	e.u32(r.layer)
	e.u32(uint32(r.position))
	e.u32(uint32(len(r.pieces)))
	for i := range r.pieces {
		p := &r.pieces[i]
		e.u32(uint32(p.tokens))
		e.bytes(p.k)
		e.bytes(p.v)
		e.bytes(p.saved)
	}
}

func (r *appendRequest) decode(d *decoder) error {
	r.read(d)
	return d.end()
}

func (r *appendRequest) read(d *decoder) {
	r.copy, r.epoch, r.layer = d.u64(), d.u32(), d.u32()
	r.position = d.size("position")
	n := d.atMost("pieces", leastPiece, d.pieces, mostPieces)
	d.pieces += n
	r.pieces = make([]tokenPiece, d.room(n, pieceCost))
	for i := range r.pieces {
		p := &r.pieces[i]
		if *p = (tokenPiece{d.size("tokens"), d.bytes(), d.bytes(), d.bytes()}); p.tokens < 1 {
			d.refuse("a piece has %d tokens, want at least 1", p.tokens)
			return
		}
	}
}

// tokens is how many tokens there are in all.
func (r *appendRequest) tokens() (n int64) {
	for i := range r.pieces {
		n += int64(r.pieces[i].tokens)
	}
	return n
}

// check makes sure that a piece has the bytes of its tokens. Sizes are of a worker's limits, so
// products fit 64 bits.
func (p *tokenPiece) check(of *part) error {
	s := &of.shape
	heads := int64(p.tokens) * int64(s.kvHeads)
	k := heads * int64(s.headDim) * int64(wireBytes(s.format))
	v := heads * int64(s.values()) * int64(wireBytes(s.valueFormat))
	switch {
	case len(p.saved) > 0 && (len(p.k)|len(p.v) != 0 || p.tokens < 1 || p.tokens > of.long):
		return fail(attn.ErrShape, "a run of %d tokens has %d and %d bytes of elements, want none and 1 "+
			"to %d tokens", p.tokens, len(p.k), len(p.v), of.long)
	case len(p.saved) == 0 && (int64(len(p.k)) != k || int64(len(p.v)) != v):
		return fail(attn.ErrShape, "k and v have %d and %d bytes, want those of %d tokens of %d heads "+
			"of %d in %v and %d in %v", len(p.k), len(p.v), p.tokens, s.kvHeads, s.headDim,
			wireFormat(s.format), s.values(), wireFormat(s.valueFormat))
	}
	return nil
}

// appendTo adds tokens [from, to) of a piece of elements to a run.
func (p *tokenPiece) appendTo(r *run, s *shape, from, to int) error {
	b, _ := elementBuffers.Get().(*[2][]float32)
	if b == nil {
		b = new([2][]float32)
	}
	view := func(i int, raw []byte, f attn.Format, dim int) attn.Tensor {
		token := s.kvHeads * dim * wireBytes(f)
		b[i] = elements(f, raw[from*token:to*token], b[i])
		return attn.BLHD(b[i], 1, to-from, s.kvHeads, dim)
	}
	var v attn.Tensor
	k := view(0, p.k, s.format, s.headDim)
	if !s.valuesInKeys {
		v = view(1, p.v, s.valueFormat, s.valueDim)
	}
	err := r.Append(k, v)
	if 4*max(cap(b[0]), cap(b[1])) <= mostReused {
		elementBuffers.Put(b)
	}
	return err
}
