package lm

import (
	"math/bits"
	"time"
)

// pace decides how many tokens are worth guessing in a step: as many as give the most tokens a
// second, by how often guesses were right and how long steps took. It knows all answers of a model,
// and begins with estimates. Answers do not depend on it.
type pace struct {
	most   int
	steady bool                 // always most guesses, in tests
	right  [mostFurther]float64 // parts of the guesses with this number, after right ones,
	seen   [mostFurther]int     // of so many of the last guesses
	sizes  [8]paceOfSize        // for 1, 2, up to 4, up to 8 … jobs in a step
}

// paceOfSize has the durations of steps of some jobs.
type paceOfSize struct {
	steps int
	took  [mostFurther + 1]float64 // seconds of a step with so many guesses; 0 if unknown
	noted [mostFurther + 1]int     // so many of these
	last  [mostFurther + 1]int     // the step before which that was chosen last
	each  float64                  // how much longer a guess makes a step, as a part
	spare float64                  // seconds that steps with other numbers may lose
	tried int                      // the last step with another number
}

const (
	usuallyRight = 0.7      // the estimate for guesses of which few were seen,
	usualWeight  = 2        // which counts as so many guesses
	seenAtMost   = 48       // guesses that count
	notedAtMost  = 8        // steps that count
	triesEvery   = 4        // another number is tried in one of so many steps at most,
	lossAtMost   = 1. / 100 // and may lose this part of the time
)

func (p *pace) of(jobs int) *paceOfSize {
	class := bits.Len(uint(max(jobs, 1) - 1))
	s := &p.sizes[min(class, len(p.sizes)-1)]
	if s.steps == 0 {
		s.each = min(0.1+0.05*float64(jobs), 1)
	}
	return s
}

// choose returns the number of guesses for each job of a step.
func (p *pace) choose(jobs int) int {
	if p.steady {
		return p.most
	}
	s, best := p.of(jobs), 0
	for n := range p.most + 1 {
		if p.tokens(n)*s.seconds(best) > p.tokens(best)*s.seconds(n) {
			best = n
		}
	}
	s.steps++
	if s.took[0] == 0 {
		if s.steps%triesEvery == 1 { // steps with prompts are not noted
			best = 0
		}
	} else if other := p.other(s, best); s.steps >= s.tried+triesEvery {
		// Its tokens would take less time at the best rate.
		loss := s.seconds(other) - p.tokens(other)*s.seconds(best)/p.tokens(best)
		if loss <= s.spare {
			s.spare, s.tried, best = s.spare-loss, s.steps, other
		}
	}
	s.last[best] = s.steps
	return best
}

// other returns the number that may be tried next: a neighbour of the best one, or 0, whose
// duration says most about the others. It is the one that was chosen longest ago.
func (p *pace) other(s *paceOfSize, best int) int {
	other := -1
	for _, n := range [...]int{best + 1, best - 1, 0} {
		if n >= 0 && n <= p.most && n != best && (other < 0 || s.last[n] < s.last[other]) {
			other = n
		}
	}
	return other
}

// tokens returns how many tokens a step with n guesses gives on average.
func (p *pace) tokens(n int) float64 {
	all, part, estimate := 1.0, 1.0, usuallyRight
	for i, right := range p.right[:n] {
		// few guesses with a high number are seen: it is estimated by the number before
		seen := float64(p.seen[i])
		estimate = (estimate*usualWeight + right*seen) / (usualWeight + seen)
		part *= estimate
		all += part
	}
	return all
}

// seconds returns the duration of a step with n guesses. It is estimated by a step without guesses
// as long as few such steps are known.
func (s *paceOfSize) seconds(n int) float64 {
	base, weight := s.took[0], float64(s.noted[n])
	if base == 0 {
		base = 1
	}
	return (base*(1+s.each*float64(n)) + s.took[n]*weight) / (1 + weight)
}

// saw notes whether guess i of a job was right.
func (p *pace) saw(i int, right bool) {
	is := 0.0
	if right {
		is = 1
	}
	p.seen[i] = min(p.seen[i]+1, seenAtMost)
	p.right[i] += (is - p.right[i]) / float64(p.seen[i])
}

// note notes how long a step took. What disturbs some steps counts little: a duration rises slowly,
// and fewer guesses never take longer.
func (p *pace) note(jobs, guesses int, took time.Duration) {
	s, now := p.of(jobs), took.Seconds()
	if s.took[0] == 0 {
		if guesses == 0 {
			s.took[0], s.noted[0] = now, 1
		}
		return
	}
	s.spare += now * lossAtMost
	s.noted[guesses] = min(s.noted[guesses]+1, notedAtMost)
	weight := 1 / float64(s.noted[guesses])
	now = min(now, (1.25+2*weight)*s.seconds(guesses))
	s.took[guesses] += (now - s.took[guesses]) * weight
	if guesses > 0 {
		s.each += (max(now/s.took[0]-1, 0)/float64(guesses) - s.each) / 4
	}
	for n := range guesses {
		s.took[n] = min(s.took[n], s.took[guesses])
	}
}
