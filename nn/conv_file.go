package nn

import (
	"io"
	"math"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/frames"
	"github.com/seed-1415985d/attn/internal/views"
)

// A file has a header, the inputs, the checkpoint's inputs if there is one, and a checksum of all
// of it. Numbers are little endian.

const convMagic = "attnconv\x01\x00\x00\x00"

// convHeader is the beginning of a file.
type convHeader struct {
	Magic                        [len(convMagic)]byte
	Channels, Width, Checkpoints uint32
	Length, CheckpointLength     uint64
}

// Save writes the last inputs and the checkpoint, not the weights, and returns the number of bytes
// written.
func (c *Conv) Save(w io.Writer) (_ int64, err error) {
	defer views.NameFunction("nn.Conv.Save", &err)
	h := convHeader{Magic: [len(convMagic)]byte([]byte(convMagic)),
		Channels: uint32(c.config.Channels),
		Width:    uint32(c.config.Width), Length: uint64(c.inputs.length)}
	parts := [][]float32{c.inputs.data}
	if c.kept != nil {
		h.Checkpoints, h.CheckpointLength = 1, uint64(c.kept.length)
		parts = append(parts, c.kept.data)
	}
	to := frames.NewNumberWriter(w)
	err = to.Put(h)
	for _, p := range parts {
		for len(p) > 0 && err == nil {
			n := min(len(p), convTaps)
			err = to.Put(p[:n])
			p = p[n:]
		}
	}
	return to.End()
}

// Load replaces the sequence by the one that Save wrote, and reads no further. A file of other
// Channels or Width is [attn.ErrShape], a damaged one [attn.ErrFormat]. On an error nothing has
// changed.
func (c *Conv) Load(r io.Reader) (_ int64, err error) {
	defer views.NameFunction("nn.Conv.Load", &err)
	from := frames.NewNumberReader(r)
	var h convHeader
	if err := from.Get(&h); err != nil {
		return from.N, err
	}
	switch {
	case string(h.Magic[:]) != convMagic:
		return from.N, views.Fail(attn.ErrFormat, "the file begins with %q, want %q", h.Magic[:],
			convMagic)
	case int64(h.Channels) != int64(c.config.Channels) || int64(h.Width) != int64(c.config.Width):
		return from.N, views.Fail(attn.ErrShape, "the file has %d channels and width %d, want %d and %d",
			h.Channels, h.Width, c.config.Channels, c.config.Width)
	case h.Checkpoints > 1 || h.Length > math.MaxInt || h.CheckpointLength > h.Length ||
		h.Checkpoints == 0 && h.CheckpointLength > 0:
		return from.N, views.Fail(attn.ErrFormat, "the file has length %d, %d checkpoints and "+
			"checkpoint length %d", h.Length, h.Checkpoints, h.CheckpointLength)
	}
	all := [2]*convInputs{{length: int(h.Length)}, {length: int(h.CheckpointLength)}}
	for _, s := range all[:1+h.Checkpoints] {
		s.data = make([]float32, len(c.inputs.data))
		for p := s.data; len(p) > 0; {
			n := min(len(p), convTaps)
			if err := from.Get(p[:n]); err != nil {
				return from.N, err
			}
			p = p[n:]
		}
	}
	if err := from.End(); err != nil {
		return from.N, err
	}
	c.inputs, c.kept = *all[0], nil
	if h.Checkpoints > 0 {
		c.kept = all[1]
	}
	return from.N, nil
}
