package lm

import (
	"fmt"
	"math"
	"slices"

	"github.com/seed-1415985d/attn"
)

// Sampling says how tokens are drawn. The zero value chooses the most likely token. The steps, in
// order:
//
//   - Repetition divides the logits of all tokens of the prompt and the answer so far if they
//     are above 0, and multiplies them otherwise. 0 and 1 change nothing.
//   - Frequency times the count of a token in the answer is subtracted from its logit, then
//     Presence from the logit of each token of the answer.
//   - [Generation].Logits may change logits.
//   - Temperature divides logits. With 0 the token of the largest logit is chosen, among
//     equals the lowest number, and TopK, TopP and MinP change nothing.
//   - TopK keeps that many of the largest logits; 0 keeps all. So does the size of the vocabulary,
//     but then tokens are drawn in descending order of their logits.
//   - TopP keeps the fewest of the most likely tokens that together have this probability; 0 and 1
//     keep all.
//   - MinP keeps tokens with at least this part of the largest probability.
//   - A token is drawn with a pseudorandom number that Seed and its position determine.
//
// The order of all operations is part of attn's numeric contract, so that the same logits, Seed and
// position give the same token in any program: docs/semantics.md defines it.
type Sampling struct {
	Temperature, TopP, MinP         float32
	Repetition, Frequency, Presence float32
	TopK                            int
	Seed                            uint64
}

// check refuses numbers outside their domain. Errors name the field.
func (s *Sampling) check() error {
	for _, n := range []struct {
		name     string
		is       float32
		from, to float32
	}{
		{"Temperature", s.Temperature, 0, math.MaxFloat32}, {"TopP", s.TopP, 0, 1},
		{"MinP", s.MinP, 0, 1}, {"Repetition", s.Repetition, 0, math.MaxFloat32},
		{"Frequency", s.Frequency, -math.MaxFloat32, math.MaxFloat32},
		{"Presence", s.Presence, -math.MaxFloat32, math.MaxFloat32},
	} {
		if !(n.is >= n.from && n.is <= n.to) {
			return fmt.Errorf("%w: Sampling.%s is %v, want %v to %v", attn.ErrOption, n.name, n.is, n.from,
				n.to)
		}
	}
	if s.TopK < 0 {
		return fmt.Errorf("%w: Sampling.TopK is %d, want 0 or more", attn.ErrOption, s.TopK)
	}
	return nil
}

// sampler chooses the tokens of one answer.
type sampler struct {
	Sampling
	before  []int32         // distinct tokens so far, if Repetition needs them
	seen    []uint64        // a bit for each token in before
	counts  map[int32]int32 // of tokens of the answer, if Frequency or Presence need them
	scores  []float32       // of all tokens: quotients, then probabilities
	ranked  []int32         // tokens by falling logit
	weights []float32       // their probabilities
}

func newSampler(s Sampling, before []int32) *sampler {
	d := &sampler{Sampling: s}
	if d.Repetition == 0 {
		d.Repetition = 1
	}
	if d.TopP == 0 {
		d.TopP = 1
	}
	if d.Frequency != 0 || d.Presence != 0 {
		d.counts = map[int32]int32{}
	}
	for _, token := range before {
		d.note(token)
	}
	return d
}

// note counts a token of the prompt.
func (d *sampler) note(token int32) {
	if d.Repetition == 1 {
		return
	}
	word, bit := int(token/64), uint64(1)<<(token%64)
	if word >= len(d.seen) {
		d.seen = append(d.seen, make([]uint64, word+1-len(d.seen))...)
	}
	if d.seen[word]&bit == 0 {
		d.seen[word] |= bit
		d.before = append(d.before, token)
	}
}

// chose counts a token of the answer.
func (d *sampler) chose(token int32) {
	d.note(token)
	if d.counts != nil {
		d.counts[token]++
	}
}

// penalize applies Repetition, Frequency and Presence to logits.
func (d *sampler) penalize(logits []float32) {
	for _, token := range d.before {
		if x := &logits[token]; *x > 0 {
			*x /= d.Repetition
		} else {
			*x *= d.Repetition
		}
	}
	for token, count := range d.counts {
		x := &logits[token]
		*x -= float32(d.Frequency * float32(count))
		*x -= d.Presence
	}
}

// checkPenalized refuses penalized logits from which no token can be chosen.
func (d *sampler) checkPenalized(logits []float32) error {
	for token := range d.penalized {
		x := logits[token]
		if x != x || x > math.MaxFloat32 || x < -math.MaxFloat32 && attn.Max(logits) == x {
			return fmt.Errorf("%w: Sampling's Repetition, Frequency and Presence make the logit of token "+
				"%d %v, want a number", attn.ErrOption, token, x)
		}
	}
	return nil
}

// penalized yields the tokens whose logits penalties change.
func (d *sampler) penalized(yield func(int32) bool) {
	for _, token := range d.before {
		if !yield(token) {
			return
		}
	}
	for token := range d.counts {
		if !yield(token) {
			return
		}
	}
}

// choose returns the token for a position, which is the number of tokens before it.
func (d *sampler) choose(logits []float32, position int) int32 {
	best := argMax(logits)
	if d.Temperature == 0 || math.IsInf(float64(logits[best]/d.Temperature), 0) {
		return best
	}
	u := uniform(d.Seed, position)
	if d.TopK == 0 && d.TopP == 1 && d.MinP == 0 {
		return int32(pick(d.probabilities(logits), u))
	}
	d.rank(logits)
	return d.ranked[pick(d.weights, u)]
}

// probabilities returns the probabilities of all tokens, in the order of their numbers.
func (d *sampler) probabilities(logits []float32) []float32 {
	d.scores = resize(d.scores, len(logits))
	for i, x := range logits {
		d.scores[i] = x / d.Temperature
	}
	attn.Softmax(d.scores, d.scores)
	return d.scores
}

// rank finds the tokens that may be drawn, by falling logit, and their probabilities. It tries the
// few largest logits first, which are usually enough.
func (d *sampler) rank(logits []float32) {
	if d.TopK > 0 && d.TopK < len(logits) {
		d.weights = d.top(logits, d.TopK)
		for i := range d.weights {
			d.weights[i] /= d.Temperature
		}
		attn.Softmax(d.weights, d.weights)
		n, _ := d.kept()
		d.weights = d.weights[:n]
		return
	}
	all := d.probabilities(logits)
	for n := min(256, len(logits)); ; n = min(8*n, len(logits)) {
		d.weights = d.top(logits, n)
		for i, token := range d.ranked {
			d.weights[i] = all[token]
		}
		if kept, enough := d.kept(); enough || n == len(logits) {
			d.weights = d.weights[:kept]
			return
		}
	}
}

// top sets the tokens of the n largest logits and returns their logits.
func (d *sampler) top(logits []float32, n int) []float32 {
	d.ranked = slices.Grow(d.ranked[:0], n)[:n]
	attn.TopK(d.ranked, logits)
	weights := resize(d.weights, n)
	for i, token := range d.ranked {
		weights[i] = logits[token]
	}
	return weights
}

// kept returns how many of the ranked tokens TopP and MinP keep. enough reports that more ranked
// tokens would not change that.
func (d *sampler) kept() (n int, enough bool) {
	n = len(d.weights)
	if d.TopP < 1 {
		sum := 0.0
		for i, p := range d.weights {
			if sum += float64(p); sum >= float64(d.TopP) {
				n, enough = i+1, true
				break
			}
		}
	}
	if d.MinP > 0 {
		least := float64(d.MinP) * float64(d.weights[0])
		for i, p := range d.weights[:n] {
			if float64(p) < least {
				return i, true
			}
		}
	}
	return n, enough
}

// pick returns the first index at which the running sum of weights exceeds u times the total.
func pick(weights []float32, u float64) int {
	sum := 0.0
	for _, x := range weights {
		sum += float64(x)
	}
	left, last := u*sum, 0
	sum = 0
	for i, x := range weights {
		if x > 0 {
			last = i // used if u times the total rounds to the total
		}
		if sum += float64(x); sum > left {
			return i
		}
	}
	return last
}

// uniform returns the number in [0, 1) that draws the token of a position: the upper 53 bits of
// output number position of SplitMix64 (Steele, Lea and Flood, 2014) from a seed.
func uniform(seed uint64, position int) float64 {
	z := seed + (uint64(position)+1)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return float64((z^z>>31)>>11) * 0x1p-53
}

// argMax returns the index of the largest logit, the first among equals.
func argMax(logits []float32) int32 {
	most, at := attn.Max(logits[:min(1, len(logits))]), 0 // where the maximum's block begins
	for first := 0; first < len(logits); first += someLogits {
		if x := attn.Max(logits[first:min(first+someLogits, len(logits))]); x > most {
			most, at = x, first
		}
	}
	return int32(at + slices.Index(logits[at:], most))
}

// checkHook refuses the logits of a hook if no token can be chosen from them.
func checkHook(logits []float32) error {
	some := false
	for i, x := range logits {
		switch {
		case x != x || x > math.MaxFloat32:
			return fmt.Errorf("%w: Generation.Logits left %v for token %d, want a number or -Inf",
				attn.ErrOption, x, i)
		case x >= -math.MaxFloat32:
			some = true
		}
	}
	if !some {
		return fmt.Errorf("%w: Generation.Logits left -Inf for all tokens, want one that may be chosen",
			attn.ErrOption)
	}
	return nil
}
