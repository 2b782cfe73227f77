package cluster

import "github.com/seed-1415985d/attn"

// appendRequest adds tokens to a layer of a copy.
type appendRequest struct {
	copy     uint64
	epoch    uint32
	layer    uint32
	position int // in the part
	pieces   []tokenPiece
}

// tokenPiece is tokens that follow the piece before it: elements, or a run.
type tokenPiece struct {
	tokens int
	k, v   []byte // one token after another, with adjacent heads: appendElements
	saved  []byte // or the first tokens of a run, as attn.Sequence.Save writes them
}

// mostPieces is the largest number of pieces of a request, leastAppend the bytes of a request
// without pieces, leastPiece the bytes of a piece without content, and pieceCost the memory of a
// decoded piece.
const (
	mostPieces  = 1 << 16
	leastAppend = 24
	leastPiece  = 16
	pieceCost   = 80
)

func (r *appendRequest) wire(c *codec) {
	c.u64(&r.copy)
	c.u32(&r.epoch)
	c.u32(&r.layer)
	c.size("position", &r.position)
	n := c.limited(len(r.pieces), leastPiece, "pieces", c.pieces, mostPieces)
	c.pieces += n
	each(c, &r.pieces, n, pieceCost, func(p *tokenPiece) {
		c.size("tokens", &p.tokens)
		c.bytes(&p.k)
		c.bytes(&p.v)
		if c.bytes(&p.saved); p.tokens < 1 {
			c.refuse("a piece has %d tokens, want at least 1", p.tokens)
		}
	})
}

// tokens returns the total number of tokens.
func (r *appendRequest) tokens() (n int64) {
	for i := range r.pieces {
		n += int64(r.pieces[i].tokens)
	}
	return n
}

// check verifies that a piece has the bytes of its tokens. Sizes are within a worker's limits, so
// products fit 64 bits.
func (p *tokenPiece) check(of *part) error {
	s := &of.shape
	heads := int64(p.tokens) * int64(s.KVHeads)
	k := heads * int64(s.HeadDim) * int64(wireBytes(s.Format))
	v := heads * int64(s.values()) * int64(wireBytes(s.ValueFormat))
	switch {
	case len(p.saved) > 0 && (len(p.k)|len(p.v) != 0 || p.tokens < 1 || p.tokens > of.long):
		return fail(attn.ErrShape, "a run of %d tokens has %d and %d bytes of elements, want none and 1 "+
			"to %d tokens", p.tokens, len(p.k), len(p.v), of.long)
	case len(p.saved) == 0 && (int64(len(p.k)) != k || int64(len(p.v)) != v):
		return fail(attn.ErrShape, "k and v have %d and %d bytes, want those of %d tokens of %d heads "+
			"of %d in %v and %d in %v", len(p.k), len(p.v), p.tokens, s.KVHeads, s.HeadDim,
			wireFormat(s.Format), s.values(), wireFormat(s.ValueFormat))
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
		token := s.KVHeads * dim * wireBytes(f)
		b[i] = elements(f, raw[from*token:to*token], b[i])
		return attn.BLHD(b[i], 1, to-from, s.KVHeads, dim)
	}
	var v attn.Tensor
	k := view(0, p.k, s.Format, s.HeadDim)
	if !s.ValuesInKeys {
		v = view(1, p.v, s.ValueFormat, s.ValueDim)
	}
	err := r.Append(k, v)
	if 4*max(cap(b[0]), cap(b[1])) <= mostReused {
		elementBuffers.Put(b)
	}
	return err
}
