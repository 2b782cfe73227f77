package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
)

// small is a sequence with pages of 8 KiB for each layer, and parts of 128 KiB.
var small = SequenceConfig{Layers: 3, KVHeads: 1, HeadDim: 16, ValueDim: 16}

// appendAtOnce adds tokens to all layers of both sequences, in the cluster at the same time. If
// there is an error, neither has more tokens.
func (t *twin) appendAtOnce(n int) error {
	t.Helper()
	before := t.near[0].Len()
	errs := make([]error, t.config.Layers)
	var wg sync.WaitGroup
	for layer := range t.config.Layers {
		k, v := t.tensor(t.config.KVHeads, n, t.config.HeadDim), t.tensor(t.config.KVHeads, n,
			t.config.ValueDim)
		must(t, t.near[layer].Append(k, v))
		wg.Go(func() { errs[layer] = t.far.Append(context.Background(), layer, k, v) })
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil {
		return nil
	}
	if t.far.longest() > before {
		must(t, t.far.Truncate(context.Background(), before))
	}
	for layer := range t.config.Layers {
		must(t, t.near[layer].Truncate(before))
		if n := t.far.Len(layer); n != before {
			t.Fatalf("layer %d has %d tokens, want %d", layer, n, before)
		}
	}
	return err
}

func (s *Sequence) longest() (n int) {
	for layer := range s.layers {
		n = max(n, s.Len(layer))
	}
	return n
}

// attendAll compares all layers.
func (t *twin) attendAll() {
	t.Helper()
	for layer := range t.config.Layers {
		t.attend(layer, 2, bottomRight)
	}
}

// Sequences fill small workers to the last pages, with parts that move where there is room. Then it
// is an error that there is no memory, until a sequence goes.
func TestFullWorkers(t *testing.T) {
	for copies := 1; copies <= 2; copies++ {
		t.Run(fmt.Sprint(copies), func(t *testing.T) {
			t.Parallel()
			c := patient
			c.Copies, c.Chunk = copies, 50*128 // so that an append has several messages to a part
			b := newBench(t, 0, c)
			capacity := int64(0)
			for i := range 3 {
				b.memory = int64(i+2) << 19
				b.start(fmt.Sprint("w", i))
				capacity += b.memory
			}
			must(t, b.client.Wait(context.Background(), 3))
			all := []*twin{b.twin(small, 2), b.twin(small, 2), b.twin(small, 2)}
			full := 0
			for i := 0; full < 12; i++ {
				x := all[b.rand.IntN(len(all))]
				if err := x.appendAtOnce(1 + b.rand.IntN(200)); err == nil {
					full = 0
				} else if full++; !errors.Is(err, attn.ErrCapacity) {
					t.Fatal(err)
				}
				x.attendAll()
			}
			tokens := int64(0)
			for _, x := range all {
				tokens += int64(x.far.Len(0))
				x.attendAll()
			}
			bytes := tokens * 3 * 2 * 16 * 4
			if 10*bytes*int64(copies) < 8*capacity {
				t.Errorf("%d copies of %d bytes of tokens fill %d bytes", copies, bytes, capacity)
			}
			all[0].far.Release()
			b.empties()
			for range 5 {
				must(t, all[1].appendAtOnce(100))
				all[1].attendAll()
			}
		})
	}
}

// empties waits until workers have freed what clients have given up.
func (b *bench) empties() {
	b.Helper()
	b.client.mu.Lock()
	want := len(b.client.copies)
	b.client.mu.Unlock()
	b.eventually("workers have freed what is not needed", func() bool {
		n := 0
		for _, w := range b.workers {
			n += w.Status().Copies
		}
		return n <= want
	})
}

// A part whose workers are both full moves to one that came later, layers in parallel.
func TestMoves(t *testing.T) {
	for _, format := range []attn.Format{attn.F32, attn.I8} {
		b := newBench(t, 0, patient)
		b.memory = 1 << 19
		b.start("w0")
		b.start("w1")
		must(t, b.client.Wait(context.Background(), 2))
		config := small
		config.Format = format
		x := b.twin(config, 2)
		var err error
		for err == nil {
			err = x.appendAtOnce(50)
		}
		if !errors.Is(err, attn.ErrCapacity) {
			t.Fatal(err)
		}
		x.attendAll()
		length := x.far.Len(0)
		b.memory = 1 << 22
		b.start("w2")
		must(t, b.client.Wait(context.Background(), 3))
		for range 20 {
			must(t, x.appendAtOnce(50))
			x.attendAll()
		}
		if s := b.workers["w2"].Status(); s.Tokens < int64(x.far.Len(0)-length) {
			t.Errorf("%v: worker w2 has %d tokens, want at least those of %d to %d", format, s.Tokens,
				length, x.far.Len(0))
		}
	}
}

// Appends to layers that are concluded at the same time do not give up each other's copies.
func TestNoneIsLeft(t *testing.T) {
	b := newBench(t, 2, patient)
	x := b.twin(small, 2)
	x.append(100)
	p := x.far.parts[0]
	p.moving <- struct{}{} // so that no copy is made again meanwhile
	defer func() { <-p.moving }()
	copies := x.far.good(p)
	full := fail(attn.ErrCapacity, "full")
	one := map[*partCopy]outcome{copies[0]: {final: true}, copies[1]: {final: true, err: full}}
	two := map[*partCopy]outcome{copies[0]: {final: true, err: full}, copies[1]: {final: true}}
	if again, err := x.far.conclude(&ride{part: p}, copies, one); again || err != nil {
		t.Errorf("the first ends with %v, %v, want false and no error", again, err)
	}
	if again, err := x.far.conclude(&ride{part: p}, copies, two); !again || err == nil {
		t.Errorf("the second ends with %v, %v, want true: its copy was given up", again, err)
	}
	if good := x.far.good(p); len(good) != 1 || good[0] != copies[0] {
		t.Errorf("%d copies are left, want the one that took the first", len(good))
	}
	x.attendAll()
}

// What is done to undo an append to one layer disturbs no attention over another.
func TestAttendWhileUndone(t *testing.T) {
	c := patient
	c.Copies = 1
	b := newBench(t, 0, c)
	b.memory = 1 << 19
	b.start("w0")
	must(t, b.client.Wait(context.Background(), 1))
	config := small
	config.Layers = 2
	x := b.twin(config, 2)
	must(t, x.appendAtOnce(600))
	k := b.tensor(1, 4000, 16)
	undone := make(chan error)
	go func() {
		var err error
		for range 30 {
			if err = x.far.Append(context.Background(), 1, k, k); !errors.Is(err, attn.ErrCapacity) {
				break
			}
		}
		undone <- err
	}()
	for {
		x.attend(0, 1, bottomRight)
		select {
		case err := <-undone:
			if !errors.Is(err, attn.ErrCapacity) {
				t.Fatal(err)
			}
			x.attend(1, 1, bottomRight)
			return
		default:
		}
	}
}

// A worker that is nearly full hands copies on to one that comes, until it is no longer so.
func TestLevel(t *testing.T) {
	t.Parallel()
	c := quick
	c.Copies = 1
	b := newBench(t, 0, c)
	b.memory = 1 << 20
	full := b.start("w0")
	must(t, b.client.Wait(context.Background(), 1))
	x := b.twin(small, 2)
	share := func(w *Worker) float64 {
		s := w.Status()
		return 1 - float64(s.Free())/float64(s.Memory)
	}
	for share(full) < 0.95 {
		must(t, x.appendAtOnce(20))
	}
	b.memory = 1 << 22
	other := b.start("w1")
	b.eventually("w0 is less than nine tenths full", func() bool { return share(full) < nearlyFull })
	if share(other) == 0 || share(other) > fairlyEmpty {
		t.Errorf("w1 is %v full", share(other))
	}
	x.attendAll()
	copies := full.Status().Copies
	time.Sleep(2 * c.Gone) // enough for another move
	if now := full.Status().Copies; now != copies {
		t.Errorf("w0 has %d copies, and %d before: what is enough is not left alone", now, copies)
	}
	must(t, x.appendAtOnce(100))
	x.attendAll()
}
