package lm

import (
	"fmt"
	"slices"

	"github.com/seed-1415985d/attn"
)

// drafter guesses the next tokens of jobs with a second, smaller model (speculative decoding). The
// first model computes the logits after all guesses in one step, and tokens are chosen by these as
// without guesses: a right guess saves a step, a wrong one costs its row.
type drafter struct {
	runner
	tokens      int // tokens of the vocabularies that both models have
	most        int // most guesses at a time
	reads       int // tokens of prompts in a step of the second model
	seqs        map[*job]*drafted
	last        *drafted // of an ended job, with which another job may continue
	made        int      // guesses so far
	jobs, whose []*job   // of one call
	pieces      []piece
}

// drafted is the second model's sequence of a job.
type drafted struct {
	seq    sequence
	tokens []int32 // at least those of seq
}

func newDrafter(e *engine, s settings) (*drafter, error) {
	d := &drafter{runner: runner{model: s.draft, pool: e.pool}, tokens: min(e.Vocab, s.draft.Vocab),
		most: min(s.guesses, s.chunk-1), reads: s.chunk, seqs: map[*job]*drafted{}}
	if d.most < 1 {
		return nil, fmt.Errorf("%w: Options.Guesses is %d and Options.Chunk %d, want at least 1 and 2",
			attn.ErrOption, s.guesses, s.chunk)
	}
	// A sequence may go back, so layers with a window keep all tokens.
	s.chunk, s.memory = s.context, 0
	c, err := newPages(s.draft, &s, e.pool)
	d.runner.cache = c
	return d, err
}

// guess sets guesses for the jobs that decode: the tokens that the second model would choose next,
// as long as the job may have one token more than these.
func (d *drafter) guess(jobs []*job) error {
	d.jobs = d.jobs[:0]
	for _, j := range jobs {
		if !j.decodes() || j.alone || d.cannotRead(j) {
			continue
		}
		if err := d.appendTokens(j); err != nil {
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

// cannotRead reports whether a job has tokens that are not in the second model's vocabulary.
func (d *drafter) cannotRead(j *job) bool { return int(slices.Max(j.tokens)) >= d.tokens }

// appendTokens appends the tokens of a job to the second model's sequence, except the last one,
// after which guesses begin. It drops guesses that were not chosen.
func (d *drafter) appendTokens(j *job) (err error) {
	x := d.seqs[j]
	if x == nil {
		if x, err = d.beginDraft(j.tokens); err != nil {
			return err
		}
		d.seqs[j] = x
	} else {
		err = x.seq.back(common(x.tokens[:x.seq.length()], j.tokens))
	}
	if err == nil {
		x.tokens = append(x.tokens[:0], j.tokens...)
	}
	for err == nil && x.seq.length() < len(j.tokens)-1 {
		at := x.seq.length()
		err = d.forward([]piece{{seq: x.seq, tokens: j.tokens[at:min(len(j.tokens)-1, at+d.reads)]}}, nil)
	}
	return err
}

// beginDraft returns a sequence with the tokens that the last job's sequence has in common with
// these.
func (d *drafter) beginDraft(tokens []int32) (*drafted, error) {
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

// forget keeps the sequence of an ended job for the next one.
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

// sameTokens refuses a second model whose tokens differ. A number may be a token in one model only:
// models of one family differ in unused rows.
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
