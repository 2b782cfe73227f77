package cluster

import (
	"time"

	"github.com/seed-1415985d/attn"
)

// Messages about copies of parts. A copy is named by its client and a number that the client never
// reuses, so a late message finds nothing. Its epoch counts truncations: an append from before one
// is refused after it.

// shape is the shape of the keys and values of a sequence.
type shape = SequenceConfig

// values returns the number of elements of a head's value that are sent and kept: 0 if they are
// part of the key.
func (s *shape) values() int {
	if s.ValuesInKeys {
		return 0
	}
	return s.ValueDim
}

// rotatesOutputs reports whether states have sums of rotated values.
func (s *shape) rotatesOutputs() bool {
	return s.ValueFormat == attn.I4 || s.ValuesInKeys && s.ValueFormat == attn.I8
}

// integers reports whether keys and values are integers, as Options.Integers needs them.
func (s *shape) integers() bool {
	return min(s.Format, s.ValueFormat) >= attn.I8
}

// check verifies that stores allow the sizes and formats. of is the struct's name in errors.
func (s *shape) check(of string) error {
	switch {
	case min(s.Layers, s.KVHeads, s.HeadDim, s.ValueDim) < 1 ||
		max(s.Layers, s.KVHeads, s.HeadDim, s.ValueDim) > 1<<16:
		return fail(attn.ErrShape, "%sLayers, KVHeads, HeadDim and ValueDim are %d, %d, %d and %d, want "+
			"sizes of 1 to 65536", of, s.Layers, s.KVHeads, s.HeadDim, s.ValueDim)
	case s.ValuesInKeys && s.ValueDim > s.HeadDim:
		return fail(attn.ErrShape, "%sValueDim is %d with ValuesInKeys, want at most HeadDim, %d", of,
			s.ValueDim, s.HeadDim)
	case s.Format < attn.F32 || s.Format > attn.I4:
		return fail(attn.ErrOption, "%sFormat is %v, want F32, F16, BF16, I8 or I4", of, s.Format)
	case s.ValueFormat < attn.F32 || s.ValueFormat > attn.I4 ||
		s.ValueFormat == attn.F32 && s.Format != attn.F32:
		return fail(attn.ErrOption, "%sValueFormat is %v, want F16, BF16, I8, I4, or that of keys, %v",
			of, s.ValueFormat, s.Format)
	case s.ValuesInKeys && s.ValueFormat != s.Format:
		return fail(attn.ErrOption, "%sValueFormat is %v with ValuesInKeys, want that of keys, %v", of,
			s.ValueFormat, s.Format)
	}
	return nil
}

func (c *codec) shape(s *shape) {
	c.size("layers", &s.Layers)
	c.size("KVHeads", &s.KVHeads)
	c.size("HeadDim", &s.HeadDim)
	c.size("ValueDim", &s.ValueDim)
	for _, f := range []*attn.Format{&s.Format, &s.ValueFormat} {
		set(c, f, attn.Format(c.number(uint64(*f), 1)))
	}
	c.flag(&s.ValuesInKeys)
}

// createRequest asks for an empty copy of a part.
type createRequest struct {
	copy     uint64
	sequence uint64 // and part
	part     uint32 // say what it is a copy of
	epoch    uint32
	tokens   int // most tokens of the part
	lease    uint32
	shape    shape
}

func (r *createRequest) encode(id clientID) []byte { return encodeRequest(opCreate, id, r) }

func (r *createRequest) wire(c *codec) {
	c.u64(&r.copy)
	c.u64(&r.sequence)
	c.u32(&r.part)
	c.u32(&r.epoch)
	c.size("tokens", &r.tokens)
	c.u32(&r.lease)
	c.shape(&r.shape)
}

// releaseRequest frees copies. Missing ones are no error.
type releaseRequest struct{ copies []uint64 }

func (r *releaseRequest) encode(id clientID) []byte { return encodeRequest(opRelease, id, r) }
func (r *releaseRequest) wire(c *codec)             { c.u64s(&r.copies) }

// renewRequest renews the client's lease, and lists its copies: others with numbers up to the
// horizon are freed. The reply lists the copies that the worker does not have.
type renewRequest struct {
	lease   uint32
	horizon uint64
	copies  []uint64
}

type renewReply struct{ missing []uint64 }

func (r *renewRequest) encode(id clientID) []byte { return encodeRequest(opRenew, id, r) }
func (r *renewReply) wire(c *codec)               { c.u64s(&r.missing) }

func (r *renewRequest) wire(c *codec) {
	c.u32(&r.lease)
	c.u64(&r.horizon)
	c.u64s(&r.copies)
}

// readRequest asks for a run of tokens in the format of attn.Sequence.Save.
type readRequest struct {
	copy       uint64
	epoch      uint32
	layer, run uint32
}

func (r *readRequest) encode(id clientID) []byte { return encodeRequest(opRead, id, r) }

func (r *readRequest) wire(c *codec) {
	c.u64(&r.copy)
	c.u32(&r.epoch)
	c.u32(&r.layer)
	c.u32(&r.run)
}

// readReply is a run of a layer, or the time to wait for it.
type readReply struct {
	wait  time.Duration // in milliseconds in messages
	runs  int
	saved []byte
}

func (r *readReply) wire(c *codec) {
	wait := int((r.wait + time.Millisecond - 1) / time.Millisecond)
	c.size("milliseconds", &wait)
	set(c, &r.wait, time.Duration(wait)*time.Millisecond)
	c.size("runs", &r.runs)
	c.bytes(&r.saved)
}

// copyRequest asks a copy to fetch the tokens that it lacks from another copy, on another worker.
// The reply is the lengths of its layers.
type copyRequest struct {
	copy   uint64
	epoch  uint32
	from   string
	source uint64
}

type copyReply struct{ lengths []uint32 }

func (r *copyRequest) encode(id clientID) []byte { return encodeRequest(opCopy, id, r) }
func (r *copyReply) wire(c *codec)               { c.u32s(&r.lengths) }

func (r *copyRequest) wire(c *codec) {
	c.u64(&r.copy)
	c.u32(&r.epoch)
	c.text(&r.from, 64)
	c.u64(&r.source)
}
