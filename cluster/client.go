package cluster

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/seed-1415985d/attn"
)

// ClientConfig says how a client places tokens and how long it waits. Zero fields mean the values
// after the colons.
type ClientConfig struct {
	// Copies of each part, each on a different worker: 2. With fewer workers there are fewer copies.
	Copies int
	// Segments of a part, a power of two: 16. Smaller parts spread shorter sequences over more
	// workers, but cost more bytes a step.
	Segments int
	// Patience is the time after which a second copy is asked if a worker has not answered: 1 second.
	Patience time.Duration
	// Gone is the time without a sign of a worker after which its copies are made again elsewhere, and
	// the time without a listener at its name after which they count as lost: 4 seconds. After the
	// client had no connection, they count as lost when nobody has listened for Lease.
	Gone time.Duration
	// Lease is the time for which workers keep tokens without hearing of the client: 30 seconds. It is
	// suspended while a worker has no connection, for at most WorkerConfig.Outage.
	Lease time.Duration
	// Timeout is the deadline of calls whose context has none: 1 minute.
	Timeout time.Duration
	// Moves is the number of copies that are made or moved at the same time: 4. WorkerConfig.CopyRate
	// bounds their network traffic.
	Moves int
	// Chunk is the approximate number of bytes of tokens, of queries with their masks, biases and
	// blocks, or of a state in a message: 4 MiB, or a quarter of the largest message of the transport
	// ([NATSConfig.MaxMessage]) if that is less, which is also the maximum. Replies with several
	// states have up to four times as many.
	Chunk int
}

// complete sets zero fields, for a transport with messages of at most largest bytes.
func (c *ClientConfig) complete(largest int) error {
	setDefault(&c.Copies, 2)
	setDefault(&c.Segments, 16)
	setDefault(&c.Patience, time.Second)
	setDefault(&c.Gone, 4*time.Second)
	setDefault(&c.Lease, 30*time.Second)
	setDefault(&c.Timeout, time.Minute)
	setDefault(&c.Moves, 4)
	setDefault(&c.Chunk, min(4<<20, largest/chunkShare))
	switch {
	case c.Segments < 1 || c.Segments > 1<<18 || bits.OnesCount(uint(c.Segments)) != 1:
		return fail(attn.ErrOption, "ClientConfig.Segments is %d, want a power of two up to 2¹⁸",
			c.Segments)
	case min(c.Copies, c.Chunk, c.Moves) < 1, min(c.Patience, c.Gone, c.Timeout) < 1,
		c.Lease < time.Second:
		return fail(attn.ErrOption,
			"ClientConfig is %+v, want numbers above 0 and a lease of at least a "+
				"second", *c)
	case c.Chunk > largest/chunkShare && largest < math.MaxInt:
		return fail(ErrLimit, "ClientConfig.Chunk is %d, want at most %d, a quarter of the transport's "+
			"largest message (NATSConfig.MaxMessage, -message)", c.Chunk, largest/chunkShare)
	}
	for _, wait := range []*time.Duration{&c.Patience, &c.Gone, &c.Lease, &c.Timeout} {
		*wait = min(*wait, longestWait)
	}
	return nil
}

// A chunk is at most one chunkShare-th of a message: about a chunk may be two, and states of
// several parts together four.
const chunkShare = 4

// longestWait is practically for ever; a few of it fit a time.Duration, and its milliseconds fit 32
// bits.
const longestWait = 30 * 24 * time.Hour

// Client finds workers, and creates sequences whose tokens they keep. It is safe for concurrent
// use.
type Client struct {
	transport Transport
	config    ClientConfig
	largest   int // most bytes of a message
	now       func() time.Time
	id        clientID
	unwatch   func()
	ctx       context.Context // of background work
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	staff     staff         // goroutines that ask workers
	kick      chan struct{} // a copy was lost, or a worker is leaving
	again     chan struct{} // a worker has restarted
	moves     chan struct{} // has an element for each copy that is made in the background

	levelling sync.Mutex // held while a copy moves because its worker is nearly full,
	levelled  time.Time  // and when that last happened

	mu        sync.Mutex
	closed    bool
	members   map[string]*member
	changed   chan struct{} // closed when a member is heard of
	copies    map[uint64]*partCopy
	lastCopy  uint64
	sequences map[*Sequence]struct{}
	rejoined  time.Time // when the transport had a connection again
}

// member is a worker as the client sees it.
type member struct {
	condition
	status   Status
	said     time.Time // when the status arrived
	promised int64     // bytes that copies being made will need
	refused  time.Time // until then no copies are made there in the background: it had no memory
}

// partCopy is a copy of a part on a worker.
type partCopy struct {
	id     uint64
	worker string
	made   bool // the worker has it; before that, a missing copy is no news
	lost   bool // the worker does not have it, or it is not needed any more
	behind bool // it has not confirmed in time what other copies have: it is in reserve
	full   bool // a worker had no memory for the last append

	late  time.Time // for a copy that was behind: until then, missing tokens may still arrive
	lacks bool      // and it has reported missing tokens
}

// counts reports whether a copy is usable and not in reserve. The lock of the client is held.
func (x *partCopy) counts() bool { return !x.lost && !x.behind }

// NewClient starts a client. It keeps its tokens on workers alive until Close.
func NewClient(t Transport, c ClientConfig) (*Client, error) { return newClient(t, c, time.Now) }

// newClient starts a client with a given clock.
func newClient(t Transport, c ClientConfig, now func() time.Time) (*Client, error) {
	largest := math.MaxInt
	if l, ok := t.(limited); ok {
		largest = l.mostBytes()
	}
	if err := c.complete(largest); err != nil {
		return nil, err
	}
	x := &Client{transport: t, config: c, largest: min(largest, defaultMaxMessage), now: now,
		kick:  make(chan struct{}, 1),
		again: make(chan struct{}, 1), moves: make(chan struct{}, c.Moves),
		members: map[string]*member{}, changed: make(chan struct{}),
		copies: map[uint64]*partCopy{}, sequences: map[*Sequence]struct{}{}}
	_, _ = crand.Read(x.id[:]) // never fails
	x.ctx, x.cancel = context.WithCancel(context.Background())
	x.staff = newStaff(x.ctx.Done())
	var err error
	if x.unwatch, err = t.Watch(x.heard); err != nil {
		x.cancel()
		return nil, err
	}
	x.wg.Go(x.renewAlways)
	x.wg.Go(x.repairAlways)
	return x, nil
}

// Close releases all sequences, as far as possible within a second, and ends their calls and
// background work. The transport stays open.
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
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	c.renewAll(ctx) // reports that there are no copies any more
}

// farewell bounds the time for telling workers that a client closes, which lasts a second in all.
const farewell = 800 * time.Millisecond

// heard handles an announcement.
func (c *Client) heard(data []byte) {
	s, err := decodeStatus(data)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rejoin()
	m := c.members[s.Worker]
	if m == nil {
		m = new(member)
		c.members[s.Worker] = m
	}
	if m.status.Instance != s.Instance {
		// It may have restarted without its copies, or this is an old announcement. The worker itself
		// will say which copies it has.
		wake(c.again)
	}
	if s.Leaving && !m.status.Leaving {
		wake(c.kick)
	}
	m.status, m.said = s, c.now()
	m.note(heardOf, m.said, &c.config)
	close(c.changed)
	c.changed = make(chan struct{})
}

// Workers returns the Status of the workers that were heard of recently, by name.
func (c *Client) Workers() (all []Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, m := range c.members {
		if c.healthOf(name).answers() {
			all = append(all, m.status)
		}
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Worker, b.Worker) })
	return all
}

// answering returns the number of workers that were heard of recently.
func (c *Client) answering() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.members {
		if c.healthOf(name).answers() {
			n++
		}
	}
	return n
}

// takers returns the workers on which new copies may be made.
func (c *Client) takers() []Status {
	return slices.DeleteFunc(c.Workers(), func(s Status) bool { return s.Leaving })
}

// member returns the current state of a worker, dead if it was never heard of.
func (c *Client) member(worker string) (now member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[worker]; m != nil {
		now = *m
	}
	now.health = c.healthOf(worker)
	return now
}

// healthOf returns the current health of a worker. The lock is held.
func (c *Client) healthOf(worker string) health {
	if m := c.members[worker]; m != nil {
		return m.at(c.now(), &c.config)
	}
	return dead
}

// stays reports whether copies on the worker can stay there.
func (m member) stays() bool { return !m.health.gone() && !m.status.Leaving }

// share returns the fraction of its memory that the worker uses, with some bytes more.
func (m member) share(more int64) float64 {
	if m.status.Memory == 0 {
		return 0
	}
	return 1 - float64(m.status.Free()-more)/float64(m.status.Memory)
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

// call sends a request to a worker, and notes what the answer says about it. The request's buffer
// is reused.
func (c *Client) call(ctx context.Context, worker string, request []byte) (*codec, error) {
	data, err := c.transport.Call(ctx, worker, request)
	reuse(request)
	return c.answered(ctx, worker, data, err)
}

// tell sends a request to a worker, and reads the answer into into.
func (c *Client) tell(ctx context.Context, worker string, request []byte, into body) error {
	d, err := c.call(ctx, worker, request)
	if err == nil {
		err = d.read(into)
	}
	return err
}

// step sends a step to a worker.
func (c *Client) step(ctx context.Context, worker string, r *stepRequest) (stepReply, error) {
	x := replyTo(r)
	return x, c.tell(ctx, worker, r.encode(c.id), &x)
}

// ask is call that passes the result to ended: once, perhaps before ask returns, on a goroutine
// that must not wait. The request's buffer is reused.
func (c *Client) ask(ctx context.Context, worker string, request []byte,
	ended func(*codec, error)) {
	if t, ok := c.transport.(asker); ok && t.ask(ctx, worker, request,
		func(data []byte, err error) { ended(c.answered(ctx, worker, data, err)) }) {
		reuse(request)
		return
	}
	c.staff.run(func() {
		ended(c.call(ctx, worker, request))
	})
}

// answered notes what an answer says about a worker.
func (c *Client) answered(ctx context.Context, worker string, data []byte, err error) (*codec,
	error) {
	var d *codec
	if err == nil {
		d, err = decodeReply(worker, data)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rejoin()
	m := c.members[worker]
	var remote *remoteError
	switch {
	case m == nil || errors.Is(err, errNoLink):
	case err == nil || errors.As(err, &remote):
		m.note(heardOf, c.now(), &c.config)
	case errors.Is(err, errNobody):
		m.note(nobody, c.now(), &c.config)
	case ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded):
		m.note(overdue, c.now(), &c.config)
	}
	return d, err
}

// rejoin resets what is known of all workers if there was no connection meanwhile. The lock is
// held.
func (c *Client) rejoin() {
	if _, again := outageOf(c.transport); again.After(c.rejoined) {
		c.rejoined = again
		for _, m := range c.members {
			m.note(rejoined, c.now(), &c.config)
		}
	}
}

// update changes what is known of a worker, if it was heard of.
func (c *Client) update(worker string, f func(m *member)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[worker]; m != nil {
		f(m)
	}
}

// suspect makes other workers be asked first, for a while.
func (c *Client) suspect(worker string) {
	c.update(worker, func(m *member) { m.note(overdue, c.now(), &c.config) })
}

// newCopy registers a copy that is about to be made.
func (c *Client) newCopy(worker string) *partCopy {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastCopy++
	x := &partCopy{id: c.lastCopy, worker: worker}
	c.copies[x.id] = x
	return x
}

// forget removes a copy from the client's; a worker frees it at the next renewal, if the message
// that frees it is lost.
func (c *Client) forget(x *partCopy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.copies, x.id)
}

// free forgets copies, and tells their workers. Renewals replace lost messages.
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
			_ = c.tell(ctx, worker, r.encode(c.id), nothing{})
		})
	}
	wg.Wait()
}

// freeSoon frees copies in the background.
func (c *Client) freeSoon(copies []*partCopy) {
	if len(copies) > 0 {
		c.background(func() { c.free(copies) })
	}
}

// background runs f on another goroutine, unless the client is closed, and reports whether it does.
func (c *Client) background(f func()) bool {
	begun := c.enter()
	if begun {
		go func() {
			defer c.wg.Done()
			f()
		}()
	}
	return begun
}

// enter adds work to wg, for which Close waits, and reports whether the client is open.
func (c *Client) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.wg.Add(1)
	}
	return !c.closed
}

// lose marks a copy as lost.
func (c *Client) lose(x *partCopy) {
	locked(&c.mu, func() { x.lost = true })
	wake(c.kick)
}

// wake triggers periodic work at once.
func wake(kick chan<- struct{}) {
	select {
	case kick <- struct{}{}:
	default:
	}
}

// take receives an element of a channel, if there is one.
func take[T any](c <-chan T) {
	select {
	case <-c:
	default:
	}
}

// setBack puts a late copy in reserve. The lock is held.
func (c *Client) setBack(x *partCopy) {
	x.behind, x.late = true, c.now().Add(requestPatience*c.config.Patience)
	wake(c.kick)
}

// bestOf returns the health of the best worker with one of some copies, healths if none is usable.
// The lock is held.
func (c *Client) bestOf(copies []*partCopy) health {
	best := healths
	for _, x := range copies {
		if x.counts() {
			best = min(best, c.healthOf(x.worker))
		}
	}
	return best
}

// isLost reports whether a copy is lost.
func (c *Client) isLost(x *partCopy) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return x.lost
}

// every runs f periodically until the client is closed, and at once when kicked; once if both
// happen.
func (c *Client) every(d time.Duration, kicked <-chan struct{}, f func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
			take(kicked)
		case <-kicked:
			take(tick.C)
		}
		if c.ctx.Err() == nil {
			f()
		}
	}
}

func (c *Client) renewAlways() {
	c.every(min(c.config.Lease/4, time.Second), c.again, func() { c.renewAll(c.ctx) })
}

// renewAll tells all workers which copies they keep, and learns which ones are missing.
func (c *Client) renewAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Patience)
	defer cancel()
	c.mu.Lock()
	copies := map[string][]*partCopy{}
	for name := range c.members {
		copies[name] = nil
	}
	made := map[uint64]*partCopy{}
	for _, x := range c.copies {
		if copies[x.worker] = append(copies[x.worker], x); x.made {
			made[x.id] = x
		}
	}
	last := c.lastCopy
	c.mu.Unlock()
	var wg sync.WaitGroup
	for worker, list := range copies {
		r := renewRequest{lease: uint32(c.config.Lease.Milliseconds()), horizon: last}
		for _, x := range list {
			r.copies = append(r.copies, x.id)
		}
		slices.Sort(r.copies)
		wg.Go(func() {
			var reply renewReply
			if c.tell(ctx, worker, r.encode(c.id), &reply) != nil {
				return
			}
			for _, id := range reply.missing {
				if x := made[id]; x != nil {
					c.lose(x)
				}
			}
		})
	}
	wg.Wait()
}

// newID returns a number that no other sequence has.
func newID() uint64 {
	var x [8]byte
	_, _ = crand.Read(x[:]) // never fails
	return binary.LittleEndian.Uint64(x[:])
}
