package attn

import (
	"runtime"
	"slices"
)

// CacheConfig is the shape of a [Cache]. Every size must be at least 1.
type CacheConfig struct {
	Batch    int       // sequences side by side
	KVHeads  int       // key/value heads
	HeadDim  int       // dimension of queries and keys
	ValueDim int       // dimension of values and outputs
	Capacity int       // tokens that fit
	Format   Format // F32 is the zero value
	Rotate   bool      // spread outlier channels of keys, see docs/low-precision.md
}

// Cache holds the keys and values of a batch of sequences that grow token by token (a
// KV cache), each to a length of its own, in the order that the kernels read: nothing is packed or
// transposed when attending. Attending over a cache gives the bits of [Attend] on
// what [Cache.Read] returns: for F32 the tokens themselves, for F16 and BF16 what they are rounded to. I8, and keys that are
// rotated, have definitions of their own, see docs/low-precision.md. No type's bits depend on the CPU, the number of workers or the batch.
//
// All memory is allocated by NewCache: Batch·KVHeads·Capacity·(HeadDim+ValueDim) elements of 4, 2 or 1 bytes, with Capacity
// rounded up to a multiple of Block and ValueDim to one of 16; for I8 also two float32 scales for each token and head. [Cache.MemoryUse] says how much. Appending never allocates, attending only where [Attend] does.
// From 256 KiB on, the memory is the operating system's and not the Go heap's, so the garbage collector does not count it. Close gives it
// back; without Close, it goes back some time after the cache has become unreachable.
//
// On Linux, NewCache asks for huge pages for 4 MiB and more: decoding takes about a tenth less time with them. A huge page is mostly 2 MiB,
// and a system that gives them on request gives whole ones: a head with room for that much takes that much from its first token on.
//
// Sequences that join and leave, share tokens, or differ much in length are better kept in a [Store].
//
// Any number of goroutines may attend over a cache at the same time. Append, AppendSequence,
// Truncate, TruncateSequence, Reset and Close need it for themselves: closing a cache while another goroutine attends over it ends the program.
type Cache struct {
	config  CacheConfig
	length  int   // of the longest sequence
	lengths []int // of each

	store  blockStore
	writer tokenWriter
}

// NewCache allocates an empty cache. The error is [ErrShape] for a size outside 1 to 2²⁸
// or a cache larger than memory can be, [ErrMemory] for one that the system has no memory for, [ErrOption] for a type that does not exist.
//
// Most systems refuse what they cannot back, and back the rest when it is written to. One that is set to grant anything, or
// on which all programs together use more than there is, may end the program in Append.
func NewCache(config CacheConfig) (*Cache, error) {
	sizes := [...]namedSize{
		{"Batch", config.Batch}, {"KVHeads", config.KVHeads}, {"HeadDim", config.HeadDim}, {"ValueDim", config.ValueDim}, {"Capacity", config.Capacity},
	}
	if err := checkConfig("CacheConfig", config.Format, sizes[:]); err != nil {
		return nil, err
	}
	perToken := roundUp(config.HeadDim, 4) + roundUp(config.ValueDim, panel)
	if _, ok := product(config.Batch, config.KVHeads, roundUp(config.Capacity, Block), perToken); !ok {
		return nil, fail(ErrShape, "CacheConfig is %d×%d×%d×(%d+%d) elements, want at most %d",
			config.Batch, config.KVHeads, config.Capacity, config.HeadDim, config.ValueDim, maxElements)
	}
	c := &Cache{config: config, store: newBlockStore(config.Format, config.KVHeads, config.HeadDim, config.ValueDim, config.Rotate)}
	blocks := (config.Capacity + Block - 1) / Block
	if err := c.store.allocate(config.Batch, blocks); err != nil {
		return nil, fail(ErrMemory, "CacheConfig is %d×%d×%d×(%d+%d) elements of %v: %v",
			config.Batch, config.KVHeads, config.Capacity, config.HeadDim, config.ValueDim, config.Format, err)
	}
	c.writer, c.lengths = newTokenWriter(&c.store), make([]int, config.Batch)
	return c, nil
}

// MemoryUse returns the bytes that the cache takes for keys and values, whatever part of them is in use; 0 after Close.
func (c *Cache) MemoryUse() int { return len(c.store.data) }

// Close gives the cache's memory back. Calls that begin later, Close among them, return [ErrClosed]; Len is 0.
func (c *Cache) Close() error {
	if err := c.checkOpen(); err != nil {
		return err
	}
	c.Reset()
	return c.store.close()
}

// checkOpen makes sure that the cache has memory.
func (c *Cache) checkOpen() error {
	if c.store.memory == nil {
		return fail(ErrClosed, "the cache was closed, or is not from NewCache")
	}
	return nil
}

// Len returns the number of tokens of the longest sequence.
func (c *Cache) Len() int { return c.length }

// LenOf returns the number of tokens of sequence b. It panics if there is no such sequence, as indexing does.
func (c *Cache) LenOf(b int) int { return c.lengths[b] }

// Reset empties the cache.
func (c *Cache) Reset() {
	c.length = 0
	clear(c.lengths)
}

// Clone returns a cache of the same shape and type with the same tokens, in memory of its own. The error is [ErrMemory] if the system has none.
func (c *Cache) Clone() (*Cache, error) {
	if err := c.checkOpen(); err != nil {
		return nil, err
	}
	d, err := NewCache(c.config)
	if err != nil {
		return nil, err
	}
	d.length = c.length
	copy(d.lengths, c.lengths)
	for i := range c.config.Batch * c.config.KVHeads { // no page is touched that no token is in
		used := roundUp(c.lengths[i/c.config.KVHeads], Block) / Block * c.store.block
		copy(d.store.data[i*d.store.headStride:][:used], c.store.data[i*c.store.headStride:])
	}
	runtime.KeepAlive(c) // and with it its memory
	return d, nil
}

// Truncate drops all but the first n tokens of every sequence, as speculative decoding does when
// it rolls back. Sequences that have no more keep what they have. If all have fewer, the error is [ErrLength].
func (c *Cache) Truncate(n int) error {
	if err := c.checkOpen(); err != nil {
		return err
	}
	if n < 0 || n > c.length {
		return fail(ErrLength, "n is %d, want 0 to %d, the tokens in the cache", n, c.length)
	}
	c.length = n
	for b, old := range c.lengths {
		c.lengths[b] = min(old, n)
	}
	return nil
}

// TruncateSequence drops all but the first n tokens of sequence b. If it has fewer, the error is [ErrLength].
func (c *Cache) TruncateSequence(b, n int) error {
	if err := c.checkSequence(b); err != nil {
		return err
	}
	if n < 0 || n > c.lengths[b] {
		return fail(ErrLength, "n is %d, want 0 to %d, the tokens of sequence %d", n, c.lengths[b], b)
	}
	c.lengths[b] = n
	c.length = slices.Max(c.lengths)
	return nil
}

// checkSequence makes sure that the cache is open and has a sequence b.
func (c *Cache) checkSequence(b int) error {
	if err := c.checkOpen(); err != nil {
		return err
	}
	if b < 0 || b >= c.config.Batch {
		return fail(ErrShape, "b is %d, want 0 to %d", b, c.config.Batch-1)
	}
	return nil
}

// Append adds any number n of tokens to every sequence, after those that it has:
//
//	k [Batch, KVHeads, n, HeadDim]
//	v [Batch, KVHeads, n, ValueDim]
//
// Sequences that grow differently take AppendSequence. Or the caller pads them all to one length, and says in
// Options.KeyLens how many of the tokens exist; what the others hold has no
// influence. If the cache has no room for n more tokens of the longest sequence, Append returns
// [ErrCapacity] and changes nothing.
func (c *Cache) Append(k, v Tensor) error {
	if err := c.checkAppend(&k, &v, c.config.Batch, c.length); err != nil {
		return err
	}
	for b := range k.B {
		c.write(&k, &v, b, b)
	}
	runtime.KeepAlive(c) // and with it its memory
	return nil
}

// AppendSequence adds any number n of tokens to sequence b only:
//
//	k [1, KVHeads, n, HeadDim]
//	v [1, KVHeads, n, ValueDim]
//
// Without KeyLens, attending sees of each sequence as many tokens as it has. If sequence b has no room for n more, AppendSequence returns
// [ErrCapacity] and changes nothing.
func (c *Cache) AppendSequence(b int, k, v Tensor) error {
	if err := c.checkSequence(b); err != nil {
		return err
	}
	if err := c.checkAppend(&k, &v, 1, c.lengths[b]); err != nil {
		return err
	}
	c.write(&k, &v, 0, b)
	runtime.KeepAlive(c) // and with it its memory
	return nil
}

// write adds the tokens of one batch entry of k and v to a sequence.
func (c *Cache) write(k, v *Tensor, entry, b int) {
	for h := range k.H {
		for i := 0; i < k.L; {
			at := c.lengths[b] + i
			n := min(k.L-i, Block-at%Block)
			x := c.store.at(b*k.H+h, at/Block)
			c.store.write(&c.writer, x, at%Block, k.Data[k.offset(entry, h, i):], v.Data[v.offset(entry, h, i):], k.SL, v.SL, n, v.D)
			i += n
		}
	}
	c.lengths[b] += k.L
	c.length = max(c.length, c.lengths[b])
}

// checkAppend makes sure that k and v are tokens of some sequences, and that there is room for them after so many.
func (c *Cache) checkAppend(k, v *Tensor, batch, length int) error {
	if err := c.checkTokens(k, v, batch); err != nil {
		return err
	}
	if k.L > c.config.Capacity-length {
		return fail(ErrCapacity, "k.L is %d, want at most %d: %d of %d tokens are in the cache",
			k.L, c.config.Capacity-length, length, c.config.Capacity)
	}
	return c.store.checkScales(k, v)
}

// checkTokens makes sure that k and v are tokens of so many sequences of this cache.
func (c *Cache) checkTokens(k, v *Tensor, batch int) error {
	if err := c.checkOpen(); err != nil {
		return err
	}
	return checkTokens(k, v, batch, c.config.KVHeads, c.config.HeadDim, c.config.ValueDim)
}

// Read copies tokens back, decoded, from token from on: as many as k and v have positions.
//
//	k [Batch, KVHeads, n, HeadDim]
//	v [Batch, KVHeads, n, ValueDim]
//
// For F32 these are the numbers that were appended, for F16 and BF16 what they were rounded to, for I8 integers times their
// scales. Rotated keys are rotated back, with the rounding errors of that. If some sequence has not so many tokens, the error is [ErrLength].
func (c *Cache) Read(k, v Tensor, from int) error {
	if err := c.checkRead(&k, &v, from); err != nil {
		return err
	}
	for b := range k.B {
		for h := range k.H {
			for i := range k.L {
				c.store.read(k.row(b, h, i), v.row(b, h, i), c.store.at(b*k.H+h, (from+i)/Block), (from+i)%Block)
			}
		}
	}
	runtime.KeepAlive(c) // and with it its memory
	return nil
}

func (c *Cache) checkRead(k, v *Tensor, from int) error {
	if err := c.checkTokens(k, v, c.config.Batch); err != nil {
		return err
	}
	if shortest := slices.Min(c.lengths); from < 0 || from > shortest || k.L > shortest-from {
		return fail(ErrLength, "from is %d and k.L %d, want at most %d in all, the tokens in the cache", from, k.L, shortest)
	}
	return checkOutputs(k, v)
}

// Attend computes attention of queries over the tokens of the cache on the
// calling goroutine.
//
//	q   [Batch, H, Lq, HeadDim]     KVHeads divides H
//	dst [Batch, H, Lq, ValueDim]
//
// The number of keys is for each sequence what LenOf says, or less if Options.KeyLens says so. Mask, Bias and Weights are for Len keys. To decode,
// append the new token and attend with BottomRight. Full sees the same keys if
// there is a single query, but without a Window or Slopes only: it takes the
// query's position from Offset.
func (c *Cache) Attend(dst, q Tensor, opt *Options) error {
	p := newPlan(dst, q, Tensor{}, Tensor{}, opt)
	if err := p.initCache(c, opt); err != nil {
		return err
	}
	if !p.dst.empty() {
		p.decide(&tuned, 1)
		p.attend()
	}
	runtime.KeepAlive(c) // and with it its memory
	return nil
}

// initCache validates the arguments of a call over a cache.
func (p *plan) initCache(c *Cache, opt *Options) error {
	if err := c.checkOpen(); err != nil {
		return err
	}
	p.store = &c.store
	p.kvHeads, p.lk, p.d, p.dv = c.config.KVHeads, c.length, c.config.HeadDim, c.config.ValueDim
	if err := p.initCall(c.config.Batch, opt); err != nil {
		return err
	}
	return p.setLengths(c.lengths)
}

// setLengths makes the lengths of sequences those of the call, unless the caller said so, and none is longer than its sequence.
func (p *plan) setLengths(lengths []int) error {
	if p.keyLens == nil {
		if slices.Min(lengths) < p.lk {
			p.keyLens = lengths
		}
		return nil
	}
	for b, n := range p.keyLens {
		if n > lengths[b] {
			return fail(ErrLength, "KeyLens[%d] is %d, want 0 to %d, the tokens of the sequence", b, n, lengths[b])
		}
	}
	return nil
}
