package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
)

// drain lets a worker leave, and ends it.
func (b *bench) drain(ctx context.Context, name string) error {
	err := b.workers[name].Drain(ctx)
	b.workers[name].Close()
	_ = b.links[name].Close()
	return err
}

// fullest is the worker with the most copies.
func (b *bench) fullest() (name string) {
	most := -1
	for n, w := range b.workers {
		if copies := w.Status().Copies; copies > most {
			name, most = n, copies
		}
	}
	return name
}

// Workers leave one after another while tokens come and are attended to, and no token is lost,
// though there is one copy only.
func TestDrain(t *testing.T) {
	for copies := 1; copies <= 2; copies++ {
		t.Run(fmt.Sprint(copies), func(t *testing.T) {
			t.Parallel()
			c := quick
			c.Copies = copies
			b := newBench(t, 3, c)
			x := b.twin(small, 2)
			must(t, x.appendAtOnce(5000))
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			for range 4 {
				name := b.fullest()
				w, drained := b.workers[name], make(chan error, 1)
				go func() { drained <- b.drain(ctx, name) }()
				for gone := false; !gone; {
					must(t, x.appendAtOnce(1+b.rand.IntN(40)))
					x.attendAll()
					select {
					case err := <-drained:
						must(t, err)
						gone = true
					default:
					}
				}
				if s := w.Status(); !s.Leaving || s.Copies != 0 || s.Used != 0 {
					t.Errorf("worker %s ended as %+v", name, s)
				}
				must(t, x.appendAtOnce(10))
				x.attendAll()
				delete(b.workers, name)
				delete(b.links, name)
				b.restart(name)
			}
			x.whole()
		})
	}
}

// If no other worker accepts copies, the last copy stays until the time is over; one of several
// copies is given up.
func TestDrainOfFew(t *testing.T) {
	b := newBench(t, 2, quick)
	x := b.twin(small, 2)
	must(t, x.appendAtOnce(1500))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(t, b.drain(ctx, "w0"))
	delete(b.workers, "w0")
	delete(b.links, "w0")
	x.attendAll()
	must(t, x.appendAtOnce(10))
	last := b.workers["w1"]
	ctx, cancel = context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if err := last.Drain(ctx); !errors.Is(err, ErrUnavailable) || !contains(err.Error(),
		"2 copies are still here") {
		t.Errorf("the error is %v, want that 2 copies are there", err)
	}
	b.eventually("the client knows that w1 is leaving", func() bool {
		return b.client.member("w1").status.Leaving
	})
	x.attendAll()
	must(t, x.appendAtOnce(10)) // to a part that is there
	x.attendAll()
	other, err := b.client.NewSequence(small)
	must(t, err)
	ctx, cancel = context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	k := b.tensor(1, 1, 16)
	if err := other.Append(ctx, 0, k, k); !errors.Is(err, ErrUnavailable) {
		t.Errorf("the error is %v, want ErrUnavailable: no worker takes a new part", err)
	}
	request := createRequest{copy: 1 << 40, tokens: 1024, lease: 1000, shape: other.shape}
	_, err = b.client.call(context.Background(), "w1", request.encode(clientID{1}))
	refusal{ErrUnavailable, "the worker is leaving"}.check(t, "a new copy", err)
	closed := make(chan error)
	go func() { closed <- last.Drain(context.Background()) }()
	time.Sleep(10 * time.Millisecond)
	last.Close()
	refusal{attn.ErrClosed, "the worker was closed"}.check(t, "Drain beside Close", <-closed)
	refusal{attn.ErrClosed, "the worker was closed"}.check(t, "Drain after Close",
		last.Drain(context.Background()))
}
