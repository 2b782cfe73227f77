package lm

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// trial is one way to compute the same logits.
type trial struct {
	name           string
	workers, chunk int
	others         int  // prompts in the same batch
	share          bool // the first half of the prompt was computed before
}

var trials = []trial{
	{name: "alone, prompt in one piece", workers: 1, chunk: 1 << 20},
	{name: "2 workers", workers: 2, chunk: 1 << 20},
	{name: "prompt one token at a time", workers: 1, chunk: 1},
	{name: "prompt in pieces of 7", workers: 1, chunk: 7},
	{name: "prompt in pieces of 64", workers: 2, chunk: 64},
	{name: "in a batch of 16", workers: 2, chunk: 1 << 20, others: 15},
	{name: "in a batch of 16, in pieces of 50", workers: 1, chunk: 50, others: 15},
	{name: "half of the prompt shared", workers: 1, chunk: 1 << 20, share: true},
	{name: "batch of 16, all sharing half of it", workers: 2, chunk: 33, others: 15, share: true},
}

// prove compares the bits of logits in all trials with those of the first.
func prove(t *testing.T, m *model, s settings) {
	t.Helper()
	stop := m.Stop
	m.Stop = nil
	defer func() { m.Stop = stop }()
	prompt := make([]int, 150)
	for i := range prompt {
		prompt[i] = i * i % m.Vocab
	}
	want := trials[0].run(t, m, s, prompt)
	for _, trial := range trials[1:] {
		if got := trial.run(t, m, s, prompt); !slices.Equal(got, want) {
			t.Errorf("%s: logits have other bits", trial.name)
		}
	}
}

// run returns the logits after a prompt and some tokens.
func (r *trial) run(t *testing.T, m *model, s settings, prompt []int) (logits []float32) {
	t.Helper()
	s.workers, s.chunk, s.places, s.context = r.workers, r.chunk, 16, len(prompt)+20
	e, err := newTester(m, s)
	must(t, err)
	defer e.close()
	if r.share {
		e.queue(&call{prompt: prompt[:len(prompt)/2], most: 1, choose: greedy})
		must(t, e.answer())
	}
	for i := range r.others {
		other := slices.Clone(prompt[:len(prompt)-i])
		other[len(other)-1] = i
		e.queue(&call{prompt: other, most: 3 + i, choose: greedy})
	}
	e.queue(&call{prompt: prompt, most: 5, choose: func(x []float32) int {
		logits = append(logits, x...)
		return greedy(x)
	}})
	must(t, e.answer())
	return logits
}

// TestSameBits compares the bits of all trials for weights and caches of each type, and for
// integers.
func TestSameBits(t *testing.T) {
	for _, kind := range []attn.Format{attn.F32, attn.F16, attn.BF16, attn.I8} {
		t.Run(kind.String(), func(t *testing.T) {
			prove(t, tinyModel(t, kind, 1), settings{keys: kind})
		})
	}
	for _, kind := range []attn.Format{attn.F32, attn.F16, attn.I8} {
		t.Run("integers, cache "+kind.String(), func(t *testing.T) {
			l := &weights.Loader{Random: weights.Chance(1), Way: weights.Way{Integers: true}}
			prove(t, tinyModelOf(t, l, attn.I8), settings{keys: kind, integers: true})
		})
	}
}

// sampleLogits returns the logits after random tokens, which are the same for every model.
func sampleLogits(m *model, s settings) (all [][]float32, err error) {
	const sequences, prompt, steps = 16, 64, 16
	s.places, s.chunk, s.context = sequences, 1, prompt+steps
	e, err := newEngine(m, s)
	if err != nil {
		return nil, err
	}
	defer e.close()
	source := rand.New(rand.NewPCG(3, 4))
	random := func(n int) []int32 {
		x := make([]int32, n)
		for i := range x {
			x[i] = int32(source.IntN(m.Vocab))
		}
		return x
	}
	var pieces []piece
	for range sequences {
		seq, err := e.pages.newSequence()
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, piece{seq: seq, tokens: random(prompt)})
	}
	for range steps {
		if err := e.forward(pieces, nil); err != nil {
			return nil, err
		}
		for i := range pieces {
			all = append(all, slices.Clone(e.logits[i*m.Vocab:][:m.Vocab]))
			pieces[i].tokens = random(1)
		}
	}
	return all, nil
}

// distance returns the mean of |b − a| divided by the standard deviation of a, and the part of rows
// in which both have the same largest element.
func distance(a, b [][]float32) (mean, equal float64) {
	var sum, squares, differences, n float64
	for i, x := range a {
		for j, e := range x {
			sum += float64(e)
			squares += float64(e) * float64(e)
			differences += math.Abs(float64(b[i][j]) - float64(e))
			n++
		}
		if greedy(x) == greedy(b[i]) {
			equal++
		}
	}
	deviation := math.Sqrt(squares/n - sum/n*(sum/n))
	return differences / n / deviation, equal / float64(len(a))
}

// TestIntegersAreClose compares logits in integers, and with weights in I8, with float32's.
func TestIntegersAreClose(t *testing.T) {
	logits := func(kind attn.Format, integers bool) [][]float32 {
		m := tinyModelOf(t, &weights.Loader{Random: weights.Chance(1),
			Way: weights.Way{Integers: integers}}, kind)
		x, err := sampleLogits(m, settings{workers: 1, keys: kind, integers: integers})
		must(t, err)
		return x
	}
	exact := logits(attn.F32, false)
	stored, _ := distance(exact, logits(attn.I8, false))
	ints, _ := distance(exact, logits(attn.I8, true))
	if !(stored > 0 && stored < 0.05 && ints > stored && ints < 0.05) {
		t.Errorf("differences are %v and %v, want both below 0.05, and more in integers", stored, ints)
	}
}
