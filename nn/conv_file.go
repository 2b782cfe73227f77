package nn

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/views"
)

// A file has a header, the inputs, those of the checkpoint if there is one, and a checksum of all
// of it. Numbers are little endian.

const convMagic = "attnconv\x01\x00\x00\x00"

// convHeader is what comes first.
type convHeader struct {
	Magic                        [len(convMagic)]byte
	Channels, Width, Checkpoints uint32
	Length, CheckpointLength     uint64
}

var convTable = crc32.MakeTable(crc32.Castagnoli)

// Save writes the inputs that matter and the checkpoint, not the weights, and returns how many
// bytes it has written.
func (c *Conv) Save(w io.Writer) (int64, error) {
	h := convHeader{Magic: [len(convMagic)]byte([]byte(convMagic)),
		Channels: uint32(c.config.Channels),
		Width:    uint32(c.config.Width), Length: uint64(c.inputs.length)}
	parts := [][]float32{c.inputs.data}
	if c.kept != nil {
		h.Checkpoints, h.CheckpointLength = 1, uint64(c.kept.length)
		parts = append(parts, c.kept.data)
	}
	sum, counted := crc32.New(convTable), &counter{to: w}
	to := io.MultiWriter(counted, sum)
	if err := binary.Write(to, binary.LittleEndian, h); err != nil {
		return counted.written, err
	}
	for _, p := range parts {
		for len(p) > 0 {
			n := min(len(p), convTaps)
			if err := binary.Write(to, binary.LittleEndian, p[:n]); err != nil {
				return counted.written, err
			}
			p = p[n:]
		}
	}
	err := binary.Write(counted, binary.LittleEndian, sum.Sum32())
	return counted.written, err
}

// counter counts what a writer takes. A writer that takes less and says nothing fails.
type counter struct {
	to      io.Writer
	written int64
}

func (c *counter) Write(x []byte) (int, error) {
	n, err := c.to.Write(x)
	c.written += int64(n)
	if err == nil && n != len(x) {
		err = io.ErrShortWrite
	}
	return n, err
}

// Load takes what Save wrote in the place of the sequence, and reads exactly that. A file of other
// Channels or Width is [attn.ErrShape], a damaged one [attn.ErrFormat], and nothing has changed.
func (c *Conv) Load(r io.Reader) (int64, error) {
	sum, read := crc32.New(convTable), int64(0)
	take := func(into any) error {
		data := make([]byte, binary.Size(into))
		n, err := io.ReadFull(r, data)
		if read += int64(n); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return views.Fail(attn.ErrFormat, "the file ends after %d bytes", read)
		}
		if err != nil {
			return err
		}
		sum.Write(data)
		_, err = binary.Decode(data, binary.LittleEndian, into)
		return err
	}
	var h convHeader
	if err := take(&h); err != nil {
		return read, err
	}
	switch {
	case string(h.Magic[:]) != convMagic:
		return read, views.Fail(attn.ErrFormat, "the file begins with %q, want %q", h.Magic[:], convMagic)
	case int64(h.Channels) != int64(c.config.Channels) || int64(h.Width) != int64(c.config.Width):
		return read, views.Fail(attn.ErrShape, "the file has %d channels and width %d, want %d and %d",
			h.Channels, h.Width, c.config.Channels, c.config.Width)
	case h.Checkpoints > 1 || h.Length > math.MaxInt || h.CheckpointLength > h.Length:
		return read, views.Fail(attn.ErrFormat, "the file has length %d, %d checkpoints and that of %d",
			h.Length, h.Checkpoints, h.CheckpointLength)
	}
	all := [2]*convInputs{{length: int(h.Length)}, {length: int(h.CheckpointLength)}}
	for _, s := range all[:1+h.Checkpoints] {
		s.data = make([]float32, len(c.inputs.data))
		for p := s.data; len(p) > 0; {
			n := min(len(p), convTaps)
			if err := take(p[:n]); err != nil {
				return read, err
			}
			p = p[n:]
		}
	}
	want := sum.Sum32()
	var got uint32
	if err := take(&got); err != nil {
		return read, err
	}
	if got != want {
		return read, views.Fail(attn.ErrFormat, "the file's checksum is %08x, want %08x", got, want)
	}
	c.inputs, c.kept = *all[0], nil
	if h.Checkpoints > 0 {
		c.kept = all[1]
	}
	return read, nil
}
