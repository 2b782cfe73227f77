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
	Layers   int // each has its own keys and values
	KVHeads  int
	HeadDim  int
	ValueDim int
	Format   attn.Format // format of the keys and values on workers
	// ValueFormat is the format of values; Format is then the format of keys only. 0 means Format.
	ValueFormat attn.Format
	// ValuesInKeys keeps only keys, whose first ValueDim ≤ HeadDim channels are the values, as in
	// attn.StoreConfig. v is then the zero Tensor.
	ValuesInKeys bool
}

// Sequence is the tokens of one sequence, in parts on several workers.
//
// Calls on different layers may run at the same time. Calls that change a layer, and Attend over
// it, run one after another.
type Sequence struct {
	client *Client
	shape  shape
	id     uint64
	tokens int // most tokens of a part,
	long   int // and of a run

	ctx    context.Context // of all work, until Release
	cancel context.CancelFunc
	change gate   // shared by appends; owned while copies join or leave, or are cut
	mended gate   // owned while copies are cut, for which appends wait in any case
	grow   gate   // owned while a part is made
	layers []gate // owned while tokens are appended

	packers sync.Pool // of *attn.Cache, for packing runs

	mu       sync.Mutex
	released bool
	lengths  []int
	taken    []int   // like lengths, plus the tokens of a running append that copies have
	follows  []*ride // the last step of each layer that not all copies have yet
	broken   bool    // an append failed, or copies were recalled: copies may have other lengths
	cuts     int     // begun and ended cuts: odd while copies' epochs are changing
	parts    []*sequencePart
	pause    context.Context // if not nil, appends wait until it ends, because a copy is catching up
}

// sequencePart is a part and its copies, in the order in which they are asked.
type sequencePart struct {
	index  int
	epoch  uint32
	cut    truncateRequest // the last cut that copies have applied
	copies []*partCopy
	moving chan struct{} // has an element while a copy is made
	doubts bool          // a copy was recalled, and must be cut before it counts like the others
}

// NewSequence returns a sequence without tokens. Parts are placed when tokens are appended.
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

// ID returns the number of the sequence in errors and on workers.
func (s *Sequence) ID() uint64 { return s.id }

// Len returns the number of tokens of a layer.
func (s *Sequence) Len(layer int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if layer < 0 || layer >= len(s.lengths) {
		return 0
	}
	return s.lengths[layer]
}

// Missing returns the number of copies of parts that must still be made again.
func (s *Sequence) Missing() (n int) {
	for _, p := range s.all() {
		n += max(0, s.client.config.Copies-len(s.good(p)))
	}
	return n
}

// all returns the parts.
func (s *Sequence) all() []*sequencePart {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.parts)
}

// good returns the usable copies of a part, copies of quick workers first.
func (s *Sequence) good(p *sequencePart) (good []*partCopy) {
	locked(&s.mu, func() { good = slices.Clone(p.copies) })
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	good = slices.DeleteFunc(good, func(x *partCopy) bool { return !x.counts() })
	slices.SortStableFunc(good, func(a, b *partCopy) int { return c.doubt(a) - c.doubt(b) })
	return good
}

// doubt returns how unreliable a copy's worker is. The lock is held.
func (c *Client) doubt(x *partCopy) int {
	return int(min(c.healthOf(x.worker), absent))
}

// beginCall starts a call, which ends with its context or timeout, or when the sequence is
// released.
func (s *Sequence) beginCall(ctx context.Context) (context.Context, func()) {
	ctx, cancel := s.client.limit(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// check verifies that the sequence has the layer and is not released.
func (s *Sequence) check(layer int) error {
	if err := s.ended(); err != nil {
		return err
	}
	if layer < 0 || layer >= len(s.layers) {
		return fail(attn.ErrOption, "layer is %d, want 0 to %d", layer, len(s.layers)-1)
	}
	return nil
}

// orReleased returns the error of a call, or that the sequence was released if that caused it. nil
// stays nil.
func (s *Sequence) orReleased(err error) error {
	if err == nil {
		return nil
	}
	return cmp.Or(s.ended(), err)
}

// ended returns an error if the sequence was released.
func (s *Sequence) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		return fail(attn.ErrClosed, "the sequence was released")
	}
	return nil
}

// mend cuts copies to the lengths of layers, if an append has failed.
func (s *Sequence) mend(ctx context.Context) error {
	if !s.isBroken() {
		return nil
	}
	if err := s.mended.own(ctx); err != nil {
		return err
	}
	defer s.mended.disown()
	if !s.isBroken() {
		return nil // another call has mended it
	}
	return s.cut(ctx, -1)
}

// mendSoon mends copies in the background, for a call that need not wait for all cuts.
func (s *Sequence) mendSoon() {
	if s.isBroken() && s.mended.tryOwn() {
		s.mended.disown()
		s.client.background(func() {
			ctx, cancel := context.WithTimeout(s.ctx, 4*s.client.config.Patience)
			defer cancel()
			_ = s.mend(ctx) // if it fails, the next call does it
		})
	}
}

func (s *Sequence) isBroken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// alone owns the sequence for work without requests: nothing is appended or cut meanwhile.
func (s *Sequence) alone(ctx context.Context) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, s.client.config.Patience) // others wait for it
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

// Release frees the tokens on workers, and ends running calls. They and all later ones return
// [attn.ErrClosed].
func (s *Sequence) Release() {
	s.client.free(s.end())
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sequences, s)
}

// end ends all calls, and returns all copies.
func (s *Sequence) end() []*partCopy {
	s.mu.Lock()
	parts := s.parts
	s.parts, s.released = nil, true
	s.mu.Unlock()
	s.cancel()
	return s.copiesOf(parts)
}

// copiesOf returns all copies of some parts.
func (s *Sequence) copiesOf(parts []*sequencePart) (all []*partCopy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range parts {
		all = append(all, p.copies...)
	}
	return all
}

// sweep frees the lost copies of a part.
func (s *Sequence) sweep(p *sequencePart) {
	if _, staying := s.client.count(s.good(p)); staying >= s.client.config.Copies {
		s.loseReserve(p, dead)
	}
	if lost := s.takeLost(p); len(lost) > 0 {
		s.client.freeSoon(lost)
	}
}

// takeLost removes the lost copies from a part, and returns them.
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
