package linattn

import (
	"sync/atomic"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/views"
)

// shared is memory that several users may hold: a state, its forks and checkpoints. A state copies
// it before a write unless it is the only user.
type shared struct {
	mapping *memory.Mapping
	data    []float32
	users   atomic.Int32
}

func allocate(floats int) (*shared, error) {
	m, err := memory.Allocate(4 * floats)
	if err != nil {
		return nil, views.Fail(attn.ErrMemory, "a linattn.State needs %d bytes: %v", 4*floats, err)
	}
	s := &shared{mapping: m, data: m.Floats()}
	s.users.Store(1)
	return s, nil
}

// addUser counts another user and returns the memory for it.
func (s *shared) addUser() *shared {
	s.users.Add(1)
	return s
}

// soleUser reports whether the caller is the only user.
func (s *shared) soleUser() bool { return s.users.Load() == 1 }

// dropUser counts one user less. The last one frees the memory.
func (s *shared) dropUser() {
	if s != nil && s.users.Add(-1) == 0 {
		_ = s.mapping.Close()
	}
}

// buffer is memory that a State writes to, and a spare. The spare saves a system call for each
// Checkpoint where they are frequent.
type buffer struct {
	now, spare *shared
}

// prepare allocates memory for a copy if other users see the current one. Until commit only the
// spare changes.
func (p *buffer) prepare() (err error) {
	if p.now.soleUser() || p.spare != nil {
		return nil
	}
	p.spare, err = allocate(len(p.now.data))
	return err
}

// commit switches to memory without other users, after prepare. copies says whether the contents
// are copied.
func (p *buffer) commit(copies bool) {
	if p.now.soleUser() {
		return
	}
	to := p.spare
	if copies {
		stop.Copy(to.data, p.now.data)
	}
	p.now.dropUser()
	p.now, p.spare = to, nil
}

// release ends the use of memory. It becomes the spare if there is none and nobody else uses it.
func (p *buffer) release(s *shared) {
	if s != nil && p.spare == nil && s.soleUser() {
		p.spare = s
		return
	}
	s.dropUser()
}

// close ends the use of all memory.
func (p *buffer) close() {
	p.now.dropUser()
	p.spare.dropUser()
	*p = buffer{}
}
