package lm

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// paceCase is a rate of right guesses, and durations of steps.
type paceCase struct {
	chance, first, each float64 // a step takes 1, with guesses first and each for one more
	jobs                int
}

// tokens returns how many tokens a step with n guesses gives on average.
func (c *paceCase) tokens(n int) float64 {
	all, part := 1.0, 1.0
	for range n {
		part *= c.chance
		all += part
	}
	return all
}

func (c *paceCase) seconds(n int) float64 {
	return 1 + float64(n)*c.each + math.Min(float64(n), 1)*c.first
}

// best returns the most tokens a second, with one of the numbers of guesses.
func (c *paceCase) best(p *pace) (most float64) {
	for n := range p.most + 1 {
		most = max(most, c.tokens(n)/c.seconds(n))
	}
	return most
}

// steps lets p decide the number of guesses in some steps. It returns tokens and seconds, both as
// expected from the numbers of guesses, and counts the numbers. One of 20 steps is disturbed.
func (c *paceCase) steps(p *pace, r *rand.Rand, steps int) (tokens, seconds float64,
	count [mostFurther + 1]int) {
	for range steps {
		n := p.choose(c.jobs)
		for range c.jobs {
			for i, is := 0, true; i < n && is; i++ {
				is = r.Float64() < c.chance
				p.saw(i, is)
			}
		}
		took := c.seconds(n)
		tokens, seconds, count[n] = tokens+c.tokens(n), seconds+took, count[n]+1
		if r.IntN(20) == 0 {
			took *= 5
		}
		p.note(c.jobs, n, time.Duration(took*(0.95+0.1*r.Float64())*1e6))
	}
	return tokens, seconds, count
}

// TestPace lets steps of known durations and chances decide the number of guesses: nearly all steps
// have one that gives nearly the most tokens a second, also after both change.
func TestPace(t *testing.T) {
	p := pace{most: mostFurther}
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []paceCase{{0.8, 0.2, 0.1, 1}, {0, 0.05, 0.15, 1}, {0.95, 0.2, 0.05, 1},
		{0.5, 0.1, 0.3, 1}, {0.9, 0, 0.5, 5}, {0.9, 0.5, 1, 16}, {0.8, 0.2, 0.1, 1}} {
		c.steps(&p, r, 1500)
		tokens, seconds, count := c.steps(&p, r, 3000)
		if got := tokens / seconds / c.best(&p); got < 0.95 {
			t.Errorf("%+v: guesses %v, and %.3f of the tokens of the best number", c, count, got)
		}
	}
}

// TestPaceBegins asserts the tokens a second of the first 40 steps of a model, and the first 100,
// as a part of what the best number of guesses gives: averages of many models.
func TestPaceBegins(t *testing.T) {
	for _, most := range []int{3, mostFurther} {
		for _, c := range []paceCase{{0, 0.05, 0.15, 1}, {0.1, 0.05, 0.15, 1}, {0.3, 0.05, 0.15, 1},
			{0.5, 0.1, 0.3, 1}, {0.8, 0.05, 0.15, 1}, {0.8, 0.2, 0.1, 1}, {0.95, 0.05, 0.15, 1},
			{0.95, 0.2, 0.05, 1}, {0.9, 0.1, 0.6, 1}, {0.3, 0.1, 0.3, 4}, {0.9, 0, 0.5, 5},
			{0.9, 0.5, 1, 16}} {
			for _, want := range []struct {
				steps int
				part  float64
			}{{40, 0.9}, {100, 0.95}} {
				tokens, seconds, r := 0.0, 0.0, rand.New(rand.NewPCG(1, 2))
				p := pace{most: most}
				for range 100 {
					p = pace{most: most}
					of, in, _ := c.steps(&p, r, want.steps)
					tokens, seconds = tokens+of, seconds+in
				}
				if got := tokens / seconds / c.best(&p); got < want.part {
					t.Errorf("%+v, %d steps with %d guesses at most: %.3f of the tokens of the best number",
						c, want.steps, most, got)
				}
			}
		}
	}
}
