package linattn

import (
	"io"
	"math"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/frames"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/views"
)

// A file has a header, the state, the checkpoint if there is one, and a checksum of all of it.
// Numbers are little endian. A state has for each head the matrix [KeyDim, ValueDim] at the start
// of the current chunk, then for each row of the chunk its key, its update and its factors.

const magic = "attnlinr\x01\x00\x00\x00"

// header is the beginning of a file.
type header struct {
	Magic                                         [len(magic)]byte
	Heads, QueryHeads, KeyHeads, KeyDim, ValueDim uint32
	Rule, Options, Grouping, Scale, Checkpoint    uint32
	Length, CheckpointLength                      uint64
}

// Bits of Options in a header.
const (
	fileChannelDecay = 1 << iota
	fileReadKeys
)

func (s *State) header() header {
	h := header{Magic: [len(magic)]byte([]byte(magic)), Heads: uint32(s.Heads),
		QueryHeads: uint32(s.QueryHeads), KeyHeads: uint32(s.KeyHeads), KeyDim: uint32(s.KeyDim),
		ValueDim: uint32(s.ValueDim), Rule: uint32(s.Rule), Grouping: uint32(s.Grouping),
		Scale: math.Float32bits(s.Scale), Length: uint64(s.length)}
	if s.ChannelDecay {
		h.Options |= fileChannelDecay
	}
	if s.ReadKeys {
		h.Options |= fileReadKeys
	}
	if s.kept != nil {
		h.Checkpoint, h.CheckpointLength = 1, uint64(s.kept.length)
	}
	return h
}

// Save writes the state and its checkpoint, and returns the number of bytes written.
func (s *State) Save(w io.Writer) (_ int64, err error) {
	defer views.NameFunction("linattn.State.Save", &err)
	if s.closed {
		return 0, s.closedError("the state")
	}
	to := frames.NewNumberWriter(w)
	put := func(x []float32) error { return to.Put(x) }
	err = to.Put(s.header())
	if err == nil {
		err = s.eachRow(put, false)
	}
	if err == nil && s.kept != nil {
		_ = s.stateAt(s.kept).eachRow(put, false) // End returns the error
	}
	return to.End()
}

// stateAt returns a snapshot as a State that may be read only.
func (s *State) stateAt(m *moment) *State {
	return &State{layout: s.layout, length: m.length, blank: m.blank, matrix: buffer{now: m.matrix},
		chunk: buffer{now: m.chunk}}
}

// eachRow calls pass for each row of the state in the order of a file. With changes it stores what
// pass has written to the row.
func (s *State) eachRow(pass func(row []float32) error, changes bool) error {
	row := make([]float32, max(s.KeyDim, s.ValueDim))
	// strided passes n elements that are not consecutive in memory
	strided := func(at func(i int) *float32, n int) error {
		for i := range n {
			row[i] = *at(i)
		}
		if s.blank { // a blank state has no tokens: all rows are matrix rows
			clear(row[:n])
		}
		if err := pass(row[:n]); err != nil || !changes {
			return err
		}
		for i, e := range row[:n] {
			*at(i) = e
		}
		return nil
	}
	for h := range s.Heads {
		m := s.head(h)
		for d := range s.KeyDim {
			if err := strided(func(c int) *float32 {
				return &m.matrix[(c/kernel.Panel*s.KeyDim+d)*kernel.Panel+c%kernel.Panel]
			}, s.ValueDim); err != nil {
				return err
			}
		}
		for i := range s.length % Chunk {
			key := func(d int) *float32 { return &m.keys[d*kernel.Panel+i] }
			if err := strided(key, s.KeyDim); err != nil {
				return err
			}
			if err := pass(m.updates[i*s.width():][:s.ValueDim]); err != nil {
				return err
			}
			if err := pass(m.factors[i*s.decays:][:s.decays]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Load replaces the state by the one that Save wrote, and reads no further. A file of other
// dimensions is [attn.ErrShape], of another Rule, ChannelDecay, ReadKeys, Grouping or Scale
// [attn.ErrOption], a damaged one [attn.ErrFormat]. On an error nothing has changed.
func (s *State) Load(r io.Reader) (_ int64, err error) {
	defer views.NameFunction("linattn.State.Load", &err)
	if s.closed {
		return 0, s.closedError("the state")
	}
	f := frames.NewNumberReader(r)
	var h header
	if err := f.Get(&h); err != nil {
		return f.N, err
	}
	if err := s.checkHeader(&h); err != nil {
		return f.N, err
	}
	loaded, err := NewState(s.Config())
	if err != nil {
		return f.N, err
	}
	if err = loaded.read(f, h.Length); err == nil && h.Checkpoint > 0 {
		var kept *State
		if kept, err = NewState(s.Config()); err == nil {
			err = kept.read(f, h.CheckpointLength)
			loaded.kept = &moment{length: kept.length, matrix: kept.matrix.now, chunk: kept.chunk.now}
		}
	}
	if err == nil {
		err = f.End()
	}
	if err != nil {
		_ = loaded.Close()
		return f.N, err
	}
	_ = s.Close()
	*s = *loaded
	return f.N, nil
}

// checkHeader makes sure that a file has the configuration of s.
func (s *State) checkHeader(h *header) error {
	want := s.header()
	want.Checkpoint, want.Length, want.CheckpointLength = h.Checkpoint, h.Length, h.CheckpointLength
	switch {
	case h.Magic != want.Magic:
		return views.Fail(attn.ErrFormat, "the file begins with %q, want %q", h.Magic[:], magic)
	case h.Heads != want.Heads || h.QueryHeads != want.QueryHeads || h.KeyHeads != want.KeyHeads ||
		h.KeyDim != want.KeyDim || h.ValueDim != want.ValueDim:
		return views.Fail(attn.ErrShape, "the file has %d heads, %d of queries and %d of keys, [%d %d], "+
			"want %d, %d and %d, [%d %d]", h.Heads, h.QueryHeads, h.KeyHeads, h.KeyDim, h.ValueDim,
			want.Heads, want.QueryHeads, want.KeyHeads, want.KeyDim, want.ValueDim)
	case *h != want:
		return views.Fail(attn.ErrOption, "the file has %v, ChannelDecay %d, ReadKeys %d, %v and Scale "+
			"%v, want %v, %d, %d, %v and %v", Rule(h.Rule), h.Options&fileChannelDecay,
			h.Options/fileReadKeys, Grouping(h.Grouping), math.Float32frombits(h.Scale), s.Rule,
			want.Options&fileChannelDecay, want.Options/fileReadKeys, s.Grouping, s.Scale)
	case h.Checkpoint > 1 || h.Length > math.MaxInt || h.CheckpointLength > h.Length ||
		h.Checkpoint == 0 && h.CheckpointLength > 0:
		return views.Fail(attn.ErrFormat, "the file has length %d, %d checkpoints and "+
			"checkpoint length %d", h.Length, h.Checkpoint, h.CheckpointLength)
	}
	return nil
}

// read reads a state with length tokens from a file.
func (s *State) read(f *frames.NumberReader, length uint64) error {
	s.length = int(length)
	if err := s.eachRow(func(row []float32) error { return f.Get(row) }, true); err != nil {
		return err
	}
	for h := range s.Heads {
		m := s.head(h)
		m.refreshDecays(&s.layout, s.length%Chunk)
	}
	return nil
}
