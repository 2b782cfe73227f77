package cluster

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A simulation runs clients and workers of this package, as they are, in a bubble of
// testing/synctest: on a clock that goes on when all have come to rest, and on a network that draws
// from a seed what becomes of each message. One goroutine, the conductor, lets one thing happen at
// a time, and waits until all that follows from it has followed. What is sent meanwhile it sorts
// before it draws, so a seed gives the same run again however goroutines are scheduled.

// world is a simulated network and what is on it.
type world struct {
	*testing.T
	seed    uint64
	dice    *rand.Rand // the conductor's
	weather weather
	begin   time.Time

	queue  events // the conductor's
	number uint64 // of events so far
	trace  trace

	mu       sync.Mutex
	outbox   []*parcel
	sent     chan struct{} // has an element if something may be in the outbox
	serving  map[string]*process
	watching []*process
	nodes    []*node
	client   *Client
	caller   *process             // of the client
	healed   bool                 // no more faults
	drop     func(x *parcel) bool // if not nil, says which parcels are lost
	calm     bool                 // nothing fails
	safe     bool                 // faults leave a copy of each token
	tight    bool                 // and so does that a worker is full, as others only hang
	stats    map[string]int
	counted  map[simPart]map[uint64]simCopy // copies that are counted on

	leaving sync.WaitGroup // clients that vanished, whose calls end with their time
}

// weather is what a run is like: each run has some kinds of trouble, and few have all.
type weather struct {
	loss, twice, slow, garbage float64       // chances of a message
	lag                        time.Duration // mean time of most messages
	faults                     time.Duration // between faults of processes, 0: none
	pause                      time.Duration // of users between what they do
}

// simPart is a part of a client's sequence. Clients number copies alike.
type simPart struct {
	client   clientID
	sequence uint64
	index    int
}

// simCopy is a copy that is counted on.
type simCopy struct {
	*partCopy
	since time.Time
}

// process is what may fail as a whole: a client or a worker with its connection.
type process struct {
	*world
	name    string
	dead    bool      // killed: nothing comes from it or to it any more
	stalled time.Time // until then it does nothing, and what comes waits
	deaf    time.Time // until then what comes and leaves is lost
	away    moment    // until then its connection is down: nobody listens at its name
	left    moment    // since then,
	rejoins moment    // and when that ended before its time
	service *Service
	watch   func([]byte)
	jumped  atomic.Int64 // what its clock has jumped ahead
}

// moment is a time that some goroutines read and one writes.
type moment struct{ nanoseconds atomic.Int64 }

func (m *moment) set(t time.Time)        { m.nanoseconds.Store(t.UnixNano()) }
func (m *moment) After(t time.Time) bool { return m.get().After(t) }

// get is the time, none if it was not set.
func (m *moment) get() time.Time {
	if n := m.nanoseconds.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

// goAway cuts the connection of a process for some time, and comeBack restores it at once.
func (p *process) goAway(long time.Duration) {
	now := time.Now()
	if !p.away.After(now) {
		p.left.set(now)
	}
	p.away.set(now.Add(long))
}

func (p *process) comeBack() {
	if now := time.Now(); p.away.After(now) {
		p.rejoins.set(now)
	}
	p.away.nanoseconds.Store(0)
}

// outage returns the outage of linked.
func (p *process) outage() (away time.Duration, again time.Time) {
	now := time.Now()
	if p.away.After(now) {
		return max(1, now.Sub(p.left.get())), p.rejoins.get()
	}
	if again = p.rejoins.get(); p.away.After(again) {
		again = p.away.get()
	}
	return 0, again
}

// now is the clock of a process.
func (p *process) now() time.Time { return time.Now().Add(time.Duration(p.jumped.Load())) }

// parcel is a message on its way.
type parcel struct {
	kind   string
	from   *process
	worker string // that it goes to,
	to     *process
	data   []byte
	call   *simCall
	sum    uint32
}

// renews reports whether a parcel renews leases.
func (x *parcel) renews() bool {
	return x.kind == "request" && len(x.data) > 4 && x.data[4] == opRenew
}

// simCall is a call whose reply has not come yet.
type simCall struct {
	once  sync.Once
	done  chan struct{}
	reply []byte
	err   error
}

func (c *simCall) finish(reply []byte, err error) {
	c.once.Do(func() {
		c.reply, c.err = reply, err
		close(c.done)
	})
}

// Call, Serve and Watch implement [Transport].
func (p *process) Call(ctx context.Context, worker string, request []byte) ([]byte, error) {
	if away, _ := p.outage(); away > 0 {
		p.pause(request)
		return nil, fail(errNoLink, "for %v", away)
	}
	c := &simCall{done: make(chan struct{})}
	p.send(&parcel{kind: "request", from: p, worker: worker, data: slices.Clone(request),
		call: c})
	select {
	case <-c.done:
		return c.reply, c.err
	case <-ctx.Done():
		p.pause(request)
		return nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, worker, ctx.Err())
	}
}

// pause lets what was asked at the same time not end at the same time.
func (p *process) pause(request []byte) {
	time.Sleep(time.Duration(crc32.Checksum(request, castagnoli) % 1000))
}

func (p *process) Serve(worker string, s Service) (stop func(), err error) {
	p.mu.Lock()
	p.service, p.serving[worker] = &s, p
	p.mu.Unlock()
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(s.Every)
		defer tick.Stop()
		for {
			p.announce()
			select {
			case <-ended:
				return
			case <-tick.C:
			}
		}
	}()
	return func() {
		p.mu.Lock()
		if p.serving[worker] == p {
			delete(p.serving, worker)
		}
		p.mu.Unlock()
		close(ended)
		<-stopped
	}, nil
}

// announce tells all watchers what the worker of a process says about itself.
func (p *process) announce() {
	status := p.service.Status()
	p.mu.Lock()
	watching := slices.Clone(p.watching)
	p.mu.Unlock()
	for _, to := range watching {
		p.send(&parcel{kind: "status", from: p, to: to, data: status})
	}
}

func (p *process) Watch(each func([]byte)) (stop func(), err error) {
	p.mu.Lock()
	p.watch = each
	p.watching = append(p.watching, p)
	names := make([]string, 0, len(p.serving))
	for name := range p.serving {
		names = append(names, name)
	}
	p.mu.Unlock()
	slices.Sort(names)
	for _, name := range names {
		p.send(&parcel{kind: "hello", from: p, worker: name})
	}
	return func() {
		p.mu.Lock()
		p.watching = slices.DeleteFunc(slices.Clone(p.watching), func(x *process) bool {
			return x == p
		})
		p.mu.Unlock()
	}, nil
}

// send puts something in the outbox.
func (w *world) send(x *parcel) {
	x.sum = crc32.Checksum(x.data, castagnoli)
	w.mu.Lock()
	w.outbox = append(w.outbox, x)
	w.mu.Unlock()
	select {
	case w.sent <- struct{}{}:
	default:
	}
}

// event is something that happens at a time.
type event struct {
	at     time.Time
	number uint64
	do     func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	if !q[i].at.Equal(q[j].at) {
		return q[i].at.Before(q[j].at)
	}
	return q[i].number < q[j].number
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	(*q)[last] = event{}
	*q = (*q)[:last]
	return x
}

// in lets something happen after a time. Only the conductor calls it.
func (w *world) in(d time.Duration, do func()) {
	w.number++
	heap.Push(&w.queue, event{time.Now().Add(d), w.number, do})
}

// conduct lets things happen, one after another, until there is nothing more to be done.
func (w *world) conduct(done <-chan struct{}) {
	for {
		synctest.Wait()
		w.post()
		var next <-chan time.Time
		if len(w.queue) > 0 {
			next = time.After(time.Until(w.queue[0].at))
		}
		select {
		case <-w.sent:
		case <-done:
			return
		case <-next:
			synctest.Wait() // what else is due now
			w.post()
			w.count()
			heap.Pop(&w.queue).(event).do()
		}
	}
}

// count notes the copies that the client counts on. Those that it had before there were enough
// others it has given up with reason, and those on workers that leave before there was another.
func (w *world) count() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.client == nil {
		return
	}
	for _, s := range w.client.all() {
		for _, p := range s.all() {
			w.countPart(s, p)
		}
	}
}

// countPart notes the copies of a part. The lock is held.
func (w *world) countPart(s *Sequence, p *sequencePart) {
	key, now := simPart{w.client.id, s.id, p.index}, map[uint64]simCopy{}
	before, good := w.counted[key], s.good(p)
	for _, x := range s.copiesOf([]*sequencePart{p}) {
		if now[x.id] = before[x.id]; now[x.id].partCopy == nil {
			now[x.id] = simCopy{x, time.Now()}
		}
	}
	if len(good) < w.client.config.Copies {
		another := slices.ContainsFunc(good, func(x *partCopy) bool { return w.has(s, p, x) })
		for id, x := range before {
			if !another || !w.client.member(x.worker).status.Leaving {
				now[id] = x
			}
		}
	}
	w.counted[key] = now
}

// theClient is the client that there is now.
func (w *world) theClient() *Client {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.client
}

// post draws what becomes of what was sent.
func (w *world) post() {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.outbox
	w.outbox = nil
	select {
	case <-w.sent:
	default:
	}
	slices.SortFunc(all, func(a, b *parcel) int {
		return cmp.Or(strings.Compare(a.kind, b.kind), strings.Compare(a.from.name, b.from.name),
			strings.Compare(a.worker, b.worker), cmp.Compare(len(a.data), len(b.data)),
			cmp.Compare(a.sum, b.sum))
	})
	for _, x := range all {
		if x.from.dead || w.drop != nil && w.drop(x) {
			continue
		}
		c := &w.weather
		if w.dice.Float64() < c.loss && !(w.tight && x.renews()) { // or else leases end
			w.note("lost", x)
			continue
		}
		w.deliverLater(x)
		if w.dice.Float64() < c.twice {
			w.note("twice", x)
			w.deliverLater(x)
		}
	}
}

// deliverLater delivers a parcel after a time.
func (w *world) deliverLater(x *parcel) {
	d := 20*time.Microsecond + time.Duration(w.dice.ExpFloat64()*float64(w.weather.lag))
	if w.dice.Float64() < w.weather.slow {
		d += time.Duration(w.dice.Float64() * float64(3*time.Second))
	}
	w.in(d, func() { w.deliver(x) })
}

// deliver gives a parcel to whom it is for.
func (w *world) deliver(x *parcel) {
	w.mu.Lock()
	now := time.Now()
	from, to := x.from, x.to
	if x.kind == "request" || x.kind == "hello" {
		to = w.serving[x.worker]
	}
	nobody := to == nil || to.dead || to.away.After(now)
	switch {
	case from.away.After(now) || from.deaf.After(now) || to != nil && to.deaf.After(now):
		w.note("dropped", x)
	case !nobody && to.stalled.After(now):
		w.in(to.stalled.Sub(now)+time.Duration(w.dice.IntN(1000)), func() { w.deliver(x) })
	case from.stalled.After(now) && x.kind != "request": // it has not left yet
		w.in(from.stalled.Sub(now)+time.Duration(w.dice.IntN(1000)), func() { w.deliver(x) })
	case nobody && x.kind == "request":
		w.note("nobody", x)
		w.deliverLater(&parcel{kind: "nobody", from: &process{world: w, name: "server"}, to: x.from,
			call: x.call, worker: x.worker})
	case nobody:
		w.note("dropped", x)
	default:
		w.note("arrived", x)
		if x.kind == "reply" && w.dice.Float64() < w.weather.garbage {
			w.note("garbage", x)
			x.data = garbage(w.dice)
		}
		w.mu.Unlock()
		to.take(x)
		return
	}
	w.mu.Unlock()
}

// garbage is what a worker says that has gone wrong.
func garbage(r *rand.Rand) []byte {
	data := make([]byte, r.IntN(100))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// take processes a parcel that has arrived.
func (p *process) take(x *parcel) {
	switch x.kind {
	case "request":
		request := slices.Clone(x.data)
		go p.service.Handle(request, func(reply []byte) {
			p.send(&parcel{kind: "reply", from: p, to: x.from, worker: x.worker,
				data: slices.Clone(reply), call: x.call})
		})
	case "reply":
		x.call.finish(x.data, nil)
	case "nobody":
		x.call.finish(nil, fail(errNobody, "nobody listens at %s", x.worker))
	case "hello":
		go p.announce()
	case "status":
		p.watch(x.data)
	}
}

// trace is all that has happened: a sum of it, and the lines if somebody wants to read them.
type trace struct {
	sum   uint32
	lines func(string)
}

// note adds what became of a parcel to the trace.
func (w *world) note(what string, x *parcel) {
	to := x.worker
	if x.to != nil {
		to = x.to.name
	}
	w.say("%s %s %s>%s %d %08x", what, x.kind, x.from.name, to, len(x.data), x.sum)
	if w.trace.lines != nil {
		w.trace.lines("    " + describe(x))
	}
}

// describe says what is in a parcel.
func describe(x *parcel) string {
	if x.kind == "reply" {
		_, err := decodeReply("w", x.data)
		return fmt.Sprint(err)
	}
	op, _, d := decodeRequest(x.data)
	if x.kind != "request" || d.err != nil {
		return ""
	}
	switch op {
	case opCreate:
		var r createRequest
		_ = d.read(&r)
		return fmt.Sprintf("create %d part %d of %x epoch %d", r.copy, r.part, r.sequence, r.epoch)
	case opStep:
		var r stepRequest
		_ = d.read(&r)
		text := "step"
		for _, r := range r.cuts {
			text += fmt.Sprintf(" truncate %d epoch %d to %v", r.copy, r.epoch, r.lengths)
		}
		for i := range r.appends {
			text += " " + r.appends[i].String()
		}
		for i := range r.attends {
			text += " " + r.attends[i].String()
		}
		return text
	case opRelease:
		var r releaseRequest
		_ = d.read(&r)
		return fmt.Sprintf("release %v", r.copies)
	case opRenew:
		var r renewRequest
		_ = d.read(&r)
		return fmt.Sprintf("renew %v up to %d", r.copies, r.horizon)
	case opRead:
		var r readRequest
		_ = d.read(&r)
		return fmt.Sprintf("read %d epoch %d layer %d run %d", r.copy, r.epoch, r.layer, r.run)
	case opCopy:
		var r copyRequest
		_ = d.read(&r)
		return fmt.Sprintf("copy %d from %s %d epoch %d", r.copy, r.from, r.source, r.epoch)
	}
	return "status"
}

func (r *appendRequest) String() string {
	return fmt.Sprintf("append %d epoch %d layer %d at %d: %d", r.copy, r.epoch, r.layer, r.position,
		r.tokens())
}

func (r *attendRequest) String() string {
	text := fmt.Sprintf("attend layer %d", r.layer)
	for _, g := range r.groups {
		for _, p := range g.parts {
			text += fmt.Sprintf(" %d epoch %d keys %d", p.copy, p.epoch, p.keys)
		}
	}
	return text
}

// say adds a line to the trace.
func (w *world) say(format string, args ...any) {
	line := fmt.Sprintf("%12v ", time.Since(w.begin)) + fmt.Sprintf(format, args...)
	w.trace.sum = crc32.Update(w.trace.sum, castagnoli, []byte(line))
	if w.trace.lines != nil {
		w.trace.lines(line)
	}
}
