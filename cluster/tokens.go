package cluster

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/x448/float16"

	"github.com/seed-1415985d/attn"
)

// Tokens travel in the bits that workers keep. Whole segments, and the beginning of one in whole
// blocks, are packed here and travel as runs, which workers take over as they are. What is less
// travels as elements: in F16 and BF16 rounded, which is all that package attn does to them. What it
// makes of I8 and I4 depends on a rotation and a scale, and these elements travel as float32.

// pieces are n tokens from number at of some on, which begin at a position, as they travel.
func (s *Sequence) pieces(t *tokens, at, n, position int) (all []tokenPiece, err error) {
	for end := at + n; at < end; {
		size := min(end-at, attn.Segment-position%attn.Segment)
		piece := tokenPiece{tokens: size}
		if position%attn.Segment == 0 && size >= attn.Block && !t.loose {
			piece.tokens -= size % attn.Block
			to := at + piece.tokens
			piece.saved, err = s.saveRun(t.k.Slice(at, to), slice(&t.v, at, to))
			if err != nil {
				return nil, err
			}
		} else {
			piece.k = gatherTokens(s.shape.format, &t.k, at, size)
			piece.v = gatherTokens(s.shape.valueFormat, &t.v, at, size)
		}
		all = append(all, piece)
		at, position = at+piece.tokens, position+piece.tokens
	}
	return all, nil
}

// slice is some tokens of values, or nothing if these are part of keys.
func slice(v *attn.Tensor, from, to int) attn.Tensor {
	if none(v) {
		return *v
	}
	return v.Slice(from, to)
}

// saveRun packs tokens of one segment, and returns them as a worker loads them.
func (s *Sequence) saveRun(k, v attn.Tensor) ([]byte, error) {
	cache, _ := s.packers.Get().(*attn.Cache)
	if cache == nil {
		h := &s.shape
		var err error
		if cache, err = attn.NewCache(attn.CacheConfig{Batch: 1, KVHeads: h.kvHeads, HeadDim: h.headDim,
			ValueDim: h.valueDim, Capacity: attn.Segment, Format: h.format, ValueFormat: h.valueFormat,
			ValuesInKeys: h.valuesInKeys}); err != nil {
			return nil, err
		}
	}
	defer s.packers.Put(cache)
	cache.Reset()
	if err := cache.Append(k, v); err != nil {
		return nil, err
	}
	var saved bytes.Buffer
	saved.Grow(pagesOf(k.L)*cache.MemoryUse()/pagesOf(attn.Segment) + savedExtra(k.L))
	_, err := cache.Save(&saved)
	return saved.Bytes(), err
}

// savedExtra is what a saved run has at most beside its pages: a header, and a checksum for each.
func savedExtra(tokens int) int { return 128 + 4*pagesOf(tokens) }

// wireFormat is the format in which elements travel that are kept in a format.
func wireFormat(f attn.Format) attn.Format {
	if f == attn.F16 || f == attn.BF16 {
		return f
	}
	return attn.F32
}

// wireBytes is the size of an element that travels.
func wireBytes(f attn.Format) int {
	if wireFormat(f) == attn.F32 {
		return 4
	}
	return 2
}

// tokenBytes is how many bytes a token of a layer takes on its way.
func (s *shape) tokenBytes() int64 {
	return int64(s.kvHeads) * (int64(s.headDim)*int64(wireBytes(s.format)) +
		int64(s.values())*int64(wireBytes(s.valueFormat)))
}

// gatherTokens writes tokens of a view as they travel, the heads of each side by side.
func gatherTokens(f attn.Format, x *attn.Tensor, at, n int) []byte {
	out := make([]byte, 0, n*x.H*x.D*wireBytes(f))
	for i := at; i < at+n; i++ {
		for h := range x.H {
			out = appendElements(out, f, x.Row(0, h, i))
		}
	}
	return out
}

// appendElements writes numbers that are to be kept in a format.
func appendElements(to []byte, f attn.Format, x []float32) []byte {
	at, size := len(to), wireBytes(f)*len(x)
	if cap(to)-at < size {
		to = append(make([]byte, 0, max(at+size, 2*cap(to))), to...)
	}
	to = to[:at+size]
	raw := to[at:]
	switch wireFormat(f) {
	case attn.F16:
		for i, e := range x {
			binary.LittleEndian.PutUint16(raw[2*i:], float16.Fromfloat32(e).Bits())
		}
	case attn.BF16:
		for i, e := range x {
			binary.LittleEndian.PutUint16(raw[2*i:], toBF16(e))
		}
	default:
		for i, e := range x {
			binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(e))
		}
	}
	return to
}

// elements reads what appendElements has written.
func elements(f attn.Format, raw []byte) []float32 {
	x := make([]float32, len(raw)/wireBytes(f))
	switch wireFormat(f) {
	case attn.F16:
		for i := range x {
			x[i] = float16.Frombits(binary.LittleEndian.Uint16(raw[2*i:])).Float32()
		}
	case attn.BF16:
		for i := range x {
			x[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16)
		}
	default:
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	}
	return x
}

// toBF16 rounds to the upper half of a float32, ties to even; a NaN stays one.
func toBF16(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
