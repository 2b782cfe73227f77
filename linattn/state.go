package linattn

import (
	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/views"
)

// State is what a layer keeps of one sequence: a matrix [KeyDim, ValueDim] for each head, and the
// tokens of the chunk that is not full. It is for one call at a time; forks are states of their
// own.
type State struct {
	layout
	length        int
	matrix, chunk buffer
	blank         bool    // the matrices are zeros, whatever is in memory
	kept          *moment // of Checkpoint
	closed        bool

	first, rows int // of a call of several: where its rows begin, and how many there are
}

// moment is a State at a length.
type moment struct {
	length        int
	matrix, chunk *shared
	blank         bool
}

// NewState returns the state of an empty sequence: zeros, unless Start says otherwise. A Config
// that is not possible is [attn.ErrShape] or [attn.ErrOption], and memory that the system refuses
// [attn.ErrMemory].
func NewState(c Config) (_ *State, err error) {
	defer views.NameFunction("linattn.NewState", &err)
	g, err := layoutOf(c)
	if err != nil {
		return nil, err
	}
	s := &State{layout: g}
	if s.matrix.now, err = allocate(g.Heads * g.matrix); err != nil {
		return nil, err
	}
	if s.chunk.now, err = allocate(g.Heads * g.chunk); err != nil {
		s.matrix.close()
		return nil, err
	}
	return s, nil
}

// Config returns what the state was made with, 0 replaced by what it stands for.
func (s *State) Config() Config { return s.layout.Config }

// Len is how many tokens there were.
func (s *State) Len() int { return s.length }

// MemoryUse is how many bytes the state holds, those of the checkpoint and those that it shares
// with forks included; nothing after Close.
func (s *State) MemoryUse() int {
	if s.closed {
		return 0
	}
	floats := 0
	add := func(m *shared) {
		if m != nil {
			floats += len(m.data)
		}
	}
	for _, p := range [...]*buffer{&s.matrix, &s.chunk} {
		add(p.now)
		add(p.spare)
	}
	if k := s.kept; k != nil {
		if k.matrix != s.matrix.now {
			add(k.matrix)
		}
		if k.chunk != s.chunk.now {
			add(k.chunk)
		}
	}
	return 4 * floats
}

// Close gives the memory back. Afterwards methods that return an error return [attn.ErrClosed],
// Close too, and Fork returns another closed State. Close of nil does nothing.
func (s *State) Close() (err error) {
	defer views.NameFunction("linattn.State.Close", &err)
	if s == nil {
		return nil
	}
	if s.closed {
		return s.gone("the state")
	}
	s.dropKept()
	s.matrix.close()
	s.chunk.close()
	s.closed, s.length = true, 0
	return nil
}

func (s *State) gone(name string) error {
	return views.Fail(attn.ErrClosed, "%s was closed", name)
}

// Start says where an empty state begins: [1, Heads, KeyDim, ValueDim]. The checkpoint is gone. A
// State with tokens is [attn.ErrLength].
func (s *State) Start(state attn.Tensor) (err error) {
	defer views.NameFunction("linattn.State.Start", &err)
	a := argumentOf("state", &state)
	switch {
	case s.closed:
		return s.gone("the state")
	case s.length != 0:
		return views.Fail(attn.ErrLength, "the state has %d tokens, want an empty one", s.length)
	}
	if err := checkShape(&a, s.Heads, s.KeyDim, s.ValueDim); err != nil {
		return err
	}
	if err := s.matrix.prepare(); err != nil {
		return err
	}
	s.matrix.commit(false)
	s.blank = false
	for h := range s.Heads {
		m := s.head(h)
		for d := range s.KeyDim {
			row := a.Row(0, h, d)
			for c := range s.panels * kernel.Panel {
				var e float32
				if c < s.ValueDim {
					e = row[c]
				}
				m.s[(c/kernel.Panel*s.KeyDim+d)*kernel.Panel+c%kernel.Panel] = e
			}
			stop.Point()
		}
	}
	s.dropKept() // of what was there before
	return nil
}

// Read writes to state, [1, Heads, KeyDim, ValueDim], what Len tokens have left. In a chunk that is
// the rule of a full one, which takes the last row in place of the chunk's.
func (s *State) Read(state attn.Tensor) (err error) {
	defer views.NameFunction("linattn.State.Read", &err)
	a := argumentOf("state", &state)
	if s.closed {
		return s.gone("the state")
	}
	if err := checkShape(&a, s.Heads, s.KeyDim, s.ValueDim); err != nil {
		return err
	}
	if err := a.CheckDistinct("state"); err != nil {
		return err
	}
	if err := s.fill(); err != nil {
		return err
	}
	w := takeWork(&s.layout)
	w.panel = kernel.Grow(w.panel, s.KeyDim*kernel.Panel)
	panel := w.panel[:s.KeyDim*kernel.Panel]
	for h := range s.Heads {
		m := s.head(h)
		if rows := s.length % Chunk; rows > 0 {
			w.weighKeys(s, &m)
		}
		for p := range s.panels {
			stop.Copy(panel, m.panel(s, p))
			if rows := s.length % Chunk; rows > 0 {
				w.takeRows(s, panel, m.u[p*kernel.Panel:], rows)
			}
			from := p * kernel.Panel
			for d := range s.KeyDim {
				copy(a.Row(0, h, d)[from:min(from+kernel.Panel, s.ValueDim)], panel[d*kernel.Panel:])
			}
			stop.Point()
		}
	}
	w.put()
	return nil
}

// Truncate forgets the tokens from n on. n is within the chunk at hand, from Len/Chunk·Chunk to
// Len, or exactly the checkpoint's position; else it is [attn.ErrLength]. So from a Len of 48 not
// one token goes back without a [State.Checkpoint], which comes before guesses. A checkpoint beyond
// n is gone.
func (s *State) Truncate(n int) (err error) {
	defer views.NameFunction("linattn.State.Truncate", &err)
	first := s.length / Chunk * Chunk
	switch {
	case s.closed:
		return s.gone("the state")
	case n == s.length:
	case n >= first && n < s.length:
		if err := s.chunk.prepare(); err != nil {
			return err
		}
		s.chunk.commit(n > first)
		s.length = n
		for h := range s.Heads {
			m := s.head(h)
			m.refresh(&s.layout, n-first)
			stop.Point()
		}
	case s.kept != nil && n == s.kept.length:
		s.matrix.let(s.matrix.now)
		s.chunk.let(s.chunk.now)
		s.matrix.now, s.chunk.now = s.kept.matrix.share(), s.kept.chunk.share()
		s.length, s.blank = n, s.kept.blank
	case s.kept != nil:
		return views.Fail(attn.ErrLength, "n is %d, want %d to %d, or %d, the checkpoint", n, first,
			s.length, s.kept.length)
	default:
		return views.Fail(attn.ErrLength, "n is %d, want %d to %d and there is no checkpoint", n, first,
			s.length)
	}
	if s.kept != nil && s.kept.length > n {
		s.dropKept()
	}
	return nil
}

// Checkpoint keeps what Truncate to the current length needs, in place of an earlier one. It shares
// memory with the state until that is written to; a closed State keeps nothing.
func (s *State) Checkpoint() {
	if s.closed {
		return
	}
	s.dropKept()
	s.kept = &moment{s.length, s.matrix.now.share(), s.chunk.now.share(), s.blank}
}

func (s *State) dropKept() {
	if s.kept != nil {
		s.matrix.let(s.kept.matrix)
		s.chunk.let(s.kept.chunk)
		s.kept = nil
	}
}

// Fork returns a copy that goes on by itself, the checkpoint included. Both share memory until they
// write to it, which is when it is copied: that of the tokens of a chunk with the next token, that
// of the matrices with the last token of a chunk.
func (s *State) Fork() *State {
	f := &State{layout: s.layout, length: s.length, blank: s.blank, closed: s.closed}
	if s.closed {
		return f
	}
	f.matrix.now, f.chunk.now = s.matrix.now.share(), s.chunk.now.share()
	if k := s.kept; k != nil {
		f.kept = &moment{k.length, k.matrix.share(), k.chunk.share(), k.blank}
	}
	return f
}

// Reset makes the state empty again, of zeros; the checkpoint is gone. A closed State stays closed.
func (s *State) Reset() {
	if s.closed {
		return
	}
	s.dropKept()
	s.length, s.blank = 0, true
}

// fill makes matrices zeros that are to be.
func (s *State) fill() error {
	if !s.blank {
		return nil
	}
	if err := s.matrix.prepare(); err != nil {
		return err
	}
	s.matrix.commit(false)
	stop.Clear(s.matrix.now.data)
	s.blank = false
	return nil
}
