package embed

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/gauge"
	"github.com/seed-1415985d/attn/models/internal/tokenize"
)

// Encode returns a vector of Dimensions numbers for each text. A text may be empty, is truncated at
// its end if it is too long, and may be invalid UTF-8, which is read as U+FFFD.
func (m *Model) Encode(texts []string) ([][]float32, error) {
	return m.encodeWith(context.Background(), m.prompt, texts)
}

// EncodeContext is [Model.Encode] with a context. It ends early when ctx is done, even within a
// batch of Options.BatchTokens tokens or within a longer text. The error is then ctx.Err(),
// together with its cause if there is another; there are no vectors.
func (m *Model) EncodeContext(ctx context.Context, texts []string) ([][]float32, error) {
	return m.encodeWith(ctx, m.prompt, texts)
}

// EncodeAs is [Model.Encode] with a named prompt before each text, one of Prompts: many models have
// different ones for queries and documents. "" means no prompt.
func (m *Model) EncodeAs(prompt string, texts []string) ([][]float32, error) {
	text, err := m.promptOf(prompt)
	if err != nil {
		return nil, fmt.Errorf("embed: the prompt is %w", err)
	}
	return m.encodeWith(context.Background(), text, texts)
}

func (m *Model) encodeWith(ctx context.Context, prompt string, texts []string) ([][]float32,
	error) {
	n := m.Dimensions()
	dst := make([]float32, len(texts)*n)
	if err := m.encodeInto(ctx, dst, prompt, texts); err != nil {
		return nil, err
	}
	return rowsOf(dst, len(texts), n), nil
}

// rowsOf cuts x into rows of n numbers.
func rowsOf(x []float32, rows, n int) [][]float32 {
	all := make([][]float32, rows)
	for i := range all {
		all[i] = x[i*n:][:n:n]
	}
	return all
}

// EncodeInto is [Model.Encode] into dst, a row of Dimensions numbers for each text. It allocates
// nothing but the texts' tokens. On an error rows of dst may have been written.
func (m *Model) EncodeInto(dst []float32, texts []string) error {
	return m.encodeInto(context.Background(), dst, m.prompt, texts)
}

func (m *Model) encodeInto(ctx context.Context, dst []float32, prompt string,
	texts []string) error {
	if err := m.checkInto(dst, len(texts)); err != nil {
		return err
	}
	tokens, err := m.tokensOf(ctx, prompt, texts)
	if err != nil {
		return err
	}
	skip, err := m.skipped(prompt)
	if err != nil {
		return err
	}
	return m.compute(ctx, dst, tokens, nil, skip, outVectors)
}

// checkInto refuses a dst of another length than the vectors', and models without vectors.
func (m *Model) checkInto(dst []float32, texts int) error {
	if m.noVector != nil {
		return fmt.Errorf("embed: %s: %w", m.path, m.noVector)
	}
	if m.texts == nil {
		return fmt.Errorf("embed: %s: %w", m.path, errNoTexts)
	}
	if want := texts * m.Dimensions(); len(dst) != want {
		return fmt.Errorf("embed: dst has %d numbers, want %d, %d for each of %d texts: %w", len(dst),
			want, m.Dimensions(), texts, attn.ErrLength)
	}
	return nil
}

// Tokens returns the tokens of a text as Encode computes them, including special tokens and the
// prompt. For a PyLate model they have no query or document prefix and no padding, which only
// EncodeQueries and EncodeDocuments add.
func (m *Model) Tokens(text string) ([]int32, error) {
	tokens, err := m.tokensOf(context.Background(), m.prompt, []string{text})
	if err != nil {
		return nil, err
	}
	return tokens[0], nil
}

// EncodeTokens is [Model.EncodeInto] for texts given as tokens, such as Tokens returns: 1 to
// MaxTokens for each text. It does not allocate in the steady state.
func (m *Model) EncodeTokens(dst []float32, tokens [][]int32) error {
	if err := m.checkInto(dst, len(tokens)); err != nil {
		return err
	}
	for i, text := range tokens {
		if len(text) < 1 || len(text) > m.MaxTokens() {
			return fmt.Errorf("embed: tokens[%d] has %d tokens, want 1 to %d: %w", i, len(text),
				m.MaxTokens(), attn.ErrLength)
		}
		for j, id := range text {
			if id < 0 || int(id) >= m.vocab {
				return fmt.Errorf("embed: tokens[%d][%d] is %d, want 0 to %d: %w", i, j, id, m.vocab-1,
					attn.ErrOption)
			}
		}
	}
	return m.compute(context.Background(), dst, tokens, nil, 0, outVectors)
}

// tokensOf returns the tokens of texts, each with the prompt before it.
func (m *Model) tokensOf(ctx context.Context, prompt string, texts []string) ([][]int32, error) {
	r := &reading{Model: m, ctx: ctx, before: prompt, inputs: texts}
	if err := r.readAll((*Model).checkRead); err != nil {
		return nil, err
	}
	tokens := make([][]int32, len(texts))
	for i := range texts {
		tokens[i] = r.reads[i].Tokens
	}
	return tokens, nil
}

// reading is a call that tokenizes texts, or pairs of a query and a text.
type reading struct {
	*Model
	ctx    context.Context
	before string // the prompt or the query
	pairs  pairing
	within int // maximum of tokens of a text, 0 for the model's
	inputs []string
	reads  []tokenize.Read
	errs   []error
}

// pairing is whether before and each of the inputs are read together as a pair.
type pairing int

const (
	noPairs pairing = iota
	queryAndText
	textAndHypothesis // only the text, which is before, is cut
)

// readTogether is how many texts a worker tokenizes at a time: enough to pay for waking it.
const readTogether = 8

// readAll tokenizes the texts on all workers, checks them in order and returns the first error.
func (r *reading) readAll(check func(m *Model, text int, read *tokenize.Read) error) error {
	if r.texts == nil {
		return fmt.Errorf("embed: %s: %w", r.path, errNoTexts)
	}
	if r.ctx == nil {
		return fmt.Errorf("embed: ctx is nil, want a context: %w", attn.ErrOption)
	}
	r.reads, r.errs = make([]tokenize.Read, len(r.inputs)), make([]error, len(r.inputs))
	if len(r.inputs) <= readTogether {
		r.Work(0)
	} else if r.pool.Run((len(r.inputs)+readTogether-1)/readTogether, r) != nil {
		return r.closedError() // the only error
	}
	if err := ended(r.ctx); err != nil {
		return fmt.Errorf("embed: %w", err)
	}
	call := gauge.Of(r.ctx)
	for i, err := range r.errs {
		if err == nil {
			err = check(r.Model, i, &r.reads[i])
		}
		if read := &r.reads[i]; err == nil && call.Whole && read.Left > 0 {
			err = fmt.Errorf("%w: it has %d tokens, want at most %d", gauge.ErrCut,
				len(read.Tokens)+read.Left, len(read.Tokens))
		}
		call.Tokens += len(r.reads[i].Tokens)
		if err != nil && r.pairs == textAndHypothesis {
			return fmt.Errorf("embed: with label %d the hypothesis is %q: %w", i, r.inputs[i], err)
		}
		if err != nil {
			if call.Places != nil {
				i = call.Places[i]
			}
			return fmt.Errorf("embed: text %d: %w", i, err)
		}
	}
	return nil
}

// Work tokenizes a part of the texts. It implements attn.Worker.
func (r *reading) Work(part int) {
	first := part * readTogether
	for i := first; i < min(first+readTogether, len(r.inputs)) && r.ctx.Err() == nil; i++ {
		switch r.pairs {
		case queryAndText:
			r.reads[i], r.errs[i] = r.pair(r.before, r.inputs[i])
		case textAndHypothesis:
			r.reads[i], r.errs[i] = r.texts.PairFirst(r.prepareText("", r.before),
				r.prepareText("", r.inputs[i]))
		default:
			longest := cmp.Or(r.within, r.texts.Longest())
			r.reads[i], r.errs[i] = r.texts.EncodeWithin(r.prepareText(r.before, r.inputs[i]), longest)
		}
	}
}

// ended returns ctx's error and its cause, nil while ctx is not done.
func ended(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); err != nil && cause != err {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// checkRead refuses a text without tokens, and reports truncated texts to Options.Cut.
func (m *Model) checkRead(text int, read *tokenize.Read) error {
	if len(read.Tokens) == 0 {
		return fmt.Errorf("it has no tokens, want some: the model puts none around texts")
	}
	if read.Left > 0 && m.options.Cut != nil {
		m.options.Cut(text, len(read.Tokens), read.Left)
	}
	return nil
}

// skipped returns how many tokens of the prompt are excluded from the pooling.
func (m *Model) skipped(prompt string) (int, error) {
	if m.withPrompt || prompt == "" {
		return 0, nil
	}
	read, err := m.texts.Encode(m.prepareText(prompt, ""))
	if err != nil {
		return 0, fmt.Errorf("embed: the prompt %q: %w", prompt, err)
	}
	return len(read.Tokens) - m.texts.After(), nil
}

// compute writes vectors, scores or logits to dst, a row for each text, batch by batch.
func (m *Model) compute(ctx context.Context, dst []float32, tokens, segments [][]int32, skip int,
	out output) error {
	r, err := m.acquireRunner(ctx)
	if err != nil {
		return err
	}
	defer m.releaseRunner(r)
	width := m.outWidth(out)
	for done := 0; done < len(tokens); {
		n := m.batchSize(tokens[done:])
		var kinds [][]int32
		if segments != nil {
			kinds = segments[done : done+n]
		}
		r.loadBatch(tokens[done:done+n], kinds)
		r.forward()
		rows := dst[done*width:][:n*width]
		if out == outVectors {
			r.poolBatch(rows, skip)
		} else {
			r.scoreBatch(rows, out)
		}
		r.checkFinite(rows, done, width)
		if r.err != nil {
			return fmt.Errorf("embed: %w", r.err)
		}
		if done += n; m.options.Progress != nil {
			m.options.Progress(done, len(tokens))
		}
	}
	return nil
}

// batchSize returns how many of the texts form the next batch.
func (m *Model) batchSize(tokens [][]int32) int {
	n, sum := 1, m.endings.lengthOf(tokens[0])
	for ; n < len(tokens); n++ {
		if sum += m.endings.lengthOf(tokens[n]); sum > m.options.BatchTokens {
			break
		}
	}
	return n
}

// loadBatch copies the tokens of a batch into the runner, without padding.
func (r *runner) loadBatch(tokens, segments [][]int32) {
	r.lens, r.ids, r.positions = r.lens[:0], r.ids[:0], r.positions[:0]
	r.segments = r.segments[:0]
	for i, text := range tokens {
		text, fill := r.endings.cut(text)
		r.ids = append(r.ids, text...)
		for range fill {
			r.ids = append(r.ids, r.endings.token)
		}
		r.lens = append(r.lens, len(text)+fill)
		for position := range len(text) + fill {
			r.positions = append(r.positions, int32(position))
			segment := int32(0)
			if segments != nil && segments[i] != nil {
				segment = segments[i][position]
			}
			r.segments = append(r.segments, segment)
		}
	}
	r.tokens = len(r.ids)
}

// checkFinite refuses rows with NaN or infinities: their similarities would mean nothing.
func (r *runner) checkFinite(rows []float32, first, width int) {
	for i, x := range rows {
		if r.err == nil && math.IsNaN(float64(x-x)) {
			what := "text"
			if r.vision != nil {
				what = "image"
			}
			r.err = fmt.Errorf("%s %d: number %d of what it becomes is %v, want finite weights and "+
				"sums", what, first+i/width, i%width, x)
		}
	}
}
