package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// natsName makes sure that only one worker has a name. All workers that want a name, or have it,
// listen at one subject. A worker that wants it first asks whether anybody is there. Two that start
// at the same time hear of each other before either has the name; if they could not, for example on
// separated servers, they do when they next announce the name. The earlier of two keeps the name.
//
// Only workers may publish to the subject, so no client can displace them.
type natsName struct {
	link            *NATS
	worker, subject string
	sub             *nats.Subscription

	mu    sync.Mutex
	claim nameClaim
	err   error // why the name is lost
	lost  chan struct{}
}

// nameClaim is a worker's message to others that may have its name.
type nameClaim struct {
	has      bool // or only wants it
	since    int64
	instance uint64
}

const (
	// namePatience and rivalPatience bound the wait for others that claim a name: for a worker that
	// has it, which may be busy, and for one that wants it at the same time.
	namePatience, rivalPatience = 3 * time.Second, 200 * time.Millisecond
)

func (c *nameClaim) encode() []byte { return bytesOf(c) }

func (c *nameClaim) wire(d *codec) {
	d.flag(&c.has)
	set(d, &c.since, int64(d.number(uint64(c.since), 8)))
	d.u64(&c.instance)
}

func decodeNameClaim(data []byte) (c nameClaim, err error) {
	d := codec{mode: reads, data: data}
	err = d.read(&c)
	return c, err
}

// before reports whether a claim has priority over another one.
func (c *nameClaim) before(x *nameClaim) bool {
	switch {
	case c.has != x.has:
		return c.has
	case c.since != x.since:
		return c.since < x.since
	}
	return c.instance < x.instance
}

// takeName returns when this worker has the name. A worker that announces itself more often waits
// less for rivals.
func (t *NATS) takeName(worker string, every time.Duration) (*natsName, error) {
	n := &natsName{link: t, worker: worker, subject: t.prefix + ".inbox.name." + worker,
		claim: nameClaim{since: time.Now().UnixNano(), instance: rand.Uint64()},
		lost:  make(chan struct{})}
	if err := n.ask(); err != nil && !errors.Is(err, errNoLink) { // or nobody to ask
		return nil, err
	}
	var err error
	if n.sub, err = t.subscribe(n.subject, fewBytes, n.receive); err != nil {
		return nil, &redactedError{err}
	}
	n.say()
	select {
	case <-n.lost:
	case <-time.After(min(every, rivalPatience)):
	}
	if err := n.claimName(); err != nil {
		n.release()
		return nil, err
	}
	n.say()
	return n, nil
}

// ask returns an error if somebody has the name, or may have it.
func (n *natsName) ask() error {
	for until := time.Now().Add(namePatience); time.Now().Before(until); {
		ctx, cancel := context.WithTimeout(context.Background(), namePatience/10)
		reply, err := n.link.request(ctx, kindName, n.subject, n.claim.encode())
		late := ctx.Err() != nil
		cancel()
		switch {
		case errors.Is(err, errNobody):
			return nil
		case err != nil && !late:
			return err
		case err == nil:
			theirs, err := decodeNameClaim(reply)
			if err != nil {
				return err
			}
			return n.taken(&theirs)
		}
	}
	return fail(ErrTaken, "a worker %s is there, but did not answer for %v: it hangs, or its machine "+
		"is gone and the server does not know yet; want another name, or to wait", n.worker,
		namePatience)
}

// taken returns the error of the later worker.
func (n *natsName) taken(theirs *nameClaim) error {
	what := "has been there since"
	if !theirs.has {
		what = "is starting, since"
	}
	return fail(ErrTaken, "another worker %s %s %s, want a name that no other worker has", n.worker,
		what, time.Unix(0, theirs.since).UTC().Format(time.DateTime+" MST"))
}

// claimName gives this worker the name, unless another one was earlier.
func (n *natsName) claimName() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.claim.has = n.err == nil
	return n.err
}

// say tells other workers of this worker's claim.
func (n *natsName) say() { n.answer(n.subject, 0) }

func (n *natsName) answer(subject string, id uint64) {
	n.mu.Lock()
	f := frame{kind: kindName, id: id, payload: n.claim.encode()}
	n.mu.Unlock()
	_ = n.link.publishFrame(subject, "", &f) // if it fails, it is repeated
}

// receive handles the claims of others, and of this worker.
func (n *natsName) receive(m *nats.Msg) {
	f, err := decodeFrame(m.Data, n.link.most)
	if err != nil || f.kind != kindName {
		return
	}
	theirs, err := decodeNameClaim(f.payload)
	if err != nil {
		return
	}
	n.mu.Lock()
	self := theirs.instance == n.claim.instance
	loses := !self && m.Reply == "" && theirs.before(&n.claim) && n.err == nil
	if loses {
		n.err = n.taken(&theirs)
		close(n.lost)
	}
	over := n.err != nil
	n.mu.Unlock()
	switch {
	case self || over:
	case m.Reply == "":
		n.say() // so that the other one hears that this one was earlier
	case strings.HasPrefix(m.Reply, n.link.prefix+".inbox."):
		n.answer(m.Reply, f.id)
	}
}

func (n *natsName) release() { n.link.link.unsubscribe(n.sub) }
