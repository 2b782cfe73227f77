package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn/models/chat"
	"github.com/seed-1415985d/attn/models/internal/weights"
)

// checkSession refuses what a session of one sequence cannot be with.
func (o *options) checkSession() error {
	switch {
	case o.session == "":
		return nil
	case len(o.prompts) > 1 || o.url != "" || o.accuracy || o.steps || o.prove || o.draftPath != "":
		return errors.New("-session wants one prompt or none, and no -cluster, -accuracy, -steps, " +
			"-prove or -draft")
	case len(o.prompts) == 0 && o.shared != "" && !o.chat:
		return errors.New("-shared is there with a -session and no prompt, want one, which it begins")
	}
	return nil
}

// identify notes by what a session recognizes the model, while its files are open.
func (o *options) identify(l *weights.Loader, m *model) {
	switch {
	case o.session == "" || l.Err != nil:
	case o.model == "":
		m.mark = fmt.Sprintf("random by seed %d", o.seed)
	default:
		m.mark, l.Err = l.Mark()
	}
}

// described is what a session of the run is of, without tokens.
func (o *options) described(m *model) (*description, error) {
	shape := m.config
	shape.Stop, shape.Context = nil, 0 // they change no logits, but for what long says
	long := shape.Scaling.Type == longRope && m.long()
	text, err := json.Marshal(shape)
	sum := sha256.Sum256(fmt.Appendf(text, " %s, long %t", m.mark, long))
	return &description{Model: hex.EncodeToString(sum[:]), Matrices: o.matrices(),
		Cache: o.cacheTypes(), Chat: o.chat}, err
}

// openSession gives the engine the sequence of the session's file, for prompts that begin like it.
// It returns nil if there is no such file.
func (o *options) openSession(e *engine) (d *description, err error) {
	if o.session == "" {
		return nil, nil
	}
	f, err := os.Open(o.session)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	run, err := o.described(e.model)
	if err != nil {
		return nil, err
	}
	seq, err := e.cache.newSequence()
	if err != nil {
		return nil, err
	}
	if d, err = readSession(f, run, seq.(paged), e.context); err != nil {
		seq.release()
		return nil, fmt.Errorf("%s: %w", o.session, err)
	}
	e.shared.release()
	e.prefix, e.shared = d.Tokens[:d.Read], seq
	return d, nil
}

// continued is the prompt, or if there is none all tokens of the session.
func (o *options) continued(prompts [][]int, e *engine) ([][]int, error) {
	d, err := o.openSession(e)
	switch {
	case err != nil:
		return nil, err
	case d == nil && len(prompts) == 0:
		return nil, fmt.Errorf("no prompt, want one as an argument, or a -session that was written: %s "+
			"is not there", o.session)
	case len(prompts) == 0:
		return [][]int{d.Tokens}, nil
	case d == nil:
		return prompts, nil
	}
	return prompts, e.narrow(prompts[0])
}

// closeSession writes the file of a job that has ended, and of a conversation with it.
func (o *options) closeSession(e *engine, j *job, turns int, messages []chat.Message) error {
	if o.session == "" {
		return nil
	}
	d, err := o.described(e.model)
	if err != nil {
		return err
	}
	d.Tokens = j.tokens
	if j.ended {
		d.Tokens = d.Tokens[:len(d.Tokens)-1]
	} else if j.words.ended && !o.chat { // a conversation has messages
		if d.Tokens, err = j.untilStop(e.Vocab); err != nil {
			return err
		}
	}
	d.Read, d.Turns = j.seq.length(), turns
	for _, m := range messages {
		d.Messages = append(d.Messages, savedMessage{m.Role, []byte(m.Content)})
	}
	return writeSession(o.session, d, j.seq.(paged))
}

// untilStop is the tokens of an answer that a text has ended, without that text. What the sequence
// has of more is taken back. Where the text begins within a token, others say what is before it.
func (j *job) untilStop(vocab int) ([]int, error) {
	rest, n := j.words.text, len(j.prompt)
	for ; rest != ""; n++ {
		text := j.words.decode(j.tokens[n])
		if !strings.HasPrefix(rest, text) {
			break
		}
		rest = rest[len(text):]
	}
	tokens := append(slices.Clone(j.tokens[:n]), spelled(rest, vocab, j.words.decode)...)
	return tokens, j.seq.back(min(n, j.seq.length()))
}

// spelled is tokens that say a text, each the longest that it goes on with, as far as there are
// such tokens.
func spelled(text string, vocab int, decode func(int) string) (tokens []int) {
	for text != "" {
		best, longest := 0, ""
		for token := range vocab {
			if says := decode(token); len(says) > len(longest) && strings.HasPrefix(text, says) {
				best, longest = token, says
			}
		}
		if longest == "" {
			break
		}
		tokens, text = append(tokens, best), text[len(longest):]
	}
	return tokens
}

// resume goes on with the conversation of a session.
func (c *conversation) resume() error {
	d, err := c.openSession(c.engine)
	if err != nil || d == nil {
		return err
	}
	said := ""
	for _, m := range d.Messages {
		message := chat.Message{Role: m.Role, Content: strings.ToValidUTF8(string(m.Content), "\uFFFD")}
		if c.messages = append(c.messages, message); m.Role == "system" {
			said, c.messages = message.Content, nil
		}
	}
	if c.shared != "" && c.shared != said {
		return fmt.Errorf("%s: the system says %q in the session, want -system to say the same, or "+
			"nothing", c.session, said)
	}
	if said != "" {
		c.system = []chat.Message{{Role: "system", Content: said}}
	}
	c.turns = d.Turns
	return nil
}
