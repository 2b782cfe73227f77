package cluster

import (
	"context"
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
		for i, got := range elements(f, raw) {
			if math.Float32bits(got) != math.Float32bits(want[i]) && (got == got || want[i] == want[i]) {
				t.Fatalf("%v: %x becomes %v, want %v", f, math.Float32bits(x[i]), got, want[i])
			}
		}
	}
}

// What is appended in 16 bits takes half the bytes of float32 on its way.
func TestAppendsInHalf(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, ClientConfig{Copies: 1, Segments: 1})
	sent := func(f attn.Format) uint64 {
		s, err := b.client.NewSequence(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 32, ValueDim: 16,
			Format: f})
		must(t, err)
		defer s.Release()
		conn := b.client.transport.(*NATS).Conn()
		before := conn.Stats().OutBytes
		must(t, s.Append(context.Background(), 0, b.tensor(2, 1000, 32), b.tensor(2, 1000, 16)))
		return conn.Stats().OutBytes - before
	}
	for f, bytes := range map[attn.Format]uint64{attn.F32: 4, attn.F16: 2, attn.BF16: 2} {
		if got, want := sent(f), bytes*1000*2*(32+16); got < want || got > want+want/50 {
			t.Errorf("%v: %d bytes were sent, want %d and a little", f, got, want)
		}
	}
}
