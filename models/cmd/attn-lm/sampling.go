package main

import (
	"errors"
	"flag"
	"math"

	"github.com/seed-1415985d/attn/internal/flags"
	"github.com/seed-1415985d/attn/models/lm"
)

// answerFlags say how answers are generated.
type answerFlags struct {
	most  int
	stops []string
	lm.Sampling
}

func (a *answerFlags) register(f *flag.FlagSet) {
	f.IntVar(&a.most, "n", 64, "most tokens of an answer")
	f.Func("stop", "`text` that ends an answer and is not part of it; may be given several times",
		func(text string) error {
			if text == "" {
				return errors.New("want a text that is not empty")
			}
			a.stops = append(a.stops, text)
			return nil
		})
	number := func(to *float32, name, about string) {
		f.Var((*float)(to), name, about)
	}
	number(&a.Temperature, "temperature", "`number` that divides logits; 0 chooses the most "+
		"likely token (default 0)")
	f.IntVar(&a.TopK, "top-k", 0, "number of the most likely tokens to draw from; 0 for all")
	number(&a.TopP, "top-p", "`probability` that the most likely tokens reach together; others are "+
		"not drawn (default 1)")
	number(&a.MinP, "min-p", "least probability of drawn tokens as a `share` of the largest one "+
		"(default 0)")
	number(&a.Repetition, "repetition-penalty", "`number` that divides the logits of earlier tokens "+
		"if they are above 0, and multiplies them otherwise (default 1)")
	number(&a.Frequency, "frequency-penalty", "`number` that is subtracted from a token's logit each "+
		"time it is in the answer (default 0)")
	number(&a.Presence, "presence-penalty", "`number` that is subtracted from the logit of tokens of "+
		"the answer (default 0)")
}

func (a *answerFlags) check() error {
	if a.most < 1 {
		return flags.Errorf("-n is %d, want 1 or more", a.most)
	}
	const most = math.MaxFloat32
	for _, n := range []struct {
		name     string
		is       float32
		from, to float32
	}{{"temperature", a.Temperature, 0, most}, {"top-p", a.TopP, 0, 1}, {"min-p", a.MinP, 0, 1},
		{"repetition-penalty", a.Repetition, 0, most},
		{"frequency-penalty", a.Frequency, -most, most},
		{"presence-penalty", a.Presence, -most, most}} {
		if !(n.is >= n.from && n.is <= n.to) {
			return flags.Errorf("-%s is %v, want %v to %v", n.name, n.is, n.from, n.to)
		}
	}
	if a.TopK < 0 {
		return flags.Errorf("-top-k is %d, want 0 or more", a.TopK)
	}
	return nil
}

// generation returns the settings of an answer that draws with a seed.
func (a *answerFlags) generation(seed uint64) lm.Generation {
	g := lm.Generation{MaxTokens: a.most, Stop: a.stops, Sampling: a.Sampling}
	g.Sampling.Seed = seed
	return g
}
