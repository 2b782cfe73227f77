package cluster

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/seed-1415985d/attn"
)

// traffic notes what is asked for, and how many bytes go each way.
type traffic struct {
	Transport
	mu             sync.Mutex
	attends        []attendRequest
	sent, received int
	longest        int // of messages, each way
}

func (x *traffic) Call(ctx context.Context, worker string, request []byte) ([]byte, error) {
	r, op := stepOf(request)
	size := len(request)
	reply, err := x.Transport.Call(ctx, worker, request)
	x.mu.Lock()
	defer x.mu.Unlock()
	if op == opAttend {
		x.attends = append(x.attends, r.attends...)
		x.sent, x.received = x.sent+size, x.received+len(reply)
		x.longest = max(x.longest, size, len(reply))
	}
	return reply, err
}

// begin forgets what was noted.
func (x *traffic) begin() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.attends, x.sent, x.received, x.longest = nil, 0, 0, 0
}

// observed is a bench with some workers of one process, whose client's requests are noted.
func observed(t testing.TB, workers int, c ClientConfig) (*bench, *traffic) {
	t.Helper()
	b := newBench(t, workers, c)
	x := &traffic{Transport: b.client.transport}
	client, err := NewClient(x, c)
	must(t, err)
	t.Cleanup(client.Close)
	must(t, client.Wait(context.Background(), workers))
	b.client = client
	return b, x
}

// flags are n of them, of which some are true.
func (b *bench) flags(n int, share float64) []bool {
	x := make([]bool, n)
	for i := range x {
		x[i] = b.rand.Float64() < share
	}
	return x
}

// What has an element for each pair of query and key may be larger than a message.
func TestPairsBeyondAMessage(t *testing.T) {
	const heads, rows, keys = 8, 256, 8192
	c := patient
	c.Segments = 16 // as it is unless told otherwise
	b := newBench(t, 2, c)
	x := b.twin(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 8, ValueDim: 8}, heads)
	x.append(keys)
	bias := attn.BHLD(make([]float32, heads*rows*keys), 1, heads, rows, keys) // 64 MiB
	for i := range bias.Data {
		bias.Data[i] = float32(i%13) - 6
	}
	x.attend(0, rows, attn.Options{Bias: bias})
	mask := attn.BHLD(make([]bool, 5*heads*rows*keys), 1, heads, 5*rows, keys) // 80 MiB
	for i := range mask.Data {
		mask.Data[i] = i%7 > 2
	}
	x.attend(0, 5*rows, attn.Options{Mask: mask})
}

// Requests have about the bytes that a client's messages may have, whatever has an element for each
// pair: fewer rows, fewer parts, and if need be a piece of a part.
func TestPairsGoInMessages(t *testing.T) {
	c := patient
	c.Chunk, c.Segments = 1<<16, 8
	b, seen := observed(t, 2, c)
	// a run is 2048 tokens of these, so a part of 8192 can be asked for in four pieces
	x := b.twin(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 128, ValueDim: 128}, 4)
	x.append(2*8192 + 3000)
	keys := x.far.Len(0)
	for name, o := range map[string]attn.Options{
		"bias":   {Bias: b.tensorOf(4, 6, keys)},
		"shared": {Bias: b.tensorOf(1, 6, keys), Causal: attn.BottomRight},
		"mask":   {Mask: attn.BHLD(b.flags(4*6*keys, 0.5), 1, 4, 6, keys), Bias: b.tensorOf(4, 6, keys)},
		"one row for all queries": {Mask: attn.BHLD(b.flags(keys, 0.5), 1, 1, 1, keys),
			Bias: b.tensorOf(4, 1, keys)},
	} {
		seen.begin()
		x.attend(0, 6, o)
		if limit := 2*c.Chunk + 1<<12; seen.longest > limit {
			t.Errorf("%s: a message has %d bytes, want at most %d", name, seen.longest, limit)
		}
	}
}

// tensorOf is a tensor whose heads lie one after another.
func (b *bench) tensorOf(heads, rows, d int) attn.Tensor {
	return attn.BHLD(b.tensor(heads, rows, d).Data, 1, heads, rows, d)
}

// Blocks travel as blocks, and parts of which no query sees a key are not asked: so there are fewer
// bytes each way than without.
func TestBlocksAreFewBytes(t *testing.T) {
	for _, workers := range []int{1, 4} {
		b, seen := observed(t, workers, patient)
		const heads, keys = 8, 16 * 1024
		x := b.twin(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 64, ValueDim: 64}, heads)
		x.append(keys)
		seen.begin()
		x.attend(0, 1, attn.Options{Causal: attn.BottomRight})
		sent, received := seen.sent, seen.received
		blocks := attn.BHLD(make([]bool, heads*keys/64), 1, heads, 1, keys/64)
		for h := range heads { // the first block, the last ones, and one that each head has found
			row := blocks.Row(0, h, 0)
			row[0], row[5*16+h], row[len(row)-2], row[len(row)-1] = true, true, true, true
		}
		seen.begin()
		x.attend(0, 1, attn.Options{Causal: attn.BottomRight, Blocks: blocks})
		if seen.sent >= sent || seen.received > received {
			t.Errorf("%d workers: %d bytes are sent and %d received with blocks, %d and %d without", workers,
				seen.sent, seen.received, sent, received)
		}
		asked := 0
		for _, a := range seen.attends {
			for _, g := range a.groups {
				asked += len(g.parts)
			}
		}
		if asked != 3 {
			t.Errorf("%d workers: %d parts are asked for, want those 3 that are seen", workers, asked)
		}
	}
}

// A mask or a bias that hides a part from all queries does so before it is asked for, and what is
// lost of it does not matter.
func TestHiddenPartsAreNotAsked(t *testing.T) {
	c := quick
	c.Copies = 1
	b, seen := observed(t, 3, c)
	x := b.twin(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 8, ValueDim: 8}, 4)
	x.append(6 * 1024)
	const keys = 6 * 1024
	mask, bias := attn.BHLD(b.flags(3*keys, 0.5), 1, 1, 3, keys), b.tensorOf(4, 3, keys)
	blocks := attn.BHLD(b.flags(keys/64, 0.5), 1, 1, 1, keys/64)
	for at := range keys {
		hidden := at/1024 == 1 || at/1024 == 4
		for i := range 3 {
			if hidden {
				mask.Row(0, 0, i)[at] = false
				for h := range 4 {
					bias.Row(0, h, i)[at] = float32(math.Inf(-1))
				}
			}
		}
		if hidden {
			blocks.Data[at/64] = false
		}
	}
	for name, o := range map[string]attn.Options{"Mask": {Mask: mask}, "Bias": {Bias: bias},
		"Blocks": {Blocks: blocks}, "all": {Mask: mask, Bias: bias, Blocks: blocks}} {
		seen.begin()
		x.attend(0, 3, o)
		asked := 0
		for _, a := range seen.attends {
			for _, g := range a.groups {
				asked += len(g.parts)
			}
		}
		if asked != 4 {
			t.Errorf("%s: %d parts are asked for, want the 4 of 6 that are seen", name, asked)
		}
	}
}

// Blocks have the bits of the mask that says the same, in each format, with any number of rows in a
// message, and whatever else hides keys.
func TestBlocksAreTheirMask(t *testing.T) {
	for _, chunk := range []int{4 << 20, 4 * 4 * 18 * 40, 4 * 4 * 18 * 150} {
		c := patient
		c.Chunk = chunk
		newBench(t, 2, c).compareFormats()
	}
}

// So it is with any number of threads, which divide what some parts have, with those between them.
func TestBlocksOnThreads(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 16} {
		var l loop
		w, err := NewWorker(&l, WorkerConfig{Name: "w", Memory: 1 << 30, Threads: threads})
		must(t, err)
		defer w.Close()
		client, err := NewClient(&l, patient)
		must(t, err)
		defer client.Close()
		(&bench{TB: t, client: client, rand: quickRand()}).compareFormats()
	}
}

// compareFormats compares Blocks with their mask in some formats.
func (b *bench) compareFormats() {
	b.Helper()
	for _, f := range []SequenceConfig{
		{Layers: 1, KVHeads: 2, HeadDim: 16, ValueDim: 16},
		{Layers: 1, KVHeads: 2, HeadDim: 16, ValueDim: 16, Format: attn.I8},
		{Layers: 1, KVHeads: 2, HeadDim: 16, ValueDim: 16, Format: attn.I4},
		{Layers: 1, KVHeads: 1, HeadDim: 32, ValueDim: 16, Format: attn.I8, ValuesInKeys: true},
	} {
		x := b.twin(f, 4)
		x.append(9*1024 + 100)
		for range 5 {
			x.compareBlocks(1 + b.rand.IntN(150))
		}
	}
}

// Keys that no query sees are in a state as if they had been asked for.
func TestUnseen(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	b := &bench{TB: t, rand: random}
	q := b.tensor(2, 3, 8)
	for range 50 {
		opt := attn.Options{Slopes: []float32{0.5, 0.1}}
		far, err := attn.NewState(attn.StateConfig{Batch: 1, Heads: 2, Queries: 3, ValueDim: 8})
		must(t, err)
		near, err := attn.NewState(far.Config())
		must(t, err)
		for range 3 {
			gap, n := random.IntN(20)*attn.Segment, (1+random.IntN(3))*attn.Segment
			k := b.tensor(1, n, 8)
			far, err = (&unseen{q, 1, &opt, false}).add(far, far.Config(), gap)
			must(t, err)
			hidden := opt
			hidden.KeyLens = []int{0}
			x := sameRow(1, gap, 8)
			must(t, near.Update(q, x, x, &hidden))
			for _, s := range []*attn.State{far, near} {
				o := opt
				o.Offset = 40000
				must(t, s.Update(q, k, k, &o))
			}
		}
		last := random.IntN(3 * attn.Segment)
		far, err = (&unseen{q, 1, &opt, false}).add(far, far.Config(), last)
		must(t, err)
		opt.KeyLens = []int{0}
		x := sameRow(1, last, 8)
		must(t, near.Update(q, x, x, &opt))
		got, err := far.MarshalBinary()
		must(t, err)
		want, err := near.MarshalBinary()
		must(t, err)
		if !bytes.Equal(got, want) {
			t.Fatalf("a state with keys that nobody sees is another one")
		}
	}
}

// compareBlocks compares rows with blocks on the cluster with rows with a mask on one machine.
func (t *twin) compareBlocks(rows int) {
	t.Helper()
	keys := t.far.Len(0)
	across, down := (keys+63)/64, (rows+63)/64
	heads := []int{1, t.heads}[t.rand.IntN(2)]
	blocks := attn.BHLD(t.flags(heads*down*across, 0.2), 1, heads, down, across)
	for from := range keys / 1024 { // some parts are hidden
		if t.rand.IntN(2) == 0 {
			for i := range heads * down {
				clear(blocks.Data[i*across:][from*16 : from*16+16])
			}
		}
	}
	mask := attn.BHLD(t.flags(rows*keys, 0.9), 1, 1, rows, keys)
	full := attn.BHLD(make([]bool, heads*rows*keys), 1, heads, rows, keys)
	masked := t.rand.IntN(2) == 0
	for h := range heads {
		for i := range rows {
			row, seen, more := full.Row(0, h, i), blocks.Row(0, h, i/64), mask.Row(0, 0, i)
			for j := range row {
				row[j] = seen[j/64] && (!masked || more[j])
			}
		}
	}
	o := attn.Options{Causal: attn.BottomRight, Integers: t.config.Format >= attn.I8 &&
		t.rand.IntN(2) == 0}
	if t.rand.IntN(2) == 0 {
		o.Slopes = []float32{0.1, 0.2, 0.01, 0.5}
	}
	far, near := o, o
	far.Blocks, near.Mask = blocks, full
	if masked {
		far.Mask = mask
	}
	q := t.tensor(t.heads, rows, t.config.HeadDim)
	out := func() attn.Tensor {
		return attn.BHLD(make([]float32, t.heads*rows*t.config.ValueDim), 1, t.heads, rows,
			t.config.ValueDim)
	}
	got, want := out(), out()
	far.LSE, near.LSE = make([]float32, t.heads*rows), make([]float32, t.heads*rows)
	near.QueryLens = []int{rows}
	must(t, attn.AttendSequences(want, q, t.near[:1], &near))
	must(t, t.far.Attend(context.Background(), 0, got, q, &far))
	what := fmt.Sprintf("%v, %d rows, %d heads, mask %v, slopes %v, integers %v", t.config.Format,
		rows, heads, masked, o.Slopes, o.Integers)
	sameBits(t, what, got.Data, want.Data)
	sameBits(t, what+": LSE", far.LSE, near.LSE)
}

// A call that asks nobody, because no query sees a key, notices that its sequence was released, and
// one that has written its results has no error.
func TestReleasedAskingNobody(t *testing.T) {
	b := newBench(t, 1, quick)
	for _, released := range []bool{true, false} {
		x := b.twin(small, 1)
		x.append(100)
		dst := b.tensor(1, 1, 16)
		before := slices.Clone(dst.Data)
		c := call{Sequence: x.far}
		c.ask(dst, b.tensor(1, 1, 16), &attn.Options{Blocks: attn.BHLD(make([]bool, 2), 1, 1, 1, 2)})
		must(t, c.prepareQueries(context.Background()))
		if released {
			x.far.Release()
			err := c.computeRows(context.Background())
			refusal{attn.ErrClosed, "the sequence was released"}.check(t, "a call", err)
			sameBits(t, "outputs of a sequence that was released", dst.Data, before)
			continue
		}
		err := c.computeRows(context.Background())
		x.far.Release()
		must(t, x.far.orReleased(err))
		sameBits(t, "outputs of no key", dst.Data, make([]float32, 16))
	}
}

// Rows of a step lie in one block of queries or begin with one, or blocks would be others.
func TestRowsOfBlocks(t *testing.T) {
	for _, x := range []struct{ rows, want int }{{1, 1}, {3, 2}, {63, 32}, {64, 64}, {65, 64},
		{150, 128}} {
		if got := rowsOfBlocks(x.rows); got != x.want {
			t.Errorf("%d rows are %d with blocks, want %d", x.rows, got, x.want)
		}
	}
}

// BenchmarkBlocks is attention of a token over many, without blocks and with an eighth of them,
// with what is sent for it.
func BenchmarkBlocks(b *testing.B) {
	const heads, keys = 8, 128 * 1024
	c := patient
	c.Segments = 8
	bench, seen := observed(b, 2, c)
	x := bench.twin(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 64, ValueDim: 64}, heads)
	for range keys / 8192 {
		k := bench.tensor(2, 8192, 64)
		must(b, x.far.Append(context.Background(), 0, k, k))
	}
	q, dst := bench.tensor(heads, 1, 64), bench.tensor(heads, 1, 64)
	blocks := attn.BHLD(make([]bool, heads*keys/64), 1, heads, 1, keys/64)
	for h := range heads { // in half of the parts
		row := blocks.Row(0, h, 0)
		for i := range row {
			row[i] = i/128%2 == 0 && bench.rand.IntN(4) == 0
		}
	}
	for name, opt := range map[string]*attn.Options{"none": nil, "blocks": {Blocks: blocks}} {
		b.Run(name, func(b *testing.B) {
			seen.begin()
			for b.Loop() {
				must(b, x.far.Attend(context.Background(), 0, dst, q, opt))
			}
			b.ReportMetric(float64(seen.sent)/float64(b.N), "sent/op")
			b.ReportMetric(float64(seen.received)/float64(b.N), "received/op")
		})
	}
}
