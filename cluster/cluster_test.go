package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
)

var bottomRight = attn.Options{Causal: attn.BottomRight}

// formatPair is the formats of keys and of values, 0 where they are the same.
type formatPair struct{ keys, values attn.Format }

var formats = []formatPair{{attn.F32, 0}, {attn.F16, 0}, {attn.BF16, 0}, {attn.I8, 0}, {attn.I4, 0},
	{attn.I8, attn.I4}}

// The bits are the same as on one machine, for any number of workers, any format and arithmetic.
func TestSameBits(t *testing.T) {
	for _, workers := range []int{1, 2, 4, 8} {
		for _, format := range formats {
			t.Run(fmt.Sprint(workers, format), func(t *testing.T) {
				b := newBench(t, workers, quick)
				x := b.twin(SequenceConfig{Layers: 2, KVHeads: 2, HeadDim: 32, ValueDim: 24,
					Format: format.keys, ValueFormat: format.values}, 4)
				for _, n := range []int{1, 63, 1500, 900, 1, 2000, 7} {
					x.append(n)
					x.attend(0, 1, bottomRight)
					x.attend(1, 5, bottomRight)
					if format.keys >= attn.I8 {
						x.attend(0, 1, attn.Options{Causal: attn.BottomRight, Integers: true})
						x.attend(1, 5, attn.Options{Causal: attn.BottomRight, Integers: true})
					}
				}
			})
		}
	}
}

// Values that are part of keys are kept once and merge with the same bits, those that are rotated
// too, and where a window hides the first parts.
func TestValuesInKeys(t *testing.T) {
	for _, format := range []attn.Format{attn.F32, attn.BF16, attn.I8, attn.I4} {
		b := newBench(t, 3, quick)
		x := b.twin(SequenceConfig{Layers: 1, KVHeads: 1, HeadDim: 48, ValueDim: 32, Format: format,
			ValuesInKeys: true}, 8)
		window := attn.Options{Causal: attn.BottomRight, Window: attn.Window{Left: 701, Right: 1}}
		for i, n := range []int{1, 1500, 2100} {
			x.append(n)
			for _, opt := range []attn.Options{bottomRight, window} {
				x.attend(0, 1, opt)
				x.attend(0, 3, opt)
				opt.Integers = format >= attn.I8
				x.attend(0, 2, opt)
			}
			x.whole()
			b.kill(fmt.Sprint("w", i))
			b.restart(fmt.Sprint("w", i))
			x.whole()
		}
		k := b.tensor(1, 2, 48)
		if err := x.far.Append(context.Background(), 0, k, b.tensor(1, 2, 32)); !errors.Is(err,
			attn.ErrShape) {
			t.Errorf("values beside keys: %v, want ErrShape", err)
		}
		if _, err := b.client.NewSequence(SequenceConfig{Layers: 1, KVHeads: 1, HeadDim: 8, ValueDim: 16,
			ValuesInKeys: true}); !errors.Is(err, attn.ErrShape) {
			t.Errorf("ValueDim above HeadDim: %v, want ErrShape", err)
		}
	}
}

// Workers die while tokens come, and others replace them. A single worker has no replacement: its
// tokens are lost, which is an error and never a wrong bit, and the next sequence works.
func TestSameBitsWithKills(t *testing.T) {
	for _, workers := range []int{1, 2, 4, 8} {
		for _, format := range []formatPair{{attn.F32, 0}, {attn.F16, 0}, {attn.I8, 0},
			{attn.I8, attn.I4}} {
			t.Run(fmt.Sprint(workers, format), func(t *testing.T) {
				t.Parallel()
				c := quick
				if workers > 1 { // nobody is given up only because the machine has much to do
					c.Patience, c.Gone = 2*time.Second, 3*time.Second
				}
				b := newBench(t, workers, c)
				x := b.twin(SequenceConfig{Layers: 2, KVHeads: 2, HeadDim: 32, ValueDim: 24,
					Format: format.keys, ValueFormat: format.values}, 4)
				x.append(3000)
				if workers == 1 {
					x.loseAll()
					return
				}
				x.whole()
				for i := range 2 {
					name := fmt.Sprint("w", i)
					killed := make(chan struct{})
					go func() {
						b.kill(name)
						close(killed)
					}()
					must(t, x.appendAtOnce(100))
					x.attendBoth()
					<-killed
					x.append(1)
					x.attendBoth()
					b.restart(name)
					x.append(1)
					x.whole()
					x.attendBoth()
				}
			})
		}
	}
}

// attendBoth compares both layers, over I8 in both arithmetics.
func (t *twin) attendBoth() {
	t.Helper()
	opt := bottomRight
	t.attend(0, 1, opt)
	t.attend(1, 3, opt)
	if opt.Integers = t.config.Format >= attn.I8; opt.Integers {
		t.attend(0, 1, opt)
		t.attend(1, 3, opt)
	}
}

// loseAll kills the only worker.
func (t *twin) loseAll() {
	t.Helper()
	t.attendBoth()
	t.kill("w0")
	t.restart("w0")
	q := t.tensor(t.heads, 1, t.config.HeadDim)
	dst := attn.BHLD(make([]float32, t.heads*t.config.ValueDim), 1, t.heads, 1, t.config.ValueDim)
	err := t.far.Attend(context.Background(), 0, dst, q, &bottomRight)
	if !errors.Is(err, ErrLost) {
		t.Fatalf("the error is %v, want ErrLost", err)
	}
	sameBits(t, "dst", dst.Data, make([]float32, len(dst.Data)))
	k, v := t.tensor(2, 1, t.config.HeadDim), t.tensor(2, 1, t.config.ValueDim)
	if err := t.far.Append(context.Background(), 0, k, v); !errors.Is(err, ErrLost) {
		t.Fatalf("the error is %v, want ErrLost", err)
	}
	next := t.twin(t.config, t.heads)
	next.append(2000)
	next.attendBoth()
}

// whole waits until all copies are there again.
func (t *twin) whole() {
	t.Helper()
	t.eventually("no copies are missing", func() bool { return t.far.Missing() == 0 && t.allAlive() })
}

func (t *twin) allAlive() bool {
	t.far.mu.Lock()
	defer t.far.mu.Unlock()
	for _, p := range t.far.parts {
		for _, x := range p.copies {
			if t.client.isLost(x) || t.client.member(x.worker).health.gone() {
				return false
			}
		}
	}
	return true
}

func TestOptions(t *testing.T) {
	b := newBench(t, 3, quick)
	x := b.twin(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 16, ValueDim: 16}, 4)
	const keys, rows = 3333, 3
	x.append(keys)
	mask, bias := make([]bool, rows*keys), b.tensor(4, rows, keys)
	for i := range mask {
		mask[i] = b.rand.IntN(3) > 0
	}
	bias = attn.BHLD(bias.Data, 1, 4, rows, keys)
	m := attn.BHLD(mask, 1, 1, rows, keys)
	four := []float32{0.5, 0.25, 0.125, 0.01}
	for name, o := range map[string]attn.Options{
		"full":    {},
		"scale":   {Scale: -0.3, Causal: attn.BottomRight},
		"window":  {Window: attn.Window{Left: 501, Right: 1}, Causal: attn.BottomRight},
		"nothing": {Window: attn.Window{}, Causal: attn.TopLeft},
		"hugely":  {Window: attn.Window{Left: math.MaxInt, Right: math.MaxInt - 1}},
		"one way": {Window: attn.Window{Left: 0, Right: math.MaxInt}, Causal: attn.BottomRight},
		"softcap": {Softcap: 3, Causal: attn.BottomRight},
		"slopes":  {Slopes: four, Causal: attn.BottomRight, Window: attn.Window{Left: 101, Right: 0}},
		"sinks":   {Sinks: four, Causal: attn.BottomRight},
		"mask":    {Mask: m},
		"bias":    {Bias: bias, Causal: attn.BottomRight, Window: attn.Window{Left: 1201, Right: 1}},
		"all": {Mask: m, Bias: bias, Slopes: four, Sinks: four, Softcap: 2, Scale: 0.1,
			Causal: attn.BottomRight},
	} {
		t.Run(name, func(t *testing.T) {
			x := *x
			y := *x.bench
			y.TB = t
			x.bench = &y
			x.attend(0, rows, o)
		})
	}
	long := b.twin(SequenceConfig{Layers: 1, KVHeads: 1, HeadDim: 16, ValueDim: 16}, 2)
	long.client.config.Chunk = 2000 // a few rows and tokens a message
	long.append(1100)
	long.attend(0, 50, bottomRight)
}

// If segments are small, a run has several. Threads divide the runs, tokens are dropped and added
// within one, and copies receive runs whole.
func TestRunsOfSeveralSegments(t *testing.T) {
	t.Parallel()
	c := patient
	c.Segments = 8
	b := newBench(t, 0, c)
	for _, name := range []string{"w0", "w1"} {
		w, err := NewWorker(b.dial(), WorkerConfig{Name: name, Memory: 1 << 28, Threads: 3,
			Announce: 100 * time.Millisecond})
		must(t, err)
		defer w.Close()
		b.workers[name] = w
	}
	t.Cleanup(func() { clear(b.workers) }) // the bench does not end these
	must(t, b.client.Wait(t.Context(), 2))
	for _, format := range []attn.Format{attn.F32, attn.I8} {
		x := b.twin(SequenceConfig{Layers: 1, KVHeads: 2, HeadDim: 64, ValueDim: 64, Format: format}, 2)
		for _, n := range []int{3000, 2300, 700, 3000} {
			x.append(n)
			x.attend(0, 2, bottomRight)
		}
		for _, w := range b.workers {
			runs := 0
			for _, o := range w.clients {
				for _, p := range o.copies {
					runs += len(p.layers[0].runs)
				}
			}
			if runs == 0 || runs > 6 {
				t.Errorf("%v: 9000 tokens are in %d runs, want 1 to 6", format, runs)
			}
		}
		must(t, x.far.Truncate(t.Context(), 7500))
		must(t, x.near[0].Truncate(7500))
		x.step(0, 1000, bottomRight)
		x.far.Release()
		b.empties()
	}
}

func TestTruncate(t *testing.T) {
	b := newBench(t, 3, quick)
	x := b.twin(SequenceConfig{Layers: 2, KVHeads: 1, HeadDim: 8, ValueDim: 8}, 2)
	for _, step := range []struct{ add, keep int }{{2500, 2048}, {100, 2100}, {300, 1000}, {50, 0},
		{1500, 1500}, {10, 1024}} {
		x.append(step.add)
		must(t, x.far.Truncate(context.Background(), step.keep))
		for _, s := range x.near {
			must(t, s.Truncate(step.keep))
		}
		x.append(3)
		x.attend(0, 2, bottomRight)
		x.attend(1, 1, bottomRight)
	}
}
