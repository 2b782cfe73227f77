package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
)

// step adds n tokens to a layer of both, and compares what they see.
func (t *twin) step(layer, n int, opt attn.Options) {
	t.Helper()
	k, v := t.tensor(t.config.KVHeads, n, t.config.HeadDim), t.tensor(t.config.KVHeads, n,
		t.config.ValueDim)
	if t.config.ValuesInKeys {
		v = attn.Tensor{}
	}
	q := t.tensor(t.heads, n, t.config.HeadDim)
	got, want := t.out(n), t.out(n)
	must(t, t.near[layer].Append(k, v))
	near, far := opt, opt
	near.LSE, near.QueryLens = make([]float32, t.heads*n), []int{n}
	far.LSE = make([]float32, t.heads*n)
	must(t, attn.AttendSequences(want, q, t.near[layer:layer+1], &near))
	must(t, t.far.Step(context.Background(), layer, got, q, k, v, &far))
	sameBits(t, "outputs of a step", got.Data, want.Data)
	sameBits(t, "LSE of a step", far.LSE, near.LSE)
	if got, want := t.far.Len(layer), t.near[layer].Len(); got != want {
		t.Fatalf("layer %d has %d tokens after a step, want %d", layer, got, want)
	}
}

// out is room for outputs of some rows.
func (t *twin) out(rows int) attn.Tensor {
	return attn.BHLD(make([]float32, t.heads*rows*t.config.ValueDim), 1, t.heads, rows,
		t.config.ValueDim)
}

// Steps have the bits of one machine, for any number of workers and format: tokens that begin a
// part, end one, go to several, or to several messages.
func TestStepSameBits(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		for _, format := range []formatPair{{attn.F32, 0}, {attn.BF16, 0}, {attn.I8, attn.I4}} {
			t.Run(fmt.Sprint(workers, format), func(t *testing.T) {
				t.Parallel()
				c := quick
				c.Chunk = 1 << 18
				b := newBench(t, workers, c)
				x := b.twin(SequenceConfig{Layers: 2, KVHeads: 2, HeadDim: 32, ValueDim: 24,
					Format: format.keys, ValueFormat: format.values}, 4)
				opt := bottomRight
				opt.Integers = format.keys >= attn.I8
				for _, n := range []int{1, 1, 62, 959, 1, 1, 1100, 1, 900, 1, 1} {
					x.step(0, n, opt)
					x.step(1, n, opt)
				}
				x.attendBoth()
			})
		}
	}
}

// counted counts requests by what they ask for.
func counted(h *hooked) (take func() map[uint8]int) {
	var mu sync.Mutex
	n := map[uint8]int{}
	h.set(func(_ context.Context, op uint8, _ []byte, call func() ([]byte, error)) ([]byte, error) {
		mu.Lock()
		n[op]++
		mu.Unlock()
		return call()
	})
	return func() map[uint8]int {
		mu.Lock()
		defer mu.Unlock()
		m := map[uint8]int{}
		for _, op := range []uint8{opStep, opAppend, opAttend} {
			if n[op] > 0 {
				m[op] = n[op]
			}
		}
		clear(n)
		return m
	}
}

// settle waits until copies follow in no layer.
func (t *twin) settle() {
	t.Helper()
	for layer := range t.config.Layers {
		must(t, t.far.lockSettled(context.Background(), layer))
		t.far.mu.Unlock()
	}
}

// A step is a request to each worker that is asked for something. Copies elsewhere get theirs after
// it.
func TestStepIsOneRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, patient)
	h := b.hooked(patient, 2)
	x := b.twin(small, 2)
	x.append(10)
	take := counted(h)
	x.step(0, 1, bottomRight)
	x.settle()
	if got, want := take(), (map[uint8]int{opStep: 1, opAppend: 1}); !maps.Equal(got, want) {
		t.Errorf("requests of a step over one part are %v, want %v", got, want)
	}
	x.append(2100)
	take()
	x.step(0, 1, bottomRight)
	x.settle()
	if got, want := take(), (map[uint8]int{opStep: 2}); !maps.Equal(got, want) {
		t.Errorf("requests of a step over parts of two workers are %v, want %v", got, want)
	}
}

// Attention that follows a step waits for copies, and uses none without the step's tokens.
func TestAttendBesideAStep(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, patient)
	h := b.hooked(patient, 2)
	x := b.twin(small, 2)
	x.append(10)
	follow := make(chan struct{})
	h.set(func(_ context.Context, op uint8, _ []byte, call func() ([]byte, error)) ([]byte, error) {
		if op == opAppend {
			<-follow
		}
		return call()
	})
	x.step(0, 1, bottomRight) // which does not wait
	x.attend(1, 1, bottomRight)
	q, dst := b.tensor(2, 1, 16), x.out(1)
	brief := 100 * time.Millisecond
	refusal{ErrUnavailable, "waiting for copies of layer 0"}.check(t, "Attend with little time",
		within(t, "Attend", brief, func(ctx context.Context) error {
			return x.far.Attend(ctx, 0, dst, q, nil)
		}))
	refusal{ErrUnavailable, "waiting for other calls"}.check(t, "Step with little time",
		within(t, "Step", brief, func(ctx context.Context) error {
			return x.far.Step(ctx, 0, dst, q, b.tensor(1, 1, 16), b.tensor(1, 1, 16), nil)
		}))
	close(follow)
	for range 4 {
		x.attend(0, 1, bottomRight)
		x.step(0, 1, bottomRight)
	}
	if n := x.far.Missing(); n > 0 {
		t.Errorf("%d copies are missing: they were asked for what they had not", n)
	}
}

// The worker that took the tokens dies before the other copy has them: the client still has.
func TestStepThenKill(t *testing.T) {
	t.Parallel()
	c := quick
	c.Patience = 4 * time.Second
	b := newBench(t, 2, c)
	h := b.hooked(c, 2)
	x := b.twin(small, 2)
	x.append(10)
	p := x.far.parts[0]
	first := x.far.good(p)[0].worker
	killed := make(chan struct{})
	h.set(func(_ context.Context, op uint8, _ []byte, call func() ([]byte, error)) ([]byte, error) {
		if op == opAppend {
			<-killed
		}
		return call()
	})
	x.step(0, 1, bottomRight)
	b.kill(first)
	close(killed)
	x.attend(0, 1, bottomRight)
	x.step(0, 1, bottomRight)
	b.restart(first)
	x.whole()
	x.step(0, 1, bottomRight)
}

// Steps go on while workers die and come back.
func TestStepWithKills(t *testing.T) {
	for _, workers := range []int{2, 4} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			t.Parallel()
			c := quick // but nobody is given up only because the machine has much to do
			c.Patience, c.Gone = 2*time.Second, 3*time.Second
			b := newBench(t, workers, c)
			x := b.twin(SequenceConfig{Layers: 2, KVHeads: 2, HeadDim: 32, ValueDim: 24,
				Format: attn.F16}, 4)
			x.append(3000)
			x.whole()
			for i := range 2 {
				name := fmt.Sprint("w", i)
				killed := make(chan struct{})
				go func() {
					b.kill(name)
					close(killed)
				}()
				for range 5 {
					x.step(0, 1, bottomRight)
					x.step(1, 30, bottomRight)
				}
				<-killed
				x.step(0, 1, bottomRight)
				x.attendBoth()
				b.restart(name)
				x.whole()
				x.step(0, 1, bottomRight)
				x.attendBoth()
			}
		})
	}
}

// Requests of steps, and what they are answered, are lost, late and repeated: each token is there
// once.
func TestStepRepeated(t *testing.T) {
	t.Parallel()
	c := quick
	c.Patience = 100 * time.Millisecond
	for name, wrong := range map[string]func(ctx context.Context, i int,
		call func() ([]byte, error)) ([]byte, error){
		"twice": func(_ context.Context, _ int, call func() ([]byte, error)) ([]byte, error) {
			if _, err := call(); err != nil {
				return nil, err
			}
			return call()
		},
		"replies are lost": func(ctx context.Context, i int, call func() ([]byte, error)) ([]byte,
			error) {
			reply, err := call()
			if i%3 == 0 {
				return hang(ctx)
			}
			return reply, err
		},
		"requests are lost": func(ctx context.Context, i int, call func() ([]byte, error)) ([]byte,
			error) {
			if i%3 == 0 {
				return hang(ctx)
			}
			return call()
		},
		"late again": func(_ context.Context, i int, call func() ([]byte, error)) ([]byte, error) {
			if i%2 == 0 {
				time.AfterFunc(30*time.Millisecond, func() { _, _ = call() })
			}
			return call()
		},
		"garbage": func(_ context.Context, i int, call func() ([]byte, error)) ([]byte, error) {
			reply, err := call()
			if i%3 == 0 && err == nil {
				reply = reply[:len(reply)/2]
			}
			return reply, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 3, c)
			h := b.hooked(c, 3)
			x := b.twin(small, 2)
			x.append(2040)
			var n atomic.Int64
			h.set(func(ctx context.Context, op uint8, _ []byte, call func() ([]byte, error)) ([]byte,
				error) {
				if op == opStep || op == opAppend {
					return wrong(ctx, int(n.Add(1)), call)
				}
				return call()
			})
			for i := range 15 {
				x.step(i%3, 1+i%2, bottomRight)
			}
			h.set(nil)
			x.whole()
			x.attendAll()
			must(t, x.far.Truncate(context.Background(), 2030))
			for _, s := range x.near {
				must(t, s.Truncate(2030))
			}
			x.step(1, 3, bottomRight)
			x.attendAll()
		})
	}
}

// A step that fails leaves the layer as it was, wherever its tokens went: they are cut off.
func TestStepFails(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, quick)
	h := b.hooked(quick, 2)
	x := b.twin(small, 2)
	x.append(1020)
	h.set(func(ctx context.Context, op uint8, _ []byte, call func() ([]byte, error)) ([]byte, error) {
		if op != opStep {
			return call()
		}
		if _, err := call(); err != nil { // the tokens arrive, and nobody hears of it
			return nil, err
		}
		return hang(ctx)
	})
	for _, n := range []int{1, 4, 9} { // the last one to two parts
		q, k, dst := b.tensor(2, n, 16), b.tensor(1, n, 16), x.out(n)
		err := within(t, "Step", 700*time.Millisecond, func(ctx context.Context) error {
			return x.far.Step(ctx, 0, dst, q, k, k, &bottomRight)
		})
		if !errors.Is(err, ErrUnavailable) || x.far.Len(0) != 1020 {
			t.Fatalf("%d tokens after %v, want 1020 and ErrUnavailable", x.far.Len(0), err)
		}
		sameBits(t, "dst", dst.Data, make([]float32, len(dst.Data)))
	}
	h.set(nil)
	for range 3 {
		x.step(0, 3, bottomRight)
		x.step(1, 1, bottomRight)
	}
	x.attendAll()
	x.far.Release()
	q, k := b.tensor(2, 1, 16), b.tensor(1, 1, 16)
	refusal{attn.ErrClosed, "the sequence was released"}.check(t, "Step after Release",
		x.far.Step(context.Background(), 0, x.out(1), q, k, k, nil))
	b.empties()
}

// Steps fill workers to the last pages: parts move within a step, and where nobody has memory the
// error says so.
func TestStepsFillWorkers(t *testing.T) {
	for copies := 1; copies <= 2; copies++ {
		t.Run(fmt.Sprint(copies), func(t *testing.T) {
			t.Parallel()
			c := patient
			c.Copies = copies
			b := newBench(t, 0, c)
			for i := range 3 {
				b.memory = int64(i+2) << 18
				b.start(fmt.Sprint("w", i))
			}
			must(t, b.client.Wait(context.Background(), 3))
			x := b.twin(small, 2)
			full := false
			for !full {
				for layer := range x.config.Layers {
					full = full || x.fill(layer, 40)
				}
			}
			if least := 3 << 18 / (3 * 128 * copies); x.far.Len(0) < least {
				t.Errorf("workers are full with %d tokens, want at least %d", x.far.Len(0), least)
			}
			x.attendAll()
			b.memory = 1 << 22
			b.start("w3")
			must(t, b.client.Wait(context.Background(), 4))
			for layer := range x.config.Layers { // the last part moves
				x.step(layer, 40, bottomRight)
			}
			must(t, x.far.Truncate(context.Background(), 100))
			for _, s := range x.near {
				must(t, s.Truncate(100))
			}
			x.step(0, 200, bottomRight)
			x.attendAll()
		})
	}
}

// Where the worker of one copy is full, steps go on with the other, also if that is asked second.
func TestStepBesideAFullCopy(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0, patient)
	b.memory = 1 << 18 // some 680 tokens
	b.start("w0")
	b.memory = 1 << 22
	b.start("w1")
	must(t, b.client.Wait(context.Background(), 2))
	x := b.twin(small, 2)
	x.append(1)
	x.far.mu.Lock()
	slices.SortFunc(x.far.parts[0].copies, func(a, b *partCopy) int {
		return strings.Compare(a.worker, b.worker) // w0 is asked first
	})
	x.far.mu.Unlock()
	for range 18 {
		for layer := range x.config.Layers {
			x.step(layer, 50, bottomRight)
		}
	}
	x.attendAll()
}

// fill adds tokens in a step if there is memory for them, and reports whether there is none.
func (t *twin) fill(layer, n int) (full bool) {
	t.Helper()
	before := t.far.Len(layer)
	q, k, dst := t.tensor(t.heads, n, 16), t.tensor(1, n, 16), t.out(n)
	err := t.far.Step(context.Background(), layer, dst, q, k, k, &bottomRight)
	if err != nil {
		if !errors.Is(err, attn.ErrCapacity) || t.far.Len(layer) != before {
			t.Fatalf("%d tokens, and %d before, after %v", t.far.Len(layer), before, err)
		}
		return true
	}
	must(t, t.near[layer].Append(k, k))
	want := t.out(n)
	must(t, attn.AttendSequences(want, q, t.near[layer:layer+1], &attn.Options{
		Causal: attn.BottomRight, QueryLens: []int{n}}))
	sameBits(t, "outputs", dst.Data, want.Data)
	return false
}

// Steps whose tokens no query sees, without queries, without tokens, or of more rows than a message
// has, append and attend one after another.
func TestStepWithoutRide(t *testing.T) {
	t.Parallel()
	c := quick
	c.Chunk = 3000
	b := newBench(t, 2, c)
	x := b.twin(small, 2)
	x.append(1500)
	x.step(0, 70, bottomRight)
	x.step(0, 0, bottomRight)
	k, none := b.tensor(1, 2, 16), b.tensor(2, 0, 16)
	far := attn.Options{Causal: attn.TopLeft, Offset: 5} // the end is hidden
	q, got, want := b.tensor(2, 2, 16), x.out(2), x.out(2)
	must(t, x.far.Step(context.Background(), 0, got, q, k, k, &far))
	must(t, x.far.Attend(context.Background(), 0, want, q, &far))
	sameBits(t, "outputs that see only the beginning", got.Data, want.Data)
	must(t, x.near[0].Append(k, k))
	must(t, x.near[0].Append(k, k))
	must(t, x.far.Step(context.Background(), 0, x.out(0), none, k, k, nil))
	x.attend(0, 3, bottomRight)
}
