package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-1415985d/attn"
)

// WorkerConfig holds the name and the limits of a worker. Zero fields mean the values after the
// colons.
type WorkerConfig struct {
	Name      string        // letters, digits, - and _; unique among workers
	Memory    int64         // most bytes of keys and values
	Clients   int           // most clients with copies here: 1024
	Sequences int           // most sequences with parts here: 4096
	Copies    int           // most copies of parts: 65536
	Calls     int           // most calls at the same time: 64; more are refused with ErrBusy
	InFlight  int64         // bytes of requests, decoded ones and replies: 512 MiB; more: ErrBusy
	Reply     int           // most bytes of a reply: 64 MiB
	CopyRate  int64         // bytes a second of received copies, and of sent ones: 256 MiB
	Lease     time.Duration // longest lease of a client, see ClientConfig.Lease: 1 minute
	Outage    time.Duration // longest suspension of leases without a connection: 10 minutes
	Announce  time.Duration // time between announcements: 1 second
	Threads   int           // threads that compute: GOMAXPROCS, at most 65536
}

func (c *WorkerConfig) complete() error {
	setDefault(&c.Clients, 1024)
	setDefault(&c.Sequences, 4096)
	setDefault(&c.Copies, 65536)
	setDefault(&c.Calls, 64)
	setDefault(&c.InFlight, 512<<20)
	setDefault(&c.Reply, defaultMaxMessage)
	setDefault(&c.CopyRate, 256<<20)
	setDefault(&c.Lease, time.Minute)
	setDefault(&c.Outage, 10*time.Minute)
	setDefault(&c.Announce, time.Second)
	setDefault(&c.Threads, runtime.GOMAXPROCS(0))
	if min(c.Memory, c.CopyRate, c.InFlight) < 1 || min(c.Lease, c.Outage, c.Announce) < 1 ||
		min(c.Clients, c.Sequences, c.Copies, c.Calls, c.Reply, c.Threads) < 1 {
		return fail(attn.ErrOption, "WorkerConfig is %+v, want Memory and other sizes above 0", *c)
	}
	c.Memory = min(c.Memory, mostAmount)
	c.Threads = min(c.Threads, 1<<16)
	for _, wait := range []*time.Duration{&c.Lease, &c.Outage, &c.Announce} {
		*wait = min(*wait, longestWait)
	}
	return checkName("WorkerConfig.Name", c.Name)
}

func setDefault[T comparable](x *T, value T) {
	var zero T
	if *x == zero {
		*x = value
	}
}

// Worker keeps copies of parts of sequences, and computes states over them.
type Worker struct {
	config    WorkerConfig
	transport Transport
	arena     arena
	instance  uint64
	stop      func()
	ctx       context.Context // until Close
	cancel    context.CancelFunc
	wg        sync.WaitGroup // of calls and background work
	displaced chan error
	running   chan struct{} // has an element for each call,
	threads   chan struct{} // and for each call that computes
	copying   chan struct{} // or copies from another worker
	flight    flight
	staff     staff         // goroutines that compute
	copySlice time.Duration // the time for which a call copies
	takes     pace          // limits runs from other workers,
	gives     pace          // and to them

	calls, refused, malformed atomic.Uint64

	mu      sync.Mutex
	closed  bool
	leaving bool // it accepts no new copies
	kept    kept // of all clients
	clients map[clientID]*owner
}

// leaseTicks is the number of checks of the janitor during a lease.
const leaseTicks = 10

// NewWorker starts a worker. If another one has its name, the error wraps [ErrTaken].
func NewWorker(t Transport, c WorkerConfig) (*Worker, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	w := &Worker{config: c, transport: t, instance: newID(),
		displaced: make(chan error, 1), running: make(chan struct{}, c.Calls),
		threads: make(chan struct{}, c.Threads),
		copying: make(chan struct{}, max(1, c.Calls/copyShare)), copySlice: copySlice,
		flight: flight{limit: c.InFlight},
		takes:  pace{rate: c.CopyRate}, gives: pace{rate: c.CopyRate}, clients: map[clientID]*owner{}}
	w.arena.limit, w.arena.slabs = c.Memory, map[attn.StoreConfig][]*slab{}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.staff = newStaff(w.ctx.Done())
	stop, err := t.Serve(c.Name, Service{Handle: w.handle, Every: c.Announce,
		Status:    func() []byte { s := w.Status(); return s.encode() },
		Malformed: func() { w.malformed.Add(1) }, Displaced: func(err error) { w.displaced <- err }})
	if err != nil {
		w.cancel()
		return nil, err
	}
	w.stop = stop
	w.wg.Go(w.endLeases)
	return w, nil
}

// Close stops the worker, waits for running calls, and frees its memory. Later calls are refused.
// Closing it again does nothing.
func (w *Worker) Close() {
	w.mu.Lock()
	closed := w.closed
	w.closed = true
	w.mu.Unlock()
	if closed {
		return
	}
	w.cancel() // so that Close does not wait for another worker
	w.stop()
	w.wg.Wait()
	w.mu.Lock()
	all := slices.Collect(maps.Keys(w.clients))
	w.mu.Unlock()
	for _, id := range all {
		w.drop(id)
	}
}

// Displaced returns a channel that receives an error that wraps [ErrTaken] if another worker turns
// out to have the name, as is possible after NATS servers could not reach each other. The worker
// answers no more calls then: close it.
func (w *Worker) Displaced() <-chan error { return w.displaced }

// enter begins a call, for which Close waits, and reports whether the worker is open.
func (w *Worker) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.wg.Add(1)
	}
	return !w.closed
}

// Status returns the worker's announcement.
func (w *Worker) Status() Status {
	s := Status{Worker: w.config.Name, Instance: w.instance, Memory: w.config.Memory,
		Running: len(w.running), Calls: w.calls.Load(), Refused: w.refused.Load(),
		Malformed: w.malformed.Load(), Kernels: attn.Implementation()}
	s.Used, s.Spare = w.arena.bytes()
	s.Tokens = w.arena.tokens.Load()
	w.mu.Lock()
	s.Leaving = w.leaving
	s.Clients, s.Copies, s.Sequences = len(w.clients), w.kept.copies, w.kept.sequences
	w.mu.Unlock()
	return s
}

// handle answers a request.
func (w *Worker) handle(request []byte, send func([]byte)) {
	if !w.enter() {
		send(errorReply(fail(ErrUnavailable, "the worker was closed")))
		return
	}
	defer w.wg.Done()
	select {
	case w.running <- struct{}{}:
		defer func() { <-w.running }()
	default:
		send(w.refuse(request, fail(ErrBusy, "%d calls are running, want at most %d", w.config.Calls,
			w.config.Calls)))
		return
	}
	cost := load{flight: &w.flight}
	defer cost.end()
	if err := cost.take(int64(len(request))); err != nil {
		send(w.refuse(request, err))
		return
	}
	w.calls.Add(1)
	reply, err := w.answer(request, &cost)
	if err != nil {
		if errors.Is(err, ErrProtocol) {
			w.malformed.Add(1)
		}
		w.refused.Add(1)
		reply = errorReply(err)
	}
	cost.add(int64(len(reply)) - cost.reply)
	send(reply)
	reuse(reply)
}

// refuse answers a request for which there is no room. It still renews the client's lease, so that
// nothing is freed because the worker is busy.
func (w *Worker) refuse(request []byte, err error) []byte {
	w.refused.Add(1)
	_, client, d := decodeRequest(request)
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.clients[client]; o != nil && d.err == nil {
		o.idle = 0
	}
	return errorReply(err)
}

// answer executes a request, and counts its memory.
func (w *Worker) answer(request []byte, cost *load) ([]byte, error) {
	op, client, d := decodeRequest(request)
	d.load = cost
	if d.err != nil {
		return nil, d.err
	}
	switch op {
	case opCreate:
		return answerTo(client, d, w.create)
	case opStep:
		return answerTo(client, d, func(client clientID, r *stepRequest) (body, error) {
			return w.step(client, r, cost), nil
		})
	case opRelease:
		return answerTo(client, d, w.release)
	case opRenew:
		return answerTo(client, d, w.renew)
	case opRead:
		return answerTo(client, d, func(client clientID, r *readRequest) (body, error) {
			return w.read(client, r, cost)
		})
	case opCopy:
		return answerTo(client, d, w.copy)
	}
	return answerTo(client, d, func(clientID, *nothing) (body, error) {
		s := w.Status()
		return &s, nil
	})
}

// answerTo reads a request of a kind, and answers it.
func answerTo[R any, P interface {
	*R
	body
}](client clientID, d *codec, do func(clientID, P) (body, error)) ([]byte, error) {
	r := P(new(R))
	if err := d.read(r); err != nil {
		return nil, err
	}
	x, err := do(client, r)
	if err != nil {
		return nil, err
	}
	return encodeReply(x), nil
}

// part returns a copy of a client.
func (w *Worker) part(client clientID, copy uint64) (*part, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.clients[client]; o != nil {
		o.idle = 0
		if p := o.copies[copy]; p != nil {
			return p, nil
		}
	}
	return nil, notHere(copy)
}

// notHere is the error that a copy is not here, small because a request may name many.
type notHere uint64

func (e notHere) Error() string {
	return fmt.Sprintf("%v: copy %d is not here", errUnknown, uint64(e))
}

func (notHere) Unwrap() error { return errUnknown }

func (w *Worker) create(client clientID, r *createRequest) (body, error) {
	if err := w.checkShape(r); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.clients[client]
	if o != nil && o.copies[r.copy] != nil {
		return nothing{}, nil // the request was repeated
	}
	if w.leaving {
		return nil, fail(ErrUnavailable, "the worker is leaving, and takes no new copies")
	}
	if err := w.checkRoom(o, r); err != nil {
		return nil, err
	}
	w.addCopy(w.owner(client, r.lease), newPart(*r, &w.arena))
	return nothing{}, nil
}

// checkRoom verifies that one more copy, of a client that may be new, is within the limits. The
// lock is held.
func (w *Worker) checkRoom(o *owner, r *createRequest) error {
	switch k := &w.kept; {
	case o == nil && len(w.clients) >= w.config.Clients:
		return fail(ErrLimit, "%d clients are here, want at most %d", len(w.clients), w.config.Clients)
	case k.copies >= w.config.Copies:
		return fail(ErrLimit, "%d copies are here, want at most %d", k.copies, w.config.Copies)
	case k.layers+r.shape.Layers > maxLayers:
		return fail(ErrLimit, "copies have %d layers in all, and %d more are wanted, want at most %d",
			k.layers, r.shape.Layers, maxLayers)
	case k.sequences >= w.config.Sequences && !o.has(r.sequence):
		return fail(ErrLimit, "%d sequences are here, want at most %d", k.sequences,
			w.config.Sequences)
	}
	return nil
}

// maxLayers bounds the layers of all copies, since empty ones use no memory for tokens.
const maxLayers = 1 << 20

// checkShape verifies that the worker can keep such a part.
func (w *Worker) checkShape(r *createRequest) error {
	s := &r.shape
	if err := s.check(""); err != nil {
		return err
	}
	switch {
	case r.tokens < 1:
		return fail(attn.ErrShape, "tokens is %d, want at least 1", r.tokens)
	case int64(s.KVHeads)*int64(s.HeadDim+s.values())*attn.Block > w.config.Memory:
		return fail(attn.ErrCapacity, "a page of %d heads of %d and %d is more than the %d bytes that "+
			"there are", s.KVHeads, s.HeadDim, s.values(), w.config.Memory)
	}
	return nil
}

func (w *Worker) release(client clientID, r *releaseRequest) (body, error) {
	if err := w.checkNamed(r.copies); err != nil {
		return nil, err
	}
	w.remove(client, r.copies)
	return nothing{}, nil
}

// read returns a run for another worker, or the time to wait, which limits the network traffic of
// copies.
func (w *Worker) read(client clientID, r *readRequest, cost *load) (body, error) {
	p, err := w.part(client, r.copy)
	if err != nil {
		return nil, err
	}
	if wait := w.gives.wait(time.Now()); wait > 0 {
		return &readReply{wait: wait}, nil
	}
	if err := cost.take(p.runBytes()); err != nil {
		return nil, err
	}
	x, err := p.read(r)
	w.gives.went(len(x.saved), time.Now())
	return &x, err
}
