package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// An asker calls back once, whatever a call ends with, and forgets it then.
func TestAsk(t *testing.T) {
	b := newBench(t, 1, quick)
	status := encodeRequest(opStatus, clientID{1}, nothing{})
	deaf, err := b.dial().conn.SubscribeSync("attn.worker.deaf")
	must(t, err)
	must(t, b.dial().conn.Flush())
	defer func() { _ = deaf.Unsubscribe() }()
	for name, c := range map[string]struct {
		worker string
		end    func(link *NATS, cancel func())
		want   error
	}{
		"an answer":      {worker: "w0"},
		"nobody":         {worker: "nobody", want: errNobody},
		"end of context": {"deaf", func(_ *NATS, cancel func()) { cancel() }, context.Canceled},
		"close":          {"deaf", func(link *NATS, _ func()) { must(t, link.Close()) }, ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			link := b.dial()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			ends := make(chan error, 2)
			if !link.ask(ctx, c.worker, status, func(reply []byte, err error) {
				if (len(reply) > 0) != (err == nil) {
					err = fmt.Errorf("%d bytes and %v", len(reply), err)
				}
				ends <- err
			}) {
				t.Fatal("a request of one piece is not taken")
			}
			if c.end != nil {
				c.end(link, cancel)
			}
			if err := <-ends; !errors.Is(err, c.want) {
				t.Errorf("the call ends with %v, want %v", err, c.want)
			}
			cancel()
			_ = link.Close()
			time.Sleep(time.Millisecond)
			if len(ends) > 0 || len(link.calls) > 0 {
				t.Errorf("%d more ends, %d calls are known, want none", len(ends), len(link.calls))
			}
		})
	}
}

// What an asker does not begin, it leaves to Call.
func TestAskNot(t *testing.T) {
	b := newBench(t, 0, quick)
	ctx, link := context.Background(), b.dial()
	never := func([]byte, error) { t.Error("a call has ended that has not begun") }
	if link.ask(ctx, "w", make([]byte, link.piece()+1), never) || link.ask(ctx, "a b", nil, never) {
		t.Error("a call has begun of several pieces, or to no name")
	}
	must(t, link.Close())
	if link.ask(ctx, "w", nil, never) {
		t.Error("a call has begun over a transport that is closed")
	}
}

// A call over a connection that is closed ends at once, with that as its error.
func TestAskWithoutConnection(t *testing.T) {
	link := newBench(t, 0, quick).dial()
	link.conn.Close()
	var got error
	if !link.ask(context.Background(), "w", nil, func(_ []byte, err error) { got = err }) {
		_, got = link.Call(context.Background(), "w", nil) // it is known to be closed already
	}
	if !errors.Is(got, ErrUnavailable) {
		t.Errorf("the call ends with %v, want %v", got, ErrUnavailable)
	}
}

// A context that has ended before a call begins ends it.
func TestAskTooLate(t *testing.T) {
	link := newBench(t, 0, quick).dial()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ends := make(chan error, 2)
	link.ask(ctx, "w", nil, func(_ []byte, err error) { ends <- err })
	if err := <-ends; err == nil {
		t.Error("the call ends without an error")
	}
}
