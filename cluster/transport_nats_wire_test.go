package cluster

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// wirePair is a wire and its other end.
func wirePair(t *testing.T) (*natsWire, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = l.Close() }()
	near, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	far, err := l.Accept()
	must(t, err)
	w := newNATSWire(near, newNATSLink(new(nats.Options), func(error) {}))
	t.Cleanup(func() { _, _ = w.Close(), far.Close() })
	return w, far
}

// Much that the other end does not read is taken in moments, and comes in order when it reads.
func TestWire(t *testing.T) {
	w, far := wirePair(t)
	want := make([]byte, 32<<20)
	for i := range want {
		want[i] = byte(i >> 8 * 7)
	}
	for at := 0; at < len(want); at += pieceSize {
		ran := stopwatch()
		n, err := w.Write(want[at:][:pieceSize])
		if took := ran(); n != pieceSize || err != nil || took > time.Second {
			t.Fatalf("a write of %d bytes took %d: %v, after %v", pieceSize, n, err, took)
		}
	}
	if !w.crowded() {
		t.Errorf("%d bytes are kept, want at least %d", w.bytes.Load(), mostKept)
	}
	got := make([]byte, len(want))
	_, err := io.ReadFull(far, got)
	must(t, err)
	w.drain(time.Minute)
	if !bytes.Equal(got, want) || w.bytes.Load() != 0 {
		t.Errorf("other bytes have come, or %d are kept, want none", w.bytes.Load())
	}
	_, err = w.Write([]byte("more"))
	must(t, err)
	_, err = io.ReadFull(far, got[:4])
	must(t, err)
	if string(got[:4]) != "more" {
		t.Errorf("%q has come, want more", got[:4])
	}
}

// A wire that is closed, or whose other end is, accepts nothing more, whatever it still holds.
func TestWireEnds(t *testing.T) {
	for name, end := range map[string]func(near, far net.Conn) error{
		"here":  func(near, _ net.Conn) error { return near.Close() },
		"there": func(_, far net.Conn) error { return far.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			w, far := wirePair(t)
			_, err := w.Write(make([]byte, 32<<20))
			must(t, err)
			ran := stopwatch()
			must(t, end(w, far))
			<-w.ended
			if _, err := w.Write([]byte{1}); err == nil {
				t.Error("a write has no error")
			}
			if _, err := w.Read(make([]byte, 1)); err == nil {
				t.Error("a read has no error")
			}
			if took := ran(); took > time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// Calls that are running when the connection ends do so at once, with that as their error; so do
// those that come while there is none. When there is one again, workers are heard of at once.
func TestLinkEnds(t *testing.T) {
	b := newBench(t, 0, quick)
	link := b.dial()
	_, err := link.conn.SubscribeSync("attn.worker.deaf")
	must(t, err)
	ended, again := make(chan error, 1), make(chan struct{}, 1)
	defer link.link.whenBack(func() { wake(again) })()
	go func() {
		_, err := link.Call(t.Context(), "deaf", []byte{1})
		ended <- err
	}()
	b.eventually("the call is under way", func() bool {
		link.mu.Lock()
		defer link.mu.Unlock()
		return len(link.calls) > 0
	})
	if away, _ := link.link.outage(); away != 0 {
		t.Errorf("there is no connection for %v, want one", away)
	}
	must(t, link.link.wire.Load().Conn.Close())
	if err := <-ended; !errors.Is(err, errNoLink) {
		t.Errorf("the call ends with %v, want that there is no connection", err)
	}
	<-again
	if away, again := link.link.outage(); away != 0 || time.Since(again) > time.Minute {
		t.Errorf("there is no connection for %v, and again since %v", away, again)
	}
}

// What the server says of the account holds, not of all: its messages may be smaller.
func TestAccountsPayload(t *testing.T) {
	for _, c := range []struct {
		payload string
		piece   int
		want    string
	}{{"64KB", 64<<10 - frameHeader, ""}, {"1MB", pieceSize, ""}, {"2KB", 0,
		"the server takes messages of at most 2048 bytes of this account, want a max_payload of at " +
			"least 4096"}} {
		b := benchOf(t, `accounts { a: { users: [ { user: a, password: a } ],
			limits: { max_payload: `+c.payload+` } } }`)
		b.dials.Options = []nats.Option{nats.UserInfo("a", "a")}
		link, err := DialNATS(NATSConfig{URL: b.url, Options: b.dials.Options})
		if c.want != "" {
			refusal{ErrLimit, c.want}.check(t, c.payload, err)
			continue
		}
		must(t, err)
		if link.piece() != c.piece {
			t.Errorf("%s: a piece is %d bytes, want %d", c.payload, link.piece(), c.piece)
		}
		must(t, link.Close())
		b.start("w")
		b.client, err = NewClient(b.dial(), patient)
		must(t, err)
		must(t, b.client.Wait(t.Context(), 1))
		x := b.twin(SequenceConfig{Layers: 1, KVHeads: 4, HeadDim: 64, ValueDim: 64}, 4)
		x.append(1500)
		x.attend(0, 30, bottomRight)
		b.client.Close()
		b.kill("w")
	}
}
