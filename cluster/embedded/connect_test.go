package embedded_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-1415985d/attn/cluster/embedded"
)

func start(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	s, err := embedded.Start(&o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { embedded.Stop(s) })
	return s
}

// More than the connection buffers comes in order, whatever the reader does, and what was written
// before the end arrives.
func TestConnect(t *testing.T) {
	s := start(t, server.Options{})
	c, err := nats.Connect("nats://here", embedded.Connect(s))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sub, err := c.SubscribeSync("a")
	if err != nil {
		t.Fatal(err)
	}
	const messages = 64
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<15)
	for range messages {
		if err := c.Publish("a", want); err != nil {
			t.Fatal(err)
		}
	}
	for i := range messages {
		m, err := sub.NextMsg(10 * time.Second)
		if err != nil || !bytes.Equal(m.Data, want) {
			t.Fatalf("message %d: %v, or other bytes", i, err)
		}
	}
}

// A reader that does nothing makes the server wait, and a connection that is closed then ends.
func TestConnectIsBounded(t *testing.T) {
	s := start(t, server.Options{WriteDeadline: time.Minute})
	var o nats.Options
	if err := embedded.Connect(s)(&o); err != nil {
		t.Fatal(err)
	}
	link, err := o.InProcessServer.InProcessConn()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := link.Write([]byte("CONNECT {\"verbose\":false}\r\nSUB a 1\r\n")); err != nil {
		t.Fatal(err)
	}
	c, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 16 {
		if err := errors.Join(c.Publish("a", make([]byte, 1<<18)), c.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	if err := link.Close(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if s.NumClients() == 1 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d clients are there, want 1", s.NumClients())
}

// A server that refuses a client says so at once.
func TestConnectRefused(t *testing.T) {
	s := start(t, server.Options{Username: "me", Password: "x"})
	begin := time.Now()
	_, err := nats.Connect("nats://me:y@here", embedded.Connect(s))
	if took := time.Since(begin); !errors.Is(err, nats.ErrAuthorization) || took > 5*time.Second {
		t.Errorf("the error is %v after %v, want ErrAuthorization at once", err, took)
	}
	embedded.Stop(s)
	if _, err := nats.Connect("nats://here", embedded.Connect(s)); err == nil {
		t.Error("a server that has ended takes connections")
	}
}
