package lm

import (
	"math/bits"
	"time"
)

// pace decides how many tokens are worth guessing in a step: as many as give the most tokens a
// second, by how often guesses were right and how long steps took. Now and then it tries another
// number. Answers do not depend on it.
type pace struct {
	most   int
	steady bool                 // always most guesses, in tests
	wrong  [mostFurther]float64 // parts of the guesses with this number, after right ones,
	seen   [mostFurther]int     // of so many of the last guesses
	sizes  [8]paceOfSize        // for 1, 2, up to 4, up to 8 … jobs in a step
}

// paceOfSize has the durations of steps of some jobs.
type paceOfSize struct {
	steps int
	took  [mostFurther + 1]float64 // seconds of a step with so many guesses; 0 if unknown
	last  [mostFurther + 1]int     // the step before which that was chosen last
}

// Another number is tried in one step of some, more often as long as any is unknown.
const (
	triesSoon = 4
	triesLate = 32
)

func (p *pace) of(jobs int) *paceOfSize {
	return &p.sizes[min(bits.Len(uint(max(jobs, 1)-1)), len(p.sizes)-1)]
}

// choose returns the number of guesses for each job of a step.
func (p *pace) choose(jobs int) int {
	if p.steady {
		return p.most
	}
	s, best, oldest := p.of(jobs), p.most, 0
	tries := triesLate
	for n := range p.most + 1 {
		if s.last[n] < s.last[oldest] {
			oldest = n
		}
		if s.took[n] == 0 {
			tries = triesSoon
		}
		if p.tokens(n)*s.seconds(best, p.most) > p.tokens(best)*s.seconds(n, p.most) {
			best = n
		}
	}
	if s.steps++; s.steps%tries == 0 {
		best = oldest
	}
	s.last[best] = s.steps
	return best
}

// tokens returns how many tokens a step with n guesses gives on average.
func (p *pace) tokens(n int) float64 {
	all, part := 1.0, 1.0
	for _, wrong := range p.wrong[:n] {
		part *= 1 - wrong
		all += part
	}
	return all
}

// seconds returns the duration of a step with n guesses. Between known durations it interpolates
// linearly.
func (s *paceOfSize) seconds(n, most int) float64 {
	low, high := n, n
	for low >= 0 && s.took[low] == 0 {
		low--
	}
	for high <= most && s.took[high] == 0 {
		high++
	}
	switch {
	case low < 0 && high > most:
		return 1
	case low < 0:
		return s.took[high]
	case high > most || low == high:
		return s.took[low]
	}
	return s.took[low] + (s.took[high]-s.took[low])*float64(n-low)/float64(high-low)
}

// saw notes whether guess i of a job was right.
func (p *pace) saw(i int, right bool) {
	is := 1.0
	if right {
		is = 0
	}
	p.seen[i] = min(p.seen[i]+1, 64)
	p.wrong[i] += (is - p.wrong[i]) / float64(p.seen[i]+1)
}

// note notes how long a step took. What disturbs some steps counts little: times fall faster than
// they rise.
func (p *pace) note(jobs, guesses int, took time.Duration) {
	t := &p.of(jobs).took[guesses]
	if now := took.Seconds(); *t == 0 {
		*t = now
	} else {
		*t += (min(now, 1.05**t) - *t) / 4
	}
}
