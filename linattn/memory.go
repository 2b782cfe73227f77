package linattn

import (
	"sync/atomic"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/memory"
	"github.com/seed-1415985d/attn/internal/stop"
	"github.com/seed-1415985d/attn/internal/views"
)

// shared is memory that states may have in common, after a Fork or a Checkpoint. Who is about to
// write takes a copy unless nobody else has it.
type shared struct {
	mapping *memory.Mapping
	data    []float32
	users   atomic.Int32
}

func allocate(floats int) (*shared, error) {
	m, err := memory.Allocate(4 * floats)
	if err != nil {
		return nil, views.Fail(attn.ErrMemory, "a linear.State needs %d bytes: %v", 4*floats, err)
	}
	s := &shared{mapping: m, data: m.Floats()}
	s.users.Store(1)
	return s, nil
}

// share returns it for another user.
func (s *shared) share() *shared {
	s.users.Add(1)
	return s
}

// alone reports whether it has one user, who asks.
func (s *shared) alone() bool { return s.users.Load() == 1 }

// drop ends a use. The last one gives the memory back.
func (s *shared) drop() {
	if s != nil && s.users.Add(-1) == 0 {
		_ = s.mapping.Close()
	}
}

// buffer is memory of a State that it writes, and a spare that spares a system call where a
// Checkpoint comes after each few tokens.
type buffer struct {
	now, spare *shared
}

// prepare makes sure that there is memory to write to, apart from what others see. Until commit
// nothing changes but the spare.
func (p *buffer) prepare() (err error) {
	if p.now.alone() || p.spare != nil {
		return nil
	}
	p.spare, err = allocate(len(p.now.data))
	return err
}

// commit moves to memory that nobody else sees, after prepare. Where copies is false, what was
// there does not matter.
func (p *buffer) commit(copies bool) {
	if p.now.alone() {
		return
	}
	to := p.spare
	if copies {
		stop.Copy(to.data, p.now.data)
	}
	p.now.drop()
	p.now, p.spare = to, nil
}

// let ends the use of memory, which becomes the spare if nobody else has it and there is none.
func (p *buffer) let(s *shared) {
	if s != nil && p.spare == nil && s.alone() {
		p.spare = s
		return
	}
	s.drop()
}

// close ends all uses.
func (p *buffer) close() {
	p.now.drop()
	p.spare.drop()
	*p = buffer{}
}
