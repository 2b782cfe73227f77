package lm

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"unicode/utf8"

	"github.com/seed-1415985d/attn"
	"github.com/seed-1415985d/attn/models/chat"
	"github.com/seed-1415985d/attn/models/internal/gauge"
	"github.com/seed-1415985d/attn/models/tokenizer"
)

// Generation says how an answer is generated. The zero value chooses the most likely tokens until
// one of them ends the answer.
type Generation struct {
	// MaxTokens bounds the tokens of the answer. 0, or more than Options.Context leaves, means as many
	// as Context leaves.
	MaxTokens int
	// Stop are texts that end the answer. They are not part of it, and are looked for in generated
	// text only. The text that is complete first ends the answer, and of several the longest,
	// however tokens divide the answer.
	Stop     []string
	Sampling Sampling
	// Logits is called before each choice, on the goroutine that ranges over the answer, with the
	// tokens so far and the logit of each token of the vocabulary, after penalties. It may change the
	// logits: -Inf forbids a token, also one that would end the answer. Bytes of [Model.Tokenizer]
	// returns a token's text. An error ends the answer with it. Both slices are valid until it
	// returns.
	Logits func(tokens []int32, logits []float32) error
	// Top is how many candidates each Token reports.
	Top int
	// Session is the session to continue; nil: the answer has its own sequence.
	Session *Session
	// Variables are passed to the chat template by Chat, such as enable_thinking or reasoning_effort.
	Variables map[string]any
}

// Token is a part of an answer.
type Token struct {
	ID int32
	// Text is the next part of the answer's text: whole characters, and nothing of a text in
	// Generation.Stop. What may become one of these is held back.
	Text string
	// LogProb is the natural logarithm of the token's probability by the logits after penalties and
	// Generation.Logits, before Temperature and the steps after it.
	LogProb float32
	// Top are the most likely candidates, in descending order. They are valid until the next token.
	Top []Candidate
	End End
}

// Candidate is a token that might have been chosen.
type Candidate struct {
	ID      int32
	LogProb float32
}

// End says whether a token is the last of its answer, and for which reason.
type End int

const (
	NotEnded End = iota
	Stopped      // a token that ends answers, or a text in Generation.Stop
	Length       // MaxTokens or Options.Context was reached
)

// String returns the name of the constant.
func (e End) String() string {
	if e < NotEnded || e > Length {
		return fmt.Sprintf("End(%d)", int(e))
	}
	return [...]string{"NotEnded", "Stopped", "Length"}[e]
}

// Complete is [Model.Generate] with a text, between the tokens that the model puts around a text.
// With a Session that has tokens the text continues them.
func (m *Model) Complete(ctx context.Context, prompt string, g Generation) iter.Seq2[Token, error] {
	return m.answer(ctx, g, func() (tokens []int32, kept int, err error) {
		if g.Session != nil && g.Session.Len() > 0 {
			tokens, err = m.tokenizer.Encode(prompt)
			return tokens, g.Session.Len(), err
		}
		tokens, err = m.tokenizer.Prompt(prompt)
		return tokens, 0, err
	})
}

// Chat is [Model.Generate] with a conversation in the model's chat template. With a Session the
// messages are the whole conversation: the session keeps the tokens that it has in common with it
// and drops the rest.
func (m *Model) Chat(ctx context.Context, messages []chat.Message,
	g Generation) iter.Seq2[Token, error] {
	return m.answer(ctx, g, func() (tokens []int32, kept int, err error) {
		if tokens, err = m.Prompt(messages, g.Variables); err != nil || g.Session == nil {
			return tokens, 0, err
		}
		kept = common(g.Session.tokens, tokens)
		return tokens[kept:], kept, nil
	})
}

// Generate answers a prompt, token by token. It begins when the caller ranges over the result, and
// each range generates a new answer. An error is the last element, with the zero Token:
// [ErrContext] for a prompt that leaves no room for a token, [attn.ErrOption] for an empty prompt
// without a Session that has tokens, for a token that the model does not have and for fields of g
// outside their domain, [attn.ErrMemory] for an answer that Options.Memory cannot hold, [ErrBusy]
// and [ErrClosed].
//
// An answer waits for its reader; other answers do not. If the range ends early or ctx is done, the
// answer ends within a step of the model. ctx must not be nil.
//
// With a Session, prompt continues its tokens and may be empty. Afterwards the session has its
// earlier tokens, the prompt and all tokens yielded, including the token that ended the answer.
func (m *Model) Generate(ctx context.Context, prompt []int32,
	g Generation) iter.Seq2[Token, error] {
	return m.answer(ctx, g, func() (tokens []int32, kept int, err error) {
		if g.Session != nil {
			kept = g.Session.Len()
		}
		return prompt, kept, nil
	})
}

// answer answers the tokens that begin returns, which follow the first kept tokens of the session.
func (m *Model) answer(ctx context.Context, g Generation,
	begin func() (tokens []int32, kept int, err error)) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		err := m.checkGeneration(&g)
		if err == nil && g.Session != nil {
			err = g.Session.acquire()
		}
		if err != nil {
			yield(Token{}, err)
			return
		}
		if g.Session != nil {
			defer g.Session.giveBack()
		}
		a := &answer{model: m, Generation: g, ctx: ctx, yield: yield}
		tokens, kept, err := begin()
		if err == nil {
			err = a.submitJob(tokens, kept)
		}
		if err == nil {
			err = a.yieldTokens()
		}
		if err != nil && !a.left {
			yield(Token{}, err)
		}
	}
}

// checkGeneration refuses fields outside their domain.
func (m *Model) checkGeneration(g *Generation) error {
	if g.MaxTokens < 0 {
		return fmt.Errorf("%w: Generation.MaxTokens is %d, want 0 or more", attn.ErrOption, g.MaxTokens)
	}
	if g.Top < 0 || g.Top > m.net.Vocab {
		return fmt.Errorf("%w: Generation.Top is %d, want 0 to %d", attn.ErrOption, g.Top, m.net.Vocab)
	}
	if i := slices.Index(g.Stop, ""); i >= 0 {
		return fmt.Errorf("%w: Generation.Stop[%d] is empty, want a text", attn.ErrOption, i)
	}
	for i, text := range g.Stop {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%w: Generation.Stop[%d] is %q, want UTF-8, as answers are", attn.ErrOption,
				i, text)
		}
	}
	if g.Session != nil && g.Session.model != m {
		return fmt.Errorf("%w: Generation.Session is of another model", attn.ErrOption)
	}
	return g.Sampling.check()
}

// answer is an answer in progress.
type answer struct {
	model *Model
	Generation
	ctx     context.Context
	yield   func(Token, error) bool
	job     *job
	sampler *sampler
	stops   stops
	decoder *tokenizer.Decoder
	top     []Candidate
	ranked  []int32
	seen    []int32 // copy of the tokens, since Logits may write to it
	left    bool    // the reader ended the range
}

// submitJob submits the job of an answer to a prompt after the first kept tokens of the session.
func (a *answer) submitJob(prompt []int32, kept int) error {
	m, s := a.model, a.Session
	if err := m.checkTokens(prompt, "prompt"); err != nil {
		return err
	}
	limit, err := a.limit(kept + len(prompt))
	if err != nil {
		return err
	}
	if s == nil {
		prompt = slices.Clone(prompt)
	} else {
		s.cut(kept)
		if len(prompt) == 0 {
			s.again()
		}
		prompt = append(s.tokens, prompt...)
	}
	a.job = newJob(prompt, limit)
	if s != nil {
		s.lend(a.job)
	}
	a.sampler = newSampler(a.Sampling, prompt)
	a.stops.texts, a.decoder = a.Stop, m.tokenizer.NewDecoder()
	return nil
}

// limit returns the most tokens that the sequence of a prompt may have.
func (a *answer) limit(prompt int) (int, error) {
	m := a.model
	left, has := m.Context()-prompt, "prompt has"
	if a.Session != nil {
		has = "session and the prompt have"
	}
	switch {
	case prompt == 0:
		return 0, fmt.Errorf("%w: the prompt has no tokens, want one at least", attn.ErrOption)
	case left < 1:
		return 0, fmt.Errorf("%w: the %s %d tokens, want at most %d, for an answer within "+
			"Options.Context of %d", ErrContext, has, prompt, m.Context()-1, m.Context())
	case a.MaxTokens > 0:
		left = min(left, a.MaxTokens)
	}
	return prompt + left, m.engine.couldHold(prompt + left)
}

// yieldTokens yields tokens until the answer ends.
func (a *answer) yieldTokens() (err error) {
	e, j := a.model.engine, a.job
	if err := e.submit(j); err != nil {
		a.returnSequence()
		return err
	}
	ended, call := false, gauge.Of(a.ctx)
	defer a.endJob() // also if the hook panics
	for !ended && !a.left {
		if err = e.await(a.ctx, j); err != nil {
			return err
		}
		call.Shared = j.shared
		if a.Session != nil {
			a.Session.tracer.report(a.model.net.Dim)
		}
		if ended, err = a.choose(); err != nil {
			return err
		}
	}
	return nil
}

// choose yields the tokens that a step's logits decide: one, and one more for each right guess. It
// lets the engine continue before it yields the last of them, so that the model does not wait.
func (a *answer) choose() (ended bool, err error) {
	e, j := a.model.engine, a.job
	vocab, valid, guesses := a.model.net.Vocab, j.valid, j.guesses
	for i := 0; ; i++ {
		t, err := a.next(j.logits[i*vocab:][:vocab:vocab])
		if err != nil {
			return false, err
		}
		right := i < len(guesses) && guesses[i] == t.ID
		if right {
			valid++
		}
		ended = t.End != NotEnded
		e.chose(j, t.ID, valid, !right && !ended)
		e.reading(j, true)
		a.left = !a.yield(t, nil)
		e.reading(j, false)
		if ended || a.left || !right {
			return ended, nil
		}
	}
}

// next chooses a token.
func (a *answer) next(logits []float32) (t Token, err error) {
	m, d := a.model, a.sampler
	d.penalize(logits)
	if a.Logits == nil {
		err = d.checkPenalized(logits)
	} else {
		a.seen = append(a.seen[:0], a.job.tokens...)
		if err = a.Logits(a.seen, logits); err == nil {
			err = checkHook(logits)
		}
	}
	if err != nil {
		return t, err
	}
	t.ID = d.choose(logits, len(a.job.tokens))
	sum := attn.LogSumExp(logits)
	t.LogProb, t.Top = logits[t.ID]-sum, a.candidates(logits, sum)
	d.chose(t.ID)
	if slices.Contains(m.ends, t.ID) {
		t.Text, _ = a.stops.end(a.decoder.Flush())
		t.End = Stopped
		return t, nil
	}
	var stopped bool
	t.Text, stopped = a.stops.add(a.decoder.Next(t.ID))
	if !stopped && len(a.job.tokens)+1 == a.job.limit {
		var more string
		more, stopped = a.stops.end(a.decoder.Flush())
		t.End, t.Text = Length, t.Text+more
	}
	if stopped {
		t.End = Stopped
	}
	return t, nil
}

// candidates returns the most likely tokens.
func (a *answer) candidates(logits []float32, sum float32) []Candidate {
	if a.Top == 0 {
		return nil
	}
	a.ranked = slices.Grow(a.ranked[:0], a.Top)[:a.Top]
	a.top = a.top[:0]
	attn.TopK(a.ranked, logits)
	for _, id := range a.ranked {
		a.top = append(a.top, Candidate{id, logits[id] - sum})
	}
	return a.top
}

// endJob ends the job.
func (a *answer) endJob() {
	a.model.engine.endJob(a.job)
	a.returnSequence()
}

// returnSequence returns the sequence to the session.
func (a *answer) returnSequence() {
	if a.Session != nil {
		a.Session.recoverSequence(a.job)
	}
}
