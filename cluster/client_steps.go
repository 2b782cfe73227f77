package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/seed-1415985d/attn"
)

// Steps is a [Sequence.Step] for a layer of each of some sequences of one shape, with the rows of
// one after those of another, as [attn.AttendSequences] packs them:
//
//	q   [1, H, Σ, HeadDim]     dst [1, H, Σ, ValueDim]
//	k   [1, KVHeads, Σ, HeadDim]     v [1, KVHeads, Σ, ValueDim]
//
// Options.QueryLens says how many tokens, and queries, each sequence has, one where it is nil.
// What goes to a worker is one request. Mask, Bias and Blocks are [attn.ErrUnsupported]: take a
// Step with these.
//
// Sequences do not depend on each other: where some have an error, which is a [*StepsError], the
// others have their tokens and outputs.
func (c *Client) Steps(ctx context.Context, layer int, dst, q, k, v attn.Tensor, seqs []*Sequence,
	opt *attn.Options) error {
	if opt == nil {
		opt = new(attn.Options)
	}
	lens, err := c.checkSteps(&dst, &q, &k, &v, seqs, opt)
	if err != nil {
		return err
	}
	b := &batch{client: c, waiting: len(seqs)}
	errs := make([]error, len(seqs))
	var all sync.WaitGroup
	from := 0
	for i, s := range seqs {
		to := from + lens[i]
		own, rows := *opt, [2]int{from, to}
		all.Go(func() {
			errs[i] = s.stepRows(ctx, &seat{batch: b, row: i}, layer, rows, dst, q, k, v, &own)
		})
		from = to
	}
	all.Wait()
	if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return &StepsError{errs}
	}
	return nil
}

// StepsError is what sequences of Steps have for errors, nil those that have none.
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

// Unwrap makes a StepsError all of its errors.
func (e *StepsError) Unwrap() []error {
	return slices.DeleteFunc(slices.Clone(e.Errs), func(err error) bool { return err == nil })
}

// checkSteps makes sure that arguments are those of some sequences together. What each has of them
// is checked with its step. It returns how many tokens each has.
func (c *Client) checkSteps(dst, q, k, v *attn.Tensor, seqs []*Sequence,
	opt *attn.Options) (lens []int, err error) {
	for i, s := range seqs {
		switch {
		case s == nil:
			return nil, fail(attn.ErrOption, "seqs[%d] is nil, want a sequence", i)
		case s.client != c:
			return nil, fail(attn.ErrOption, "seqs[%d] is of another client, want one of this", i)
		case slices.Contains(seqs[:i], s):
			return nil, fail(attn.ErrOption, "seqs[%d] is there twice, want each once", i)
		case s.shape != seqs[0].shape:
			return nil, fail(attn.ErrShape, "seqs[%d] is %+v, want the shape of seqs[0], %+v", i, s.shape,
				seqs[0].shape)
		}
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
		if n < 0 || n > most {
			return nil, fail(attn.ErrLength, "QueryLens[%d] is %d, want 0 to %d", i, n, most)
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
	}
	return lens, nil
}

// stepRows is a step with some of the rows.
func (s *Sequence) stepRows(ctx context.Context, x *seat, layer int, rows [2]int,
	dst, q, k, v attn.Tensor, opt *attn.Options) error {
	of := func(x attn.Tensor) attn.Tensor {
		if none(&x) {
			return x
		}
		return x.Slice(rows[0], rows[1])
	}
	all, n := opt.LSE, rows[1]-rows[0]
	if opt.QueryLens = nil; all != nil {
		opt.LSE = make([]float32, q.H*n)
	}
	if err := s.step(ctx, x, layer, of(dst), of(q), of(k), of(v), opt); err != nil {
		return err
	}
	for h := 0; all != nil && h < q.H; h++ {
		copy(all[h*q.L+rows[0]:], opt.LSE[h*n:][:n])
	}
	return nil
}
