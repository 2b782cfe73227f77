package cluster

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/f32"
)

// Tokens are sent with the bits that workers keep. Whole runs, and the beginning of a run in whole
// blocks, are packed by the client, and workers store them unchanged. Fewer tokens are sent as
// elements: in F16 and BF16 rounded, which is all that package attn does to them, and for I8 and
// I4, which depend on a rotation and a scale, as float32.

// messageLength returns the number of tokens of a message from number at on: all in one part, and
// about as many bytes as a message may have.
func (c *call) messageLength(at int) (n int) {
	position := (c.length + at) % c.tokens
	rest, room := min(c.k.L-at, c.tokens-position), int64(c.client.config.Chunk)
	for n < rest {
		size, isRun := c.nextPiece(position+n, rest-n)
		perToken := c.tokenBytes(isRun)
		switch fits := int(room / perToken); {
		case size <= fits:
		case n > 0:
			return n
		case isRun && size/2 <= fits: // the rest of the run would be elements
			return size
		default:
			return max(1, fits)
		}
		n, room = n+size, room-int64(size)*perToken
	}
	return n
}

// nextPiece returns how many of n tokens at a position are one piece, and whether that is a run.
func (c *call) nextPiece(position, n int) (size int, isRun bool) {
	size = min(n, c.long-position%c.long)
	if position%c.long > 0 || size < attn.Block || c.loose {
		return size, false
	}
	return size - size%attn.Block, true
}

// tokenBytes estimates the bytes of a token of a layer in a message, in a run or as elements.
func (s *Sequence) tokenBytes(isRun bool) int64 {
	h := &s.shape
	if isRun {
		config := h.storeConfig()
		return max(1, pageBytes(&config)/attn.Block)
	}
	return int64(h.KVHeads) * (int64(h.HeadDim)*int64(wireBytes(h.Format)) +
		int64(h.values())*int64(wireBytes(h.ValueFormat)))
}

// pieces returns the pieces of n tokens from number at on, the first of which is at position.
func (c *call) pieces(at, n, position int) (all []tokenPiece, err error) {
	for end := at + n; at < end; {
		size, isRun := c.nextPiece(position, end-at)
		next := tokenPiece{tokens: size}
		if isRun {
			next.saved, err = c.saveRun(c.k.Slice(at, at+size), slice(&c.v, at, at+size))
			if err != nil {
				return nil, err
			}
		} else {
			next.k = gatherTokens(c.shape.Format, &c.k, at, size)
			next.v = gatherTokens(c.shape.ValueFormat, &c.v, at, size)
		}
		all = append(all, next)
		at, position = at+size, position+size
	}
	return all, nil
}

// slice returns tokens [from, to) of values, or the zero Tensor if values are part of keys.
func slice(v *attn.Tensor, from, to int) attn.Tensor {
	if none(v) {
		return *v
	}
	return v.Slice(from, to)
}

// saveRun packs tokens of one run, in the form that a worker loads.
func (s *Sequence) saveRun(k, v attn.Tensor) ([]byte, error) {
	cache, _ := s.packers.Get().(*attn.Cache)
	if cache == nil {
		h := &s.shape
		var err error
		if cache, err = attn.NewCache(attn.CacheConfig{Batch: 1, KVHeads: h.KVHeads, HeadDim: h.HeadDim,
			ValueDim: h.ValueDim, Capacity: s.long, Format: h.Format, ValueFormat: h.ValueFormat,
			ValuesInKeys: h.ValuesInKeys}); err != nil {
			return nil, err
		}
	}
	defer s.packers.Put(cache)
	cache.Reset()
	if err := cache.Append(k, v); err != nil {
		return nil, err
	}
	var saved bytes.Buffer
	saved.Grow(pagesOf(k.L)*(cache.MemoryUse()/pagesOf(s.long)) + savedExtra(k.L))
	_, err := cache.Save(&saved)
	return saved.Bytes(), err
}

// savedExtra bounds the bytes of a saved run besides its pages: a header, and a checksum for each
// page.
func savedExtra(tokens int) int { return 128 + 4*pagesOf(tokens) }

// wireFormat returns the format in messages of elements that are kept in format f.
func wireFormat(f attn.Format) attn.Format {
	if f == attn.F16 || f == attn.BF16 {
		return f
	}
	return attn.F32
}

// wireBytes returns the size of an element in messages.
func wireBytes(f attn.Format) int {
	if wireFormat(f) == attn.F32 {
		return 4
	}
	return 2
}

// gatherTokens encodes tokens of a view as elements, with adjacent heads.
func gatherTokens(f attn.Format, x *attn.Tensor, at, n int) []byte {
	out := make([]byte, 0, n*x.H*x.D*wireBytes(f))
	for i := at; i < at+n; i++ {
		for h := range x.H {
			out = appendElements(out, f, x.Row(0, h, i))
		}
	}
	return out
}

// appendElements encodes numbers that will be kept in format f.
func appendElements(to []byte, f attn.Format, x []float32) []byte {
	at, size := len(to), wireBytes(f)*len(x)
	to = slices.Grow(to, size)[:at+size]
	raw := to[at:]
	switch wireFormat(f) {
	case attn.F16:
		for i, e := range x {
			binary.LittleEndian.PutUint16(raw[2*i:], f32.ToF16(e))
		}
	case attn.BF16:
		for i, e := range x {
			binary.LittleEndian.PutUint16(raw[2*i:], f32.ToBF16(e))
		}
	default:
		for i, e := range x {
			binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(e))
		}
	}
	return to
}

// elementBuffers are buffers for decoded keys and values: *[2][]float32.
var elementBuffers sync.Pool

// elements decodes what appendElements has written, into a buffer.
func elements(f attn.Format, raw []byte, to []float32) []float32 {
	x := slices.Grow(to[:0], len(raw)/wireBytes(f))[:len(raw)/wireBytes(f)]
	switch wireFormat(f) {
	case attn.F16:
		for i := range x {
			x[i] = f32.FromF16(binary.LittleEndian.Uint16(raw[2*i:]))
		}
	case attn.BF16:
		for i := range x {
			x[i] = f32.FromBF16(binary.LittleEndian.Uint16(raw[2*i:]))
		}
	default:
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	}
	return x
}
