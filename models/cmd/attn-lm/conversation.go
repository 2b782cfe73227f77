package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed-1415985d/attn/models/chat"
	"github.com/seed-1415985d/attn/models/internal/tokenize"
)

// conversation is messages that take turns. What the model has read of them is not read again.
type conversation struct {
	*options
	engine   *engine
	text     tokenize.Codec
	out      io.Writer
	errs     io.Writer
	system   []chat.Message // none or one
	messages []chat.Message
	last     *job // that answered
	turns    int
}

// converse answers the prompt, if there is one, and then each line as the user's next message.
func (o *options) converse(in io.Reader, out, errs io.Writer, m *model,
	text tokenize.Codec) error {
	e, err := newEngine(m, o.settings)
	if err != nil {
		return err
	}
	defer e.close()
	c := &conversation{options: o, engine: e, text: text, out: out, errs: errs}
	if o.shared != "" {
		c.system = []chat.Message{{Role: "system", Content: o.shared}}
	}
	c.noteControl(o.shared)
	if err := c.resume(); err != nil {
		return err
	}
	for _, prompt := range o.prompts {
		fmt.Fprintf(out, "[1] %s\n", prompt)
		if err := c.answer(prompt); err != nil {
			return fmt.Errorf("prompt 1: %w", err)
		}
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" {
			if err := c.answer(line); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the standard input: %w", err)
	}
	if c.last == nil {
		return fmt.Errorf("no prompt, want one as an argument, or a line of the standard input")
	}
	e.report(out)
	return nil
}

// answer prints what the model says to a message.
func (c *conversation) answer(message string) error {
	c.noteControl(message)
	c.messages = append(c.messages, chat.Message{Role: "user", Content: message})
	prompt, err := c.fit()
	if err != nil {
		return err
	}
	c.noteLong(c.errs, [][]int{prompt}, c.engine.Trained)
	if c.last != nil {
		err = c.engine.follow(c.last, prompt)
	} else if c.session != "" {
		err = c.engine.narrow(prompt)
	}
	if err != nil {
		return err
	}
	j := c.options.job(c.text, prompt, c.turns)
	j.keep = true
	if err := c.engine.submit(j); err != nil {
		return err
	}
	s := &stream{out: c.out, errs: c.errs, prompts: []string{""}, chat: c.text.Template(),
		jobs: []*job{j}, begun: true}
	if err := c.engine.run(s.print); err != nil {
		return err
	}
	// An answer may end within a letter, which no template takes.
	said := strings.ToValidUTF8(j.words.opening+j.words.text, "\uFFFD")
	c.messages = append(c.messages, chat.Message{Role: "assistant", Content: said})
	c.last = j
	c.turns++
	return c.closeSession(c.engine, j, c.turns, slices.Concat(c.system, c.messages))
}

// noteControl says which texts a user might want to be control tokens.
func (c *conversation) noteControl(text string) {
	one := &options{control: c.control, shared: text}
	one.noteControl(c.out, c.text)
}

// fit is the tokens of the conversation, without its oldest turns if the context is full.
func (c *conversation) fit() ([]int, error) {
	dropped := 0
	for {
		prompt, err := c.text.Conversation(c.control, slices.Concat(c.system, c.messages)...)
		if err != nil || len(prompt)+c.most <= c.context || len(c.messages) < 3 {
			if dropped > 0 {
				fmt.Fprintf(c.out, "(The context of %d tokens is full: the oldest %d messages are left "+
					"out.)\n", c.context, dropped)
			}
			return prompt, err
		}
		c.messages, dropped = c.messages[2:], dropped+2
	}
}
