package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-1415985d/attn/internal/flags"
)

const echoAbout = `attn-cluster echo

Part of bench: answers requests of any length with as many bytes as they ask for.

`

// echoHeader is the size of a request's header: its length after the header, and the length of the
// reply.
const echoHeader = 8

func echoCommand(ctx context.Context, args []string, stdout, _ io.Writer) error {
	var c connection
	fs := flags.New(echoAbout)
	c.register(fs)
	name := fs.String("name", "", "last `token` of the subject")
	if err := flags.ParseAll(fs, args, stdout); err != nil {
		return err
	}
	signal.Ignore(os.Interrupt) // of a terminal, which bench receives, too
	link, err := c.dial("attn-cluster echo")
	if err != nil {
		return err
	}
	defer func() { _ = link.Close() }() // never fails
	_, err = link.Conn().Subscribe(echoSubject(*name), func(m *nats.Msg) {
		if n, ok := echoLength(m.Data); ok {
			_ = m.Respond(make([]byte, n)) // if it fails, the client gets an error
		}
	})
	if err == nil {
		err = link.Conn().Flush()
	}
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	go echoTCP(listener)
	fmt.Fprintf(stdout, "echo at %s\n", listener.Addr())
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	select {
	case <-ctx.Done():
	case <-ended:
	}
	return nil
}

func echoSubject(name string) string { return "attn.bench." + name }

// echoLength returns the length of the reply that a request asks for.
func echoLength(request []byte) (n int, ok bool) {
	if len(request) < echoHeader {
		return 0, false
	}
	n = int(binary.LittleEndian.Uint32(request[4:]))
	return n, n <= 1<<20
}

// echoTCP answers all connections until the listener is closed.
func echoTCP(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = c.Close() }()
			r := bufio.NewReader(c)
			var header [echoHeader]byte
			for {
				if _, err := io.ReadFull(r, header[:]); err != nil {
					return
				}
				n, ok := echoLength(header[:])
				if _, err := io.CopyN(io.Discard, r, int64(binary.LittleEndian.Uint32(header[:]))); err !=
					nil || !ok {
					return
				}
				if _, err := c.Write(make([]byte, n)); err != nil {
					return
				}
			}
		}()
	}
}

// bare measures requests to processes that only answer.
type bare struct {
	conn     *nats.Conn
	tcp      []net.Conn
	children []*child
}

func startBare(l *local, processes int) (b *bare, err error) {
	b = &bare{conn: l.link.Conn()}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	for i := range processes {
		c, err := startChild("echo at", "echo", "-url", l.server.ClientURL(), "-name", fmt.Sprint(i))
		if err != nil {
			return nil, err
		}
		b.children = append(b.children, c)
		conn, err := net.Dial("tcp", strings.TrimPrefix(c.said[len(c.said)-1], "echo at "))
		if err != nil {
			return nil, err
		}
		b.tcp = append(b.tcp, conn)
	}
	return b, nil
}

func (b *bare) close() {
	for _, c := range b.tcp {
		_ = c.Close()
	}
	for _, c := range b.children {
		c.end()
	}
}

// echoRequest returns a request of a length, header included.
func echoRequest(sent, received int) []byte {
	request := make([]byte, max(sent, echoHeader))
	binary.LittleEndian.PutUint32(request, uint32(len(request)-echoHeader))
	binary.LittleEndian.PutUint32(request[4:], uint32(received))
	return request
}

// overNATS measures asking all processes at the same time.
func (b *bare) overNATS(sent, received int) (time.Duration, error) {
	request, errs := echoRequest(sent, received), make(chan error)
	start := time.Now()
	for i := range b.tcp {
		go func() {
			reply, err := b.conn.Request(echoSubject(fmt.Sprint(i)), request, 10*time.Second)
			if err == nil && len(reply.Data) != received {
				err = fmt.Errorf("a reply has %d bytes, want %d", len(reply.Data), received)
			}
			errs <- err
		}()
	}
	var err error
	for range b.tcp {
		err = errors.Join(err, <-errs)
	}
	return time.Since(start), err
}

// overTCP is overNATS over TCP connections to each.
func (b *bare) overTCP(sent, received int) (time.Duration, error) {
	request, reply := echoRequest(sent, received), make([]byte, received)
	start := time.Now()
	for _, c := range b.tcp {
		if _, err := c.Write(request); err != nil {
			return 0, err
		}
	}
	for _, c := range b.tcp {
		if _, err := io.ReadFull(c, reply); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}
