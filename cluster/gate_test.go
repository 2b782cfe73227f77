package cluster

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
)

// hook is what a call goes through.
type hook func(ctx context.Context, op uint8, request []byte,
	call func() ([]byte, error)) ([]byte, error)

// hooked is a transport with a hook.
type hooked struct {
	Transport
	hook atomic.Pointer[hook]
}

func (h *hooked) set(x hook) { h.hook.Store(&x) }

func (h *hooked) Call(ctx context.Context, worker string, request []byte) ([]byte, error) {
	request = slices.Clone(request) // which hooks send again when the call is over
	call := func() ([]byte, error) { return h.Transport.Call(ctx, worker, request) }
	if x := h.hook.Load(); x != nil && *x != nil {
		_, op := stepOf(request)
		return (*x)(ctx, op, request, call)
	}
	return call()
}

// hooked lets the bench have a client whose calls a hook sees.
func (b *bench) hooked(c ClientConfig, workers int) *hooked {
	b.Helper()
	h := &hooked{Transport: b.client.transport}
	client, err := NewClient(h, c)
	must(b, err)
	b.Cleanup(client.Close)
	must(b, client.Wait(context.Background(), workers))
	b.client = client
	return h
}

// hang is what becomes of a call that is not answered.
func hang(ctx context.Context) ([]byte, error) {
	<-ctx.Done()
	return nil, fail(ErrUnavailable, "%v", ctx.Err())
}

// within calls with a deadline, and makes sure that it is kept.
func within(t *testing.T, what string, d time.Duration,
	call func(ctx context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return takes(t, what, d+time.Second, func() error { return call(ctx) })
}

// takes makes sure that a call ends in time.
func takes(t *testing.T, what string, most time.Duration, call func() error) error {
	t.Helper()
	stop := stopwatch()
	err := call()
	if took := stop(); took > most {
		t.Errorf("%s took %v, want at most %v: %v", what, took, most, err)
	}
	return err
}

// While an append hangs and another has failed, calls keep their deadlines, and those that need
// nothing of the two work.
func TestDeadlinesBesideAHangingAppend(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, quick)
	h := b.hooked(quick, 2)
	x := b.twin(small, 2)
	x.append(10)
	hangs := make(chan struct{}, 100)
	h.set(func(ctx context.Context, op uint8, request []byte,
		call func() ([]byte, error)) ([]byte, error) {
		if r, _ := stepOf(request); op == opAppend && r.appends[0].layer > 0 {
			hangs <- struct{}{}
			return hang(ctx)
		}
		return call()
	})
	k := b.tensor(1, 1, 16)
	appendTo := func(layer int) func(context.Context) error {
		return func(ctx context.Context) error { return x.far.Append(ctx, layer, k, k) }
	}
	hanging := make(chan error)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { hanging <- appendTo(1)(ctx) }()
	<-hangs
	brief := 300 * time.Millisecond
	for what, call := range map[string]func(context.Context) error{"Append to 2": appendTo(2),
		"Append to 0": appendTo(0), "Append to 1": appendTo(1),
		"Truncate": func(ctx context.Context) error { return x.far.Truncate(ctx, 5) }} {
		if what != "Append to 2" && !x.far.isBroken() {
			within(t, "Append to 2", brief, appendTo(2))
		}
		if err := within(t, what, brief, call); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: the error is %v, want ErrUnavailable", what, err)
		}
		q, dst := b.tensor(2, 1, 16), b.tensor(2, 1, 16)
		must(t, takes(t, "Attend", time.Second, func() error {
			return x.far.Attend(context.Background(), 0, dst, q, &bottomRight)
		}))
	}
	cancel()
	err := takes(t, "the one that hangs", time.Second, func() error { return <-hanging })
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("the error is %v, want ErrUnavailable", err)
	}
	h.set(nil)
	must(t, x.appendAtOnce(100))
	x.attendAll()
}

// Where the worker hangs that a copy is made on, appends go on.
func TestAppendsBesideAHangingCopy(t *testing.T) {
	t.Parallel()
	c := quick
	c.Patience = 2 * time.Second
	b := newBench(t, 1, c)
	h := b.hooked(c, 1)
	x := b.twin(small, 2)
	x.append(100)
	var copies atomic.Int32
	more, grown, hangs := make(chan struct{}), make(chan struct{}), make(chan struct{}, 100)
	resume := make(chan struct{})
	h.set(func(ctx context.Context, op uint8, _ []byte, call func() ([]byte, error)) ([]byte, error) {
		if op != opCopy {
			return call()
		}
		if copies.Add(1) > 1 {
			hangs <- struct{}{}
			select {
			case <-ctx.Done():
			case <-resume:
			}
			return nil, fail(ErrUnavailable, "it hung")
		}
		reply, err := call()
		more <- struct{}{} // before the copy counts, there is more
		<-grown
		return reply, err
	})
	b.start("w1")
	<-more
	x.append(1)
	close(grown)
	<-hangs
	k := b.tensor(1, 1, 16)
	for range 3 {
		must(t, takes(t, "Append", time.Second, func() error {
			return x.far.Append(context.Background(), 0, k, k)
		}))
		must(t, x.near[0].Append(k, k))
	}
	h.set(nil)
	close(resume)
	x.whole()
	x.append(1)
	x.attendAll()
}

// A copy that is slower than appends wait at first still joins while tokens come.
func TestSlowCopyBesideAppends(t *testing.T) {
	t.Parallel()
	c := quick
	c.Patience, c.Segments = 400*time.Millisecond, 64 // appends stay in one part
	b := newBench(t, 1, c)
	h := b.hooked(c, 1)
	x := b.twin(small, 2)
	x.append(100)
	h.set(func(_ context.Context, op uint8, _ []byte, call func() ([]byte, error)) ([]byte, error) {
		reply, err := call()
		if op == opCopy {
			time.Sleep(150 * time.Millisecond)
		}
		return reply, err
	})
	b.start("w1")
	for end := time.Now().Add(time.Minute); x.far.Missing() > 0; {
		must(t, x.appendAtOnce(1))
		if time.Now().After(end) {
			t.Fatal("the copy has not joined after a minute")
		}
	}
	b.kill("w0")
	x.attendAll()
}

// Close needs a second for all sequences, not for each, and ends calls.
func TestCloseBesideHangingWorkers(t *testing.T) {
	t.Parallel()
	c := quick
	c.Patience = time.Second
	b := newBench(t, 2, c)
	h := b.hooked(c, 2)
	var all []*twin
	for range 20 {
		x := b.twin(small, 2)
		x.append(1)
		all = append(all, x)
	}
	var hangs atomic.Int32
	h.set(func(ctx context.Context, _ uint8, _ []byte, _ func() ([]byte, error)) ([]byte, error) {
		hangs.Add(1)
		return hang(ctx)
	})
	k := b.tensor(1, 1, 16)
	ended := make(chan error, 2)
	go func() { ended <- all[0].far.Append(context.Background(), 0, k, k) }()
	go func() {
		q := b.tensor(2, 1, 16)
		ended <- all[1].far.Attend(context.Background(), 0, q, q, nil)
	}()
	b.eventually("calls hang", func() bool { return hangs.Load() > 2 })
	must(t, takes(t, "Close", 3*time.Second, func() error { b.client.Close(); return nil }))
	for range 2 {
		err := takes(t, "a call beside Close", time.Second, func() error { return <-ended })
		refusal{attn.ErrClosed, "the sequence was released"}.check(t, "a call beside Close", err)
	}
}

// Release does not wait for what hangs.
func TestReleaseBesideAHangingAppend(t *testing.T) {
	b := newBench(t, 2, quick)
	h := b.hooked(quick, 2)
	x := b.twin(small, 2)
	x.append(1)
	hangs := make(chan struct{}, 100)
	h.set(func(ctx context.Context, op uint8, _ []byte, call func() ([]byte, error)) ([]byte, error) {
		if op == opAppend {
			hangs <- struct{}{}
			return hang(ctx)
		}
		return call()
	})
	k := b.tensor(1, 1, 16)
	ended := make(chan error)
	go func() { ended <- x.far.Append(context.Background(), 0, k, k) }()
	<-hangs
	must(t, takes(t, "Release", 2*time.Second, func() error { x.far.Release(); return nil }))
	refusal{attn.ErrClosed, "the sequence was released"}.check(t, "a call beside Release", <-ended)
	refusal{attn.ErrClosed, "the sequence was released"}.check(t, "a call after Release",
		x.far.Truncate(context.Background(), 0))
	b.empties()
}
