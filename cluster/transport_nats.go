package cluster

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	mrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crypto/rand"

	"github.com/nats-io/nats.go"

	"github.com/seed-1415985d/attn"
)

// NATSConfig configures the connection to a NATS server, and its subjects.
type NATSConfig struct {
	// URL is the address of one server or several, separated by commas. Errors show it without user
	// and password.
	URL string
	// Prefix begins all subjects: tokens of letters, digits, - and _, separated by dots. Give each
	// tenant its own prefix, and permissions for no other. "" means "attn".
	Prefix string
	// Options are passed to the connection: TLS, credentials, keys, names, reconnection.
	Options []nats.Option
	// MaxMessage is the length in bytes of the largest request and reply; 0 means 64 MiB. Messages
	// above the server's limit are sent in pieces.
	MaxMessage int
	// Ping is the time between pings of the server, 0 means 3 seconds, and Pings the number of pings
	// that may stay unanswered, 0 means 2. At the next ping the connection is given up, and another
	// server of the URL, or one that the server has named, is tried: after 9 seconds by default. That
	// should be less than [ClientConfig.Lease].
	Ping  time.Duration
	Pings int
}

// NATS is a [Transport] over NATS. Its subjects are, after the prefix:
//
//	worker.ID     requests to a worker, and acknowledgements of pieces of its replies
//	inbox.ID.N    replies to a client, or to a worker that copies from another
//	inbox.name.ID workers make sure that no other has their name
//	status        workers announce themselves
//	hello         asks them to do so at once
type NATS struct {
	conn   *nats.Conn
	link   *natsLink
	prefix string
	inbox  string // "prefix.inbox.ID."
	most   int    // most bytes of a message
	next   atomic.Uint64
	sub    *nats.Subscription

	mu     sync.Mutex
	calls  map[uint64]*natsCall
	closed error
}

const (
	defaultMaxMessage = 64 << 20
	pieceSize         = 256 << 10
	windowSize        = 8 * pieceSize
	// ackPatience bounds the wait of a sender of pieces for the receiver, and of a receiver for the
	// sender.
	ackPatience = 10 * time.Second
	// Messages that may wait in a subscription. Further ones are dropped, and resent by senders that
	// get no answer.
	pendingMessages = 1 << 16
	pendingBytes    = 256 << 20
	fewBytes        = 1 << 20 // of subjects with small messages
)

// DialNATS connects to a server. Close the transport after the clients and workers that use it.
func DialNATS(c NATSConfig) (*NATS, error) {
	if c.Prefix == "" {
		c.Prefix = "attn"
	}
	if c.MaxMessage == 0 {
		c.MaxMessage = defaultMaxMessage
	}
	setDefault(&c.Ping, 3*time.Second)
	setDefault(&c.Pings, 2)
	for _, token := range strings.Split(c.Prefix, ".") {
		if err := checkName("NATSConfig.Prefix", token); err != nil {
			return nil, err
		}
	}
	if c.MaxMessage < 1024 || c.MaxMessage > 1<<30 {
		return nil, fail(ErrLimit, "NATSConfig.MaxMessage is %d, want 1024 to %d", c.MaxMessage, 1<<30)
	}
	if c.Ping < time.Millisecond || c.Pings < 1 {
		return nil, fail(attn.ErrOption, "NATSConfig.Ping is %v and Pings %d, want at least 1ms and 1",
			c.Ping, c.Pings)
	}
	t := &NATS{prefix: c.Prefix, most: c.MaxMessage, calls: map[uint64]*natsCall{},
		inbox: c.Prefix + ".inbox." + newToken() + "."}
	t.next.Store(mrand.Uint64() >> 1)
	servers, err := splitServers(c.URL)
	if err != nil {
		return nil, err
	}
	if err := t.connect(&c, servers); err != nil {
		return nil, &redactedError{fmt.Errorf("%w: connecting to %s: %w", ErrUnavailable,
			strings.Join(servers, ","), err)}
	}
	return t, nil
}

func (t *NATS) connect(c *NATSConfig, servers []string) (err error) {
	o := nats.GetDefaultOptions()
	o.MaxReconnect, o.ReconnectWait, o.ReconnectJitter = -1, reconnectWait, reconnectWait
	o.PingInterval, o.MaxPingsOut = c.Ping, c.Pings
	for _, apply := range c.Options {
		if err := apply(&o); err != nil {
			return err
		}
	}
	o.Servers = append(o.Servers, servers...)
	o.Url = ""
	t.link = newNATSLink(&o, t.finishAll)
	o.AsyncErrorCB = func(conn *nats.Conn, s *nats.Subscription, err error) {
		t.noteError(err)
		if theirs := t.link.theirs.AsyncErrorCB; theirs != nil {
			theirs(conn, s, err)
		}
	}
	o.ClosedCB = func(conn *nats.Conn) {
		t.failAll(fail(ErrUnavailable, "the connection was closed: %v", conn.LastError()))
		if theirs := t.link.theirs.ClosedCB; theirs != nil {
			theirs(conn)
		}
	}
	if err := t.link.connect(&o); err != nil {
		return err
	}
	t.conn = t.link.conn
	if t.sub, err = t.subscribe(t.inbox+"*", pendingBytes, t.receive); err == nil {
		err = t.link.waitForServer()
	}
	if err != nil {
		t.link.close()
	}
	return err
}

// reconnectWait is the time, plus a random time up to the same, before servers that could not be
// reached are tried again.
const reconnectWait = 250 * time.Millisecond

// subscribe receives messages; at most bytes of them may wait.
func (t *NATS) subscribe(subject string, bytes int, handle nats.MsgHandler) (*nats.Subscription,
	error) {
	s, err := t.conn.Subscribe(subject, handle)
	if err == nil {
		err = s.SetPendingLimits(pendingMessages, bytes)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return s, nil
}

// Conn returns the connection, for its statistics and state.
func (t *NATS) Conn() *nats.Conn { return t.conn }

// mostBytes implements limited.
func (t *NATS) mostBytes() int { return t.most }

// outage implements linked.
func (t *NATS) outage() (away time.Duration, again time.Time) { return t.link.outage() }

// Outage returns how long there has been no connection to a server, 0 if there is one.
func (t *NATS) Outage() time.Duration {
	away, _ := t.outage()
	return away
}

// Close ends the connection, within a second or two. Running calls return an error.
func (t *NATS) Close() error {
	t.failAll(fail(ErrUnavailable, "the transport was closed"))
	t.link.close()
	return nil
}

// failAll ends all calls, running and future.
func (t *NATS) failAll(err error) {
	t.mu.Lock()
	if t.closed == nil {
		t.closed = err
	}
	t.mu.Unlock()
	t.finishAll(err)
}

// finishAll ends all running calls.
func (t *NATS) finishAll(err error) {
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.calls))
	t.mu.Unlock()
	for _, c := range all {
		c.finishCall(nil, err)
	}
}

// noteError handles an error that the server sent for no particular call. If a subject may not be
// published to, calls to it end with the error; if replies cannot be received, or there are too
// many subscriptions for that, all calls do, now and later.
func (t *NATS) noteError(err error) {
	few := errors.Is(err, nats.ErrMaxSubscriptionsExceeded)
	if !errors.Is(err, nats.ErrPermissionViolation) && !few {
		return
	}
	denied := fmt.Errorf("%w: %w: %w", ErrUnavailable, errDenied, err)
	if few {
		denied = fmt.Errorf("%w: %w: %w", ErrLimit, errDenied, err)
	}
	deaf := few || strings.Contains(err.Error(), "Subscription")
	if deaf {
		t.failAll(denied)
		return
	}
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.calls))
	t.mu.Unlock()
	for _, c := range all {
		if strings.Contains(err.Error(), `"`+c.subject+`"`) {
			c.finishCall(nil, denied)
		}
	}
}

// natsCall is a call without a reply yet.
type natsCall struct {
	subject string
	flow    flow // of the pieces of the request
	in      incoming
	once    sync.Once
	ended   func(reply []byte, err error) // called once, on a goroutine that must not wait,
	stop    func() bool                   // and removes the hook that ends the call with its context
}

// finishCall ends a call. The transport's lock is not held.
func (c *natsCall) finishCall(reply []byte, err error) {
	c.once.Do(func() { c.ended(reply, err) })
}

// Call implements [Transport].
func (t *NATS) Call(ctx context.Context, worker string, request []byte) ([]byte, error) {
	if err := checkName("worker", worker); err != nil {
		return nil, err
	}
	if len(request) > t.most {
		return nil, fail(ErrLimit, "a request has %d bytes, want at most %d, the limit of messages",
			len(request), t.most)
	}
	return t.request(ctx, kindRequest, t.prefix+".worker."+worker, request)
}

// request sends a frame of a kind, and waits for its answer.
func (t *NATS) request(ctx context.Context, kind uint8, subject string, message []byte) ([]byte,
	error) {
	done := make(chan struct{})
	var reply []byte
	var problem error
	c := &natsCall{subject: subject, flow: newFlow(), ended: func(r []byte, err error) {
		reply, problem = r, err
		close(done)
	}}
	if id, begun := t.beginCall(ctx, c); begun {
		f := frame{kind: kind, id: id}
		if err := t.send(ctx, done, subject, t.inboxOf(id), f, message, &c.flow); err != nil {
			c.finishCall(nil, err)
		}
	}
	select {
	case <-done:
		return reply, problem
	case <-ctx.Done():
		return nil, timedOut(ctx, subject)
	}
}

// timedOut returns the error of a call that did not end before its context.
func timedOut(ctx context.Context, subject string) error {
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, subject, ctx.Err())
}

// ask implements asker, for requests of one piece.
func (t *NATS) ask(ctx context.Context, worker string, request []byte,
	ended func(reply []byte, err error)) bool {
	w, closed := t.link.wire.Load(), false
	locked(&t.mu, func() { closed = t.closed != nil })
	if closed || len(request) > t.piece() || w != nil && w.crowded() ||
		checkName("worker", worker) != nil {
		return false
	}
	c := &natsCall{subject: t.prefix + ".worker." + worker, ended: ended}
	if id, begun := t.beginCall(ctx, c); begun {
		f := frame{kind: kindRequest, id: id, total: len(request), payload: request}
		if err := t.publishFrame(c.subject, t.inboxOf(id), &f); err != nil {
			c.finishCall(nil, err)
		}
	}
	return true
}

// beginCall registers a call with a number, and reports whether it has begun: not if its context
// has ended, or the transport is closed.
func (t *NATS) beginCall(ctx context.Context, c *natsCall) (id uint64, begun bool) {
	id = t.next.Add(1)
	ended := c.ended
	c.ended = func(reply []byte, err error) {
		t.forget(id)
		ended(reply, err)
	}
	late := func() { c.finishCall(nil, timedOut(ctx, c.subject)) }
	c.stop = context.AfterFunc(ctx, late)
	t.mu.Lock()
	closed := t.closed
	t.calls[id] = c
	t.mu.Unlock()
	switch {
	case closed != nil:
		c.finishCall(nil, closed)
	case ctx.Err() != nil:
		late()
	default:
		return id, true
	}
	t.forget(id) // if it had already ended
	return id, false
}

// piece returns the most bytes of a frame, without its header.
func (t *NATS) piece() int { return int(t.link.piece.Load()) }

// publish sends a message without waiting.
func (t *NATS) publish(subject, reply string, data []byte) error {
	return unavailable(subject, t.link.publish(&nats.Msg{Subject: subject, Reply: reply, Data: data}))
}

func (t *NATS) publishFrame(subject, reply string, f *frame) error {
	buffer := newBuffer(frameHeader + len(f.payload))
	defer reuse(buffer)
	return t.publish(subject, reply, f.append(buffer))
}

// unavailable wraps an error of sending, or returns nil.
func unavailable(subject string, err error) error {
	switch {
	case err == nil || errors.Is(err, ErrUnavailable):
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, subject, err)
}

// inboxOf returns the subject of the reply to a call.
func (t *NATS) inboxOf(id uint64) string { return t.inbox + strconv.FormatUint(id, 36) }

// forget removes a call: later messages for it are dropped.
func (t *NATS) forget(id uint64) {
	t.mu.Lock()
	c := t.calls[id]
	delete(t.calls, id)
	t.mu.Unlock()
	if c != nil {
		c.stop()
	}
}

// receive handles the messages to the inbox, one at a time: replies, acknowledgements, and reports
// that nobody listens.
func (t *NATS) receive(m *nats.Msg) {
	id, err := strconv.ParseUint(m.Subject[len(t.inbox):], 36, 64)
	if err != nil {
		return
	}
	t.mu.Lock()
	c := t.calls[id]
	t.mu.Unlock()
	if c == nil {
		return // nobody waits for it any more
	}
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		c.finishCall(nil, fail(errNobody, "nobody listens at %s", c.subject))
		return
	}
	f, err := decodeFrame(m.Data, t.most)
	switch {
	case err != nil:
		c.finishCall(nil, err)
	case f.id != id:
		c.finishCall(nil, fail(ErrProtocol, "the reply to call %x names call %x", id, f.id))
	case f.kind == kindAckRequest:
		c.flow.acknowledge(f.offset)
	case f.kind == kindRefusal:
		c.finishCall(nil, fail(ErrLimit, "%s: %.200q", c.subject, f.payload))
	case f.kind == kindName:
		c.finishCall(f.payload, nil)
	case f.kind == kindReply:
		t.receiveReply(c, &f)
	}
}

func (t *NATS) receiveReply(c *natsCall, f *frame) {
	complete, err := c.in.add(f)
	if err != nil || complete {
		t.forget(f.id) // late pieces must not be written to memory that the caller owns
		c.finishCall(c.in.data, err)
	}
	if err == nil && len(f.payload) < f.total { // the worker waits for it
		ack := frame{kind: kindAckReply, id: f.id, total: f.total, offset: len(c.in.data)}
		_ = t.publishFrame(c.subject, t.inboxOf(f.id), &ack)
	}
}

// flow counts the acknowledged bytes of a message of several pieces.
type flow struct {
	bytes   *atomic.Int64
	changed chan struct{}
}

func newFlow() flow { return flow{new(atomic.Int64), make(chan struct{}, 1)} }

func (f *flow) acknowledge(bytes int) {
	if f.bytes == nil {
		return
	}
	f.bytes.Store(int64(bytes))
	wake(f.changed)
}

// send sends a message in pieces, at most a window ahead of the receiver's acknowledgements, until
// done is closed. f holds the fields that all pieces share.
func (t *NATS) send(ctx context.Context, done <-chan struct{}, subject, reply string, f frame,
	message []byte, ack *flow) error {
	f.total = len(message)
	size := t.piece()
	buffer := newBuffer(frameHeader + min(len(message), size))
	defer reuse(buffer)
	var timer *time.Timer
	for at := 0; ; {
		f.offset, f.payload = at, message[at:min(at+size, len(message))]
		m := nats.Msg{Subject: subject, Reply: reply, Data: f.append(buffer)}
		if err := t.link.publishNext(ctx, done, &m); err != nil {
			return unavailable(subject, err)
		}
		if at += len(f.payload); at == len(message) {
			return nil
		}
		for at-int(ack.bytes.Load()) > windowSize-size {
			if timer == nil {
				timer = time.NewTimer(ackPatience)
				defer timer.Stop()
			}
			timer.Reset(ackPatience)
			select {
			case <-ack.changed:
			case <-done:
				return nil
			case <-ctx.Done():
				return timedOut(ctx, subject)
			case <-timer.C:
				return fail(ErrUnavailable, "%s has taken %d of %d bytes for %v", subject,
					ack.bytes.Load(), len(message), ackPatience)
			}
		}
	}
}

// Watch implements [Transport].
func (t *NATS) Watch(visit func(status []byte)) (stop func(), err error) {
	s, err := t.subscribe(t.prefix+".status", fewBytes, func(m *nats.Msg) { visit(m.Data) })
	if err != nil {
		return nil, err
	}
	hello := func() { _ = t.publish(t.prefix+".hello", "", nil) } // or workers are heard of later
	forget := t.link.whenBack(hello)
	hello()
	return func() {
		forget()
		t.link.unsubscribe(s)
	}, nil
}

// newToken returns a random part of a subject, which nobody can guess.
func newToken() string {
	var x [16]byte
	_, _ = rand.Read(x[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(x[:])
}

// checkName verifies that a name can be part of a subject.
func checkName(what, name string) error {
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' ||
			r == '_') {
			return fail(attn.ErrOption, "%s is %.80q, want letters, digits, - and _", what, name)
		}
	}
	if len(name) == 0 || len(name) > 64 {
		return fail(attn.ErrOption, "%s has %d characters, want 1 to 64", what, len(name))
	}
	return nil
}
