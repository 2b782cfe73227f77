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

// natsName makes sure that a worker has its name alone. All that want a name, or have it, listen
// at one subject. Who wants it asks first whether anybody is there. Two that start at once hear of
// each other before either has the name, and those that could not, such as on servers that were
// apart, when they next say that they have it. Of two the earlier one keeps the name.
//
// The subject is one that only workers may publish to, so no client can displace them.
type natsName struct {
	link            *NATS
	worker, subject string
	sub             *nats.Subscription

	mu    sync.Mutex
	claim nameClaim
	err   error // why the name is lost
	lost  chan struct{}
}

// nameClaim is what a worker says to others that may have its name.
type nameClaim struct {
	has      bool // or only wants it
	since    int64
	instance uint64
}

const (
	// namePatience is how long others have, to say that a name is theirs: a worker that has it, and
	// may have much to do, and one that wants it at the same time.
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

// before reports whether a worker keeps the name, and another one does not get it.
func (c *nameClaim) before(x *nameClaim) bool {
	switch {
	case c.has != x.has:
		return c.has
	case c.since != x.since:
		return c.since < x.since
	}
	return c.instance < x.instance
}

// takeName returns when the name is this worker's. A worker that announces itself more often waits
// less for rivals.
func (t *NATS) takeName(worker string, every time.Duration) (*natsName, error) {
	n := &natsName{link: t, worker: worker, subject: t.prefix + ".inbox.name." + worker,
		claim: nameClaim{since: time.Now().UnixNano(), instance: rand.Uint64()},
		lost:  make(chan struct{})}
	if err := n.ask(); err != nil && !errors.Is(err, errNoLink) { // or nobody can be asked
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
	if err := n.keep(); err != nil {
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

// taken is the error for who comes later.
func (n *natsName) taken(theirs *nameClaim) error {
	what := "has been there since"
	if !theirs.has {
		what = "is starting, since"
	}
	return fail(ErrTaken, "another worker %s %s %s, want a name that no other worker has", n.worker,
		what, time.Unix(0, theirs.since).UTC().Format(time.DateTime+" MST"))
}

// keep makes the name this worker's, unless another one was earlier.
func (n *natsName) keep() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.claim.has = n.err == nil
	return n.err
}

// say tells others of this worker.
func (n *natsName) say() { n.answer(n.subject, 0) }

func (n *natsName) answer(subject string, id uint64) {
	n.mu.Lock()
	f := frame{kind: kindName, id: id, payload: n.claim.encode()}
	n.mu.Unlock()
	_ = n.link.publishFrame(subject, "", &f) // if it fails, it is said again
}

// receive takes what others say, and what this worker has said.
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
		n.say() // so the other one hears that this one was earlier
	case strings.HasPrefix(m.Reply, n.link.prefix+".inbox."):
		n.answer(m.Reply, f.id)
	}
}

func (n *natsName) release() { n.link.link.unsubscribe(n.sub) }
