package main

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/seed-1415985d/attn"
)

// sampling says how tokens are drawn, in the order in which transformers does it.
type sampling struct {
	repetition  float64 // logits of tokens that were there are divided, or multiplied, by it; 1: none
	temperature float64 // that divides logits; 0 takes the most likely token
	topK        int     // of the most likely tokens; 0 for all
	topP        float64 // of these as many as have together this probability
	minP        float64 // of these those that have this part of the largest probability
	seed        uint64
}

func (s *sampling) register(f *flag.FlagSet) {
	f.Float64Var(&s.temperature, "temperature", 0, "of sampling; 0 takes the most likely token")
	f.IntVar(&s.topK, "top-k", 0, "how many of the most likely tokens to draw from; 0 for all")
	f.Float64Var(&s.topP, "top-p", 1, "draw from the most likely tokens that have together this "+
		"probability")
	f.Float64Var(&s.minP, "min-p", 0, "draw from tokens that have at least this part of the largest "+
		"probability")
	f.Float64Var(&s.repetition, "repetition-penalty", 1, "divide positive logits of tokens that the "+
		"prompt or the answer has by it, and multiply negative ones")
}

func (s *sampling) check() error {
	switch {
	case !(s.temperature >= 0) || math.IsInf(s.temperature, 0):
		return fmt.Errorf("-temperature is %v, want 0 or more", s.temperature)
	case s.topK < 0:
		return fmt.Errorf("-top-k is %d, want 0 or more", s.topK)
	case !(s.topP > 0 && s.topP <= 1):
		return fmt.Errorf("-top-p is %v, want more than 0, and at most 1", s.topP)
	case !(s.minP >= 0 && s.minP <= 1):
		return fmt.Errorf("-min-p is %v, want 0 to 1", s.minP)
	case !(s.repetition > 0) || math.IsInf(s.repetition, 0):
		return fmt.Errorf("-repetition-penalty is %v, want more than 0", s.repetition)
	case s.temperature == 0 && (s.topK > 0 || s.topP < 1 || s.minP > 0):
		return fmt.Errorf("-top-k is %d, -top-p %v and -min-p %v, and -temperature 0, which takes the "+
			"most likely token, want it above 0", s.topK, s.topP, s.minP)
	}
	return nil
}

// sampler draws tokens of one answer. Since logits have the same bits in any batch, a prompt and a
// seed give the same answer in any batch.
type sampler struct {
	sampling
	source  *rand.Rand
	scores  []float32
	ranked  []int32
	weights []float32
	seen    map[int]bool
}

// chooser is a job's choice of its next token. Its number is that of the prompt.
func (s *sampling) chooser(j *job, number uint64) func([]float32) int {
	if s.temperature == 0 && s.repetition == 1 {
		return greedy
	}
	d := &sampler{sampling: *s, source: rand.New(rand.NewPCG(s.seed, number))}
	return func(logits []float32) int { return d.draw(logits, j.tokens) }
}

// draw chooses a token after those that were there.
func (d *sampler) draw(logits []float32, tokens []int) int {
	d.scores = append(d.scores[:0], logits...)
	d.penalize(tokens)
	temperature := float32(d.temperature)
	if most := float64(attn.Max(d.scores) / temperature); math.IsInf(most, 0) || math.IsNaN(most) {
		return greedy(d.scores) // also without a temperature
	}
	for i := range d.scores {
		d.scores[i] /= temperature
	}
	if d.topK == 0 && d.topP == 1 && d.minP == 0 {
		attn.Softmax(d.scores, d.scores)
		if i := d.pick(d.scores, 1); i >= 0 {
			return i
		}
		return greedy(d.scores) // the sum was a little below 1
	}
	d.rank()
	return int(d.ranked[max(0, d.pick(d.weights, sumOf(d.weights)))])
}

// penalize makes tokens that were there less likely, if the penalty is above 1.
func (d *sampler) penalize(tokens []int) {
	if d.repetition == 1 {
		return
	}
	if d.seen == nil {
		d.seen = map[int]bool{}
	}
	clear(d.seen)
	for _, token := range tokens {
		if d.seen[token] {
			continue
		}
		d.seen[token] = true
		if x := &d.scores[token]; *x > 0 {
			*x /= float32(d.repetition)
		} else {
			*x *= float32(d.repetition)
		}
	}
}

// rank finds the tokens that may be drawn, the most likely first, and their probabilities.
func (d *sampler) rank() {
	most := d.topK
	if most == 0 || most > len(d.scores) {
		most = len(d.scores)
		attn.Softmax(d.scores, d.scores) // over all, of which a few may be enough
	}
	for n := min(most, 256); ; n = min(most, n*8) {
		d.take(n, most == len(d.scores))
		if kept := d.kept(); kept < n || n == most {
			d.weights, d.ranked = d.weights[:kept], d.ranked[:kept]
			return
		}
	}
}

// take sets the n most likely tokens, whose scores are probabilities already or become some.
func (d *sampler) take(n int, probabilities bool) {
	if cap(d.ranked) < n {
		d.ranked = make([]int32, n)
	}
	d.ranked, d.weights = d.ranked[:n], resize(d.weights, n)
	attn.TopK(d.ranked, d.scores)
	for i, token := range d.ranked {
		d.weights[i] = d.scores[token]
	}
	if !probabilities && n == min(d.topK, len(d.scores)) {
		attn.Softmax(d.weights, d.weights)
	}
}

// kept is how many of the ranked tokens may be drawn.
func (d *sampler) kept() int {
	n, sum := 0, float32(0)
	for n < len(d.weights) && (n == 0 || sum < float32(d.topP) &&
		d.weights[n] >= float32(d.minP)*d.weights[0]) {
		sum += d.weights[n]
		n++
	}
	return n
}

// pick draws by weights that add up to about all, −1 if it is beyond them.
func (d *sampler) pick(weights []float32, all float32) int {
	left := d.source.Float32() * all
	for i, x := range weights {
		if left -= x; left < 0 {
			return i
		}
	}
	return -1
}

func sumOf(x []float32) (sum float32) {
	for _, e := range x {
		sum += e
	}
	return sum
}
