package cluster

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// natsWire is the network below a NATS connection. If the other end does not accept a write at
// once, another goroutine finishes it: package nats holds its lock while it writes, and every other
// operation on the connection, closing it included, waits for that lock. Senders of many bytes
// check how many wait, and wait themselves, with a context.
type natsWire struct {
	net.Conn
	link *natsLink

	timed atomic.Bool // reads have a deadline, as while a connection is made
	began bool        // the connection is established: only used by the reader
	over  bool        // and it has ended: only used by the link

	bytes atomic.Int64  // bytes that are kept
	room  chan struct{} // has an element when fewer than mostKept bytes are kept
	ended chan struct{} // closed when nothing is written any more

	mu      sync.Mutex
	kept    []byte
	writing bool // a goroutine writes kept bytes
	err     error
}

const (
	// mostKept is the number of waiting bytes from which large senders wait, too.
	mostKept = 1 << 20
	// writePatience bounds the time of a write before its rest is kept.
	writePatience = time.Millisecond
)

func newNATSWire(c net.Conn, link *natsLink) *natsWire {
	return &natsWire{Conn: c, link: link, room: make(chan struct{}, 1), ended: make(chan struct{})}
}

// crowded reports whether so many bytes wait that large senders must wait, too.
func (w *natsWire) crowded() bool { return w.bytes.Load() >= mostKept }

// drain waits until no bytes wait for the network, at most for longest.
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

// Read implements [net.Conn]. It tells the link when a connection is established, which is from the
// first read without a deadline, and when it has ended, before package nats knows.
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

// Write implements [net.Conn], but accepts all bytes within a moment.
func (w *natsWire) Write(p []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	if !w.writing {
		_ = w.Conn.SetWriteDeadline(time.Now().Add(writePatience)) // if it fails, so does the write
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

// writeKept writes kept bytes until there are none.
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
		_ = w.Conn.Close() // so that reads end
	}
}

// Close implements [net.Conn].
func (w *natsWire) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail(net.ErrClosed)
	return nil
}

// SetDeadline implements [net.Conn], for reads: writes need none.
func (w *natsWire) SetDeadline(t time.Time) error { return w.SetReadDeadline(t) }

// SetReadDeadline implements [net.Conn].
func (w *natsWire) SetReadDeadline(t time.Time) error {
	w.timed.Store(!t.IsZero())
	return w.Conn.SetReadDeadline(t)
}

// SetWriteDeadline does nothing.
func (w *natsWire) SetWriteDeadline(time.Time) error { return nil }
