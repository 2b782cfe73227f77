package linattn

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/kernel/kerneltest"
)

func name(c Config) string {
	rule := c.Rule.String()
	if c.ReadKeys {
		rule += "/read"
	}
	return fmt.Sprintf("%s/channel=%v/heads=%d,%d,%d,%v/dims=%dx%d", rule, c.ChannelDecay, c.Heads,
		c.QueryHeads, c.KeyHeads, c.Grouping, c.KeyDim, c.ValueDim)
}

// A prompt in one call gives the bits of the formula, and so does any cut of it.
func TestFormula(t *testing.T) {
	kerneltest.ForEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 1))
		for _, c := range configs() {
			t.Run(name(c), func(t *testing.T) {
				const n = 53
				x := randomTokens(t, r, c, n, 3)
				s := newState(t, c)
				var start attn.Tensor
				if r.IntN(2) == 0 {
					start = drawn(c.Heads, c.KeyDim, c.ValueDim, r.Float32)
					must(t, s.Start(start))
				}
				tokenByToken, cut := s.Fork(), s.Fork()
				want, end := x.byFormula(start)
				sameBits(t, "the prompt", x.whole(t, s).Data, want.Data)
				read := zeros(c.Heads, c.KeyDim, c.ValueDim)
				must(t, s.Read(read))
				sameBits(t, "the matrices", read.Data, end.Data)
				got := zeros(s.outputs(), n, c.ValueDim)
				for i := range n {
					y := x.slice(i, i+1)
					must(t, y.append(nil, tokenByToken, got.Slice(i, i+1)))
				}
				sameBits(t, "token by token", got.Data, want.Data)
				must(t, tokenByToken.Read(read))
				sameBits(t, "the matrices token by token", read.Data, end.Data)
				clear(got.Data)
				for from := 0; from < n; {
					to := min(n, from+1+r.IntN(30))
					y := x.slice(from, to)
					must(t, y.append(nil, cut, got.Slice(from, to)))
					if from = to; cut.Len() != to {
						t.Fatalf("Len is %d, want %d", cut.Len(), to)
					}
				}
				sameBits(t, "in cuts", got.Data, want.Data)
			})
		}
	})
}

// Sequences of a call have the bits that each has alone, on any pool, where heads are shared among
// units, too.
func TestAppendStates(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	pools := []*attn.Pool{nil, attn.NewPool(1), attn.NewPool(3)}
	for _, c := range configs() {
		c.ValueDim += 64
		for _, lens := range [][]int{{3, 0, 40, 1}, {17}, nil, {1}, {0, 0}} {
			count := max(len(lens), 5)
			if lens != nil {
				count = len(lens)
			}
			rows := 0
			var together, alone []*State
			for i := range count {
				s := newState(t, c)
				y := randomTokens(t, r, c, i*13%29, 1)
				y.whole(t, s)
				together, alone = append(together, s), append(alone, s.Fork())
				if rows++; lens != nil {
					rows += lens[i] - 1
				}
			}
			for _, p := range pools {
				x := randomTokens(t, r, c, rows, 2)
				got, want := zeros(together[0].outputs(), rows, c.ValueDim),
					zeros(together[0].outputs(), rows, c.ValueDim)
				must(t, AppendStates(p, got, x.q, x.k, x.v, x.decay, x.beta, together, lens))
				at := 0
				for i, s := range alone {
					n := 1
					if lens != nil {
						n = lens[i]
					}
					y := x.slice(at, at+n)
					must(t, y.append(nil, s, want.Slice(at, at+n)))
					if at += n; s.Len() != together[i].Len() {
						t.Fatalf("Len is %d, want %d", together[i].Len(), s.Len())
					}
				}
				sameBits(t, fmt.Sprintf("%s of %v together", name(c), lens), got.Data, want.Data)
				for i, s := range alone {
					a, b := zeros(c.Heads, c.KeyDim, c.ValueDim), zeros(c.Heads, c.KeyDim, c.ValueDim)
					must(t, s.Read(a))
					must(t, together[i].Read(b))
					sameBits(t, "matrices", b.Data, a.Data)
				}
			}
		}
	}
	for _, p := range pools[1:] {
		must(t, p.Close())
	}
}

// sequence is what a state is compared with: how many of its tokens it has.
type sequence struct {
	*State
	length, kept int // kept is −1 without a checkpoint
}

// compose does operations at random, and compares each output with the one that all tokens in one
// call have.
func compose(t testing.TB, r *rand.Rand, c Config, n, operations int, p *attn.Pool) {
	x := randomTokens(t, r, c, n, []float64{0, 1, 80}[r.IntN(3)])
	first := newState(t, c)
	var start attn.Tensor
	if r.IntN(2) == 0 {
		start = drawn(c.Heads, c.KeyDim, c.ValueDim, r.Float32)
		must(t, first.Start(start))
	}
	fresh := first.Fork()
	want := x.whole(t, first.Fork())
	all := []*sequence{{first, 0, -1}}
	got := zeros(first.outputs(), n, c.ValueDim)
	check := func(s *sequence, from, to int) {
		t.Helper()
		for h := range got.H {
			for i := from; i < to; i++ {
				sameBits(t, fmt.Sprintf("%s: head %d of token %d", name(c), h, i), got.Row(0, h, i),
					want.Row(0, h, i))
			}
		}
	}
	step := func() int { return []int{1, 1, 1 + r.IntN(8), 1 + r.IntN(40)}[r.IntN(4)] }
	for range operations {
		s := all[r.IntN(len(all))]
		switch r.IntN(12) {
		default: // append
			to := min(n, s.length+step())
			y := x.slice(s.length, to)
			must(t, y.append(p, s.State, got.Slice(s.length, to)))
			check(s, s.length, to)
			s.length = to
		case 0, 1: // some of them together
			composeBatch(t, r, &x, all, want, p)
		case 2:
			if len(all) < 5 {
				all = append(all, &sequence{s.Fork(), s.length, s.kept})
			}
		case 3:
			begin := s.length / Chunk * Chunk
			to := begin + r.IntN(s.length-begin+1)
			if s.kept >= 0 && r.IntN(2) == 0 {
				to = s.kept
			}
			must(t, s.State.Truncate(to))
			if s.length = to; s.kept > to {
				s.kept = -1
			}
		case 4:
			s.Checkpoint()
			s.kept = s.length
		case 5:
			var file bytes.Buffer
			_, err := s.Save(&file)
			must(t, err)
			to := all[r.IntN(len(all))]
			size := file.Len()
			read, err := to.Load(&file)
			must(t, err)
			if read != int64(size) {
				t.Fatalf("Load read %d bytes of %d", read, size)
			}
			to.length, to.kept = s.length, s.kept
		case 6:
			if len(all) > 1 {
				must(t, all[0].Close())
				all = all[1:]
				continue
			}
		case 7:
			if r.IntN(4) == 0 {
				s.Reset()
				s.length, s.kept = 0, -1
				if start.Data != nil {
					must(t, s.Start(start))
				}
			}
		case 8:
			a, b := zeros(c.Heads, c.KeyDim, c.ValueDim), zeros(c.Heads, c.KeyDim, c.ValueDim)
			must(t, s.Read(a))
			other := fresh.Fork()
			y := x.slice(0, s.length)
			y.whole(t, other)
			must(t, other.Read(b))
			sameBits(t, name(c)+": the matrices", a.Data, b.Data)
		}
		if s.length != s.Len() {
			t.Fatalf("Len is %d, want %d", s.Len(), s.length)
		}
	}
	for _, s := range all {
		must(t, s.Close())
	}
}

// composeBatch lets several sequences go on in one call.
func composeBatch(t testing.TB, r *rand.Rand, x *tokens, all []*sequence, want attn.Tensor,
	p *attn.Pool) {
	t.Helper()
	var states []*State
	var lens []int
	var parts []tokens
	rows := 0
	for _, s := range all {
		n := min(x.q.L-s.length, r.IntN(20))
		states, lens = append(states, s.State), append(lens, n)
		parts = append(parts, x.slice(s.length, s.length+n))
		rows += n
	}
	join := func(of func(y *tokens) attn.Tensor) attn.Tensor {
		a := of(x)
		if a.Data == nil {
			return a
		}
		to := zeros(a.H, rows, a.D)
		at := 0
		for i := range parts {
			from := of(&parts[i])
			for h := range a.H {
				for l := range from.L {
					copy(to.Row(0, h, at+l), from.Row(0, h, l))
				}
			}
			at += from.L
		}
		return to
	}
	dst := zeros(want.H, rows, x.ValueDim)
	must(t, AppendStates(p, dst, join(func(y *tokens) attn.Tensor { return y.q }),
		join(func(y *tokens) attn.Tensor { return y.k }),
		join(func(y *tokens) attn.Tensor { return y.v }),
		join(func(y *tokens) attn.Tensor { return y.decay }),
		join(func(y *tokens) attn.Tensor { return y.beta }), states, lens))
	at := 0
	for i, s := range all {
		for h := range want.H {
			for l := range lens[i] {
				sameBits(t, "a batch", dst.Row(0, h, at+l), want.Row(0, h, s.length+l))
			}
		}
		at += lens[i]
		s.length += lens[i]
	}
}

// Any composition of cuts, forks, truncations, files and batches gives the bits of one call.
func TestCompositions(t *testing.T) {
	p := attn.NewPool(2)
	kerneltest.ForEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 3))
		for range kerneltest.Budget(4) {
			for _, c := range configs() {
				compose(t, r, c, 90, 40, []*attn.Pool{nil, p}[r.IntN(2)])
			}
		}
	})
	must(t, p.Close())
}

// FuzzCompositions lets the fuzzer choose the operations.
func FuzzCompositions(f *testing.F) {
	all := configs()
	p := attn.NewPool(2)
	f.Cleanup(func() { must(f, p.Close()) })
	f.Fuzz(func(t *testing.T, data []byte) {
		r := kerneltest.RandomFrom(data)
		c := all[r.IntN(len(all))]
		c.KeyDim, c.ValueDim = 1+r.IntN(20), 1+r.IntN(40)
		compose(t, r, c, 60, 1+len(data)/8%30, []*attn.Pool{nil, p}[r.IntN(2)])
	})
}

// Forks are independent on goroutines of their own, as if nothing were shared.
func TestConcurrentForks(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	c := Config{Heads: 4, KeyDim: 20, ValueDim: 35, Rule: GatedDelta}
	x := randomTokens(t, r, c, 60, 1)
	s := newState(t, c)
	want := x.whole(t, s.Fork())
	y := x.slice(0, 21)
	y.whole(t, s)
	s.Checkpoint()
	p := attn.NewPool(2)
	var wait sync.WaitGroup
	for range 4 {
		f := s.Fork()
		wait.Go(func() {
			got := zeros(f.outputs(), 60, c.ValueDim)
			for range 3 {
				for from := 21; from < 60; from += 3 {
					y := x.slice(from, from+3)
					if err := y.append(p, f, got.Slice(from, from+3)); err != nil {
						t.Error(err)
					}
				}
				if err := f.Truncate(21); err != nil {
					t.Error(err)
				}
			}
			for h := range got.H {
				if i := kerneltest.FirstDifference(got.Row(0, h, 59), want.Row(0, h, 59)); i >= 0 {
					t.Errorf("element %d of head %d differs", i, h)
				}
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	must(t, s.Close())
	must(t, p.Close())
}

// Closing what there is not does nothing, so a deferred Close needs no question before it.
func TestCloseOfNil(t *testing.T) { must(t, (*State)(nil).Close()) }
