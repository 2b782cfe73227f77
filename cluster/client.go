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
	// nobody listen in its place before they count as lost: 4 seconds. After the client had no
	// connection, they count as lost when nobody has listened for Lease.
	Gone time.Duration
	// Lease is how long workers keep tokens without hearing of the client: 30 seconds. While a worker
	// has no connection it stands still, for at most WorkerConfig.Outage.
	Lease time.Duration
	// Timeout is for calls whose context has no deadline: 1 minute.
	Timeout time.Duration
	// Moves is how many copies are made, or move, at the same time: 4. What they take of the network
	// is up to WorkerConfig.CopyRate.
	Moves int
	// Chunk is about how many bytes a message has of tokens, of queries with their masks, biases and
	// blocks, or of a state: 4 MiB, or a quarter of the largest message of the transport if that is
	// less ([NATSConfig.MaxMessage]), and at most that. Replies with several states have up to four
	// times as many.
	Chunk int
}

// complete sets fields that are zero, for a transport that takes messages of some bytes.
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

// chunkShare is the part of a message that a chunk is at most: what is about a chunk may be two,
// and states that come back for several parts together four.
const chunkShare = 4

// longestWait is as good as for ever, several of it are a time.Duration, and it travels as
// milliseconds in 32 bits.
const longestWait = 30 * 24 * time.Hour

// Client finds workers, and gives out sequences whose tokens they keep. It is safe for concurrent
// use.
type Client struct {
	transport Transport
	config    ClientConfig
	largest   int // bytes of a message, as far as they are used
	now       func() time.Time
	id        clientID
	unwatch   func()
	ctx       context.Context // of what goes on in the background
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	staff     staff         // that asks workers
	kick      chan struct{} // a copy was lost, or a worker is leaving
	again     chan struct{} // a worker has started again
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
	rejoined  time.Time // as the transport says when there was a connection again
}

// member is a worker as the client sees it.
type member struct {
	condition
	status   Status
	said     time.Time // when the status came
	promised int64     // bytes that copies on their way will take of it
	refused  time.Time // until then, no copies are made there in the background: it had no memory
}

// partCopy is a copy of a part on a worker.
type partCopy struct {
	id     uint64
	worker string
	made   bool // the worker has it; before that it is no news if it has not
	lost   bool // the worker has it no more, or it is not wanted any more
	behind bool // it has not said in time that it took what others have: it is their reserve
	full   bool // the last append was not taken, and a worker had no memory for it

	late  time.Time // of one that was behind: until then, what it lacks may be on its way
	lacks bool      // and it has said that it lacks something
}

// counts reports whether a copy is counted on. The lock of the client is held.
func (x *partCopy) counts() bool { return !x.lost && !x.behind }

// NewClient starts a client. It keeps what it has on workers alive until Close.
func NewClient(t Transport, c ClientConfig) (*Client, error) { return newClient(t, c, time.Now) }

// newClient starts a client with a clock of its own.
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
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	c.renewAll(ctx) // which says that there are no copies any more
}

// farewell is how long workers may take to hear that a client closes, which takes a second in all.
const farewell = 800 * time.Millisecond

// heard takes an announcement.
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
		// It may have come back without what it had; or this is an announcement of the past. What
		// it has, it says itself.
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

// Workers are those that were heard of lately, by name.
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

// answering is how many workers were heard of lately.
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

// takers are the workers that new copies may be made on.
func (c *Client) takers() []Status {
	return slices.DeleteFunc(c.Workers(), func(s Status) bool { return s.Leaving })
}

// member is a worker as it is now, dead if it was never heard of.
func (c *Client) member(worker string) (now member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[worker]; m != nil {
		now = *m
	}
	now.health = c.healthOf(worker)
	return now
}

// healthOf is the health of a worker now. The lock is held.
func (c *Client) healthOf(worker string) health {
	if m := c.members[worker]; m != nil {
		return m.at(c.now(), &c.config)
	}
	return dead
}

// stays reports whether a copy on the worker is one to count on for longer.
func (m member) stays() bool { return !m.health.gone() && !m.status.Leaving }

// share is how much of its memory the worker uses, with some bytes more.
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

// call asks a worker, and notes what its answer says about it. The request's buffer goes to others.
func (c *Client) call(ctx context.Context, worker string, request []byte) (*codec, error) {
	data, err := c.transport.Call(ctx, worker, request)
	reuse(request)
	return c.answered(ctx, worker, data, err)
}

// tell asks a worker for something, and reads the answer.
func (c *Client) tell(ctx context.Context, worker string, request []byte, into body) error {
	d, err := c.call(ctx, worker, request)
	if err == nil {
		err = d.read(into)
	}
	return err
}

// step asks a worker for a step.
func (c *Client) step(ctx context.Context, worker string, r *stepRequest) (stepReply, error) {
	x := replyTo(r)
	return x, c.tell(ctx, worker, r.encode(c.id), &x)
}

// ask is call, but calls ended with what that returns: once, perhaps before it returns, and on a
// goroutine that is not to wait. The request's buffer goes to others.
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

// rejoin begins anew with all workers if there was no connection meanwhile. The lock is held.
func (c *Client) rejoin() {
	if _, again := outageOf(c.transport); again.After(c.rejoined) {
		c.rejoined = again
		for _, m := range c.members {
			m.note(rejoined, c.now(), &c.config)
		}
	}
}

// update changes what is known of a worker, if that was heard of.
func (c *Client) update(worker string, f func(m *member)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[worker]; m != nil {
		f(m)
	}
}

// suspect lets others be asked before a worker, for a while.
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
			_ = c.tell(ctx, worker, r.encode(c.id), nothing{})
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
	begun := c.enter()
	if begun {
		go func() {
			defer c.wg.Done()
			f()
		}()
	}
	return begun
}

// enter begins something that Close waits for, until wg is done with it, and reports whether the
// client is open.
func (c *Client) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.wg.Add(1)
	}
	return !c.closed
}

// lose notes that a copy is of no use any more.
func (c *Client) lose(x *partCopy) {
	locked(&c.mu, func() { x.lost = true })
	wake(c.kick)
}

// wake lets something be done at once that is done now and then.
func wake(kick chan<- struct{}) {
	select {
	case kick <- struct{}{}:
	default:
	}
}

// take takes an element of a channel, if there is one.
func take[T any](c <-chan T) {
	select {
	case <-c:
	default:
	}
}

// setBack counts no more on a copy that is late: it is a reserve. The lock is held.
func (c *Client) setBack(x *partCopy) {
	x.behind, x.late = true, c.now().Add(requestPatience*c.config.Patience)
	wake(c.kick)
}

// bestOf is the health of the best worker that has one of some copies, healths if none is of use.
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

// isLost reports whether a copy is of no use any more.
func (c *Client) isLost(x *partCopy) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return x.lost
}

// every runs f now and then until the client is closed, and at once when it is kicked: once where
// both are so.
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

// renewAll tells all workers which copies they keep, and learns which they have not.
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

// newID is a number that no other sequence has.
func newID() uint64 {
	var x [8]byte
	_, _ = crand.Read(x[:]) // never fails
	return binary.LittleEndian.Uint64(x[:])
}
