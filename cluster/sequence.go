package cluster

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/seed-1415985d/attn"
)

// SequenceConfig is the shape of a sequence.
type SequenceConfig struct {
	Layers   int // each of which has keys and values of its own
	KVHeads  int
	HeadDim  int
	ValueDim int
	Format   attn.Format // in which workers keep tokens
	// ValueFormat is that of values, of keys only Format then. 0 is Format.
	ValueFormat attn.Format
	// ValuesInKeys keeps keys only, whose first ValueDim ≤ HeadDim channels are values, as
	// attn.StoreConfig does. Append takes the zero Tensor for v.
	ValuesInKeys bool
}

// Sequence is the tokens of one sequence, in parts on several workers.
//
// Calls for different layers may run at the same time. Those that change a layer, and Attend over
// the tokens that they change, come one after another.
type Sequence struct {
	client *Client
	shape  shape
	id     uint64
	tokens int // of a part,
	long   int // and of a run

	ctx    context.Context // of all that goes on, until Release
	cancel context.CancelFunc
	change gate   // shared by appends; owned while copies join or go, or tokens go
	mended gate   // owned while copies are cut, which appends wait for in any case
	grow   gate   // owned while a part is made
	layers []gate // owned while tokens are appended

	packers sync.Pool // of *attn.Cache, in which runs are packed

	mu       sync.Mutex
	released bool
	lengths  []int
	taken    []int   // as lengths, with what an append that is running has brought to copies
	follows  []*ride // of layers whose last step copies follow
	broken   bool    // an append failed, or copies were recalled: they may have other lengths
	cuts     int     // that have begun and ended: of copies' epochs, while it is odd
	parts    []*sequencePart
	pause    context.Context // if not nil, appends begin when it ends: a copy is catching up
}

// sequencePart is a part and its copies, those to ask first in front.
type sequencePart struct {
	index  int
	epoch  uint32
	cut    truncateRequest // the last one that copies have taken
	copies []*partCopy
	moving chan struct{} // has an element while a copy is made
	doubts bool          // a copy was recalled, and is to be cut before it is one as others
}

// NewSequence returns a sequence without tokens. Parts are placed when tokens come.
func (c *Client) NewSequence(s SequenceConfig) (*Sequence, error) {
	if s.ValueFormat == 0 {
		s.ValueFormat = s.Format
	}
	if err := s.check("SequenceConfig."); err != nil {
		return nil, err
	}
	x := &Sequence{client: c, id: newID(), tokens: c.config.Segments * attn.Segment, shape: s,
		lengths: make([]int, s.Layers), taken: make([]int, s.Layers),
		follows: make([]*ride, s.Layers),
		change:  newGate(), mended: newGate(), grow: newGate()}
	for range s.Layers {
		x.layers = append(x.layers, newGate())
	}
	x.long = runTokens(&createRequest{tokens: x.tokens, shape: s})
	x.ctx, x.cancel = context.WithCancel(c.ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fail(attn.ErrClosed, "the client was closed")
	}
	c.sequences[x] = struct{}{}
	return x, nil
}

// ID is what errors and workers call the sequence.
func (s *Sequence) ID() uint64 { return s.id }

// Len is the number of tokens of a layer.
func (s *Sequence) Len(layer int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if layer < 0 || layer >= len(s.lengths) {
		return 0
	}
	return s.lengths[layer]
}

// Missing is how many copies of parts are still to be made again.
func (s *Sequence) Missing() (n int) {
	for _, p := range s.all() {
		n += max(0, s.client.config.Copies-len(s.good(p)))
	}
	return n
}

// all are the parts that there are.
func (s *Sequence) all() []*sequencePart {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.parts)
}

// good are the copies of a part that are of use, those of workers that answer first.
func (s *Sequence) good(p *sequencePart) (good []*partCopy) {
	locked(&s.mu, func() { good = slices.Clone(p.copies) })
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	good = slices.DeleteFunc(good, func(x *partCopy) bool { return !x.counts() })
	slices.SortStableFunc(good, func(a, b *partCopy) int { return c.doubt(a) - c.doubt(b) })
	return good
}

// doubt is how little a copy's worker is to be relied on. The lock is held.
func (c *Client) doubt(x *partCopy) int {
	return int(min(c.healthOf(x.worker), absent))
}

// begin starts a call, which ends with its context or its time, or when the sequence is released.
func (s *Sequence) begin(ctx context.Context) (context.Context, func()) {
	ctx, cancel := s.client.limit(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// check makes sure that the sequence has a layer and can be used.
func (s *Sequence) check(layer int) error {
	if err := s.ended(); err != nil {
		return err
	}
	if layer < 0 || layer >= len(s.layers) {
		return fail(attn.ErrOption, "layer is %d, want 0 to %d", layer, len(s.layers)-1)
	}
	return nil
}

// orReleased is the error of a call, or that the sequence was released if that has ended it. One
// that has done what it was to do has no error.
func (s *Sequence) orReleased(err error) error {
	if err == nil {
		return nil
	}
	return cmp.Or(s.ended(), err)
}

// ended is that the sequence was released, if it was.
func (s *Sequence) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return fail(attn.ErrClosed, "the sequence was released")
	}
	return nil
}

// mend makes copies have again what lengths say, if an append has failed.
func (s *Sequence) mend(ctx context.Context) error {
	if !s.isBroken() {
		return nil
	}
	if err := s.mended.own(ctx); err != nil {
		return err
	}
	defer s.mended.disown()
	if !s.isBroken() {
		return nil // somebody else has mended it
	}
	return s.cut(ctx, -1)
}

// mendSoon lets copies be mended beside a call that needs them only where they are cut in part.
func (s *Sequence) mendSoon() {
	if s.isBroken() && s.mended.tryOwn() {
		s.mended.disown()
		s.client.background(func() {
			ctx, cancel := context.WithTimeout(s.ctx, 4*s.client.config.Patience)
			defer cancel()
			_ = s.mend(ctx) // or else the next call does it
		})
	}
}

func (s *Sequence) isBroken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// alone owns the sequence for what makes no request: nothing is appended or cut meanwhile.
func (s *Sequence) alone(ctx context.Context) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, s.client.config.Patience) // others wait behind
	defer cancel()
	if err := s.mended.own(ctx); err != nil {
		return nil, err
	}
	if err := s.change.own(ctx); err != nil {
		s.mended.disown()
		return nil, err
	}
	return func() {
		s.change.disown()
		s.mended.disown()
	}, nil
}

// Release lets workers free the tokens, and ends the calls that are running. They and all later
// ones return [attn.ErrClosed].
func (s *Sequence) Release() {
	s.client.free(s.end())
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sequences, s)
}

// end ends all calls, and returns the copies that there were.
func (s *Sequence) end() []*partCopy {
	s.mu.Lock()
	parts := s.parts
	s.parts, s.released = nil, true
	s.mu.Unlock()
	s.cancel()
	return s.copiesOf(parts)
}

// copiesOf are all copies of some parts.
func (s *Sequence) copiesOf(parts []*sequencePart) (all []*partCopy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range parts {
		all = append(all, p.copies...)
	}
	return all
}

// sweep frees the copies of a part that are of no use any more.
func (s *Sequence) sweep(p *sequencePart) {
	if _, staying := s.client.count(s.good(p)); staying >= s.client.config.Copies {
		s.loseReserve(p, dead)
	}
	if lost := s.takeLost(p); len(lost) > 0 {
		s.client.freeSoon(lost)
	}
}

// takeLost takes the copies from a part that are of no use any more.
func (s *Sequence) takeLost(p *sequencePart) (lost []*partCopy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.copies = slices.DeleteFunc(slices.Clone(p.copies), func(x *partCopy) bool {
		if s.client.isLost(x) {
			lost = append(lost, x)
			return true
		}
		return false
	})
	return lost
}
