package serve

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/seed-1415985d/attn/models/lm"
)

// reply is a whole response, or a chunk of a stream.
type reply struct {
	ID          string   `json:"id"`
	Object      string   `json:"object"`
	Created     int64    `json:"created"`
	Model       string   `json:"model"`
	Fingerprint string   `json:"system_fingerprint"`
	Choices     []choice `json:"choices"`
	Usage       any      `json:"usage,omitempty"`
	Prompt      []int32  `json:"prompt_token_ids,omitempty"` // of a chat
}

// choice is one of the answers, or what a chunk adds to it.
type choice struct {
	Index    int      `json:"index"`
	Text     *string  `json:"text,omitempty"`    // of completions
	Message  *message `json:"message,omitempty"` // of chats
	Delta    *delta   `json:"delta,omitempty"`   // of their streams
	Logprobs any      `json:"logprobs"`
	Reason   *string  `json:"finish_reason"`
	Prompt   []int32  `json:"prompt_token_ids,omitempty"` // of completions
	Tokens   []int32  `json:"token_ids,omitempty"`
}

// respond admits a request, finds its prompts, and answers.
func (a *asked) respond(w http.ResponseWriter, r *http.Request, find func() error) error {
	if err := a.enter(); err != nil {
		return err
	}
	inside := true
	defer func() {
		if inside {
			a.answers.leave(a.choices, 0)
		}
	}()
	if err := find(); err != nil {
		return err
	}
	for _, tokens := range a.prompts {
		if most := a.Model.Context() - 1; len(tokens) > most {
			name := "prompt"
			if a.chat {
				name = "messages"
			}
			return invalid(name, "the prompt has %d tokens, want at most %d, for an answer within the "+
				"context of %d", len(tokens), most, most+1).coded(400, "context_length_exceeded")
		}
	}
	inside = false
	if a.stream {
		return a.streamTo(w.(*response), r)
	}
	return a.whole(w, r)
}

func (a *asked) reply() *reply {
	object := "text_completion"
	if a.chat {
		object = "chat.completion"
		if a.stream {
			object += ".chunk"
		}
	}
	return &reply{ID: a.id, Object: object, Created: a.created, Model: a.name,
		Fingerprint: "fp_" + a.fingerprint[:16], Choices: []choice{}}
}

// answered is a choice while it is collected.
type answered struct {
	said, thought strings.Builder
	tokens        []int32
	probs         []*logprob
	texts         *textLogprobs
	end           lm.End
}

func (c *answered) add(s *step, top int) {
	c.said.WriteString(s.said)
	c.thought.WriteString(s.thought)
	c.tokens, c.end = append(c.tokens, s.id), s.end
	if s.logprob == nil {
		return
	}
	c.probs = append(c.probs, s.logprob)
	if c.texts == nil {
		c.texts = new(textLogprobs)
	}
	c.texts.add(s, top)
}

// whole answers in one response.
func (a *asked) whole(w http.ResponseWriter, r *http.Request) error {
	all := make([]answered, a.choices)
	u, err := a.answer(r.Context(), func(s *step) error {
		if s != nil {
			all[s.choice].add(s, a.top)
		}
		return nil
	})
	if err != nil {
		return err
	}
	made := a.reply()
	made.Usage = &u
	for i := range all {
		made.Choices = append(made.Choices, a.choiceOf(i, &all[i]))
	}
	if a.tokens && a.chat {
		made.Prompt = a.prompts[0]
	}
	writeJSON(w, http.StatusOK, made)
	return nil
}

func (a *asked) choiceOf(i int, c *answered) choice {
	made := choice{Index: i, Reason: new(reason(c.end))}
	said := c.said.String()
	if a.chat {
		made.Message = &message{Role: "assistant", Content: said}
		if c.thought.Len() > 0 {
			made.Message.Thought = new(c.thought.String())
		}
	} else {
		made.Text = &said
	}
	if a.logprobs {
		made.Logprobs = a.logprobsOf(c)
	}
	if a.tokens {
		made.Tokens = c.tokens
		if !a.chat {
			made.Prompt = a.prompts[i/a.n]
		}
	}
	return made
}

func (a *asked) logprobsOf(c *answered) any {
	if a.chat {
		return &chatLogprobs{Content: c.probs}
	}
	return c.texts
}

// stream is a response of server-sent events.
type stream struct {
	*asked
	w     *response
	begun []bool // whether a choice has its first chunk
}

// streamTo answers token by token.
func (a *asked) streamTo(w *response, r *http.Request) error {
	s := &stream{asked: a, w: w, begun: make([]bool, a.choices)}
	u, err := a.answer(r.Context(), s.step)
	if err != nil {
		return err
	}
	if a.usage {
		last := a.reply()
		last.Usage = &u
		if err := s.event(last); err != nil {
			return nil // the client has gone
		}
	}
	_ = s.write("data: [DONE]\n\n")
	return nil
}

// open writes the header.
func (s *stream) open() {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // otherwise nginx would hold chunks back
	s.w.broken = func(p *problem) {
		if data, err := encode(p.body()); err == nil {
			_ = s.write("data: " + string(data) + "\n") // a client that does not read it has gone
		}
	}
	s.w.WriteHeader(http.StatusOK)
}

// write writes a part of a stream at once.
func (s *stream) write(text string) error {
	if s.w.status == 0 {
		s.open()
	}
	_, err := s.w.Write([]byte(text))
	if err == nil {
		err = http.NewResponseController(s.w.ResponseWriter).Flush()
	}
	if err != nil {
		s.w.broken = nil // the client would not read an error, either
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// event writes a chunk.
func (s *stream) event(r *reply) error {
	data, err := encode(r)
	if err != nil {
		return err
	}
	return s.write("data: " + string(data) + "\n")
}

// chunk writes an addition to one choice.
func (s *stream) chunk(c choice) error {
	r := s.reply()
	if s.usage {
		r.Usage = (*usage)(nil) // null, since the usage comes at the end
	}
	if s.tokens && !s.begun[c.Index] {
		if s.chat {
			r.Prompt = s.prompts[0]
		} else {
			c.Prompt = s.prompts[c.Index/s.n]
		}
	}
	s.begun[c.Index] = true
	r.Choices = append(r.Choices, c)
	return s.event(r)
}

// step writes the chunks of a token, or a comment if no step has come.
func (s *stream) step(t *step) error {
	if t == nil {
		return s.write(": waiting\n\n")
	}
	if s.chat {
		if err := s.roles(); err != nil {
			return err
		}
	}
	for _, c := range s.chunks(t) {
		if err := s.chunk(c); err != nil {
			return err
		}
	}
	if t.end == lm.NotEnded {
		return nil
	}
	last := s.empty(t.choice)
	last.Reason = new(reason(t.end))
	return s.chunk(last)
}

// roles writes the first chunk of each choice of a chat.
func (s *stream) roles() error {
	for i, begun := range s.begun {
		if begun {
			continue
		}
		first := choice{Index: i, Delta: &delta{Role: "assistant", Content: new("")}}
		if err := s.chunk(first); err != nil {
			return err
		}
	}
	return nil
}

// empty returns a choice without an addition.
func (s *stream) empty(i int) choice {
	c := choice{Index: i}
	if s.chat {
		c.Delta = new(delta)
	} else {
		c.Text = new("")
	}
	return c
}

// chunks returns what a token adds; in chats the thought is separate from the answer.
func (s *stream) chunks(t *step) (all []choice) {
	if !s.chat {
		if t.said != "" {
			all = append(all, choice{Index: t.choice, Text: &t.said})
		}
	} else {
		if t.thought != "" {
			all = append(all, choice{Index: t.choice, Delta: &delta{Thought: &t.thought}})
		}
		if t.said != "" {
			all = append(all, choice{Index: t.choice, Delta: &delta{Content: &t.said}})
		}
	}
	if !s.logprobs && !s.tokens {
		return all
	}
	if all == nil {
		all = append(all, s.empty(t.choice))
	}
	if s.tokens {
		all[0].Tokens = []int32{t.id}
	}
	if s.logprobs {
		var one answered
		one.add(t, s.top)
		all[0].Logprobs = s.logprobsOf(&one)
	}
	return all
}
