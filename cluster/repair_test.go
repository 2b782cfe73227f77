package cluster

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
)

// What goes is the rate on average, however large its pieces are.
func TestPace(t *testing.T) {
	p := pace{rate: 1000}
	now := time.Unix(1, 0)
	for _, x := range []struct {
		after time.Duration
		wait  time.Duration
		bytes int
	}{
		{0, 0, 500}, {0, 500 * time.Millisecond, 0}, {500 * time.Millisecond, 0, 2000},
		{time.Second, time.Second, 0}, {time.Second, 0, 100}, {0, 100 * time.Millisecond, 100},
		{time.Hour, 0, 1}, {0, time.Millisecond, 0},
	} {
		now = now.Add(x.after)
		if got := p.wait(now); got != x.wait {
			t.Fatalf("%+v: the wait is %v, want %v", x, got, x.wait)
		}
		p.went(x.bytes, now)
	}
}

// A worker leaves while several of its copies move at a time, no more than the client may and no
// faster than workers may, though each call copies but a little.
func TestMovesAtOnce(t *testing.T) {
	t.Parallel()
	c := patient
	c.Copies, c.Moves, c.Patience = 1, 3, time.Second
	b := newBench(t, 0, c)
	h := b.hooked(c, 0)
	const rate = 4 << 20
	b.change = func(c *WorkerConfig) { c.CopyRate = rate }
	b.startAll([]string{"w0"})
	must(t, b.client.Wait(context.Background(), 1))
	x := b.twin(SequenceConfig{Layers: 2, KVHeads: 2, HeadDim: 32, ValueDim: 32}, 2)
	x.append(6500) // 7 parts, 6.5 MB
	b.startAll([]string{"w1"})
	must(t, b.client.Wait(context.Background(), 2))
	b.workers["w1"].copySlice = time.Millisecond
	most := b.atOnce(h, opCopy)
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(t, b.workers["w0"].Drain(ctx))
	const run = 1024 * 2 * 64 * 4
	least := time.Duration(float64(6500*2*2*64*4-c.Moves*2*run) / rate * float64(time.Second))
	if took := time.Since(start); took < least {
		t.Errorf("leaving took %v, want at least %v", took, least)
	}
	if n := most(); n < 2 || n > c.Moves {
		t.Errorf("%d copies were made at a time, want 2 to %d", n, c.Moves)
	}
	b.kill("w0")
	x.attend(0, 3, bottomRight)
	x.attend(1, 3, bottomRight)
}

// A copy is made though each call copies one run only: each goes on with the layer that is next.
func TestMovesByRuns(t *testing.T) {
	t.Parallel()
	c := patient
	c.Copies = 1
	b := newBench(t, 2, c)
	for _, w := range b.workers {
		w.copySlice = 0
	}
	x := b.twin(small, 2)
	x.append(100)
	name := b.fullest()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	must(t, b.drain(ctx, name))
	delete(b.workers, name)
	delete(b.links, name)
	x.attendAll()
}

// atOnce counts how many calls for something there are at the same time at most. The first one
// waits for another.
func (b *bench) atOnce(h *hooked, what uint8) (most func() int) {
	var mu sync.Mutex
	now, peak, two := 0, 0, make(chan struct{})
	count := func(change int) {
		mu.Lock()
		defer mu.Unlock()
		if now += change; now > peak {
			if peak = now; peak == 2 {
				close(two)
			}
		}
	}
	h.set(func(ctx context.Context, op uint8, _ []byte, call func() ([]byte, error)) ([]byte, error) {
		if op != what {
			return call()
		}
		count(1)
		defer count(-1)
		select {
		case <-two:
		case <-ctx.Done():
		}
		return call()
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return peak
	}
}

// stuck is a transport whose calls do not return until it is told.
type stuck struct {
	loop
	called, resume chan struct{}
}

func (s *stuck) Call(ctx context.Context, _ string, _ []byte) ([]byte, error) {
	s.called <- struct{}{}
	<-s.resume
	return nil, ErrUnavailable
}

// A worker makes only so many copies at a time, so that calls for attention have their places.
func TestCopiesAreBusy(t *testing.T) {
	l := &stuck{called: make(chan struct{}), resume: make(chan struct{})}
	w, err := NewWorker(l, WorkerConfig{Name: "w", Memory: 1 << 24, Threads: 1, Calls: 8})
	must(t, err)
	defer w.Close()
	id := clientID{1}
	ask := func(request []byte) error {
		reply, _ := l.loop.Call(context.Background(), "w", request)
		_, err := outcomes(request, reply)
		return err
	}
	copyTo := func(n uint64) error {
		return ask((&copyRequest{copy: n, from: "x", source: 9}).encode(id))
	}
	for n := range uint64(3) {
		must(t, ask((&createRequest{copy: n, tokens: 1024, lease: 60000,
			shape: shape{1, 1, 4, 4, attn.F32, attn.F32, false}}).encode(id)))
	}
	ended := make(chan error)
	for n := range uint64(2) {
		go func() { ended <- copyTo(n) }()
		<-l.called
	}
	refusal{ErrBusy, "2 copies are being made here, want at most 2"}.check(t, "one more", copyTo(2))
	must(t, ask(encodeRequest(opStatus, id, nothing{})))
	close(l.resume)
	for range 2 {
		refusal{ErrUnavailable, "unavailable"}.check(t, "a copy", <-ended)
	}
}
