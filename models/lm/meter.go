package lm

import "time"

// meter counts tokens and time. Steps with parts of prompts are counted apart from steps that only
// decode. The engine's mutex guards it.
type meter struct {
	read, beside    int // tokens of prompts, and tokens decoded in the same steps
	made, steps     int // tokens decoded in the other steps, and the number of these
	reads           int // steps with prompts
	shared, hits    int // tokens of prompts that were not computed again, and prompts with such tokens
	right           int // guesses that were chosen
	reading, making time.Duration
	used, peak      int // bytes of the cache in use, now and at most
}

func (m *meter) count(b *batch, took time.Duration) {
	if b.read > 0 {
		m.read, m.beside, m.reads = m.read+b.read, m.beside+b.made, m.reads+1
		m.reading += took
	} else {
		m.made, m.steps, m.making = m.made+b.made, m.steps+1, m.making+took
	}
}

// counts returns the counts so far.
func (e *engine) counts() meter {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.meter
}
