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
	Capacity int    // tokens of each sequence that fit, not counting dropped ones
	Format   Format // F32 is the zero value

	// ValueFormat is the format of values; Format is then the format of keys only. The zero value
	// means Format, so values in F32 need keys in F32. I8 with values in I4 needs three quarters of
	// the memory of I8.
	ValueFormat Format

	// ValuesInKeys says that the value of a token is the first ValueDim ≤ HeadDim channels of its
	// key, as in multi-head latent attention (MLA). Only keys are kept, and where tokens are
	// appended or read, v is the zero Tensor. ValueFormat is 0 or Format.
	ValuesInKeys bool
}

// Cache holds the keys and values of a batch of sequences that grow together, token by token (a KV
// cache), in the order that the kernels read: nothing is packed or transposed when attending.
// Attending over a cache gives the bits of [Attend] on the tokens that [Cache.Read] returns: in F32
// the tokens themselves, in F16 and BF16 the rounded tokens. docs/low-precision.md defines I8 and
// I4. No format's bits depend on the CPU, the number of workers or the batch.
//
// Sequences that join and leave, share tokens, or differ in length are for a [Store]. Sequences of
// a batch that was padded to one length are for a Cache with Options.KeyLens.
//
// Layers with a sliding window drop the tokens that have left the window: [Cache.DropBefore] makes
// their room available for new tokens. Positions count from the first token that was ever appended.
//
// All memory is allocated by NewCache and Grow: Batch·KVHeads·Capacity·(HeadDim+ValueDim) elements
// of 4, 2, 1 or ½ bytes, with Capacity rounded up to a multiple of Block and ValueDim to one of 16;
// for I8 and I4 also two float32 scales for each token and head. With ValuesInKeys it is HeadDim
// elements, and one scale. [Cache.MemoryUse] returns the total. Appending and attending allocate
// only where [Attend] does. From 256 KiB on, the memory is the operating system's and not the Go
// heap's, so the garbage collector does not count it. Close releases it; without Close, it is
// released some time after the cache has become unreachable.
//
// On Linux, NewCache requests huge pages for 4 MiB and more, with which decoding is about a tenth
// faster. A huge page is usually 2 MiB and always used whole, so a head with room for that much
// occupies it from its first token on.
//
// Any number of goroutines may attend over a cache, Read it and Save it, at the same time. The
// methods that change it, Append, Load and Close among them, need exclusive use: closing a cache
// while another goroutine attends over it ends the program.
type Cache struct {
	config CacheConfig
	ringSpan
	packed packed.Blocks
}

// NewCache allocates an empty cache. The error is [ErrShape] for a size outside 1 to 2²⁸, a cache
// larger than the address space, or a ValueDim above HeadDim with ValuesInKeys, [ErrMemory] if the
// system has too little memory, [ErrOption] for a format that does not exist.
//
// Most systems refuse memory that they cannot provide, and provide the rest when it is written. A
// system that is set to grant every request, or whose programs together use more than it has, may
// end the program in Append.
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

// blocksOf returns the number of blocks that hold some tokens.
func blocksOf(tokens int) int { return (tokens + Block - 1) / Block }

// Config returns the configuration of the cache, with the Capacity that Grow set.
func (c *Cache) Config() CacheConfig { return c.config }

// Grow makes room for capacity tokens of each sequence; if that is not above the Capacity, it does
// nothing. The tokens are copied, so a cache should grow by a factor, such as 2, to copy each of
// them a few times at most. During the copy both memories exist.
//
// The error is [ErrShape] for a capacity that is too large, [ErrMemory] if the system has too
// little memory. Then nothing has changed. Like Append, it needs exclusive use of the cache.
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
	_ = c.packed.Close() // the cache has grown, even if the old memory cannot be released
	c.config, c.packed = larger, grown.packed
	return nil
}

// MemoryUse returns the bytes allocated for keys and values, used or not; 0 after Close.
func (c *Cache) MemoryUse() int { return len(c.packed.Data) }

// Close releases the cache's memory. Later calls, Close among them, return [ErrClosed]; Len is 0.
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

// checkOpen verifies that the cache has memory.
func (c *Cache) checkOpen() error {
	if c == nil {
		return fail(ErrOption, "c is nil, want a cache")
	}
	if !c.packed.Open() {
		return fail(ErrClosed, "the cache was closed, or is not from NewCache")
	}
	return nil
}

// Len returns the position after the last token: the number of tokens of each sequence, dropped
// ones included.
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

// Append adds any number n of tokens to every sequence, after its last one:
//
//	k [Batch, KVHeads, n, HeadDim]
//	v [Batch, KVHeads, n, ValueDim]     the zero Tensor with ValuesInKeys
//
// If sequences have different lengths, the caller pads them to one length, and says in
// Options.KeyLens how many tokens exist; the contents of the others have no influence. If the cache
// has no room for n more tokens, Append returns [ErrCapacity] and changes nothing;
// [Cache.DropBefore] says how much room dropped tokens leave. Positions above 2²⁸ are [ErrLength].
// In a cache of I8 or I4, elements that are not finite, or too large to be rotated, are
// [ErrOption].
//
// [Pool.AppendCache] uses all workers.
func (c *Cache) Append(k, v Tensor) error {
	x := writing{k: k, v: v}
	err := c.beginAppend(&x)
	if err == nil {
		x.run()
	}
	runtime.KeepAlive(c) // and with it its memory
	return err
}

// beginAppend validates tokens and reserves room for them.
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
// In F32 these are the numbers that were appended, in F16 and BF16 the rounded numbers, in I8 and
// I4 integers times their scales, rotated back, with rounding errors, if they were rotated. If the
// cache does not hold all of these tokens, the error is [ErrLength].
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
// The number of keys is Len, or for each sequence its element of Options.KeyLens. Dropped tokens do
// not exist, as if masked. Mask, Bias, Weights and Distance.Key are for Len keys. To decode, append
// the new token and attend with BottomRight. For a single query without Window, Slopes and
// Distance, Full has the same result; with them it does not, because it reads the query's position
// from Offset.
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

// The blocks of a cache form a ring, so that new tokens reuse the room of dropped ones: token j is
// in block j/Block, modulo the number of blocks.

// First returns the position of the first token that was not dropped: the number of dropped tokens.
func (c *Cache) First() int { return c.first }

// DropBefore drops the tokens of every sequence before a position, because they have left a sliding
// window: for attention they do not exist any more, as if they were masked. The other tokens keep
// their positions. Tokens that were dropped before may be dropped again. The position is 0 to Len,
// or the error is [ErrLength].
//
// Room becomes available in blocks of [Block] positions, once all tokens of a block are dropped:
// Append returns [ErrCapacity] if the cache would hold more than Capacity tokens, or if it needs a
// block, of Capacity rounded up, that still has a token. A layer with a window of w tokens and at
// most n tokens an Append needs a Capacity of w+n+62, if DropBefore(max(0, Len−w+1)) is called
// before each Append.
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

// ringSpan holds the positions of a cache's tokens.
type ringSpan struct {
	first  int // tokens, dropped ones included
	length int // tokens, with those that were dropped
}

// blocks returns the number of blocks from the first token's to the last token's.
func (r ringSpan) blocks() int { return blocksOf(r.length) - r.first/Block }

// at returns the first position of the i-th of these blocks, and the range of its positions,
// counted from there, that have a token.
func (r ringSpan) at(i int) (j, lo, hi int) {
	j = (r.first/Block + i) * Block
	return j, max(0, r.first-j), min(Block, r.length-j)
}

// checkRoom verifies that n more tokens fit.
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

// checkFits verifies that the tokens of a file fit.
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
// position indices[0] on, exactly those at the positions in indices stay, moved together. The
// result has the same bits as truncating to indices[0] and appending them again. Without indices
// nothing changes.
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

// The file of a sequence: the header (internal/file), and then for each page, from the page of the
// first token to the page of the last, a part of the blocks of all heads, see packed.Blocks. A page
// of a Cache has the heads of all batch entries in turn, so the file of a sequence is also the file
// of a cache with a batch of 1.

// Save writes the tokens to w in a format that any machine can read with [Cache.Load], or with
// [Sequence.Load] for a batch of 1: about as many bytes as the blocks with tokens, whatever the
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

// header returns the header of a file without tokens.
func (c *Cache) header() file.Header {
	g := &c.config
	return file.Header{Format: c.packed.K.Format, ValueFormat: c.packed.V.Format,
		Mark: g.ValuesInKeys, Batch: g.Batch, Heads: g.KVHeads, Inputs: g.HeadDim, Outputs: g.ValueDim}
}

// heads returns the number of heads of all batch entries.
func (c *Cache) heads() int { return c.config.Batch * c.config.KVHeads }

// Load replaces the tokens by tokens that [Cache.Save] wrote from a cache of the same
// configuration, with any Capacity, or [Sequence.Save] if Batch is 1. It reads exactly the bytes
// that Save wrote, so r may hold several caches one after another, and returns how many were read.
// If the cache has tokens already, it needs memory for both until all new ones are read.
//
// The error is [ErrCapacity] for tokens that do not fit by the rule of Append, [ErrShape] for a
// cache of another shape, [ErrOption] for another Format or ValuesInKeys, and [ErrFormat] for bytes
// that Save cannot have written; it wraps [io.EOF] too if r has no bytes, and [io.ErrUnexpectedEOF]
// if it has too few. Other errors of r are wrapped. After any error the tokens have not changed.
// For a token in I8 and I4, Load checks that the largest element is the one that belongs to its
// scale; other elements may have any value up to it.
//
// Like Append, it needs exclusive use of the cache.
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

// load replaces the tokens by the tokens of a file whose header was read.
func (c *Cache) load(from *file.TokenReader, tokens ringSpan) (err error) {
	switch err = c.checkFits(tokens); {
	case err != nil:
		return err
	case c.first == c.length: // no other goroutine reads its blocks
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

// readBeside reads the pages of a file into new memory, and copies them to the blocks of the cache
// when all are valid.
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
