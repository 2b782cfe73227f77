package cluster

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster/embedded"
)

// asking starts a worker without a network, and returns what asks it.
func asking(t *testing.T, c WorkerConfig) (*Worker, *loop, func(request []byte) error) {
	t.Helper()
	l := new(loop)
	c.Name, c.Threads = "w", 1
	w, err := NewWorker(l, c)
	must(t, err)
	t.Cleanup(w.Close)
	return w, l, func(request []byte) error {
		reply, _ := l.Call(context.Background(), "w", request)
		_, err := outcomes(request, reply)
		return err
	}
}

// Requests, states and replies that a worker has at the same time are bounded, and what is alone is
// always taken.
func TestInFlight(t *testing.T) {
	w, l, ask := asking(t, WorkerConfig{Memory: 1 << 24, InFlight: 600})
	id := clientID{1}
	for _, request := range lifeOfACopy(id, 1) {
		must(t, ask(request)) // some of them are larger than that, or their states
	}
	sent, resume := make(chan struct{}), make(chan struct{})
	go l.Handle(encodeRequest(opStatus, id, nothing{}), func([]byte) {
		close(sent)
		<-resume
	})
	<-sent
	large := (&appendRequest{copy: 1, position: 2, pieces: []tokenPiece{{tokens: 20,
		k: make([]byte, 320), v: make([]byte, 320)}}}).encode(id)
	refusal{ErrBusy, "want at most 600"}.check(t, "an append beside a reply", ask(large))
	rows := (&attendRequest{heads: 1, rows: 20, q: make([]float32, 80),
		groups: apart(attendPart{copy: 1, keys: 2})}).encode(id)
	w.flight.limit = int64(len(rows)) + 4*80 + partCost + groupCost + stepCost + 300 // of it
	refusal{ErrBusy, "and 480 more are wanted"}.check(t, "states beside a reply", ask(rows))
	w.flight.limit = 600
	read := (&readRequest{copy: 1}).encode(id)
	refusal{ErrBusy, "more are wanted"}.check(t, "a run beside a reply", ask(read))
	must(t, ask((&releaseRequest{}).encode(id)))
	close(resume)
	for w.Status().Running > 0 {
		time.Sleep(time.Millisecond)
	}
	must(t, ask(large))
	must(t, ask(rows))
	must(t, ask(read))
	if w.flight.bytes != 0 {
		t.Errorf("%d bytes are counted when nothing is there", w.flight.bytes)
	}
}

// What is made of a request is bounded for who is alone, too.
func TestMadeOfARequest(t *testing.T) {
	w, _, ask := asking(t, WorkerConfig{Memory: 1 << 24, InFlight: 1})
	id := clientID{1}
	for _, request := range lifeOfACopy(id, 1) {
		must(t, ask(request))
	}
	for name, request := range map[string][]byte{
		"lengths": (&truncateRequest{1, 1, 0, make([]uint32, leastMade/4+1)}).encode(id),
		"queries": (&attendRequest{heads: 1, rows: 1, q: make([]float32, leastMade/4+1)}).encode(id),
		"parts": (&attendRequest{heads: 1, rows: 1, q: make([]float32, 4),
			groups: apart(slices.Repeat([]attendPart{{copy: 1, keys: 2}},
				leastMade/(partCost+groupCost)+1)...)}).encode(id),
		"states": (&attendRequest{heads: 1, rows: 1, q: make([]float32, 4),
			groups: apart(slices.Repeat([]attendPart{{copy: 1, keys: 2}},
				leastMade/(partCost+groupCost+stateCost)+9)...)}).encode(id),
		"a mask": (&attendRequest{heads: 1, rows: 1024, q: make([]float32, 1024),
			pairs: pairHeads{mask: 1}, groups: apart(attendPart{copy: 1, keys: 20000,
				mask: make([]bool, 20000*1024)})}).encode(id),
	} {
		refusal{ErrLimit, "more, want at most 16777216 in all"}.check(t, name, ask(request))
	}
	if w.flight.bytes != 0 {
		t.Errorf("%d bytes are counted when nothing is there", w.flight.bytes)
	}
	must(t, ask(lifeOfACopy(id, 1)[2]))
}

// Clients, copies, layers and names of copies have limits, and what is refused leaves nothing.
func TestCountedLimits(t *testing.T) {
	w, _, ask := asking(t, WorkerConfig{Memory: 1 << 24, Clients: 2, Copies: 3})
	create := func(client byte, copy uint64, layers int) error {
		return ask((&createRequest{copy: copy, sequence: copy, tokens: 1024, lease: 60000,
			shape: shape{layers, 1, 4, 4, attn.F32, attn.F32, false}}).encode(clientID{client}))
	}
	must(t, create(1, 1, 1))
	must(t, create(2, 1, 1<<16))
	refusal{ErrLimit, "2 clients are here, want at most 2"}.check(t, "a client", create(3, 1, 1))
	must(t, create(2, 2, 1))
	refusal{ErrLimit, "3 copies are here, want at most 3"}.check(t, "a copy", create(2, 3, 1))
	if w.Status().Clients != 2 {
		t.Errorf("%d clients are here, want 2", w.Status().Clients)
	}
	names := make([]uint64, 4)
	refusal{ErrLimit, "4 copies are named, want at most 3"}.check(t, "a renewal",
		ask((&renewRequest{1000, 3, names}).encode(clientID{1})))
	refusal{ErrLimit, "4 copies are named, want at most 3"}.check(t, "a release",
		ask((&releaseRequest{names}).encode(clientID{1})))
	must(t, ask((&renewRequest{1000, 3, names[:1]}).encode(clientID{3}))) // it has none
	if w.Status().Clients != 2 {
		t.Errorf("%d clients are here after a renewal of none, want 2", w.Status().Clients)
	}

	_, _, ask = asking(t, WorkerConfig{Memory: 1 << 24})
	for i := range uint64(maxLayers >> 16) {
		must(t, create(1, i, 1<<16))
	}
	refusal{ErrLimit, fmt.Sprintf("%d layers in all, and 1 more are wanted", maxLayers)}.check(t,
		"a layer", create(1, 99, 1))
}

// A worker that is asked for announcements all the time makes no more than a few.
func TestHellos(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, quick)
	link := b.dial()
	said, err := link.conn.SubscribeSync("attn.status")
	must(t, err)
	begin := time.Now()
	must(t, link.conn.Flush())
	for n := 0; n < 3 || time.Since(begin) < 300*time.Millisecond; {
		for range 100 {
			must(t, link.conn.Publish("attn.hello", nil))
		}
		must(t, link.conn.Flush())
		n, _, err = said.Pending()
		must(t, err)
	}
	time.Sleep(2 * helloPause)
	n, _, err := said.Pending()
	must(t, err)
	if most := int(time.Since(begin)/helloPause) + 8; n > most {
		t.Errorf("%d announcements were made, want at most %d", n, most)
	}
}

// The server keeps the connections and subscriptions of a tenant's account to their limits, and the
// error names which it is.
func TestLimitsOfAccounts(t *testing.T) {
	t.Parallel()
	s := benchOf(t, `accounts {
  a: { users: [ { user: a, password: a } ], limits: { max_connections: 3, max_subscriptions: 4 } }
  b: { users: [ { user: b, password: b } ] }
}`)
	dial := func(user string) (*NATS, error) {
		link, err := DialNATS(NATSConfig{URL: s.url, Options: []nats.Option{
			nats.UserInfo(user, user), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}})
		if err == nil {
			t.Cleanup(func() { _ = link.Close() })
		}
		return link, err
	}
	link, err := dial("a")
	must(t, err)
	w, err := NewWorker(link, WorkerConfig{Name: "w", Memory: 1 << 24, Threads: 1})
	must(t, err)
	defer w.Close()
	must(t, link.conn.Flush())
	link, err = dial("a")
	must(t, err)
	_, err = link.Call(context.Background(), "w", encodeRequest(opStatus, clientID{}, nothing{}))
	must(t, err)
	full, err := dial("a")
	must(t, err)
	for range 4 { // it has one for replies
		_, err := full.Watch(func([]byte) {})
		must(t, err)
	}
	must(t, full.conn.Flush())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for err == nil { // what the server has sent is noted soon, by another goroutine
		_, err = full.Call(ctx, "w", encodeRequest(opStatus, clientID{}, nothing{}))
	}
	refusal{ErrLimit, "maximum subscriptions exceeded"}.check(t, "a subscription", err)
	if ctx.Err() != nil {
		t.Error("the call did not end before its time")
	}
	_, err = dial("a")
	refusal{ErrUnavailable, "maximum account active connections exceeded"}.check(t,
		"a connection", err)
	_, err = dial("b")
	must(t, err) // another tenant is not bound by it
	_, err = link.Call(context.Background(), "w", encodeRequest(opStatus, clientID{}, nothing{}))
	must(t, err)
}

// A connection whose other end does not read is closed when too much waits for it, or when a write
// lasts too long, and other connections work on.
func TestUnreadIsBounded(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]server.Options{
		"max_pending":    {MaxPending: 1 << 20, WriteDeadline: time.Hour},
		"write_deadline": {MaxPending: 1 << 30, WriteDeadline: 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := embedded.Start(&o)
			must(t, err)
			defer embedded.Stop(s)
			link, err := DialNATS(NATSConfig{URL: s.ClientURL()})
			must(t, err)
			defer func() { _ = link.Close() }()
			w, err := NewWorker(link, WorkerConfig{Name: "w", Memory: 1 << 24, Threads: 1})
			must(t, err)
			defer w.Close()
			deaf, err := net.Dial("tcp", s.Addr().String())
			must(t, err)
			defer func() { _ = deaf.Close() }()
			_, err = deaf.Write([]byte("CONNECT {\"verbose\":false}\r\nSUB attn.inbox.x 1\r\n"))
			must(t, err)
			b, sent := &bench{TB: t}, int64(0)
			b.eventually("who does not read is given up", func() bool {
				for range 16 {
					must(t, link.conn.Publish("attn.inbox.x", make([]byte, pieceSize)))
					sent += pieceSize
				}
				must(t, link.conn.Flush())
				return s.NumSlowConsumers() > 0
			})
			if kept := sent - 64<<20; kept > o.MaxPending { // the system keeps less than 64 MiB
				t.Errorf("%d bytes were kept, want at most %d", kept, o.MaxPending)
			}
			_, err = link.Call(context.Background(), "w", encodeRequest(opStatus, clientID{}, nothing{}))
			must(t, err)
			must(t, deaf.Close())
			b.eventually("its connection has ended", func() bool { return s.NumClients() == 1 })
		})
	}
}

// A client whose messages would exceed its transport's limit is refused, with the two numbers that
// do not fit; without a number it chooses one that fits.
func TestChunkAndMessages(t *testing.T) {
	b := newBench(t, 2, patient)
	b.dials.MaxMessage = 1 << 20
	link := b.dial()
	_, err := NewClient(link, ClientConfig{Chunk: 1<<18 + 1})
	refusal{ErrLimit, "ClientConfig.Chunk is 262145, want at most 262144, a quarter of the " +
		"transport's largest message"}.check(t, "a chunk", err)
	for _, c := range []ClientConfig{{Segments: 1}, {Segments: 1, Chunk: 1 << 18}} {
		client, err := NewClient(link, c)
		must(t, err)
		must(t, client.Wait(t.Context(), 2))
		b.client = client
		x := b.twin(SequenceConfig{Layers: 1, KVHeads: 8, HeadDim: 64, ValueDim: 64}, 8)
		x.append(1500)
		x.attend(0, 200, bottomRight)
		client.Close()
	}
}
