package cluster

import (
	"context"
	"errors"
	"math"
	"reflect"
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

// Each field of attn.Options is obeyed, with the bits of one machine, or refused by its name.
func TestEveryOption(t *testing.T) {
	b := newBench(t, 2, quick)
	const heads, rows, keys = 4, 3, 1500
	s, err := b.client.NewSequence(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 16, ValueDim: 16,
		Format: attn.I8})
	must(t, err)
	cache, err := attn.NewCache(attn.CacheConfig{Batch: 1, KVHeads: 2, HeadDim: 16, ValueDim: 16,
		Capacity: keys, Format: attn.I8})
	must(t, err)
	k, v := b.tensor(2, keys, 16), b.tensor(2, keys, 16)
	must(t, s.Append(context.Background(), 0, k, v))
	must(t, cache.Append(k, v))
	mask, bias := attn.BHLD(make([]bool, rows*keys), 1, 1, rows, keys), b.tensor(heads, rows, keys)
	for i := range mask.Data {
		mask.Data[i] = i%3 > 0
	}
	blocks := attn.BHLD(make([]bool, 24), 1, 1, 1, 24)
	for i := range blocks.Data {
		blocks.Data[i] = i%5 > 1
	}
	four := []float32{0.5, 0.25, 0.125, 0.01}
	values := map[string]attn.Options{
		"Scale": {Scale: -0.3}, "Causal": {Causal: attn.BottomRight},
		"Offset": {Causal: attn.TopLeft, Offset: 1100},
		"Window": {Window: attn.Window{Left: 3, Right: 1200}}, "Softcap": {Softcap: 2},
		"Mask": {Mask: mask}, "Bias": {Bias: bias}, "Slopes": {Slopes: four}, "Sinks": {Sinks: four},
		"Blocks":    {Blocks: blocks},
		"QueryLens": {QueryLens: []int{2}}, "KeyLens": {KeyLens: []int{99}},
		"LSE": {LSE: make([]float32, heads*rows)}, "Integers": {Integers: true},
		"Weights": {Weights: attn.BHLD(make([]float32, heads*rows*keys), 1, heads, rows, keys)},
	}
	q := b.tensor(heads, rows, 16)
	// run returns outputs, and LSE if it is asked for.
	run := func(o attn.Options, attend func(attn.Tensor, *attn.Options) error) ([]float32, error) {
		dst := b.tensor(heads, rows, 16)
		o.LSE = slices.Clone(o.LSE)
		err := attend(dst, &o)
		return append(dst.Data, o.LSE...), err
	}
	far := func(dst attn.Tensor, o *attn.Options) error {
		return s.Attend(context.Background(), 0, dst, q, o)
	}
	near := func(dst attn.Tensor, o *attn.Options) error { return cache.Attend(dst, q, o) }
	// Those that are refused, with what kind of error. A field that neither has a value above nor
	// stands here fails the test.
	refusals := map[string]error{"QueryLens": attn.ErrUnsupported, "KeyLens": attn.ErrUnsupported,
		"Weights": attn.ErrUnsupported, "Tree": attn.ErrOption, "Documents": attn.ErrOption,
		"KeyDocuments": attn.ErrOption, "Keys": attn.ErrOption, "BFloat16": attn.ErrOption,
		"Distance": attn.ErrOption}
	for i, field := range reflect.VisibleFields(reflect.TypeFor[attn.Options]()) {
		o := values[field.Name]
		kind, refuse := refusals[field.Name]
		if set := reflect.ValueOf(&o).Elem().Field(i); refuse && set.IsZero() {
			setField(set)
		}
		without := o
		value := reflect.ValueOf(&without).Elem().Field(i)
		if value.IsZero() {
			t.Errorf("%s has no value in this test, and is not one to be refused", field.Name)
			continue
		}
		value.SetZero()
		got, err := run(o, far)
		if refuse {
			refusal{kind, field.Name + " is set, want"}.check(t, field.Name, err)
			continue
		}
		must(t, err)
		want, err := run(o, near)
		must(t, err)
		sameBits(t, field.Name, got, want)
		if other, err := run(without, near); err != nil || slices.Equal(got, other) {
			t.Errorf("%s: without it the result is the same, or the error %v", field.Name, err)
		}
	}
}

// setField gives an option a value that is not the zero value: true, a list of one, or a view with
// a batch entry.
func setField(x reflect.Value) {
	switch x.Kind() {
	case reflect.Bool:
		x.SetBool(true)
	case reflect.Slice:
		x.Set(reflect.MakeSlice(x.Type(), 1, 1))
	case reflect.Struct:
		view := x
		if !x.FieldByName("B").IsValid() { // a struct of views
			view = x.Field(0)
		}
		view.FieldByName("B").SetInt(1)
	}
}

// Arguments may be views of any layout, also where rows go in several steps.
func TestViews(t *testing.T) {
	c := quick
	c.Chunk = 4 * 4 * 18 * 2 // states of two rows
	b := newBench(t, 2, c)
	const keys, rows = 1200, 5
	far, err := b.client.NewSequence(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 16, ValueDim: 16})
	must(t, err)
	ctx := context.Background()
	k, v := padded(b.tensor(2, keys, 16)), contiguous(b.tensor(2, keys, 16))
	must(t, far.Append(ctx, 0, k, v))
	bias := contiguous(b.tensor(1, 1, keys))
	bias.L, bias.SB, bias.SH, bias.SL = rows, 0, -9, attn.Broadcast
	mask := attn.Mask{Data: make([]bool, keys), B: 1, H: 4, L: rows, D: keys, SB: math.MaxInt,
		SH: attn.Broadcast, SL: attn.Broadcast}
	for i := range mask.Data {
		mask.Data[i] = i%7 > 0
	}
	one := b.tensor(4, 1, 16)
	one.L, one.SL = rows, attn.Broadcast
	for name, q := range map[string]attn.Tensor{"rows": b.tensor(4, rows, 16), "repeated": one,
		"padded": padded(b.tensor(4, rows, 16)), "contiguous": contiguous(b.tensor(4, rows, 16))} {
		for _, dst := range []attn.Tensor{b.tensor(4, rows, 16), padded(b.tensor(4, rows, 16)),
			contiguous(b.tensor(4, rows, 16))} {
			want := b.tensor(4, rows, 16)
			o := attn.Options{Mask: mask, Bias: bias, Causal: attn.BottomRight,
				LSE: make([]float32, 4*rows)}
			near := o
			near.LSE = make([]float32, 4*rows)
			must(t, attn.Attend(want, q, k, v, &near))
			must(t, far.Attend(ctx, 0, dst, q, &o))
			sameBits(t, name, columns(&dst, 0, rows, 0, dst.D), columns(&want, 0, rows, 0, want.D))
			sameBits(t, name+": LSE", o.LSE, near.LSE)
		}
	}
}

// padded is a copy of a tensor with numbers between its rows and heads that are not its own.
func padded(x attn.Tensor) attn.Tensor {
	y := attn.Rows(make([]float32, x.L*(x.H*x.D+7)), 1, x.L, x.H, x.D, x.H*x.D+7)
	for i := range y.Data {
		y.Data[i] = float32(math.NaN())
	}
	for h := range x.H {
		for i := range x.L {
			copy(y.Row(0, h, i), x.Row(0, h, i))
		}
	}
	return y
}

// contiguous is a copy of a tensor, without strides.
func contiguous(x attn.Tensor) attn.Tensor {
	return attn.Tensor{Data: columns(&x, 0, x.L, 0, x.D), B: 1, H: x.H, L: x.L, D: x.D}
}

// Outputs that cannot be written as a whole are an error before a part of them is written, however
// few rows go in a step.
func TestOutputsAsAWhole(t *testing.T) {
	for _, stepRows := range []int{1, 2, 100} {
		c := quick
		c.Chunk = 4 * 4 * 18 * stepRows
		b := newBench(t, 1, c)
		far, err := b.client.NewSequence(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 16,
			ValueDim: 16})
		must(t, err)
		k, q := b.tensor(2, 9, 16), b.tensor(4, 5, 16)
		must(t, far.Append(context.Background(), 0, k, k))
		for name, x := range map[string]struct {
			change func(dst *attn.Tensor, o *attn.Options)
			refusal
		}{
			"repeated rows": {func(dst *attn.Tensor, _ *attn.Options) { dst.SL = attn.Broadcast },
				refusal{attn.ErrStride, "Broadcast"}},
			"a forgotten stride": {func(dst *attn.Tensor, _ *attn.Options) { dst.SL = 0 },
				refusal{attn.ErrShape, "dst.SL is 0"}},
			"rows within each other": {func(dst *attn.Tensor, _ *attn.Options) { dst.SL = 1 },
				refusal{attn.ErrStride, "dst"}},
			"too few elements": {func(dst *attn.Tensor, _ *attn.Options) { dst.Data = dst.Data[:319] },
				refusal{attn.ErrLength, "dst.Data"}},
			"LSE in dst": {func(dst *attn.Tensor, o *attn.Options) { o.LSE = dst.Data[300:] },
				refusal{attn.ErrOverlap, "LSE"}},
		} {
			dst, o := b.tensor(4, 5, 16), attn.Options{}
			x.change(&dst, &o)
			before := slices.Clone(dst.Data)
			x.check(t, name, far.Attend(context.Background(), 0, dst, q, &o))
			sameBits(t, name, dst.Data, before)
		}
	}
}

// anyOptions are numbers of which many are at a limit. An error is likely in one of two.
func (b *bench) anyOptions(rows, keys int, integers bool) attn.Options {
	small, large, inf := float32(1e-45), float32(math.MaxFloat32), float32(math.Inf(1))
	nan := float32(math.NaN())
	positions := []int{0, 1, rows, keys - rows, keys, -1, -keys, maxLength - keys, maxLength - 1,
		maxLength, 1 - maxLength,
		-maxLength, 1024 - maxLength}
	o := attn.Options{
		Scale:    oneOf(b, 9, []float32{0, 1, -0.3, 1e-30, small, large / 2}, large, inf, nan),
		Causal:   oneOf(b, 15, []attn.Causal{attn.Full, attn.TopLeft, attn.BottomRight}, -1, 3),
		Softcap:  oneOf(b, 9, []float32{0, 0, 0, 3, large}, small, -1, inf, nan),
		Integers: integers && b.rand.IntN(2) == 0,
	}
	if o.Causal != attn.BottomRight || b.rand.IntN(9) == 0 {
		o.Offset = oneOf(b, 9, positions, maxLength+1, -maxLength-1, math.MaxInt, math.MinInt,
			2*maxLength)
	}
	if b.rand.IntN(2) == 0 {
		sides := append([]int{2*maxLength - 1, 2 * maxLength, 2*maxLength + 1, math.MaxInt,
			math.MaxInt - 1, 700},
			positions[:5]...)
		o.Window = attn.Window{Left: oneOf(b, 15, sides, -1, math.MinInt),
			Right: oneOf(b, 15, sides, -1, math.MinInt)}
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
		any := []int{0, 1, attn.Broadcast, -7, math.MaxInt} // of dimensions of 1
		m.SB, m.SH = oneOf(b, 9, any), oneOf(b, 9, any)
		m.SL = oneOf(b, 9, []int{m.SL, attn.Broadcast}, 0, -2, m.SL+1, math.MaxInt)
		o.Mask = m
	}
	if b.rand.IntN(4) == 0 {
		x := b.tensor(4, rows, keys)
		for range keys / 100 {
			x.Data[b.rand.IntN(len(x.Data))] = oneOf(b, 9, []float32{-inf, 1}, large, -large)
		}
		x = attn.BHLD(x.Data, 1, 4, rows, keys)
		x.SH = oneOf(b, 9, []int{x.SH, attn.Broadcast}, 0, -2, x.SH+1, math.MaxInt)
		if b.rand.IntN(4) == 0 {
			x.SB, x.SH, x.SL = 0, 0, 0 // contiguous
		}
		o.Bias = x
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
	stop := stopwatch()
	far := x.Attend(context.Background(), 0, got, q, &opt)
	took := stop()
	kinds := []error{attn.ErrShape, attn.ErrLength, attn.ErrOption, attn.ErrStride,
		attn.ErrUnsupported}
	known := slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(far, kind) })
	if err != nil && !known || (err == nil) != (far == nil) || took > 2*time.Second {
		t.Fatalf("%d rows, %+v, window %+v: after %v %v, want %v", rows, opt, opt.Window, took, far, err)
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
		Sequences: math.MaxInt, Copies: math.MaxInt, Calls: math.MaxInt, Reply: math.MaxInt,
		Lease: math.MaxInt64, Threads: math.MaxInt / 2, Outage: math.MaxInt64})
	must(t, err)
	defer w.Close()
	b.dials.MaxMessage = 1 << 30
	c := ClientConfig{Copies: math.MaxInt, Segments: 1 << 18,
		Patience: math.MaxInt64, Gone: math.MaxInt64, Lease: (1 << 32) * time.Millisecond,
		Timeout: math.MaxInt64, Chunk: math.MaxInt}
	l := new(loop) // a transport without limits
	near, err := NewWorker(l, WorkerConfig{Name: "w", Memory: 1 << 20})
	must(t, err)
	defer near.Close()
	without, err := NewClient(l, c)
	must(t, err)
	without.Close()
	c.Chunk = 1 << 28
	b.client, err = NewClient(b.dial(), c)
	must(t, err)
	defer b.client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
	far.lengths[0], far.taken[0] = maxLength-1, maxLength-1
	far.mu.Unlock()
	two := b.tensor(1, 2, 8)
	refusal{attn.ErrLength, "k.L is 2 after 268435455 tokens, want at most 268435456 in all"}.check(t,
		"more than a sequence has", far.Append(ctx, 0, two, two))
	far.mu.Lock()
	far.lengths[0], far.taken[0] = 1500, 1500
	far.mu.Unlock()
}

// A step that workers will always refuse, or that must not be sent, is an error at once.
func TestRefusalsAreNotRepeated(t *testing.T) {
	b := newBench(t, 2, quick)
	f, client := b.faulty(quick, 2)
	s, err := client.NewSequence(small)
	must(t, err)
	x := b.tensor(1, 3, 16)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(t, s.Append(ctx, 0, x, x))
	f.set("*", func(_ context.Context, _, _ []byte) ([]byte, error) {
		return errorReply(fail(ErrProtocol, "what is that?")), nil
	})
	other, err := client.NewSequence(small)
	must(t, err)
	for name, call := range map[string]func() error{
		"Attend": func() error { return s.Attend(ctx, 0, b.tensor(1, 3, 16), x, nil) },
		"Append": func() error { return s.Append(ctx, 0, x, x) },
		"create": func() error { return other.Append(ctx, 0, x, x) },
	} {
		refusal{ErrProtocol, "what is that?"}.check(t, name, takes(t, name, 2*time.Second, call))
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
