package attn

// Few rows wait for keys and values more than they compute. Where the processor wants
// that, their kernels ask for a line of what follows for each line that they read, in the
// order of gen/pagedPrefetch.go. They do so along a stream: memory without gaps, of which the
// kernels get the address where reading is. What they ask for is prefetchWindow behind it. No
// result depends on it.
//
// The keys of a cache are such a stream, and those of a view if a head's rows follow each
// other. If the heads of a token do, the tokens are one, of which a block goes to the heads in
// equal shares: while head h reads this block, it asks for share h of the next one. Where that
// would be too much for the cache, blocks have parts (parts.go).

const (
	pageBytes      = 4096          // what one translation of an address is for
	prefetchWindow = 8 * pageBytes // scatterWindow in gen/pagedPrefetch.go
)

// follow sets the streams of a block for some rows.
func (p *plan) follow(c *chunk, b *block) {
	if p.cache == nil {
		b.pointer, b.layout.pointer = p.prefetchPointer(&p.k, c, b.first), p.prefetchPointer(&p.v, c, b.first)
	} else if tuned.reads == pagedReads && c.rows <= tuned.fewRows {
		b.pointer, b.layout.pointer = address(b.k, 0), address(b.v, 0)
	}
}

// prefetchPointer is where the stream of keys or values is at the block that starts at key first.
func (p *plan) prefetchPointer(x *Tensor, c *chunk, first int) uintptr {
	switch next := first + Block; {
	case !p.follows(x, c):
		return 0
	case x.SL == x.D:
		return address(x.Data, x.offset(c.b, c.kv, first))
	case next < x.L:
		return address(x.Data, x.offset(c.b, 0, next)+c.kv*Block*x.D) - prefetchWindow
	}
	return 0
}

// follows reports whether the chunk's rows follow a stream in x, the keys or the values.
func (p *plan) follows(x *Tensor, c *chunk) bool {
	return tuned.reads == pagedReads && c.rows <= tuned.fewRows && (x.SL == x.D || p.headsPerChunk == x.H && p.tokensContiguous(x))
}

// tokensContiguous reports whether the heads of a token follow each other, and so do tokens. What is
// asked for is read a block of tokens later, or a part of one: more than the L2 cache holds
// of keys or of values has not been tried.
func (p *plan) tokensContiguous(x *Tensor) bool {
	keys := Block
	if p.hasParts(x.H) {
		keys = 2 * panel
	}
	return x.SH == x.D && x.SL == x.H*x.D && 2*4*keys*x.SL <= tuned.l2
}
