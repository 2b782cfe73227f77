package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
)

// A worker that is closed while calls of all kinds come waits for those that it has begun, refuses
// the others, and keeps nothing: whether a transport goes on calling it or not.
func TestCloseBesideCalls(t *testing.T) {
	b := newBench(t, 0, quick)
	for name, link := range map[string]func() Transport{
		"NATS": func() Transport { return b.dial() }, "loop": func() Transport { return new(loop) },
	} {
		t.Run(name, func(t *testing.T) {
			for range 15 {
				closeBesideCalls(t, link(), b.dial())
			}
		})
	}
}

func closeBesideCalls(t *testing.T, link Transport, caller Transport) {
	w, err := NewWorker(link, WorkerConfig{Name: "w", Memory: 1 << 24, Threads: 1,
		Announce: time.Millisecond})
	must(t, err)
	if l, ok := link.(*loop); ok {
		caller = l
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := uint64(0); ctx.Err() == nil; n++ {
				id := clientID{byte(i)}
				for _, request := range lifeOfACopy(id, n) {
					_, _ = caller.Call(ctx, "w", request)
				}
			}
		})
	}
	time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
	w.Close()
	after := w.Status()
	time.Sleep(time.Millisecond)
	cancel()
	wg.Wait()
	for _, s := range []Status{after, w.Status()} {
		if s.Copies != 0 || s.Clients != 0 || s.Used != 0 || s.Running != 0 || s.Calls != after.Calls {
			t.Fatalf("%+v after it was closed, want nothing, and %d calls", s, after.Calls)
		}
	}
	_ = link.(interface{ Close() error }).Close()
}

// Close implements Transport.
func (l *loop) Close() error { return nil }

// lifeOfACopy are requests about a copy, which stays.
func lifeOfACopy(id clientID, n uint64) [][]byte {
	return [][]byte{
		(&createRequest{copy: n, sequence: n / 3, tokens: 1024, lease: 60000,
			shape: shape{1, 1, 4, 4, attn.F32, attn.F32, false}}).encode(id),
		(&appendRequest{copy: n, pieces: []tokenPiece{{tokens: 2,
			k: make([]byte, 32), v: make([]byte, 32)}}}).encode(id),
		(&attendRequest{heads: 1, rows: 1, q: make([]float32, 4),
			groups: apart(attendPart{copy: n, keys: 2})}).encode(id),
		encodeRequest(opStatus, id, nothing{}),
	}
}

// What a worker counts as copies come and go is what it has.
func TestCounts(t *testing.T) {
	l := new(loop)
	w, err := NewWorker(l, WorkerConfig{Name: "w", Memory: 1 << 24, Threads: 1, Sequences: 20,
		Copies: 100})
	must(t, err)
	defer w.Close()
	random := rand.New(rand.NewPCG(7, 8))
	for range 5000 {
		id, n := clientID{byte(random.IntN(3))}, uint64(random.IntN(60))
		request := (&createRequest{copy: n, sequence: n % 17, tokens: 1024, lease: 60000,
			shape: shape{1 + int(n%2), 1, 4, 4, attn.F32, attn.F32, false}}).encode(id)
		switch random.IntN(40) {
		case 0:
			w.drop(id)
			continue
		case 1:
			request = (&renewRequest{60000, 60, []uint64{n, n + 1, n + 2}}).encode(id)
		case 2, 3, 4, 5, 6, 7, 8, 9, 10, 11:
			request = (&releaseRequest{[]uint64{n, n + 1}}).encode(id)
		}
		_, err := l.Call(context.Background(), "w", request)
		must(t, err)
		if got := w.count(); w.kept != got {
			t.Fatalf("%+v are counted, want %+v", w.kept, got)
		}
	}
}

// count counts what there is.
func (w *Worker) count() (k kept) {
	for _, o := range w.clients {
		sequences := map[uint64]bool{}
		for _, p := range o.copies {
			k.copies++
			k.layers += p.shape.Layers
			sequences[p.sequence] = true
		}
		k.sequences += len(sequences)
	}
	return k
}

// Making a copy needs the same time for any number of copies. If each were looked at, these would
// need a minute.
func TestManyCopies(t *testing.T) {
	begin := time.Now()
	createMany(t, 30000)
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("30000 copies took %v", took)
	}
}

// BenchmarkCreate measures how long it takes to make one of as many copies.
func BenchmarkCreate(b *testing.B) {
	for _, copies := range []int{1024, 65536} {
		b.Run(fmt.Sprint(copies), func(b *testing.B) {
			for b.Loop() {
				createMany(b, copies)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*copies), "ns/copy")
		})
	}
}

// createMany makes copies of 4096 sequences on one worker.
func createMany(t testing.TB, copies int) {
	l := new(loop)
	w, err := NewWorker(l, WorkerConfig{Name: "w", Memory: 1 << 24, Threads: 1})
	must(t, err)
	defer w.Close()
	for n := range uint64(copies) {
		reply, err := l.Call(context.Background(), "w", (&createRequest{copy: n, sequence: n % 4096,
			tokens: 1024, lease: 60000,
			shape: shape{1, 1, 4, 4, attn.F32, attn.F32, false}}).encode(clientID{1}))
		must(t, err)
		_, err = decodeReply("w", reply)
		must(t, err)
	}
	if s := w.Status(); s.Copies != copies || s.Sequences != min(copies, 4096) {
		t.Fatalf("%d copies of %d sequences, want %d of %d", s.Copies, s.Sequences, copies,
			min(copies, 4096))
	}
}
