package cluster

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"maps"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/seed-1415985d/attn"
)

// ClientConfig is how a client places tokens and how long it waits. Zero fields have the values
// that they name.
type ClientConfig struct {
	// Copies of each part, each on another worker: 2. While there are fewer workers, there are fewer
	// copies.
	Copies int
	// Segments of a part, a power of two: 16. Parts of fewer spread shorter sequences, and cost more
	// bytes a step.
	Segments int
	// Patience is how long a worker may take to answer before another copy is asked, too: 1 second.
	Patience time.Duration
	// Gone is how long a worker may be silent before its copies are made again elsewhere, and
	// nobody listen in its place before they count as lost: 4 seconds.
	Gone time.Duration
	// Lease is how long workers keep tokens without hearing of the client: 30 seconds.
	Lease time.Duration
	// Timeout is for calls whose context has no deadline: 1 minute.
	Timeout time.Duration
	// Moves is how many copies are made, or move, at the same time: 4. What they take of the network is
	// up to WorkerConfig.CopyRate.
	Moves int
	// Chunk is about how many bytes of tokens, or of states, a message has: 4 MiB.
	Chunk int
}

func (c *ClientConfig) complete() error {
	setDefault(&c.Copies, 2)
	setDefault(&c.Segments, 16)
	setDefault(&c.Patience, time.Second)
	setDefault(&c.Gone, 4*time.Second)
	setDefault(&c.Lease, 30*time.Second)
	setDefault(&c.Timeout, time.Minute)
	setDefault(&c.Moves, 4)
	setDefault(&c.Chunk, 4<<20)
	switch {
	case c.Segments < 1 || c.Segments > 1<<18 || bits.OnesCount(uint(c.Segments)) != 1:
		return fail(attn.ErrOption, "ClientConfig.Segments is %d, want a power of two up to 2¹⁸",
			c.Segments)
	case min(c.Copies, c.Chunk, c.Moves) < 1 || min(c.Patience, c.Gone, c.Timeout) < 1 || c.Lease < time.Second:
		return fail(attn.ErrOption,
			"ClientConfig is %+v, want numbers above 0 and a lease of at least a "+
				"second", *c)
	}
	for _, wait := range []*time.Duration{&c.Patience, &c.Gone, &c.Lease, &c.Timeout} {
		*wait = min(*wait, longestWait)
	}
	return nil
}

// longestWait is as good as for ever, several of it are a time.Duration, and it travels as
// milliseconds in 32 bits.
const longestWait = 30 * 24 * time.Hour

// Client finds workers, and gives out sequences whose tokens they keep. It is safe for concurrent
// use.
type Client struct {
	transport Transport
	config    ClientConfig
	id        clientID
	unwatch   func()
	ctx       context.Context // of what goes on in the background
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	kick      chan struct{} // a copy was lost, or a worker is leaving
	moves     chan struct{} // has one for each copy that is made in the background

	levelling sync.Mutex // of who moves a copy because its worker is nearly full,
	levelled  time.Time  // and when that was last

	mu        sync.Mutex
	closed    bool
	members   map[string]*member
	changed   chan struct{} // closed when a member is heard of
	copies    map[uint64]*partCopy
	lastCopy  uint64
	sequences map[*Sequence]struct{}
	promised  map[string]int64 // bytes that copies on their way will take of workers
}

// member is a worker as the client sees it.
type member struct {
	status  Status
	said    time.Time // when the status came
	heard   time.Time // an announcement or an answer
	suspect time.Time // until then, others are asked first
	silent  bool      // nobody listens, all the time
	since   time.Time // then
	refused time.Time // until then, no copies are made there in the background: it had no memory
}

// partCopy is a copy of a part on a worker.
type partCopy struct {
	id     uint64
	worker string
	made   bool // the worker has it; before that it is no news if it has not
	lost   bool // the worker has it no more, or it has fallen behind
	full   bool // the last append was not taken, and a worker had no memory for it
}

// NewClient starts a client. It keeps what it has on workers alive until Close.
func NewClient(t Transport, c ClientConfig) (*Client, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	x := &Client{transport: t, config: c, kick: make(chan struct{}, 1), moves: make(chan struct{}, c.Moves),
		promised: map[string]int64{}, members: map[string]*member{},
		changed: make(chan struct{}), copies: map[uint64]*partCopy{}, sequences: map[*Sequence]struct{}{}}
	_, _ = crand.Read(x.id[:]) // never fails
	x.ctx, x.cancel = context.WithCancel(context.Background())
	var err error
	if x.unwatch, err = t.Watch(x.heard); err != nil {
		x.cancel()
		return nil, err
	}
	x.wg.Go(x.renewAlways)
	x.wg.Go(x.repairAlways)
	return x, nil
}

// Close releases all sequences, as well as can be in a second, and ends their calls and what goes
// on in the background. The transport stays open.
func (c *Client) Close() {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	all := slices.Collect(maps.Keys(c.sequences))
	c.mu.Unlock()
	if closed {
		return
	}
	for _, s := range all {
		s.end()
	}
	c.unwatch()
	c.cancel()
	c.wg.Wait()
	c.mu.Lock()
	clear(c.sequences)
	clear(c.copies)
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c.renewAll(ctx) // which says that there are no copies any more
}

// heard takes an announcement.
func (c *Client) heard(data []byte) {
	s, err := decodeStatus(data)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[s.Worker]
	if m == nil {
		m = new(member)
		c.members[s.Worker] = m
	}
	if m.status.Instance != s.Instance { // it came back, without what it had
		for _, x := range c.copies {
			if x.worker == s.Worker && x.made {
				x.lost = true
			}
		}
	}
	if s.Leaving && !m.status.Leaving {
		c.wake()
	}
	m.status, m.said, m.heard, m.silent = s, time.Now(), time.Now(), false
	close(c.changed)
	c.changed = make(chan struct{})
}

// Workers are those that were heard of lately, in no particular order.
func (c *Client) Workers() (all []Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if c.alive(m) {
			all = append(all, m.status)
		}
	}
	return all
}

// takers are the workers that new copies may be made on.
func (c *Client) takers() []Status {
	return slices.DeleteFunc(c.Workers(), func(s Status) bool { return s.Leaving })
}

// stays reports whether a copy on a worker is one to count on for longer: the worker is not silent
// for long, and not leaving.
func (c *Client) stays(worker string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[worker]
	return m != nil && !m.status.Leaving && time.Since(m.heard) < c.config.Gone
}

// leaves reports whether a worker has said that it is leaving.
func (c *Client) leaves(worker string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[worker]
	return m != nil && m.status.Leaving
}

// alive reports whether a worker was heard of lately. The lock is held.
func (c *Client) alive(m *member) bool {
	return m != nil && !m.silent && time.Since(m.heard) < c.config.Gone
}

// dead reports whether a worker does not come back: nobody has listened for long. One that only
// does not answer may hang, or the server be away, and still have its tokens.
func (c *Client) dead(worker string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[worker]
	return m == nil || m.silent && time.Since(m.since) >= c.config.Gone &&
		time.Since(m.heard) >= c.config.Gone
}

// gone reports whether copies of a worker are to be made again: it was silent for long.
func (c *Client) gone(worker string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[worker]
	return m == nil || time.Since(m.heard) >= c.config.Gone
}

// Wait waits until there are enough workers that are not leaving.
func (c *Client) Wait(ctx context.Context, workers int) error {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		n := len(c.takers())
		if n >= workers {
			return nil
		}
		select {
		case <-changed:
		case <-c.ctx.Done():
			return fail(attn.ErrClosed, "the client was closed")
		case <-ctx.Done():
			return fail(ErrUnavailable, "%d workers are there, want %d: %v", n, workers, ctx.Err())
		}
	}
}

// limit gives a context a deadline if it has none.
func (c *Client) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.config.Timeout)
}

// call asks a worker, and notes what its answer says about it.
func (c *Client) call(ctx context.Context, worker string, request []byte) (*decoder, error) {
	data, err := c.transport.Call(ctx, worker, request)
	var d *decoder
	if err == nil {
		d, err = decodeReply(worker, data)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[worker]
	var remote *remoteError
	switch {
	case m == nil:
	case err == nil || errors.As(err, &remote):
		m.heard, m.silent = time.Now(), false
	case errors.Is(err, errNobody) && !m.silent:
		m.silent, m.since = true, time.Now()
	case errors.Is(err, errNobody):
	case ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded):
		c.suspectLocked(m)
	}
	return d, err
}

// suspect lets others be asked before a worker, for a while.
func (c *Client) suspect(worker string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[worker]; m != nil {
		c.suspectLocked(m)
	}
}

func (c *Client) suspectLocked(m *member) { m.suspect = time.Now().Add(3 * c.config.Patience) }

// newCopy registers a copy that is about to be made.
func (c *Client) newCopy(worker string) *partCopy {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastCopy++
	x := &partCopy{id: c.lastCopy, worker: worker}
	c.copies[x.id] = x
	return x
}

// forget lets a worker free a copy: at the next renewal, if the message that frees it is lost.
func (c *Client) forget(x *partCopy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.copies, x.id)
}

// free forgets copies, and tells their workers. What does not arrive is done by renewals.
func (c *Client) free(copies []*partCopy) {
	ids := map[string][]uint64{}
	for _, x := range copies {
		c.forget(x)
		ids[x.worker] = append(ids[x.worker], x.id)
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.config.Patience)
	defer cancel()
	var wg sync.WaitGroup
	for worker, copies := range ids {
		wg.Go(func() {
			r := releaseRequest{copies}
			_, _ = c.call(ctx, worker, r.encode(c.id))
		})
	}
	wg.Wait()
}

// freeSoon frees copies beside everything else.
func (c *Client) freeSoon(copies []*partCopy) {
	if len(copies) > 0 {
		c.background(func() { c.free(copies) })
	}
}

// background runs f beside everything else, and not at all if the client is closed. It reports
// whether it does.
func (c *Client) background(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.wg.Go(f)
	}
	return !c.closed
}

// lose notes that a copy is of no use any more.
func (c *Client) lose(x *partCopy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.lost = true
	c.wake()
}

// wake lets lost copies be looked for at once.
func (c *Client) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// rely gives up some copies if others are of use, and reports whether one is. Layers are appended
// to at the same time, and none may give up the copies that another one relies on.
func (c *Client) rely(on, giveUp []*partCopy) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.ContainsFunc(on, func(x *partCopy) bool { return !x.lost }) {
		return false
	}
	for _, x := range on {
		x.full = false
	}
	for _, x := range giveUp {
		x.lost = true
		c.wake()
	}
	return true
}

// isLost reports whether a copy is of no use any more.
func (c *Client) isLost(x *partCopy) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return x.lost
}

// every runs f now and then until the client is closed, and when a copy was lost if kicked is set.
func (c *Client) every(d time.Duration, kicked <-chan struct{}, f func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		case <-kicked:
		}
		f()
	}
}

func (c *Client) renewAlways() {
	c.every(min(c.config.Lease/4, time.Second), nil, func() { c.renewAll(c.ctx) })
}

// renewAll tells all workers which copies they keep, and learns which they have not.
func (c *Client) renewAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Patience)
	defer cancel()
	c.mu.Lock()
	request := renewRequest{lease: uint32(c.config.Lease.Milliseconds()), horizon: c.lastCopy}
	copies := map[string][]*partCopy{}
	for name := range c.members {
		copies[name] = nil
	}
	for _, x := range c.copies {
		copies[x.worker] = append(copies[x.worker], x)
	}
	c.mu.Unlock()
	var wg sync.WaitGroup
	for worker, list := range copies {
		r := request
		for _, x := range list {
			r.copies = append(r.copies, x.id)
		}
		wg.Go(func() {
			c.mu.Lock()
			made := map[uint64]*partCopy{}
			for _, x := range list {
				if x.made {
					made[x.id] = x
				}
			}
			c.mu.Unlock()
			d, err := c.call(ctx, worker, r.encode(c.id))
			if err != nil {
				return
			}
			missing := d.u64s()
			if d.end() != nil {
				return
			}
			for _, id := range missing {
				if x := made[id]; x != nil {
					c.lose(x)
				}
			}
		})
	}
	wg.Wait()
}

// newID is a number that no other sequence has.
func newID() uint64 {
	var x [8]byte
	_, _ = crand.Read(x[:]) // never fails
	return binary.LittleEndian.Uint64(x[:])
}
