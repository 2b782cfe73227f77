package lm

import (
	"fmt"
	"slices"

	"github.com/seed-1415985d/attn"
)

// drafter guesses the next tokens of jobs by a second, smaller model. The first model computes the
// logits of all guesses in one step, as it would one by one, and each token is chosen by them as
// ever: a guess that was chosen, too, saves a step, and another one costs only its row.
type drafter struct {
	runner
	tokens      int // that both models have
	most        int // guesses at a time
	reads       int // tokens of prompts at a time
	seqs        map[*job]*drafted
	last        *drafted // of a job that has ended, with which another one may go on
	made        int      // guesses
	jobs, whose []*job   // of one call
	pieces      []piece
}

// drafted is what the second model has read of a job.
type drafted struct {
	seq    sequence
	tokens []int32
}

func newDrafter(e *engine, s settings) (*drafter, error) {
	d := &drafter{runner: runner{model: s.draft, pool: e.pool}, tokens: min(e.Vocab, s.draft.Vocab),
		most: min(s.guesses, s.chunk-1), reads: s.chunk, seqs: map[*job]*drafted{}}
	if d.most < 1 {
		return nil, fmt.Errorf("%w: Options.Guesses is %d and Options.Chunk %d, want at least 1 and 2",
			attn.ErrOption, s.guesses, s.chunk)
	}
	// Layers with a window keep all tokens, since a sequence may go back.
	s.chunk, s.memory = s.context, 0
	c, err := newPages(s.draft, &s, e.pool)
	d.runner.cache = c
	return d, err
}

// guess sets, for those of some jobs that decode, the next tokens that the second model would
// choose, as many as each may still have but one.
func (d *drafter) guess(jobs []*job) error {
	d.jobs = d.jobs[:0]
	for _, j := range jobs {
		if !j.decodes() || j.alone || d.cannotRead(j) {
			continue
		}
		if err := d.read(j); err != nil {
			return fmt.Errorf("Options.Draft: %w", err)
		}
		d.seqs[j].seq.mark()
		d.jobs = append(d.jobs, j)
	}
	for range d.most {
		d.pieces, d.whose = d.pieces[:0], d.whose[:0]
		for _, j := range d.jobs {
			x := d.seqs[j]
			if len(j.guesses) < j.limit-len(j.tokens)-1 {
				x.tokens = append(append(x.tokens[:0], j.tokens...), j.guesses...)
				d.pieces = append(d.pieces, piece{seq: x.seq, tokens: x.tokens[x.seq.length():]})
				d.whose = append(d.whose, j)
			}
		}
		if len(d.pieces) == 0 {
			break
		}
		if err := d.forward(d.pieces, nil); err != nil {
			return fmt.Errorf("Options.Draft: %w", err)
		}
		for i, j := range d.whose {
			j.guesses = append(j.guesses, int32(argMax(d.logits[i*d.Vocab:][:d.tokens])))
			d.made++
		}
	}
	return nil
}

// cannotRead reports whether a job has tokens that the second model does not have.
func (d *drafter) cannotRead(j *job) bool { return int(slices.Max(j.tokens)) >= d.tokens }

// read takes the tokens of a job through the model, all but the last, after which guesses begin.
// Guesses that were not chosen are taken back.
func (d *drafter) read(j *job) (err error) {
	x := d.seqs[j]
	if x == nil {
		if x, err = d.begin(j.tokens); err != nil {
			return err
		}
		d.seqs[j] = x
	} else {
		right := common(x.tokens[:min(len(x.tokens), x.seq.length())], j.tokens)
		err = x.seq.back(right)
	}
	for err == nil && x.seq.length() < len(j.tokens)-1 {
		at := x.seq.length()
		err = d.forward([]piece{{seq: x.seq, tokens: j.tokens[at:min(len(j.tokens)-1, at+d.reads)]}}, nil)
	}
	return err
}

// begin is a sequence with what the last job's has in common with some tokens.
func (d *drafter) begin(tokens []int32) (*drafted, error) {
	if d.last == nil {
		seq, err := d.runner.cache.newSequence()
		return &drafted{seq: seq}, err
	}
	n := d.last.seq.reach(common(d.last.tokens[:d.last.seq.length()], tokens[:len(tokens)-1]))
	seq, err := d.last.seq.fork(n)
	d.last.seq.release()
	d.last = nil
	return &drafted{seq: seq}, err
}

// forget keeps the sequence of a job that has ended for the next one.
func (d *drafter) forget(j *job) {
	x := d.seqs[j]
	if x == nil {
		return
	}
	if delete(d.seqs, j); d.last != nil {
		d.last.seq.release()
	}
	d.last = x
}

// sameTokens refuses a second model that has other tokens than the first. Of some numbers only one
// of them may have a token: models of one family differ in rows that no token has.
func sameTokens(second, first *Model) error {
	for token := range int32(min(second.net.Vocab, first.net.Vocab)) {
		got, want := second.tokenizer.Text(token), first.tokenizer.Text(token)
		if got != want && got != "" && want != "" {
			return fmt.Errorf("%w: token %d of Options.Draft is %q, want %q as the model has it",
				attn.ErrOption, token, got, want)
		}
	}
	return nil
}
