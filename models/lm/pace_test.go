package lm

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestPace lets steps of known durations and chances decide the number of guesses: nearly all steps
// have one that gives nearly the most tokens a second, also after both change.
func TestPace(t *testing.T) {
	p := pace{most: mostFurther}
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		chance, first, each float64 // a step takes 1, with guesses first and each for one more
		jobs, best          int
	}{{0.8, 0.2, 0.1, 1, 5}, {0.1, 0.2, 0.1, 1, 0}, {0.95, 0.2, 0.05, 1, 8}, {0.5, 0.1, 0.3, 1, 1},
		{0.9, 0, 0.5, 5, 2}, {0.9, 0.5, 1, 16, 0}, {0.8, 0.2, 0.1, 1, 5}} {
		const before, steps = 1500, 3000
		seconds := func(n int) float64 {
			return 1 + float64(n)*c.each + math.Min(float64(n), 1)*c.first
		}
		tokens, took, most := 0.0, 0.0, 0.0
		for n := range p.most + 1 {
			all := 1.0
			for i := range n {
				all += math.Pow(c.chance, float64(i+1))
			}
			most = max(most, all/seconds(n))
		}
		count := [mostFurther + 1]int{}
		for step := range before + steps {
			n, right := p.choose(c.jobs), 0
			for range c.jobs {
				for i := range n {
					is := r.Float64() < c.chance
					if p.saw(i, is); !is {
						break
					}
					right++
				}
			}
			disturbed := 1.0
			if r.IntN(20) == 0 {
				disturbed = 5
			}
			p.note(c.jobs, n, time.Duration(seconds(n)*disturbed*(0.95+0.1*r.Float64())*1e6))
			if step >= before {
				tokens, took, count[n] = tokens+float64(c.jobs+right), took+seconds(n), count[n]+1
			}
		}
		if got := tokens / float64(c.jobs) / took / most; got < 0.94 {
			t.Errorf("%+v: guesses %v, and %.3f of the tokens of the best number", c, count, got)
		}
	}
}
