package lm

import "slices"

// admit starts jobs in the order of their arrival, as long as there are places and pages.
func (e *engine) admit() {
	for len(e.waiting) > 0 && len(e.active) < e.settings.places && e.admitJob(e.waiting[0]) {
		j := e.waiting[0]
		e.active = append(e.active, j)
		e.waiting = slices.Delete(e.waiting, 0, 1)
		if len(j.tokens) == 0 {
			j.offer(nil) // its caller creates the sequence
		}
	}
}

// admitJob gives a job its sequence and reserves pages for it. It reports whether the job may
// compute; a job with an error counts as one that may.
func (e *engine) admitJob(j *job) bool {
	fresh := j.seq == nil
	if fresh && !e.newSequence(j) {
		return j.err != nil
	}
	j.valid = j.seq.length()
	for e.pages != nil && !e.pages.fits(e.active, j) {
		if e.dropIdle() {
			continue
		}
		if fresh {
			j.seq.release()
			j.seq = nil
		}
		return false
	}
	return true
}

// newSequence creates a job's sequence, with tokens of its prompt that another sequence has. It
// reports false if the job has to wait for a job whose prompt begins alike and is being computed.
func (e *engine) newSequence(j *job) bool {
	from, n := e.donor(j)
	if n > 0 && from == nil {
		return false
	}
	for e.pages != nil && e.pages.full() {
		if !e.dropIdle() {
			return false
		}
		if from, n = e.donor(j); n > 0 && from == nil {
			return false
		}
	}
	var err error
	if n > 0 {
		j.seq, err = from.fork(n)
		e.meter.shared, e.meter.hits, j.shared = e.meter.shared+n, e.meter.hits+1, n
	} else {
		j.seq, err = e.runner.cache.newSequence()
	}
	j.refuse(err)
	return err == nil
}

// donor returns the sequence that has the most of the first tokens of a job's prompt, and how many;
// no sequence if a job that computes its prompt will have more. At least one token is left to
// compute, since logits are not kept.
func (e *engine) donor(j *job) (from sequence, n int) {
	if j.alone || len(j.tokens) == 0 {
		return nil, 0
	}
	prompt := j.tokens[:len(j.tokens)-1]
	at, n := e.prefixes.find(prompt)
	coming := 0
	for _, other := range e.active {
		if other.alone || other.seq == nil || other.err != nil {
			continue
		}
		shared := common(other.tokens, prompt)
		if has := other.seq.reach(min(shared, other.valid)); has > n {
			from, n = other.seq, has
		}
		if e.willHave(other, shared) {
			coming = max(coming, shared)
		}
	}
	if coming > n {
		return nil, coming
	}
	if from == nil && n > 0 {
		from = e.prefixes.use(at)
	}
	return from, n
}

// willHave reports whether a job still computes its prompt and others may share more than shared
// tokens of it afterwards.
func (e *engine) willHave(j *job, shared int) bool {
	if j.phase != computing || j.decodes() || shared <= j.valid || !e.runner.cache.forks() {
		return false
	}
	return !e.snapshots || shared == j.given
}

// snapshot keeps the state of layers with windows or states at the end of a prompt, for prompts
// that begin alike: these layers cannot go back to it later.
func (e *engine) snapshot(j *job) {
	if !e.snapshots || j.alone || e.pages == nil || !e.pages.spares(e.active) {
		return
	}
	seq, err := j.seq.fork(j.given)
	if err != nil || seq.length() != j.given {
		return // sharing only saves time
	}
	seq.slide()
	e.prefixes.add(j.tokens[:j.given], seq, false)
}
