package serve

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/seed-1415985d/attn/models/internal/gauge"
	"github.com/seed-1415985d/attn/models/lm"
	"github.com/seed-1415985d/attn/models/tokenizer"
)

// step is what one token adds to a choice.
type step struct {
	choice  int
	id      int32
	thought string // new text of the model's thought,
	said    string // and of its answer
	offset  int    // characters of the answer before the token
	logprob *logprob
	end     lm.End
	err     error // an error ends all choices
}

// asked is a request for answers.
type asked struct {
	*Server
	params
	chat    bool
	name    string // of the model, as the request spells it
	id      string
	created int64
	prompts [][]int32 // n choices for each
	choices int       // of all prompts
}

// usage counts tokens. A prompt counts once for all of its choices.
type usage struct {
	Prompt  int `json:"prompt_tokens"`
	Made    int `json:"completion_tokens"`
	Total   int `json:"total_tokens"`
	Details struct {
		Cached int `json:"cached_tokens"` // shared with earlier sequences
	} `json:"prompt_tokens_details"`
}

// ask makes a request from its parts.
func (s *Server) ask(p *params, chat bool, prompts [][]int32) (*asked, error) {
	name, err := named(p.model, s.Names)
	if err != nil {
		return nil, err
	}
	prefix := "cmpl-"
	if chat {
		prefix = "chatcmpl-"
	}
	return &asked{Server: s, params: *p, chat: chat, name: name, id: newID(prefix),
		created: time.Now().Unix(), prompts: prompts, choices: len(prompts) * p.n}, nil
}

// newID returns a unique name for a response.
func newID(prefix string) string {
	var number [12]byte
	_, _ = rand.Read(number[:]) // never fails
	return prefix + hex.EncodeToString(number[:])
}

// answer computes all choices and calls f with their steps, on the goroutine of the call, until all
// have ended. It calls f with nil if no step has come for a while. An error ends all choices.
func (a *asked) answer(ctx context.Context, f func(*step) error) (u usage, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, a.Answer, errAnswerTime)
	calls := make([]gauge.Call, a.choices)
	steps := make(chan *step)
	var wait sync.WaitGroup
	for i := range calls {
		wait.Go(func() { a.choice(gauge.With(ctx, &calls[i]), i, steps) })
	}
	from := time.Now()
	defer func() {
		cancel()
		wait.Wait()
		a.answers.leave(len(calls), time.Since(from))
		u.count(a, calls)
	}()
	err = a.follow(ctx, steps, &u, f)
	return u, err
}

// follow passes steps to f.
func (a *asked) follow(ctx context.Context, steps <-chan *step, u *usage,
	f func(*step) error) error {
	pause := time.NewTimer(min(time.Second, a.Comment))
	defer pause.Stop()
	from := time.Now()
	for left := a.choices; left > 0; {
		var next *step
		select {
		case next = <-steps:
			if next.err != nil {
				return next.err
			}
			a.metrics.made.Inc()
			if u.Made++; u.Made == 1 {
				a.metrics.first.Observe(time.Since(from).Seconds())
			}
			if next.end != lm.NotEnded {
				left--
			}
		case <-pause.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := f(next); err != nil {
			return err
		}
		pause.Reset(a.Comment)
	}
	return nil
}

// count computes the usage when all choices have ended.
func (u *usage) count(a *asked, calls []gauge.Call) {
	for i, prompt := range a.prompts {
		u.Prompt += len(prompt)
		shared := len(prompt)
		for _, call := range calls[i*a.n:][:a.n] {
			shared = min(shared, call.Shared)
		}
		u.Details.Cached += shared
	}
	u.Total = u.Prompt + u.Made
}

// choice computes one choice and sends its steps.
func (a *asked) choice(ctx context.Context, i int, steps chan<- *step) {
	send := func(s *step) bool {
		s.choice = i
		select {
		case steps <- s:
			return true
		case <-ctx.Done():
			return false
		}
	}
	defer func() {
		if what := recover(); what != nil {
			send(&step{err: fmt.Errorf("panic: %v\n%s", what, debug.Stack())})
		}
	}()
	speaks := a.speaker(a.prompts[i/a.n])
	for token, err := range a.Model.Generate(ctx, a.prompts[i/a.n], a.generation(i)) {
		s := &step{err: err}
		if err == nil {
			s = speaks.step(&token)
		}
		if !send(s) {
			return
		}
	}
}

// speaker turns the tokens of a choice into steps.
type speaker struct {
	*asked
	parts   *parts // nil for completions
	decoder *tokenizer.Decoder
	offset  int
}

func (a *asked) speaker(prompt []int32) *speaker {
	s := &speaker{asked: a, decoder: a.Model.Tokenizer().NewDecoder()}
	if a.chat {
		s.parts = newParts(a.Model, prompt)
	}
	return s
}

func (a *speaker) step(t *lm.Token) *step {
	s := &step{id: t.ID, said: t.Text, end: t.End, offset: a.offset}
	if a.parts != nil {
		s.thought, s.said = a.parts.add(t)
	}
	if a.logprobs {
		s.logprob = a.logprobOf(t)
		a.offset += utf8.RuneCountInString(a.decoder.Next(t.ID))
	}
	return s
}

// enter admits a request, or refuses it.
func (a *asked) enter() error {
	if a.choices > mostChoices {
		return invalid("n", "there are %d prompts and n is %d, want at most %d choices in all",
			len(a.prompts), a.n, mostChoices)
	}
	most := a.most
	if most == 0 || most > a.Model.Context() {
		most = a.Model.Context()
	}
	if n := a.choices * most * (1 + a.top); a.logprobs && !a.stream && n > mostLogprobs {
		return invalid("logprobs", "%d choices of %d tokens with %d candidates have up to %d "+
			"probabilities, want at most %d, or a stream", a.choices, most, a.top, n, mostLogprobs)
	}
	err := a.answers.enter(a.choices)
	var p *problem
	if errors.As(err, &p) && p.status == 400 {
		p.param = "n"
	}
	return err
}

// reason returns the finish_reason of an answer.
func reason(end lm.End) string {
	if end == lm.Stopped {
		return "stop"
	}
	return "length"
}
