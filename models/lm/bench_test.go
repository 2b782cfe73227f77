package lm

import (
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/internal/measure"
)

var benchModel = flag.String("decoder", "-size 0.5b",
	"`flags` of the command for benchmarks: of the model, the types and the workers")

// benchCase is one call with new tokens for each of some sequences.
type benchCase struct {
	name                  string
	batch, before, tokens int
	shared                bool // the earlier tokens are the same for all
}

var benchCases = []benchCase{
	{"prefill-512", 1, 0, 512, false},
	{"decode-after-2048", 1, 2048, 1, false},
	{"decode-after-2048-batch-16", 16, 2048, 1, false},
	{"decode-after-2048-shared-batch-16", 16, 2048, 1, true},
}

// BenchmarkTokens reports tokens a second with attn and with textbook attention, by medians of
// alternating turns, and their ratio.
func BenchmarkTokens(b *testing.B) {
	o := &options{model: *benchModel, weights: asStored, settings: settings{context: 8192}}
	m, _, err := o.open()
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			t := c.begin(b, m, o.settings)
			defer t.close()
			for b.Loop() {
				t.turn(b, false)
				t.turn(b, true)
			}
			rate := func(side int) float64 {
				return float64(c.batch*c.tokens) / measure.Median(t.seconds[side])
			}
			b.ReportMetric(rate(0), "attn-tokens/s")
			b.ReportMetric(rate(1), "textbook-tokens/s")
			b.ReportMetric(rate(0)/rate(1), "ratio")
			b.ReportMetric(0, "ns/op") // the time of both together has no meaning
		})
	}
}

// contest is two kinds of attention in one engine.
type contest struct {
	*engine
	*benchCase
	ways    [2]cache
	pieces  []piece
	seconds [2][]float64
}

// begin creates the sequences.
func (c *benchCase) begin(b testing.TB, m *model, s settings) *contest {
	s.places, s.context = c.batch, c.before+c.tokens
	e, err := newTester(m, s)
	must(b, err)
	t := &contest{engine: e.engine, benchCase: c}
	t.ways = [2]cache{e.pages, newTextbook(e.engine)}
	source := rand.New(rand.NewPCG(1, 2))
	for i := range c.batch {
		p := piece{tokens: make([]int32, c.tokens)}
		if i > 0 && c.shared {
			p.seq, err = t.pieces[0].seq.fork(c.before)
		} else {
			p.seq, err = e.pages.newSequence()
			t.fill(b, p.seq, source)
		}
		must(b, err)
		for j := range p.tokens {
			p.tokens[j] = source.Int32N(int32(m.Vocab))
		}
		t.pieces = append(t.pieces, p)
	}
	t.turn(b, true) // the textbook copies the earlier tokens in it
	t.seconds[1] = nil
	return t
}

// fill appends random keys and values in place of a prompt: speed does not depend on their values.
func (t *contest) fill(b testing.TB, s sequence, source *rand.Rand) {
	if t.before == 0 {
		return
	}
	x := make([]float32, t.before*t.KVHeads*t.HeadDim)
	for i := range x {
		x[i] = 2*source.Float32() - 1
	}
	view := attn.BLHD(x, 1, t.before, t.KVHeads, t.HeadDim)
	for _, q := range s.(paged).layers {
		must(b, q.Append(view, view))
	}
}

// turn computes a prompt or one more token of each sequence, which is dropped after it.
func (t *contest) turn(b testing.TB, textbook bool) [][]float32 {
	side := 0
	if textbook {
		side = 1
	}
	t.runner.cache = t.ways[side]
	start := time.Now()
	err := t.forward(t.pieces, nil)
	t.seconds[side] = append(t.seconds[side], time.Since(start).Seconds())
	must(b, err)
	for _, p := range t.pieces {
		for _, q := range p.seq.(paged).layers {
			must(b, q.Truncate(t.before))
		}
	}
	return slices.Collect(slices.Chunk(t.logits, t.Vocab))
}

// TestTextbookAgrees runs all benchmarks with a tiny model.
func TestTextbookAgrees(t *testing.T) {
	m := tinyModel(t, attn.F32, 2)
	for _, c := range benchCases {
		turns := c.begin(t, m, settings{workers: 2, chunk: 1})
		defer turns.close()
		for range 2 {
			var ours [][]float32
			for _, x := range turns.turn(t, false) {
				ours = append(ours, slices.Clone(x))
			}
			theirs := turns.turn(t, true)
			for i := range ours {
				for j, x := range ours[i] {
					if d := math.Abs(float64(x - theirs[i][j])); !(d < 1e-4) {
						t.Fatalf("%s: logit %d of %d is %v, and %v by the textbook", c.name, j, i, x, theirs[i][j])
					}
				}
			}
		}
	}
}

// BenchmarkConversation reports the time of 20 turns without a session, 50 tokens of a message and
// 50 of an answer each, as a ratio to the time of the same turns in a session.
func BenchmarkConversation(b *testing.B) {
	const turns, message = 20, 50
	m, err := Random(Sizes{Layers: 8, Hidden: 512, Heads: 8, KVHeads: 2, FFN: 1408, Vocab: 8192},
		Options{Context: 2 * turns * message})
	must(b, err)
	defer m.Close()
	talk := func(number int, s *Session) float64 {
		var all []int32
		start := time.Now()
		for turn := range turns {
			first := len(all)
			for i := range message {
				all = append(all, int32((number*101+turn*31+i*7)%250))
			}
			prompt := all
			if s != nil {
				prompt = all[first:]
			}
			made := collect(b, m, prompt, Generation{MaxTokens: message, Session: s})
			if all = append(all, made...); len(made) < message {
				b.Fatalf("an answer has %d tokens", len(made))
			}
		}
		return time.Since(start).Seconds()
	}
	var seconds [2][]float64
	for number := 0; b.Loop(); number++ {
		seconds[0] = append(seconds[0], talk(2*number, nil))
		seconds[1] = append(seconds[1], talk(2*number+1, m.session(b)))
	}
	b.ReportMetric(measure.Median(seconds[0])/measure.Median(seconds[1]), "ratio")
	b.ReportMetric(slices.Min(seconds[0])/slices.Min(seconds[1]), "ratio-of-minima")
	b.ReportMetric(measure.Median(seconds[0])*1e3/turns, "ms/turn")
	b.ReportMetric(0, "ns/op") // the time of both together has no meaning
}
