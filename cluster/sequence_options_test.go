package cluster

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/cluster/embedded"
)

// Options at the limits of their domains, and beyond them, give what one machine gives: the same
// bits, or an error of package attn at once.
func TestOptionsAtTheirLimits(t *testing.T) {
	for _, format := range []attn.Format{attn.F32, attn.I8} {
		c := quick
		c.Chunk = 4 * 4 * 18 * 5 // states of five rows
		b := newBench(t, 3, c)
		x := b.twin(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 16, ValueDim: 16, Format: format}, 4)
		const keys = 3 * 1024
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		k, v := b.tensor(2, keys, 16), b.tensor(2, keys, 16)
		near, err := attn.NewCache(attn.CacheConfig{Batch: 1, KVHeads: 2, HeadDim: 16, ValueDim: 16,
			Capacity: keys, Format: format})
		must(t, err)
		must(t, near.Append(k, v))
		must(t, x.far.Append(ctx, 0, k, v))
		works := 0
		for range 400 {
			rows := 1 + b.rand.IntN(8)
			if b.compare(t, x.far, near, rows, b.anyOptions(rows, keys, format == attn.I8)) {
				works++
			}
		}
		if works < 50 {
			t.Errorf("%d of 400 calls have results, want more: the test shows little", works)
		}
	}
}

// anyOptions are numbers of which many are at a limit. An error is likely in one of two.
func (b *bench) anyOptions(rows, keys int, int8 bool) attn.Options {
	small, large, inf := float32(1e-45), float32(math.MaxFloat32), float32(math.Inf(1))
	nan := float32(math.NaN())
	positions := []int{0, 1, rows, keys - rows, keys, -1, -keys, most - keys, most - 1, most, 1 - most,
		-most, 1024 - most}
	o := attn.Options{
		Scale:   oneOf(b, 9, []float32{0, 1, -0.3, 1e-30, large / 2}, large, inf, nan),
		Causal:  oneOf(b, 15, []attn.Causal{attn.Full, attn.TopLeft, attn.BottomRight}, -1, 3),
		Softcap: oneOf(b, 9, []float32{0, 0, 0, 3, large}, small, -1, inf, nan),
		Int8:    int8 && b.rand.IntN(2) == 0,
	}
	if !o.Int8 && b.rand.IntN(9) == 0 {
		o.Scale = small
	}
	if o.Causal != attn.BottomRight || b.rand.IntN(9) == 0 {
		o.Offset = oneOf(b, 9, positions, most+1, -most-1, math.MaxInt, math.MinInt, 2*most)
	}
	if b.rand.IntN(2) == 0 {
		sides := append([]int{2*most - 1, 2 * most, 2*most + 1, math.MaxInt, math.MaxInt - 1, 700},
			positions[:5]...)
		o.Window = &attn.Window{Left: oneOf(b, 15, append(sides, -1), -2, math.MinInt),
			Right: oneOf(b, 15, append(sides, -1), -2, math.MinInt)}
	}
	each := func(usual []float32, limits ...float32) (x []float32) {
		for range oneOf(b, 9, []int{4}, 3, 0) {
			x = append(x, oneOf(b, 9, usual, limits...))
		}
		return x
	}
	if b.rand.IntN(4) == 0 {
		o.Slopes = each([]float32{0, 0.1, -0.01, 1e-9, small}, 1, 1e30, large, inf, nan)
	}
	if b.rand.IntN(4) == 0 {
		o.Sinks = each([]float32{0, 1, -3}, large, -large, inf, -inf, nan)
	}
	if b.rand.IntN(4) == 0 {
		m := attn.BHLD(make([]bool, rows*keys), 1, 1, rows, keys)
		for i := range m.Data {
			m.Data[i] = i%5 > 0
		}
		m.SB, m.SH = oneOf(b, 9, []int{0, 1, math.MaxInt}, -1), oneOf(b, 9, []int{0, math.MaxInt}, -1)
		o.Mask = &m
	}
	if b.rand.IntN(4) == 0 {
		x := b.tensor(4, rows, keys)
		for range keys / 100 {
			x.Data[b.rand.IntN(len(x.Data))] = oneOf(b, 9, []float32{-inf, 1}, large, -large)
		}
		x = attn.BHLD(x.Data, 1, 4, rows, keys)
		x.SH = oneOf(b, 9, []int{x.SH}, -1, math.MaxInt)
		o.Bias = &x
	}
	return o
}

// oneOf is one of the usual values, one time in rare one of the limits.
func oneOf[T any](b *bench, rare int, usual []T, limits ...T) T {
	if len(limits) > 0 && b.rand.IntN(rare) == 0 {
		return limits[b.rand.IntN(len(limits))]
	}
	return usual[b.rand.IntN(len(usual))]
}

// compare reports whether there is a result.
func (b *bench) compare(t *testing.T, x *Sequence, one *attn.Cache, rows int,
	opt attn.Options) bool {
	t.Helper()
	q, want, got := b.tensor(4, rows, 16), b.tensor(4, rows, 16), b.tensor(4, rows, 16)
	near := opt
	near.LSE, opt.LSE = make([]float32, 4*rows), make([]float32, 4*rows)
	err := one.Attend(want, q, &near)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	begin := time.Now()
	far := x.Attend(ctx, 0, got, q, &opt)
	kinds := []error{attn.ErrShape, attn.ErrLength, attn.ErrOption, attn.ErrStride,
		attn.ErrUnsupported}
	known := slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(far, kind) })
	if err != nil && !known || (err == nil) != (far == nil) || time.Since(begin) > 2*time.Second {
		t.Fatalf("%d rows, %+v, window %+v: after %v %v, want %v", rows, opt, opt.Window,
			time.Since(begin), far, err)
	}
	if err != nil {
		return false
	}
	for what, pair := range map[string][2][]float32{"outputs": {got.Data, want.Data},
		"LSE": {opt.LSE, near.LSE}} {
		for i, w := range pair[1] {
			if g := pair[0][i]; math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
				t.Fatalf("%d rows, %+v, window %+v: %s: element %d is %v, want %v", rows, opt, opt.Window,
					what, i, g, w)
			}
		}
	}
	return true
}

// Waits, sizes and numbers of threads may be as large as their types allow.
func TestConfigAtItsLimits(t *testing.T) {
	s, err := embedded.Start(new(server.Options))
	must(t, err)
	defer embedded.Stop(s)
	b := &bench{TB: t, url: s.ClientURL(), rand: quickRand()}
	w, err := NewWorker(b.dial(), WorkerConfig{Name: "w", Memory: math.MaxInt64,
		Sequences: math.MaxInt, Copies: math.MaxInt, Calls: math.MaxInt, Reply: math.MaxInt, Lease: math.MaxInt64,
		Threads: math.MaxInt / 2})
	must(t, err)
	defer w.Close()
	b.client, err = NewClient(b.dial(), ClientConfig{Copies: math.MaxInt, Segments: 1 << 18,
		Patience: math.MaxInt64, Gone: math.MaxInt64, Lease: (1 << 32) * time.Millisecond,
		Timeout: math.MaxInt64, Chunk: math.MaxInt})
	must(t, err)
	defer b.client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	must(t, b.client.Wait(ctx, 1))
	far, err := b.client.NewSequence(SequenceConfig{Layers: 1, KVHeads: 1, HeadDim: 8, ValueDim: 8})
	must(t, err)
	x := b.tensor(1, 1500, 8)
	must(t, far.Append(ctx, 0, x, x))
	must(t, far.Attend(ctx, 0, b.tensor(1, 1500, 8), x, nil))
	b.client.mu.Lock()
	id := b.client.id
	b.client.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if lease := w.clients[id].lease; lease < time.Hour {
		t.Errorf("the lease is %v, want what the client asks for", lease)
	}
	far.mu.Lock()
	far.lengths[0], far.taken[0] = most-1, most-1
	far.mu.Unlock()
	two := b.tensor(1, 2, 8)
	refusal{attn.ErrLength, "k.L is 2 after 268435455 tokens, want at most 268435456 in all"}.check(t,
		"more than a sequence has", far.Append(ctx, 0, two, two))
	far.mu.Lock()
	far.lengths[0], far.taken[0] = 1500, 1500
	far.mu.Unlock()
}

// What workers will never take, and what must not be sent, is an error at once.
func TestRefusalsAreNotRepeated(t *testing.T) {
	b := newBench(t, 2, quick)
	f, client := b.faulty(quick, 2)
	s, err := client.NewSequence(small)
	must(t, err)
	x := b.tensor(1, 3, 16)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	must(t, s.Append(ctx, 0, x, x))
	f.set("*", func(context.Context, []byte) ([]byte, error) {
		return errorReply(fail(ErrProtocol, "what is that?")), nil
	})
	other, err := client.NewSequence(small)
	must(t, err)
	for name, call := range map[string]func() error{
		"Attend": func() error { return s.Attend(ctx, 0, b.tensor(1, 3, 16), x, nil) },
		"Append": func() error { return s.Append(ctx, 0, x, x) },
		"create": func() error { return other.Append(ctx, 0, x, x) },
	} {
		begin := time.Now()
		refusal{ErrProtocol, "what is that?"}.check(t, name, call())
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("%s: the error comes after %v", name, took)
		}
	}
	f.set("", nil)
}

// A client that may not send to workers says so at once.
func TestDenied(t *testing.T) {
	account := server.NewAccount("one")
	deaf := permissions("attn", false)
	deaf.Publish.Allow = []string{"attn.hello"}
	s, err := embedded.Start(&server.Options{Accounts: []*server.Account{account},
		Users: []*server.User{
			{Username: "worker", Password: "w", Account: account, Permissions: permissions("attn", true)},
			{Username: "client", Password: "c", Account: account, Permissions: deaf},
		}})
	must(t, err)
	defer embedded.Stop(s)
	dial := func(user, password string) *NATS {
		link, err := DialNATS(NATSConfig{URL: s.ClientURL(),
			Options: []nats.Option{nats.UserInfo(user, password),
				nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}})
		must(t, err)
		t.Cleanup(func() { _ = link.Close() })
		return link
	}
	w, err := NewWorker(dial("worker", "w"), WorkerConfig{Name: "w", Memory: 1 << 24, Threads: 1})
	must(t, err)
	defer w.Close()
	c, err := NewClient(dial("client", "c"), quick)
	must(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	must(t, c.Wait(ctx, 1))
	far, err := c.NewSequence(small)
	must(t, err)
	b := &bench{TB: t, rand: quickRand()}
	x := b.tensor(1, 1, 16)
	begin := time.Now()
	err = far.Append(ctx, 0, x, x)
	refusal{ErrUnavailable, `Permissions Violation for Publish to "attn.worker.w"`}.check(t, "Append",
		err)
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("the error comes after %v", took)
	}
}
