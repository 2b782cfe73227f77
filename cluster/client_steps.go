package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/seed-1415985d/attn"
)

// Steps is a [Sequence.Step] on a layer of each of several sequences of one shape, with rows packed
// one sequence after another, as in [attn.AttendSequences]:
//
//	q   [1, H, Σ, HeadDim]     dst [1, H, Σ, ValueDim]
//	k   [1, KVHeads, Σ, HeadDim]     v [1, KVHeads, Σ, ValueDim]
//
// Options.QueryLens holds the number of tokens, and queries, of each sequence; nil is one each.
// Each worker gets one request for all sequences. Mask, Bias and Blocks are [attn.ErrUnsupported]:
// use Step with these.
//
// Sequences do not depend on each other: if some have errors, which is a [*StepsError], the others
// have their tokens and outputs.
func (c *Client) Steps(ctx context.Context, layer int, dst, q, k, v attn.Tensor, seqs []*Sequence,
	opt *attn.Options) error {
	if opt == nil {
		opt = new(attn.Options)
	}
	lens, err := c.checkSteps(&dst, &q, &k, &v, seqs, opt)
	if err != nil {
		return err
	}
	ctx, cancel := c.limit(ctx)
	defer cancel()
	b := &batch{client: c}
	errs := make([]error, len(seqs))
	var alone sync.WaitGroup
	from := 0
	for i, s := range seqs {
		to := from + lens[i]
		x := &call{Sequence: s, layer: layer, appends: true, k: k.Slice(from, to),
			v: slice(&v, from, to), batched: batched{number: i, lse: opt.LSE, from: from, pitch: q.L}}
		x.ask(dst.Slice(from, to), q.Slice(from, to), opt)
		if x.opt.QueryLens = nil; opt.LSE != nil {
			x.opt.LSE = make([]float32, q.H*lens[i])
		}
		from = to
		if errs[i] = s.check(layer); errs[i] == nil && !b.add(x) {
			alone.Go(func() { errs[i] = x.runCall(ctx) })
		}
	}
	b.send(ctx)
	b.wait(ctx, func(x *call, goesOn bool) {
		if !goesOn {
			errs[x.number] = x.takeTokens(ctx)
			return
		}
		alone.Go(func() {
			ctx, end := x.beginCall(ctx)
			defer end()
			errs[x.number] = x.takeTokens(ctx)
		})
	})
	b.sendRest()
	alone.Wait()
	if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return &StepsError{errs}
	}
	return nil
}

// StepsError holds an error for each sequence of Steps, nil for those without one.
type StepsError struct{ Errs []error }

func (e *StepsError) Error() string {
	var texts []string
	for i, err := range e.Errs {
		if err != nil {
			texts = append(texts, fmt.Sprintf("seqs[%d]: %v", i, err))
		}
	}
	return strings.Join(texts, "\n")
}

// Unwrap returns the errors that are not nil.
func (e *StepsError) Unwrap() []error {
	return slices.DeleteFunc(slices.Clone(e.Errs), func(err error) bool { return err == nil })
}

// checkSteps validates the arguments of Steps. It returns the number of tokens of each sequence.
func (c *Client) checkSteps(dst, q, k, v *attn.Tensor, seqs []*Sequence,
	opt *attn.Options) (lens []int, err error) {
	if err := c.checkSequences(seqs); err != nil {
		return nil, err
	}
	for name, is := range map[string]bool{"Mask": !none(&opt.Mask), "Bias": !none(&opt.Bias),
		"Blocks": !none(&opt.Blocks)} {
		if is {
			return nil, fail(attn.ErrUnsupported, "%s is set, want none with several sequences", name)
		}
	}
	if lens = opt.QueryLens; lens == nil {
		lens = slices.Repeat([]int{1}, len(seqs))
	}
	sum := 0
	for i, n := range lens {
		if n < 0 || n > maxLength {
			return nil, fail(attn.ErrLength, "QueryLens[%d] is %d, want 0 to %d", i, n, maxLength)
		}
		sum += n
	}
	values := v.L
	if none(v) {
		values = sum // as with ValuesInKeys, or it is refused
	}
	switch {
	case len(lens) != len(seqs):
		return nil, fail(attn.ErrLength, "len(QueryLens) is %d, want %d, one for each sequence",
			len(lens), len(seqs))
	case q.L != sum || dst.L != sum || k.L != sum || values != sum:
		return nil, fail(attn.ErrShape, "q, dst, k and v have %d, %d, %d and %d rows, want %d each: one "+
			"for each token of the sequences", q.L, dst.L, k.L, values, sum)
	case opt.LSE != nil && len(opt.LSE) != q.H*sum:
		return nil, fail(attn.ErrLength, "len(LSE) is %d, want %d×%d", len(opt.LSE), q.H, sum)
	case len(seqs) == 0:
		return lens, nil
	}
	if err := seqs[0].checkTokens(k, v); err != nil {
		return nil, err
	}
	all := call{Sequence: seqs[0]}
	all.ask(*dst, *q, opt)
	all.opt.QueryLens = nil
	return lens, all.checkQueries()
}

func (c *Client) checkSequences(seqs []*Sequence) error {
	for i, s := range seqs {
		switch {
		case s == nil:
			return fail(attn.ErrOption, "seqs[%d] is nil, want a sequence", i)
		case s.client != c:
			return fail(attn.ErrOption, "seqs[%d] is of another client, want one of this", i)
		case slices.Contains(seqs[:i], s):
			return fail(attn.ErrOption, "seqs[%d] is there twice, want each once", i)
		case s.shape != seqs[0].shape:
			return fail(attn.ErrShape, "seqs[%d] is %+v, want the shape of seqs[0], %+v", i, s.shape,
				seqs[0].shape)
		}
	}
	return nil
}

// batched is the state of a call in a batch.
type batched struct {
	number      int // in the batch
	lse         []float32
	from, pitch int     // offset of its rows in lse, and the rows of all calls
	begun       *gather // requests that were sent together with other steps'
	over        bool    // nobody waits for it in the batch any more
}

// putAmongOthers writes the LSE of a call to its place in the batch's LSE.
func (c *call) putAmongOthers() {
	for h := 0; c.lse != nil && h < c.q.H; h++ {
		copy(c.lse[h*c.pitch+c.from:], c.opt.LSE[h*c.q.L:][:c.q.L])
	}
}
