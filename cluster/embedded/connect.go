package embedded

import (
	"errors"
	"io"
	"net"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Connect connects a client of this process to a server without the network, and so without TLS. As
// over a network, the client reads the server's reason before the server ends a connection, such as
// an unknown user: a plain [nats.InProcessServer] waits 10 seconds then, and loses the reason.
func Connect(s *server.Server) nats.Option { return nats.InProcessServer(within{s}) }

type within struct{ *server.Server }

// InProcessConn is the client's end of a connection.
func (w within) InProcessConn() (net.Conn, error) {
	c, err := w.Server.InProcessConn()
	if err != nil {
		return nil, err
	}
	b := &buffered{Conn: c}
	b.changed.L = &b.mu
	go b.fill()
	return b, nil
}

// mostUnread is the number of bytes that may wait for the client before the server waits.
const mostUnread = 1 << 20

// buffered is a connection whose other end need not wait for reads, nor read all that was written.
type buffered struct {
	net.Conn
	mu      sync.Mutex
	changed sync.Cond
	unread  []byte
	err     error // after what is unread
	closed  bool
}

// fill reads until the connection ends.
func (b *buffered) fill() {
	piece := make([]byte, 64<<10)
	for {
		n, err := b.Conn.Read(piece)
		b.mu.Lock()
		b.unread, b.err = append(b.unread, piece[:n]...), err
		b.changed.Broadcast()
		for len(b.unread) > mostUnread && !b.closed {
			b.changed.Wait()
		}
		b.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Read implements [net.Conn]. Deadlines belong to the connection below.
func (b *buffered) Read(to []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.unread) == 0 && b.err == nil {
		b.changed.Wait()
	}
	if len(b.unread) == 0 {
		return 0, b.err
	}
	n = copy(to, b.unread)
	if b.unread = b.unread[n:]; len(b.unread) == 0 {
		b.unread = nil
	}
	b.changed.Broadcast()
	return n, nil
}

// Write implements [net.Conn]. Bytes that the other end does not read any more are lost, as in a
// network; the next reads return the reason.
func (b *buffered) Write(from []byte) (n int, err error) {
	n, err = b.Conn.Write(from)
	if errors.Is(err, io.ErrClosedPipe) {
		return len(from), nil
	}
	return n, err
}

// Close implements [net.Conn].
func (b *buffered) Close() error {
	b.mu.Lock()
	b.closed = true
	b.changed.Broadcast()
	b.mu.Unlock()
	return b.Conn.Close()
}
