package cluster

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
)

// Calls that lock the same copies in different orders, while other calls wait to change one of
// them, never deadlock.
func TestLocksOfManyCopies(t *testing.T) {
	var copies []*part
	for n := range uint64(2) {
		copies = append(copies, newPart(createRequest{copy: n, tokens: 1024,
			shape: shape{1, 1, 4, 4, attn.F32, attn.F32, false}}, new(arena)))
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			all := []reach{{part: copies[i%2], asked: &attendPart{}},
				{part: copies[(i+1)%2], asked: &attendPart{}}}
			for range 20000 {
				unlock, _, err := lockAll(0, all)
				if err != nil {
					t.Errorf("the error is %v", err)
					return
				}
				unlock()
			}
		})
		wg.Go(func() {
			for range 20000 {
				copies[i%2].lengths()
				_ = copies[i%2].truncate(&truncateRequest{lengths: []uint32{0}})
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("calls wait for each other")
	}
}

// What joins others has their shape and is there once, or the group has no state, and says why.
func TestRefusedGroups(t *testing.T) {
	l, id := new(loop), clientID{1}
	w, err := NewWorker(l, WorkerConfig{Name: "w", Memory: 1 << 24, Threads: 1})
	must(t, err)
	defer w.Close()
	for n, dim := range []int{4, 4, 8} {
		for _, request := range [][]byte{
			(&createRequest{copy: uint64(n), tokens: 1024, lease: 60000,
				shape: shape{1, 1, dim, 4, attn.F32, attn.F32, false}}).encode(id),
			(&appendRequest{copy: uint64(n), pieces: []tokenPiece{{tokens: 64,
				k: make([]byte, 64*4*dim), v: make([]byte, 64*4*4)}}}).encode(id),
		} {
			reply, err := l.Call(context.Background(), "w", request)
			must(t, err)
			_, err = decodeReply("w", reply)
			must(t, err)
		}
	}
	for name, x := range map[string]struct {
		parts []attendPart
		errs  []refusal
	}{
		"itself": {[]attendPart{{copy: 1, keys: 64}, {copy: 1, keys: 64}},
			[]refusal{{}, {ErrProtocol, "copy 1 joins itself"}}},
		"another shape": {[]attendPart{{copy: 0, keys: 64}, {copy: 2, keys: 64}},
			[]refusal{{}, {attn.ErrShape, "copy 2 is"}}},
		"an old epoch": {[]attendPart{{copy: 1, keys: 64, epoch: 1}, {copy: 0, keys: 64}},
			[]refusal{{errStale, "epoch 0, want 1"}, {}}},
		"a key too many": {[]attendPart{{copy: 0, keys: 64}, {copy: 1, keys: 65}},
			[]refusal{{}, {errStale, "want at most 64"}}},
	} {
		r := attendRequest{heads: 1, rows: 1, q: make([]float32, 4),
			groups: []attendGroup{{parts: x.parts}}}
		reply, err := l.Call(context.Background(), "w", r.encode(id))
		must(t, err)
		a, err := outcomes(r.encode(id), reply)
		must(t, err)
		for i, want := range x.errs {
			got := a.attends[0].groups[0].errors[i]
			if want.kind != nil {
				want.check(t, name, got)
			} else if got != nil {
				t.Errorf("%s: a part that is there has the error %v", name, got)
			}
		}
	}
}

// Copies that are asked for together go in one update up to keys that no query sees, but each alone
// if there is something for pairs.
func TestInOneUpdate(t *testing.T) {
	plain, gap := reach{part: new(part)}, reach{}
	for _, x := range []struct {
		pairs pairHeads
		all   []reach
		want  int
	}{
		{pairHeads{}, []reach{plain, plain, plain}, 3}, {pairHeads{}, []reach{plain, plain, gap}, 2},
		{pairHeads{}, []reach{gap, plain}, 1}, {pairHeads{mask: 1}, []reach{plain, plain}, 1},
		{pairHeads{bias: 1}, []reach{plain, plain}, 1}, {pairHeads{blocks: 1}, []reach{plain, plain}, 1},
	} {
		r := attendRequest{pairs: x.pairs}
		if n := r.inOneUpdate(x.all); n != x.want {
			t.Errorf("%d of %d copies go in one update, want %d", n, len(x.all), x.want)
		}
	}
}
