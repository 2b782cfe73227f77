package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// natsLink knows whether there is a connection to a server, and publishes messages through it.
// Without a connection nothing is published, and calls end with an error, because messages that are
// sent later would be stale.
//
// Package nats holds its lock while it connects, for seconds if a server hangs, and publishing
// needs that lock. So nobody may publish then. Package nats makes another connection only after the
// reader of the last one has ended, and the reader ends only when nobody publishes any more.
type natsLink struct {
	theirs nats.Options // of the user of the connection
	lost   func(error)  // ends calls

	conn     *nats.Conn
	assigned chan struct{} // closed when conn is set
	ctx      context.Context
	cancel   context.CancelFunc
	wire     atomic.Pointer[natsWire] // the last one
	piece    atomic.Int64             // bytes of a piece of a message, without its header
	turn     chan struct{}            // has an element while a goroutine sends a piece, or waits to

	gate  sync.RWMutex // shared by goroutines that publish
	up    *natsWire    // nil if there is no connection
	once  bool         // there was a connection
	ended time.Time    // when and why the last one ended,
	cause error
	again time.Time // and when there was one again

	mu     sync.Mutex
	backID int
	back   map[int]func() // called when there is a connection again
}

// errNoLink: there is no connection to a server.
var errNoLink = fmt.Errorf("%w: there is no connection to the server", ErrUnavailable)

// newNATSLink returns a link, and makes options connect through it.
func newNATSLink(o *nats.Options, lost func(error)) *natsLink {
	l := &natsLink{theirs: *o, lost: lost, assigned: make(chan struct{}), ended: time.Now(),
		turn: make(chan struct{}, 1), back: map[int]func(){}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.piece.Store(pieceSize) // until it is connected: the default limit of servers is 1 MiB
	o.FlusherTimeout = 0     // writes do not wait
	o.CustomDialer = l
	if o.InProcessServer != nil {
		o.InProcessServer = l
	}
	o.DisconnectedErrCB = func(c *nats.Conn, err error) {
		l.explain(err)
		if f := l.theirs.DisconnectedErrCB; f != nil {
			f(c, err)
		} else if f := l.theirs.DisconnectedCB; f != nil {
			f(c)
		}
	}
	return l
}

// connect connects with the link's options.
func (l *natsLink) connect(o *nats.Options) (err error) {
	if l.conn, err = o.Connect(); err != nil {
		l.cancel()
		return err
	}
	close(l.assigned)
	return nil
}

// waitForServer waits until messages can be sent over the connection, if there is one.
func (l *natsLink) waitForServer() error {
	if !l.conn.IsConnected() {
		return nil
	}
	if err := l.conn.Flush(); err != nil {
		return err
	}
	if most := l.conn.MaxPayload(); most < leastPayload {
		return fail(ErrLimit, "the server takes messages of at most %d bytes of this account, want a "+
			"max_payload of at least %d", most, leastPayload)
	}
	l.raise(l.wire.Load())
	return nil
}

// leastPayload is the smallest allowed limit of messages: announcements and refusals are a single
// message.
const leastPayload = 4 << 10

// Dial implements [nats.CustomDialer].
func (l *natsLink) Dial(network, address string) (net.Conn, error) {
	if d := l.theirs.CustomDialer; d != nil {
		return l.wired(d.Dial(network, address))
	}
	d := net.Dialer{Timeout: l.theirs.Timeout}
	if l.theirs.Dialer != nil {
		d = *l.theirs.Dialer
	}
	return l.wired(d.DialContext(l.ctx, network, address))
}

// SkipTLSHandshake asks the dialer of the options.
func (l *natsLink) SkipTLSHandshake() bool {
	d, ok := l.theirs.CustomDialer.(interface{ SkipTLSHandshake() bool })
	return ok && d.SkipTLSHandshake()
}

// InProcessConn implements [nats.InProcessConnProvider].
func (l *natsLink) InProcessConn() (net.Conn, error) {
	return l.wired(l.theirs.InProcessServer.InProcessConn())
}

// wired returns the network of the next connection, which replaces the last one.
func (l *natsLink) wired(c net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	w := newNATSWire(c, l)
	if last := l.wire.Swap(w); last != nil {
		_ = last.Close() // package nats does not close a connection that was not established
	}
	if l.ctx.Err() != nil {
		_ = w.Close()
	}
	return w, nil
}

// begins is called by the reader of a connection when that is established.
func (l *natsLink) begins(w *natsWire) {
	go func() {
		select {
		case <-l.assigned:
		case <-l.ctx.Done():
			return
		}
		if l.conn.Flush() == nil { // the server's limits have arrived
			l.raise(w)
		}
	}()
}

// raise enables sending over a connection, unless it is enabled already or has ended.
func (l *natsLink) raise(w *natsWire) {
	l.piece.Store(min(max(l.conn.MaxPayload(), leastPayload)-frameHeader, pieceSize))
	l.gate.Lock()
	if w.over || l.up == w {
		l.gate.Unlock()
		return
	}
	first := !l.once
	if l.up, l.once = w, true; !first {
		l.again = time.Now()
	}
	l.gate.Unlock()
	if first {
		return
	}
	l.mu.Lock()
	all := slices.Collect(maps.Values(l.back))
	l.mu.Unlock()
	for _, f := range all {
		f()
	}
}

// ends is called by the reader of a connection when that has ended.
func (l *natsLink) ends(w *natsWire, err error) {
	l.gate.Lock()
	w.over = true
	fell := l.up == w
	if fell {
		l.up, l.ended, l.cause = nil, time.Now(), err
	}
	l.gate.Unlock()
	if fell {
		l.lost(fail(errNoLink, "it has ended: %s", Redact(err.Error())))
	}
}

// explain records why a connection has ended, which package nats knows better than the reader.
func (l *natsLink) explain(err error) {
	if errors.Is(err, nats.ErrStaleConnection) {
		err = fmt.Errorf("the server has not answered pings: %w", err)
	}
	l.gate.Lock()
	defer l.gate.Unlock()
	if l.up == nil && err != nil {
		l.cause = err
	}
}

// whenBack calls f whenever there is a connection again, until stop is called.
func (l *natsLink) whenBack(f func()) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backID++
	id := l.backID
	l.back[id] = f
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.back, id)
	}
}

// publish sends a message if there is a connection, without waiting.
func (l *natsLink) publish(m *nats.Msg) error {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.up != nil {
		return l.conn.PublishMsg(m)
	}
	away := time.Since(l.ended).Round(time.Millisecond)
	if l.cause == nil {
		return fail(errNoLink, "for %v", away)
	}
	return fail(errNoLink, "for %v, since: %s", away, Redact(l.cause.Error()))
}

// publishNext sends a message when the server has read enough earlier ones. Waiting ends with the
// context, or when done is closed.
func (l *natsLink) publishNext(ctx context.Context, done <-chan struct{}, m *nats.Msg) error {
	select {
	case l.turn <- struct{}{}:
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.turn }()
	for w := l.wire.Load(); w != nil && w.crowded(); {
		select {
		case <-w.room:
		case <-w.ended:
			return l.publish(m)
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return l.publish(m)
}

// unsubscribe ends subscriptions; later, if there is no connection.
func (l *natsLink) unsubscribe(all ...*nats.Subscription) {
	end := func() {
		for _, s := range all {
			_ = s.Unsubscribe() // fails only if the connection is closed
		}
	}
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.up == nil {
		go end()
		return
	}
	end()
}

// outage returns how long there has been no connection, 0 if there is one, and when the last outage
// ended.
func (l *natsLink) outage() (away time.Duration, again time.Time) {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.up == nil {
		away = max(1, time.Since(l.ended))
	}
	return away, l.again
}

// close ends the connection, after a moment for sending waiting messages.
func (l *natsLink) close() {
	l.gate.RLock()
	up := l.up
	l.gate.RUnlock()
	l.cancel()
	if w := l.wire.Load(); up != nil {
		up.drain(closePatience)
	} else if w != nil {
		_ = w.Close() // otherwise package nats might wait for it
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		l.conn.Close()
	}()
	select {
	case <-closed:
	case <-time.After(closePatience): // a name lookup or a custom dialer waits
	}
}

// closePatience bounds the time for sending waiting bytes when a connection is closed.
const closePatience = time.Second
