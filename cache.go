package attn

import (
	"io"
	"runtime"

	"github.com/seed-1415985d/attn/internal/file"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/packed"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/views"
)

// CacheConfig is the shape of a [Cache]. Every size must be at least 1.
type CacheConfig struct {
	Batch    int    // sequences side by side
	KVHeads  int    // key/value heads
	HeadDim  int    // dimension of queries and keys
	ValueDim int    // dimension of values and outputs
	Capacity int    // tokens that fit, of each sequence, without those that DropBefore took
	Format   Format // F32 is the zero value

	// ValueFormat is the format of values, of keys only Format then. The zero value is Format, so
	// values in F32 need keys in F32. I8 with values in I4 takes three quarters of the memory of I8.
	ValueFormat Format

	// ValuesInKeys says that the value of a token is the first ValueDim ≤ HeadDim channels of its
	// key, as in multi-head latent attention (MLA). Only keys are kept, and where tokens are
	// appended or read, v is the zero Tensor. ValueFormat is 0 or Format.
	ValuesInKeys bool
}

// Cache holds the keys and values of a batch of sequences that grow in step, token by token (a KV
// cache), in the order that the kernels read: nothing is packed or transposed when attending.
// Attending over a cache gives the bits of [Attend] on what [Cache.Read] returns: for F32 the
// tokens themselves, for F16 and BF16 what they are rounded to. I8 and I4 have definitions of their
// own, see docs/low-precision.md. No format's bits depend on the CPU, the number of workers or the
// batch.
//
// Sequences that join and leave, share tokens, or differ in length are for a [Store]. Sequences of
// a batch that was padded to one length are for a Cache with Options.KeyLens.
//
// Layers with a sliding window drop what the window has left behind: [Cache.DropBefore] gives the
// room to new tokens. Positions count from the first token that was ever appended.
//
// All memory is allocated by NewCache and Grow: Batch·KVHeads·Capacity·(HeadDim+ValueDim) elements
// of 4, 2, 1 or ½ bytes, with Capacity rounded up to a multiple of Block and ValueDim to one of 16;
// for I8 and I4 also two float32 scales for each token and head. With ValuesInKeys it is HeadDim
// elements, and one scale. [Cache.MemoryUse] says how much. Appending and attending allocate only
// where [Attend] does. From 256 KiB on, the memory is the operating system's and not the Go heap's,
// so the garbage collector does not count it. Close gives it back; without Close, it goes back some
// time after the cache has become unreachable.
//
// On Linux, NewCache asks for huge pages for 4 MiB and more: decoding takes about a tenth less time
// with them. A huge page is mostly 2 MiB, and a system that gives them on request gives whole ones:
// a head with room for that much takes that much from its first token on.
//
// Any number of goroutines may attend over a cache, Read it and Save it, at the same time. The
// methods that change it, Append, Load and Close among them, need it for themselves: closing a
// cache while another goroutine attends over it ends the program.
type Cache struct {
	config CacheConfig
	ringSpan
	packed packed.Blocks
}

// NewCache allocates an empty cache. The error is [ErrShape] for a size outside 1 to 2²⁸, a cache
// larger than memory can be, or a ValueDim above HeadDim with ValuesInKeys, [ErrMemory] for one
// that the system has no memory for, [ErrOption] for a format that does not exist.
//
// Most systems refuse what they cannot back, and back the rest when it is written to. One that is
// set to grant anything, or on which all programs together use more than there is, may end the
// program in Append.
func NewCache(c CacheConfig) (*Cache, error) {
	named := packed.Config{Name: "CacheConfig", Format: kernel.Format(c.Format),
		Values: kernel.Format(c.ValueFormat), ValuesInKeys: c.ValuesInKeys,
		Sizes: []packed.Size{{Name: "Batch", N: c.Batch}, {Name: "KVHeads", N: c.KVHeads},
			{Name: "HeadDim", N: c.HeadDim}, {Name: "ValueDim", N: c.ValueDim},
			{Name: "Capacity", N: c.Capacity}},
		Batch: c.Batch, Heads: c.KVHeads, D: c.HeadDim, DV: c.ValueDim, Blocks: blocksOf(c.Capacity)}
	blocks, err := named.Open()
	if err != nil {
		return nil, err
	}
	return &Cache{config: c, packed: blocks}, nil
}

// blocksOf is how many blocks a number of tokens takes.
func blocksOf(tokens int) int { return (tokens + Block - 1) / Block }

// Config returns the configuration that the cache has, with the Capacity that Grow gave it.
func (c *Cache) Config() CacheConfig { return c.config }

// Grow makes room for capacity tokens of each sequence; if that is not above the Capacity, it does
// nothing. The tokens stay, and are copied, so a cache that grows by a factor, such as 2, copies
// each of them a few times at most. Until they are copied there is memory for both.
//
// The errors are those of [NewCache]: [ErrShape] for a capacity that is too large, [ErrMemory] for
// one that the system has no memory for. Then nothing has changed. Like Append, it needs the cache
// for itself.
func (c *Cache) Grow(capacity int) error {
	if err := c.checkOpen(); err != nil {
		return err
	}
	if capacity <= c.config.Capacity {
		return nil
	}
	larger := c.config
	larger.Capacity = capacity
	if blocksOf(capacity) == blocksOf(c.config.Capacity) {
		c.config = larger
		return nil
	}
	grown, err := NewCache(larger)
	if err != nil {
		return err
	}
	for i := range c.blocks() {
		j, _, _ := c.at(i)
		for h := range c.heads() {
			stop.Copy(grown.packed.At(h, j/Block%grown.packed.Count),
				c.packed.At(h, j/Block%c.packed.Count))
		}
	}
	_ = c.packed.Close() // the cache has grown, whatever becomes of the memory before
	c.config, c.packed = larger, grown.packed
	return nil
}

// MemoryUse returns the bytes that the cache takes for keys and values, whatever part of them is in
// use; 0 after Close.
func (c *Cache) MemoryUse() int { return len(c.packed.Data) }

// Close gives the cache's memory back. Calls that begin later, Close among them, return
// [ErrClosed]; Len is 0.
func (c *Cache) Close() error {
	if c == nil {
		return nil
	}
	if err := c.checkOpen(); err != nil {
		return err
	}
	c.Reset()
	return c.packed.Close()
}

// checkOpen makes sure that the cache has memory.
func (c *Cache) checkOpen() error {
	if c == nil {
		return fail(ErrOption, "c is nil, want a cache")
	}
	if !c.packed.Open() {
		return fail(ErrClosed, "the cache was closed, or is not from NewCache")
	}
	return nil
}

// Len returns the position after the last token: the number of tokens of each sequence, with those
// that DropBefore took.
func (c *Cache) Len() int { return c.length }

// Reset empties the cache: positions begin at 0 again.
func (c *Cache) Reset() { c.ringSpan = ringSpan{} }

// Truncate drops the tokens of every sequence at position n and after it, as speculative decoding
// does when it rolls back. n is First to Len, or the error is [ErrLength].
func (c *Cache) Truncate(n int) error {
	if err := c.checkOpen(); err != nil {
		return err
	}
	if n < c.first || n > c.length {
		return fail(ErrLength, "n is %d, want %d to %d, the positions of the tokens", n, c.first,
			c.length)
	}
	c.length = n
	return nil
}

// Append adds any number n of tokens to every sequence, after those that it has:
//
//	k [Batch, KVHeads, n, HeadDim]
//	v [Batch, KVHeads, n, ValueDim]     the zero Tensor with ValuesInKeys
//
// Where sequences have different lengths, the caller pads them to one, and says in Options.KeyLens
// how many of the tokens exist; what the rest hold has no influence. If the cache has no room for
// n more tokens, Append returns [ErrCapacity] and changes nothing; [Cache.DropBefore] says how much
// room dropped tokens leave. A sequence may have positions up to 2²⁸, else it is [ErrLength]. In a
// cache of I8 or I4, elements that are not finite, or too large to be rotated, are [ErrOption].
//
// [Pool.AppendCache] takes all workers.
func (c *Cache) Append(k, v Tensor) error {
	x := writing{k: k, v: v}
	err := c.beginAppend(&x)
	if err == nil {
		x.run()
	}
	runtime.KeepAlive(c) // and with it its memory
	return err
}

// beginAppend validates tokens and makes room for them.
func (c *Cache) beginAppend(x *writing) error {
	if err := c.checkOpen(); err != nil {
		return err
	}
	if err := checkTokens(&c.packed, &x.k, &x.v, c.config.Batch); err != nil {
		return err
	}
	if err := c.checkRoom(x.k.L); err != nil {
		return err
	}
	if err := checkFinite(&c.packed, &x.k, &x.v); err != nil {
		return err
	}
	x.blocks, x.at = &c.packed, c.length
	c.length += x.k.L // before scratch is shared, which would hide a race from the detector
	return nil
}

// run writes all tokens on the calling goroutine.
func (x *writing) run() {
	w := scratches.Get().(*scratch)
	for i := range x.tasks() {
		x.write(&w.writer, i)
	}
	scratches.Put(w)
}

// Read copies tokens back, decoded, from position from on: as many as k and v have positions.
//
//	k [Batch, KVHeads, n, HeadDim]
//	v [Batch, KVHeads, n, ValueDim]     the zero Tensor with ValuesInKeys
//
// For F32 these are the numbers that were appended, for F16 and BF16 what they were rounded to, for
// I8 and I4 integers times their scales, and what was rotated is rotated back with the rounding
// errors of that. If these tokens are not there, the error is [ErrLength].
func (c *Cache) Read(k, v Tensor, from int) error {
	if err := c.checkOpen(); err != nil {
		return err
	}
	if err := checkTokens(&c.packed, &k, &v, c.config.Batch); err != nil {
		return err
	}
	if from < c.first || from > c.length || k.L > c.length-from {
		return fail(ErrLength, "from is %d and k.L %d, want positions %d to %d, those of the tokens",
			from, k.L, c.first, c.length)
	}
	if err := checkOutputs(&k, &v); err != nil {
		return err
	}
	for b := range k.B {
		readTokens(&c.packed, nil, &k, &v, b, from)
	}
	runtime.KeepAlive(c) // and with it its memory
	return nil
}

// Attend computes attention of queries over the tokens of the cache on the calling goroutine.
//
//	q   [Batch, H, Lq, HeadDim]     KVHeads divides H
//	dst [Batch, H, Lq, ValueDim]
//
// The number of keys is Len, or for each sequence what Options.KeyLens says. Those that DropBefore
// took do not exist, as if masked. Mask, Bias and Weights are for Len keys. To decode, append the
// new token and attend with BottomRight. Full sees the same keys if there is a single query, but
// without a Window or Slopes only: it takes the query's position from Offset.
func (c *Cache) Attend(dst, q Tensor, opt *Options) error {
	p := newPlan(dst, q, Tensor{}, Tensor{}, opt)
	err := c.plan(&p, opt)
	if err == nil && !p.dst.empty() {
		p.decide(&tuned, 1)
		p.attend()
	}
	runtime.KeepAlive(c) // and with it its memory
	return err
}

// plan validates the arguments of a call over the cache.
func (c *Cache) plan(p *plan, opt *Options) error {
	if err := c.checkOpen(); err != nil {
		return err
	}
	p.first = c.first
	return p.initPacked(&c.packed, c.config.Batch, c.length, opt)
}

// The blocks of a cache form a ring, so that tokens that were dropped give their room to new ones:
// token j has block j/Block, modulo the number of blocks.

// First returns the position of the first token that is there: as many as [Cache.DropBefore] took.
func (c *Cache) First() int { return c.first }

// DropBefore drops the tokens before a position, of every sequence, as a sliding window leaves them
// behind: for attention they do not exist any more, as if they were masked. Positions go on
// counting, so those that stay keep theirs. Tokens that were dropped before may be dropped again.
// The position is 0 to Len, or the error is [ErrLength].
//
// Room comes back in blocks of [Block] positions, once all of theirs are dropped: Append is
// [ErrCapacity] if more than Capacity tokens would be there, or if it needs a block, one of
// Capacity rounded up, in which a token is left. A layer with a window of w tokens to which at most
// n at once are appended needs a Capacity of w+n+62, if DropBefore(max(0, Len−w+1)) comes before
// each Append.
func (c *Cache) DropBefore(position int) error {
	if err := c.checkOpen(); err != nil {
		return err
	}
	if position < 0 || position > c.length {
		return fail(ErrLength, "position is %d, want 0 to %d, the positions of the cache", position,
			c.length)
	}
	c.first = max(c.first, position)
	return nil
}

// ringSpan is the positions of a cache's tokens.
type ringSpan struct {
	first  int // tokens before this position were dropped
	length int // tokens, with those that were dropped
}

// blocks is how many blocks have room for the tokens and those that were dropped from the first.
func (r ringSpan) blocks() int { return blocksOf(r.length) - r.first/Block }

// at is the first position of the i-th of these blocks, and which of its positions, counted from
// that, have a token.
func (r ringSpan) at(i int) (j, lo, hi int) {
	j = (r.first/Block + i) * Block
	return j, max(0, r.first-j), min(Block, r.length-j)
}

// checkRoom makes sure that n more tokens fit.
func (c *Cache) checkRoom(n int) error {
	if n > maxLength-c.length {
		return fail(ErrLength, "k.L is %d after %d tokens, want at most %d in all", n, c.length,
			maxLength)
	}
	alive := c.length - c.first
	if n > c.config.Capacity-alive {
		return fail(ErrCapacity, "k.L is %d, want at most %d: %d of %d tokens are in the cache",
			n, c.config.Capacity-alive, alive, c.config.Capacity)
	}
	if room := (c.first/Block+c.packed.Count)*Block - c.length; n > room {
		return fail(ErrCapacity, "k.L is %d, want at most %d: tokens from position %d on are in the "+
			"cache's ring of %d blocks of %d", n, room, c.first, c.packed.Count, Block)
	}
	return nil
}

// checkFits makes sure that the tokens of a file fit.
func (c *Cache) checkFits(r ringSpan) error {
	if alive := r.length - r.first; alive > c.config.Capacity {
		return fail(ErrCapacity, "the file has %d tokens, want at most %d, the cache's Capacity", alive,
			c.config.Capacity)
	}
	if r.blocks() > c.packed.Count {
		return fail(ErrCapacity, "the file's positions %d to %d take %d blocks of %d, want at most %d, "+
			"the cache's", r.first, r.length, r.blocks(), Block, c.packed.Count)
	}
	return nil
}

// Keep keeps some of the last tokens of every sequence and drops the rest, as after the
// verification of a tree of proposed tokens, of which one path is accepted: of the tokens from
// position indices[0] on, exactly those at the positions in indices stay, moved together. It is
// what truncating to indices[0] and appending them again would give, bit for bit. No index changes
// nothing.
//
// Indices are positions, First to Len−1, in ascending order, or the error is [ErrLength] and
// nothing has changed.
func (c *Cache) Keep(indices []int) error {
	if err := c.checkOpen(); err != nil {
		return err
	}
	if err := views.CheckKept(indices, c.first, c.length); err != nil || len(indices) == 0 {
		return err
	}
	c.packed.Keep(nil, c.config.Batch, indices)
	c.length = indices[0] + len(indices)
	runtime.KeepAlive(c) // and with it its memory
	return nil
}

// The file of a sequence: the header (internal/file), and then for each page from position
// first/Block·Block on, up to that of position length−1, a part of the blocks of all heads, see
// packed.Blocks. A page of a Cache has those of all batch entries in turn, so the file of a
// sequence is that of a cache with a batch of 1.

// Save writes the tokens to w in a form that any machine can read with [Cache.Load], or with a
// batch of 1 with [Sequence.Load]: about as many bytes as the blocks with tokens take, whatever the
// Capacity. It returns how many were written. The same tokens give the same bytes. Errors of w are
// wrapped.
func (c *Cache) Save(w io.Writer) (n int64, err error) {
	if err := c.checkOpen(); err != nil {
		return 0, err
	}
	h := c.header()
	h.First, h.Length = c.first, c.length
	to := file.WriteTokens(w, &c.packed, &h)
	for i := range c.blocks() {
		at, lo, hi := c.at(i)
		to.Page(c.heads(), at/Block%c.packed.Count, lo, hi)
	}
	runtime.KeepAlive(c) // and with it its memory
	return to.End()
}

// header is that of a file of no tokens.
func (c *Cache) header() file.Header {
	g := &c.config
	return file.Header{Format: c.packed.K.Format, ValueFormat: c.packed.V.Format,
		Mark: g.ValuesInKeys, Batch: g.Batch, Heads: g.KVHeads, Inputs: g.HeadDim, Outputs: g.ValueDim}
}

// heads is the number of heads of all batch entries.
func (c *Cache) heads() int { return c.config.Batch * c.config.KVHeads }

// Load replaces the tokens by those that [Cache.Save] wrote from a cache of the same configuration,
// with whatever Capacity, or [Sequence.Save] where Batch is 1. It reads exactly what Save wrote, so
// r may hold several caches one after another, and returns how many bytes were read. Where there
// are tokens already, the new ones are in memory beside them until all have come.
//
// What has no room by the rule of Append is [ErrCapacity]. A cache of another shape is [ErrShape],
// of another Format or ValuesInKeys [ErrOption]. What Save cannot have written is [ErrFormat]; it
// wraps [io.EOF] too if r has no bytes, and [io.ErrUnexpectedEOF] if it has too few. Other errors
// of r are wrapped. After any error the tokens are those that there were. Of the elements of a
// token in I8 and I4, the largest is what its scale makes of the largest number; the others are not
// larger, and may be any.
//
// Like Append, it needs the cache for itself.
func (c *Cache) Load(r io.Reader) (n int64, err error) {
	if err := c.checkOpen(); err != nil {
		return 0, err
	}
	h := c.header()
	from, err := file.ReadTokens(r, &h, "the cache's")
	if err == nil {
		err = c.load(from, ringSpan{h.First, h.Length})
	}
	runtime.KeepAlive(c) // and with it its memory
	return from.N(), err
}

// load replaces the tokens by those of a file whose header was read.
func (c *Cache) load(from *file.TokenReader, tokens ringSpan) (err error) {
	switch err = c.checkFits(tokens); {
	case err != nil:
		return err
	case c.first == c.length: // nobody reads its blocks
		err = c.readInPlace(from, tokens)
	default:
		err = c.readBeside(from, tokens)
	}
	if err == nil {
		c.ringSpan = tokens
	}
	return err
}

// readInPlace reads the pages of a file into the blocks of the cache.
func (c *Cache) readInPlace(from *file.TokenReader, tokens ringSpan) error {
	for i := range tokens.blocks() {
		at, lo, hi := tokens.at(i)
		if err := from.Page(&c.packed, c.heads(), at/Block%c.packed.Count, lo, hi); err != nil {
			return err
		}
	}
	return nil
}

// readBeside reads the pages of a file into memory of their own, and when all are right, copies
// them to the blocks of the cache.
func (c *Cache) readBeside(from *file.TokenReader, tokens ringSpan) error {
	size := c.heads() * c.packed.Size
	pages := memory.Growing{Most: tokens.blocks() * size}
	defer pages.Close()
	for i := range tokens.blocks() {
		x, err := pages.Next(size)
		if err != nil {
			return fail(ErrMemory, "the file has %d tokens: %v", tokens.length-tokens.first, err)
		}
		page := c.packed.OnePage(x)
		_, lo, hi := tokens.at(i)
		if err := from.Page(&page, c.heads(), 0, lo, hi); err != nil {
			return err
		}
	}
	for i := range tokens.blocks() {
		at, _, _ := tokens.at(i)
		for h := range c.heads() {
			stop.Copy(c.packed.At(h, at/Block%c.packed.Count),
				pages.Mapping().Bytes()[i*size+h*c.packed.Size:])
		}
	}
	return nil
}
