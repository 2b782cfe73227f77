package lm

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/seed-1415985d/attn"
)

// Session is a sequence of tokens whose keys, values and states the model keeps, so that they are
// computed once. One call at a time may use it: others get [ErrBusy]. No ctx may be nil.
type Session struct {
	model  *Model
	mu     sync.Mutex // guards the fields below, up to trace
	busy   bool       // a call uses the session
	closed bool
	tokens []int32
	trace  func(layer, first int, rows attn.Tensor)

	seq    sequence // of the first tokens; nil for none. The engine may drop it between calls
	tracer tracer
	logits []float32 // the result of Append
}

// NewSession returns a session without tokens.
func (m *Model) NewSession() (*Session, error) {
	if m.engine.closed() {
		return nil, ErrClosed
	}
	return &Session{model: m}, nil
}

// acquire begins a call.
func (s *Session) acquire() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return fmt.Errorf("%w: the session was closed", ErrClosed)
	case s.busy:
		return ErrBusy
	}
	if err := s.model.engine.enter(s); err != nil {
		return err
	}
	s.busy = true
	return nil
}

// giveBack ends a call.
func (s *Session) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model.engine.exit(s)
	s.busy = false
}

// setTokens changes the tokens, which other goroutines may read at the same time.
func (s *Session) setTokens(tokens []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = tokens
}

// call runs f as a call.
func (s *Session) call(f func() error) error {
	if err := s.acquire(); err != nil {
		return err
	}
	defer s.giveBack()
	return f()
}

// lend gives the session's sequence to a job until that leaves.
func (s *Session) lend(j *job) {
	j.seq, j.keep, s.seq = s.seq, true, nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tracer = tracer{f: s.trace} // drops rows of a call that failed
	if s.trace != nil {
		j.trace, j.alone = &s.tracer, true
	}
}

// recoverSequence takes the sequence, and its tokens, from a job that has left.
func (s *Session) recoverSequence(j *job) {
	s.seq = j.seq
	s.setTokens(j.tokens)
}

// cut keeps the first n tokens. Those of them that layers have dropped are computed again by the
// next call.
func (s *Session) cut(n int) {
	s.setTokens(s.tokens[:n])
	s.back(n)
}

// back makes layers drop the tokens after the first n.
func (s *Session) back(n int) {
	if s.seq != nil && s.seq.length() > n && (s.seq.reach(n) < n || s.seq.back(n) != nil) {
		s.drop()
	}
}

func (s *Session) drop() {
	if s.seq != nil {
		s.seq.release()
		s.seq = nil
	}
}

// Append adds tokens and returns the logits after the last token, which are valid until the next
// call. Without tokens it returns the logits after the tokens that the session has. A call that ctx
// ends changes nothing. The error is [attn.ErrOption] for a token that the model does not have, and
// for no tokens in a session without any, [ErrContext] for more than Options.Context,
// [attn.ErrMemory] for more than Options.Memory can hold.
func (s *Session) Append(ctx context.Context, tokens ...int32) (logits []float32, err error) {
	err = s.call(func() error {
		if err := s.room(tokens); err != nil {
			return err
		}
		if len(tokens) == 0 {
			s.again()
		}
		return s.extend(ctx, tokens, false, func(_ int, rows []float32) error {
			s.logits = append(s.logits[:0], rows...)
			logits = s.logits
			return nil
		})
	})
	return logits, err
}

// again makes the next call compute the last token again, for its logits.
func (s *Session) again() { s.back(max(0, len(s.tokens)-1)) }

// Score is Append that calls f for each token with the logits before it, by which tokens[i] would
// be chosen. They are valid until f returns; an error of f ends the call. f is not called for the
// first token of a session without tokens, because nothing comes before it.
func (s *Session) Score(ctx context.Context, tokens []int32,
	f func(i int, logits []float32) error) error {
	if f == nil {
		return fmt.Errorf("%w: f is nil, want a function", attn.ErrOption)
	}
	return s.call(func() error {
		before := len(s.tokens)
		if err := s.room(tokens); err != nil || len(tokens) == 0 {
			return err
		}
		if before > 0 {
			s.again()
		}
		return s.extend(ctx, tokens, true, func(at int, row []float32) error {
			if i := at + 1 - before; i >= 0 && i < len(tokens) {
				return f(i, row)
			}
			return nil
		})
	})
}

// extend adds tokens and computes those that layers do not have yet. A call that fails, or whose f
// panics, changes nothing.
func (s *Session) extend(ctx context.Context, tokens []int32, all bool,
	f func(at int, logits []float32) error) (err error) {
	before, done := len(s.tokens), false
	defer func() {
		if !done {
			s.cut(before)
		}
	}()
	s.setTokens(append(s.tokens, tokens...))
	err = s.compute(ctx, all, f)
	done = err == nil
	return err
}

// room refuses invalid tokens and too many tokens.
func (s *Session) room(tokens []int32) error {
	if len(tokens)+len(s.tokens) == 0 {
		return fmt.Errorf("%w: the session has no tokens, want one at least", attn.ErrOption)
	}
	if n, most := len(s.tokens)+len(tokens), s.model.Context(); n > most {
		return fmt.Errorf("%w: the session would have %d tokens, want at most Options.Context of %d",
			ErrContext, n, most)
	}
	return s.model.checkTokens(tokens, "tokens")
}

// compute runs the tokens that layers do not have yet through the model. It calls f with the
// position of a token and the logits after it: for the last token, or for all.
func (s *Session) compute(ctx context.Context, all bool,
	f func(at int, logits []float32) error) error {
	e, j := s.model.engine, newJob(s.tokens, len(s.tokens))
	j.all = all
	s.lend(j)
	if err := e.submit(j); err != nil {
		s.recoverSequence(j)
		return err
	}
	defer func() {
		e.endJob(j)
		s.recoverSequence(j)
	}()
	for {
		if err := e.await(ctx, j); err != nil {
			return err
		}
		s.tracer.report(s.model.net.Dim)
		vocab := s.model.net.Vocab
		n := len(j.logits) / vocab
		for i := range n {
			if err := f(j.valid-n+i, j.logits[i*vocab:][:vocab:vocab]); err != nil {
				return err
			}
		}
		if j.valid == len(j.tokens) {
			return nil
		}
		e.more(j)
	}
}

// Tokens returns a copy of the session's tokens, also after Close.
func (s *Session) Tokens() []int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tokens)
}

// Len returns the number of tokens, also after Close.
func (s *Session) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tokens)
}

// Truncate keeps the first n tokens. The error is [attn.ErrLength] for an n that is negative or
// above Len.
func (s *Session) Truncate(n int) error {
	return s.call(func() error {
		if n < 0 || n > len(s.tokens) {
			return fmt.Errorf("%w: n is %d, want 0 to %d, the session's tokens", attn.ErrLength, n,
				len(s.tokens))
		}
		s.cut(n)
		return nil
	})
}

// Fork returns another session with the same tokens, which shares their keys and values.
func (s *Session) Fork() (f *Session, err error) {
	err = s.call(func() error {
		f = &Session{model: s.model, tokens: slices.Clone(s.tokens)}
		if s.seq == nil {
			return nil
		}
		if n := s.seq.reach(s.seq.length()); n > 0 {
			f.seq, err = s.seq.fork(n)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Trace makes calls of Append, Score and Generate with the session call f with the rows that each
// layer returns, on the goroutine of the call: [1, 1, n, Hidden] for the n tokens from position
// first on, for layers 0, 1 and so on, then for the next tokens. They are valid until f returns.
// nil ends the trace. A running call keeps the function that it began with. A session with Trace
// shares nothing with others.
func (s *Session) Trace(f func(layer, first int, rows attn.Tensor)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trace = f
}

// Close frees the session's memory. Later calls return [ErrClosed].
func (s *Session) Close() error {
	if err := s.acquire(); err != nil {
		return err
	}
	defer s.giveBack()
	s.drop()
	s.closed = true
	return nil
}
