package cluster

import (
	"time"

	"github.com/seed-1415985d/attn"
)

// Messages about copies of parts. A copy is named by its client and a number that the client never
// uses again, so a message that comes late finds nothing. Its epoch counts truncations: an append
// from before one is refused after it.

// shape is what the keys and values of a sequence look like.
type shape struct {
	layers, kvHeads, headDim, valueDim int
	format, valueFormat                attn.Format
	valuesInKeys                       bool
}

// values is the number of elements of a head's value that travel and are kept: none if they are
// part of the key.
func (s *shape) values() int {
	if s.valuesInKeys {
		return 0
	}
	return s.valueDim
}

// rotatesOutputs reports whether states have sums of rotated values.
func (s *shape) rotatesOutputs() bool {
	return s.valueFormat == attn.I4 || s.valuesInKeys && s.valueFormat == attn.I8
}

// integers reports whether keys and values are integers, which Integers multiplies.
func (s *shape) integers() bool {
	return min(s.format, s.valueFormat) >= attn.I8
}

// checkFormats makes sure that stores take the formats. The fields are those of a struct.
func (s *shape) checkFormats(of string) error {
	switch {
	case s.format < attn.F32 || s.format > attn.I4:
		return fail(attn.ErrOption, "%sFormat is %v, want F32, F16, BF16, I8 or I4", of, s.format)
	case s.valueFormat < attn.F32 || s.valueFormat > attn.I4 ||
		s.valueFormat == attn.F32 && s.format != attn.F32:
		return fail(attn.ErrOption, "%sValueFormat is %v, want F16, BF16, I8, I4, or that of keys, %v",
			of, s.valueFormat, s.format)
	case s.valuesInKeys && s.valueFormat != s.format:
		return fail(attn.ErrOption, "%sValueFormat is %v with ValuesInKeys, want that of keys, %v", of,
			s.valueFormat, s.format)
	}
	return nil
}

func (e *encoder) shape(s *shape) {
	for _, n := range []int{s.layers, s.kvHeads, s.headDim, s.valueDim} {
		e.u32(uint32(n))
	}
	e.u8(uint8(s.format))
	e.u8(uint8(s.valueFormat))
	e.flag(s.valuesInKeys)
}

func (d *decoder) shape() (s shape) {
	s.layers, s.kvHeads = d.size("layers"), d.size("KVHeads")
	s.headDim, s.valueDim = d.size("HeadDim"), d.size("ValueDim")
	s.format, s.valueFormat = attn.Format(d.u8()), attn.Format(d.u8())
	s.valuesInKeys = d.flag()
	return s
}

// createRequest makes an empty copy of a part.
type createRequest struct {
	copy     uint64
	sequence uint64 // and
	part     uint32 // say what it is a copy of
	epoch    uint32
	tokens   int // that the part has at most
	lease    uint32
	shape    shape
}

func (r *createRequest) encode(client clientID) []byte {
	e := beginRequest(opCreate, client)
	e.u64(r.copy)
	e.u64(r.sequence)
	e.u32(r.part)
	e.u32(r.epoch)
	e.u32(uint32(r.tokens))
	e.u32(r.lease)
	e.shape(&r.shape)
	return e.data
}

func (r *createRequest) decode(d *decoder) error {
	r.copy, r.sequence, r.part, r.epoch = d.u64(), d.u64(), d.u32(), d.u32()
	r.tokens, r.lease = d.size("tokens"), d.u32()
	r.shape = d.shape()
	return d.end()
}

// truncateRequest leaves a number of tokens of each layer, if the copy is of an earlier epoch, but
// not of one before since: it may have other tokens than those that are meant.
type truncateRequest struct {
	copy         uint64
	epoch, since uint32
	lengths      []uint32
}

func (r *truncateRequest) encode(client clientID) []byte {
	e := beginRequest(opTruncate, client)
	e.u64(r.copy)
	e.u32(r.epoch)
	e.u32(r.since)
	e.u32s(r.lengths)
	return e.data
}

func (r *truncateRequest) decode(d *decoder) error {
	r.copy, r.epoch, r.since, r.lengths = d.u64(), d.u32(), d.u32(), d.u32s()
	return d.end()
}

// releaseRequest frees copies. Those that there are not are no error.
type releaseRequest struct{ copies []uint64 }

func (r *releaseRequest) encode(client clientID) []byte {
	e := beginRequest(opRelease, client)
	e.u64s(r.copies)
	return e.data
}

func (r *releaseRequest) decode(d *decoder) error {
	r.copies = d.u64s()
	return d.end()
}

// renewRequest says that the client is there, and which copies it has: others with numbers up to
// the horizon are freed. The reply is those that the worker has not.
type renewRequest struct {
	lease   uint32
	horizon uint64
	copies  []uint64
}

func (r *renewRequest) encode(client clientID) []byte {
	e := beginRequest(opRenew, client)
	e.u32(r.lease)
	e.u64(r.horizon)
	e.u64s(r.copies)
	return e.data
}

func (r *renewRequest) decode(d *decoder) error {
	r.lease, r.horizon, r.copies = d.u32(), d.u64(), d.u64s()
	return d.end()
}

// readRequest asks for a run of tokens in the form of attn.Sequence.Save.
type readRequest struct {
	copy       uint64
	epoch      uint32
	layer, run uint32
}

func (r *readRequest) encode(client clientID) []byte {
	e := beginRequest(opRead, client)
	e.u64(r.copy)
	e.u32(r.epoch)
	e.u32(r.layer)
	e.u32(r.run)
	return e.data
}

func (r *readRequest) decode(d *decoder) error {
	r.copy, r.epoch, r.layer, r.run = d.u64(), d.u32(), d.u32(), d.u32()
	return d.end()
}

// readReply is one of the runs that a layer has, or how long it is to wait.
type readReply struct {
	wait  time.Duration // milliseconds travel
	runs  int
	saved []byte
}

func (r *readReply) encode() []byte {
	e := &encoder{make([]byte, 0, 32+len(r.saved))}
	e.ok()
	e.u32(uint32((r.wait + time.Millisecond - 1) / time.Millisecond))
	e.u32(uint32(r.runs))
	e.bytes(r.saved)
	return e.data
}

func (r *readReply) decode(d *decoder) error {
	r.wait = time.Duration(d.size("milliseconds")) * time.Millisecond
	r.runs, r.saved = d.size("runs"), d.bytes()
	return d.end()
}

// copyRequest lets a copy take over what another one, on another worker, has more. The reply is the
// lengths of its layers.
type copyRequest struct {
	copy   uint64
	epoch  uint32
	from   string
	source uint64
}

func (r *copyRequest) encode(client clientID) []byte {
	e := beginRequest(opCopy, client)
	e.u64(r.copy)
	e.u32(r.epoch)
	e.text(r.from)
	e.u64(r.source)
	return e.data
}

func (r *copyRequest) decode(d *decoder) error {
	r.copy, r.epoch, r.from, r.source = d.u64(), d.u32(), d.text(64), d.u64()
	return d.end()
}

// u32sReply and u64sReply are replies of one list.
func u32sReply(x []uint32) []byte {
	e := beginReply()
	e.u32s(x)
	return e.data
}

func u64sReply(x []uint64) []byte {
	e := beginReply()
	e.u64s(x)
	return e.data
}
