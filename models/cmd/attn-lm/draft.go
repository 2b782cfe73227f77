package main

import (
	"fmt"
	"io"
	"slices"
)

// drafter guesses the next tokens of jobs by a second, smaller model. The first model computes the
// logits of all guesses in one step, as it would one by one, and each token is chosen by them as
// ever: a guess that was chosen, too, saves a step, and another one costs only its row.
type drafter struct {
	runner
	tokens   int // that both models have
	most     int // guesses at a time
	reads    int // tokens of prompts at a time
	seqs     map[*job]*drafted
	last     *drafted // of a job that has ended, with which another one may go on
	made     int      // guesses,
	accepted int      // and how many were right
}

// drafted is what the second model has read of a job.
type drafted struct {
	seq    sequence
	tokens []int
}

func newDrafter(e *engine, s settings) (*drafter, error) {
	d := &drafter{runner: runner{model: s.draft, pool: e.pool}, tokens: min(e.Vocab, s.draft.Vocab),
		most: min(s.guesses, s.chunk-1), reads: s.chunk, seqs: map[*job]*drafted{}}
	if d.most < 1 {
		return nil, fmt.Errorf("-guesses is %d and -chunk %d, want at least 1 and 2", s.guesses, s.chunk)
	}
	var err error
	s.chunk = s.context // so that layers with a window keep all tokens: a sequence may go back
	d.cache, err = newPages(s.draft, &s, e.pool)
	return d, err
}

// guess returns the next tokens that the second model would choose for jobs, as many as each may
// still have but one.
func (d *drafter) guess(jobs []*job) (map[*job][]int, error) {
	guesses := map[*job][]int{}
	jobs = slices.DeleteFunc(jobs, d.cannotRead)
	for _, j := range jobs {
		if err := d.read(j); err != nil {
			return nil, fmt.Errorf("the -draft model: %w", err)
		}
		d.seqs[j].seq.mark()
	}
	for range d.most {
		var pieces []piece
		var whose []*job
		for _, j := range jobs {
			x := d.seqs[j]
			if left := len(j.prompt) + j.most - len(j.tokens); len(guesses[j]) < left-1 {
				x.tokens = slices.Concat(j.tokens, guesses[j])
				pieces = append(pieces, piece{x.seq, x.tokens[x.seq.length():]})
				whose = append(whose, j)
			}
		}
		if len(pieces) == 0 {
			break
		}
		logits, err := d.forward(pieces)
		if err != nil {
			return nil, fmt.Errorf("the -draft model: %w", err)
		}
		for i, j := range whose {
			guesses[j] = append(guesses[j], greedy(logits[i][:d.tokens]))
			d.made++
		}
	}
	return guesses, nil
}

// cannotRead says whether a job has tokens that the second model does not have.
func (d *drafter) cannotRead(j *job) bool { return slices.Max(j.tokens) >= d.tokens }

// read takes the tokens of a job through the model, all but the last, of which guesses begin.
func (d *drafter) read(j *job) (err error) {
	x := d.seqs[j]
	if x == nil {
		if x, err = d.begin(j.tokens); err != nil {
			return err
		}
		d.seqs[j] = x
	}
	for err == nil && x.seq.length() < len(j.tokens)-1 {
		at := x.seq.length()
		_, err = d.forward([]piece{{x.seq, j.tokens[at:min(len(j.tokens)-1, at+d.reads)]}})
	}
	return err
}

// begin is a sequence with what the last job's has in common with some tokens.
func (d *drafter) begin(tokens []int) (*drafted, error) {
	if d.last == nil {
		seq, err := d.cache.newSequence()
		return &drafted{seq: seq}, err
	}
	n := len(common([][]int{d.last.tokens[:d.last.seq.length()], tokens[:len(tokens)-1]}))
	seq, err := d.last.seq.fork(n)
	d.last.seq.release()
	d.last = nil
	return &drafted{seq: seq}, err
}

// follow takes back the guesses that were not chosen: the tokens of a job are what it has now.
func (d *drafter) follow(j *job) error {
	x := d.seqs[j]
	if x == nil {
		return nil
	}
	right := len(common([][]int{x.tokens[:min(len(x.tokens), x.seq.length())], j.tokens}))
	if err := x.seq.back(right); err != nil {
		return err
	}
	x.tokens = slices.Clone(j.tokens)
	if !j.done {
		return nil
	}
	if delete(d.seqs, j); d.last != nil {
		d.last.seq.release()
	}
	d.last = x
	return nil
}

func (d *drafter) report(out io.Writer) {
	fmt.Fprintf(out, "guesses: %d, of which %d were chosen\n", d.made, d.accepted)
}

// openDraft loads the second model, if there is one, for a model and its tokens.
func (o *options) openDraft(m *model, text codec) error {
	if o.draftPath == "" {
		return nil
	}
	second := *o
	second.model, second.pack = o.draftPath, ""
	draft, words, err := second.open()
	if err == nil {
		err = sameTokens(words, text, min(draft.Vocab, m.Vocab))
	}
	if err != nil {
		return fmt.Errorf("-draft: %w", err)
	}
	o.draft = draft
	return nil
}

// sameTokens refuses a second model that has other tokens than the first. Of some numbers only one
// of them may have a token: models of one family differ in rows that no token has.
func sameTokens(second, first codec, n int) error {
	for token := range n {
		got, want := second.Text(token), first.Text(token)
		if got != want && got != "" && want != "" {
			return fmt.Errorf("token %d is %q, want %q as the model has it", token, got, want)
		}
	}
	return nil
}
