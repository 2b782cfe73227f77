package embed

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/internal/tokenize"
)

// Encode returns a vector of Dimensions numbers for each text. Texts of any length, empty ones and
// ones that are no UTF-8 among them, have one: what is too long is cut at its end, and what is no
// UTF-8 is read as U+FFFD.
func (m *Model) Encode(texts []string) ([][]float32, error) {
	return m.encodeWith(context.Background(), m.prompt, texts)
}

// EncodeContext is [Model.Encode] that ends early when ctx is done: within a batch of
// Options.BatchTokens tokens, and within a longer text. The error is then ctx.Err(), and the cause
// if there is another; there are no vectors.
func (m *Model) EncodeContext(ctx context.Context, texts []string) ([][]float32, error) {
	return m.encodeWith(ctx, m.prompt, texts)
}

// EncodeAs is Encode with the prompt of a name, one of Prompts, before each text: queries and
// documents of one model have different ones. "" is no prompt.
func (m *Model) EncodeAs(prompt string, texts []string) ([][]float32, error) {
	text, err := m.promptOf(prompt)
	if err != nil {
		return nil, fmt.Errorf("embed: the prompt is %w", err)
	}
	return m.encodeWith(context.Background(), text, texts)
}

func (m *Model) encodeWith(ctx context.Context, prompt string, texts []string) ([][]float32, error) {
	n := m.Dimensions()
	dst := make([]float32, len(texts)*n)
	if err := m.encodeInto(ctx, dst, prompt, texts); err != nil {
		return nil, err
	}
	vectors := make([][]float32, len(texts))
	for i := range vectors {
		vectors[i] = dst[i*n:][:n:n]
	}
	return vectors, nil
}

// EncodeInto is Encode into a row of Dimensions numbers for each text, one after another in dst. It
// allocates nothing but the texts' tokens. If there is an error, rows of dst may have been written.
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
	return m.compute(ctx, dst, tokens, nil, skip, false)
}

// checkInto refuses what has no room for vectors, and models that make none.
func (m *Model) checkInto(dst []float32, texts int) error {
	if m.noVector != nil {
		return fmt.Errorf("embed: %s: %w", m.path, m.noVector)
	}
	if want := texts * m.Dimensions(); len(dst) != want {
		return fmt.Errorf("embed: dst has %d numbers, want %d, %d for each of %d texts: %w", len(dst),
			want, m.Dimensions(), texts, attn.ErrLength)
	}
	return nil
}

// Tokens returns the tokens that Encode makes of a text, those that the model puts around it and
// those of the prompt among them. Of a folder of PyLate they have no prefix of queries or documents
// and fill nothing up: EncodeQueries and EncodeDocuments do that.
func (m *Model) Tokens(text string) ([]int32, error) {
	tokens, err := m.tokensOf(context.Background(), m.prompt, []string{text})
	if err != nil {
		return nil, err
	}
	return tokens[0], nil
}

// EncodeTokens is EncodeInto of tokens that are there already, as Tokens returns them: of each text
// 1 to MaxTokens. It does not allocate in the steady state.
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
	return m.compute(context.Background(), dst, tokens, nil, 0, false)
}

// tokensOf are the tokens of texts behind a prompt.
func (m *Model) tokensOf(ctx context.Context, prompt string, texts []string) ([][]int32, error) {
	r := &reading{Model: m, ctx: ctx, before: prompt, inputs: texts}
	if err := r.run((*Model).checkRead); err != nil {
		return nil, err
	}
	tokens := make([][]int32, len(texts))
	for i := range texts {
		tokens[i] = r.reads[i].Tokens
	}
	return tokens, nil
}

// reading is texts, or pairs of a query and a text, that become tokens.
type reading struct {
	*Model
	ctx    context.Context
	before string // a prompt or the query
	pairs  bool
	within int // tokens of a text, 0 for as many as the model takes
	inputs []string
	reads  []tokenize.Read
	errs   []error
}

// readTogether texts are enough for a worker to be woken.
const readTogether = 8

// run lets the workers read the texts, and checks them in their order: the first error counts.
func (r *reading) run(check func(m *Model, text int, read *tokenize.Read) error) error {
	if r.ctx == nil {
		return fmt.Errorf("embed: ctx is nil, want a context: %w", attn.ErrOption)
	}
	r.reads, r.errs = make([]tokenize.Read, len(r.inputs)), make([]error, len(r.inputs))
	if len(r.inputs) <= readTogether {
		r.Work(0)
	} else if r.pool.Run((len(r.inputs)+readTogether-1)/readTogether, r) != nil {
		return r.gone() // the only error
	}
	if err := ended(r.ctx); err != nil {
		return fmt.Errorf("embed: %w", err)
	}
	for i, err := range r.errs {
		if err == nil {
			err = check(r.Model, i, &r.reads[i])
		}
		if err != nil {
			return fmt.Errorf("embed: text %d: %w", i, err)
		}
	}
	return nil
}

// Work reads a part of the texts.
func (r *reading) Work(part int) {
	first := part * readTogether
	for i := first; i < min(first+readTogether, len(r.inputs)) && r.ctx.Err() == nil; i++ {
		if r.pairs {
			r.reads[i], r.errs[i] = r.pair(r.before, r.inputs[i])
		} else {
			longest := cmp.Or(r.within, r.texts.Longest())
			r.reads[i], r.errs[i] = r.texts.EncodeWithin(r.prepare(r.before, r.inputs[i]), longest)
		}
	}
}

// ended is why a call ends early, nil while ctx is not done.
func ended(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); err != nil && cause != err {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// checkRead refuses a text without tokens, and says what is left out of others.
func (m *Model) checkRead(text int, read *tokenize.Read) error {
	if len(read.Tokens) == 0 {
		return fmt.Errorf("it has no tokens, want some: the model puts none around texts")
	}
	if read.Left > 0 && m.options.Cut != nil {
		m.options.Cut(text, len(read.Tokens), read.Left)
	}
	return nil
}

// skipped is how many tokens of a prompt take no part in the pooling.
func (m *Model) skipped(prompt string) (int, error) {
	if m.withPrompt || prompt == "" {
		return 0, nil
	}
	read, err := m.texts.Encode(m.prepare(prompt, ""))
	if err != nil {
		return 0, fmt.Errorf("embed: the prompt %q: %w", prompt, err)
	}
	return len(read.Tokens) - m.texts.After(), nil
}

// compute makes the rows of dst, batch by batch.
func (m *Model) compute(ctx context.Context, dst []float32, tokens, segments [][]int32, skip int,
	scores bool) error {
	r, err := m.take(ctx)
	if err != nil {
		return err
	}
	defer m.give(r)
	width := m.outWidth(scores)
	for done := 0; done < len(tokens); {
		n := m.batch(tokens[done:])
		var kinds [][]int32
		if segments != nil {
			kinds = segments[done : done+n]
		}
		r.load(tokens[done:done+n], kinds)
		r.forward()
		rows := dst[done*width:][:n*width]
		if scores {
			r.score(rows)
		} else {
			r.reduce(rows, skip)
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

// batch is how many of the texts are computed together.
func (m *Model) batch(tokens [][]int32) int {
	n, sum := 1, len(tokens[0])
	for ; n < len(tokens) && sum+len(tokens[n]) <= m.options.BatchTokens; n++ {
		sum += len(tokens[n])
	}
	return n
}

// load puts the tokens of a batch side by side.
func (r *runner) load(tokens, segments [][]int32) {
	r.lens, r.ids, r.positions = r.lens[:0], r.ids[:0], r.positions[:0]
	r.segments = r.segments[:0]
	for i, text := range tokens {
		r.lens, r.ids = append(r.lens, len(text)), append(r.ids, text...)
		for position := range text {
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

// checkFinite refuses rows that are no directions: similarities would be numbers without a meaning,
// or none.
func (r *runner) checkFinite(rows []float32, first, width int) {
	for i, x := range rows {
		if r.err == nil && math.IsNaN(float64(x-x)) {
			r.err = fmt.Errorf("text %d: number %d of what it becomes is %v, want finite weights and "+
				"sums", first+i/width, i%width, x)
		}
	}
}
