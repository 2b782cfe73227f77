package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
)

// crew is sequences that step together.
type crew struct {
	*bench
	twins []*twin
}

// crew makes sequences with some tokens each.
func (b *bench) crew(c SequenceConfig, heads int, tokens ...int) *crew {
	b.Helper()
	x := &crew{bench: b}
	for _, n := range tokens {
		t := b.twin(c, heads)
		for layer := range t.near { // of one store
			if len(x.twins) > 0 {
				t.near[layer] = x.twins[0].near[layer].Fork()
				must(b, t.near[layer].Truncate(0))
			}
		}
		if n > 0 {
			t.append(n)
		}
		x.twins = append(x.twins, t)
	}
	return x
}

// stepsArgs are arguments of Steps.
type stepsArgs struct {
	dst, q, k, v attn.Tensor
	seqs         []*Sequence
	opt          attn.Options
}

// args are for tokens of each sequence.
func (x *crew) args(opt attn.Options, lens ...int) *stepsArgs {
	sum := 0
	for _, n := range lens {
		sum += n
	}
	t := x.twins[0]
	a := &stepsArgs{dst: t.out(sum), q: x.tensor(t.heads, sum, t.config.HeadDim),
		k: x.tensor(t.config.KVHeads, sum, t.config.HeadDim),
		v: x.tensor(t.config.KVHeads, sum, t.config.ValueDim), opt: opt}
	a.opt.LSE, a.opt.QueryLens = make([]float32, t.heads*sum), lens
	for _, t := range x.twins {
		a.seqs = append(a.seqs, t.far)
	}
	return a
}

func (a *stepsArgs) run(c *Client, layer int) error {
	return c.Steps(context.Background(), layer, a.dst, a.q, a.k, a.v, a.seqs, &a.opt)
}

// step adds tokens to a layer of all, and compares what they see.
func (x *crew) step(layer int, opt attn.Options, lens ...int) {
	x.Helper()
	a := x.args(opt, lens...)
	must(x, a.run(x.client, layer))
	x.compare(a, layer, opt, lens...)
}

// compare is with one machine, on which the tokens are appended, too.
func (x *crew) compare(a *stepsArgs, layer int, opt attn.Options, lens ...int) {
	x.Helper()
	want, lse, from := x.twins[0].out(a.q.L), make([]float32, len(a.opt.LSE)), 0
	var near []*attn.Sequence
	for i, t := range x.twins {
		must(x, t.near[layer].Append(a.k.Slice(from, from+lens[i]), a.v.Slice(from, from+lens[i])))
		near, from = append(near, t.near[layer]), from+lens[i]
	}
	opt.LSE, opt.QueryLens = lse, lens
	must(x, attn.AttendSequences(want, a.q, near, &opt))
	sameBits(x, "outputs of steps", a.dst.Data, want.Data)
	sameBits(x, "LSE of steps", a.opt.LSE, lse)
	for i, t := range x.twins {
		if got, want := t.far.Len(layer), near[i].Len(); got != want {
			x.Fatalf("sequence %d has %d tokens, want %d", i, got, want)
		}
	}
}

// settle waits until copies of all sequences can follow the next step.
func (x *crew) settle() {
	x.Helper()
	for _, t := range x.twins {
		t.settle()
	}
}

// Steps of several sequences have the bits of one machine, and cost a request a worker.
func TestStepsSameBits(t *testing.T) {
	for _, workers := range []int{1, 3} {
		for _, format := range []formatPair{{attn.F32, 0}, {attn.I8, attn.I4}} {
			t.Run(fmt.Sprint(workers, format), func(t *testing.T) {
				t.Parallel()
				b := newBench(t, workers, patient)
				h := b.hooked(patient, workers)
				x := b.crew(SequenceConfig{Layers: 2, KVHeads: 2, HeadDim: 32, ValueDim: 24,
					Format: format.keys, ValueFormat: format.values}, 4, 0, 1, 1023, 2500, 700)
				opt := bottomRight
				opt.Integers = format.keys >= attn.I8
				x.step(0, opt, 1, 1, 1, 1, 1)
				x.step(1, opt, 40, 0, 3, 1100, 1)
				x.settle() // a step with copies that still have to follow is sent alone
				take := counted(h)
				for range 3 {
					x.step(1, opt, 1, 1, 1, 1, 1)
					x.step(0, opt, 1, 1, 1, 1, 1)
					x.settle()
				}
				for _, t := range x.twins {
					t.attendBoth()
				}
				if n := take(); n[opStep]+n[opAppend] > 6*workers {
					t.Errorf("requests of 6 steps are %v, want at most %d for %d workers", n, 6*workers, workers)
				}
			})
		}
	}
}

// A worker dies while batches go on, and comes back.
func TestStepsWithKills(t *testing.T) {
	t.Parallel()
	c := quick
	c.Patience, c.Gone = 2*time.Second, 3*time.Second
	b := newBench(t, 4, c)
	x := b.crew(small, 2, 10, 1500, 2300, 0, 800, 30)
	for _, t := range x.twins {
		t.whole()
	}
	for i := range 2 {
		name := fmt.Sprint("w", i)
		killed := make(chan struct{})
		go func() {
			b.kill(name)
			close(killed)
		}()
		for range 5 {
			x.step(0, bottomRight, 1, 1, 1, 1, 1, 1)
			x.step(2, bottomRight, 1, 30, 1, 1, 0, 5)
		}
		<-killed
		x.step(1, bottomRight, 1, 1, 1, 1, 1, 1)
		b.restart(name)
		for _, t := range x.twins {
			t.whole()
			t.attendAll()
		}
	}
}

// Sequences of a batch fail alone, and one that waits lets the others go on.
func TestStepsFailAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, patient)
	h := b.hooked(patient, 2)
	x := b.crew(small, 2, 10, 700, 30)
	follow := make(chan struct{})
	h.set(func(_ context.Context, op uint8, _ []byte, call func() ([]byte, error)) ([]byte, error) {
		if op == opAppend {
			<-follow
		}
		return call()
	})
	x.twins[1].step(0, 1, bottomRight) // its copy follows, but not yet
	a := x.args(bottomRight, 1, 1, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error)
	go func() { ended <- b.client.Steps(ctx, 0, a.dst, a.q, a.k, a.v, a.seqs, &a.opt) }()
	b.eventually("the others go on", func() bool {
		return x.twins[0].far.Len(0) == 11 && x.twins[2].far.Len(0) == 31
	})
	cancel()
	err := <-ended
	var steps *StepsError
	if !errors.As(err, &steps) || steps.Errs[0] != nil || steps.Errs[2] != nil ||
		!errors.Is(err, ErrUnavailable) || !strings.HasPrefix(err.Error(), "seqs[1]: ") {
		t.Fatalf("the error is %v, want that of seqs[1]", err)
	}
	close(follow)
	h.set(nil)
	for i, y := range x.twins {
		row := func(x attn.Tensor) attn.Tensor { return x.Slice(i, i+1) }
		if i == 1 {
			for h := range 2 {
				sameBits(t, "outputs of who failed", a.dst.Row(0, h, i), make([]float32, 16))
			}
			continue
		}
		must(t, y.near[0].Append(row(a.k), row(a.v)))
		want := y.out(1)
		must(t, attn.AttendSequences(want, row(a.q), y.near[:1], &bottomRight))
		for h := range 2 {
			sameBits(t, "outputs of who did not", a.dst.Row(0, h, i), want.Row(0, h, 0))
		}
	}
	x.step(0, bottomRight, 1, 1, 1)
	x.twins[2].far.Release()
	a = x.args(bottomRight, 1, 1, 1)
	if err := a.run(b.client, 0); !errors.Is(err, attn.ErrClosed) || x.twins[0].far.Len(0) != 13 {
		t.Errorf("the error is %v with %d tokens, want ErrClosed of the last and 13 of the first", err,
			x.twins[0].far.Len(0))
	}
}

// Copies are asked for all sequences of a batch together, so that all workers have as much to do,
// and the others get their tokens with the same requests.
func TestStepsAreDivided(t *testing.T) {
	t.Parallel()
	c := quick
	c.Patience, c.Gone = 10*time.Second, 20*time.Second
	b := newBench(t, 2, c)
	h := b.hooked(c, 2)
	x := b.crew(small, 2, slices.Repeat([]int{10}, 16)...)
	asked := make(chan [2]int, 100)
	h.set(func(_ context.Context, op uint8, request []byte,
		call func() ([]byte, error)) ([]byte, error) {
		if r, _ := stepOf(request); op == opStep {
			asked <- [2]int{len(r.appends), len(r.attends)}
		}
		return call()
	})
	x.step(0, bottomRight, slices.Repeat([]int{1}, 16)...)
	for range 2 {
		if got := <-asked; got != [2]int{16, 8} {
			t.Errorf("a worker of two is asked for %d appends and %d attentions of 16", got[0], got[1])
		}
	}
}

// Tokens for copies on a worker that a batch asks nothing of are one request, after the steps.
func TestStepsFollowTogether(t *testing.T) {
	t.Parallel()
	c := quick
	c.Copies, c.Patience, c.Gone = 3, 10*time.Second, 20*time.Second
	b := newBench(t, 3, c)
	h := b.hooked(c, 3)
	x := b.crew(small, 2, 10, 20)
	take := counted(h)
	for range 3 {
		x.step(0, bottomRight, 1, 1)
		x.settle()
	}
	if n := take(); n[opStep]+n[opAppend] != 9 {
		t.Errorf("requests of 3 steps of 2 sequences with 3 copies each are %v, want 9", n)
	}
}

// Who does not answer a batch is not waited for longer than for a step: other copies are asked, and
// steps that have nothing to do with it have ended.
func TestStepsWhereOneHangs(t *testing.T) {
	t.Parallel()
	c := quick
	c.Patience, c.Gone = 500*time.Millisecond, 20*time.Second
	b := newBench(t, 2, c)
	h := b.hooked(c, 2)
	x := b.crew(small, 2, 10, 1500, 20, 30)
	var once sync.Once
	h.set(func(ctx context.Context, op uint8, _ []byte, call func() ([]byte, error)) ([]byte, error) {
		lost := false
		if op == opStep {
			once.Do(func() { lost = true })
		}
		if lost {
			return hang(ctx)
		}
		return call()
	})
	begin := time.Now()
	a := x.args(bottomRight, 1, 1, 1, 1)
	must(t, a.run(b.client, 0))
	if took := time.Since(begin); took < c.Patience {
		t.Errorf("a batch one of whose requests was lost took %v", took)
	}
	h.set(nil)
	x.compare(a, 0, bottomRight, 1, 1, 1, 1)
	x.step(0, bottomRight, 1, 1, 1, 1)
}

// Batches larger than a message go in several.
func TestStepsInSeveralMessages(t *testing.T) {
	t.Parallel()
	c := patient
	c.Chunk = 2000
	b := newBench(t, 1, c)
	h := b.hooked(c, 1)
	x := b.crew(small, 2, 10, 20, 30, 40, 50, 60, 70, 80)
	take := counted(h)
	x.step(0, bottomRight, 1, 1, 1, 1, 1, 1, 1, 1)
	if n := take()[opStep]; n < 2 || n > 7 {
		t.Errorf("8 steps are %d requests of some 2000 bytes, want 2 to 7", n)
	}
}

// What is wrong with a batch as a whole is refused before anything is sent.
func TestStepsRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, quick)
	x := b.crew(small, 2, 3, 4)
	other, err := NewClient(b.dial(), quick)
	must(t, err)
	defer other.Close()
	foreign, err := other.NewSequence(small)
	must(t, err)
	wide := small
	wide.HeadDim = 32
	unlike, err := b.client.NewSequence(wide)
	must(t, err)
	for what, c := range map[string]struct {
		refusal
		change func(a *stepsArgs)
	}{
		"nil":   {refusal{attn.ErrOption, "seqs[1] is nil"}, func(a *stepsArgs) { a.seqs[1] = nil }},
		"twice": {refusal{attn.ErrOption, "twice"}, func(a *stepsArgs) { a.seqs[1] = a.seqs[0] }},
		"foreign": {refusal{attn.ErrOption, "another client"}, func(a *stepsArgs) {
			a.seqs[1] = foreign
		}},
		"unlike": {refusal{attn.ErrShape, "seqs[1]"}, func(a *stepsArgs) { a.seqs[1] = unlike }},
		"few lens": {refusal{attn.ErrLength, "QueryLens"}, func(a *stepsArgs) {
			a.opt.QueryLens = []int{2}
		}},
		"below 0": {refusal{attn.ErrLength, "QueryLens[0]"}, func(a *stepsArgs) {
			a.opt.QueryLens[0] = -1
		}},
		"short LSE":  {refusal{attn.ErrLength, "LSE"}, func(a *stepsArgs) { a.opt.LSE = a.opt.LSE[1:] }},
		"fewer keys": {refusal{attn.ErrShape, "rows"}, func(a *stepsArgs) { a.k = a.k.Slice(0, 1) }},
		"no values":  {refusal{attn.ErrShape, "v is"}, func(a *stepsArgs) { a.v = attn.Tensor{} }},
		"a mask": {refusal{attn.ErrUnsupported, "Mask"}, func(a *stepsArgs) {
			a.opt.Mask = attn.BHLD(make([]bool, 20), 1, 1, 2, 10)
		}},
	} {
		a := x.args(bottomRight, 1, 1)
		c.change(a)
		c.check(t, what, a.run(b.client, 0))
		if n := x.twins[0].far.Len(0) + x.twins[1].far.Len(0); n != 7 {
			t.Fatalf("%s: there are %d tokens, want 7", what, n)
		}
	}
	must(t, b.client.Steps(context.Background(), 0, attn.Tensor{}, attn.Tensor{}, attn.Tensor{},
		attn.Tensor{}, nil, nil))
	a := x.args(attn.Options{}, 1, 1) // nil options: one token each
	must(t, b.client.Steps(context.Background(), 0, a.dst, a.q, a.k, a.v, a.seqs, nil))
	if !slices.Equal([]int{x.twins[0].far.Len(0), x.twins[1].far.Len(0)}, []int{4, 5}) {
		t.Error("a step without QueryLens is not of one token each")
	}
}
