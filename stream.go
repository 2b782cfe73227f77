package attn

import (
	"unsafe"

	"github.com/klauspost/cpuid/v2"
)

// Few rows wait for keys and values more than they compute. Where the processor wants
// that, their kernels ask for a line of what follows for each line that they read, in the
// order of gen/scattered.go. They do so along a stream: memory without gaps, of which the
// kernels get the address where reading is. What they ask for is streamWindow behind it. No
// result depends on it.
//
// The keys of a cache are such a stream, and those of a view if a head's rows follow each
// other. If the heads of a token do, the tokens are one, of which a block goes to the heads in
// equal shares: while head h reads this block, it asks for share h of the next one. Where that
// would be too much for the cache, blocks have parts (parts.go).

const (
	pageBytes    = 4096          // what one translation of an address is for
	streamWindow = 8 * pageBytes // scatterWindow in gen/scattered.go
)

// streamRows is up to how many rows follow a stream, and go together with those of other
// heads. With 8 lanes, each tile of rows asks again.
func streamRows() int {
	if active == avx512 {
		return 128
	}
	return 64
}

// follow sets the streams of a block for some rows.
func (p *plan) follow(c *chunk, b *block) {
	if p.cache == nil {
		b.stream, b.values.stream = p.streamOf(&p.k, c, b.first), p.streamOf(&p.v, c, b.first)
	} else if scattered && c.rows <= streamRows() {
		b.stream, b.values.stream = address(b.k, 0), address(b.v, 0)
	}
}

// streamOf is where the stream of keys or values is at the block that starts at key first.
func (p *plan) streamOf(x *Tensor, c *chunk, first int) uintptr {
	switch next := first + Block; {
	case !p.follows(x, c):
		return 0
	case x.SL == x.D:
		return address(x.Data, x.offset(c.b, c.kv, first))
	case next < x.L:
		return address(x.Data, x.offset(c.b, 0, next)+c.kv*Block*x.D) - streamWindow
	}
	return 0
}

// follows reports whether the chunk's rows follow a stream in x, the keys or the values.
func (p *plan) follows(x *Tensor, c *chunk) bool {
	return scattered && c.rows <= streamRows() && (x.SL == x.D || p.abreast == x.H && p.tokensFollow(x))
}

// tokensFollow reports whether the heads of a token follow each other, and so do tokens. What is
// asked for is read a block of tokens later, or a part of one: more than the L2 cache holds
// of keys or of values has not been tried.
func (p *plan) tokensFollow(x *Tensor) bool {
	keys := Block
	if p.hasParts(x.H) {
		keys = 2 * panel
	}
	return x.SH == x.D && x.SL == x.H*x.D && 2*4*keys*x.SL <= cacheSize(cpuid.CPU.Cache.L2)
}

// address is that of x[at], which need not exist.
func address[T any](x []T, at int) uintptr {
	var element T
	return uintptr(unsafe.Pointer(unsafe.SliceData(x))) + uintptr(at)*unsafe.Sizeof(element)
}

// moveStream says that n elements have been read.
func (a *ahead) moveStream(n int) {
	if a != nil && a.stream != 0 {
		a.stream += uintptr(4 * n)
	}
}
