package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster/embedded"
)

// faulty is a transport on which a worker, or each if it is *, answers wrongly.
type faulty struct {
	Transport
	mu     sync.Mutex
	worker string
	wrong  wrongAnswer
}

// wrongAnswer is what comes in place of a reply to a request.
type wrongAnswer func(ctx context.Context, request, reply []byte) ([]byte, error)

func (f *faulty) Call(ctx context.Context, worker string, request []byte) ([]byte, error) {
	reply, err := f.Transport.Call(ctx, worker, request)
	f.mu.Lock()
	wrong := f.wrong
	if worker != f.worker && f.worker != "*" {
		wrong = nil
	}
	f.mu.Unlock()
	if wrong == nil || err != nil {
		return reply, err
	}
	return wrong(ctx, request, reply)
}

func (f *faulty) set(worker string, wrong wrongAnswer) {
	f.mu.Lock()
	f.worker, f.wrong = worker, wrong
	f.mu.Unlock()
}

// faulty is a client of the workers, whose answers may be others.
func (b *bench) faulty(c ClientConfig, workers int) (*faulty, *Client) {
	b.Helper()
	f := &faulty{Transport: b.client.transport}
	client, err := NewClient(f, c)
	must(b, err)
	b.Cleanup(client.Close)
	must(b, client.Wait(context.Background(), workers))
	return f, client
}

// A worker that hangs or answers nonsense is replaced by another copy, with the same bits.
func TestWrongAnswers(t *testing.T) {
	b := newBench(t, 3, quick)
	f, client := b.faulty(quick, 3)
	b.client = client
	x := b.twin(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 16, ValueDim: 16}, 4)
	x.append(3500)
	for name, wrong := range map[string]wrongAnswer{
		"hangs": func(ctx context.Context, _, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, fail(ErrUnavailable, "%v", ctx.Err())
		},
		"nothing": func(_ context.Context, _, _ []byte) ([]byte, error) { return nil, nil },
		"short":   func(_ context.Context, _, r []byte) ([]byte, error) { return r[:len(r)/2], nil },
		"long":    func(_ context.Context, _, r []byte) ([]byte, error) { return append(r, 1), nil },
		"noise": func(_ context.Context, _, r []byte) ([]byte, error) {
			for i := range r {
				r[i] = byte(i * i)
			}
			return r, nil
		},
		"busy": func(_ context.Context, _, _ []byte) ([]byte, error) {
			return errorReply(ErrBusy), nil
		},
		"unknown": func(_ context.Context, _, _ []byte) ([]byte, error) {
			return errorReply(errUnknown), nil
		},
		"states of other keys": otherStates(t, func(c *attn.StateConfig, keys int) int {
			return keys - 1
		}),
		"states of other rows": otherStates(t, func(c *attn.StateConfig, keys int) int {
			c.Queries++
			return keys
		}),
		"states of other heads": otherStates(t, func(c *attn.StateConfig, keys int) int {
			c.Heads, c.Queries = c.Heads*c.Queries, 1
			c.ValueDim *= 2
			return keys
		}),
	} {
		t.Run(name, func(t *testing.T) {
			for _, worker := range []string{"w0", "w1", "w2"} {
				f.set(worker, wrong)
				x.attend(0, 1, bottomRight)
				x.append(1)
				x.attend(0, 3, bottomRight)
				f.set("", nil)
				x.whole()
			}
		})
	}
}

// otherStates sends others in place of states: empty ones of a shape and a number of keys that are
// changed.
func otherStates(t *testing.T, change func(c *attn.StateConfig, keys int) int) wrongAnswer {
	return func(_ context.Context, request, reply []byte) ([]byte, error) {
		x, err := outcomes(request, reply)
		if err != nil || len(x.attends) == 0 {
			return reply, nil
		}
		for i := range x.attends[0].groups {
			g := &x.attends[0].groups[i]
			var s attn.State
			if s.UnmarshalBinary(g.state) != nil {
				continue // it failed, or they are outputs
			}
			c := s.Config()
			keys := change(&c, s.Keys())
			other, err := attn.NewState(c)
			if err == nil {
				err = other.Update(sameRow(c.Heads, c.Queries, 8), sameRow(1, keys, 8),
					sameRow(1, keys, c.ValueDim), &attn.Options{KeyLens: []int{0}})
			}
			if err == nil {
				g.state, err = other.MarshalBinary()
			}
			if err != nil {
				t.Error(err)
			}
		}
		return encodeReply(&x), nil
	}
}

// Where no copy is left, the error says which tokens are gone, and nothing is written.
func TestLost(t *testing.T) {
	t.Parallel()
	c := quick
	c.Copies = 1
	b := newBench(t, 2, c)
	x := b.twin(SequenceConfig{Layers: 1, KVHeads: 1, HeadDim: 8, ValueDim: 8}, 2)
	x.append(3000)
	x.far.mu.Lock()
	part := x.far.parts[1]
	worker := part.copies[0].worker
	x.far.mu.Unlock()
	b.kill(worker)
	dst := attn.BHLD(make([]float32, 16), 1, 2, 1, 8)
	err := x.far.Attend(context.Background(), 0, dst, b.tensor(2, 1, 8), &bottomRight)
	var lost *LostError
	if !errors.As(err, &lost) || !errors.Is(err, ErrLost) || lost.Sequence != x.far.ID() ||
		lost.From%1024 != 0 || lost.To > 3000 || lost.To <= lost.From {
		t.Fatalf("the error is %v", err)
	}
	sameBits(t, "dst", dst.Data, make([]float32, 16))
}

// The server goes away for longer than workers may be silent, and comes back: nothing is lost.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	s, err := embedded.Start(new(server.Options))
	must(t, err)
	options := &server.Options{Port: s.Addr().(*net.TCPAddr).Port}
	quickly := NATSConfig{URL: s.ClientURL(), Options: []nats.Option{
		nats.ReconnectWait(50 * time.Millisecond)}}
	dial := func() *NATS {
		link, err := DialNATS(quickly)
		must(t, err)
		t.Cleanup(func() { _ = link.Close() })
		return link
	}
	b := &bench{TB: t, rand: rand.New(rand.NewPCG(1, 2))}
	for _, name := range []string{"w0", "w1"} {
		w, err := NewWorker(dial(), WorkerConfig{Name: name, Memory: 1 << 24, Threads: 1,
			Announce: 100 * time.Millisecond})
		must(t, err)
		defer w.Close()
	}
	b.client, err = NewClient(dial(), quick)
	must(t, err)
	defer b.client.Close()
	must(t, b.client.Wait(context.Background(), 2))
	x := b.twin(small, 2)
	must(t, x.appendAtOnce(1500))
	x.attendAll()
	embedded.Stop(s)
	ctx, cancel := context.WithTimeout(context.Background(), 2*quick.Gone)
	defer cancel()
	q, dst := b.tensor(2, 1, 16), b.tensor(2, 1, 16)
	refusal{ErrUnavailable, "no answer for positions 0 to 1023"}.check(t, "Attend without a server",
		x.far.Attend(ctx, 0, dst, q, nil))
	ctx, cancel = context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	k := b.tensor(1, 1, 16)
	err = x.far.Append(ctx, 0, k, k)
	refusal{ErrUnavailable, "there is no connection to the server: for "}.check(t,
		"Append without a server", err)
	if errors.Is(err, ErrLost) {
		t.Errorf("the error is %v, want none that says that tokens are lost", err)
	}
	s, err = embedded.Start(options)
	must(t, err)
	defer embedded.Stop(s)
	x.attendAll()
	must(t, x.appendAtOnce(100))
	x.attendAll()
}

// A worker that comes back empty says so, and its copies are made again from the others.
func TestRestartedEmpty(t *testing.T) {
	b := newBench(t, 2, quick)
	x := b.twin(SequenceConfig{Layers: 1, KVHeads: 1, HeadDim: 8, ValueDim: 8, Format: attn.BF16}, 2)
	x.append(2500)
	x.whole()
	for range 3 {
		b.kill("w0")
		b.restart("w0")
		x.attend(0, 1, bottomRight)
		x.append(10)
		x.whole()
		b.kill("w1")
		b.restart("w1")
		x.append(10)
		x.attend(0, 1, bottomRight)
		x.whole()
	}
}

// What a client left that vanished is freed when its lease has ended.
func TestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = 200 * time.Millisecond
		w, _, ask := asking(t, WorkerConfig{Memory: 1 << 24, Lease: lease})
		must(t, ask(samples()[0]))
		must(t, ask(samples()[1]))
		time.Sleep(lease)
		if s := w.Status(); s.Copies != 1 || s.Used == 0 || s.Clients != 1 || s.Tokens != 2 {
			t.Fatalf("%+v", s)
		}
		time.Sleep(lease / 2)
		if s := w.Status(); s.Copies != 0 || s.Used != 0 || s.Clients != 0 {
			t.Fatalf("%+v after the lease", s)
		}
	})
}

// A message that comes twice changes nothing, and one of the past is refused.
func TestTwice(t *testing.T) {
	l := new(loop)
	w, err := NewWorker(l, WorkerConfig{Name: "w", Memory: 1 << 24, Threads: 1})
	must(t, err)
	defer w.Close()
	ask := func(request []byte) error {
		reply, _ := l.Call(context.Background(), "w", request)
		_, err := outcomes(request, reply)
		return err
	}
	id := clientID{1, 2, 3}
	tokens := func(epoch uint32, position int) []byte {
		return (&appendRequest{copy: 1, epoch: epoch, position: position, pieces: []tokenPiece{{tokens: 2,
			k: make([]byte, 16), v: make([]byte, 16)}}}).encode(id)
	}
	for i, step := range []struct {
		request []byte
		err     error
		tokens  int64
	}{
		{samples()[0], nil, 0}, {samples()[0], nil, 0},
		{tokens(0, 0), nil, 2}, {tokens(0, 0), nil, 2}, {tokens(0, 2), nil, 4}, {tokens(0, 0), nil, 4},
		{tokens(0, 5), errStale, 4}, {tokens(1, 4), errStale, 4}, {tokens(0, 3), nil, 5},
		{tokens(0, 900), errStale, 5},
		{(&truncateRequest{1, 1, 0, []uint32{3, 0}}).encode(id), nil, 3}, {tokens(0, 3), errStale, 3},
		{tokens(1, 3), nil, 5}, {(&truncateRequest{1, 1, 0, []uint32{3, 0}}).encode(id), nil, 5},
		{(&truncateRequest{1, 0, 0, []uint32{3, 0}}).encode(id), errStale, 5},
		{(&truncateRequest{1, 3, 2, []uint32{3, 0}}).encode(id), errStale, 5},
		{(&truncateRequest{1, 2, 0, []uint32{3}}).encode(id), attn.ErrLength, 5},
		{(&truncateRequest{1, 2, 0, []uint32{9, 0}}).encode(id), errStale, 5},
		{(&releaseRequest{[]uint64{1}}).encode(id), nil, 0},
		{(&releaseRequest{[]uint64{1}}).encode(id), nil, 0}, {tokens(1, 5), errUnknown, 0},
	} {
		if err := ask(step.request); !errors.Is(err, step.err) && (err != nil || step.err != nil) {
			t.Fatalf("step %d: %v, want %v", i, err, step.err)
		}
		if s := w.Status(); s.Tokens != step.tokens {
			t.Fatalf("step %d: %d tokens, want %d", i, s.Tokens, step.tokens)
		}
	}
}

// Limits are errors that say so, and what was there before stays.
func TestLimits(t *testing.T) {
	c := quick
	c.Copies = 1
	b := newBench(t, 0, c)
	_, err := NewWorker(b.dial(), WorkerConfig{Name: "small", Memory: 1 << 20, Sequences: 1,
		Threads: 1, Announce: 100 * time.Millisecond})
	must(t, err)
	must(t, b.client.Wait(context.Background(), 1))
	x := b.twin(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 64, ValueDim: 64}, 2)
	x.append(500)
	k := b.tensor(2, 800, 64)
	if err := x.far.Append(context.Background(), 0, k, k); !errors.Is(err, attn.ErrCapacity) {
		t.Fatalf("the error is %v", err)
	}
	x.attend(0, 1, bottomRight)
	x.append(100)
	x.attend(0, 1, bottomRight)
	other, err := b.client.NewSequence(x.config)
	must(t, err)
	if err := other.Append(context.Background(), 0, k, k); !errors.Is(err, ErrLimit) {
		t.Fatalf("the error is %v", err)
	}
	for name, o := range map[string]attn.Options{"KeyLens": {KeyLens: []int{1}},
		"QueryLens": {QueryLens: []int{1}}, "Weights": {Weights: k}, "Integers": {Integers: true},
		"Offset": {Causal: attn.BottomRight, Offset: 1}, "Mask": {Mask: attn.Mask{B: 1}},
		"LSE": {LSE: make([]float32, 1)}, "Softcap": {Softcap: -1}} {
		q := b.tensor(2, 1, 64)
		if err := x.far.Attend(context.Background(), 0, b.tensor(2, 1, 64), q, &o); err == nil {
			t.Errorf("%s: no error", name)
		} else if !contains(err.Error(), name) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	x.far.Release()
	if err := x.far.Append(context.Background(), 0, k, k); !errors.Is(err, attn.ErrClosed) {
		t.Errorf("the error is %v", err)
	}
}

func contains(s, part string) bool {
	for i := range len(s) - len(part) + 1 {
		if s[i:i+len(part)] == part {
			return true
		}
	}
	return false
}

// Large messages go in pieces, both ways.
func TestPieces(t *testing.T) {
	c := patient
	c.Chunk = 16 << 20
	b := newBench(t, 2, c)
	x := b.twin(SequenceConfig{Layers: 1, KVHeads: 4, HeadDim: 256, ValueDim: 256}, 8)
	x.append(1300)
	x.attend(0, 700, bottomRight)
	link := b.dial()
	link.most = 1 << 30
	big := make([]byte, 65<<20)
	if _, err := link.Call(context.Background(), "w0", big); !errors.Is(err, ErrLimit) {
		t.Fatalf("the error is %v", err)
	}
}

// Nothing is left of what was released and closed.
func TestNothingLeaks(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("all", func(t *testing.T) {
		b := newBench(t, 3, quick)
		for i := range 3 {
			x := b.twin(SequenceConfig{Layers: 2, KVHeads: 1, HeadDim: 8, ValueDim: 8}, 2)
			x.append(1500)
			x.attend(1, 1, bottomRight)
			if i == 1 {
				x.whole()
				b.kill("w2")
				x.append(5)
				b.restart("w2")
				x.whole()
			}
			x.far.Release()
		}
		b.eventually("workers have no tokens of released sequences", func() bool {
			left := int64(0)
			for _, w := range b.workers {
				left += w.Status().Used + int64(w.Status().Copies)
			}
			return left == 0
		})
	})
	b := &bench{TB: t}
	b.eventually(fmt.Sprint("there are as many goroutines as before, ", before), func() bool {
		return runtime.NumGoroutine() <= before
	})
}

// Parts spread by free memory, and a worker that goes moves only its own.
func TestRank(t *testing.T) {
	workers := []Status{{Worker: "a", Memory: 1000}, {Worker: "b", Memory: 1000},
		{Worker: "c", Memory: 2000}}
	first := map[string]int{}
	for part := range 4000 {
		all := rank(workers, 7, part)
		first[all[0]]++
		if less := rank(workers[:2], 7, part); all[0] != "c" && less[0] != all[0] {
			t.Fatalf("part %d moves from %s to %s", part, all[0], less[0])
		}
	}
	if first["c"] < 1800 || first["c"] > 2200 || first["a"] < 850 || first["a"] > 1150 {
		t.Error(fmt.Sprint("parts spread as ", first))
	}
}
