package attn

// int8Blocks is keys and values of a head of the caller's views as integers, block by block in
// format I8. As many as maxKeptBytes hold stay until the head is another one, because all chunks of
// its rows read them; those behind take turns in the last place.
type int8Blocks struct {
	format packedKV
	data   []byte
	kept   []bool // blocks of the head that are integers
	b, kv  int    // the head
	last   int    // the block in the last place, -1 if there is none
}

// maxKeptBytes bounds what is kept of a head: 32768 tokens of two times 128 elements.
const maxKeptBytes = 8 << 20

// fit makes the memory large enough for a call, and forgets the blocks of the call before.
func (x *int8Blocks) fit(p *plan) {
	if x.format.d != p.d || x.format.dv != p.dv || x.format.block == 0 {
		x.format = newPackedKV(I8, 1, p.d, p.dv, false)
	}
	n := 0
	if p.chunksPerHead > 1 {
		n = min((p.lk+Block-1)/Block, maxKeptBytes/x.format.block)
	}
	x.data, x.kept = grow(x.data, (n+1)*x.format.block), grow(x.kept, n)[:n]
	x.forget(-1, -1)
}

// forget begins with another head.
func (x *int8Blocks) forget(b, kv int) {
	x.b, x.kv, x.last = b, kv, -1
	clear(x.kept)
}

// int8Block is the block with key first of the chunk's head, in a call over views.
func (w *scratch) int8Block(p *plan, c *chunk, first int) []byte {
	x, i := &w.int8.blocks, first/Block
	if x.b != c.b || x.kv != c.kv {
		x.forget(c.b, c.kv)
	}
	place := min(i, len(x.kept))
	to := x.data[place*x.format.block:][:x.format.block]
	switch {
	case place == len(x.kept) && x.last == i, place < len(x.kept) && x.kept[place]:
		return to
	case place == len(x.kept):
		x.last = i
	default:
		x.kept[place] = true
	}
	from := max(first, c.from)
	n := min(first+Block, c.keys) - from
	w.writer.fit(&x.format)
	w.writer.writeKeys(&x.format, to, from-first, p.k.Data[p.k.offset(c.b, c.kv, from):], p.k.SL, n)
	w.writer.writeValues(&x.format, to, from-first, p.v.Data[p.v.offset(c.b, c.kv, from):], p.v.SL, n)
	return to
}
