package cluster

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-1415985d/attn/cluster/embedded"
)

// named starts a worker on a connection of its own.
func (b *bench) named(name string) (*Worker, *NATS, error) {
	link := b.dial()
	w, err := NewWorker(link, WorkerConfig{Name: name, Memory: 1 << 20, Threads: 1,
		Announce: 100 * time.Millisecond})
	if err == nil {
		b.Cleanup(w.Close)
	}
	return w, link, err
}

// The later of two workers of a name does not start, and says why. When the first has ended, the
// next one starts.
func TestNameIsTaken(t *testing.T) {
	b := newBench(t, 1, quick)
	before := b.workers["w0"].Status().Instance
	_, _, err := b.named("w0")
	if !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(),
		"another worker w0 has been there since 2") {
		t.Fatalf("the error is %v, want ErrTaken with the name and since when", err)
	}
	if _, err := NewWorker(b.links["w0"], WorkerConfig{Name: "w0", Memory: 1}); !errors.Is(err,
		ErrTaken) {
		t.Errorf("on the same connection the error is %v, want ErrTaken", err)
	}
	x := b.twin(SequenceConfig{Layers: 1, KVHeads: 1, HeadDim: 8, ValueDim: 8}, 1)
	x.append(10)
	x.attend(0, 1, bottomRight)
	if all := b.client.Workers(); len(all) != 1 || all[0].Instance != before {
		t.Errorf("the workers are %+v, want the first one", all)
	}
	b.workers["w0"].Close()
	if _, _, err := b.named("w0"); err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
}

// Of several workers of a name that start at once, one starts.
func TestNameAtOnce(t *testing.T) {
	b := newBench(t, 0, quick)
	const rivals = 4
	for range 5 {
		type result struct {
			w   *Worker
			err error
		}
		results, begin := make(chan result), make(chan struct{})
		for range rivals {
			link := b.dial()
			go func() {
				<-begin
				w, err := NewWorker(link, WorkerConfig{Name: "x", Memory: 1})
				results <- result{w, err}
			}()
		}
		ran, start := stopwatch(), time.Now()
		close(begin)
		var winners []*Worker
		for range rivals {
			r := <-results
			if r.err == nil {
				defer r.w.Close()
				winners = append(winners, r.w)
			} else if !errors.Is(r.err, ErrTaken) {
				t.Error(r.err)
			}
		}
		stood := time.Since(start) - ran() // who waits for others hears nothing meanwhile
		if len(winners) == rivals && stood < 50*time.Millisecond {
			t.Error("all have the name")
		}
		b.eventually("one worker has the name", func() bool { // on a busy machine one may hear late
			winners = slices.DeleteFunc(winners, func(w *Worker) bool { return len(w.Displaced()) > 0 })
			return len(winners) == 1
		})
		winners[0].Close()
	}
}

// A worker that hangs keeps its name: it might come back.
func TestNameOfOneThatHangs(t *testing.T) {
	b := newBench(t, 0, quick)
	hangs := b.dial()
	_, err := hangs.conn.SubscribeSync("attn.inbox.name.x")
	must(t, err)
	must(t, hangs.conn.Flush())
	_, _, err = b.named("x")
	if !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), "did not answer for 3s") {
		t.Errorf("the error is %v, want ErrTaken", err)
	}
}

// Workers that could not hear of each other, here because their server comes late, do so then: the
// earlier one keeps the name, and the other one ends and says why.
func TestDisplaced(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	start := func() *Worker {
		link, err := DialNATS(NATSConfig{URL: l.Addr().String(), Options: []nats.Option{
			nats.RetryOnFailedConnect(true), nats.ReconnectWait(20 * time.Millisecond)}})
		must(t, err)
		t.Cleanup(func() { _ = link.Close() })
		w, err := NewWorker(link, WorkerConfig{Name: "x", Memory: 1 << 20,
			Announce: 50 * time.Millisecond})
		must(t, err)
		t.Cleanup(w.Close)
		return w
	}
	early, late := start(), start()
	s, err := embedded.Start(&server.Options{Port: l.Addr().(*net.TCPAddr).Port})
	must(t, err)
	t.Cleanup(func() { embedded.Stop(s) })
	select {
	case err := <-late.Displaced():
		if !errors.Is(err, ErrTaken) {
			t.Errorf("the error is %v, want ErrTaken", err)
		}
	case err := <-early.Displaced():
		t.Errorf("the earlier one has lost the name: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("two workers have the name")
	}
	link, err := DialNATS(NATSConfig{URL: s.ClientURL()})
	must(t, err)
	defer func() { _ = link.Close() }()
	client, err := NewClient(link, patient)
	must(t, err)
	defer client.Close()
	b := &bench{TB: t}
	alone := func() bool {
		all := client.Workers()
		return len(all) == 1 && all[0].Instance == early.instance
	}
	b.eventually("the earlier worker is heard of", alone)
	time.Sleep(200 * time.Millisecond) // four announcements
	if !alone() {
		t.Errorf("the workers are %+v, want the earlier one", client.Workers())
	}
	select {
	case err := <-early.Displaced():
		t.Errorf("the earlier one has lost the name: %v", err)
	default:
	}
}

// TestNameMessages gives a worker what is no claim to its name, or one of itself.
func TestNameMessages(t *testing.T) {
	b := newBench(t, 1, quick)
	link := b.links["w0"]
	n := &natsName{link: link, worker: "w0", subject: "attn.inbox.name.other",
		claim: nameClaim{true, 5, 7}, lost: make(chan struct{})}
	frameOf := func(kind uint8, payload []byte) []byte {
		f := frame{kind: kind, payload: payload}
		return f.append(nil)
	}
	self, earlier, later := nameClaim{true, 5, 7}, nameClaim{true, 5, 6}, nameClaim{true, 6, 1}
	waiting := nameClaim{false, 1, 1}
	for name, m := range map[string]nats.Msg{
		"nothing":               {},
		"another kind":          {Data: frameOf(kindRefusal, earlier.encode())},
		"a claim cut off":       {Data: frameOf(kindName, earlier.encode()[1:])},
		"a claim with more":     {Data: frameOf(kindName, append(earlier.encode(), 0))},
		"its own":               {Data: frameOf(kindName, self.encode())},
		"a later one":           {Data: frameOf(kindName, later.encode())},
		"one that only wants":   {Data: frameOf(kindName, waiting.encode())},
		"a question":            {Data: frameOf(kindName, earlier.encode()), Reply: "attn.inbox.x.1"},
		"a question from where": {Data: frameOf(kindName, earlier.encode()), Reply: "attn.status"},
	} {
		if n.receive(&m); n.err != nil {
			t.Errorf("%s: %v", name, n.err)
		}
	}
	for range 2 { // the second one changes nothing
		n.receive(&nats.Msg{Data: frameOf(kindName, earlier.encode())})
		if !errors.Is(n.err, ErrTaken) || !errors.Is(n.claimName(), ErrTaken) {
			t.Errorf("an earlier one: %v, want ErrTaken", n.err)
		}
	}
}
