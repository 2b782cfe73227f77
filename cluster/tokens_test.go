package cluster

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/seed-1415985d/attn"
)

// edges are numbers at which rounding to 16 bits differs, and random ones of all magnitudes.
func edges() (x []float32) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, b := range []uint32{0, 1, 0x00800000, 0x33000000, 0x33000001, 0x387fc000, 0x387fe000,
		0x38800000, 0x3f800000, 0x3f801000, 0x3f801001, 0x3f803000, 0x3f808000, 0x3f818000, 0x477fe000,
		0x477fefff, 0x477ff000, 0x7f7fffff, 0x7f7f8000, 0x7f800000, 0x7fc00000, 0x7f800001, 0x7fffffff} {
		x = append(x, math.Float32frombits(b), math.Float32frombits(b|1<<31))
	}
	for range 10000 {
		x = append(x, math.Float32frombits(r.Uint32()))
	}
	return x
}

// Elements that are rounded before they travel are what a cache makes of them.
func TestElementsTravel(t *testing.T) {
	x := edges()
	for f, bytes := range map[attn.Format]int{attn.F32: 4, attn.F16: 2, attn.BF16: 2, attn.I8: 4,
		attn.I4: 4} {
		raw := appendElements(nil, f, x)
		if len(raw) != bytes*len(x) {
			t.Fatalf("%v: %d bytes for %d elements, want %d each", f, len(raw), len(x), bytes)
		}
		want := x
		if f == attn.F16 || f == attn.BF16 {
			c, err := attn.NewCache(attn.CacheConfig{Batch: 1, KVHeads: 1, HeadDim: 1, ValueDim: 1,
				Capacity: len(x), Format: f})
			must(t, err)
			all := attn.BHLD(x, 1, 1, len(x), 1)
			must(t, c.Append(all, all))
			want = make([]float32, len(x))
			must(t, c.Read(attn.BHLD(want, 1, 1, len(x), 1), attn.BHLD(make([]float32, len(x)), 1, 1,
				len(x), 1), 0))
			must(t, c.Close())
		}
		for i, got := range elements(f, raw, nil) {
			if math.Float32bits(got) != math.Float32bits(want[i]) && (got == got || want[i] == want[i]) {
				t.Fatalf("%v: %x becomes %v, want %v", f, math.Float32bits(x[i]), got, want[i])
			}
		}
	}
}

// Appended tokens are sent in the bytes of their format; tokens outside of whole blocks, or that
// begin no run, are sent as elements.
func TestAppendedBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, ClientConfig{Copies: 1, Segments: 2})
	send := func(f attn.Format, n int) (sent uint64) {
		s := b.twin(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 64, ValueDim: 64, Format: f}, 2)
		defer s.far.Release()
		conn := b.client.transport.(*NATS).Conn()
		s.append(3) // so that copies are there
		before := conn.Stats().OutBytes
		s.append(n)
		sent = conn.Stats().OutBytes - before
		s.attend(0, 2, attn.Options{Causal: attn.BottomRight})
		return sent
	}
	for f, bytes := range map[attn.Format][2]int{attn.F32: {1024, 1024}, attn.F16: {512, 512},
		attn.BF16: {512, 512}, attn.I8: {1024, 272}, attn.I4: {1024, 144}} {
		want := 30 * bytes[0]
		if got := int(send(f, 30)); got < want || got > want+want/50+512 {
			t.Errorf("%v: %d bytes were sent for elements, want %d and a little", f, got, want)
		}
		want = (2045+30)*bytes[0] + (1024+128)*bytes[1]
		if got := int(send(f, 2045+1024+128+30)); got < want || got > want+want/50 {
			t.Errorf("%v: %d bytes were sent, want %d and a little", f, got, want)
		}
	}
}

// Runs and elements come twice, in part and in another order, and the layer has each token once.
func TestRunsTwice(t *testing.T) {
	b := &bench{TB: t, rand: quickRand()}
	s := &Sequence{shape: shape{1, 2, 8, 8, attn.I8, attn.I4, false}, long: attn.Segment}
	l := new(loop)
	w, err := NewWorker(l, WorkerConfig{Name: "w", Memory: 1 << 24, Threads: 1})
	must(t, err)
	defer w.Close()
	ask := func(request []byte) ([]changeReply, error) {
		reply, _ := l.Call(context.Background(), "w", request)
		x, err := outcomes(request, reply)
		return x.changes, err
	}
	_, err = ask((&createRequest{tokens: 8192, lease: 60000, shape: s.shape}).encode(clientID{}))
	must(t, err)
	w.clients[clientID{}].copies[0].long = s.long
	const n = 4000
	k, v := b.tensor(2, n, 8), b.tensor(2, n, 8)
	for _, x := range []struct {
		from, to, length int
		err              error
	}{
		{0, 1000, 1000, nil}, {0, 1000, 1000, nil}, {900, 1100, 1100, nil}, {1000, 1100, 1100, nil},
		{1024, 3000, 0, errStale}, // its first run begins before the end
		{1100, 3000, 3000, nil}, {1100, 3000, 3000, nil}, {1000, 3100, 0, errStale},
		{3000, 3100, 3100, nil},
		{3200, 3300, 0, errStale}, {3100, 4000, 4000, nil},
	} {
		r := appendRequest{position: x.from}
		r.pieces, err = (&call{Sequence: s, k: k, v: v}).pieces(x.from, x.to-x.from, x.from)
		must(t, err)
		got, err := ask(r.encode(clientID{}))
		if !errors.Is(err, x.err) || err == nil && got[0].length != x.length {
			t.Fatalf("tokens %d to %d: %d tokens are there, %v, want %d, %v", x.from, x.to, got, err,
				x.length, x.err)
		}
	}
}

// Tokens that fit a worker's free pages are taken also where these do not lie side by side.
func TestPagesApart(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0, ClientConfig{Copies: 1, Segments: 1})
	c := SequenceConfig{Layers: 1, KVHeads: 1, HeadDim: 64, ValueDim: 64}
	b.memory = 15*64*2*64*4 + 4096
	b.start("w")
	must(t, b.client.Wait(context.Background(), 1))
	x := b.twin(c, 1)
	x.append(15 * 64) // stores of 8, 4, 2 pages and 1
	x.attend(0, 3, attn.Options{Causal: attn.BottomRight})
	err := x.far.Append(context.Background(), 0, b.tensor(1, 1, 64), b.tensor(1, 1, 64))
	refusal{attn.ErrCapacity, "are free"}.check(t, "one more", err)
}
