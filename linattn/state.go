package linattn

import (
	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/kernel"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/views"
)

// State is the state of one layer for one sequence: a matrix [KeyDim, ValueDim] for each head, and
// the tokens of the chunk that is not full. Only one call at a time may use it; forks are separate
// states.
type State struct {
	layout
	length        int
	matrix, chunk buffer
	blank         bool    // the matrices count as zeros, whatever is in memory
	kept          *moment // the checkpoint, nil for none
	closed        bool

	first, rows int // in a call: position of its first row in the arguments, and number of rows
}

// moment is a snapshot of a State.
type moment struct {
	length        int
	matrix, chunk *shared
	blank         bool
}

// NewState returns the state of an empty sequence: zeros, unless Start sets another one. An invalid
// Config is [attn.ErrShape] or [attn.ErrOption], memory that the system refuses [attn.ErrMemory].
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

// Config returns the configuration of the state, with defaults filled in.
func (s *State) Config() Config { return s.layout.Config }

// Len returns the number of tokens in the sequence.
func (s *State) Len() int { return s.length }

// MemoryUse returns the number of bytes that the state holds, including its checkpoint and memory
// that it shares with forks. It is 0 after Close.
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

// Close releases the memory. Afterwards all methods that return an error, Close included, return
// [attn.ErrClosed], and Fork returns another closed State. Close of nil does nothing.
func (s *State) Close() (err error) {
	defer views.NameFunction("linattn.State.Close", &err)
	if s == nil {
		return nil
	}
	if s.closed {
		return s.closedError("the state")
	}
	s.dropCheckpoint()
	s.matrix.close()
	s.chunk.close()
	s.closed, s.length = true, 0
	return nil
}

func (s *State) closedError(name string) error {
	return views.Fail(attn.ErrClosed, "%s was closed", name)
}

// Start sets the matrices of an empty state to state, [1, Heads, KeyDim, ValueDim], and drops the
// checkpoint. A State with tokens is [attn.ErrLength].
func (s *State) Start(state attn.Tensor) (err error) {
	defer views.NameFunction("linattn.State.Start", &err)
	a := argumentOf("state", &state)
	switch {
	case s.closed:
		return s.closedError("the state")
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
				m.matrix[(c/kernel.Panel*s.KeyDim+d)*kernel.Panel+c%kernel.Panel] = e
			}
			stop.Point()
		}
	}
	s.dropCheckpoint() // it is of the earlier contents
	return nil
}

// Read writes the matrices after Len tokens to state, [1, Heads, KeyDim, ValueDim]. A chunk that is
// not full is added by the formula of a full one, with its last row in place of row 15.
func (s *State) Read(state attn.Tensor) (err error) {
	defer views.NameFunction("linattn.State.Read", &err)
	a := argumentOf("state", &state)
	if s.closed {
		return s.closedError("the state")
	}
	if err := checkShape(&a, s.Heads, s.KeyDim, s.ValueDim); err != nil {
		return err
	}
	if err := a.CheckDistinct("state"); err != nil {
		return err
	}
	if err := s.fillZeros(); err != nil {
		return err
	}
	w := getWork(&s.layout)
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
				w.addRows(s, panel, m.updates[p*kernel.Panel:], rows)
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

// Truncate removes the tokens from position n on. n must lie in the current chunk, from
// Len/Chunk·Chunk to Len, or be exactly the checkpoint's position, else it is [attn.ErrLength]. At
// a Len of 48, for example, no token can be removed without a [State.Checkpoint]: make one before
// speculative tokens. A checkpoint beyond n is dropped.
func (s *State) Truncate(n int) (err error) {
	defer views.NameFunction("linattn.State.Truncate", &err)
	first := s.length / Chunk * Chunk
	switch {
	case s.closed:
		return s.closedError("the state")
	case n == s.length:
	case n >= first && n < s.length:
		if err := s.chunk.prepare(); err != nil {
			return err
		}
		s.chunk.commit(n > first)
		s.length = n
		for h := range s.Heads {
			m := s.head(h)
			m.refreshDecays(&s.layout, n-first)
			stop.Point()
		}
	case s.kept != nil && n == s.kept.length:
		s.matrix.release(s.matrix.now)
		s.chunk.release(s.chunk.now)
		s.matrix.now, s.chunk.now = s.kept.matrix.addUser(), s.kept.chunk.addUser()
		s.length, s.blank = n, s.kept.blank
	case s.kept != nil:
		return views.Fail(attn.ErrLength, "n is %d, want %d to %d, or %d, the checkpoint", n, first,
			s.length, s.kept.length)
	default:
		return views.Fail(attn.ErrLength, "n is %d, want %d to %d and there is no checkpoint", n, first,
			s.length)
	}
	if s.kept != nil && s.kept.length > n {
		s.dropCheckpoint()
	}
	return nil
}

// Checkpoint saves the current state for [State.Truncate] and replaces an earlier checkpoint. Both
// share memory until the state is written to. It does nothing to a closed State.
func (s *State) Checkpoint() {
	if s.closed {
		return
	}
	k := s.kept
	if s.dropCheckpoint(); k == nil {
		k = &moment{}
	}
	*k = moment{s.length, s.matrix.now.addUser(), s.chunk.now.addUser(), s.blank}
	s.kept = k
}

func (s *State) dropCheckpoint() {
	if s.kept != nil {
		s.matrix.release(s.kept.matrix)
		s.chunk.release(s.kept.chunk)
		s.kept = nil
	}
}

// Fork returns an independent copy of the state and its checkpoint. Both share memory until either
// writes to it: the next token copies the chunk, the last token of a chunk copies the matrices.
func (s *State) Fork() *State {
	f := &State{layout: s.layout, length: s.length, blank: s.blank, closed: s.closed}
	if s.closed {
		return f
	}
	f.matrix.now, f.chunk.now = s.matrix.now.addUser(), s.chunk.now.addUser()
	if k := s.kept; k != nil {
		f.kept = &moment{k.length, k.matrix.addUser(), k.chunk.addUser(), k.blank}
	}
	return f
}

// Reset makes the state empty, with zeros as matrices, and drops the checkpoint. A closed State
// stays closed.
func (s *State) Reset() {
	if s.closed {
		return
	}
	s.dropCheckpoint()
	s.length, s.blank = 0, true
}

// fillZeros zeroes the matrices in memory if Reset has left that to do.
func (s *State) fillZeros() error {
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
