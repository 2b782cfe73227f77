package cluster

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// natsWire is the network below a NATS connection. A write that the other end does not take at once
// is kept and written by another goroutine: package nats holds its lock while it writes, and
// everything else that anybody does with the connection, closing it included, waits for that. Who
// sends much looks at how much waits, and waits itself, with a context.
type natsWire struct {
	net.Conn
	link *natsLink

	timed atomic.Bool // reads have a deadline, as those by which a connection begins
	began bool        // those of an established connection have begun: of the reader
	over  bool        // and it has ended: of the link

	bytes atomic.Int64  // that are kept
	room  chan struct{} // has an element when they have become fewer than mostKept
	ended chan struct{} // closed when nothing is written any more

	mu      sync.Mutex
	kept    []byte
	writing bool // a goroutine does
	err     error
}

const (
	// mostKept is how many bytes may wait for the network before those that send much wait, too.
	mostKept = 1 << 20
	// writePatience is how long a write may take before what is left of it is kept.
	writePatience = time.Millisecond
)

func newNATSWire(c net.Conn, link *natsLink) *natsWire {
	return &natsWire{Conn: c, link: link, room: make(chan struct{}, 1), ended: make(chan struct{})}
}

// crowded reports whether so much waits for the network that who sends much is to wait, too.
func (w *natsWire) crowded() bool { return w.bytes.Load() >= mostKept }

// drain waits until nothing waits for the network, for a time.
func (w *natsWire) drain(longest time.Duration) {
	late := time.NewTimer(longest)
	defer late.Stop()
	for w.bytes.Load() > 0 {
		select {
		case <-w.ended:
			return
		case <-late.C:
			return
		case <-time.After(writePatience):
		}
	}
}

// Read is that of [net.Conn]. It tells the link when an established connection begins, which is
// read without a deadline, and when it ends, before that is known to package nats.
func (w *natsWire) Read(p []byte) (int, error) {
	if !w.began && !w.timed.Load() {
		w.began = true
		w.link.begins(w)
	}
	n, err := w.Conn.Read(p)
	if err != nil && w.began {
		w.link.ends(w, err)
	}
	return n, err
}

// Write is that of [net.Conn], but takes all that it is given within a moment.
func (w *natsWire) Write(p []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	if !w.writing {
		_ = w.Conn.SetWriteDeadline(time.Now().Add(writePatience)) // or else the write says why not
		n, err = w.Conn.Write(p)
		if n == len(p) {
			return n, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			w.fail(err)
			return n, err
		}
		_ = w.Conn.SetWriteDeadline(time.Time{})
		w.writing = true
		go w.writeKept()
	}
	w.kept = append(w.kept, p[n:]...)
	w.bytes.Add(int64(len(p) - n))
	return len(p), nil
}

// writeKept writes what is kept until nothing is.
func (w *natsWire) writeKept() {
	for {
		w.mu.Lock()
		some := w.kept
		w.kept = nil
		w.writing = len(some) > 0 && w.err == nil
		if !w.writing {
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		for len(some) > 0 {
			n, err := w.Conn.Write(some[:min(len(some), 64<<10)])
			some = some[n:]
			if w.bytes.Add(-int64(n)); !w.crowded() {
				wake(w.room)
			}
			if err != nil {
				locked(&w.mu, func() { w.fail(err) })
				break
			}
		}
	}
}

// fail ends the connection. The lock is held.
func (w *natsWire) fail(err error) {
	if w.err == nil {
		w.err = err
		close(w.ended)
		_ = w.Conn.Close() // so reads end
	}
}

// Close is that of [net.Conn].
func (w *natsWire) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail(net.ErrClosed)
	return nil
}

// SetDeadline is that of [net.Conn], for reads: writes need none.
func (w *natsWire) SetDeadline(t time.Time) error { return w.SetReadDeadline(t) }

// SetReadDeadline is that of [net.Conn].
func (w *natsWire) SetReadDeadline(t time.Time) error {
	w.timed.Store(!t.IsZero())
	return w.Conn.SetReadDeadline(t)
}

// SetWriteDeadline does nothing.
func (w *natsWire) SetWriteDeadline(time.Time) error { return nil }
